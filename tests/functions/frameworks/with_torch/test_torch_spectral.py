# SPDX-License-Identifier: Apache-2.0
"""Gradients of eigenvalues, singular values and pseudoinverses for PyTorch, against those of torch.linalg. Vectors
enter by products that do not depend on their phases."""

import pytest
import torch

import baracuda.torch as bt

DTYPES = (torch.float64, torch.complex128)
GENERATOR = 7


def matrices(dtype, *shape):
    torch.manual_seed(GENERATOR)
    return torch.randn(*shape, dtype=dtype)


def hermitian(a):
    return (a + a.mH) / 2


def of_vectors(v, weights):
    """A number that does not depend on the phases of the columns of v."""
    return ((v[..., :, None, :] * v[..., None, :, :].conj()).real * weights).sum()


def weights_like(v, seed=3):
    torch.manual_seed(seed)
    return torch.randn(*v.shape[:-2], v.shape[-2], v.shape[-2], v.shape[-1], dtype=v.real.dtype)


def compare(ours, theirs, a):
    """Equal gradients of two functions of a."""
    found = []
    for function in (ours, theirs):
        given = a.clone().requires_grad_()
        function(given).backward()
        found.append(given.grad)
    torch.testing.assert_close(found[0], found[1], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigh(dtype):
    a = matrices(dtype, 2, 4, 4)

    def total(decompose):
        def of(a):
            w, v = decompose(hermitian(a))
            return (w**2).sum() + of_vectors(v, weights_like(v))

        return of

    compare(total(lambda a: bt.linalg_eigh(a)[:2]), total(torch.linalg.eigh), a)
    compare(lambda a: (bt.linalg_eigvalsh(hermitian(a))[0] ** 3).sum(),
            lambda a: (torch.linalg.eigvalsh(hermitian(a)) ** 3).sum(), a)  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 6)])
def test_svd(dtype, shape):
    a = matrices(dtype, 2, *shape)

    def total(decompose):
        def of(a):
            u, s, vh = decompose(a)
            middle = u @ vh
            torch.manual_seed(5)
            weights = torch.randn_like(middle)
            return (s**2).sum() + (middle * weights).real.sum() + of_vectors(u, weights_like(u))

        return of

    compare(total(lambda a: bt.linalg_svd(a, full_matrices=False)[:3]),
            total(lambda a: torch.linalg.svd(a, full_matrices=False)), a)  # fmt: skip
    compare(lambda a: (bt.linalg_svdvals(a)[0] ** 3).sum(), lambda a: (torch.linalg.svdvals(a) ** 3).sum(), a)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eig(dtype):
    a = matrices(dtype, 2, 4, 4)

    def total(decompose):
        def of(a):
            w, v = decompose(a)
            order = torch.argsort(w.real * 3 + w.imag, dim=-1)
            w, v = w.gather(-1, order), v.gather(-1, order[..., None, :].expand_as(v))
            return (w**2).abs().sum() + of_vectors(v, weights_like(v))

        return of

    compare(total(lambda a: bt.linalg_eig(a)[:2]), total(torch.linalg.eig), a)
    compare(lambda a: (bt.linalg_eigvals(a)[0] ** 2).abs().sum(),
            lambda a: (torch.linalg.eigvals(a) ** 2).abs().sum(), a)  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 6)])
def test_pinv(dtype, shape):
    a = matrices(dtype, 2, *shape)

    def total(function):
        def of(a):
            y = function(a)
            torch.manual_seed(5)
            return (y * torch.randn_like(y)).real.sum()

        return of

    compare(total(lambda a: bt.linalg_pinv(a)[0]), total(torch.linalg.pinv), a)


def test_equal_values_as_in_pytorch():
    """Values alone have a finite gradient; that of vectors is not finite where values are equal."""
    a = torch.eye(3, dtype=torch.float64).requires_grad_()
    bt.linalg_eigvalsh(a)[0].sum().backward()
    assert torch.equal(a.grad, torch.eye(3, dtype=torch.float64))
    a.grad = None
    v = bt.linalg_eigh(a)[1]
    (v * torch.arange(9.0, dtype=torch.float64).reshape(3, 3)).sum().backward()
    assert not torch.isfinite(a.grad).all()


def test_compiled():
    a = matrices(torch.float64, 2, 4, 4)

    def total(a):
        return bt.linalg_svd(a, full_matrices=False)[1].sum()

    compiled = torch.compile(total, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(a), torch.linalg.svdvals(a).sum())
