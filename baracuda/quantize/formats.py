# SPDX-License-Identifier: Apache-2.0
"""The block formats of GGUF files by their GGML type ids."""

from __future__ import annotations

import numbers

from baracuda._call.scalars import shown
from baracuda.errors import InvalidProblemError
from baracuda.kinds import IntEnum


class GgufBlockFormat(IntEnum):
    """Block formats; values are GGML type ids."""

    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q8_1 = 9
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    Q8_K = 15
    IQ2_XXS = 16
    IQ2_XS = 17
    IQ3_XXS = 18
    IQ1_S = 19
    IQ4_NL = 20
    IQ3_S = 21
    IQ2_S = 22
    IQ4_XS = 23
    IQ1_M = 29
    TQ1_0 = 34
    TQ2_0 = 35
    MXFP4 = 39
    NVFP4 = 40

    @property
    def block_size(self) -> int:
        """Values of a block."""
        return _SMALL_BLOCKS.get(self, 256)

    @property
    def type_size(self) -> int:
        """Bytes of a block."""
        return _BYTES[self]

    @property
    def spelling(self) -> str:
        """Name in symbols of C: q4_K."""
        return self.name.lower().replace("_k", "_K")

    @property
    def is_type_01(self) -> bool:
        """Whether it is one of the formats of 32 values without groups."""
        return self <= GgufBlockFormat.Q8_1

    @property
    def has_mmvq(self) -> bool:
        """Whether mmvq multiplies by it: all formats but q8_1, that of activations, of those that have names in C."""
        return self <= GgufBlockFormat.Q8_K and self is not GgufBlockFormat.Q8_1


_BYTES = {
    GgufBlockFormat.Q4_0: 18, GgufBlockFormat.Q4_1: 20, GgufBlockFormat.Q5_0: 22, GgufBlockFormat.Q5_1: 24,
    GgufBlockFormat.Q8_0: 34, GgufBlockFormat.Q8_1: 36, GgufBlockFormat.Q2_K: 84, GgufBlockFormat.Q3_K: 110,
    GgufBlockFormat.Q4_K: 144, GgufBlockFormat.Q5_K: 176, GgufBlockFormat.Q6_K: 210, GgufBlockFormat.Q8_K: 292,
    GgufBlockFormat.IQ2_XXS: 66, GgufBlockFormat.IQ2_XS: 74, GgufBlockFormat.IQ3_XXS: 98, GgufBlockFormat.IQ1_S: 50,
    GgufBlockFormat.IQ4_NL: 18, GgufBlockFormat.IQ3_S: 110, GgufBlockFormat.IQ2_S: 82, GgufBlockFormat.IQ4_XS: 136,
    GgufBlockFormat.IQ1_M: 56, GgufBlockFormat.TQ1_0: 54, GgufBlockFormat.TQ2_0: 66,
    GgufBlockFormat.MXFP4: 17, GgufBlockFormat.NVFP4: 36,
}  # fmt: skip
_SMALL_BLOCKS = {
    **{each: 32 for each in GgufBlockFormat if each.is_type_01}, GgufBlockFormat.IQ4_NL: 32, GgufBlockFormat.MXFP4: 32,
    GgufBlockFormat.NVFP4: 64,
}  # fmt: skip
_BY_ID = {int(each): each for each in GgufBlockFormat}
_BY_NAME = {each.name.lower(): each for each in GgufBlockFormat}


def block_format(value: object, name: str = "format") -> GgufBlockFormat:
    """A format, given as a member, by its GGML type id, as the package gguf numbers it, or by its name in any
    case, "q4_K".
    """
    found: GgufBlockFormat | None = None
    if isinstance(value, GgufBlockFormat):
        found = value
    elif isinstance(value, str):
        found = _BY_NAME.get(value.lower())
    elif isinstance(value, numbers.Integral) and not isinstance(value, (bool, IntEnum)):
        found = _BY_ID.get(int(value))
    if found is None:
        known = ", ".join(each.spelling for each in GgufBlockFormat)
        raise InvalidProblemError(f"{name} is {shown(value)}, must be one of {known}")
    return found


def values_in(row_bytes: int, chosen: GgufBlockFormat, name: str = "x") -> int:
    """The values of a row of so many bytes."""
    if row_bytes % chosen.type_size:
        raise InvalidProblemError(
            f"{name} has rows of {row_bytes} bytes, must be a multiple of {chosen.type_size}, a {chosen.name} block"
        )
    return row_bytes // chosen.type_size * chosen.block_size


def bytes_of(values: int, chosen: GgufBlockFormat, name: str = "x") -> int:
    """The bytes of a row of so many values."""
    if values % chosen.block_size:
        raise InvalidProblemError(
            f"{name} has rows of {values} values, must be a multiple of {chosen.block_size}, a {chosen.name} block"
        )
    return values // chosen.block_size * chosen.type_size
