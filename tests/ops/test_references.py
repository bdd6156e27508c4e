# SPDX-License-Identifier: Apache-2.0
"""The references against themselves and against published values: gradients are the slopes of the functions."""

import numpy as np
import pytest

from tools.oracle import BINARY, GATED, TERNARY, UNARY
from tools.oracle.reals import wide

pytestmark = pytest.mark.unsanitized("no library is called")

PARAMETERS = {"powf": (2.5,), "powi": (-3,), "threshold": (0.3, 0.1)}
# Values at f64 arguments, computed with mpmath to 60 digits.
VALUES = [
    ("digamma", 1.0, "-0.57721566490153286060651209008240243"),
    ("digamma", 0.5, "-1.96351002602142347944097633299875556"),
    ("lgamma", 0.5, "0.57236494292470008707171367567652935"),
    ("lgamma", -0.5, "1.26551212348464539648838479711210187"),
    ("erf", 1.0, "0.84270079294971486934122063508260925"),
    ("erfc", 10.0, "2.08848758376254475700078629495778861e-45"),
    ("erfinv", 0.5, "0.47693627620446987338141835364313056"),
    ("gelu", -10.0, "-7.6198530241605260659733432515993083635e-23"),
    ("silu", -700.0, "-6.9017735806318395996937610634946255736e-302"),
    ("tanhshrink", 1e-5, "3.333333333200000818035935911174399805e-16"),
    ("softplus", -40.0, "4.2483542552915889863049778436315821819e-18"),
]
# Derivatives at f64 arguments next to the derivatives' roots, computed with mpmath to 60 digits.
SLOPES = [
    ("gelu", -0.7517915000000004, "0.000000010655124780694294446199228365347"),
    ("gelu", -0.7517915246935645, "-6.4537517293677532196768648319303e-18"),
    ("gelu", -0.75, "0.00077427826076489562830876445996532"),
    ("gelu", -0.7205, "0.013881630494643376688611863932547"),
    ("gelu", -0.7206, "0.013836061698744262786754680043559"),
    ("gelu_tanh", -0.7524883905813043, "-0.000011606967440109844462265462631832"),
    ("gelu_tanh", -0.7524614220710163, "-1.5647455740893693187039810306879e-17"),
    ("gelu_tanh", -0.78, "-0.011558458458269726684815408371137"),
    ("silu", -1.2784581914593387, "0.0000013833937801378487803148576542394"),
    ("silu", -1.278464542761074, "-2.4520079389357080338676727647241e-17"),
    ("silu", -1.25, "0.0063191550846875812408700424717889"),
    ("mish", -1.1924000000000037, "0.0000083328492788897535046727198178611"),
    ("mish", -1.192431214515495, "7.2217268301668617026294063670332e-17"),
    ("mish", -1.2, "-0.0020087613935290468027474378552695"),
]


@pytest.mark.parametrize("name", sorted(name for name, f in UNARY.items() if f.has_gradient))
def test_gradients_are_slopes(name):
    """Central differences of step h have an error of h^2, plus the reference's precision over h."""
    rng = np.random.default_rng(5)
    f = UNARY[name]
    parameters = PARAMETERS.get(name, f.constants)
    low, high = f.domain
    x = rng.uniform(max(low + 0.01, -8), min(high - 0.01, 9), 500).astype(np.longdouble)
    h = np.longdouble(2) ** -20
    slope = (f.value(x + h, *parameters) - f.value(x - h, *parameters)) / (2 * h)
    saved = f.value(x, *parameters) if f.saves == "y" else x
    dy = rng.uniform(0.5, 2, 500)
    dx = f.gradient(dy, saved, *parameters)
    far = np.abs(dx - dy * slope) > 1e-6 * (1 + np.abs(dx)) * (1 + np.abs(slope))
    assert far.mean() < 0.01, f"at {x[far][:3]}: {dx[far][:3]}, slope {(dy * slope)[far][:3]}"  # jumps, poles


PARTIAL = {name: f for name, f in (BINARY | TERNARY).items() if f.backward and name != "ldexp"}


@pytest.mark.parametrize("name", PARTIAL)
def test_partial_gradients_are_slopes(name):
    """Central differences of float64 values with step h have an error of h^2 plus 2^-53 / h."""
    rng, f = np.random.default_rng(5), PARTIAL[name]
    scale = f.timed if name in TERNARY else ()
    operands = rng.uniform(-3, 3, (3 if name in TERNARY else 2, 500))
    if getattr(f, "base", False):
        operands[0] = np.abs(operands[0]) + 0.1
    dy, h = rng.uniform(0.5, 2, 500), 2.0**-18
    for k, partial in enumerate(f.backward(dy, *operands, "f64", *scale)):
        step = np.zeros_like(operands)
        step[k] = h
        up, down = (f.forward(*moved, "f64", *scale) for moved in (operands + step, operands - step))
        slope = (getattr(up, "value", up) - getattr(down, "value", down)) / (2 * h)
        far = np.abs(partial.value - dy * slope) > 1e-6 * (1 + np.abs(slope)) ** 2
        assert far.mean() < 0.01, (
            f"operand {k}: {partial.value[far][:3]}, slope {(dy * slope)[far][:3]}"
        )  # jumps, poles


@pytest.mark.parametrize("name", GATED)
def test_gradients_of_gates_are_slopes(name):
    f, h = GATED[name], np.longdouble(2) ** -20
    b = wide(np.random.default_rng(5).uniform(-9, 9, 500))
    slope, _ = f.slope(b)
    np.testing.assert_allclose(slope, (f.gate(b + h) - f.gate(b - h)) / (2 * h), rtol=0, atol=1e-9)


@pytest.mark.parametrize(("name", "x", "value"), VALUES)
def test_known_values(name, x, value):
    got, wanted = UNARY[name].value(np.float64(x)), np.longdouble(value)
    assert abs(got - wanted) <= 8 * np.finfo(np.longdouble).eps * abs(wanted), f"{got!r}, expected {wanted!r}"


@pytest.mark.parametrize(("name", "x", "value"), SLOPES)
def test_slopes_beside_roots(name, x, value):
    got, wanted = UNARY[name].gradient(1.0, np.float64(x)), np.longdouble(value)
    assert abs(got - wanted) <= 8 * np.finfo(np.longdouble).eps * abs(wanted), f"{got!r}, expected {wanted!r}"


def test_integers():
    x = np.array([0, 1, -1, 5, -128, 127], np.int8)
    expected = {
        "neg": [0, -1, 1, -5, -128, -127], "abs": [0, 1, 1, 5, -128, 127], "sign": [0, 1, -1, 1, -1, 1],
        "square": [0, 1, 1, 25, 0, 1], "cube": [0, 1, -1, 125, 0, 127], "bitwise_not": [-1, -2, 0, -6, 127, -128],
        "popcount": [0, 1, 8, 2, 1, 7], "clz": [8, 7, 0, 5, 0, 1], "ctz": [8, 0, 0, 0, 7, 0],
    }  # fmt: skip
    for name, values in expected.items():
        np.testing.assert_array_equal(UNARY[name].of_integers(x, "i8"), np.array(values, np.int8), name)
