# SPDX-License-Identifier: Apache-2.0
"""Gradients of eigenvalues and singular values for JAX, under jit, against those of jax.numpy.linalg."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import baracuda.jax as bj

DTYPES = (np.float32, np.complex64)


def matrices(rng, dtype, *shape):
    a = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype is np.complex64 else 0)
    return a.astype(dtype)


def hermitian(a):
    return (a + jnp.swapaxes(a, -1, -2).conj()) / 2


def of_vectors(v):
    """A number that does not depend on the phases of the columns of v."""
    outer = (v[..., :, None, :] * v[..., None, :, :].conj()).real
    return (outer * jnp.cos(jnp.arange(outer.size, dtype=jnp.float32).reshape(outer.shape))).sum()


def compare(ours, theirs, a):
    got, want = jax.jit(jax.grad(ours))(a), jax.grad(theirs)(a)
    np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-3 * np.abs(want).max())


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigh(rng, dtype):
    def total(decompose):
        def of(a):
            w, v = decompose(hermitian(a))
            return (w**2).sum() + of_vectors(v)

        return of

    a = matrices(rng, dtype, 2, 4, 4)
    compare(total(lambda a: bj.linalg_eigh(a)[:2]), total(jnp.linalg.eigh), a)
    compare(lambda a: (bj.linalg_eigvalsh(hermitian(a))[0] ** 3).sum(),
            lambda a: (jnp.linalg.eigvalsh(hermitian(a)) ** 3).sum(), a)  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (5, 3)])
def test_svd(rng, dtype, shape):
    def total(decompose):
        def of(a):
            u, s, vh = decompose(a)
            return (s**2).sum() + (u @ vh).real.sum()

        return of

    a = matrices(rng, dtype, 2, *shape)
    compare(total(lambda a: bj.linalg_svd(a, full_matrices=False)[:3]),
            total(lambda a: jnp.linalg.svd(a, full_matrices=False)), a)  # fmt: skip
