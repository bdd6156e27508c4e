# SPDX-License-Identifier: Apache-2.0
"""Gradients of powers where the power leaves the range of the dtype and the gradient does not, and at 0, infinity and
NaN."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import baracuda as bk
import tolerances
from cases import Array, Problem
from harness import FLOATS, OPS, launch
from harness.strategies import bounded, seeds
from tools.oracle.numerics import DIGITS, LARGEST, LEAST, round_to
from tools.oracle.reals import power

X = np.longdouble
INF = math.inf
# dy, base, exponent
KNOWN = [(1e10, 0.3, 86.0), (-0.0887, 88.0, 20.0), (2.0, -INF, 2.5), (2.0, INF, 2.5), (1e-30, 1e30, 3.0)]
ENDS = (INF, -INF, 0.0, -0.0, 1.0, -1.0, math.nan)
EXPONENTS = (2.5, 3.0, 2.0, 1.5, 1.0, 0.5, 0.0, -0.0, -0.5, -1.0, -2.0, -2.5, 4.0, INF, -INF, math.nan)


def power_gradients(dy, a, b):
    """b a^(b - 1) dy and a^b ln(a) dy; both are 0 for b = 0, and the second also where the power's limit is 0."""
    dy, a, b = (np.asarray(v, X) for v in (dy, a, b))
    with np.errstate(all="ignore"):
        da = np.where(b == 0, 0, b * power(a, b - 1) * dy)
        y = power(a, b)
        db = y * np.log(a) * dy
        vanishes = np.isin(a, (0, np.inf)) & ((y == 0) | ((a == 0) & (b >= 0)))
        return da, np.where(vanishes, 0, db)


def run(library, op, values, dtype, strided=False, **scalars):
    """The outputs of a call on flat arrays, or on every other element of longer ones."""
    row, _ = OPS[op + ("_strided" if strided else "")]
    n = len(next(iter(values.values())))
    strides = (2,) if strided else None
    arrays = {p.name: Array(dtype, (n,), values.get(p.name), strides) for p in row.pointers}
    host = {"shape": (n,), **{f"stride_{p.name}": (2,) for p in row.pointers}} if strided else {}
    problem = Problem({"numel": n, **({"rank": 1} if strided else {}), **scalars}, arrays, host)
    outcome = launch(library, op + ("_strided" if strided else ""), problem)
    assert outcome.status == 0, outcome.text
    return {name: outcome.values(name) for name in outcome.bits}


def bound_of(dtype):
    """The 16-bit bound allows for exponents as large as 400 with logarithms accurate to 2^-22."""
    return (
        0.5 + 2.0**-4
        if dtype in ("f16", "bf16")
        else tolerances.ulps("powf_backward", dtype, bk.default_library().backend)
    )


def assert_close(what, got, expected, dtype, operands):
    """Asserts the bound of powers, for a subnormal number in its own unit; signs of zeros are not compared."""
    top, bound = np.frexp(LARGEST[dtype])[1], bound_of(dtype)
    beyond = np.ldexp(X(1), top)
    with np.errstate(all="ignore"):
        near, value = (np.clip(v.astype(X), -beyond, beyond) for v in (expected, got))
        exponent = np.clip(np.frexp(np.abs(np.where(np.isnan(near), 0, near)))[1], None, top) - DIGITS[dtype]
        error = np.abs(value - near) / np.ldexp(X(1), np.maximum(exponent, LEAST[dtype]))
    good = (error <= bound) | (np.isnan(got) & np.isnan(expected))
    good &= np.isinf(got) | ~np.isinf(expected)
    if not good.all():
        k = max(np.flatnonzero(~good), key=lambda i: np.nan_to_num(float(error[i]), nan=INF))
        at = ", ".join(f"{name} = {values[k]!r}" for name, values in operands.items())
        raise AssertionError(f"{what}: {(~good).sum()} of {got.size}; {error[k]:.2f} ulp at {at}: {got[k]!r}, "
                             f"expected {expected[k]!r}")  # fmt: skip


def check_pairs(library, dtype, dy, a, b, strided=False):
    dy, a, b = (round_to(np.asarray(v, np.float64), dtype) for v in (dy, a, b))
    got = run(library, f"binary_pow_backward_{dtype}", {"dy": dy, "a": a, "b": b}, dtype, strided)
    for name, expected in zip(("da", "db"), power_gradients(dy, a, b)):
        assert_close(f"{name} of pow, {dtype}", got[name], expected, dtype, {"dy": dy, "a": a, "b": b})


def check_parameter(library, dtype, dy, x, p, strided=False):
    """Every op that takes the exponent as a scalar; the powi ops where it is an integer."""
    dy, x = (round_to(np.asarray(v, np.float64), dtype) for v in (dy, x))
    p = float(np.float32(p))
    for name in ("powf", "powf_param", "powi", "powi_param"):
        whole = name.startswith("powi")
        if whole and not (math.isfinite(p) and p == math.trunc(p)):
            continue
        scalars = {"p0": int(p) if name == "powi_param" else p} | ({"p1": 0.0} if name == "powi" else {})
        op = f"unary_{name.replace('_param', '')}{'_param' if 'param' in name else ''}_backward_{dtype}"
        got = run(library, op, {"dy": dy, "x": x}, dtype, strided, **scalars)["dx"]
        expected, _ = power_gradients(dy, x, np.full(x.shape, p))
        assert_close(f"{op}, p0 = {p!r}", got, expected, dtype, {"dy": dy, "x": x})


def extreme(rng, dtype, n):
    """dy, base, exponent: powers of any size, half of the bases near 1, and results that are mostly in the range."""
    top = np.frexp(LARGEST[dtype])[1]
    base = np.ldexp(1 + rng.random(n), rng.integers(LEAST[dtype], top, n))
    base = np.where(rng.random(n) < 0.5, np.exp2(rng.uniform(-4, 4, n) * 2.0 ** rng.integers(-8, 1, n)), base)
    base = round_to(base, dtype)
    base = np.where(np.log2(base) == 0, 3.0, base)
    size = rng.uniform(-1.2 * top, 1.2 * top, n) * rng.choice([0.1, 1.0, 1.9], n)  # log2 of the power
    exponent = size / np.log2(base)
    exponent = round_to(np.where(rng.random(n) < 0.5, np.rint(exponent), exponent), dtype)
    wanted = rng.uniform(LEAST[dtype], top, n)
    factor = (exponent - 1) * np.log2(base) + np.log2(np.abs(exponent) + (exponent == 0))
    dy = np.exp2(np.clip(wanted - factor, LEAST[dtype], top - 0.01)) * rng.choice([-1.0, 1.0], n)
    return round_to(dy, dtype), base * np.where(rng.random(n) < 0.2, -1.0, 1.0), exponent


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_known_arguments(library, dtype, strided):
    dy, a, b = (np.array(v) for v in zip(*KNOWN))
    keep = np.abs(round_to(dy, dtype)) < INF
    check_pairs(library, dtype, dy[keep], a[keep], b[keep], strided)
    for one, x, p in np.stack([dy, a, b], 1)[keep]:
        check_parameter(library, dtype, [one], [x], p, strided)


@pytest.mark.parametrize("dtype", FLOATS)
def test_ends(library, dtype):
    """0, infinity and NaN: the sign is that of pow."""
    a, b, dy = (v.ravel() for v in np.meshgrid(ENDS, EXPONENTS, (2.0, -0.5, 0.0)))
    check_pairs(library, dtype, dy, a, b)
    for p in EXPONENTS:
        x, dy = (v.ravel() for v in np.meshgrid(ENDS, (2.0, -0.5, 0.0)))
        check_parameter(library, dtype, dy, x, p)


@pytest.mark.parametrize("dtype", FLOATS)
def test_zero_times_a_power_beyond_the_range(library, dtype):
    """A gradient dy of 0 gives 0, whatever the finite power."""
    a, b = (v.ravel() for v in np.meshgrid([1e-4, 3e4, 1.5, 0.9], [100.0, -100.0, 3e4, -3e4]))
    a, b, zero = round_to(a, dtype), round_to(b, dtype), np.zeros(16)
    got = run(library, f"binary_pow_backward_{dtype}", {"dy": zero, "a": a, "b": b}, dtype)
    assert not got["da"].any()
    assert not got["db"].any()
    for p in (100, -100, 30000, -30000):
        for op, scalars in ((f"unary_powf_backward_{dtype}", {"p0": float(p)}),
                            (f"unary_powi_param_backward_{dtype}", {"p0": p})):  # fmt: skip
            assert not run(library, op, {"dy": zero, "x": a}, dtype, **scalars)["dx"].any()


@pytest.mark.parametrize("dtype", FLOATS)
def test_large_exponents_of_powi(library, dtype):
    """Integer exponents with more digits than the compute type, and bases next to 1."""
    below, above = 1 - 2.0 ** -DIGITS[dtype], 1 + 2.0 ** (1 - DIGITS[dtype])
    for n in (2**25 + 1, -(2**25) - 3, 2**31 + 7, 2**40 + 1, 2**55 + 3, 2**62 + 1, -(2**62)):
        x = np.array([below, above, -below, -above])
        op = f"unary_powi_param_backward_{dtype}"
        got = run(library, op, {"dy": np.full(4, 0.5), "x": x}, dtype, p0=n)["dx"]
        with np.errstate(all="ignore"):
            y = np.exp(X(n - 1) * np.log(np.abs(x.astype(X)))) * np.where(x < 0, (-1) ** ((n - 1) % 2), 1)
        assert_close(op, got, n * y * X(0.5), dtype, {"x": x})


@bounded
@given(st.sampled_from(FLOATS), seeds, st.booleans())
def test_extreme_powers(library, dtype, seed, strided):
    dy, a, b = extreme(np.random.default_rng(seed), dtype, 400)
    check_pairs(library, dtype, dy, a, b, strided)


@bounded
@given(st.sampled_from(FLOATS), seeds)
def test_extreme_powers_of_one_exponent(library, dtype, seed):
    rng = np.random.default_rng(seed)
    dy, x, b = extreme(rng, dtype, 300)
    p = float(np.clip(np.float32(b[0]), -1e30, 1e30))
    for exponent in (p, math.trunc(p)) if abs(p) < 2**24 else (p,):
        check_parameter(library, dtype, dy, x, exponent)


@pytest.mark.parametrize("dtype", FLOATS)
def test_summed(library, dtype):
    """Summands each of whose powers leaves the range of f32, or that of f64."""
    large = dtype == "f64"
    a, b = np.array([30.0, 0.03]), np.full(2, 230.0 if large else 30.0)
    wanted = np.array([3.0, 5.0])  # expected da
    a = round_to(a, dtype)
    dy = np.clip(wanted / (b * np.power(a.astype(X), b - 1)), 2.0 ** LEAST[dtype], LARGEST[dtype])
    dy = round_to(dy.astype(np.float64), dtype)
    arrays = {name: Array(dtype, (2,), values, (1,)) for name, values in (("dy", dy), ("a", a), ("b", b))}
    arrays |= {name: Array(dtype, (2,), None, (0,)) for name in ("da", "db")}
    host = {"shape": (2,), **{f"stride_{name}": array.strides for name, array in arrays.items()}}
    outcome = launch(library, f"binary_pow_backward_{dtype}_strided", Problem({"numel": 2, "rank": 1}, arrays, host))
    assert outcome.status == 0, outcome.text
    for name, summands in zip(("da", "db"), power_gradients(dy, a, b)):
        got, expected = outcome.values(name)[:1], summands.sum(keepdims=True)
        assert_close(name, got, expected.astype(X), dtype, {"dy": dy, "a": a, "b": b})
