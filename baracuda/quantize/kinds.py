# SPDX-License-Identifier: Apache-2.0
"""Enumerations of quantisation: ops, formats and what shares a scale."""

from __future__ import annotations

from baracuda._enumeration import IntEnum


class QuantizeKind(IntEnum):
    """Numbers from 200 up are ours."""

    PER_TENSOR = 0
    PER_TENSOR_BACKWARD = 1
    DEQUANTIZE_PER_TENSOR = 2
    DEQUANTIZE_PER_TENSOR_BACKWARD = 3
    PER_CHANNEL = 4
    PER_CHANNEL_BACKWARD = 5
    DEQUANTIZE_PER_CHANNEL = 6
    DEQUANTIZE_PER_CHANNEL_BACKWARD = 7
    FAKE_QUANTIZE = 8
    FAKE_QUANTIZE_BACKWARD = 9
    PER_TOKEN = 16
    PER_TOKEN_BACKWARD = 17
    PER_GROUP = 18
    PER_GROUP_BACKWARD = 19
    DYNAMIC_RANGE = 20
    DEQUANTIZE_PER_TOKEN = 21
    DEQUANTIZE_PER_TOKEN_BACKWARD = 22
    DEQUANTIZE_PER_GROUP = 23
    DEQUANTIZE_PER_GROUP_BACKWARD = 24
    QUANTIZED_LINEAR = 25
    GGUF_DEQUANTIZE = 26
    GGUF_MMVQ = 27
    DEQUANTIZE_BLOCKS = 200
    QUANTIZE_BLOCKS = 201
    TAKE_BLOCKS = 202
    QUANTIZE_ACTIVATIONS = 203
    QUANTIZED_MATMUL = 204
    INTEGER_PRODUCT = 205
    NF4_DEQUANTIZE = 220
    NF4_PRODUCT = 221
    FOUR_BIT_QUANTIZE = 222
    FOUR_BIT_DEQUANTIZE = 223
    FOUR_BIT_PRODUCT = 224
    EIGHT_BIT_QUANTIZE = 225
    EIGHT_BIT_DEQUANTIZE = 226
    ENCODE_FLOATS = 227
    DECODE_FLOATS = 228
    MX_QUANTIZE = 229
    MX_DEQUANTIZE = 230
    SWIZZLE_SCALES = 231
    FP8_QUANTIZE = 232
    FP8_DEQUANTIZE = 233
    MX_PRODUCT = 234


class DynamicRangeMode(IntEnum):
    """SYMMETRIC ranges have zero point 0."""

    SYMMETRIC = 0
    ASYMMETRIC = 1


class DynamicRangeScope(IntEnum):
    """Elements that share a scale."""

    TENSOR = 0
    CHANNEL = 1
    TOKEN = 2
    GROUP = 3


class CodeBook(IntEnum):
    """Sixteen values in [-1, 1] that codes of four bits stand for."""

    NF4 = 0
    FP4 = 1


class FloatFormat(IntEnum):
    """Floats of 4, 6 and 8 bits, a byte each, in the low bits."""

    E2M1 = 0
    E2M3 = 1
    E3M2 = 2
    E4M3 = 3
    E5M2 = 4
    E4M3_FNUZ = 5
    E5M2_FNUZ = 6
    E8M0 = 7


class MxFormat(IntEnum):
    """Block formats: 32 elements with a scale of e8m0, or in NVFP4 16 elements with one of e4m3."""

    MXFP4 = 0
    MXFP6_E2M3 = 1
    MXFP6_E3M2 = 2
    MXFP8_E4M3 = 3
    MXFP8_E5M2 = 4
    MXINT8 = 5
    NVFP4 = 6

    @property
    def block(self) -> int:
        """Elements with one scale."""
        return 16 if self is MxFormat.NVFP4 else 32

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return 4 if self in (MxFormat.MXFP4, MxFormat.NVFP4) else 6 if "MXFP6" in self.name else 8


class ScaleRule(IntEnum):
    """The exponent of an e8m0 scale, by the largest magnitude of the block."""

    FLOOR = 0
    CEIL = 1
    ROUND = 2


class ScaleLayout(IntEnum):
    """The order of a matrix of scales in memory."""

    LINEAR = 0
    SWIZZLED_128X4 = 1


class Fp8Scaling(IntEnum):
    """The elements that share a scale."""

    TENSOR = 0
    ROWS = 1
    GROUPS = 2
    BLOCKS = 3
