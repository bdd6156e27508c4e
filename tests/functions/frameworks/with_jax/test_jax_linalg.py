# SPDX-License-Identifier: Apache-2.0
"""baracuda.jax.linalg under jit, grad and vmap: results against jax.numpy.linalg, gradients against finite
differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import baracuda as bk
import baracuda.jax as bj

DTYPES = (np.float64, np.complex128)


def drawn(dtype, *shape, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(shape)
    return jnp.asarray((a + 1j * rng.standard_normal(shape) if dtype is np.complex128 else a).astype(dtype))


def positive(a):
    return a @ a.conj().mT + jnp.eye(a.shape[-1], dtype=a.dtype)


L = bj.linalg
CALLS = {
    "cholesky": (lambda a: L.cholesky(positive(a)), [(2, 3, 3)]),
    "solve": (L.solve, [(2, 3, 3), (2, 3, 2)]),
    "solve_vector": (L.solve, [(2, 3, 3), (3,)]),
    "solve_triangular": (lambda a, b: L.solve_triangular(a, b, upper=True), [(2, 3, 3), (2, 3, 2)]),
    "cholesky_solve": (lambda a, b: L.cholesky_solve(b, L.cholesky(positive(a))), [(3, 3), (3, 2)]),
    "inv": (L.inv, [(2, 3, 3)]),
    "det": (L.det, [(2, 3, 3)]),
    "slogdet": (L.slogdet, [(2, 3, 3)]),
    "qr": (L.qr, [(2, 4, 3)]),
    "qr_wide": (L.qr, [(3, 4)]),
    "lu": (lambda a: L.lu(a)[1:], [(3, 4)]),
    "lu_solve": (lambda a, b: L.lu_solve(*L.lu_factor(a), b), [(3, 3), (3, 2)]),
    "lstsq": (lambda a, b: L.lstsq(a, b).solution, [(4, 3), (4, 2)]),
    "matrix_exp": (L.matrix_exp, [(2, 3, 3)]),
    "matrix_power": (lambda a: L.matrix_power(a, -2), [(3, 3)]),
    "matmul": (L.matmul, [(2, 3, 4), (4, 2)]),
    "pinv": (L.pinv, [(4, 3)]),
    "svdvals": (L.svdvals, [(4, 3)]),
    "eigvalsh": (lambda a: L.eigvalsh(positive(a)), [(3, 3)]),
    "polar": (L.polar, [(4, 3)]),
    "householder_product": (lambda a, tau: L.householder_product(a * 0.3, tau), [(4, 3), (3,)]),
    "norms": (lambda a: (L.matrix_norm(a, "nuc"), L.matrix_norm(a), L.vector_norm(a, 3), L.cond(a)), [(4, 3)]),
}


@pytest.fixture(autouse=True)
def _of_64_bits():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_gradients(name, dtype):
    function, shapes = CALLS[name]
    given = [drawn(dtype, *shape, seed=k + 3) for k, shape in enumerate(shapes)]

    def total(*arrays):
        found = jax.tree.leaves(function(*arrays))
        parts = [(each * jnp.cos(1.0 + jnp.arange(each.size)).reshape(each.shape)) for each in found]
        return sum(part.real.sum() + 0.5 * (part.imag.sum() if jnp.iscomplexobj(part) else 0) for part in parts)

    check_grads(jax.jit(total), given, order=1, modes=["rev"], atol=1e-5, rtol=1e-5, eps=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_results(dtype):
    a, b, wide = drawn(dtype, 2, 4, 4), drawn(dtype, 2, 4, 3), drawn(dtype, 2, 3, 5)
    close = lambda got, expected: np.testing.assert_allclose(got, expected, 1e-10, 1e-10)  # noqa: E731
    close(jax.jit(L.inv)(a), jnp.linalg.inv(a))
    close(L.solve(a, b), jnp.linalg.solve(a, b))
    close(L.cholesky(positive(a)), jnp.linalg.cholesky(positive(a)))
    close(L.svdvals(wide), jnp.linalg.svdvals(wide))
    close(L.pinv(wide), jnp.linalg.pinv(wide))
    close(L.matrix_exp(a), jax.scipy.linalg.expm(a))
    close(L.matrix_norm(wide, 1), jnp.linalg.norm(wide, 1, axis=(-2, -1)))
    close(L.trace(a), jnp.trace(a, axis1=-2, axis2=-1))
    close(L.vecdot(a, a), jnp.linalg.vecdot(a, a))
    for got, expected in zip(L.slogdet(a), jnp.linalg.slogdet(a)):
        close(got, expected)
    result = L.inv_ex(jnp.stack([a[0], 0 * a[0]]))
    assert result.info.tolist() == [0, 1] and jnp.isnan(result.inverse[1]).all()
    assert set(dir(L)) == set(bk.linalg.__all__)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_batch_is_one_call(dtype):
    a, b = drawn(dtype, 3, 2, 4, 4), drawn(dtype, 3, 4, 2)
    np.testing.assert_allclose(jax.vmap(L.solve)(a, b), jnp.linalg.solve(a, b[:, None]), 1e-9, 1e-9)
    solved = jax.vmap(lambda a: L.lu_solve(*L.lu_factor(a), b[0]))(a)
    np.testing.assert_allclose(solved, jnp.linalg.solve(a, b[0][None, None]), 1e-9, 1e-9)
    text = jax.jit(jax.vmap(L.inv)).lower(a).as_text()
    assert text.count("custom_call") == 1 and "while" not in text
