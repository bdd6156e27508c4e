# SPDX-License-Identifier: Apache-2.0
"""lstm, gru and rnn for JAX, under jit and grad."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from baracuda._functions import recurrent_calls
from baracuda._functions.recurrent_calls import CALLED, NAMES


def made(name: str, function: Callable[[str], Any]) -> Any:
    """A function of NAMES; `function` makes those of the op table."""
    functions = {each: function(each) for each in CALLED}

    def call(called: str, *arrays: Any, **numbers: Any) -> Any:
        return functions[called](*arrays, **numbers)

    whole = getattr(recurrent_calls, name)

    @functools.wraps(whole)
    def layers(*arrays: Any, **numbers: Any) -> Any:
        return whole(call, *arrays, **numbers)

    return layers


__all__ = ["NAMES", "made"]
