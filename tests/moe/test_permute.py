# SPDX-License-Identifier: Apache-2.0
"""Rows of a matrix beyond the L2 cache of a GPU, which are walked by tokens there, against NumPy: exact."""

import numpy as np
import pytest

import baracuda as bk

pytestmark = pytest.mark.needs_ops("moe_permute_f32")
TOKENS, WIDTH, TOP_K = 3200, 2048, 3  # 25 MiB of f32


def pairs_by_expert(rng, kind):
    """The order of a stable sort by expert, or one that no sort makes."""
    order = np.argsort(rng.integers(0, 8, TOKENS * TOP_K), kind="stable").astype(np.int32)
    if kind == "dropped":
        order[-1000:] = -1
    elif kind == "padded":
        order = np.append(order, np.full(9000, -1, np.int32))
    elif kind == "repeated":  # more rows of a token than a thread block lists
        order[:] = 7
        order[::3], order[1::7] = -5, 2**31 - 1
    return order


@pytest.mark.parametrize("kind", ["sorted", "dropped", "padded", "repeated"])
def test_rows_of_a_large_matrix(library, rng, kind):
    x = rng.standard_normal((TOKENS, WIDTH)).astype(np.float32)
    order = pairs_by_expert(rng, kind)
    position = np.zeros((TOKENS, TOP_K), np.int32)  # moe_permute reads its shape alone
    y = bk.download(bk.moe_permute(*(bk.upload(a, library=library) for a in (x, order, position))))
    token = order // TOP_K
    has = (order >= 0) & (token < TOKENS)
    np.testing.assert_array_equal(y[has], x[token[has]])
    assert not y[~has].any()
