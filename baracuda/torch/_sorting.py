# SPDX-License-Identifier: Apache-2.0
"""Sorts by several keys, of keys with values and of segments for PyTorch, of operators that torch.compile traces."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from baracuda._functions import sort_calls
from baracuda._functions.sort_calls import CALLED, NAMES
from baracuda.torch._gradients import calls


def made(name: str, function: Callable[[str], Any]) -> Any:
    """A function of NAMES; `function` makes those of the op table."""
    operators, whole = {each: function(each) for each in CALLED}, getattr(sort_calls, name)
    call = calls(lambda each: operators[each])  # which torch.compile traces

    @functools.wraps(whole)
    def sort(*arrays: Any, **numbers: Any) -> Any:
        return whole(call, *arrays, **numbers)

    return sort


__all__ = ["NAMES", "made"]
