# SPDX-License-Identifier: Apache-2.0
"""Fft, Rfft and Irfft of rows, FftNd, RfftNd and IrfftNd of arrays behind a batch, and FftShiftNd: contiguous arrays.

Forward transforms have no factor; inverses are divided by the product of the lengths. Operands are x and y; a complex
transform works in place. Strided operands are served, too: extents are those of the descriptor.
"""

from __future__ import annotations

import dataclasses
import math
from enum import IntEnum
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._call.c_call import op_names
from baracuda._call.scalars import INT32_MAX, as_integers
from baracuda.descriptor import Descriptor, ShapedDescriptor
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError
from baracuda.fft.kinds import FftKind
from baracuda.kinds import OpCategory
from baracuda.plan import Plan

_MOST_AXES = 7  # behind the batch


def _dims(name: str, value: object) -> tuple[int, ...]:
    dims = as_integers(name, value, 1, INT32_MAX)
    if not 1 <= len(dims) <= _MOST_AXES:
        raise InvalidProblemError(f"{name} is {dims}, must have 1 to {_MOST_AXES} lengths")
    return dims


class _Transform(Descriptor):
    """Arguments of C, from the lengths behind a batch. Real numbers are on one side of the last axis."""

    is_inverse = False
    has_half: ClassVar[bool] = False
    onesided = 1
    interior = 1.0

    @property
    def lengths(self) -> tuple[int, ...]:
        raise NotImplementedError

    @property
    def whole(self) -> tuple[int, ...]:
        """Extents of complex numbers without symmetry, or of real ones."""
        return (getattr(self, "batch"), *self.lengths)  # noqa: B009  (a field of the subclasses)

    @property
    def half(self) -> tuple[int, ...]:
        return (*self.whole[:-1], self.whole[-1] // 2 + 1) if self.has_half else self.whole

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.half if self.is_inverse else self.whole

    @property
    def output_shape(self) -> tuple[int, ...]:
        return self.whole if self.is_inverse else self.half

    @property
    def rank(self) -> int:
        return 1 + len(self.lengths)

    @property
    def fourier_axes(self) -> tuple[int, ...]:
        return (0, *(1,) * len(self.lengths))

    @property
    def half_axis(self) -> int:
        return len(self.lengths)

    @property
    def length(self) -> int:
        return self.lengths[-1]

    @property
    def direction(self) -> int:
        return int(self.is_inverse)

    @property
    def scale(self) -> float:
        return 1.0 / math.prod(self.lengths) if self.is_inverse else 1.0


class _Rows(_Transform):
    @property
    def lengths(self) -> tuple[int, ...]:
        return (getattr(self, "n"),)  # noqa: B009


class _Arrays(_Transform):
    @property
    def lengths(self) -> tuple[int, ...]:
        dims: tuple[int, ...] = getattr(self, "dims")  # noqa: B009
        return dims


@dataclasses.dataclass(frozen=True)
class FftDescriptor(_Rows):
    """x and y are (batch, n), complex: element is c32 or c64."""

    n: int = descriptor.extent(1)
    batch: int = descriptor.extent()
    inverse: bool = descriptor.flag()

    @property
    def is_inverse(self) -> bool:  # type: ignore[override]
        return self.inverse


@dataclasses.dataclass(frozen=True)
class RfftDescriptor(_Rows):
    """x is (batch, n), of element f32 or f64, y (batch, n / 2 + 1), complex."""

    n: int = descriptor.extent(1)
    batch: int = descriptor.extent()
    has_half = True


@dataclasses.dataclass(frozen=True)
class IrfftDescriptor(_Rows):
    """x is (batch, n / 2 + 1), complex, y (batch, n), of element f32 or f64."""

    n: int = descriptor.extent(1)
    batch: int = descriptor.extent()
    has_half = True
    is_inverse = True


@dataclasses.dataclass(frozen=True)
class FftNdDescriptor(_Arrays):
    """x and y are (batch, *dims), complex: element is c32 or c64."""

    dims: tuple[int, ...] = descriptor.checked(_dims)
    batch: int = descriptor.extent()
    inverse: bool = descriptor.flag()

    @property
    def is_inverse(self) -> bool:  # type: ignore[override]
        return self.inverse


@dataclasses.dataclass(frozen=True)
class RfftNdDescriptor(_Arrays):
    """x is (batch, *dims), of element f32 or f64; y is complex, with dims[-1] / 2 + 1 elements along the last axis."""

    dims: tuple[int, ...] = descriptor.checked(_dims)
    batch: int = descriptor.extent()
    has_half = True


@dataclasses.dataclass(frozen=True)
class IrfftNdDescriptor(_Arrays):
    """x is complex, with dims[-1] / 2 + 1 elements along the last axis; y is (batch, *dims), of element f32 or f64."""

    dims: tuple[int, ...] = descriptor.checked(_dims)
    batch: int = descriptor.extent()
    has_half = True
    is_inverse = True


class _TransformPlan(Plan):
    __slots__ = ()
    category = OpCategory.FFT
    names: ClassVar = {"inverse": "direction"}
    shapes: ClassVar = {"x": "input_shape", "y": "output_shape"}


class _InverseRealPlan(_TransformPlan):
    """The element is that of y; C's is that of x."""

    __slots__ = ()

    @classmethod
    def served(cls, kind: IntEnum | None, element: ElementKind, output: ElementKind | None = None) -> tuple[str, ...]:
        return op_names((cls.op,), "", {"f32": "c32", "f64": "c64"}.get(element.symbol, ""), "")


class FftPlan(_TransformPlan):
    __slots__ = ()
    op = "fft_c2c_{T}"
    kind = FftKind.FFT


class RfftPlan(_TransformPlan):
    __slots__ = ()
    op = "fft_r2c_{T}"
    kind = FftKind.RFFT


class IrfftPlan(_InverseRealPlan):
    __slots__ = ()
    op = "fft_c2r_{T}"
    kind = FftKind.IRFFT


class FftNdPlan(_TransformPlan):
    __slots__ = ()
    op = "fft_c2c_{T}"
    kind = FftKind.FFT_ND


class RfftNdPlan(_TransformPlan):
    __slots__ = ()
    op = "fft_r2c_{T}"
    kind = FftKind.RFFT_ND


class IrfftNdPlan(_InverseRealPlan):
    __slots__ = ()
    op = "fft_c2r_{T}"
    kind = FftKind.IRFFT_ND


@dataclasses.dataclass(frozen=True)
class FftShiftNdDescriptor(ShapedDescriptor):
    """axes are those along which elements move, negative ones counting from the last; with inverse they move back."""

    shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    axes: tuple[int, ...] = descriptor.checked(lambda name, value: as_integers(name, value, -8, 7))
    inverse: bool = descriptor.flag()

    def validated(self) -> FftShiftNdDescriptor:
        valid = super().validated()
        found = [axis + valid.rank if axis < 0 else axis for axis in valid.axes]
        if any([not 0 <= axis < valid.rank for axis in found]) or len(set(found)) < len(found):
            raise InvalidProblemError(f"axes is {valid.axes}, must be different axes of shape {valid.shape}")
        return valid

    @property
    def total(self) -> int:
        return self.numel

    @property
    def shift_amt(self) -> tuple[int, ...]:
        """The index of x from which element 0 comes, for each axis."""
        along = {axis % self.rank for axis in self.axes}
        offsets = [extent // 2 if self.inverse else extent - extent // 2 for extent in self.shape]
        return tuple([offset if axis in along else 0 for axis, offset in enumerate(offsets)])

    @property
    def stride(self) -> tuple[int, ...]:
        return tuple([math.prod(self.shape[axis + 1 :]) for axis in range(self.rank)])


class FftShiftNdPlan(Plan):
    """Elements have any dtype of 4, 8 or 16 bytes."""

    __slots__ = ()
    by_width = True
    op = "fftshift_nd_{T}"
    rows = ("fftshift_nd_4",)
    category = OpCategory.FFT
    kind = FftKind.FFT_SHIFT_ND
    shapes: ClassVar[Any] = {"x": "shape", "y": "shape"}

    @classmethod
    def served(cls, kind: IntEnum | None, element: ElementKind, output: ElementKind | None = None) -> tuple[str, ...]:
        return op_names((cls.op,), "", str(element.bits // 8), "")
