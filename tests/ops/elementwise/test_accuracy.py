# SPDX-License-Identifier: Apache-2.0
"""Every f16 and bf16 argument of every unary function: results are the true value rounded once, or nearly so.

The error beyond the half unit of a correct rounding is at most 1/32 ulp, which arithmetic in f32 allows; next to roots
at irrational arguments, where f32 lacks the digits, the entry has the bound.
Gradients are taken for dy = 1 and for other dy.
"""

import numpy as np
import pytest

import tolerances
from tools.accuracy.functions import DTYPES, Function, functions
from tools.accuracy.inputs import gradients, sample
from tools.accuracy.library import run
from tools.accuracy.ulp import errors
from tools.oracle import UNARY
from tools.oracle.numerics import decode, encode, width

pytestmark = pytest.mark.unsanitized(
    "all instances run in test_ops, and every 16-bit argument of functions without parameters in test_dtypes"
)

HALVES = ("f16", "bf16")
BOUND = 0.5 + 1 / 32
FUNCTIONS = [f for f in functions() if f.kind != "binary"]
IDS = [f"{f.label}_{f.kind}" for f in FUNCTIONS]


def named(word):
    """The functions whose entry has this property."""
    return [name for name, f in UNARY.items() if f.is_(word)]


MONOTONIC, SYMMETRIC = named("rising") + named("falling"), named("odd") + named("even")


def results(library, function: Function, dtype: str):
    """Yields (operands' values, result's bits)."""
    bits = sample(dtype)
    if function.kind == "unary":
        yield (decode(bits, dtype),), run(library, function, dtype, bits)
        return
    bits = bits[function.inside(decode(bits, dtype), dtype)]
    for random in (False, True):
        dy = gradients(dtype, bits.size, random)
        yield (decode(dy, dtype), decode(bits, dtype)), run(library, function, dtype, dy, bits)


def say(chosen, operands, got, true, ulp) -> str:
    """Describes the worst of the chosen results."""
    k = max(np.flatnonzero(chosen), key=lambda i: ulp[i])
    at = ", ".join(repr(float(v[k])) for v in operands)
    return f"{chosen.sum()} of {got.size}; at {at}: got {got[k]!r}, expected {float(true[k])!r}, {ulp[k]:.4f} ulp off"


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("function", FUNCTIONS, ids=IDS)
def test_every_argument(library, function, dtype):
    op = f"{function.name}_backward" if function.kind == "backward" else function.name
    bound = max(BOUND, tolerances.ulps(op, dtype, library.backend))
    for operands, bits in results(library, function, dtype):
        got, true = decode(bits, dtype), function.true(dtype, *operands)
        ulp, special = errors(got, true, dtype)
        assert not special.any(), f"NaN or infinity amiss: {say(special, operands, got, true, ulp)}"
        far = ulp > bound
        assert not far.any(), f"beyond {bound} ulp: {say(far, operands, got, true, ulp)}"
        if function.kind == "unary":  # the sign of a gradient that vanishes is arbitrary
            lost = (got == 0) & (true != 0) & (np.signbit(got) != np.signbit(true))
            assert not lost.any(), f"0 of the wrong sign: {say(lost, operands, got, true, ulp)}"


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", MONOTONIC)
def test_monotonic(library, name, dtype):
    """The two sides of a pole at 0 are tested separately."""
    bits = sample(dtype)
    x, y = decode(bits, dtype), decode(run(library, Function(name, "unary"), dtype, bits), dtype)
    for side in (np.signbit(x), ~np.signbit(x)):
        chosen = np.flatnonzero(side & ~np.isnan(y) & ~np.isnan(x))
        order = chosen[np.argsort(x[chosen], kind="stable")]
        with np.errstate(invalid="ignore"):  # inf - inf
            steps = np.diff(-y[order] if UNARY[name].is_("falling") else y[order])
        k = np.flatnonzero((steps < 0) & (x[order[1:]] != x[order[:-1]]))
        assert k.size == 0, f"{k.size} steps go the wrong way, the first beyond {x[order[k[0]]]!r}"


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric(library, name, dtype):
    """f(-x) is f(x) or -f(x), including the sign of zero."""
    bits = np.arange(32768, dtype=np.uint16)
    function, minus = Function(name, "unary"), np.uint16(0x8000)
    right, left = run(library, function, dtype, bits), run(library, function, dtype, bits | minus)
    same = (left ^ minus if UNARY[name].is_("odd") else left) == right
    same |= np.isnan(decode(left, dtype)) & np.isnan(decode(right, dtype))
    assert same.all(), f"differs at {decode(bits[~same], dtype)[:3]}"


@pytest.mark.parametrize("dtype", DTYPES)
def test_frac_of_whole_numbers(library, dtype):
    """The result is +0 for either sign, as x - trunc(x) is."""
    x = np.array([0.0, -0.0, 1.0, -1.0, -2.0, -3.0, 128.0, -128.0, -65504.0 if dtype == "f16" else -(2.0**100)])
    bits = run(library, Function("frac", "unary"), dtype, encode(x, dtype))
    assert not bits.any(), f"{decode(bits, dtype)} of {x}"


# dy, x: the worst gradients found, with the published bound; the neighbourhood on both sides is tried.
WORST = [
    ("mish", "f32", -0.972608328, 5.206000328, 4.0),
    ("mish", "f32", 0.636763155, -0.325716287, 4.0),
    ("mish", "f32", 0.647684336, -0.336492836, 4.0),
    ("lgamma", "f16", -0.64111328125, -16.734375, 1.3),
    ("lgamma", "f16", 1.4541015625, -16.734375, 1.3),
    ("tan", "f64", 1.0, -7.73759904878829, 9.0),
    ("tan", "f64", 1.0, -26.829560417392734, 9.0),
]


@pytest.mark.parametrize(("name", "dtype", "dy", "x", "bound"), WORST)
def test_worst_gradients(library, name, dtype, dy, x, bound):
    steps = 1 if dtype == "f16" else 2000
    bits = (encode(np.array([x]), dtype).astype(np.int64) + np.arange(-steps, steps + 1)).astype(
        f"u{width(dtype) // 8}"
    )
    rng = np.random.default_rng(3)
    for each in (np.full(bits.size, dy), dy * np.exp2(rng.uniform(-1, 1, bits.size))):
        g = encode(each, dtype)
        function = Function(name, "backward")
        got, true = (
            decode(run(library, function, dtype, g, bits), dtype),
            function.true(dtype, decode(g, dtype), decode(bits, dtype)),
        )
        ulp, special = errors(got, true, dtype)
        assert not special.any()
        assert ulp.max() <= bound, say(ulp > bound, (decode(g, dtype), decode(bits, dtype)), got, true, ulp)
