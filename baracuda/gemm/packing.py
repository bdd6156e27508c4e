# SPDX-License-Identifier: Apache-2.0
"""Packs and unpacks 4-bit weights in the layouts of Int4MarlinGemmPlan and Int4AwqGemmPlan.

Functions take arrays of NumPy, PyTorch, CuPy or JAX and return arrays of the same framework and device. Codes are
integers of any width: 0 to 15, or with `signed` -8 to 7; others are InvalidProblemErrors, except under jax.jit, where
the lowest four bits count. A weight is scale (code - zero), with a scale and a zero point for each group of group_size
along k.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

from baracuda.errors import InvalidProblemError, UnsupportedError

_MODULES = {"torch": "torch", "cupy": "cupy", "jaxlib": "jax.numpy", "jax": "jax.numpy"}
_MARLIN = (0, 4, 7, 2, 5, 3, 6, 1)  # axes of (K step, half, pair, of pair, run, tile, block, column) as Marlin has them
_FROM_MARLIN = tuple(sorted(range(8), key=_MARLIN.__getitem__))


def marlin_pack(codes: Any, scales: Any, zeros: Any = None, *, group_size: int = 128, signed: bool = False) -> Any:
    """(weight_packed, scales) of int4_marlin_gemm: i32 of (k / 16, 2 n), and the scales that were given, in its order.

    codes is (k, n), scales (k / 128, n), or (1, n) with group_size -1. Marlin has no zero points: zeros, a number or an
    array of the shape of scales, is folded into the codes, which become code - zero + 8 within 0 to 15. None is 8, or 0
    with `signed`, and changes nothing. k is a multiple of 128, or of 16 with group_size -1, n one of 64.
    """
    k, n = _matrix("codes", codes)
    groups = _marlin_groups(k, n, group_size)
    _require("scales", scales, (groups, n))
    codes = _i32(_within("codes", codes, *((-8, 15) if zeros is not None else _range(signed))))
    if zeros is None:
        codes = codes + 8 if signed else codes
    else:
        if getattr(zeros, "shape", ()):
            _require("zeros", zeros, (groups, n))
            zeros = _i32(_within("zeros", zeros, -8, 15)).reshape(groups, 1, n)
        codes = (codes.reshape(groups, -1, n) - zeros + 8).clip(0, 15)
    codes = codes.reshape(k // 16, 2, 4, 2, n // 64, 4, 2, 8)
    return _words(_axes(codes, _MARLIN).reshape(k // 16, 2 * n, 8)), _marlin_scales(scales, group_size)


def marlin_unpack(weight_packed: Any, scales: Any, *, group_size: int = 128) -> Any:
    """(codes, scales), what marlin_pack was given: codes of 0 to 15 as i32, whose zero point is 8."""
    steps, words = _matrix("weight_packed", weight_packed)
    k, n = 16 * steps, words // 2
    _require("weight_packed", weight_packed, (steps, 2 * n))
    _require("scales", scales, (_marlin_groups(k, n, group_size), n))
    codes = _codes(weight_packed).reshape(steps, n // 64, 8, 4, 4, 2, 2, 2)
    return _axes(codes, _FROM_MARLIN).reshape(k, n), _marlin_scales(scales, group_size)


def awq_pack(codes: Any, scales: Any, zeros: Any = None, *, group_size: int = 128, signed: bool = False) -> Any:
    """(weight_packed, scales, zeros) of int4_awq_gemm: i32 of (n, k / 8), and rows padded as it has them.

    codes is (n, k), a row for each result; scales and zeros, integers, (n, k / group_size). zeros of None is 8, or 0
    with `signed`. group_size is 64 or 128 and divides k.
    """
    n, k = _matrix("codes", codes)
    groups, words = _awq_groups(k, group_size)
    _require("scales", scales, (n, groups))
    if zeros is None:
        zeros = _i32(scales) * 0 + (0 if signed else 8)
    _require("zeros", zeros, (n, groups))
    shift = 8 if signed else 0
    codes, zeros = (_i32(_within(of, each, *_range(signed))) for of, each in (("codes", codes), ("zeros", zeros)))
    packed = [_words((each + shift).reshape(n, -1, 8)) for each in (codes, _padded(zeros, 8 * words))]
    return packed[0], _padded(scales, 8 * words), packed[1]


def awq_unpack(weight_packed: Any, scales: Any, zeros: Any, *, group_size: int = 128) -> Any:
    """(codes, scales, zeros), what awq_pack was given, without padding: codes and zeros of 0 to 15 as i32."""
    n, eighths = _matrix("weight_packed", weight_packed)
    groups, words = _awq_groups(8 * eighths, group_size)
    _require("scales", scales, (n, 8 * words))
    _require("zeros", zeros, (n, words))
    codes, of_groups = (_codes(each).reshape(n, -1) for each in (weight_packed, zeros))
    return codes, scales[:, :groups], of_groups[:, :groups]


def _matrix(name: str, array: Any) -> tuple[int, int]:
    shape = tuple(array.shape)
    if len(shape) != 2:
        raise InvalidProblemError(f"{name} has shape {shape}, must have two axes")
    if "float" in str(array.dtype):
        raise UnsupportedError(f"{name} is of {array.dtype}, must be of integers")
    return shape


def _require(name: str, array: Any, shape: tuple[int, ...]) -> None:
    if tuple(array.shape) != shape:
        raise InvalidProblemError(f"{name} has shape {tuple(array.shape)}, expected {shape}")


def _marlin_groups(k: int, n: int, group_size: int) -> int:
    if group_size not in (128, -1):
        raise InvalidProblemError(f"group_size is {group_size}, must be 128 or -1")
    unit = 16 if group_size == -1 else 128
    if k % unit or not k:
        raise InvalidProblemError(f"k is {k}, must be a multiple of {unit}")
    if n % 64 or not n:
        raise InvalidProblemError(f"n is {n}, must be a multiple of 64")
    return 1 if group_size == -1 else k // 128


def _awq_groups(k: int, group_size: int) -> tuple[int, int]:
    """(groups of a row, words of their zero points)"""
    if group_size not in (64, 128):
        raise InvalidProblemError(f"group_size is {group_size}, must be 64 or 128")
    if k % group_size or not k:
        raise InvalidProblemError(f"k is {k}, must be a multiple of group_size, {group_size}")
    groups, multiple = k // group_size, 128 // group_size
    return groups, -(-groups // (8 * multiple)) * multiple


def _marlin_scales(scales: Any, group_size: int) -> Any:
    """Scales in Marlin's order, or from it: each is the other's inverse."""
    rows, n = scales.shape
    if group_size == -1:
        return _axes(scales.reshape(rows, n // 32, 4, 4, 2), (0, 1, 3, 2, 4)).reshape(rows, n)
    return _axes(scales.reshape(rows, n // 64, 8, 8), (0, 1, 3, 2)).reshape(rows, n)


def _words(codes: Any) -> Any:
    """Eight codes of the last axis to an i32, the first in the lowest bits."""
    words = codes[..., 0] & 15
    for nibble in range(1, 8):
        words = words | ((codes[..., nibble] & 15) << (4 * nibble))
    return words


def _codes(words: Any) -> Any:
    words = _i32(words)
    return _module(words).stack([(words >> (4 * nibble)) & 15 for nibble in range(8)], -1)


def _range(signed: bool) -> tuple[int, int]:
    return (-8, 7) if signed else (0, 15)


def _within(name: str, array: Any, low: int, high: int) -> Any:
    if "Tracer" in type(array).__name__ or not math.prod(array.shape):
        return array
    for found in (int(array.min()), int(array.max())):
        if not low <= found <= high:
            raise InvalidProblemError(f"{name} has {found}, must be in [{low}, {high}]")
    return array


def _i32(array: Any) -> Any:
    return array.astype("int32") if hasattr(array, "astype") else array.int()


def _axes(array: Any, order: Sequence[int]) -> Any:
    return array.permute(*order) if hasattr(array, "permute") else array.transpose(order)


def _padded(array: Any, columns: int) -> Any:
    """Rows padded with zeros to `columns`."""
    shape = (array.shape[0], columns - array.shape[1])
    rest = array.new_zeros(shape) if hasattr(array, "new_zeros") else _module(array).zeros(shape, array.dtype)
    return _module(array).concatenate([array, rest], -1)


def _module(array: Any) -> Any:
    """The array's framework module."""
    return sys.modules[_MODULES.get(type(array).__module__.partition(".")[0], "numpy")]


__all__ = ["awq_pack", "awq_unpack", "marlin_pack", "marlin_unpack"]
