# SPDX-License-Identifier: Apache-2.0
"""JAX on the device: the handler that XLA calls, inside and outside of jit, and the gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from frameworks import FRAMEWORKS

import baracuda.jax as bj
from baracuda._functions.spec import specs
from harness.samples import sample

assert "jax" in FRAMEWORKS  # FRAMEWORKS has registered the device and 64-bit dtypes with JAX


def listed(results):
    return list(results) if isinstance(results, tuple) else [results]


@pytest.mark.parametrize("name", specs())
def test_every_function(name):
    """A function computes on the device what it computes on the host, and the same bits under jit."""
    arguments, numbers = sample(name).arguments(name)
    indices = [k for k, argument in enumerate(arguments) if isinstance(argument, np.ndarray)]

    def called(*arrays):
        mixed = list(arguments)
        for k, array in zip(indices, arrays):
            mixed[k] = array
        return listed(getattr(bj, name)(*mixed, **numbers))

    arrays = [arguments[k] for k in indices]
    with jax.default_device(jax.devices("cpu")[0]):
        expected = called(*map(jnp.asarray, arrays))
    there = [jax.device_put(array, jax.devices("gpu")[0]) for array in arrays]
    for ours, jitted, wanted in zip(called(*there), jax.jit(called)(*there), expected, strict=True):
        assert ours.devices() == {jax.devices("gpu")[0]} and ours.dtype == wanted.dtype
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(jitted))
        rtol = 1e-9 if wanted.dtype in (np.float64, np.complex128) else 1e-3
        widest = np.complex128 if np.iscomplexobj(wanted) else np.float64
        np.testing.assert_allclose(np.asarray(ours, widest), np.asarray(wanted, widest), rtol=rtol, atol=1e-6)


def test_a_program_of_both(rng):
    """Calls of the library run in order among operations of XLA, and have gradients."""
    x, w = rng.standard_normal((64, 32)), rng.standard_normal((32, 16))

    def ours(x, w):
        return (bj.softmax(bj.gelu(jnp.tanh(x) @ w) * 2) ** 2).sum()

    def theirs(x, w):
        return (jax.nn.softmax(jax.nn.gelu(jnp.tanh(x) @ w, approximate=False) * 2, -1) ** 2).sum()

    given = [jax.device_put(each, jax.devices("gpu")[0]) for each in (x, w)]
    for got, expected in zip(jax.jit(jax.grad(ours, (0, 1)))(*given), jax.grad(theirs, (0, 1))(*given), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-10)


def test_batches():
    x = jax.device_put(np.arange(60.0).reshape(3, 4, 5), jax.devices("gpu")[0])
    np.testing.assert_allclose(jax.vmap(bj.cumsum)(x), np.cumsum(np.asarray(x), -1))
