# SPDX-License-Identifier: Apache-2.0
"""For any argument a function gives a result, or raises a BaracudaError that names the function."""

import numpy as np
import pytest

import baracuda as bk
from baracuda import functions
from baracuda._functions.spec import specs
from harness.samples import sample

ODD_ARRAYS = (
    None, 1, True, "a", [1.0], object(), float("nan"), 2**70, np.zeros(()), np.zeros((2, 0, 3)), np.zeros((1,) * 9),
    np.zeros((2, 2), complex), np.zeros((3, 4), ">f8"), np.zeros((2, 2), object), bk.TensorRef(0, (2,), "f32"),
)  # fmt: skip
ODD_NUMBERS = (
    None, -1, 0, 2**70, 1.5, float("nan"), -float("inf"), "mean", True, (), (0, 1, 2), (1.5,), np.float32(1),
    np.array(1), np.array([1, 2]), object(), 1j, (1,) * 70,
)  # fmt: skip
ODD_NEEDS = (True, (True,), "a", (None,) * 9, object())


@pytest.mark.parametrize("name", dir(functions))
def test_odd_arguments(name):
    spec, function = specs()[name], getattr(bk, name)
    arguments, options = sample(name).arguments(name)

    def attempt(given, **more):
        try:
            function(*given, **{**options, **more})
        except bk.BaracudaError as error:
            assert error.symbol, error
            assert "\n" not in str(error)

    for k, (argument, value) in enumerate(zip(spec.positional, arguments)):
        for odd in ODD_NUMBERS if argument.number else ODD_ARRAYS:
            attempt([odd if j == k else each for j, each in enumerate(arguments)])
        if not argument.number and value is not None:
            attempt([value[..., None] if j == k else each for j, each in enumerate(arguments)])
    for number in {n.name for n in spec.numbers} - {a.name for a in spec.positional}:
        for odd in ODD_NUMBERS:
            attempt(arguments, **{number: odd})
    for odd in (*ODD_ARRAYS, (1, 2), (None, None)):
        attempt(arguments, out=odd)
    for odd in ODD_NEEDS if spec.is_partial else ():
        attempt(arguments, needs=odd)
