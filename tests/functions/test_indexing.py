# SPDX-License-Identifier: Apache-2.0
"""Indexing: functions against NumPy, the last of several updates, counts beyond the capacity, plans."""

import dataclasses

import numpy as np
import pytest
from test_called_functions import MOVED

import baracuda as bk
import tolerances
from cases import CASES, Draw
from cases.indexing.copies import put, scatter
from harness import OPS, launch
from naming import Tries

ELEMENTS = (np.float32, np.float64, np.float16, np.int8, np.uint16, np.int32, np.uint64, np.bool_)
INDICES = (np.int32, np.int64)


def values(rng, shape, dtype):
    return (rng.integers(-9, 10, shape) * (rng.random(shape) < 0.6)).astype(dtype)


def test_every_function_is_here():
    assert set(FUNCTIONS) == MOVED


def gather(rng, dtype, index):
    x = values(rng, (5, 6, 7), dtype)
    for axis in (-1, 0, 1):
        at = rng.integers(0, x.shape[axis], np.where(np.arange(3) == axis % 3, 4, x.shape)).astype(index)
        np.testing.assert_array_equal(bk.gather(x, at, axis=axis), np.take_along_axis(x, at.astype(np.int64), axis))
    permuted, at = x.transpose(2, 0, 1), rng.integers(0, 7, (3, 5, 6)).astype(index)
    np.testing.assert_array_equal(bk.gather(permuted, at, axis=0), np.take_along_axis(permuted, at.astype(np.int64), 0))
    with pytest.raises(bk.InvalidProblemError, match="index has shape"):
        bk.gather(x, np.zeros((6, 6, 7), index))


def index_select(rng, dtype, index):
    x, at = values(rng, (5, 6, 7), dtype), rng.integers(0, 5, 9).astype(index)
    np.testing.assert_array_equal(bk.index_select(x, at), x[at])
    np.testing.assert_array_equal(bk.index_select(x.T, at, axis=-1), x.T[..., at])
    np.testing.assert_array_equal(bk.index_select(x, np.repeat(at, 2)[::2], axis=1), x[:, at])


def take(rng, dtype, index):
    x, at = values(rng, (5, 6), dtype), rng.integers(0, 30, (4, 3)).astype(index)
    np.testing.assert_array_equal(bk.take(x, at), np.take(x, at))
    np.testing.assert_array_equal(bk.take(x.T, at.T), np.take(x.T, at.T))


def gather_rows(rng, dtype, index):
    table, at = values(rng, (5, 6), dtype), np.array([4, 0, 9, 2], np.uint32)
    np.testing.assert_array_equal(bk.gather_rows(table, at), [*table[[4, 0]], 0 * table[0], table[2]])


def scatter_function(rng, dtype, index):
    updates = values(rng, (4, 5), dtype)
    at = rng.permuted(np.broadcast_to(np.arange(8), (4, 8)), axis=1)[:, :5].astype(index)
    for out in (np.zeros((4, 8), dtype), values(rng, (4, 8), dtype)):
        expected = out.copy()
        np.put_along_axis(expected, at.astype(np.int64), updates, 1)
        if out.any():
            bk.scatter(at, updates, 8, out=out)
            np.testing.assert_array_equal(out, expected)
        else:
            np.testing.assert_array_equal(bk.scatter(at, updates, 8), expected)


def put_function(rng, dtype, index):
    updates, at = values(rng, (3, 4), dtype), rng.permutation(20)[:12].reshape(3, 4).astype(index)
    expected = np.zeros(20, dtype)
    expected[at] = updates
    np.testing.assert_array_equal(bk.put(at, updates, 20), expected)


def put_add(rng, dtype, index):
    kind = dtype if dtype in (np.float32, np.float64, np.float16, np.int32) else np.int64
    updates, at = values(rng, (3, 4), kind), rng.integers(-1, 7, (3, 4)).astype(index)
    kept = (at >= 0) & (at < 6)
    for out in (np.zeros(6, kind), np.arange(6).astype(kind)):
        expected = out.copy()
        np.add.at(expected, at[kept], updates[kept])
        if out.any():
            bk.put_add(at, updates, 6, out=out)
            np.testing.assert_array_equal(out, expected)
        else:
            np.testing.assert_array_equal(bk.put_add(at, updates, 6), expected)


def masked_fill(rng, dtype, index):
    x, mask = values(rng, (5, 6), dtype), rng.random((5, 6)) < 0.5
    np.testing.assert_array_equal(bk.masked_fill(x, mask, 1), np.where(mask, dtype(1), x))
    np.testing.assert_array_equal(bk.masked_fill(x, mask[:1], 1), np.where(mask[:1], dtype(1), x))
    np.testing.assert_array_equal(bk.masked_fill(x.T, mask.T, 0), np.where(mask.T, dtype(0), x.T))


def masked_fill_backward(rng, dtype, index):
    dy, mask = values(rng, (5, 6), dtype), rng.random((5, 6)) < 0.5
    np.testing.assert_array_equal(bk.masked_fill_backward(dy, mask), np.where(mask, dtype(0), dy))


def masked_select(rng, dtype, index):
    x, mask = values(rng, (5, 6), dtype), rng.random((5, 6)) < 0.5
    chosen, count = bk.masked_select(x, mask)
    np.testing.assert_array_equal(chosen[: int(count)], x[mask])
    few, count = bk.masked_select(x.T, mask.T, max_selected=3)
    np.testing.assert_array_equal(few, x.T[mask.T][:3])
    assert count == mask.sum()


def masked_select_backward(rng, dtype, index):
    mask = rng.random((5, 6)) < 0.5
    dy, expected = values(rng, (30,), dtype), np.zeros((5, 6), dtype)
    expected[mask] = dy[: mask.sum()]
    np.testing.assert_array_equal(bk.masked_select_backward(dy, mask), expected)


def masked_scatter(rng, dtype, index):
    source, mask, out = values(rng, (30,), dtype), rng.random((5, 6)) < 0.5, values(rng, (5, 6), dtype)
    for start in (np.zeros_like(out), out):
        expected = start.copy()
        expected[mask] = source[: mask.sum()]
        got = bk.masked_scatter(mask, source) if start is not out else bk.masked_scatter(mask, source, out=out)
        np.testing.assert_array_equal(got, expected)


def nonzero(rng, dtype, index):
    x = values(rng, (5, 6, 7), dtype)
    for each in (x, x.transpose(1, 2, 0), x[::-1, ::2]):
        table, count = bk.nonzero(each)
        np.testing.assert_array_equal(table[: int(count)], np.argwhere(each))
    table, count = bk.nonzero(x, max_nz=3)
    np.testing.assert_array_equal(table, np.argwhere(x)[:3])
    assert count == np.count_nonzero(x)


def one_hot(rng, dtype, index):
    at = np.array([[1, 0, 5], [-1, 2, 2]], index)
    expected = (at[..., None] == np.arange(3)).astype(dtype)
    got = bk.one_hot(at, 3, dtype=dtype)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, expected)


FUNCTIONS = {
    "gather": gather, "index_select": index_select, "take": take, "gather_rows": gather_rows,
    "scatter": scatter_function, "put": put_function, "put_add": put_add, "masked_fill": masked_fill,
    "masked_fill_backward": masked_fill_backward, "masked_select": masked_select,
    "masked_select_backward": masked_select_backward, "masked_scatter": masked_scatter, "nonzero": nonzero,
    "one_hot": one_hot,
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(rng, name):
    with Tries() as tries:
        for dtype in ELEMENTS:
            for index in INDICES:
                with tries(f"{np.dtype(dtype)}, {np.dtype(index)}"):
                    FUNCTIONS[name](rng, dtype, index)


SCATTERS = [op for op in OPS if op.startswith(("scatter_f", "scatter_i64idx_", "scatter_u8", "put_"))
            and OPS[op][0].name in ("scatter{I}_{T}", "put{I}_{T}")]  # fmt: skip


@pytest.mark.parametrize("op", SCATTERS)
def test_the_last_update_of_a_target_stays(library, op):
    """The last update stays with a workspace, along any axis; on the CPU without one too."""
    row, slots = OPS[op]
    if "put" in op:
        problems = {"flat": lambda d: put(d, 5003, 97, last=True)}
    else:
        problems = {
            "last": lambda d: scatter(d, (7, 301), 1, 19, last=True),
            "first": lambda d: scatter(d, (301, 40), 0, 23, last=True),
            "middle": lambda d: scatter(d, (3, 90, 5), 1, 4, last=True, out={"order": (2, 0, 1)}),
            "rows": lambda d: scatter(d, (90, 64), 0, 7, last=True, index={"broadcast": (1,)}),
            "long": lambda d: scatter(d, (60007,), 0, 11, last=True),
        }
    with Tries() as tries:
        for name, make in problems.items():
            problem = make(Draw(slots, name))
            for workspace in ("full", None) if library.backend == "cpu" else ("full",):
                with tries(f"{name}, {workspace}"):
                    outcome = launch(library, op, problem, workspace=workspace)
                    assert outcome.status == 0, outcome.text
                    expected = CASES[row.name].reference(problem)["out"]
                    tolerances.check(op, outcome.values("out"), slots["T"], expected, "exact")


def test_fill_bits_of_a_number():
    for element, value, bits in (
        (bk.f32, -2.0, 0xC0000000), (bk.f64, 1.0, 0x3FF << 52), (bk.f16, 1.0, 0x3C00), (bk.bf16, -1.0, 0xBF80),
        (bk.i32, -3, -3), (bk.u64, 2**64 - 1, -1), (bk.bool_, True, 1), (bk.e4m3fn, 1.0, 0x38),
    ):  # fmt: skip
        assert bk.MaskedFillDescriptor.of((3,), value, element=element).fill_bits == bits
    for new, element, value in (
        ("new_f32", bk.f32, -2.0), ("new_f64", bk.f64, 0.1), ("new_i32", bk.i32, -3), ("new_bool", bk.bool_, True)
    ):  # fmt: skip
        made = getattr(bk.MaskedFillDescriptor, new)((3, 4), value)
        assert made == bk.MaskedFillDescriptor.of((3, 4), value, element=element), new


def test_plan_of_nonzero_takes_a_flat_table(rng):
    x = values(rng, (4, 5), np.float32)
    plan = bk.NonzeroPlan.select(None, bk.NonzeroDescriptor((4, 5), 20, element=bk.f32))
    for shape in ((20, 2), (40,)):
        table, counter = bk.empty(shape, bk.i64), bk.empty((1,), bk.i64)
        args = bk.NonzeroArgs(bk.upload(x), table, counter)
        plan.run(None, bk.workspace(plan, args), args)
        bk.synchronize()
        count = int(bk.download(counter)[0])
        np.testing.assert_array_equal(bk.download(table).reshape(20, 2)[:count], np.argwhere(x))


def test_plan_of_scatter_promises_an_order_where_it_is_asked_for():
    descriptor = bk.ScatterDescriptor((4, 5), 1, 7, element=bk.bf16)
    plan = bk.ScatterPlan.select(None, descriptor)
    assert plan.workspace_size == 0
    ordered = bk.ScatterPlan.select(None, descriptor, bk.PlanPreference(deterministic=True))
    assert ordered.precision_guarantee.deterministic
    with pytest.raises(bk.InvalidProblemError, match="scatter_dim is 2"):
        bk.ScatterPlan.select(None, dataclasses.replace(descriptor, scatter_dim=2))
