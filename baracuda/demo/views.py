# SPDX-License-Identifier: Apache-2.0
"""Views of the memory of contiguous tensors."""

from __future__ import annotations

import baracuda as bk


def reshaped(x: bk.TensorRef, *shape: int) -> bk.TensorRef:
    return bk.TensorRef(x.ptr, shape, x.dtype, device=x.device, owner=x)


def flat(x: bk.TensorRef) -> bk.TensorRef:
    """A matrix with the rows of x."""
    return reshaped(x, x.shape[0], x.numel // x.shape[0])


def rows(x: bk.TensorRef, first: int, count: int) -> bk.TensorRef:
    start = x.ptr + first * x.strides[0] * x.dtype.itemsize
    return bk.TensorRef(start, (count, *x.shape[1:]), x.dtype, device=x.device, owner=x)


def transposed(x: bk.TensorRef) -> bk.TensorRef:
    return bk.TensorRef(x.ptr, x.shape[::-1], x.dtype, x.strides[::-1], device=x.device, owner=x)


def as_bytes(x: bk.TensorRef) -> bk.TensorRef:
    return bk.TensorRef(x.ptr, (x.nbytes,), bk.u8, device=x.device, owner=x)
