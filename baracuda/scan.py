# SPDX-License-Identifier: Apache-2.0
"""Inclusive and exclusive scans along one axis: CUMSUM, CUMPROD, CUMMAX, CUMMIN and LOG_CUMSUM_EXP.

With `reverse` they run from the end of the axis. The first of equal extrema gets the gradient and gives the index, and
the first NaN stays. Operands have any strides; y may be x.
"""

from __future__ import annotations

import dataclasses

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, as_integer
from baracuda.descriptor import ShapedDescriptor
from baracuda.errors import InvalidProblemError
from baracuda.kinds import OpCategory, ScanKind
from baracuda.plan import Plan


@dataclasses.dataclass(frozen=True)
class ScanDescriptor(ShapedDescriptor):
    """input_shape is of rank 1 to 8."""

    kind: ScanKind = descriptor.choice(ScanKind)
    input_shape: tuple[int, ...] = descriptor.shape(high=INT32_MAX)
    scan_axis: int = descriptor.checked(as_integer)
    reverse: bool = descriptor.flag()

    @property
    def shape(self) -> tuple[int, ...]:
        return self.input_shape

    @property
    def scan_extent(self) -> int:
        return self.input_shape[self.scan_axis]

    def validated(self) -> ScanDescriptor:
        valid = super().validated()
        if not valid.input_shape:
            raise InvalidProblemError("input_shape is (), must have an axis to scan")
        as_integer("scan_axis", valid.scan_axis, 0, len(valid.input_shape) - 1)
        return valid


class ScanBackwardDescriptor(ScanDescriptor):
    """`reverse` is that of the forward scan."""


class ExclusiveScanBackwardDescriptor(ScanBackwardDescriptor):
    """The gradient of an exclusive scan."""


class ExclusiveScanDescriptor(ScanDescriptor):
    """The first result is the identity: 0, 1, -inf, inf, -inf, or the least or largest integer for extrema."""


class ScanIndicesDescriptor(ScanDescriptor):
    """CUMMAX or CUMMIN, with the index of each extreme."""


class ScanPlan(Plan):
    __slots__ = ()
    op = "scan_{kind}_{T}"
    category = OpCategory.SCAN
    descriptor: ScanDescriptor

    def offset(self, strides: tuple[int, ...]) -> int:
        """The stride of the axis, which C takes separately too."""
        return strides[self.descriptor.scan_axis]


class ExclusiveScanPlan(ScanPlan):
    __slots__ = ()
    op = "scan_exclusive_{kind}_{T}"


class ScanIndicesPlan(ScanPlan):
    __slots__ = ()
    op = "scan_{kind}_indices_{T}"


class ScanBackwardPlan(ScanPlan):
    """x is what every scan but CUMSUM saves, y what CUMPROD and LOG_CUMSUM_EXP do."""

    __slots__ = ()
    op = "scan_{kind}_backward_{T}"


class ExclusiveScanBackwardPlan(ScanPlan):
    """x and y as of ScanBackwardPlan."""

    __slots__ = ()
    op = "scan_exclusive_{kind}_backward_{T}"
