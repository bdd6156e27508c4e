# SPDX-License-Identifier: Apache-2.0
"""sin, cos, tan and their gradients in f32 and bf16 at angles of any size; the CPU reduces angles from 2^17 on
separately."""

import mpmath as mp
import numpy as np
import pytest

import tolerances
from tools.accuracy.functions import Function
from tools.accuracy.library import run
from tools.accuracy.ulp import errors
from tools.oracle.numerics import decode

# angles next to multiples of pi / 2, and the ends of the ranges
HARD = [
    float.fromhex(text)
    for text in "0x1.a33758p72 0x1.f9dfcep4 0x1.4e9e7p110 0x1.fffffep127 0x1p17 0x1.000002p17 0x1.fffffep16".split()
]
TRUE = {"sin": mp.sin, "cos": mp.cos, "tan": mp.tan}
SLOPE = {"sin": mp.cos, "cos": lambda x: -mp.sin(x), "tan": lambda x: mp.sec(x) ** 2}


def angles(dtype):
    rng = np.random.default_rng(17)
    spread = np.ldexp(rng.uniform(1, 2, 600), rng.integers(-20, 128, 600)).astype(np.float32)
    bits = np.concatenate((np.array(HARD, np.float32), spread)).view(np.uint32)
    bits = np.concatenate((bits, bits | np.uint32(0x80000000)))
    return bits if dtype == "f32" else np.unique(bits >> 16).astype(np.uint16)


def true(function, x):
    with mp.workdps(80):
        return np.array([np.longdouble(mp.nstr(function(mp.mpf(float(v))), 25)) for v in x])


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("name", TRUE)
def test_values(library, name, dtype):
    bits = angles(dtype)
    x, got = decode(bits, dtype), decode(run(library, Function(name, "unary"), dtype, bits), dtype)
    ulp, special = errors(got, true(TRUE[name], x), dtype)
    assert not special.any()
    assert ulp.max() <= tolerances.ulps(name, dtype, library.backend), f"{x[ulp.argmax()]!r}"


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("name", TRUE)
def test_gradients(library, name, dtype):
    bits = angles(dtype)
    ones = np.full_like(bits, {"f32": 0x3F800000, "bf16": 0x3F80}[dtype])
    x, got = decode(bits, dtype), decode(run(library, Function(name, "backward"), dtype, ones, bits), dtype)
    ulp, special = errors(got, true(SLOPE[name], x), dtype)
    assert not special.any()
    assert ulp.max() <= tolerances.ulps(f"{name}_backward", dtype, library.backend), f"{x[ulp.argmax()]!r}"


@pytest.mark.parametrize("name", TRUE)
def test_a_large_angle_changes_no_neighbour(library, name):
    x = np.linspace(-300, 300, 640, dtype=np.float32)
    alone = run(library, Function(name, "unary"), "f32", x.view(np.uint32))
    for value in (1e30, np.inf, np.nan):
        beside = x.copy()
        beside[100] = value
        got = run(library, Function(name, "unary"), "f32", beside.view(np.uint32))
        assert np.array_equal(np.delete(got, 100), np.delete(alone, 100))


@pytest.mark.parametrize("name", TRUE)
def test_special(library, name):
    x = np.array([np.inf, -np.inf, np.nan, -0.0, 0.0], np.float32)
    got = run(library, Function(name, "unary"), "f32", x.view(np.uint32)).view(np.float32)
    assert np.isnan(got[:3]).all()
    assert np.array_equal(np.signbit(got[3:]), [name != "cos", False])
