# SPDX-License-Identifier: Apache-2.0
"""Linear layers of float-coded weights, largest magnitudes in eight bits, and swizzled scales.

They take the arrays that `baracuda.functions` takes. Results belong to the framework of the first array and are on its
device and stream.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from baracuda import functions
from baracuda._arrays.shaping import given_array, reshaped
from baracuda.errors import InvalidProblemError, naming
from baracuda.quantize.affine import CALLS

__all__ = ["compress_absmax", "dynamic_map", "linear_4bit"]

_OUTER_BLOCK = 256


def dynamic_map(signed: bool = True) -> np.ndarray[Any, Any]:
    """bitsandbytes' map of 256 ascending values in [-1, 1] (8-bit optimizers, arXiv 2110.02861, 2.2), for
    quantize_8bit_blocks: seven decades of magnitudes, each with twice as many values as the one below, 0 and 1. Without
    a sign the values are in [0, 1].
    """
    found = [0.0, 1.0]
    for decade in range(7):
        steps = 2 ** (decade + (not signed)) + 1
        bounds = np.linspace(0.1, 1, steps)
        middle = 10.0 ** (decade - 6) * (bounds[:-1] + bounds[1:]) / 2
        found += [*middle, *(-middle if signed else ())]
    found += [0.0] * (256 - len(found))
    return np.sort(np.array(found)).astype(np.float32)


@naming("compress_absmax")
def compress_absmax(absmax: Any, map: Any) -> tuple[Any, Any, Any]:
    """(codes, outer, offset): largest magnitudes in eight bits ("double quantisation", QLoRA, arXiv 2305.14314).

    offset is the mean of absmax, of one element; absmax less offset is quantised in blocks of 256 by map, of 256
    ascending values (bk.dynamic_map()). They are the arguments absmax_codes, absmax_outer and absmax_offset of
    dequantize_4bit and linear_4bit, whose absmax_map is map.

    InvalidProblemError for an absmax without elements.
    """
    absmax = given_array(absmax, "absmax")
    if not math.prod(absmax.shape):
        raise InvalidProblemError(f"absmax has shape {tuple(absmax.shape)}, must have an element")
    offset = reshaped(functions.mean(absmax), (1,))
    codes, outer = functions.quantize_8bit_blocks(absmax, map, offset, block_size=_OUTER_BLOCK)
    return codes, outer, offset


@naming("linear_4bit")
def linear_4bit(
    x: Any, codes: Any, absmax: Any = None, absmax_codes: Any = None, absmax_map: Any = None, absmax_outer: Any = None,
    absmax_offset: Any = None, bias: Any = None, *, n: int, block_size: int = 64, book: str = "nf4",
) -> Any:  # fmt: skip
    """x times the transpose of an (n, k) matrix in four bits, plus bias: x is (..., k), the result (..., n).

    The other arguments are those of dequantize_4bit. Up to 16 rows of x are multiplied by the codes (gemv_4bit); for
    more the weights become floats of x's dtype first.
    """
    maxima = (absmax, absmax_codes, absmax_map, absmax_outer, absmax_offset)
    return CALLS.linear_4bit(given_array(x, "x"), codes, *maxima, bias, n=n, block_size=block_size, book=book)
