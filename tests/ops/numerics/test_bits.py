# SPDX-License-Identifier: Apache-2.0
"""Copies keep the bits: payloads and signs of NaN, which the values of the case table do not show."""

import numpy as np
import pytest

from cases import Array, Problem, strides_for
from harness import FLOATS, OPS, Launch, decode, width
from naming import each_row
from tools.oracle.numerics import encode

NUMEL = 1003


def bytes_of(rng, numel, dtype):
    """Random bytes."""
    return np.frombuffer(rng.bytes(numel * width(dtype) // 8), f"u{width(dtype) // 8}")


def run(library, op, problem, bits, **options):
    prepared = Launch(library, op, problem, **options)
    for name, values in bits.items():
        prepared.buffers[name].set_bits(values)
    outcome = prepared.outcome(prepared.run())
    assert outcome.status == 0, outcome.text
    return outcome.bits


def layout(op, names):
    """Host arrays and strides by operand: rows with gaps for a strided op."""
    shape = (17, NUMEL // 17)
    if not op.endswith("_strided"):
        return (NUMEL,), {}, dict.fromkeys(names)
    strides = {name: strides_for(shape, pad=k) for k, name in enumerate(names)}
    return shape, {"shape": shape, **{f"stride_{n}": s for n, s in strides.items()}}, strides


@each_row([op for op, (row, _) in OPS.items() if row.name.startswith("where")])
def test_where(library, op, rng):
    """A condition is true if any of its bits is set, also those that make a negative number or, as a float, zero."""
    row, slots = OPS[op]
    dtypes = {p.name: p.dtype_of(slots) for p in row.pointers}
    shape, host, strides = layout(op, dtypes)
    bits = {n: bytes_of(rng, NUMEL, d).reshape(shape) for n, d in dtypes.items() if n in ("a", "b", "dy")}
    bit = rng.integers(0, width(dtypes["cond"]), shape).astype(np.uint64)
    one_bit = (np.uint64(1) << bit).astype(f"u{width(dtypes['cond']) // 8}")
    cond = np.where(rng.random(shape) < 0.5, 0, one_bit)
    arrays = {n: Array(d, shape, None, strides[n]) for n, d in dtypes.items()}
    got = run(library, op, Problem({"numel": NUMEL, "rank": 2}, arrays, host), {"cond": cond, **bits})
    if "dy" in bits:
        bits = {"da": np.where(cond != 0, bits["dy"], 0), "db": np.where(cond != 0, 0, bits["dy"])}
    else:
        bits = {"y": np.where(cond != 0, bits["a"], bits["b"])}
    for name, want in bits.items():
        assert (got[name] == want).all(), name


@pytest.mark.parametrize("summed", ["da", "db"])
@each_row([op for op, (row, _) in OPS.items() if row.name == "where_backward_{T}_strided"])
def test_where_beside_a_sum(library, op, rng, summed):
    """The gradient that is not summed is a copy, also onto dy."""
    _, slots = OPS[op]
    dtype, shape = slots["T"], (17, NUMEL // 17)
    moved = "db" if summed == "da" else "da"
    dense = strides_for(shape)
    strides = {"cond": dense, "dy": dense, moved: dense, summed: (0, 1)}
    arrays = {n: Array("u8" if n == "cond" else dtype, shape, None, strides[n]) for n in ("cond", "dy", "da", "db")}
    problem = Problem(
        {"numel": NUMEL, "rank": 2}, arrays, {"shape": shape, **{f"stride_{n}": s for n, s in strides.items()}}
    )
    dy, cond = bytes_of(rng, NUMEL, dtype).reshape(shape), rng.integers(0, 2, shape).astype(np.uint8)
    expected = np.where((cond != 0) == (moved == "da"), dy, 0)
    for alias in ({}, {moved: "dy"}):
        got = run(library, op, problem, {"cond": cond, "dy": dy}, alias=alias)
        assert (got[moved] == expected).all()


# f32 and f64 are passed as floating-point arguments, which may change a NaN
BY_BITS = [op for op, (row, slots) in OPS.items() if row.name.startswith("fill") and slots["T"] not in ("f32", "f64")]


@each_row(BY_BITS)
def test_fill_of_bits(library, op, rng):
    _, slots = OPS[op]
    dtype = slots["T"]
    shape, host, strides = layout(op, ["y"])
    for bits in (*bytes_of(rng, 6, dtype), 0, 2 ** width(dtype) - 1, 2 ** (width(dtype) - 1) + 1):
        value = int(bits)
        if dtype[0] == "i" and value >= 2 ** (width(dtype) - 1):
            value -= 2 ** width(dtype)
        problem = Problem(
            {"numel": NUMEL, "rank": 2, "value": value}, {"y": Array(dtype, shape, None, strides["y"])}, host
        )
        assert (run(library, op, problem, {})["y"] == bits).all(), hex(bits)


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_copysign(library, dtype, strided, rng):
    """All bits but the sign come from the first operand, and the sign from the second, for NaN as well."""
    op = f"binary_copysign_{dtype}{'_strided' if strided else ''}"
    shape, host, strides = layout(op, ("a", "b", "y"))
    count = int(np.prod(shape))
    a, b = bytes_of(rng, count, dtype).copy(), bytes_of(rng, count, dtype).copy()
    nan = encode(np.array([np.nan, -np.nan]), dtype)
    a[::3], b[::2] = np.resize(nan, a[::3].shape), np.resize(nan[::-1], b[::2].shape)
    arrays = {name: Array(dtype, shape, None, strides[name]) for name in ("a", "b", "y")}
    for name, bits in (("a", a), ("b", b)):
        arrays[name].values = decode(bits.reshape(shape), dtype)
    scalars = {"numel": count, **({"rank": len(shape)} if strided else {})}
    got = run(library, op, Problem(scalars, arrays, host), {"a": a.reshape(shape), "b": b.reshape(shape)})["y"]
    sign = a.dtype.type(1) << a.dtype.type(width(dtype) - 1)
    np.testing.assert_array_equal(got.reshape(-1), (a & ~sign) | (b & sign))
