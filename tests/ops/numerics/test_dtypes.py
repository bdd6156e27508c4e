# SPDX-License-Identifier: Apache-2.0
"""Conversions in the kernels: every 16-bit value through a copy and through arithmetic, and every kind of rounding.

The harness's own conversions, which all other tests rely on, are tested too.
"""

import ml_dtypes
import numpy as np
import pytest

import tolerances
from cases import CASES, Array, Draw, Problem
from cases.elementwise.unary import maker
from harness import (
    FP8,
    INTEGERS,
    LIMITS,
    NAN_POISON,
    OPS,
    PACKED,
    Guarded,
    Launch,
    decode,
    encode,
    itemsize,
    launch,
    memory_of,
    round_to,
)
from naming import each_row

HALVES = ("f16", "bf16")
SHORT = ("i8", "u8", "i16", "u16", "bool")
NUMPY = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
NUMPY_FP8 = {"fp8e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "fp8e5m2": np.dtype(ml_dtypes.float8_e5m2)}
ALL_BITS = np.arange(65536, dtype=np.uint16)


def values_of(bits, dtype):
    """Values by NumPy and ml_dtypes, not by the harness."""
    with np.errstate(invalid="ignore"):  # signalling NaN
        return bits.view(NUMPY[dtype]).astype(np.float64)


def rounded(values, dtype):
    """The bits of f32 values rounded to a dtype, by NumPy and ml_dtypes."""
    with np.errstate(all="ignore"):
        return values.astype(np.float32).astype(NUMPY[dtype]).view(np.uint16)


def same_or_nan(name, bits, expected, dtype):
    is_nan = np.isnan(values_of(expected, dtype))
    assert np.isnan(values_of(bits[is_nan], dtype)).all(), f"{name}: a NaN was lost"
    tolerances.check_bits(name, bits[~is_nan], expected[~is_nan], dtype)


def run_on_bits(library, op, problem, bits, output):
    """Runs the op with the exact bit patterns `bits` (name -> array) in the inputs."""
    prepared = Launch(library, op, problem)
    for name, pattern in bits.items():
        prepared.buffers[name].set_bits(pattern)
    outcome = prepared.outcome(prepared.run())
    assert outcome.status == 0, outcome.text
    return outcome.bits[output]


def flat(dtype, numel, inputs, outputs, **scalars):
    zeros = np.zeros(numel)
    arrays = {name: Array(dtype, (numel,), zeros) for name in inputs}
    return Problem({"numel": numel, **scalars}, arrays | {name: Array(dtype, (numel,)) for name in outputs})


@pytest.mark.parametrize("dtype", HALVES)
def test_the_harness_agrees_with_numpy(dtype):
    """All values, and the midpoint of each two adjacent values with one f64 step to either side."""
    values = values_of(ALL_BITS, dtype)
    np.testing.assert_array_equal(decode(ALL_BITS, dtype), values)
    finite = np.unique(values[np.isfinite(values)])
    middle = (finite[1:] + finite[:-1]) / 2
    np.testing.assert_array_equal(encode(middle, dtype), rounded(middle, dtype))
    up, down = np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)
    np.testing.assert_array_equal(round_to(up, dtype), finite[1:])
    np.testing.assert_array_equal(round_to(down, dtype), finite[:-1])


@pytest.mark.parametrize("dtype", FP8)
def test_the_harness_agrees_with_ml_dtypes(dtype):
    """All bytes, the midpoints of adjacent values and the numbers next to them; too large values saturate."""
    every = np.arange(256, dtype=np.uint8)
    values = every.view(NUMPY_FP8[dtype]).astype(np.float64)
    finite = values[:128][np.isfinite(values[:128])]
    middle = (finite[1:] + finite[:-1]) / 2
    tried = np.concatenate([finite, middle, np.nextafter(middle, np.inf), np.nextafter(middle, 0)])
    # f32 holds finite values and midpoints only; ml_dtypes has no rounding from f64 of its own
    exact = np.concatenate([finite, middle])
    expected = exact.astype(np.float32).astype(NUMPY_FP8[dtype]).view(np.uint8)
    np.testing.assert_array_equal(encode(exact, dtype), expected)
    np.testing.assert_array_equal(encode(-exact, dtype), expected | 0x80)
    np.testing.assert_array_equal(decode(every, dtype), values)
    np.testing.assert_array_equal(round_to(tried[-2 * len(middle) :], dtype), np.concatenate([finite[1:], finite[:-1]]))
    largest = finite[-1]
    np.testing.assert_array_equal(round_to([2 * largest, -1e300], dtype), [largest, -largest])
    infinite = largest if dtype == "fp8e4m3" else np.inf
    np.testing.assert_array_equal(round_to([np.inf, -np.inf, np.nan], dtype), [infinite, -infinite, np.nan])


@pytest.mark.parametrize("dtype", [*INTEGERS, "bool", *PACKED])
def test_the_harness_keeps_integers(dtype):
    """Both ends of the range; a packed array has two elements a byte, the first in the low half."""
    low, high = LIMITS[dtype] if dtype != "bool" else (0, 255)
    values = np.array([low, low + 1, 0, 1, high - 1, high], np.uint64 if dtype == "u64" else np.int64)
    got = round_to(values, dtype)
    assert [int(v) for v in got] == [int(v) for v in values]
    memory = memory_of("cpu")
    array = Guarded(memory, dtype, (5,), bits=encode(values[:5], dtype), poison=NAN_POISON)
    assert [int(v) for v in array.values()] == [int(v) for v in values[:5]]
    if dtype in PACKED:
        nibbles = array.bits()
        stored = array.block.read()[array.pointer - array.block.pointer :]
        assert list(stored[:2]) == [nibbles[0] | nibbles[1] << 4, nibbles[2] | nibbles[3] << 4]
    end = 3 if dtype in PACKED else 5 * itemsize(dtype)
    array.block._bytes[array.pointer - array.block.pointer + end] ^= 1
    with pytest.raises(AssertionError, match="1 bytes changed"):
        array.check("array", written=True)


@pytest.mark.parametrize("dtype", HALVES)
def test_repeat_keeps_all_bits(library, dtype):
    """A copy keeps NaN payloads."""
    shape = (65536,)
    host = {"input_shape": shape, "output_shape": (2 * 65536,), "stride_x": (1,), "stride_y": (1,)}
    arrays = {"x": Array(dtype, shape, np.zeros(shape)), "y": Array(dtype, (2 * 65536,))}
    problem = Problem({"output_numel": 2 * 65536, "rank": 1}, arrays, host)
    bits = run_on_bits(library, f"repeat_{dtype}", problem, {"x": ALL_BITS}, "y")
    tolerances.check_bits(f"repeat_{dtype}", bits, np.tile(ALL_BITS, 2), dtype)


@pytest.mark.parametrize("index", ["", "_i64idx"])
@pytest.mark.parametrize("dtype", HALVES)
def test_gather_keeps_all_bits(library, dtype, index):
    n, d = 256, 256
    ids = np.arange(n)
    arrays = {
        "d_output": Array(dtype, (n, d), np.zeros((n, d))),
        "segment_ids": Array("i64" if index else "i32", (n,), ids),
        "d_input": Array(dtype, (n, d)),
    }
    problem = Problem({"n": n, "d": d, "num_segments": n}, arrays)
    op = f"segment_sum_backward{index}_{dtype}"
    pattern = ALL_BITS.reshape(n, d)
    tolerances.check_bits(op, run_on_bits(library, op, problem, {"d_output": pattern}, "d_input"), pattern, dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_alibi_backward_copies_all_bits(library, dtype):
    shape = (2, 2, 128, 128)
    arrays = {"dy": Array(dtype, shape, np.zeros(shape)), "da": Array(dtype, shape), "dslope": Array(dtype, (2,))}
    problem = Problem({"batch": 2, "heads": 2, "q_len": 128, "k_len": 128}, arrays)
    pattern = ALL_BITS.reshape(shape)
    op = f"alibi_backward_{dtype}"
    tolerances.check_bits(op, run_on_bits(library, op, problem, {"dy": pattern}, "da"), pattern, dtype)


@pytest.mark.parametrize(("p", "source"), [(0.0, "a"), (1.0, "b")])
@pytest.mark.parametrize("dtype", HALVES)
def test_lerp_ends_are_exact(library, dtype, p, source):
    """All finite values pass through f32 unchanged from either end; the other operand is finite."""
    finite = ALL_BITS[np.isfinite(values_of(ALL_BITS, dtype)) & (ALL_BITS != 0x8000)]
    # f32 holds the difference of any two f16, but of two bf16 only if they have similar magnitudes
    other = finite[::-1].copy() if dtype == "f16" else rounded(values_of(finite, dtype) / 2, dtype)
    problem = flat(dtype, finite.size, ("a", "b"), ("y",), p=p)
    bits = {source: finite, "ab".replace(source, ""): other}
    got = run_on_bits(library, f"binary_lerp_{dtype}", problem, bits, "y")
    tolerances.check_bits(f"binary_lerp_{dtype}", got, finite, dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_gradient_by_one_keeps_all_values(library, dtype):
    """dy * 1 and dy * 0: every value is widened, multiplied and narrowed; NaN stays NaN."""
    problem = flat(dtype, 65536, ("dy",), ("da", "db"), p=1.0)
    op = f"binary_lerp_backward_{dtype}"
    same_or_nan(op, run_on_bits(library, op, problem, {"dy": ALL_BITS}, "db"), ALL_BITS, dtype)
    with np.errstate(invalid="ignore"):
        zeros = rounded(values_of(ALL_BITS, dtype) * 0.0, dtype)
    same_or_nan(op, run_on_bits(library, op, problem, {"dy": ALL_BITS}, "da"), zeros, dtype)


# Weights that put products on ties, next to them, into subnormals, below the smallest and above the largest value.
WEIGHTS = (
    0.5, 1.5, 0.75, 1 + 2.0**-8, 1 + 2.0**-9, 1 + 2.0**-11, 1 + 2.0**-12, 1 - 2.0**-9, 1 - 2.0**-12, 1 + 2.0**-23,
    1 / 3, 3.0, 2.0**-10, 2.0**-14, 3 * 2.0**-16, 2.0**-24, 3 * 2.0**-25, 2.0**-25, 2.0**-40, 2.0**-126, 2.0**-133,
    2.0**10, 2.0**120, -1.0, -(2.0**-14) / 3,
)  # fmt: skip


@pytest.mark.parametrize("weight", WEIGHTS, ids=float.hex)
@pytest.mark.parametrize("dtype", HALVES)
def test_rounding_of_products(library, dtype, weight):
    """f32 products of all values by a weight round to nearest even; NumPy rounds f32(weight * value) correctly."""
    problem = flat(dtype, 65536, ("dy",), ("da", "db"), p=weight)
    op = f"binary_lerp_backward_{dtype}"
    with np.errstate(all="ignore"):
        product = np.float32(weight) * values_of(ALL_BITS, dtype).astype(np.float32)
    same_or_nan(op, run_on_bits(library, op, problem, {"dy": ALL_BITS}, "db"), rounded(product, dtype), dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_rounding_of_sums_at_ties(library, dtype):
    """x + half a step of x is a tie between adjacent values, made by a sum of two rows. Half a subnormal step is 0."""
    values = values_of(ALL_BITS, dtype)
    finite = np.unique(values[np.isfinite(values)])
    half = rounded((finite[1:] - finite[:-1]) / 2, dtype)
    rows = np.stack([rounded(finite[:-1], dtype), half])
    n, d = rows.shape
    arrays = {
        "input": Array(dtype, (n, d), np.zeros((n, d))),
        "segment_ids": Array("i32", (n,), np.zeros(n, np.int64)),
        "output": Array(dtype, (1, d)),
    }
    problem = Problem({"n": n, "d": d, "num_segments": 1}, arrays)
    total = values_of(rows[0], dtype) + values_of(rows[1], dtype)
    expected = rounded(total, dtype)
    for op in (f"segment_sum_{dtype}", f"unsorted_segment_sum_{dtype}"):
        got = run_on_bits(library, op, problem, {"input": rows}, "output")[0]
        # a sum of two rows may lose the sign of a zero
        tolerances.check_bits(op, np.where(got == 0x8000, 0, got), np.where(expected == 0x8000, 0, expected), dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_overflow_is_infinite(library, dtype):
    """The largest value plus half its step or more is infinite."""
    largest = values_of(ALL_BITS, dtype)
    largest = largest[np.isfinite(largest)].max()
    step = largest - values_of(rounded(np.array([largest]), dtype) - 1, dtype)[0]
    summands = np.array([[largest, largest, -largest, largest], [step / 4, step / 2, -step / 2, -step]])
    problem = Problem(
        {"n": 2, "d": 4, "num_segments": 1},
        {
            "input": Array(dtype, (2, 4), summands),
            "segment_ids": Array("i32", (2,), np.zeros(2, np.int64)),
            "output": Array(dtype, (1, 4)),
        },
    )
    for op in (f"segment_sum_{dtype}", f"unsorted_segment_sum_{dtype}"):
        got = launch(library, op, problem).values("output")[0]
        np.testing.assert_array_equal(got, [largest, np.inf, -np.inf, largest - step])


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_subnormals_are_preserved(library, dtype):
    tiny = {"f32": 2.0**-149, "f64": 2.0**-1074}[dtype]
    values = np.array([tiny, -tiny, 3 * tiny, 5 * tiny])
    problem = flat(dtype, 4, ("dy",), ("da", "db"), p=0.5)
    problem.arrays["dy"] = Array(dtype, (4,), values)
    got = launch(library, f"binary_lerp_backward_{dtype}", problem)
    want = np.array([0, -0.0, 2 * tiny, 2 * tiny])  # ties to even
    tolerances.check_bits(dtype, got.bits["da"], encode(want, dtype), dtype)
    tolerances.check_bits(dtype, got.bits["db"], encode(want, dtype), dtype)


def unary_ops(backward):
    row = "unary_{F}_backward_{T}" if backward else "unary_{F}_{T}"
    return [op for op, (found, slots) in OPS.items() if found.name == row and slots["T"] in HALVES]


@each_row([*unary_ops(False), *unary_ops(True)])
def test_unary_on_every_value(library, op):
    """All 65536 inputs; gradients for dy = 1."""
    row, slots = OPS[op]
    dtype = slots["T"]
    problem = maker(row.name)(Draw(slots, 0), ALL_BITS.size)
    for name, array in problem.arrays.items():
        if array.values is not None:
            array.values = np.ones(ALL_BITS.size) if name == "dy" else decode(ALL_BITS, dtype)
    (expected,) = CASES[row.name].reference(problem).values()
    outcome = launch(library, op, problem)
    assert outcome.status == 0, outcome.text
    (name,) = outcome.bits
    tolerances.check(op, outcome.values(name), dtype, expected, "ulp")


def is_short(row, slots):
    return row.name.startswith("unary_") and "_strided" not in row.name and slots["T"] in SHORT


@each_row([op for op, (row, slots) in OPS.items() if is_short(row, slots)])
def test_unary_on_every_short_integer(library, op):
    """All values of 8 and 16 bits, and any byte as a bool."""
    row, slots = OPS[op]
    low, high = LIMITS[slots["T"]] if slots["T"] != "bool" else (0, 255)
    problem = maker(row.name)(Draw(slots, 0), high - low + 1)
    problem.arrays["x"].values = np.arange(low, high + 1)
    expected = CASES[row.name].reference(problem)["y"]
    outcome = launch(library, op, problem)
    tolerances.check(op, outcome.values("y"), slots["T"], expected, "ulp")
