# SPDX-License-Identifier: Apache-2.0
"""Every row with more than 2^31 elements once: checked at the ends, around the powers of two, and between.

Arrays repeat a short random pattern, so the expected values are known without a second array of that size.
"""

import numpy as np
import pytest
from gpu_tools import Large, call, large_workspace

import tolerances
from cases import Expected

PERIOD = 100_003  # odd: indices that differ by a power of two hold different values
SLICE = 50_000


def pattern(seed, length=PERIOD):
    return np.random.default_rng(seed).standard_normal(length)


def compare(name, array, first, expected, tolerance):
    got = array.read(first, expected.value.size)
    tolerances.check(f"{name} from {first}", got, array.dtype, expected, tolerance)


WEIGHT = 0.25


def lerp_expected(a, b):
    step = WEIGHT * (b - a)
    return Expected(a + step, 3, np.abs(step))


def test_lerp(library):
    n = 2**31 + 12345
    a, b, y = Large("bf16", n, pattern(1)), Large("bf16", n, pattern(2, PERIOD + 2)), Large("bf16", n)
    call(library, "binary_lerp_bf16", {"numel": n, "a": a, "b": b, "y": y, "p": WEIGHT})
    for first, count in y.slices(SLICE):
        at = np.arange(first, first + count)
        compare("y", y, first, lerp_expected(a.values_at(at), b.values_at(at)), "pointwise")


def test_lerp_backward(library):
    n = 2**31 + 12347
    dy, da, db = Large("f16", n, pattern(3)), Large("f16", n), Large("f16", n)
    call(library, "binary_lerp_backward_f16", {"numel": n, "dy": dy, "da": da, "db": db, "p": WEIGHT})
    for first, count in da.slices(SLICE):
        g = dy.values_at(np.arange(first, first + count))
        compare("da", da, first, Expected((1 - WEIGHT) * g, 1, np.abs(g)), "pointwise")
        compare("db", db, first, Expected(WEIGHT * g, 0, np.abs(g)), "pointwise")


ROWS, COLUMNS, PITCH = 32801, 65537, 65540


def test_lerp_strided(library):
    """a has gaps, b is one row for all, y is dense."""
    n = ROWS * COLUMNS
    a, b, y = Large("f16", ROWS * PITCH, pattern(4)), Large("f16", COLUMNS, pattern(5)), Large("f16", n)
    strides = {"stride_a": (PITCH, 1), "stride_b": (0, 1), "stride_y": (COLUMNS, 1)}
    values = {"numel": n, "rank": 2, "shape": (ROWS, COLUMNS), **strides, "a": a, "b": b, "y": y, "p": WEIGHT}
    call(library, "binary_lerp_f16_strided", values)
    for first, count in y.slices(SLICE):
        row, column = np.divmod(np.arange(first, first + count), COLUMNS)
        compare("y", y, first, lerp_expected(a.values_at(row * PITCH + column), b.values_at(column)), "pointwise")


def test_lerp_strided_reaching_far(library):
    """Few elements at offsets that need more than 32 bits, forwards and backwards."""
    shape, far = (5, 1003), 2**29 + 7
    span = 4 * far + 1003
    a, b, y = Large("f16", span, pattern(6)), Large("f16", 5 * 1003, pattern(7)), Large("f16", 5 * 1003)
    strides = {"stride_a": (far, 1), "stride_b": (-1003, 1), "stride_y": (1003, 1)}
    last_row = b.cell(4 * 1003)  # the first element of the view
    values = {"numel": 5 * 1003, "rank": 2, "shape": shape, **strides, "a": a, "b": last_row, "y": y, "p": WEIGHT}
    call(library, "binary_lerp_f16_strided", values)
    row, column = np.divmod(np.arange(5 * 1003), 1003)
    expected = lerp_expected(a.values_at(row * far + column), b.values_at((4 - row) * 1003 + column))
    compare("y", y, 0, expected, "pointwise")


def test_lerp_backward_strided(library):
    n = ROWS * COLUMNS
    dy, da, db = Large("bf16", n, pattern(8)), Large("bf16", ROWS * PITCH), Large("bf16", n)
    strides = {"stride_dy": (COLUMNS, 1), "stride_da": (PITCH, 1), "stride_db": (COLUMNS, 1)}
    values = {"numel": n, "rank": 2, "shape": (ROWS, COLUMNS), **strides, "dy": dy, "da": da, "db": db, "p": WEIGHT}
    call(library, "binary_lerp_backward_bf16_strided", values)
    for first, count in db.slices(SLICE):
        g = dy.values_at(np.arange(first, first + count))
        compare("db", db, first, Expected(WEIGHT * g, 0, np.abs(g)), "pointwise")
    for row in (0, ROWS // 2, 2**31 // PITCH, 2**31 // PITCH + 1, ROWS - 1):
        g = dy.values_at(row * COLUMNS + np.arange(COLUMNS))
        compare("da", da, row * PITCH, Expected((1 - WEIGHT) * g, 1, np.abs(g)), "pointwise")


def test_repeat(library):
    shape, repeats = (3, 50_001), (5, 2865)
    wide = (shape[0] * repeats[0], shape[1] * repeats[1])
    x, y = Large("f16", shape[0] * shape[1], pattern(9)), Large("f16", wide[0] * wide[1])
    assert y.numel > 2**31
    values = {
        "output_numel": y.numel, "rank": 2, "input_shape": shape, "output_shape": wide, "stride_x": (shape[1], 1),
        "stride_y": (wide[1], 1), "x": x, "y": y,
    }  # fmt: skip
    call(library, "repeat_f16", values)
    for first, count in y.slices(SLICE):
        row, column = np.divmod(np.arange(first, first + count), wide[1])
        compare("y", y, first, Expected(x.values_at(row % shape[0] * shape[1] + column % shape[1])), "exact")


@pytest.mark.parametrize("with_workspace", [False, True])
def test_repeat_backward(library, with_workspace):
    shape, repeats = (401, 2003), (60, 45)
    wide = (shape[0] * repeats[0], shape[1] * repeats[1])
    dy, dx = Large("bf16", wide[0] * wide[1], pattern(10)), Large("bf16", shape[0] * shape[1])
    assert dy.numel > 2**31
    values = {
        "input_numel": dx.numel, "rank": 2, "input_shape": shape, "repeats": repeats, "stride_dy": (wide[1], 1),
        "stride_dx": (shape[1], 1), "dy": dy, "dx": dx,
    }  # fmt: skip
    call(
        library,
        "repeat_backward_bf16",
        values,
        large_workspace(library, "repeat_backward_bf16", values) if with_workspace else None,
    )
    down, across = np.divmod(np.arange(repeats[0] * repeats[1]), repeats[1])
    for row in (0, 1, shape[0] // 2, shape[0] - 1):
        at = (row + down * shape[0])[:, None] * wide[1] + (across * shape[1])[:, None] + np.arange(shape[1])
        summands = dy.values_at(at)
        compare("dx", dx, row * shape[1], Expected(summands.sum(0), len(down), np.abs(summands).sum(0)), "total")


B, H, Q, K = 2, 16, 4096, 16_400


def score_index(first, count):
    row, j = np.divmod(np.arange(first, first + count), K)
    plane, i = np.divmod(row, Q)
    return plane % H, j - i


SCORES = {"batch": B, "heads": H, "q_len": Q, "k_len": K}


def test_alibi(library):
    n = B * H * Q * K
    assert n > 2**31
    scores, slopes, y = Large("bf16", n, pattern(11)), Large("bf16", H, pattern(12, H)), Large("bf16", n)
    call(library, "alibi_bf16", {**SCORES, "scores": scores, "slopes": slopes, "y": y})
    for first, count in y.slices(SLICE):
        head, distance = score_index(first, count)
        bias = slopes.values_at(head) * distance
        value = scores.values_at(np.arange(first, first + count)) + bias
        compare("y", y, first, Expected(value, 1, np.abs(bias)), "pointwise")


@pytest.mark.parametrize("with_workspace", [False, True])
def test_alibi_backward(library, with_workspace):
    """dy repeats one row of random values for all queries, so that its sums are known exactly."""
    n = B * H * Q * K
    dy, da, dslope = Large("bf16", n, pattern(13, K) + 1), Large("bf16", n), Large("bf16", H)
    workspace = large_workspace(library, "alibi_backward_bf16", SCORES) if with_workspace else None
    call(library, "alibi_backward_bf16", {**SCORES, "dy": dy, "da": da, "dslope": dslope}, workspace)
    for first, count in da.slices(SLICE):
        compare("da", da, first, Expected(dy.values_at(np.arange(first, first + count))), "exact")
    # sum over b, i, j of dy[j] (j - i) = B sum over j of dy[j] (Q j - Q (Q - 1) / 2)
    j = np.arange(K)
    total = B * (dy.pattern * (Q * j - Q * (Q - 1) // 2)).sum()
    size = B * sum((np.abs(dy.pattern) * np.abs(j - i)).sum() for i in range(0, Q, 64)) * 64
    compare("dslope", dslope, 0, Expected(np.full(H, total), B * Q * K, np.full(H, size)), "total_of_products")


N, D, S = 2**21 + 17, 1024, 2**17 + 3
SAMPLE = (0, 1, 2, S // 3, S // 2, S - 2, S - 1)


def segment_ids(*, ordered):
    ids = np.arange(N) * S // N if ordered else np.arange(N) * 7919 % S
    return ids, Large("i32", N, ids)


@pytest.mark.parametrize("with_workspace", [False, True])
@pytest.mark.parametrize("op", ["segment_sum", "unsorted_segment_sum"])
def test_segment_sum(library, op, with_workspace):
    ids, device_ids = segment_ids(ordered=op == "segment_sum")
    x, output = Large("bf16", N * D, pattern(14)), Large("bf16", S * D)
    assert x.numel > 2**31
    values = {"n": N, "d": D, "num_segments": S, "input": x, "segment_ids": device_ids, "output": output}
    workspace = large_workspace(library, f"{op}_bf16", values) if with_workspace else None
    call(library, f"{op}_bf16", values, workspace)
    tolerance = "total" if with_workspace or op == "segment_sum" else "atomic_total"
    for s in SAMPLE:
        rows = np.flatnonzero(ids == s)
        summands = x.values_at(rows[:, None] * D + np.arange(D))
        compare("output", output, s * D, Expected(summands.sum(0), len(rows), np.abs(summands).sum(0)), tolerance)


@pytest.mark.parametrize("op", ["segment_sum_backward", "unsorted_segment_sum_backward"])
def test_segment_sum_backward(library, op):
    ids, device_ids = segment_ids(ordered=op == "segment_sum_backward")
    d_output, d_input = Large("f16", S * D, pattern(15)), Large("f16", N * D)
    values = {"n": N, "d": D, "num_segments": S, "d_output": d_output, "segment_ids": device_ids, "d_input": d_input}
    call(library, f"{op}_f16", values)
    for first, count in d_input.slices(SLICE):
        row, column = np.divmod(np.arange(first, first + count), D)
        compare("d_input", d_input, first, Expected(d_output.values_at(ids[row] * D + column)), "exact")


BAGS, LENGTH, E = 999, 32, 2**21 + 17


def bag_indices():
    """Indices of rows, half of which lie behind 2^31 elements; a few rows occur often."""
    rng = np.random.default_rng(16)
    indices = np.where(
        rng.random(BAGS * LENGTH) < 0.5, rng.integers(E - 64, E, BAGS * LENGTH), rng.integers(0, E, BAGS * LENGTH)
    )
    offsets = np.arange(BAGS) * LENGTH
    scalars = {
        "total_indices": BAGS * LENGTH, "num_embeddings": E, "embedding_dim": D, "num_bags": BAGS, "mode": 1,
        "padding_idx": -1,
    }  # fmt: skip
    return indices, {**scalars, "indices": Large("i64", len(indices), indices), "offsets": Large("i32", BAGS, offsets)}


def test_embedding_bag(library):
    indices, values = bag_indices()
    weight, out = Large("bf16", E * D, pattern(17)), Large("bf16", BAGS * D)
    call(library, "embedding_bag_i64idx_bf16", {**values, "weight": weight, "out": out})
    for b in range(0, BAGS, 7):
        summands = weight.values_at(indices[b * LENGTH : (b + 1) * LENGTH, None] * D + np.arange(D)) / LENGTH
        compare("out", out, b * D, Expected(summands.sum(0), LENGTH, np.abs(summands).sum(0)), "mean")


@pytest.mark.parametrize("with_workspace", [False, True])
def test_embedding_bag_backward(library, with_workspace):
    indices, values = bag_indices()
    dout, dweight = Large("bf16", BAGS * D, pattern(18)), Large("bf16", E * D, byte=0)
    op = "embedding_bag_backward_i64idx_bf16"
    workspace = large_workspace(library, op, values) if with_workspace else None
    call(library, op, {**values, "dout": dout, "dweight": dweight}, workspace)
    tolerance = "total_of_quotients" if with_workspace else "atomic_total_of_quotients"
    touched = np.unique(indices)
    for row in (*touched[:20], *touched[-80:], *np.setdiff1d(np.arange(100), touched)[:5]):
        bags = np.flatnonzero(indices == row) // LENGTH
        summands = dout.values_at(bags[:, None] * D + np.arange(D)) / LENGTH
        size = np.abs(summands).sum(0)
        compare("dweight", dweight, row * D, Expected(summands.sum(0), len(bags) + 1, size, size), tolerance)


@pytest.mark.parametrize("backward", [False, True])
def test_last_positions_of_an_int32(library, backward):
    """A bag that ends at index 2^31 - 1, where a step of several indices overflows 32 bits."""
    total, length, rows, width = 2**31 - 1, 13, 101, 5
    indices = Large("i32", total, np.arange(rows))
    valid = indices.values_at(np.arange(total - length, total)).astype(int)
    values = {
        "total_indices": total, "num_embeddings": rows, "embedding_dim": width, "num_bags": 1, "mode": 0,
        "padding_idx": -1, "indices": indices, "offsets": Large("i32", 1, np.array([total - length])),
    }  # fmt: skip
    if backward:
        dout, dweight = Large("f32", width, pattern(19, width)), Large("f32", rows * width, byte=0)
        call(library, "embedding_bag_backward_f32", {**values, "dout": dout, "dweight": dweight})
        want = np.zeros((rows, width))
        np.add.at(want, valid, dout.values_at(np.arange(width)))
        compare("dweight", dweight, 0, Expected(want.ravel(), 2, np.abs(want).ravel()), "atomic_total")
    else:
        weight, out = Large("f32", rows * width, pattern(20)), Large("f32", width)
        call(library, "embedding_bag_f32", {**values, "weight": weight, "out": out})
        summands = weight.values_at(valid[:, None] * width + np.arange(width))
        compare("out", out, 0, Expected(summands.sum(0), length, np.abs(summands).sum(0)), "total")
