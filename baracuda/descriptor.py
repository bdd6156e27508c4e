# SPDX-License-Identifier: Apache-2.0
"""Descriptors: frozen dataclasses with the parameters of a plan, checked by `validated`."""

from __future__ import annotations

import dataclasses
import enum
import math
import numbers
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from baracuda._call.scalars import (
    INT32_MAX,
    INT64_MAX,
    as_flag,
    as_integer,
    as_integers,
    as_items,
    as_real,
    is_integer,
    shown,
)
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import InvalidProblemError, UnsupportedError

MAX_RANK = 8

Check = Callable[[str, Any], Any]  # (field name, value) -> checked and converted value
D = TypeVar("D", bound="Descriptor")
S = TypeVar("S", bound="ShapedDescriptor")


def checked(check: Check, **options: Any) -> Any:
    """A dataclass field whose value `check` converts when a plan is selected."""
    return dataclasses.field(metadata={"check": check}, **options)


def _extents(name: str, values: object, low: int, high: int) -> tuple[int, ...]:
    extents = as_integers(name, values, low, high)
    if len(extents) > MAX_RANK:
        raise UnsupportedError(f"{name} is {extents}, of rank {len(extents)}; at most {MAX_RANK} is supported")
    return extents


def extent(low: int = 0, **options: Any) -> Any:
    """An extent: low .. 2^31 - 1."""
    return checked(lambda name, value: as_integer(name, value, low, INT32_MAX), **options)


def shape(low: int = 0, high: int = INT64_MAX, **options: Any) -> Any:
    """Extents of a tensor of rank 0 to 8, each in [low, high]. Where C takes them one by one, `high` is INT32_MAX."""
    return checked(lambda name, value: _extents(name, value, low, high), **options)


def shape_or_numel() -> Any:
    """Extents as of `shape`, or one number for a tensor of rank 1."""

    def check(name: str, value: object) -> tuple[int, ...]:
        if isinstance(value, (int, np.integer)):
            return (as_integer(name, value, 0),)
        return _extents(name, value, 0, INT64_MAX)

    return checked(check)


def broadcast() -> Any:
    """Extents of an operand that broadcasts to `shape`, of equal rank; None leaves them to each launch."""

    def check(name: str, value: object) -> tuple[int, ...] | None:
        return None if value is None else _extents(name, value, 0, INT64_MAX)

    return dataclasses.field(default=None, kw_only=True, metadata={"check": check, "broadcast": True})


def real(**options: Any) -> Any:
    """A real number."""
    return checked(as_real, **options)


def flag(default: bool = False) -> Any:
    return checked(lambda name, value: bool(as_flag(name, value)), default=default)


def params() -> Any:
    """A real number or a short sequence of them; the plan checks their number."""

    def check(name: str, value: object) -> tuple[Any, ...]:
        single = isinstance(value, (numbers.Real, np.floating))
        items = (value,) if single else as_items(name, value)
        if not items:
            raise InvalidProblemError(f"{name} is {value!r}, must be a number or a sequence of numbers")
        return tuple([_number(name if single else f"{name}[{i}]", item) for i, item in enumerate(items)])

    return checked(check)


def _number(name: str, value: object) -> float | int:
    """An int as it is, any other real as a float."""
    return value if type(value) is int else as_real(name, value)


def choice(kind: type[enum.IntEnum], **options: Any) -> Any:
    """A member of `kind` or its number, or the default, if there is one. Names, and members of other enumerations,
    whose numbers mean something else, are refused.
    """
    members = {int(member): member for member in kind}
    article = "an" if kind.__name__[0] in "AEIO" else "a"

    def check(name: str, value: object) -> Any:
        if isinstance(value, kind) or ("default" in options and value is options["default"]):
            return value
        member = members.get(int(value)) if is_integer(value) else None
        if member is None:
            raise InvalidProblemError(f"{name} is {shown(value)}, must be {article} {kind.__name__}")
        return member

    return dataclasses.field(metadata={"check": check, "enumeration": kind}, **options)


@dataclasses.dataclass(frozen=True)
class Descriptor:
    """Base: `element` is the dtype of the data operands."""

    element: ElementKind = dataclasses.field(
        kw_only=True, metadata={"check": lambda name, value: as_element(value, name)}
    )

    def __post_init__(self) -> None:
        """Normalize the spelling of element types, so that equal descriptors compare equal."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name.endswith("element") and value is not None and not isinstance(value, enum.Enum):
                object.__setattr__(self, field.name, as_element(value, field.name))

    def validated(self: D) -> D:
        """A copy with every field checked and in its exact type."""
        return type(self)(
            **{f.name: f.metadata["check"](f.name, getattr(self, f.name)) for f in dataclasses.fields(self)}
        )


class ShapedDescriptor(Descriptor):
    """Base of descriptors whose operands have the shape `shape`, or broadcast to it."""

    shape: Any

    @property
    def numel(self) -> int:
        return product("shape", self.shape)

    @property
    def rank(self) -> int:
        return len(self.shape)

    def validated(self: S) -> S:
        valid = super().validated()
        for field in dataclasses.fields(valid):
            extents = getattr(valid, field.name) if "broadcast" in field.metadata else None
            if extents is not None and not broadcasts(extents, valid.shape):
                raise InvalidProblemError(f"{field.name} is {extents}, must broadcast to shape {valid.shape}")
        return valid


def broadcasts(extents: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether extents broadcast to `shape`, of equal rank."""
    return len(extents) == len(shape) and all([have in (want, 1) for have, want in zip(extents, shape)])


def product(name: str, extents: Iterable[int]) -> int:
    """Product of extents, below 2^63."""
    result = math.prod(extents)
    if result > INT64_MAX:
        raise InvalidProblemError(f"{name} has {result} elements, must be below 2^63")
    return result
