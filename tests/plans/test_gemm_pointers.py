# SPDX-License-Identifier: Apache-2.0
"""Plans of pointer-array GEMM: lists of addresses of separately allocated matrices."""

import numpy as np
import pytest

import baracuda as bk
from plan_tools import close, ones, run, select, tensor

ELEMENTS = pytest.mark.parametrize("element", [bk.f32, bk.bf16, bk.f64])
K = 24


def listed(matrices):
    return bk.upload(np.array([matrix.ptr for matrix in matrices], np.int64))


def made(rng, shapes, element):
    """Multiples of 1/8, exact in every dtype, on the host and on the device."""
    arrays = [rng.integers(-8, 9, shape) / 8 for shape in shapes]
    return arrays, [tensor(array, element) for array in arrays]


@ELEMENTS
@pytest.mark.parametrize("is_aligned", [False, True])
def test_each_product_has_its_own_extents(rng, element, is_aligned):
    sizes = [(5, 16, K), (1, 8, 3), (0, 16, K), (7, 3, 0)]
    a, a_views = made(rng, [(7, K)] * 4, element)
    b, b_views = made(rng, [(K, 16)] * 4, element)
    d_views = [ones(element, shape=(7, 16)) for _ in sizes]
    fields = {"m": 7, "n": 16, "k": K, "batch": 4, "layout": bk.DenseLayout.RRR, "lda": K, "ldb": 16, "ldd": 16}
    plan = select("GemmPointers", **fields, is_aligned=is_aligned, beta=1, element=element)
    lists = [listed(views) for views in (a_views, b_views, d_views)]
    run(plan, *lists, bk.upload(np.array(sizes, np.int32)))
    for first, second, view, (m, n, k) in zip(a, b, d_views, sizes):
        wanted = np.ones((7, 16))
        wanted[:m, :n] += first[:m, :k] @ second[:k, :n]
        close(view, wanted, 4)


@pytest.mark.parametrize("element", [bk.f32, bk.bf16])
def test_grouped_gemm_of_pointers(rng, element):
    offsets = np.array([0, 4, 4, 9], np.int32)
    (a,), (a_view,) = made(rng, [(9, K)], element)
    b, b_views = made(rng, [(16, K)] * 3, element)
    d = ones(element, shape=(9, 16))
    fields = {"m": 9, "n": 16, "k": K, "groups": 3, "layout": bk.DenseLayout.RCR, "ldb": K, "is_aligned": True}
    run(select("GroupedGemmPointers", **fields, element=element), a_view, listed(b_views), bk.upload(offsets), d)
    close(d, np.concatenate([a[:4] @ b[0].T, a[4:] @ b[2].T]), 4)


def test_a_list_of_another_length_or_dtype_is_refused():
    fields = {"m": 3, "n": 4, "k": 5, "batch": 2, "layout": bk.DenseLayout.RRR, "lda": 5, "ldb": 4, "ldd": 4}
    plan = select("GemmPointers", **fields, element=bk.f32)
    lists = [bk.upload(np.zeros(2, np.int64)) for _ in range(3)]
    with pytest.raises(bk.InvalidProblemError, match=r"b_pointers has shape \(3,\), expected \(batch,\) = \(2,\)"):
        run(plan, lists[0], bk.upload(np.zeros(3, np.int64)), lists[2])
    with pytest.raises(bk.InvalidProblemError, match="d_pointers has dtype i32, expected i64"):
        run(plan, *lists[:2], bk.upload(np.zeros(2, np.int32)))
    with pytest.raises(bk.InvalidProblemError, match="lda is 4, must be >= 5"):
        select("GemmPointers", **fields | {"lda": 4}, element=bk.f32).run(None, None, bk.GemmPointersArgs(*lists))
