# SPDX-License-Identifier: Apache-2.0
"""The sizes of a language model and its parameters."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import baracuda as bk
from baracuda.demo.products import Fp8Products, Products
from baracuda.demo.ranks import Alone, Ranks
from baracuda.distributed.mesh import Mesh, Split

ROPE_BASE = 10000.0


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes of a model; `context` is the greatest number of tokens of a text, `hidden` the width within the MLP, and
    `deviation` the standard deviation of the embedding at first. With `experts` an MLP is that many, each of the width
    `hidden`, of which a token has `top_k`.
    """

    vocabulary: int
    context: int
    layers: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    deviation: float = 0.02
    experts: int = 0
    top_k: int = 2

    @property
    def head_dim(self) -> int:
        return self.width // self.heads

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the parameters, by name. Matrices are (out, in), those of experts (experts, out, in)."""
        d, kv = self.width, self.kv_heads * self.head_dim
        each = (self.experts,) if self.experts else ()
        shapes: dict[str, tuple[int, ...]] = {"embedding": (self.vocabulary, d)}
        for layer in range(self.layers):
            of_layer = {
                "attention_norm": (d,), "q": (d, d), "k": (kv, d), "v": (kv, d), "o": (d, d),
                "mlp_norm": (d,), "up": (*each, 2 * self.hidden, d), "down": (*each, d, self.hidden),
            }  # fmt: skip
            if self.experts:
                of_layer["router"] = (self.experts, d)
            shapes |= {f"layers.{layer}.{name}": shape for name, shape in of_layer.items()}
        return shapes | {"norm": (d,)}

    def biases(self) -> dict[str, tuple[int, ...]]:
        """Shapes of what is not learnt from gradients: the biases of experts, f32."""
        return {f"layers.{layer}.balance": (self.experts,) for layer in range(self.layers) if self.experts}

    def splits(self) -> dict[str, Split]:
        """The division of the parameters among the ranks of a tensor group."""
        axes = {"embedding": 0, "q": 0, "k": 0, "v": 0, "o": 1, "up": 0, "down": 1}
        names = {name: name.rpartition(".")[2] for name in self.shapes()}
        return {name: Split(axes.get(last), 2 if last == "up" else 1) for name, last in names.items()}

    def parameters(self) -> int:
        return sum([int(np.prod(shape)) for shape in self.shapes().values()])

    def flops(self, length: int) -> int:
        """Floating point operations of a training step for each token of texts of `length`: 6 for each weight of a
        matrix, and 12 for each query, feature and visible key, which are half of the text.
        """
        used = {2: 1.0, 3: self.top_k / max(self.experts, 1)}  # the share of a matrix that a token meets
        weights = sum([int(np.prod(shape) * used[len(shape)]) for shape in self.shapes().values() if len(shape) > 1])
        return 6 * weights + 6 * self.layers * length * self.width


class Parameters:
    """Values by name, and gradients of a model that is trained; tables of rope's cosines and sines."""

    def __init__(
        self, config: Config, dtype: bk.ElementKind, library: bk.Library, *, has_gradients: bool = False,
        mesh: Mesh | None = None, fp8: str | None = None,
    ) -> None:  # fmt: skip
        self.config, self.dtype, self.library = config, dtype, library
        self.statistics = bk.f64 if dtype is bk.f64 else bk.f32  # dtype of what norms and attention save
        if mesh is not None and config.experts:
            raise bk.UnsupportedError("training of experts by several ranks: baracuda.distributed has the layer alone")
        self.products = Products() if fp8 is None else Fp8Products(fp8, library)
        self.ranks = Alone() if mesh is None else Ranks(mesh, config.splits(), config.shapes(), dtype, library)
        self.heads, self.kv_heads, self.hidden = (
            self.ranks.share(name, getattr(config, name)) for name in ("heads", "kv_heads", "hidden")
        )
        self.gradients: dict[str, bk.TensorRef] = {}
        if self.ranks.sharded is not None:
            self.values, self.gradients = self.ranks.sharded.values, self.ranks.sharded.gradients
        else:
            shapes = config.shapes()
            self.values = {name: bk.zeros(shape, dtype, library=library) for name, shape in shapes.items()}
            if has_gradients:
                self.gradients = {name: bk.zeros(shape, dtype, library=library) for name, shape in shapes.items()}
        # The biases of all layers are one array, which a step moves at once.
        self.balance = bk.zeros((config.layers, config.experts), bk.f32, library=library)
        self.values = {**self.values, **{name: self.balance[k] for k, name in enumerate(config.biases())}}
        half = config.head_dim // 2
        angles = np.arange(config.context)[:, None] * ROPE_BASE ** (-np.arange(half) / half)
        self.cos, self.sin = np.cos(angles), np.sin(angles)

    def initialise(self, seed: int) -> None:
        """Normal numbers, whose standard deviation is 1 / sqrt(n) for a matrix with n inputs, but 0 where its products
        are added to the residual stream, so that each layer begins as the identity. Gains of norms are 1.
        """
        rng = np.random.default_rng(seed)
        for name, shape in self.config.shapes().items():
            if name.endswith("norm"):
                values = np.ones(shape)
            elif name.endswith((".o", ".down")):
                values = np.zeros(shape)
            else:
                deviation = self.config.deviation if name == "embedding" else 1 / np.sqrt(shape[-1])
                values = deviation * rng.standard_normal(shape)
            self.write(name, values)

    def write(self, name: str, values: np.ndarray[Any, Any]) -> None:
        """Set a parameter; of several ranks each takes its part."""
        if self.ranks.sharded is None:
            bk.upload(values, out=self.values[name], library=self.library)
        else:
            self.ranks.write(name, values)

    def ends(self) -> dict[str, bk.TensorRef]:
        """The embedding, which is the output layer too, and the last norm."""
        self.ranks.open(0)
        return self.values

    def layer(self, number: int) -> dict[str, bk.TensorRef]:
        self.ranks.open(number + 1)
        return _of_layer(self.values, number)

    def layer_gradients(self, number: int) -> dict[str, bk.TensorRef]:
        """Those of a layer, before its backward."""
        self.ranks.open_gradients(number + 1)
        return _of_layer(self.gradients, number)


def _of_layer(arrays: dict[str, bk.TensorRef], number: int) -> dict[str, bk.TensorRef]:
    prefix = f"layers.{number}."
    return {name.removeprefix(prefix): view for name, view in arrays.items() if name.startswith(prefix)}
