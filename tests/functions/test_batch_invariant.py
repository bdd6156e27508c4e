# SPDX-License-Identifier: Apache-2.0
"""The keyword batch_invariant of products: permuted, padded and sliced batches give the same bits."""

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


def test_the_keyword_is_a_bool():
    x = np.ones((2, 3), np.float32)
    with pytest.raises(bk.InvalidProblemError, match="batch_invariant is 1, must be a bool"):
        bk.matmul(x, x.T, batch_invariant=1)
