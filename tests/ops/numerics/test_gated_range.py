# SPDX-License-Identifier: Apache-2.0
"""Gated units whose gate, or partial product, leaves the range of the dtype though the result does not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tolerances
from cases import Array, Expected, Problem
from harness import FLOATS, launch
from harness.strategies import bounded, seeds
from tools.oracle import GATED
from tools.oracle.numerics import DIGITS, LARGEST, LEAST, round_to
from tools.oracle.reals import Wide as X

NAMES = ("glu", "swiglu", "geglu")
# a, b, dy
KNOWN = [
    (3e38, -200.0, 1.0), (3e38, -50.0, 1.0), (-1.1e31, -157.3, 1.0), (1e38, -150.0, 1e38), (1e38, -16.5, 1e38),
    (1e-30, 3.0, 1e30), (1e30, -80.0, 1e-30), (3.3e38, 2.4, 1e-3), (3e-38, 0.5, 3e38), (1e-20, 1e-20, 1e20),
    (1e38, 1e-38, 1e-38), (1.5e-45, 3e30, 1.0),
]  # fmt: skip


def extreme(rng, dtype, n):
    """Operands of every exponent, and a gate that brings many of the products back into the range."""
    top = np.frexp(LARGEST[dtype])[1] - 1
    a, dy = np.ldexp(1 + rng.random((2, n)), rng.integers(LEAST[dtype], top, (2, n), endpoint=True))
    depth = np.log(2) * rng.uniform(0, 3 * top, n)  # of e^b
    b = np.where(rng.random(n) < 0.5, -depth, -np.sqrt(2 * depth)) * rng.choice([1.0, 1.0, -1.0], n)
    near = np.ldexp(rng.standard_normal(n), rng.integers(-30, 4, n))
    b = np.where(rng.random(n) < 0.3, near, b)
    sign = rng.choice([-1.0, 1.0], (2, n))
    return tuple(round_to(np.minimum(v, LARGEST[dtype]), dtype) for v in (a * sign[0], b, dy * sign[1]))


def call(library, op, a, b, strided, **others):
    """The halves of x are contiguous each, or interleaved."""
    n, dtype = a.size, op.rsplit("_", 1)[1]
    step, half = (2, 1) if strided else (1, n)
    both = {"x": np.stack([a, b]), **others}
    arrays, host, scalars = {}, {"output_shape": (n,)}, {"output_numel": n, "rank": 1, "split_dim": 0}
    for name in ("x", "dy", "dx") if "backward" in op else ("x", "y"):
        double = name in ("x", "dx")
        strides = (half, step) if double else (step,)
        arrays[name] = Array(dtype, (2, n) if double else (n,), both.get(name), strides)
        host[f"stride_{name}"] = (step,)
        scalars |= {f"{name}_half_offset": half} if double else {}
    outcome = launch(library, op, Problem(scalars, arrays, host))
    assert outcome.status == 0, outcome.text
    return outcome.values("dx" if "backward" in op else "y")


def expected(value, size):
    """The bound of tolerances.gated; only a tiny product of two operands is subnormal before the last rounding."""
    return Expected(value, 1, size, 1.0)


def check(library, name, dtype, a, b, dy, strided=False):
    function, slope = GATED[name].gate, GATED[name].slope
    x, z, g = (v.astype(X) for v in (a, b, dy))
    with np.errstate(all="ignore"):
        value, (rising, size) = function(z), slope(z)
        y = expected(x * value, np.abs(x * value))
        da, db = g * value, x * g * rising
        dx = expected(np.stack([da, db]), np.stack([np.abs(da), np.abs(x * g) * size]))
    label = f"gated_{name}_{dtype}"
    tolerances.check(label, call(library, label, a, b, strided), dtype, y, "gated")
    label = f"gated_{name}_backward_{dtype}"
    tolerances.check(label, call(library, label, a, b, strided, dy=dy), dtype, dx, "gated")


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", NAMES)
def test_known_arguments(library, name, dtype, strided):
    a, b, dy = (round_to(np.array(v), dtype) for v in zip(*KNOWN))
    keep = np.isfinite(a) & np.isfinite(dy) & np.isfinite(b)
    check(library, name, dtype, a[keep], b[keep], dy[keep], strided)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64"])
@pytest.mark.parametrize("name", NAMES)
def test_edges(library, name, dtype):
    """Values of b in small steps around the points where the gate changes its formula, or leaves the range."""
    deep = {"f64": (900, 1022, 1074, 1529.5, 2100)}.get(dtype, (100, 126, 149, 188.5, 285))
    depth = (np.array(deep)[:, None] * np.log(2) * (1 + np.linspace(-0.02, 0.02, 201))).ravel()
    b = -np.sqrt(2 * depth) if name == "geglu" else -depth
    b = round_to(b, dtype)
    for size in (1.0, 2.0**40, LARGEST[dtype] / 4):
        for side in (1, -1):
            check(library, name, dtype, np.full(b.size, size), side * b, np.full(b.size, LARGEST[dtype] / 8))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", NAMES)
def test_ends(library, name, dtype):
    """NaN propagates, and the gate of -infinity is 0."""
    y = call(
        library, f"gated_{name}_{dtype}", np.array([np.nan, 1.0, 2.0, 0.0]), np.array([1.0, np.nan, -np.inf, -300]), 0
    )
    assert np.isnan(y[:2]).all()
    assert (y[2:] == 0).all()


@bounded
@given(st.sampled_from(FLOATS), st.sampled_from(NAMES), seeds, st.booleans())
def test_extreme_operands(library, dtype, name, seed, strided):
    check(library, name, dtype, *extreme(np.random.default_rng(seed), dtype, 500), strided)


def test_the_range_is_left():
    """The operands are extreme: f32 has no e^b for many of them, and yet the products."""
    a, b, _ = extreme(np.random.default_rng(1), "f32", 5000)
    gate = np.exp(b.astype(X))
    product = np.abs(a * gate)
    assert ((gate < 2.0 ** LEAST["f32"]) & (product > 2.0 ** (LEAST["f32"] + DIGITS["f32"]))).sum() > 30
