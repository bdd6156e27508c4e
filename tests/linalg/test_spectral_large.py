# SPDX-License-Identifier: Apache-2.0
"""Eigenvalues and singular values of matrices so large that all SMs of a GPU work on one, by Jacobi's iteration: hard
matrices in double precision, within c n eps; members of a batch that are not finite, and the same bits each time."""

import numpy as np
import pytest

from .test_spectral import GENERAL, HERMITIAN, adjoint, made, small, wider
from .test_spectral_symbols import REAL, Device

DTYPES = {"f32": np.float32, "f64": np.float64, "c32": np.complex64}
N = 131
OF_EIGH = ("zero", "repeated", "rank_one", "wilkinson", "wide")
OF_SVD = ("zero", "rank_one", "unbalanced", "singular", "nilpotent")


@pytest.fixture
def device(library):
    for name in ("eigh", "svd"):
        for t in DTYPES:
            if not hasattr(library.lib, f"baracuda_kernels_linalg_{name}_{t}_run"):
                pytest.skip("a partial library without eigenvalues of these dtypes")
    return Device(library)


def call(device, op, t, sizes, a, outputs):
    """Runs a row on dense operands; outputs are (shape, dtype)."""
    made_of = [device.put(a, t), *[device.empty(*each) for each in outputs]]
    strides = [device.ffi.new("int64_t[3]", [int(np.prod(shape[d + 1 :])) for d in range(3)])
               for shape in (a.shape, *[shape for shape, _ in outputs]) if len(shape) == 3]  # fmt: skip
    query = device.function(f"linalg_{op}_{t}_workspace_size")
    workspace = device.workspace(query(len(a), *sizes[: 1 if op == "eigh" else 3]))
    size = workspace.shape[0]
    numbers = (len(a), *sizes, *strides)
    assert device.call(f"linalg_{op}_{t}_run", *numbers, *made_of, workspace, size, device.ffi.NULL) == 0
    return [device.values(each) for each in made_of[1:]]


def eigh(device, t, a):
    batch, n = a.shape[:2]
    outputs = [((batch, n), REAL[t]), ((batch, n, n), t), ((batch,), "i32")]
    return call(device, "eigh", t, (n, 0), a, outputs)


def svd(device, t, a, full=0):
    batch, m, n = a.shape
    k = min(m, n)
    left, right = ((batch, m, m if full else k), t), ((batch, n if full else k, n), t)
    return call(device, "svd", t, (m, n, full), a, [((batch, k), REAL[t]), left, right, ((batch,), "i32")])


def check_svd(a, s, u, vh, info):
    whole, k, most, dtype = wider(a), s.shape[-1], max(a.shape[1:]), a.dtype
    assert not info.any()
    u, vh, norm = wider(u), wider(vh), np.linalg.norm(whole, 2, (-1, -2))
    small(whole - (u[..., :k] * s[:, None]) @ vh[:, :k], most, dtype, norm)
    small(adjoint(u) @ u - np.eye(u.shape[-1]), most, dtype)
    small(vh @ adjoint(vh) - np.eye(vh.shape[-2]), most, dtype)
    assert np.all(np.diff(s, axis=-1) <= 0) and np.all(s >= 0)
    small((s - np.linalg.svd(whole, compute_uv=False))[..., None], most, dtype, norm)


@pytest.mark.parametrize("t", DTYPES)
def test_hermitian(device, t):
    dtype = DTYPES[t]
    a = made({name: HERMITIAN[name] for name in OF_EIGH}, dtype, N)
    w, v, info = eigh(device, t, a)
    whole, vectors = wider(a), wider(v)
    norm = np.linalg.norm(whole, 2, (-1, -2))
    assert not info.any()
    small(whole @ vectors - vectors * w[:, None], N, dtype, norm)
    small(adjoint(vectors) @ vectors - np.eye(N), N, dtype)
    assert np.all(np.diff(w, axis=-1) >= 0)
    small((w - np.linalg.eigvalsh(whole))[..., None], N, dtype, norm)


@pytest.mark.parametrize("t", DTYPES)
def test_singular(device, t):
    a = made({name: (GENERAL | HERMITIAN)[name] for name in OF_SVD}, DTYPES[t], N)
    check_svd(a, *svd(device, t, a))


@pytest.mark.parametrize("t", DTYPES)
@pytest.mark.parametrize("shape", [(150, 130), (130, 150)])
def test_rank_deficient_with_all_vectors(device, t, shape):
    a = made({name: GENERAL[name] for name in ("singular", "random")}, DTYPES[t], 150)[:, : shape[0], : shape[1]]
    check_svd(a, *svd(device, t, np.ascontiguousarray(a), 1))


@pytest.mark.parametrize("t", DTYPES)
def test_bad_members_and_bits(device, t):
    a = made({"random": GENERAL["random"]}, DTYPES[t], N).repeat(3, 0)
    a[1, 100, 3], a[2] = np.nan, a[2] * 2
    for function in (eigh, svd):
        *found, info = function(device, t, a)
        assert info.tolist() == [0, N + 1, 0]
        for results in (function(device, t, a), function(device, t, a[:1])):
            for x, y in zip(found, results):
                assert np.array_equal(x[: len(y)], y, equal_nan=True)
        for x in found:
            assert np.isnan(x[1]).all() and np.isfinite(x[[0, 2]]).all()
