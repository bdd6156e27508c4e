# SPDX-License-Identifier: Apache-2.0
"""A checked call (Prepared), and the parts of cache keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from baracuda._arrays.frameworks import KEYS, Framework
from baracuda._library.loader import Library
from baracuda._library.op_table import Row
from baracuda.dtypes import ElementKind


class Prepared:
    """A checked call: its C function, all arguments except addresses, and how to allocate results."""

    __slots__ = (
        "clears", "constants", "copies", "fills", "framework", "function", "is_plain", "library", "like", "names",
        "order", "results", "row", "scalars", "slots", "symbol", "trims", "wanted", "workspace",
    )  # fmt: skip

    library: Library
    row: Row
    names: Mapping[str, str]  # C's -> Python's
    function: Callable[..., Any]  # the C function
    symbol: str  # its name
    framework: Framework  # framework of the results
    like: int  # position of the array on whose device results are allocated
    results: list[tuple[tuple[int, ...], Any] | None]  # shape and native dtype; None for one that C does not write
    scalars: list[tuple[int, ElementKind]]  # positions of Python numbers among the arrays, and their dtypes
    # arrays that C takes as row-major copies: position, axis order, shape to which they are broadcast first
    copies: list[tuple[int, tuple[int, ...], tuple[int, ...]]]
    wanted: list[bool]  # whether the caller gets each result; C may require others
    clears: bool  # whether results are zeroed first, since C adds to them or writes them in part
    fills: list[tuple[int, int | float]]  # results that C does not write: (position, number or array to copy)
    trims: list[tuple[int, int]]  # (result to cut, result that counts its rows)
    slots: list[int]  # for each C pointer, its position among arrays, results, and None
    order: tuple[int, ...]  # for each C argument before the workspace, its slot, or -1 for the next constant
    constants: list[Any]
    is_plain: bool  # a generated launch function can serve it
    workspace: int


def ordered(call: Prepared, pointers: Sequence[Any]) -> list[Any]:
    """C's arguments before the workspace."""
    constants = iter(call.constants)
    return [pointers[slot] if slot >= 0 else next(constants) for slot in call.order]


def canonical(number: Any) -> Any:
    """A number as part of a cache key: -0.0 differs from 0.0, 1.0 and True from 1, and NaN equals itself."""
    if type(number) is int:
        return number
    if type(number) is float and (not number or number != number):
        return repr(number)
    return type(number), number


def outer_key(array: Any) -> Any:
    """An array's part of a cache key, including whether it is writable."""
    key = KEYS[type(array)](array)
    return (key, array.flags.writeable) if type(array) is np.ndarray else key
