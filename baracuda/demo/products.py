# SPDX-License-Identifier: Apache-2.0
"""Products of a layer with its matrices, forward and backward: of the dtype of the model, or of 8-bit floats."""

from __future__ import annotations

import baracuda as bk
from baracuda.fp8 import Linear, Saved


class Products:
    """`key` names a matrix of a layer."""

    def forward(self, key: tuple[int, str], x: bk.TensorRef, weight: bk.TensorRef, out: bk.TensorRef) -> None:
        """x weight'"""
        bk.linear(x, weight, out=out)

    def backward(
        self, key: tuple[int, str], dy: bk.TensorRef, x: bk.TensorRef, weight: bk.TensorRef, dweight: bk.TensorRef,
        dx: bk.TensorRef, *, is_added: bool = False,
    ) -> None:  # fmt: skip
        """The gradient of the weight is added to dweight, that of x is dx or, with is_added, added to it."""
        if is_added:
            bk.addmm(dx, dy, weight, out=dx)
        else:
            bk.matmul(dy, weight, out=dx)
        bk.addmm(dweight, dy.T, x, out=dweight)

    def update(self) -> None:
        """A step of training ends."""


class Fp8Products(Products):
    """Products by a recipe of baracuda.fp8, with scales for each matrix."""

    def __init__(self, recipe: str, library: bk.Library) -> None:
        self.recipe, self.library = recipe, library
        self.layers: dict[tuple[int, str], Linear] = {}
        self.saved: dict[tuple[int, str], Saved] = {}

    def forward(self, key: tuple[int, str], x: bk.TensorRef, weight: bk.TensorRef, out: bk.TensorRef) -> None:
        if key not in self.layers:  # not while a graph is captured
            self.layers[key] = Linear(self.recipe, library=self.library)
        _, self.saved[key] = self.layers[key].forward(x, weight, out=out)

    def backward(
        self, key: tuple[int, str], dy: bk.TensorRef, x: bk.TensorRef, weight: bk.TensorRef, dweight: bk.TensorRef,
        dx: bk.TensorRef, *, is_added: bool = False,
    ) -> None:  # fmt: skip
        found, dw = self.layers[key].backward(dy, self.saved[key])
        bk.add(dweight, dw, out=dweight)
        if is_added:
            bk.add(dx, found, out=dx)
        else:
            bk.cast(found, dx.dtype, out=dx)

    def update(self) -> None:
        for layer in self.layers.values():
            layer.update()
