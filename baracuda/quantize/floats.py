# SPDX-License-Identifier: Apache-2.0
"""Float-coded formats: narrow floats one by one, MX and NVFP4 blocks, blocks of four bits (NF4, FP4) and of eight bits
of a map, and fp8 with f32 scales.

codes are bytes. Layouts, roundings and scale rules are those of the functions on arrays of the same names.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._call.scalars import as_integer
from baracuda.descriptor import Descriptor
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.kinds import (
    CodeBook,
    FloatFormat,
    Fp8Scaling,
    MxFormat,
    OpCategory,
    QuantizeKind,
    ScaleLayout,
    ScaleRule,
)
from baracuda.plan import Plan
from baracuda.quantize.shapes import fp8_scale_shape, mx_code_bytes, mx_scale_shape

_FP8 = (ElementKind.FP8_E4M3, ElementKind.FP8_E5M2)
_FLOATS = (ElementKind.F32, ElementKind.F16, ElementKind.BF16)


class _FloatPlan(Plan):
    __slots__ = ()
    category = OpCategory.QUANTIZATION


def _numel() -> Any:
    return descriptor.checked(lambda name, value: as_integer(name, value, 0))


def _even(name: str, value: object) -> int:
    size = as_integer(name, value, 1, 2**31 - 1)
    if size % 2:
        raise InvalidProblemError(f"{name} is {size}, must be even")
    return size


def _block(default: int) -> Any:
    return descriptor.checked(_even, default=default)


def _choice(kind: Any, default: Any) -> Any:
    return dataclasses.field(default=default, metadata=dict(descriptor.choice(kind).metadata))


# --- narrow floats ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class EncodeFloatsDescriptor(Descriptor):
    """numel elements, a byte each; element is the dtype of the wide side."""

    numel: int = _numel()
    float_format: FloatFormat = descriptor.choice(FloatFormat)


class EncodeFloatsPlan(_FloatPlan):
    """Floats as codes of a narrow format, rounded to nearest even and saturated."""

    __slots__ = ()
    op = "encode_floats_{T}"
    kind = QuantizeKind.ENCODE_FLOATS


@dataclasses.dataclass(frozen=True)
class DecodeFloatsDescriptor(EncodeFloatsDescriptor):
    """Fields of EncodeFloatsDescriptor."""


class DecodeFloatsPlan(_FloatPlan):
    """Codes of a narrow format as floats."""

    __slots__ = ()
    op = "decode_floats_{T}"
    kind = QuantizeKind.DECODE_FLOATS


# --- MX and NVFP4 ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class DequantizeMxDescriptor(Descriptor):
    """n is a multiple of the format's block."""

    rows: int = descriptor.extent()
    n: int = descriptor.extent()
    mx_format: MxFormat = _choice(MxFormat, MxFormat.MXFP4)
    scale_layout: ScaleLayout = _choice(ScaleLayout, ScaleLayout.LINEAR)

    @property
    def code_bytes(self) -> int:
        return mx_code_bytes(self.n, self.mx_format)

    @property
    def scale_rows(self) -> int:
        return mx_scale_shape(self.rows, self.n, self.mx_format, self.scale_layout)[0]

    @property
    def scale_columns(self) -> int:
        return mx_scale_shape(self.rows, self.n, self.mx_format, self.scale_layout)[1]


class DequantizeMxPlan(_FloatPlan):
    """Blocks of narrow elements as floats: element * scale."""

    __slots__ = ()
    op = "dequantize_mx_{T}"
    kind = QuantizeKind.MX_DEQUANTIZE


@dataclasses.dataclass(frozen=True)
class QuantizeMxDescriptor(DequantizeMxDescriptor):
    """scale_rule is of e8m0 scales alone."""

    scale_rule: ScaleRule = _choice(ScaleRule, ScaleRule.FLOOR)


class QuantizeMxPlan(_FloatPlan):
    """Floats as blocks of narrow elements with narrow scales; tensor_scale is of NVFP4."""

    __slots__ = ()
    op = "quantize_mx_{T}"
    kind = QuantizeKind.MX_QUANTIZE


@dataclasses.dataclass(frozen=True)
class SwizzleScalesDescriptor(Descriptor):
    """rows x blocks scales; element is u8. backward is from tiles to rows."""

    rows: int = descriptor.extent()
    blocks: int = descriptor.extent()
    backward: bool = descriptor.flag()

    def _side(self, is_tiled: bool) -> tuple[int, int]:
        return (-(-self.rows // 128) * 128, -(-self.blocks // 4) * 4) if is_tiled else (self.rows, self.blocks)

    @property
    def shape_in(self) -> tuple[int, int]:
        return self._side(self.backward)

    @property
    def shape_out(self) -> tuple[int, int]:
        return self._side(not self.backward)


class SwizzleScalesPlan(_FloatPlan):
    """Scales of blocks from rows to the tiles of tensor cores, 128 rows by 4 blocks, or back."""

    __slots__ = ()
    op = "swizzle_scales_{T}"
    kind = QuantizeKind.SWIZZLE_SCALES
    shapes: ClassVar = {"x": "shape_in", "y": "shape_out"}


# --- four and eight bits ---------------------------------------------------------------------------------------------


class _Maxima(Descriptor):
    """Extents of the largest magnitudes of a flat array in blocks."""

    numel: int
    block_size: int

    @property
    def code_bytes(self) -> int:
        return -(-self.numel // 2)

    @property
    def blocks(self) -> int:
        return -(-self.numel // self.block_size)

    @property
    def outer_blocks(self) -> int:
        return -(-self.blocks // 256)


@dataclasses.dataclass(frozen=True)
class Quantize4BitDescriptor(_Maxima):
    """numel elements in blocks of an even block_size."""

    numel: int = _numel()
    block_size: int = _block(64)
    book: CodeBook = _choice(CodeBook, CodeBook.NF4)


class Quantize4BitPlan(_FloatPlan):
    """Floats as codes of a code book and the largest magnitude of each block, in bitsandbytes' layout."""

    __slots__ = ()
    op = "quantize_4bit_{T}"
    kind = QuantizeKind.FOUR_BIT_QUANTIZE


@dataclasses.dataclass(frozen=True)
class Dequantize4BitDescriptor(Quantize4BitDescriptor):
    """Fields of Quantize4BitDescriptor."""


class Dequantize4BitPlan(_FloatPlan):
    """Codes as floats. The magnitudes are absmax, or absmax_codes with their map, outer magnitudes and offset."""

    __slots__ = ()
    op = "dequantize_4bit_{T}"
    kind = QuantizeKind.FOUR_BIT_DEQUANTIZE


@dataclasses.dataclass(frozen=True)
class Gemv4BitDescriptor(_Maxima):
    """(m, k) times the transpose of (n, k)."""

    m: int = descriptor.extent()
    n: int = descriptor.extent()
    k: int = descriptor.extent()
    block_size: int = _block(64)
    book: CodeBook = _choice(CodeBook, CodeBook.NF4)

    @property
    def numel(self) -> int:  # type: ignore[override]
        return math.prod((self.n, self.k))


class Gemv4BitPlan(_FloatPlan):
    """y = x times the transpose of the weights, plus bias, eight rows of x at a time."""

    __slots__ = ()
    op = "gemv_4bit_{T}"
    kind = QuantizeKind.FOUR_BIT_PRODUCT


@dataclasses.dataclass(frozen=True)
class Quantize8BitBlocksDescriptor(_Maxima):
    """numel elements in blocks of an even block_size."""

    numel: int = _numel()
    block_size: int = _block(256)


class Quantize8BitBlocksPlan(_FloatPlan):
    """Floats less offset as codes of a map of 256 values and the largest magnitude of each block."""

    __slots__ = ()
    op = "quantize_8bit_blocks_{T}"
    kind = QuantizeKind.EIGHT_BIT_QUANTIZE


@dataclasses.dataclass(frozen=True)
class Dequantize8BitBlocksDescriptor(Quantize8BitBlocksDescriptor):
    """Fields of Quantize8BitBlocksDescriptor."""


class Dequantize8BitBlocksPlan(_FloatPlan):
    """map[code] * absmax + offset."""

    __slots__ = ()
    op = "dequantize_8bit_blocks_{T}"
    kind = QuantizeKind.EIGHT_BIT_DEQUANTIZE


# --- fp8 with f32 scales ---------------------------------------------------------------------------------------------


def _one_of(choices: tuple[ElementKind, ...]) -> Any:
    def check(name: str, value: Any) -> ElementKind:
        element = as_element(value, name)
        if element not in choices:
            raise UnsupportedError(f"{name} is {element}, must be one of {', '.join(map(str, choices))}")
        return element

    return descriptor.checked(check, default=choices[0])


@dataclasses.dataclass(frozen=True)
class QuantizeFp8Descriptor(Descriptor):
    """element is the dtype of x, output_element that of the codes."""

    rows: int = descriptor.extent()
    columns: int = descriptor.extent()
    scaling: Fp8Scaling = _choice(Fp8Scaling, Fp8Scaling.GROUPS)
    powers_of_two: bool = descriptor.flag()
    output_element: ElementKind = _one_of(_FP8)

    @property
    def scale_count(self) -> int:
        return math.prod(fp8_scale_shape(self.rows, self.columns, self.scaling))

    @property
    def scale_count_t(self) -> int:
        return math.prod(fp8_scale_shape(self.columns, self.rows, self.scaling))


class QuantizeFp8Plan(_FloatPlan):
    """A matrix as 8-bit floats and f32 scales, by rows, transposed, or both in one pass."""

    __slots__ = ()
    op = "quantize_fp8_{T}_{U}"
    kind = QuantizeKind.FP8_QUANTIZE
    names: ClassVar = {"fp8_scaling": "scaling"}


@dataclasses.dataclass(frozen=True)
class DequantizeFp8Descriptor(Descriptor):
    """element is the dtype of the codes, output_element that of the values."""

    rows: int = descriptor.extent()
    columns: int = descriptor.extent()
    scaling: Fp8Scaling = _choice(Fp8Scaling, Fp8Scaling.GROUPS)
    output_element: ElementKind = _one_of(_FLOATS)

    @property
    def scale_count(self) -> int:
        return math.prod(fp8_scale_shape(self.rows, self.columns, self.scaling))


class DequantizeFp8Plan(_FloatPlan):
    """codes * scale."""

    __slots__ = ()
    op = "dequantize_fp8_{T}_{U}"
    kind = QuantizeKind.FP8_DEQUANTIZE
    names: ClassVar = {"fp8_scaling": "scaling"}
