# SPDX-License-Identifier: Apache-2.0
"""The keyword batch_invariant of products and attention: permuted, padded and sliced batches give the same bits."""

import ml_dtypes
import numpy as np
import pytest

import baracuda as bk

K, N = 300, 90
PRODUCTS = {
    "matmul": lambda x, w, bias, **o: bk.matmul(x, w.T, **o),
    "linear": lambda x, w, bias, **o: bk.linear(x, w, bias, **o),
    **{
        f.__name__: lambda x, w, bias, f=f, **o: f(x, w, bias, **o)
        for f in (bk.linear_relu, bk.linear_gelu, bk.linear_silu, bk.linear_gelu_tanh)
    },
    **{
        f.__name__: lambda x, w, bias, f=f, **o: f(x, w, w[::-1].copy(), bias, **o)
        for f in (bk.linear_swiglu, bk.linear_geglu)
    },
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", PRODUCTS)
def test_rows(rng, name, dtype):
    x, w = (rng.standard_normal(shape).astype(dtype) for shape in ((70, K), (N, K)))
    bias = rng.standard_normal(N).astype(dtype)

    def product(rows):
        return np.asarray(PRODUCTS[name](rows, w, bias, batch_invariant=True))

    expected = product(x)
    order = rng.permutation(70)
    np.testing.assert_array_equal(product(x[order]), expected[order])
    padded = np.concatenate([x, np.full((60, K), np.nan, dtype)])
    np.testing.assert_array_equal(product(padded)[:70], expected)
    for rows in (slice(0, 1), slice(69, 70), slice(3, 11), slice(5, 14)):
        np.testing.assert_array_equal(product(x[rows]), expected[rows])
        wide = np.zeros((len(expected[rows]), K + 3), dtype)
        wide[:, 3:] = x[rows]
        np.testing.assert_array_equal(product(wide[:, 3:]), expected[rows])
    np.testing.assert_array_equal(product(x.reshape(2, 35, K)), expected.reshape(2, 35, N))


def test_matmul_of_transposed_operands_and_vectors(rng):
    a, b = rng.standard_normal((70, K)).astype(np.float32), rng.standard_normal((K, N)).astype(np.float32)
    expected = bk.matmul(a, b, batch_invariant=True)
    np.testing.assert_array_equal(bk.matmul(np.asfortranarray(a), b, batch_invariant=True), expected)
    np.testing.assert_array_equal(bk.matmul(a[7], b, batch_invariant=True), expected[7])
    of_batch = bk.matmul(np.stack([a, a[::-1]]), b, batch_invariant=True)
    np.testing.assert_array_equal(of_batch, np.stack([expected, expected[::-1]]))


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_attention(rng, dtype, layout):
    q, k, v = (rng.standard_normal(s).astype(dtype) for s in ((3, 4, 75, 64), (3, 2, 300, 64), (3, 2, 300, 64)))

    def attend(*operands):
        operands = [x.swapaxes(1, 2) for x in operands] if layout == "bshd" else operands
        given = {"batch_invariant": True, "enable_gqa": True, "is_causal": True, "aligns_ends": True}
        y = np.asarray(bk.scaled_dot_product_attention(*operands, layout=layout, **given))
        return y.swapaxes(1, 2) if layout == "bshd" else y

    expected = attend(q, k, v)
    np.testing.assert_array_equal(attend(q[::-1], k[::-1], v[::-1]), expected[::-1])
    np.testing.assert_array_equal(attend(q[1:2], k[1:2], v[1:2]), expected[1:2])
    np.testing.assert_array_equal(attend(q[:, :, -1:], k, v), expected[:, :, -1:])
    np.testing.assert_array_equal(attend(q[:, :, :40], k[:, :, :-35], v[:, :, :-35]), expected[:, :, :40])


def test_attention_of_sequences(rng):
    lengths, order = [5, 40, 0, 75], [3, 1, 0, 2]
    parts = [[rng.standard_normal((n, 4, 64)).astype(np.float32) for _ in "qkv"] for n in lengths]

    def attend(chosen):
        cu = np.concatenate([[0], np.cumsum([lengths[b] for b in chosen])]).astype(np.int32)
        operands = (np.concatenate([parts[b][n] for b in chosen]) for n in range(3))
        most = max(lengths[b] for b in chosen)
        y = bk.flash_attn_varlen(*operands, cu, cu, most, most, causal=True, batch_invariant=True)
        return dict(zip(chosen, np.split(np.asarray(y), cu[1:-1])))

    expected = attend(range(4))
    for chosen in (order, [1], [0, 3]):
        for b, found in attend(chosen).items():
            np.testing.assert_array_equal(found, expected[b])


def test_the_keyword_is_a_bool():
    x = np.ones((2, 3), np.float32)
    with pytest.raises(bk.InvalidProblemError, match="batch_invariant is 1, must be a bool"):
        bk.matmul(x, x.T, batch_invariant=1)
    x = x[None]
    with pytest.raises(bk.InvalidProblemError, match="batch_invariant is 1, must be a bool"):
        bk.scaled_dot_product_attention(x, x, x, batch_invariant=1)
