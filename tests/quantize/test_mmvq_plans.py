# SPDX-License-Identifier: Apache-2.0
"""Products with GGUF weights: the plans of the reference against float64, and what a row of a result depends on."""

import numpy as np
import pytest

import baracuda as bk
from cases.quantize.products import WEIGHTS, weights_of
from tools.oracle.block_formats import FORMATS, decoded
from tools.oracle.numerics import round_to

EPS = {"f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}
SOME = ("q4_0", "q5_1", "q8_0", "q3_K", "q4_K", "q6_K", "q8_K")


class Bytes:
    """Source from which weights_of draws."""

    def __init__(self, rng):
        self.rng = rng


def format_of(name):
    return bk.GgufBlockFormat[name.upper()]


def make(rng, name, rows, blocks):
    """Bytes of rows, and their values."""
    data = weights_of(Bytes(rng), FORMATS[name], rows, blocks).astype(np.uint8)
    return data, decoded(FORMATS[name], data).astype(np.float64)


def close(got, expected, magnitude, count, dtype):
    bound = (2 * count + 16) * 2.0**-23 * magnitude + 2 * EPS[dtype] * np.abs(expected)
    bound = bound + (6e-8 if dtype == "f16" else 1e-30)
    fits = np.abs(expected) < (6e4 if dtype == "f16" else np.inf)  # others may overflow
    assert np.all(np.abs(got.astype(np.float64) - expected)[fits] <= bound[fits])


def run(plan, args):
    size = plan.workspace_size
    plan.run(None, bk.empty((size,), bk.u8) if size else None, args)
    bk.synchronize()


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("name", SOME)
def test_vectors(rng, name, dtype):
    data, w = make(rng, name, 21, 3)
    n, k = w.shape
    x = round_to(rng.standard_normal(2 * k), dtype)
    for stride, offset in ((1, 0), (2, 0), (1, 24), (-1, 5)):
        view = bk.upload(x, bk.dtypes.as_element(dtype))
        first = view.ptr + (view.dtype.itemsize * (k - 1) if stride < 0 else 0)
        activation = bk.TensorRef(first, (k,), dtype, strides=(stride,), owner=view)
        taken = x[:k][::-1] if stride < 0 else x[: stride * k : stride]
        weight = bk.upload(np.concatenate([np.full(offset, 255, np.uint8), data.reshape(-1)]))
        y = bk.zeros((n,), dtype)
        given = bk.GgufMmvqDescriptor(format_of(name), n, k, offset, element=dtype)
        run(bk.GgufMmvqPlan.select(None, given), bk.GgufMmvqArgs(weight=weight, activation=activation, output=y))
        close(bk.download(y), w @ taken, np.abs(w) @ np.abs(taken), k, dtype)


@pytest.mark.parametrize("m", [0, 1, 7, 19])
@pytest.mark.parametrize("name", SOME[:-1])
def test_quantised_rows_of_any_number(rng, name, m):
    """Errors are those of activations with seven bits, a few times 1 / 254 of the largest of 32."""
    data, w = make(rng, name, 13, 2)
    n, k = w.shape
    x = rng.standard_normal((m, k)).astype(np.float32)
    y = bk.zeros((m, n))
    plan = bk.GgufMmvqMultiMPlan.select(None, bk.GgufMmvqMultiMDescriptor(format_of(name), n, k, m=m, element=bk.f32))
    assert plan.workspace_size == m * (k // 32) * 36
    run(plan, bk.GgufMmvqMultiMArgs(weight=bk.upload(data.reshape(-1)), activations=bk.upload(x), output=y))
    largest = np.repeat(np.abs(x).reshape(m, k // 32, 32).max(2), 32, axis=1)
    bound = largest @ np.abs(w.T) / 100 + 0.04 * np.abs(w).max() * k / 32
    assert np.all(np.abs(bk.download(y) - x @ w.T) <= bound)


def test_a_format_without_integer_products():
    with pytest.raises(bk.UnsupportedError, match="q8_K"):
        given = bk.GgufMmvqMultiMDescriptor(bk.GgufBlockFormat.Q8_K, 4, 256, m=2, element=bk.f32)
        bk.GgufMmvqMultiMPlan.select(None, given)


def experts(rng, name, *, top_k, dtype, tokens=11):
    data, w = make(rng, name, 4 * 9, 2)
    w = w.reshape(4, 9, -1)
    k = w.shape[-1]
    pairs = [(e, t) for e in (0, 2, 3) for t in range(tokens) if top_k > 1 or t % 4 == e]  # expert 1 has none
    ids = np.array([t for _, t in pairs], np.int32)
    offsets = np.array([sum(e < bound for e, _ in pairs) for bound in range(5)], np.int32)
    return data, w, round_to(rng.standard_normal((tokens, k)), dtype), ids, offsets, [e for e, _ in pairs]


def dispatched(name, data, x, ids, offsets, factors, *, top_k, dtype, start=0.0):
    n, k = 9, x.shape[1]
    given = bk.GgufMmvqBatchedDescriptor(format_of(name), 4, n, k, len(ids), top_k, element=dtype)
    plan = bk.GgufMmvqBatchedPlan.select(None, given)
    y = bk.upload(np.full((x.shape[0], n), start), dtype)
    run(plan, bk.GgufMmvqBatchedArgs(
        weights=bk.upload(data.reshape(-1)), activations=bk.upload(x, dtype), sorted_token_ids=bk.upload(ids),
        expert_offsets=bk.upload(offsets), output=y, topk_weights=None if factors is None else bk.upload(factors),
    ))  # fmt: skip
    return bk.download(y)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("top_k", [1, 3])
@pytest.mark.parametrize("name", ["q4_0", "q6_K", "q8_K"])
def test_experts(rng, name, top_k, dtype):
    data, w, x, ids, offsets, of = experts(rng, name, top_k=top_k, dtype=dtype)
    factors = rng.random(len(ids)).astype(np.float32)
    got = dispatched(name, data, x, ids, offsets, factors, top_k=top_k, dtype=dtype, start=0.0 if top_k > 1 else 7.0)
    expected, magnitude = np.full(got.shape, 0.0 if top_k > 1 else 7.0), np.zeros(got.shape)
    for e, t, factor in zip(of, ids, factors):
        value = factor * (w[e] @ x[t])
        expected[t] = expected[t] + value if top_k > 1 else value
        magnitude[t] += factor * (np.abs(w[e]) @ np.abs(x[t]))
    bound = 4e-5 * magnitude + 4 * EPS[dtype] * (np.abs(expected) + (magnitude if top_k > 1 else 0)) + 2e-7
    fits = magnitude < (6e4 if dtype == "f16" else np.inf)  # others may overflow
    assert np.all(np.abs(got.astype(np.float64) - expected)[fits] <= bound[fits])


def test_experts_ignore_bad_ids_and_offsets(rng):
    data, _, x, ids, offsets, _ = experts(rng, "q4_K", top_k=1, dtype="f32")
    ids[3], offsets[4], offsets[0] = -1, 2**30, -5
    got = dispatched("q4_K", data, x, ids, offsets, None, top_k=1, dtype="f32", start=5.0)
    assert np.all(np.isfinite(got))


def test_a_token_does_not_depend_on_others(rng):
    data, _, x, ids, offsets, of = experts(rng, "q4_K", top_k=3, dtype="f32")
    factors = rng.random(len(ids)).astype(np.float32)
    whole = dispatched("q4_K", data, x, ids, offsets, factors, top_k=3, dtype="f32")
    np.testing.assert_array_equal(dispatched("q4_K", data, x, ids, offsets, factors, top_k=3, dtype="f32"), whole)
    keep = ids % 3 == 1
    some = np.array([sum(e < bound for e, kept in zip(of, keep) if kept) for bound in range(5)], np.int32)
    part = dispatched("q4_K", data, x, ids[keep], some, factors[keep], top_k=3, dtype="f32")
    np.testing.assert_array_equal(part[1::3], whole[1::3])


@pytest.mark.parametrize("name", WEIGHTS)
def test_a_row_does_not_depend_on_the_batch(rng, name):
    data, _ = make(rng, name, 17, 2)
    x = rng.standard_normal((37, 2 * FORMATS[name].values)).astype(np.float32)
    whole = bk.quantized_matmul(x, data, name, batch_invariant=True)
    for rows in (slice(0, 1), slice(5, 8), slice(3, 20), slice(30, 37)):
        np.testing.assert_array_equal(bk.quantized_matmul(x[rows], data, name, batch_invariant=True), whole[rows])
    np.testing.assert_array_equal(bk.quantized_matmul(x, data[3:9], name, batch_invariant=True), whole[:, 3:9])


@pytest.mark.parametrize(("name", "blocks"), [("q4_0", 5), ("q6_K", 3), ("q4_K", 29)])
def test_bits_do_not_depend_on_where_a_row_of_weights_is(rng, name, blocks):
    data, _ = make(rng, name, 2_300, blocks)
    x = rng.standard_normal((2, blocks * FORMATS[name].values)).astype(np.float32)
    whole = bk.quantized_matmul(x, data, name)
    for first in (3, 16, 2_120):
        np.testing.assert_array_equal(bk.quantized_matmul(x, data[first:], name), whole[:, first:])


def test_shapes_that_do_not_fit(rng):
    data, _ = make(rng, "q4_0", 4, 2)
    with pytest.raises(bk.InvalidProblemError, match="x has shape"):
        bk.quantized_matmul(np.zeros((3, 96), np.float32), data, "q4_0")
    with pytest.raises(bk.InvalidProblemError, match="bias has shape"):
        bk.quantized_matmul(np.zeros((3, 64), np.float32), data, "q4_0", bias=np.zeros(3, np.float32))
    with pytest.raises(bk.InvalidProblemError, match="format is 'q9'"):
        bk.quantized_matmul(np.zeros((3, 64), np.float32), data, "q9")
    assert bk.quantized_matmul(np.zeros((2, 0, 64), np.float32), data, "q4_0").shape == (2, 0, 4)
