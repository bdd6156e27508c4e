# SPDX-License-Identifier: Apache-2.0
"""Fields of the norms' descriptors with their checks, and the base for norms over a mask of axes."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from baracuda import descriptor
from baracuda._call.scalars import INT32_MAX, as_integer, as_real
from baracuda.descriptor import Descriptor, product
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.tensor import TensorRef

# Operands that may be NULL in C but have no default in Args: None must be given.
GIVEN = dict.fromkeys(("residual", "dsum", "gamma", "beta", "running_mean", "running_var"), "given")


def _eps(name: str, value: object) -> float:
    eps = as_real(name, value)
    if not (math.isfinite(eps) and eps >= 0):
        raise InvalidProblemError(f"{name} is {value!r}, must be finite and >= 0")
    return eps


def eps_field() -> Any:
    return descriptor.checked(_eps)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidProblemError(f"{name} is {value!r}, must be True or False")
    return value


def flag_field() -> Any:
    return descriptor.checked(_flag)


def require_together(views: dict[str, TensorRef | None], wanted: bool, field: str, *names: str) -> None:
    """Check that operands are given exactly if the descriptor's field says so."""
    for name in names:
        if (views[name] is not None) != wanted:
            raise InvalidProblemError(f"{name} is {'None' if wanted else 'given'}, but {field} is {wanted}")


def mask_field() -> Any:
    return descriptor.checked(lambda name, value: as_integer(name, value, 1, 255))


def shape_field() -> Any:
    return descriptor.shape(high=INT32_MAX)


def axis_field() -> Any:
    return descriptor.checked(lambda name, value: as_integer(name, value, 0, 255))


@dataclasses.dataclass(frozen=True)
class RowsDescriptor(Descriptor):
    """Base for norms over the axes whose bits are set in norm_axes_mask; those axes are a row."""

    input_shape: tuple[int, ...] = shape_field()
    norm_axes_mask: int = mask_field()

    def validated(self) -> Any:
        valid = super().validated()
        rank, mask = len(valid.input_shape), valid.norm_axes_mask
        if rank == 0 or mask >> rank:
            raise InvalidProblemError(f"norm_axes_mask is {mask}, must have bits of the {rank} axes alone")
        if valid.norm_total_extent > INT32_MAX:
            raise UnsupportedError(f"rows of {valid.norm_total_extent} elements; at most {INT32_MAX} are supported")
        return valid

    @property
    def rank(self) -> int:
        return len(self.input_shape)

    @property
    def numel(self) -> int:
        return product("input_shape", self.input_shape)

    @property
    def norm_total_extent(self) -> int:
        """Elements of a row."""
        return math.prod(extent for d, extent in enumerate(self.input_shape) if self.norm_axes_mask >> d & 1)

    @property
    def save_shape(self) -> tuple[int, ...]:
        """Shape of saved statistics: input_shape with 1 for each normalized axis."""
        return tuple([1 if self.norm_axes_mask >> d & 1 else extent for d, extent in enumerate(self.input_shape)])
