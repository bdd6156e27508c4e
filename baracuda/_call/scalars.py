# SPDX-License-Identifier: Apache-2.0
"""Checks of a caller's integers, sequences of integers, and reals. Booleans and enumerators are not numbers."""

from __future__ import annotations

import contextlib
import enum
import itertools
import numbers
from typing import Any, TypeGuard

import numpy as np

from baracuda.errors import InvalidProblemError

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
UINT64_MAX = 2**64 - 1
_LONGEST = 64  # more than the axes of any shape; stops endless iterators
_WIDEST = 80


def is_integer(value: object) -> TypeGuard[numbers.Integral]:
    return isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_, enum.Enum))


def shown(value: object) -> str:
    """A value in a message, on one short line; enumerators by name, which str() of an IntEnum gives in some versions of
    Python only.
    """
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    line = " ".join(repr(value).split())
    return line if len(line) <= _WIDEST else f"{line[:_WIDEST]}..."


def is_symbol(value: object) -> bool:
    """Whether this is a symbolic extent of torch.compile or torch.export."""
    return type(value).__name__ == "SymInt"


def exceeds(limit: int, *extents: Any) -> bool:
    """Whether an extent is above the limit. Symbols are not compared, as that would add a guard; the op's call, which
    has the number, checks again.
    """
    return any([not is_symbol(extent) and extent > limit for extent in extents])


def at_least(low: int, extent: Any) -> Any:
    """max(low, extent); a symbol is returned as it is, since only calls need the number."""
    return extent if is_symbol(extent) else max(low, extent)


def as_integer(name: str, value: object, low: int = INT64_MIN, high: int = INT64_MAX) -> int:
    """`value` as an int in [low, high]; a symbol is returned as it is."""
    if type(value) is int and low <= value <= high:
        return value
    if is_symbol(value):
        return value  # type: ignore[return-value]
    if not is_integer(value):
        raise InvalidProblemError(f"{name} is {shown(value)}, must be an integer")
    number = int(value)
    if number < low:
        raise InvalidProblemError(f"{name} is {number}, must be >= {low}")
    if number > high:
        raise InvalidProblemError(f"{name} is {number}, must be <= {high}")
    return number


def as_items(name: str, values: object) -> tuple[Any, ...]:
    """The items of a sequence or another short iterable, but not of text."""
    if type(values) is tuple:
        return values
    try:
        items = None if isinstance(values, (str, bytes)) else tuple(itertools.islice(values, _LONGEST + 1))  # type: ignore[call-overload]
    except TypeError:
        items = None
    if items is None or len(items) > _LONGEST:
        raise InvalidProblemError(f"{name} is {shown(values)}, must be a sequence of at most {_LONGEST} numbers")
    return items


def as_integers(name: str, values: object, low: int = INT64_MIN, high: int = INT64_MAX) -> tuple[int, ...]:
    """A sequence of integers, each in [low, high]."""
    items = as_items(name, values)
    if all([type(item) is int and low <= item <= high for item in items]):
        return items
    return tuple(as_integer(f"{name}[{i}]", item, low, high) for i, item in enumerate(items))


def as_flag(name: str, value: object) -> int:
    """A bool as C's 0 or 1."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidProblemError(f"{name} is {shown(value)}, must be a bool")
    return int(value)


def as_real(name: str, value: object) -> float:
    if isinstance(value, (bool, np.bool_, enum.Enum)) or not isinstance(value, (numbers.Real, np.floating)):
        raise InvalidProblemError(f"{name} is {shown(value)}, must be a real number")
    with contextlib.suppress(OverflowError):
        return float(value)
    raise InvalidProblemError(f"{name} is {value!r}, too large for a float")


def as_complex(name: str, value: object) -> complex:
    if isinstance(value, (numbers.Complex, np.complexfloating)) and not isinstance(value, numbers.Real):
        return complex(value)
    return complex(as_real(name, value))
