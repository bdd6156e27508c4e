# SPDX-License-Identifier: Apache-2.0
"""Sorts made of other functions for JAX, under jit, grad and vmap."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import baracuda as bk
import baracuda.jax as bj


def arrays():
    rng = np.random.default_rng(3)
    keys = [rng.integers(0, 4, (7, 50)).astype(np.int32), (rng.integers(-3, 3, (7, 50)) / 2).astype(np.float32)]
    return [jnp.asarray(key) for key in keys], jnp.asarray(rng.standard_normal((7, 50)).astype(np.float32))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_orders_are_those_of_numpy(axis):
    keys, values = arrays()
    lexsort = jax.jit(functools.partial(bj.lexsort, axis=axis))
    np.testing.assert_array_equal(lexsort(keys), np.lexsort([np.asarray(key) for key in keys], axis))
    for key in keys:
        for descending in (False, True):
            order = np.argsort(-np.asarray(key) if descending else np.asarray(key), axis, kind="stable")
            sort = jax.jit(functools.partial(bj.sort_by_key, axis=axis, descending=descending))
            for got, of in zip(sort(key, values), (key, values)):
                np.testing.assert_array_equal(got, np.take_along_axis(np.asarray(of), order, axis))
    np.testing.assert_array_equal(bj.msort(values, descending=True), np.sort(np.asarray(values), 0)[::-1])


def test_rows_follow_keys_of_one_axis():
    keys, values = arrays()
    order = np.argsort(np.asarray(keys[1][:, 0]), kind="stable")
    np.testing.assert_array_equal(bj.sort_by_key(keys[1][:, 0], values)[1], np.asarray(values)[order])
    with pytest.raises(bk.InvalidProblemError, match=r"values has shape \(50, 7\), expected \(7, 50\)"):
        bj.sort_by_key(keys[0], values.T)


def test_segments():
    x, offsets = arrays()[1].reshape(-1), jnp.array([0, 0, 3, 20, 20, 350])
    parts = np.split(np.asarray(x), [0, 3, 20, 20])
    found = jax.jit(bj.segmented_sort)(x, offsets)
    np.testing.assert_array_equal(found, np.concatenate([np.sort(part) for part in parts]))
    order = bj.segmented_argsort(x, offsets, descending=True)
    np.testing.assert_array_equal(x[order], np.concatenate([np.sort(part)[::-1] for part in parts]))


def test_gradients_return_to_their_elements():
    _, x = arrays()
    keys, values = x[:3], x[3:6]
    found, pull = jax.vjp(functools.partial(bj.sort_by_key, axis=1), keys, values)
    incoming = [np.random.default_rng(k).standard_normal(keys.shape).astype(np.float32) for k in range(2)]
    positions = np.argsort(np.argsort(np.asarray(keys), 1, kind="stable"), 1)
    for ours, each in zip(pull(tuple(jnp.asarray(each) for each in incoming)), incoming):
        np.testing.assert_array_equal(ours, np.take_along_axis(each, positions, 1))
    assert [each.shape for each in found] == [keys.shape, values.shape]


def test_vmap_sorts_each_row():
    keys, values = arrays()
    found = jax.vmap(bj.sort_by_key)(keys[1], values)
    for got, want in zip(found, bj.sort_by_key(keys[1], values)):
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(jax.vmap(lambda *each: bj.lexsort(each))(*keys), bj.lexsort(keys))
