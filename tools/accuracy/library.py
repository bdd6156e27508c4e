# SPDX-License-Identifier: Apache-2.0
"""Calls a function of a library on bits in host memory."""

from __future__ import annotations

import functools

import numpy as np

import baracuda as bk
from tools.accuracy.functions import Function
from tools.accuracy.ulp import Array


def run(library: bk.Library, function: Function, dtype: str, *operands: Array) -> Array:
    """Bits of the function's results."""
    kind = operands[0].dtype
    device = [_uploaded(library, bits) for bits in operands]
    result = bk.empty(operands[0].shape, _carrier(kind), library=library)
    call(library, function, dtype, operands[0].size, [v.ptr for v in device], result.ptr)
    bk.synchronize(library=library)
    return bk.download(result, library=library).view(kind)


def call(
    library: bk.Library, function: Function, dtype: str, numel: int, operands: list[int], result: int, stream: int = 0
) -> None:
    """Enqueues the function on device pointers."""
    op, ffi = function.op(dtype), library.ffi
    pointers = [ffi.cast("void*", p) for p in (*operands, result)]
    status = library.function(op)(numel, *pointers, *function.parameters, ffi.NULL, 0, ffi.cast("void*", stream))
    library.check(op, status)


def _carrier(kind: np.dtype) -> object:
    """Views bits as floats of the same width."""
    return {2: bk.f16, 4: bk.f32, 8: bk.f64}[kind.itemsize]


def _uploaded(library: bk.Library, bits: Array) -> bk.TensorRef:
    return bk.upload(bits.view(f"f{bits.dtype.itemsize}"), library=library)


@functools.cache
def has(library: bk.Library, op: str) -> bool:
    try:
        return bool(library.function(op))
    except bk.UnsupportedError:
        return False
