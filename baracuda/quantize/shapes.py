# SPDX-License-Identifier: Apache-2.0
"""Extents of codes and scales, as C computes them."""

from __future__ import annotations

from baracuda.errors import InvalidProblemError
from baracuda.kinds import Fp8Scaling, MxFormat, ScaleLayout

FP8_TILE = 128


def mx_code_bytes(n: int, form: MxFormat) -> int:
    """Bytes of n elements; n is a multiple of the format's block."""
    if n % form.block:
        raise InvalidProblemError(f"n is {n}, must be a multiple of {form.block}, the block of {form.name.lower()}")
    return n * form.bits // 8


def mx_scale_shape(rows: int, n: int, form: MxFormat, layout: ScaleLayout) -> tuple[int, int]:
    blocks = n // form.block
    if layout == ScaleLayout.LINEAR:
        return rows, blocks
    return -(-rows // 128) * 128, -(-blocks // 4) * 4


def fp8_scale_shape(rows: int, columns: int, scaling: Fp8Scaling) -> tuple[int, ...]:
    tiles = -(-rows // FP8_TILE), -(-columns // FP8_TILE)
    return {
        Fp8Scaling.TENSOR: (1,), Fp8Scaling.ROWS: (rows,), Fp8Scaling.GROUPS: (rows, tiles[1]),
        Fp8Scaling.BLOCKS: tiles,
    }[scaling]  # fmt: skip
