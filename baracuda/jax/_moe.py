# SPDX-License-Identifier: Apache-2.0
"""moe for JAX, under jit and grad."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from baracuda._functions import moe_calls
from baracuda._functions.moe_calls import CALLED, NAMES


def made(name: str, function: Callable[[str], Any]) -> Any:
    """A function of NAMES; `function` makes those of the op table."""
    functions = {each: function(each) for each in CALLED}

    def call(called: str, *arrays: Any, **numbers: Any) -> Any:
        return functions[called](*arrays, **numbers)

    whole = getattr(moe_calls, name)

    @functools.wraps(whole)
    def moe(*arrays: Any, **numbers: Any) -> Any:
        return whole(call, *arrays, **numbers)

    return moe


__all__ = ["NAMES", "made"]
