# SPDX-License-Identifier: Apache-2.0
"""Affine: y = scale x + offset, rounded once; integers wrap.

Operands have any strides; x broadcasts along axes of extent 1. y may be x, with equal strides; x of None means the
same.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._call.c_call import Form
from baracuda._call.scalars import as_integer, as_real
from baracuda.descriptor import ShapedDescriptor
from baracuda.kinds import OpCategory, UnaryKind
from baracuda.operands import Views, identical
from baracuda.plan import Plan


@dataclasses.dataclass(frozen=True)
class AffineDescriptor(ShapedDescriptor):
    """shape is a number for rank 1. scale and offset are integers in the range of an integer element."""

    shape: tuple[int, ...] = descriptor.shape_or_numel()
    scale: float = descriptor.checked(lambda name, value: value)
    offset: float = descriptor.checked(lambda name, value: value, default=0)

    def validated(self) -> AffineDescriptor:
        valid = super().validated()
        bounds = valid.element.integer_range
        scalars = {name: getattr(valid, name) for name in ("scale", "offset")}
        checked: dict[str, Any]
        checked = {n: as_integer(n, v, *bounds) if bounds else as_real(n, v) for n, v in scalars.items()}
        return dataclasses.replace(valid, **checked)


class AffinePlan(Plan):
    """Affine map, in place if x is None."""

    __slots__ = ()
    op = "affine_{T}"
    fields: ClassVar = {"x": "given"}
    others = ("affine_inplace_{T}",)
    category = OpCategory.UNARY_ELEMENTWISE
    kind = UnaryKind.AFFINE
    names: ClassVar = {"a": "scale", "b": "offset"}

    def form_for(self, views: Views) -> Form:
        """x that is y means None, which the in-place op takes."""
        x, y = views["x"], views["y"]
        in_place = x is not None and y is not None and identical(x, y)
        return super().form_for({**views, "x": None} if in_place else views)
