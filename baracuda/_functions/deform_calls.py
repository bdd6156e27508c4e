# SPDX-License-Identifier: Apache-2.0
"""Deformable convolution by calls of other functions, for arrays of any framework."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from baracuda._functions.shape_rules.image.deform import pair_of
from baracuda.errors import InvalidProblemError

NAMES = ("deform_conv2d",)
CALLED = ("deform_columns", "matmul", "add")  # functions that deform_conv2d calls
Call = Callable[..., Any]  # calls a function by its name


def deform_conv2d(
    call: Call, input: Any, offset: Any, weight: Any, bias: Any = None, stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, mask: Any = None,
) -> Any:  # fmt: skip
    """baracuda.deform_conv2d for one framework."""
    if len(input.shape) != 4 or len(weight.shape) != 4:
        raise InvalidProblemError(
            f"input has shape {tuple(input.shape)} and weight {tuple(weight.shape)}, must have 4 axes each"
        )
    filters, of_group, *kernel = weight.shape
    batch, channels = input.shape[:2]
    groups = channels // of_group if of_group else 0
    if groups < 1 or groups * of_group != channels or filters % groups:
        raise InvalidProblemError(
            f"weight has shape {tuple(weight.shape)}, must be (filters, channels / groups, height, width) for "
            f"{channels} channels, and groups must divide filters"
        )
    if bias is not None and tuple(bias.shape) != (filters,):
        raise InvalidProblemError(f"bias has shape {tuple(bias.shape)}, expected ({filters},)")
    numbers = {
        "stride": list(pair_of("stride", stride, 1)), "padding": list(pair_of("padding", padding, 0)),
        "dilation": list(pair_of("dilation", dilation, 1)),
    }  # fmt: skip
    columns = call("deform_columns", input, offset, list(kernel), mask, **numbers)
    size = columns.shape[2:]
    taps = of_group * math.prod(kernel)
    products = call(
        "matmul", weight.reshape(groups, filters // groups, taps),
        columns.reshape(batch, groups, taps, math.prod(size)),
    )  # fmt: skip
    y = products.reshape(batch, filters, *size)
    return y if bias is None else call("add", y, bias.reshape(1, filters, 1, 1))


def made(name: str, function: Callable[[str], Any]) -> Any:
    """A function of NAMES for a framework; `function` makes those of the op table."""
    functions = {each: function(each) for each in CALLED}

    def call(called: str, *arrays: Any, **numbers: Any) -> Any:
        return functions[called](*arrays, **numbers)

    whole = globals()[name]

    @functools.wraps(whole)
    def composed(*arrays: Any, **numbers: Any) -> Any:
        return whole(call, *arrays, **numbers)

    return composed
