# SPDX-License-Identifier: Apache-2.0
"""The sizes of a language model and its parameters."""

from __future__ import annotations

import dataclasses

import numpy as np

import baracuda as bk

ROPE_BASE = 10000.0


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes of a model; `context` is the greatest number of tokens of a text, `hidden` the width within the MLP, and
    `deviation` the standard deviation of the embedding at first.
    """

    vocabulary: int
    context: int
    layers: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    deviation: float = 0.02

    @property
    def head_dim(self) -> int:
        return self.width // self.heads

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the parameters, by name. Matrices are (out, in)."""
        d, kv = self.width, self.kv_heads * self.head_dim
        shapes: dict[str, tuple[int, ...]] = {"embedding": (self.vocabulary, d)}
        for layer in range(self.layers):
            of_layer = {
                "attention_norm": (d,), "q": (d, d), "k": (kv, d), "v": (kv, d), "o": (d, d),
                "mlp_norm": (d,), "up": (2 * self.hidden, d), "down": (d, self.hidden),
            }  # fmt: skip
            shapes |= {f"layers.{layer}.{name}": shape for name, shape in of_layer.items()}
        return shapes | {"norm": (d,)}

    def parameters(self) -> int:
        return sum([int(np.prod(shape)) for shape in self.shapes().values()])

    def flops(self, length: int) -> int:
        """Floating point operations of a training step for each token of texts of `length`: 6 for each weight of a
        matrix, and 12 for each query, feature and visible key, which are half of the text.
        """
        weights = sum([shape[0] * shape[1] for shape in self.shapes().values() if len(shape) == 2])
        return 6 * weights + 6 * self.layers * length * self.width


class Parameters:
    """Values by name, and gradients of a model that is trained; tables of rope's cosines and sines."""

    def __init__(
        self, config: Config, dtype: bk.ElementKind, library: bk.Library, *, has_gradients: bool = False
    ) -> None:
        self.config, self.dtype, self.library = config, dtype, library
        self.statistics = bk.f64 if dtype is bk.f64 else bk.f32  # dtype of what norms and attention save
        shapes = config.shapes()
        self.values = {name: bk.zeros(shape, dtype, library=library) for name, shape in shapes.items()}
        self.gradients: dict[str, bk.TensorRef] = {}
        if has_gradients:
            self.gradients = {name: bk.zeros(shape, dtype, library=library) for name, shape in shapes.items()}
        half = config.head_dim // 2
        angles = np.arange(config.context)[:, None] * ROPE_BASE ** (-np.arange(half) / half)
        self.cos, self.sin = np.cos(angles), np.sin(angles)

    def initialise(self, seed: int) -> None:
        """Normal numbers, whose standard deviation is 1 / sqrt(n) for a matrix with n inputs, but 0 where its products
        are added to the residual stream, so that each layer begins as the identity. Gains of norms are 1.
        """
        rng = np.random.default_rng(seed)
        for name, view in self.values.items():
            if name.endswith("norm"):
                values = np.ones(view.shape)
            elif name.endswith((".o", ".down")):
                values = np.zeros(view.shape)
            else:
                deviation = self.config.deviation if name == "embedding" else 1 / np.sqrt(view.shape[-1])
                values = deviation * rng.standard_normal(view.shape)
            bk.upload(values, out=view, library=self.library)

    def layer(self, number: int) -> dict[str, bk.TensorRef]:
        return _of_layer(self.values, number)

    def layer_gradients(self, number: int) -> dict[str, bk.TensorRef]:
        return _of_layer(self.gradients, number)


def _of_layer(arrays: dict[str, bk.TensorRef], number: int) -> dict[str, bk.TensorRef]:
    prefix = f"layers.{number}."
    return {name.removeprefix(prefix): view for name, view in arrays.items() if name.startswith(prefix)}
