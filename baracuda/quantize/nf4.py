# SPDX-License-Identifier: Apache-2.0
"""NF4 weights whose bytes pair two rows: dequantisation, and products with few vectors.

weight is (n / 2, k) of u8: byte [i, c] has column c of row 2 i in its low and of row 2 i + 1 in its high half. absmax
is (n, k / block_size) of f32. baracuda.quantize.floats has bitsandbytes' layout.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._call.scalars import as_integer
from baracuda.descriptor import Descriptor
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.kinds import IntEnum, OpCategory, QuantizeKind
from baracuda.plan import Plan

_VECTORS = (1, 2, 4, 8)


@dataclasses.dataclass(frozen=True)
class Nf4DequantizeDescriptor(Descriptor):
    """n is even, and block_size, of any size, divides k."""

    n: int = descriptor.extent(1)
    k: int = descriptor.extent(1)
    block_size: int = descriptor.extent(1, default=64)

    @property
    def row_pairs(self) -> int:
        if self.n % 2:
            raise InvalidProblemError(f"n is {self.n}, must be even: bytes have two rows")
        return self.n // 2

    @property
    def blocks(self) -> int:
        if self.k % self.block_size:
            raise InvalidProblemError(f"k is {self.k}, must be a multiple of block_size, {self.block_size}")
        return self.k // self.block_size


class _Nf4Plan(Plan):
    __slots__ = ()
    category = OpCategory.QUANTIZATION
    names: ClassVar = {"w_packed": "weight", "out": "output"}


class Nf4DequantizePlan(_Nf4Plan):
    """Weights as floats: code * absmax, rounded once."""

    __slots__ = ()
    op = "nf4_dequantize_{T}"
    kind = QuantizeKind.NF4_DEQUANTIZE


@dataclasses.dataclass(frozen=True)
class Nf4MmvqDescriptor(Nf4DequantizeDescriptor):
    """The weights' extents."""

    vectors: ClassVar = 1


class Nf4MmvqPlan(_Nf4Plan):
    """output (1, n) = activation (1, k) times the weights, in f32; element is f16 or bf16."""

    __slots__ = ()
    op = "nf4_gemv_m1_{T}"
    kind = QuantizeKind.NF4_PRODUCT
    names: ClassVar = {**_Nf4Plan.names, "y": "activation"}


def _vectors(name: str, value: object) -> int:
    m = as_integer(name, value)
    if m not in _VECTORS:
        raise UnsupportedError(f"{name} is {m}, must be 1, 2, 4 or 8")
    return m


class _Vectors(IntEnum):
    M1 = 1
    M2 = 2
    M4 = 4
    M8 = 8


@dataclasses.dataclass(frozen=True)
class Nf4MmvqMultiMDescriptor(Nf4DequantizeDescriptor):
    """m is 1, 2, 4 or 8."""

    m: int = descriptor.checked(_vectors, default=8)

    @property
    def vectors(self) -> int:
        return self.m

    @property
    def kind(self) -> Any:
        return next((each for each in _Vectors if type(self.m) is int and each == self.m), None)


class Nf4MmvqMultiMPlan(_Nf4Plan):
    """output (m, n) = activations (m, k) times the weights; a row's bits do not depend on m."""

    __slots__ = ()
    op = "nf4_gemv_{kind}_{T}"
    kind = QuantizeKind.NF4_PRODUCT
    rows = tuple([f"nf4_gemv_m{m}_{{T}}" for m in _VECTORS])
    names: ClassVar = {**_Nf4Plan.names, "y": "activations"}
