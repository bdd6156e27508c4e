"""What is known of a call once it has been checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from baracuda._functions.arrays import KEYS, Kind
from baracuda._lib import Library
from baracuda._optable import Row
from baracuda.dtypes import ElementKind


class Prepared:
    """A checked call: its C function and arguments but for the addresses, and how results are made."""

    __slots__ = (
        "clears", "constants", "copies", "fills", "function", "is_plain", "kind", "library", "like", "names", "order",
        "results", "row", "scalars", "slots", "symbol", "trims", "wanted", "workspace",
    )  # fmt: skip

    library: Library
    row: Row
    names: Mapping[str, str]  # C's -> Python's
    kind: Kind  # of the results
    like: int  # the array beside which they are made
    results: list[tuple[tuple[int, ...], Any] | None]  # shape and native dtype; None for one that is not wanted
    scalars: list[tuple[int, ElementKind]]  # positions of Python numbers among the arrays, and what they become
    # positions of arrays that C wants in row-major order, of axes in an order, broadcast to a shape before
    copies: list[tuple[int, tuple[int, ...], tuple[int, ...]]]
    wanted: list[bool]  # whether the caller gets each result; C writes some all the same
    clears: bool  # whether results are cleared first, since C adds to them or writes them in part
    fills: list[tuple[int, int | float]]  # results that C does not write: a number, or the position of an array
    trims: list[tuple[int, int]]  # results that are cut to as many rows as another result says
    slots: list[int]  # of each C pointer, its position among arrays, results, and None
    order: tuple[int, ...]  # of each C argument before the workspace: which of the slots, or -1 for the next constant
    constants: list[Any]
    is_plain: bool  # nothing but addresses is left for a launch, and memory for what it writes
    workspace: int


def ordered(call: Prepared, pointers: Sequence[Any]) -> list[Any]:
    """C's arguments before the workspace."""
    constants = iter(call.constants)
    return [pointers[place] if place >= 0 else next(constants) for place in call.order]


def canonical(number: Any) -> Any:
    """A number as a part of a key: -0.0 is not 0.0, 1.0 and True are not 1, and NaN is itself."""
    if type(number) is int:
        return number
    if type(number) is float and (not number or number != number):
        return repr(number)
    return type(number), number


def outer_key(array: Any) -> Any:
    """What of an array a call depends on, also where it is written."""
    key = KEYS[type(array)](array)
    return (key, array.flags.writeable) if type(array) is np.ndarray else key
