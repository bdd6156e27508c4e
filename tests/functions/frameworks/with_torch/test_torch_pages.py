# SPDX-License-Identifier: Apache-2.0
"""paged_kv_append as an operator of PyTorch: it writes its caches, also in a compiled function."""

import numpy as np
import pytest
import torch

import baracuda as bk
import baracuda.torch as bt

PAGES, HEADS, SIZE, WIDTH = 7, 2, 4, 8


def problem(dtype=torch.float32, tokens=5):
    """Two sequences of 3 and 2 pages; k_new to positions, in order."""
    rng = np.random.default_rng(tokens)
    rows = [torch.from_numpy(rng.standard_normal((tokens, HEADS, WIDTH)).astype(np.float32)) for _ in "kv"]
    caches = [torch.full((PAGES, HEADS, SIZE, WIDTH), 9, dtype=dtype) for _ in "kv"]
    integers = [np.array([5, 1, 4, 6, 0]), np.array([0, 3, 5]), np.arange(tokens) % 2, np.arange(tokens)]
    return [*rows, *caches, *[torch.from_numpy(each.astype(np.int32)) for each in integers]]


def filled(given):
    """The caches after the call, by NumPy."""
    k_new, v_new, k_cache, v_cache, ids, offsets, owners, positions = [each.numpy() for each in given]
    caches = k_cache.copy(), v_cache.copy()
    for token, (owner, position) in enumerate(zip(owners, positions)):
        page = ids[offsets[owner] + position // SIZE]
        for cache, rows in zip(caches, (k_new, v_new)):
            cache[page, :, position % SIZE] = rows[token]
    return caches


def test_caches_are_written():
    given = problem()
    wanted = filled(given)
    assert bt.paged_kv_append(*given) is None
    for cache, want in zip(given[2:4], wanted):
        np.testing.assert_array_equal(cache.numpy(), want)


def test_operator():
    torch.library.opcheck(torch.ops.baracuda.paged_kv_append.default, tuple(problem()))
    scales = [torch.zeros(PAGES, HEADS, SIZE) for _ in "kv"]
    torch.library.opcheck(
        torch.ops.baracuda.paged_kv_append.default,
        tuple(problem(torch.int8)),
        dict(zip(("k_scales", "v_scales"), scales)),
    )


def test_in_a_compiled_function():
    """Caches are written before they are read; another number of tokens compiles nothing that is wrong."""

    @torch.compile(fullgraph=True, backend="aot_eager", dynamic=True)
    def step(k_new, v_new, k_cache, v_cache, *integers):
        bt.paged_kv_append(k_new, v_new, k_cache, v_cache, *integers)
        return k_cache.sum()

    for tokens in (5, 3, 8):
        given = problem(tokens=tokens)
        wanted = filled(given)
        found = step(*given)
        np.testing.assert_array_equal(given[3].numpy(), wanted[1])
        assert float(found) == pytest.approx(float(wanted[0].sum()), rel=1e-5)


def test_gradients_are_refused():
    given = problem()
    given[0].requires_grad_()
    with pytest.raises(bk.UnsupportedError, match="paged_kv_append has no gradient"):
        bt.paged_kv_append(*given)
    with torch.no_grad():
        bt.paged_kv_append(*given)
