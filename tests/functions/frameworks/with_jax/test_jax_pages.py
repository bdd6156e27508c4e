# SPDX-License-Identifier: Apache-2.0
"""paged_kv_append for JAX: caches with new rows, in place where they are donated."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import baracuda as bk
import baracuda.jax as bj

PAGES, HEADS, SIZE, WIDTH = 7, 2, 4, 8
QUANTIZED = {"int8": 127, "float8_e4m3fn": 448, "float8_e5m2": 57344}


def problem(dtype="float32", cache=None, tokens=6):
    """Sequences of 3, 0 and 2 pages; a token lies behind the pages of its sequence, and one outside the batch."""
    rng = np.random.default_rng(tokens)
    rows = [rng.standard_normal((tokens, HEADS, WIDTH)).astype(jnp.dtype(dtype)) for _ in "kv"]
    caches = [rng.integers(-9, 9, (PAGES, HEADS, SIZE, WIDTH)).astype(jnp.dtype(cache or dtype)) for _ in "kv"]
    owners, positions = np.array([0, 2, 0, 2, 0, 3], np.int32), np.array([9, 7, 2, 0, 12, 0], np.int32)
    table = np.array([5, 1, 4, 6, 0], np.int32), np.array([0, 3, 3, 5], np.int32)
    return [*rows, *caches, *table, owners[:tokens], positions[:tokens]]


def kept(given):
    """(token, page, slot) of each token that is kept."""
    *_, ids, offsets, owners, positions = given
    for token, (owner, position) in enumerate(zip(owners, positions)):
        if owner < len(offsets) - 1 and offsets[owner] + position // SIZE < offsets[owner + 1]:
            yield token, ids[offsets[owner] + position // SIZE], position % SIZE


def filled(given):
    """The caches after the call, by NumPy."""
    caches = [np.array(cache) for cache in given[2:4]]
    for token, page, slot in kept(given):
        for cache, rows in zip(caches, given[:2]):
            cache[page, :, slot] = rows[token]
    return caches


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float8_e4m3fn"])
def test_new_caches(dtype):
    given = problem(dtype)
    for function in (bj.paged_kv_append, jax.jit(bj.paged_kv_append)):
        arrays = [jnp.asarray(each) for each in given]
        found = function(*arrays)
        for got, want, before, own in zip(found, filled(given), arrays[2:4], given[2:4]):
            np.testing.assert_array_equal(np.asarray(got), want)
            np.testing.assert_array_equal(np.asarray(before), own)  # as JAX's arrays never change


def test_donated_caches_are_written_in_place():
    given = problem()
    arrays = [jnp.array(each) for each in given]
    before = [cache.unsafe_buffer_pointer() for cache in arrays[2:4]]
    found = jax.jit(bj.paged_kv_append, donate_argnums=(2, 3))(*arrays)
    assert [cache.unsafe_buffer_pointer() for cache in found] == before
    assert all(cache.is_deleted() for cache in arrays[2:4])
    for got, want in zip(found, filled(given)):
        np.testing.assert_array_equal(np.asarray(got), want)


@pytest.mark.parametrize("cache", QUANTIZED)
def test_quantized_caches(cache):
    given = problem(cache=cache)
    scales = [np.full((PAGES, HEADS, SIZE), -1, np.float32) for _ in "kv"]
    *caches, k_scales, v_scales = jax.jit(bj.paged_kv_append)(*given, k_scales=scales[0], v_scales=scales[1])
    slots = list(kept(given))
    written = np.zeros((PAGES, SIZE), bool)
    step = {"int8": 0.501 / 127, "float8_e4m3fn": 2.0**-4, "float8_e5m2": 2.0**-3}[cache]  # half a unit of the format
    for rows, got, before, factors in zip(given[:2], caches, given[2:4], (k_scales, v_scales)):
        assert got.dtype == before.dtype
        stored, factors = np.asarray(got).astype(np.float64), np.asarray(factors, np.float64)
        for token, page, slot in slots:
            written[page, slot] = True
            most = np.abs(rows[token].astype(np.float64)).max(-1)
            np.testing.assert_allclose(factors[page, :, slot], most / QUANTIZED[cache], rtol=1e-6)
            again = stored[page, :, slot] * factors[page, :, slot, None]
            least = step if cache == "int8" else 4e-6  # of the largest element: subnormal numbers of e4m3
            np.testing.assert_allclose(again, rows[token], rtol=step, atol=least * most.max())
        assert (factors.swapaxes(1, 2)[~written] == -1).all()
        untouched = np.asarray(got).swapaxes(1, 2)[~written]
        np.testing.assert_array_equal(untouched, before.swapaxes(1, 2)[~written])


def test_in_a_loop():
    """A scan that carries its caches, a token a step."""
    given = problem()
    k_new, v_new, k_cache, v_cache, ids, offsets, owners, positions = [jnp.asarray(each) for each in given]

    def step(caches, token):
        key, value, owner, position = [each[None] for each in token]
        return bj.paged_kv_append(key, value, *caches, ids, offsets, owner, position), None

    found, _ = jax.jit(lambda *tokens: jax.lax.scan(step, (k_cache, v_cache), tokens))(k_new, v_new, owners, positions)
    for got, want in zip(found, filled(given)):
        np.testing.assert_array_equal(np.asarray(got), want)


def test_no_tokens_and_bad_arguments():
    given = problem(tokens=0)
    for got, want in zip(bj.paged_kv_append(*given), given[2:4]):
        np.testing.assert_array_equal(np.asarray(got), want)
    given = problem()
    with pytest.raises(bk.InvalidProblemError, match=r"paged_kv_append: v_cache has shape \(7, 2, 4, 4\)"):
        bj.paged_kv_append(*given[:3], given[3][..., :4], *given[4:])
    with pytest.raises(bk.InvalidProblemError, match=r"positions has shape .* and dtype f32"):
        bj.paged_kv_append(*given[:7], given[7].astype(np.float32))
    with pytest.raises(bk.InvalidProblemError, match="k_scales and v_scales go together"):
        bj.paged_kv_append(*given, k_scales=np.zeros((PAGES, HEADS, SIZE), np.float32))
    eights = [each.astype(ml_dtypes.float8_e5m2) if k < 4 else each for k, each in enumerate(given)]
    assert bj.paged_kv_append(*eights)[0].dtype == ml_dtypes.float8_e5m2


def test_gradients_are_refused():
    given = problem()

    def loss(rows):
        return bj.paged_kv_append(rows, *given[1:])[0].sum()

    with pytest.raises(bk.UnsupportedError, match="paged_kv_append has no gradient"):
        jax.grad(loss)(given[0])
    found = jax.grad(lambda rows: (rows**2).sum() + loss(jax.lax.stop_gradient(rows)))(given[0])
    np.testing.assert_allclose(found, 2 * given[0])
