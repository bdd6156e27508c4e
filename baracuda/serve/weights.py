# SPDX-License-Identifier: Apache-2.0
"""Weights of a model on the device: matrices as blocks where the library multiplies by them, all else in one dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

import baracuda as bk
from baracuda.serve.errors import ModelFileError
from baracuda.serve.gguf import Tensor

Array = np.ndarray[Any, Any]


class Matrix(Protocol):
    """A weight matrix (outputs, inputs)."""

    def multiply(self, x: bk.TensorRef, out: bk.TensorRef, *, batch_invariant: bool) -> None:
        """out = x matrix'."""

    def rows(self, indices: bk.TensorRef, out: bk.TensorRef) -> None:
        """The rows that indices name, of an embedding."""


class FloatMatrix:
    """A matrix of floats."""

    def __init__(self, values: Array, dtype: bk.ElementKind, library: bk.Library) -> None:
        self._values = bk.upload(values, dtype, library=library)

    def multiply(self, x: bk.TensorRef, out: bk.TensorRef, *, batch_invariant: bool) -> None:
        bk.linear(x, self._values, batch_invariant=batch_invariant, out=out)

    def rows(self, indices: bk.TensorRef, out: bk.TensorRef) -> None:
        bk.embedding(indices, self._values, out=out)


class QuantizedMatrix:
    """A matrix as the blocks of its file, which products decode on the way, for many rows of x into the workspace."""

    def __init__(self, blocks: Array, form: bk.GgufBlockFormat, library: bk.Library) -> None:
        self._blocks, self._form = bk.upload(blocks, bk.u8, library=library), form

    def multiply(self, x: bk.TensorRef, out: bk.TensorRef, *, batch_invariant: bool) -> None:
        bk.quantized_matmul(x, self._blocks, self._form, batch_invariant=batch_invariant, out=out)

    def rows(self, indices: bk.TensorRef, out: bk.TensorRef) -> None:
        bk.take_blocks(self._blocks, indices, self._form, dtype=out.dtype, out=out)


class Weights:
    """Tensors by name, with their shapes checked, of one dtype but for blocks. With `dequantizes` matrices of blocks
    become floats, too.
    """

    def __init__(
        self, tensors: dict[str, Tensor], library: bk.Library, *, dtype: bk.ElementKind = bk.f32,
        dequantizes: bool = False,
    ) -> None:  # fmt: skip
        self._tensors, self._library, self.dtype = tensors, library, dtype
        self._keeps_blocks = not dequantizes and _multiplies_blocks(library)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def matrix(self, *names: str, shape: tuple[int, int]) -> Matrix:
        """A matrix, or several of `shape` below each other."""
        tensors = [self._tensor(name, shape) for name in names]
        forms = {tensor.format.block for tensor in tensors}
        (form,) = forms if len(forms) == 1 else (None,)
        if form is None or not self._keeps_blocks:
            values = _stacked([tensor.format.decode(tensor.data) for tensor in tensors])
            return FloatMatrix(values, self.dtype, self._library)
        return QuantizedMatrix(_stacked([tensor.data for tensor in tensors]), form, self._library)

    def vector(self, name: str, extent: int) -> bk.TensorRef:
        tensor = self._tensor(name, (extent,))
        return bk.upload(tensor.format.decode(tensor.data).reshape(-1), self.dtype, library=self._library)

    def _tensor(self, name: str, shape: tuple[int, ...]) -> Tensor:
        tensor = self._tensors.get(name)
        if tensor is None:
            raise ModelFileError(f"the file has no tensor {name}")
        if tensor.shape != shape:
            raise ModelFileError(f"{name} has shape {tensor.shape}, must be {shape}")
        return tensor


def _multiplies_blocks(library: bk.Library) -> bool:
    """Whether a library, maybe of some families, has products with blocks and their rows."""
    names = {f"baracuda_kernels_{name}_run" for name in ("quantized_matmul_f32", "take_blocks_f32")}
    return names <= set(library.symbols())


def _stacked(parts: Sequence[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
