# SPDX-License-Identifier: Apache-2.0
"""Dequantisation of GGUF blocks: GgufDequantize as one run of values, DequantizeBlocks by rows, TakeBlocks of the rows
that indices name, such as those of an embedding table; QuantizeBlocks, and QuantizeActivations, of which
q8_1 blocks are made.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._call.scalars import as_integer
from baracuda.descriptor import Descriptor
from baracuda.kinds import OpCategory, QuantizeKind
from baracuda.plan import Plan
from baracuda.quantize.formats import GgufBlockFormat, bytes_of


def _count(**options: Any) -> Any:
    return descriptor.checked(lambda name, value: as_integer(name, value, 0), **options)


@dataclasses.dataclass(frozen=True)
class GgufDequantizeDescriptor(Descriptor):
    """numel is a multiple of the format's block; element is f32."""

    block_format: GgufBlockFormat = descriptor.choice(GgufBlockFormat)
    numel: int = _count()

    @property
    def kind(self) -> GgufBlockFormat:
        return self.block_format

    @property
    def byte_count(self) -> int:
        return bytes_of(self.numel, self.block_format, "numel")


class GgufDequantizePlan(Plan):
    """The values of blocks of one format, which stand one behind the other."""

    __slots__ = ()
    op = "dequantize_{kind}"
    category = OpCategory.QUANTIZATION
    kind = QuantizeKind.GGUF_DEQUANTIZE
    spelling: ClassVar = {each: each.spelling for each in GgufBlockFormat}
    elsewhere: ClassVar = {each: "DequantizeBlocksPlan" for each in GgufBlockFormat if not each.has_mmvq}
    names: ClassVar = {"x": "input", "y": "output"}


@dataclasses.dataclass(frozen=True)
class DequantizeBlocksDescriptor(Descriptor):
    """columns values a row, a multiple of the format's block. element: f32, f16 or bf16."""

    block_format: GgufBlockFormat = descriptor.choice(GgufBlockFormat)
    rows: int = _count()
    columns: int = _count()

    @property
    def row_bytes(self) -> int:
        return bytes_of(self.columns, self.block_format, "columns")


class DequantizeBlocksPlan(Plan):
    """The values of rows of blocks."""

    __slots__ = ()
    op = "dequantize_blocks_{T}"
    category = OpCategory.QUANTIZATION
    kind = QuantizeKind.DEQUANTIZE_BLOCKS
    names: ClassVar = {"format": "block_format"}


@dataclasses.dataclass(frozen=True)
class TakeBlocksDescriptor(Descriptor):
    """num_rows rows of columns values each, of which num_indices are taken. element: f32, f16 or bf16."""

    block_format: GgufBlockFormat = descriptor.choice(GgufBlockFormat)
    num_indices: int = _count()
    num_rows: int = _count()
    columns: int = _count()

    @property
    def row_bytes(self) -> int:
        return bytes_of(self.columns, self.block_format, "columns")


class TakeBlocksPlan(Plan):
    """The values of the rows of blocks that indices name; 0 for indices outside [0, num_rows)."""

    __slots__ = ()
    op = "take_blocks{I}_{T}"
    category = OpCategory.QUANTIZATION
    kind = QuantizeKind.TAKE_BLOCKS
    names: ClassVar = {"format": "block_format"}


@dataclasses.dataclass(frozen=True)
class QuantizeBlocksDescriptor(DequantizeBlocksDescriptor):
    """columns values a row, a multiple of the format's block. element: f32, f16 or bf16."""


class QuantizeBlocksPlan(Plan):
    """Rows of values as blocks; importance, a number for each column, weighs the errors."""

    __slots__ = ()
    op = "quantize_blocks_{T}"
    category = OpCategory.QUANTIZATION
    kind = QuantizeKind.QUANTIZE_BLOCKS
    names: ClassVar = {"format": "block_format"}


@dataclasses.dataclass(frozen=True)
class QuantizeActivationsDescriptor(Descriptor):
    """rows of columns values, padded to whole blocks of 32. element: f32, f16 or bf16."""

    rows: int = _count()
    columns: int = _count()

    @property
    def row_bytes(self) -> int:
        return -(-self.columns // 32) * GgufBlockFormat.Q8_1.type_size


class QuantizeActivationsPlan(Plan):
    """Rows as q8_1 blocks, 36 bytes for 32 values."""

    __slots__ = ()
    op = "quantize_q8_1_{T}"
    category = OpCategory.QUANTIZATION
    kind = QuantizeKind.QUANTIZE_ACTIVATIONS
    names: ClassVar = {"kx": "columns", "ny": "rows", "src": "x", "dst_q8_1": "y"}


class QuantizeActivationsWidePlan(QuantizeActivationsPlan):
    """QuantizeActivationsPlan with f32 scales, which never overflow, and without sums."""

    __slots__ = ()
    op = "quantize_q8_1_wide_{T}"
    descriptor_base = QuantizeActivationsDescriptor
