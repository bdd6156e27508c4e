# SPDX-License-Identifier: Apache-2.0
"""baracuda.torch.linalg against torch.linalg: results and gradients, real and complex, torch.compile and torch.func."""

import pytest
import torch
from torch.func import jacrev, vmap

import baracuda as bk
import baracuda.torch as bt

DTYPES = (torch.float64, torch.complex128)
SQUARE, TALL, WIDE = (2, 4, 4), (2, 6, 4), (2, 3, 5)


def positive(a):
    return a @ a.mH + torch.eye(a.shape[-1], dtype=a.dtype)


def of_pair(pair):
    """Quantities that do not depend on the phases of eigenvectors."""
    w, v = pair
    return w, (v * v.conj()).real


# name -> (a function of a namespace and tensors, shapes)
CALLS = {
    "cholesky": (lambda at, a: at.cholesky(positive(a)), [SQUARE]),
    "cholesky_upper": (lambda at, a: at.cholesky(positive(a), upper=True), [SQUARE]),
    "solve": (lambda at, a, b: at.solve(a, b), [SQUARE, (2, 4, 3)]),
    "solve_vector": (lambda at, a, b: at.solve(a, b), [SQUARE, (4,)]),
    "solve_left": (lambda at, a, b: at.solve(a, b, left=False), [SQUARE, (2, 3, 4)]),
    "solve_broadcast": (lambda at, a, b: at.solve(a, b), [(4, 4), (2, 4, 3)]),
    "solve_triangular": (lambda at, a, b: at.solve_triangular(a, b, upper=True), [SQUARE, (2, 4, 3)]),
    "solve_triangular_unit": (
        lambda at, a, b: at.solve_triangular(a, b, upper=False, left=False, unitriangular=True), [SQUARE, (2, 3, 4)],
    ),
    "inv": (lambda at, a: at.inv(a), [SQUARE]),
    "det": (lambda at, a: at.det(a), [SQUARE]),
    "slogdet": (lambda at, a: at.slogdet(a), [SQUARE]),
    "matrix_power": (lambda at, a: (at.matrix_power(a, -3), at.matrix_power(a, 3)), [SQUARE]),
    "matrix_exp": (lambda at, a: at.matrix_exp(a), [SQUARE]),
    **{f"qr_{shape[-2:]}": (lambda at, a: at.qr(a), [shape]) for shape in (SQUARE, TALL, WIDE)},
    "qr_complete": (lambda at, a: at.qr(a, "complete"), [WIDE]),
    **{f"lu_{shape[-2:]}": (lambda at, a: at.lu(a)[1:], [shape]) for shape in (SQUARE, TALL, WIDE)},
    **{f"lu_factor_{shape[-2:]}": (lambda at, a: at.lu_factor(a)[0], [shape]) for shape in (SQUARE, TALL, WIDE)},
    **{
        f"lu_solve_{left}_{adjoint}": (
            lambda at, a, b, left=left, adjoint=adjoint: at.lu_solve(
                *at.lu_factor(a), b if left else b.mT, left=left, adjoint=adjoint
            ), [SQUARE, (2, 4, 3)],
        ) for left in (True, False) for adjoint in (True, False)
    },
    "lstsq_tall": (lambda at, a, b: at.lstsq(a, b)[0], [TALL, (2, 6, 3)]),
    "lstsq_wide": (lambda at, a, b: at.lstsq(a, b)[0], [WIDE, (2, 3, 2)]),
    "householder_product": (lambda at, a, tau: at.householder_product(a * 0.3, tau), [TALL, (2, 4)]),
    "svd": (lambda at, a: (lambda u, s, vh: (u @ vh, s))(*at.svd(a, full_matrices=False)), [TALL]),
    "svdvals": (lambda at, a: at.svdvals(a), [WIDE]),
    "eigh": (lambda at, a: of_pair(at.eigh(positive(a))), [SQUARE]),
    "eigvalsh": (lambda at, a: at.eigvalsh(positive(a)), [SQUARE]),
    "pinv": (lambda at, a: at.pinv(a), [TALL]),
    "cond": (lambda at, a: at.cond(a), [TALL]),
    "matmul": (lambda at, a, b: at.matmul(a, b), [SQUARE, (4, 3)]),
    "multi_dot": (lambda at, a, b, c: at.multi_dot([a, b, c]), [(4, 5), (5, 2), (2, 6)]),
    "vecdot": (lambda at, a, b: at.vecdot(a, b), [SQUARE, (4,)]),
    "cross": (lambda at, a, b: at.cross(a, b), [(4, 3), (4, 3)]),
    "diagonal": (lambda at, a: at.diagonal(a, offset=1), [TALL]),
    "tensorinv": (lambda at, a: at.tensorinv(a, 1), [(8, 2, 4)]),
    "tensorsolve": (lambda at, a, b: at.tensorsolve(a, b), [(8, 2, 4), (8,)]),
    **{f"matrix_norm_{ord}": (lambda at, a, ord=ord: at.matrix_norm(a, ord), [TALL])
       for ord in ("fro", "nuc", 1, -1, 2, -2, float("inf"))},
    **{f"vector_norm_{ord}": (lambda at, a, ord=ord: at.vector_norm(a, ord), [TALL]) for ord in (1, 2, 3)},
}  # fmt: skip


def flat(found):
    return [found] if isinstance(found, torch.Tensor) else [each for part in found for each in flat(part)]


def with_gradients(function, at, tensors):
    given = [each.clone().requires_grad_() for each in tensors]
    results, total = flat(function(at, *given)), 0
    for k, each in enumerate(results):
        torch.manual_seed(k)
        total = total + (each * torch.randn(each.shape, dtype=each.dtype)).real.sum()
    return [each.detach() for each in results], torch.autograd.grad(total, given)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_results_and_gradients(name, dtype):
    function, shapes = CALLS[name]
    torch.manual_seed(11)
    tensors = [torch.randn(shape, dtype=dtype) for shape in shapes]
    got, expected = (with_gradients(function, at, tensors) for at in (bt.linalg, torch.linalg))
    for ours, theirs in zip([*got[0], *got[1]], [*expected[0], *expected[1]], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_ormqr(left, adjoint, dtype):
    torch.manual_seed(3)
    v, tau, c = (torch.randn(s, dtype=dtype) * 0.4 for s in ((2, 6, 4), (2, 4), (2, 6, 3) if left else (2, 3, 6)))
    got = with_gradients(lambda _, *t: bt.linalg.ormqr(*t, left=left, transpose=adjoint), None, (v, tau, c))
    expected = with_gradients(lambda _, *t: torch.ormqr(*t, left, adjoint), None, (v, tau, c))
    for ours, theirs in zip([*got[0], *got[1]], [*expected[0], *expected[1]], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [SQUARE, TALL, WIDE])
def test_polar(shape, dtype):
    """torch has none: finite differences."""
    torch.manual_seed(5)
    a = torch.randn(shape, dtype=dtype).requires_grad_()
    assert torch.autograd.gradcheck(lambda a: tuple(bt.linalg.polar(a)), (a,))
    assert torch.autograd.gradcheck(bt.linalg.orthogonalize, (a,))
    if not dtype.is_complex:
        s = bt.linalg.svdvals(bt.linalg.orthogonalize(a.float(), method="newton_schulz"))
        assert s.min() > 0.6 and s.max() < 1.25 and s.requires_grad


def test_only_r_has_a_gradient():
    torch.manual_seed(5)
    a = torch.randn(TALL, dtype=torch.float64).requires_grad_()
    assert bt.linalg.qr(a, "r").Q is None
    (got,) = torch.autograd.grad(bt.linalg.qr(a, "r").R.sin().sum(), a)
    (expected,) = torch.autograd.grad(torch.linalg.qr(a).R.sin().sum(), a)
    torch.testing.assert_close(got, expected)
    with pytest.raises(bk.UnsupportedError, match="no gradient of more columns of q than a has"):
        bt.linalg.qr(a, "complete").Q.sum().backward()


@pytest.mark.parametrize("name", ["cholesky", "solve", "solve_vector", "inv", "slogdet", "matrix_power", "matrix_exp",
                                  "qr_(6, 4)", "lu_(3, 5)", "lstsq_tall", "svd", "eigh", "multi_dot", "cross", "cond",
                                  "tensorinv", "matrix_norm_nuc", "vector_norm_3"])  # fmt: skip
def test_compiled(name):
    """The graph has no break, and extents need not be known."""
    torch._dynamo.reset()
    function, shapes = CALLS[name]
    torch.manual_seed(7)
    tensors = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    compiled = torch.compile(lambda *t: function(bt.linalg, *t), fullgraph=True, backend="aot_eager", dynamic=True)
    for got, expected in zip(flat(compiled(*tensors)), flat(function(bt.linalg, *tensors)), strict=True):
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_batch_is_one_more_axis(dtype):
    torch.manual_seed(2)
    a, b = torch.randn(3, 2, 4, 4, dtype=dtype), torch.randn(3, 4, 2, dtype=dtype)
    torch.testing.assert_close(vmap(bt.linalg.inv)(a), torch.linalg.inv(a))
    torch.testing.assert_close(vmap(bt.linalg.solve)(a, b), torch.linalg.solve(a, b[:, None]))
    torch.testing.assert_close(vmap(lambda b: bt.linalg.solve(a[0], b))(b), torch.linalg.solve(a[0], b[:, None]))
    solved = vmap(lambda a: bt.linalg.lu_solve(*bt.linalg.lu_factor(a), b[0]), 1)(a.transpose(0, 1))
    torch.testing.assert_close(solved, torch.linalg.solve(a, b[0]))
    packed, tau = torch.geqrf(a)
    torch.testing.assert_close(vmap(bt.linalg.householder_product)(packed, tau), torch.linalg.qr(a).Q)
    real = a.real[0, 0]
    torch.testing.assert_close(jacrev(bt.linalg.inv)(real), jacrev(torch.linalg.inv)(real))


def test_failures_and_names():
    bad = torch.stack([torch.eye(3), torch.zeros(3, 3)])
    result = bt.linalg.inv_ex(bad)
    assert result.info.tolist() == [0, 1] and result.inverse[1].isnan().all() and torch.equal(result.inverse[0], bad[0])
    assert bt.linalg.cholesky_ex(-bad).info.tolist() == [1, 1]
    with bk.checked(), pytest.raises(bk.CheckError, match=r"info\[1\] is 1"):
        bt.linalg.inv(bad)
    with pytest.raises(bk.InvalidProblemError, match="a is of type list, must be a tensor"):
        bt.linalg.solve([[1.0]], torch.ones(1))
    theirs = {name for name in dir(torch.linalg) if not name.startswith("_") and callable(getattr(torch.linalg, name))}
    missing = theirs - set(dir(bt.linalg)) - {"LinAlgError", "Tensor", "common_notes"}
    assert missing <= {"matrix_sqrth", "vander"}
    assert set(dir(bt.linalg)) == set(bk.linalg.__all__)
    with pytest.raises(AttributeError, match="no attribute 'frobnicate'"):
        _ = bt.linalg.frobnicate
