# SPDX-License-Identifier: Apache-2.0
"""Lossless changes of format, and the packings of published checkpoints, on arrays of NumPy in the memory of the host.

What cannot be kept exactly is an InvalidProblemError; nothing is rounded silently.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from baracuda.errors import InvalidProblemError

__all__ = [
    "ZeroPointRule", "awq_checkpoint", "gptq_checkpoint", "gptq_zero_points", "mxfp4_to_fp8_blocks", "mxfp4_to_nvfp4",
]  # fmt: skip

_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float64)
_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # columns of the nibbles of a word of AutoAWQ, from the lowest bits up
_NAN = 255


class ZeroPointRule(enum.Enum):
    """Rules by which a GPTQ checkpoint stores a zero point z: V1 as z - 1 in four bits, so that 0 is 15; V2 as z."""

    V1 = 1
    V2 = 2


def _nibbles(words: Any, axis: int) -> np.ndarray[Any, Any]:
    """Eight codes of each 32-bit word along an axis, the lowest bits first."""
    words = np.asarray(words)
    if words.dtype.kind not in "iu" or words.dtype.itemsize != 4 or words.ndim != 2:
        raise InvalidProblemError(
            f"words are {words.dtype} of shape {words.shape}, must be a matrix of 32-bit integers"
        )
    each = (words.astype(np.int64)[..., None] >> (4 * np.arange(8))) & 15
    rows, columns = words.shape
    if axis == 0:
        return np.array(each.transpose(0, 2, 1).reshape(8 * rows, columns), np.int32)
    return np.array(each.reshape(rows, 8 * columns), np.int32)


def gptq_zero_points(zeros: Any, rule: ZeroPointRule, to: ZeroPointRule) -> np.ndarray[Any, Any]:
    """Stored zero points of 0 to 15 from one rule to another.

    V1 cannot store 0, nor 16 be a code of V2: z - 1 wraps around to 15 in four bits, and a V1 checkpoint that has 15
    means 16. InvalidProblemError for these.
    """
    found = np.asarray(zeros)
    for name, each in (("rule", rule), ("to", to)):
        if not isinstance(each, ZeroPointRule):
            raise InvalidProblemError(f"{name} is {each!r}, must be a ZeroPointRule")
    if found.dtype.kind not in "iu" or (found.size and (found.min() < 0 or found.max() > 15)):
        raise InvalidProblemError("zeros must be integers of 0 to 15")
    moved = found.astype(np.int32) + (rule is ZeroPointRule.V1) - (to is ZeroPointRule.V1)
    if moved.size and (moved.min() < 0 or moved.max() > 15):
        raise InvalidProblemError(f"zeros: {moved.min()} to {moved.max()} are stored in four bits, must be 0 to 15")
    return moved


def gptq_checkpoint(
    qweight: Any, qzeros: Any, *, rule: ZeroPointRule, g_idx: Any = None
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(codes, zeros, order) of a 4-bit GPTQ layer: codes (k, n) of 0 to 15, zeros (groups, n) as they are subtracted,
    1 to 16 for V1, and the order of K in which groups are adjacent.

    qweight is (k / 8, n) of 32-bit words, eight K elements to a word, qzeros (groups, n / 8), eight columns to a word,
    both lowest bits first. With g_idx, the group of each K element (act-order), codes are sorted by group, and order
    has the K element of each row: activations must be indexed by it. A weight is scale (code - zero).
    """
    if not isinstance(rule, ZeroPointRule):
        raise InvalidProblemError(f"rule is {rule!r}, must be a ZeroPointRule")
    codes, zeros = _nibbles(qweight, 0), _nibbles(qzeros, 1)
    if zeros.shape[1] != codes.shape[1]:
        raise InvalidProblemError(f"qzeros has {zeros.shape[1]} columns, expected {codes.shape[1]}")
    order = np.arange(codes.shape[0])
    if g_idx is not None:
        groups = np.asarray(g_idx)
        if groups.shape != order.shape:
            raise InvalidProblemError(f"g_idx has shape {groups.shape}, expected {order.shape}")
        order = np.argsort(groups, kind="stable")
        size = codes.shape[0] // zeros.shape[0]
        if (groups[order] != np.arange(codes.shape[0]) // size).any():
            raise InvalidProblemError(f"g_idx must have each of {zeros.shape[0]} groups {size} times")
    return codes[order], zeros + (rule is ZeroPointRule.V1), order


def awq_checkpoint(qweight: Any, qzeros: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(codes, zeros) of a 4-bit layer of AutoAWQ: codes (k, n) and zeros (groups, n), 0 to 15.

    qweight is (k, n / 8) and qzeros (groups, n / 8) of 32-bit words, whose nibbles from the lowest bits up are columns
    0 2 4 6 1 3 5 7 of eight. A weight is scale (code - zero). awq_pack and marlin_pack have the layouts of products.
    """
    back = np.argsort(_AWQ_ORDER)
    made = []
    for words in (qweight, qzeros):
        flat = _nibbles(words, 1)
        made.append(np.ascontiguousarray(flat.reshape(len(flat), -1, 8)[:, :, back].reshape(flat.shape)))
    return made[0], made[1]


def _scales(scales: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    found = np.asarray(scales)
    if found.shape != shape or found.dtype != np.uint8:
        raise InvalidProblemError(f"scales are {found.dtype} of shape {found.shape}, expected uint8 of {shape}")
    if (found == _NAN).any():
        raise InvalidProblemError("scales have 255, NaN, which no other format keeps apart from its neighbours")
    return found.astype(np.int64)


def _codes(codes: Any) -> np.ndarray[Any, Any]:
    found = np.asarray(codes)
    if found.dtype != np.uint8 or found.ndim != 2 or found.shape[1] % 16:
        raise InvalidProblemError(f"codes are {found.dtype} of shape {found.shape}, must be uint8 of (rows, n / 2)")
    return found


def mxfp4_to_nvfp4(codes: Any, scales: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(codes, scales, tensor_scale) of NVFP4 with the values of MXFP4: the codes are the same, each scale of 32 becomes
    two of 16, a power of two in e4m3, and tensor_scale, of one f32, is a power of two.

    e4m3 has the powers 2^-9 to 2^8. InvalidProblemError if blocks that are not zeros have scales further apart, or a
    scale of NaN.
    """
    found = _codes(codes)
    exponents = _scales(scales, (found.shape[0], found.shape[1] // 16)) - 127
    used = ((found & 0x77) != 0).reshape(*exponents.shape, 16).any(-1)
    kept = exponents[used]
    top = int(kept.max()) if kept.size else 0
    shared = min(max(top - 8, -126), 127)
    steps = np.where(used, exponents - shared, 0)
    if steps.min(initial=0) < -9:
        raise InvalidProblemError(f"scales: exponents of {kept.min()} to {top} are more than 17 apart")
    normal, subnormal = (steps + 7) << 3, 1 << np.maximum(steps + 9, 0)
    bits = np.where(used, np.where(steps >= -6, normal, subnormal), 0).astype(np.uint8)
    return found.copy(), np.repeat(bits, 2, 1), np.array([2.0**shared], np.float32)


def mxfp4_to_fp8_blocks(codes: Any, scales: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(y, scale) of e4m3, as bytes of u8, and f32 scales of 128 x 128 blocks, with the values of MXFP4.

    An element of e2m1 times 2^s is one of e4m3 for s of -8 to 6: scales of MXFP4 within a block may be 2^14 apart.
    InvalidProblemError if those of blocks that are not zeros are further apart, or one is NaN.
    """
    found = _codes(codes)
    rows, n = found.shape[0], 2 * found.shape[1]
    exponents = _scales(scales, (rows, n // 32)) - 127
    each = np.stack([found & 15, found >> 4], -1).reshape(rows, n)
    values = np.where(each & 8, -1.0, 1.0) * _E2M1[each & 7]
    wide = np.where(_E2M1[each & 7] != 0, np.repeat(exponents, 32, 1), np.iinfo(np.int64).min)
    tiles = -(-rows // 128), -(-n // 128)
    padded = np.full((tiles[0] * 128, tiles[1] * 128), np.iinfo(np.int64).min)
    padded[:rows, :n] = wide
    top = padded.reshape(tiles[0], 128, tiles[1], 128).max((1, 3))
    shared = np.where(top == np.iinfo(np.int64).min, 0, np.clip(top - 6, -126, 127))
    steps = np.repeat(exponents, 32, 1) - np.repeat(np.repeat(shared, 128, 0), 128, 1)[:rows, :n]
    used = values != 0
    if used.any() and steps[used].min() < -8:
        raise InvalidProblemError("scales of a 128 x 128 block are more than 14 powers of two apart")
    magnitude = np.abs(values) * np.exp2(np.where(used, steps, 0))
    fraction, exponent = np.frexp(np.where(used, magnitude, 1.0))
    normal = ((exponent + 6).astype(np.int64) << 3) + np.rint((2 * fraction - 1) * 8).astype(np.int64)
    subnormal = np.rint(magnitude * 2.0**9).astype(np.int64)
    bits = np.where(used, np.where(exponent - 1 >= -6, normal, subnormal), 0) | np.where(np.signbit(values), 0x80, 0)
    return bits.astype(np.uint8), np.exp2(shared.astype(np.float64)).astype(np.float32)
