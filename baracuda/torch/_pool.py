# SPDX-License-Identifier: Apache-2.0
"""Pooling under PyTorch's names for PyTorch, of operators that torch.compile traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from baracuda._functions.pool_calls import CALLED, FUNCTIONS, NAMES


def made(name: str, function: Callable[[str], Any]) -> Any:
    """A function of NAMES; `function` makes those of the op table."""
    whole, functions = FUNCTIONS[name], {each: function(each) for each in CALLED}

    def call(called: str, *arrays: Any, **numbers: Any) -> Any:
        return functions[called](*arrays, **numbers)

    def pool(*arrays: Any, **numbers: Any) -> Any:
        return whole(call, *arrays, **numbers)

    pool.__name__ = pool.__qualname__ = name
    pool.__doc__ = f"See baracuda.{name}."
    return pool


__all__ = ["NAMES", "made"]
