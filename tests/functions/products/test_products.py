# SPDX-License-Identifier: Apache-2.0
"""Matrix products of any layout: matmul, linear with activations, gated linear, grouped products, and gradients."""

import itertools

import numpy as np
import pytest

import baracuda as bk
from baracuda._functions.spec import specs
from cases.gemm.gemm import ACTIVATIONS
from plan_tools import odd

MATRICES = {
    "dense": lambda a: a,
    "columns": lambda a: np.swapaxes(np.swapaxes(a, -1, -2).copy(), -1, -2) if a.ndim > 1 else a,
    "backwards": lambda a: np.flip(np.flip(a).copy()),
    "gaps": lambda a: np.repeat(a, 2, -1)[..., ::2],
    "padded": lambda a: np.concatenate([a, a], -1)[..., : a.shape[-1]],
    "outer": lambda a: a.T.copy().T,
}
SIDES = [
    ((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)),
    ((3, 4), (2, 4, 5)), ((2, 2, 3, 4), (2, 2, 4, 5)), ((1, 4), (4, 1)), ((0, 4), (4, 5)), ((3, 0), (0, 5)),
    ((1, 1), (1, 1)), ((2, 1, 4), (4,)), ((4,), (2, 4, 3)), ((2, 3, 4), (1, 4, 5)), ((0, 3, 4), (0, 4, 5)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_matmul(rng, dtype):
    """Sums of small numbers are exact. Every pair of layouts is tried; C has none for two column-major operands."""
    for (first, second), one, other in itertools.product(SIDES, MATRICES, MATRICES):
        a, b = (
            MATRICES[one](odd(rng, first, -2, 2, 8).astype(dtype)),
            MATRICES[other](odd(rng, second, -2, 2, 8).astype(dtype)),
        )
        want = np.matmul(a.astype(np.float64), b.astype(np.float64))
        got = bk.matmul(a, b)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, want.astype(dtype))
        out = np.full_like(got, np.nan)
        assert bk.matmul(a, b, out=out) is out
        np.testing.assert_array_equal(out, got)


def test_matmul_of_mismatched_shapes():
    a, b = np.ones((3, 4)), np.ones((2, 4, 5))
    for first, second, error, text in (
        (a, a, bk.InvalidProblemError, "the sums have 4 and 3 summands"),
        (np.float64(1), a, bk.InvalidProblemError, r"a has shape \(\), must have an axis"),
        (np.ones((1, 3, 3, 4)), b, bk.InvalidProblemError, "the axes before the last two do not broadcast"),
        (a.astype(np.int32), a.astype(np.int32).T, bk.UnsupportedError, "a has dtype i32, must be one of"),
    ):
        with pytest.raises(error, match=text):
            bk.matmul(first, second)
    with pytest.raises(bk.InvalidProblemError, match=r"expected \(\.\.\., k\) and \(n, k\)"):
        bk.linear(a, np.ones((5, 3)))
    with pytest.raises(bk.InvalidProblemError, match=r"bias has shape \(4,\), expected \(5,\)"):
        bk.linear(a, np.ones((5, 4)), np.ones(4))


@pytest.mark.parametrize("name", sorted(name for name, spec in specs().items() if spec.layout == "linear"))
def test_linear(rng, name):
    activation = ACTIVATIONS[name.removeprefix("linear").removeprefix("_").removesuffix("_forward")]
    for dtype, shape, one, other in itertools.product(
        (np.float32, np.float64), ((4,), (3, 4), (2, 3, 4), (0, 4)), MATRICES, ("dense", "columns", "padded")
    ):
        x, weight = (
            MATRICES[one](odd(rng, shape, -2, 2).astype(dtype)),
            MATRICES[other](odd(rng, (5, 4), -2, 2).astype(dtype)),
        )
        for bias in (None, odd(rng, (5,), -2, 2).astype(dtype)):
            z = x.astype(np.float64) @ weight.T.astype(np.float64) + (0 if bias is None else bias)
            want = np.asarray(activation(z)) if z.size else z
            got = getattr(bk, name)(x, weight, bias)
            if name.endswith("_forward"):
                got, sums = got
                np.testing.assert_allclose(sums, z, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["linear_swiglu", "linear_geglu"])
def test_gated_linear(rng, name):
    activation = ACTIVATIONS["silu" if "swi" in name else "gelu"]
    for dtype, shape in itertools.product((np.float32, np.float64), ((4,), (3, 4), (2, 3, 4), (0, 4))):
        x, weight, up_weight = (odd(rng, s, -2, 2).astype(dtype) for s in (shape, (5, 4), (5, 4)))
        for biases in ((None, None), (odd(rng, (5,), -2, 2).astype(dtype), odd(rng, (5,), -2, 2).astype(dtype))):
            z, up = (x.astype(float) @ w.T + (0 if b is None else b) for w, b in zip((weight, up_weight), biases))
            want = (np.asarray(activation(z)) if z.size else z) * up
            got = getattr(bk, name)(x, np.asfortranarray(weight), up_weight, *biases)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
            for got, expected in zip(getattr(bk, f"{name}_forward")(x, weight, up_weight, *biases), (want, z, up)):
                np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(bk.InvalidProblemError, match=r"up_weight has shape \(4, 4\), expected \(5, 4\)"):
        bk.linear_swiglu(x, weight, np.ones((4, 4), dtype))


def test_grouped_gemm(rng):
    """b is row-major, and column-major, which the gradient copies; rows of no group are 0."""
    a, b, dy = (odd(rng, shape, -2, 2).astype(np.float32) for shape in ((7, 4), (3, 4, 5), (7, 5)))
    offsets = np.array([1, 3, 3, 6], np.int32)
    want, da, db = np.zeros((7, 5)), np.zeros((7, 4)), np.zeros((3, 4, 5))
    for g, (i, j) in enumerate(itertools.pairwise(offsets)):
        want[i:j], da[i:j], db[g] = a[i:j] @ b[g], dy[i:j] @ b[g].T, a[i:j].T @ dy[i:j]
    for first, second in itertools.product((a, np.asfortranarray(a)), (b, b.swapaxes(1, 2).copy().swapaxes(1, 2))):
        np.testing.assert_allclose(bk.grouped_gemm(first, second, offsets), want, rtol=1e-5, atol=1e-6)
        gradients = bk.grouped_gemm_backward(dy, first, second, offsets)
        for got, expected in zip(gradients, (da, db)):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    assert bk.grouped_gemm_backward(dy, a, b, offsets, needs=(False, True))[0] is None
    with pytest.raises(bk.InvalidProblemError, match=r"expected \(m, k\) and \(groups, k, n\)"):
        bk.grouped_gemm(a, b[0], offsets)
    with pytest.raises(bk.InvalidProblemError, match=r"offsets has shape \(3,\), expected \(4,\)"):
        bk.grouped_gemm(a, b, offsets[1:])


def test_matmul_backward(rng):
    for batch in ((), (3,), (2, 3)):
        shapes = (*batch, 5, 6), (*batch, 5, 4), (*batch, 4, 6)
        dy, a, b = (odd(rng, shape, -2, 2) for shape in shapes)
        for lay in (lambda x: x, np.asfortranarray, lambda x: x.swapaxes(-1, -2).copy().swapaxes(-1, -2)):
            da, db = bk.matmul_backward(lay(dy), lay(a), lay(b))
            np.testing.assert_allclose(da, dy @ b.swapaxes(-1, -2), rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(db, a.swapaxes(-1, -2) @ dy, rtol=1e-9, atol=1e-9)
        assert bk.matmul_backward(dy, a, b, needs=(False, True))[0] is None
    with pytest.raises(bk.InvalidProblemError, match=r"expected \(\.\.\., m, k\) and \(\.\.\., k, n\)"):
        bk.matmul_backward(dy, a, b[..., :2, :])
