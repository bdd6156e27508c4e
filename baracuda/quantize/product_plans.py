# SPDX-License-Identifier: Apache-2.0
"""Products of any number of rows with coded weights: QuantizedMatmul of GGUF blocks, MxMatmul of MX and NVFP4."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._call.scalars import as_integer
from baracuda.descriptor import Descriptor
from baracuda.guarantee import BATCH_INVARIANT
from baracuda.kinds import MxFormat, OpCategory, QuantizeKind, ScaleLayout
from baracuda.plan import Plan
from baracuda.quantize.formats import GgufBlockFormat, bytes_of
from baracuda.quantize.shapes import mx_code_bytes, mx_scale_shape


def _count() -> Any:
    return descriptor.checked(lambda name, value: as_integer(name, value, 0))


@dataclasses.dataclass(frozen=True)
class QuantizedMatmulDescriptor(Descriptor):
    """m rows of k activations, n rows of k weights; k is a multiple of the block. element: f32, f16 or bf16."""

    block_format: GgufBlockFormat = descriptor.choice(GgufBlockFormat)
    m: int = _count()
    n: int = _count()
    k: int = _count()

    @property
    def row_bytes(self) -> int:
        return bytes_of(self.k, self.block_format, "k")


class QuantizedMatmulPlan(Plan):
    """y (m, n) = x (m, k) w^T + bias, with the decoded weights, in f32."""

    __slots__ = ()
    op = "quantized_matmul_{T}"
    category = OpCategory.QUANTIZATION
    kind = QuantizeKind.QUANTIZED_MATMUL
    names: ClassVar = {"format": "block_format"}

    @property
    def numbers(self) -> dict[str, Any]:
        return {"backend": BATCH_INVARIANT if self.preference.batch_invariant else 0}


@dataclasses.dataclass(frozen=True)
class MxMatmulDescriptor(Descriptor):
    """m rows of k activations, n rows of k weights; k is a multiple of the block. element: f32, f16 or bf16."""

    m: int = _count()
    n: int = _count()
    k: int = _count()
    mx_format: MxFormat = descriptor.choice(MxFormat, default=MxFormat.MXFP4)
    scale_layout: ScaleLayout = descriptor.choice(ScaleLayout, default=ScaleLayout.LINEAR)

    @property
    def code_bytes(self) -> int:
        return mx_code_bytes(self.k, self.mx_format)

    @property
    def scale_rows(self) -> int:
        return mx_scale_shape(self.n, self.k, self.mx_format, self.scale_layout)[0]

    @property
    def scale_columns(self) -> int:
        return mx_scale_shape(self.n, self.k, self.mx_format, self.scale_layout)[1]


class MxMatmulPlan(Plan):
    """y (m, n) = x (m, k) w^T + bias, with the weights of QuantizeMxPlan, in f32."""

    __slots__ = ()
    op = "mx_matmul_{T}"
    category = OpCategory.QUANTIZATION
    kind = QuantizeKind.MX_PRODUCT

    @property
    def numbers(self) -> dict[str, Any]:
        return {"backend": BATCH_INVARIANT if self.preference.batch_invariant else 0}
