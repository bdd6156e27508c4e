# SPDX-License-Identifier: Apache-2.0
"""Weights of a model on the device: matrices in the file's quantised format behind `Matrix`, vectors in f32."""

from __future__ import annotations

from typing import Any

import numpy as np

import baracuda as bk
from baracuda.serve.errors import ModelFileError
from baracuda.serve.gguf import Tensor

Array = np.ndarray[Any, Any]


class Matrix:
    """A weight matrix (outputs, inputs), whose product with activations is the one that the library has for it."""

    def __init__(self, values: Array, library: bk.Library) -> None:
        self.outputs, self.inputs = values.shape
        self._values = bk.upload(values, bk.f32, library=library)

    def multiply(self, x: bk.TensorRef, out: bk.TensorRef, *, batch_invariant: bool) -> None:
        """out = x matrix'."""
        bk.linear(x, self._values, batch_invariant=batch_invariant, out=out)

    def rows(self, indices: bk.TensorRef, out: bk.TensorRef) -> None:
        """The rows that indices name, of an embedding."""
        bk.embedding(indices, self._values, out=out)


class Weights:
    """Tensors by name, with their shapes checked."""

    def __init__(self, tensors: dict[str, Tensor], library: bk.Library) -> None:
        self._tensors, self._library = tensors, library

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def matrix(self, *names: str, shape: tuple[int, int]) -> Matrix:
        """A matrix, or several of `shape` below each other."""
        values = [self._values(name, shape) for name in names]
        return Matrix(values[0] if len(values) == 1 else np.concatenate(values), self._library)

    def vector(self, name: str, extent: int) -> bk.TensorRef:
        return bk.upload(self._values(name, (extent,)), bk.f32, library=self._library)

    def _values(self, name: str, shape: tuple[int, ...]) -> Array:
        tensor = self._tensors.get(name)
        if tensor is None:
            raise ModelFileError(f"the file has no tensor {name}")
        if tensor.shape != shape:
            raise ModelFileError(f"{name} has shape {tensor.shape}, must be {shape}")
        return tensor.format.decode(tensor.data).reshape(shape)
