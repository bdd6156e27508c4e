"""Gradients of pads that crop: what was cropped has a gradient of 0, so that they are pads of dy the other way."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from baracuda._functions.moves import several
from baracuda._scalars import INT32_MIN
from baracuda.errors import naming


def cropping(slicing: Callable[..., Any]) -> Callable[..., Any]:
    """pad_constant_backward of any pads, by the one that takes a slice of dy."""

    @functools.wraps(slicing)
    def pad_constant_backward(dy: Any, pad_low: Any, pad_high: Any, *, out: Any = None) -> Any:
        from baracuda import functions

        with naming("pad_constant_backward"):
            low, high = several("pad_low", pad_low, INT32_MIN), several("pad_high", pad_high, INT32_MIN)
        if min((*low, *high), default=0) >= 0:
            return slicing(dy, pad_low=pad_low, pad_high=pad_high, out=out)
        opposite = {"pad_low": [-width for width in low], "pad_high": [-width for width in high]}
        return functions.pad_constant(dy, **opposite, out=out)

    return pad_constant_backward
