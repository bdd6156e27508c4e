# SPDX-License-Identifier: Apache-2.0
"""Sorts by several keys, of keys with values and of segments for JAX, under jit, grad and vmap."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from baracuda._functions import sort_calls
from baracuda._functions.sort_calls import CALLED, NAMES


def made(name: str, function: Callable[[str], Any]) -> Any:
    """A function of NAMES; `function` makes those of the op table."""
    functions, whole = {each: function(each) for each in CALLED}, getattr(sort_calls, name)

    def call(called: str, *arrays: Any, **numbers: Any) -> Any:
        return functions[called](*arrays, **numbers)

    @functools.wraps(whole)
    def sort(*arrays: Any, **numbers: Any) -> Any:
        return whole(call, *arrays, **numbers)

    return sort


__all__ = ["NAMES", "made"]
