# SPDX-License-Identifier: Apache-2.0
"""Delayed scaling against a sliding window in NumPy, and 8-bit linear layers against products of floats."""

import numpy as np
import pytest

import baracuda as bk

pytestmark = pytest.mark.needs_ops(
    "cast_f32_fp8e4m3", "gemm_scaled_fp8e4m3_f32", "gemm_scaled_fp8e5m2_fp8e4m3_f32", "quantize_fp8_f32_fp8e4m3"
)
MAX = {"e4m3": 448.0, "e5m2": 57344.0}


def host(x):
    return np.asarray(bk.download(x) if isinstance(x, bk.TensorRef) else x)


@pytest.mark.parametrize(("fmt", "bound", "share"), [("e4m3", 0.08, 0.02), ("e5m2", 0.25, 0.05)])
@pytest.mark.parametrize("dtype", [bk.f32, bk.bf16, bk.f16], ids=str)
def test_round_trip(library, rng, fmt, bound, share, dtype):
    x = bk.upload(rng.standard_normal(5000), dtype)
    recipe = bk.fp8.Fp8Recipe(fmt, 4)
    recipe.cast(x)
    recipe.update_after_pass()
    codes, back = bk.zeros(5000, bk.u8), bk.zeros(5000, bk.f32)
    bk.fp8.Fp8CastPlan().run(None, x, codes, recipe)
    bk.fp8.Fp8DequantPlan().run(None, codes, back, recipe)
    want = host(x).astype(np.float64)
    error = np.abs(host(back) - want) / np.maximum(np.abs(want), 1e-30)
    assert np.mean(error > bound) < share
    assert np.max(error[np.abs(want) > 0.5]) < bound
    assert float(host(recipe.scale)[0]) == pytest.approx(MAX[fmt] / np.abs(want).max(), rel=1e-5)
    assert float(host(recipe.scale_inv)[0]) == pytest.approx(np.abs(want).max() / MAX[fmt], rel=1e-5)


@pytest.mark.parametrize("algorithm", ["max", "most_recent"])
@pytest.mark.parametrize("history_len", [1, 3, 8])
def test_the_window_slides(library, rng, algorithm, history_len):
    recipe = bk.fp8.Fp8Recipe("e4m3", history_len, algorithm=algorithm, margin=1)
    amaxes = []
    for k in range(12):
        peaks = []
        for _ in range(2):  # casts of one pass
            x = rng.standard_normal(50).astype(np.float32) * 2.0 ** (k % 5)
            recipe.cast(bk.upload(x))
            peaks.append(np.abs(x).max())
        amaxes.append(max(peaks))
        recipe.update_after_pass()
        window = amaxes[-history_len:] if algorithm == "max" else amaxes[-1:]
        assert float(host(recipe.scale)[0]) == pytest.approx(448 / max(window) / 2, rel=1e-6), k


def test_values_that_are_not_finite(library):
    recipe = bk.fp8.Fp8Recipe("e4m3", 2)
    recipe.update_after_pass()
    assert host(recipe.scale)[0] == host(recipe.scale_inv)[0] == 1  # nothing seen
    codes = recipe.cast(bk.upload(np.array([np.nan, 3.0, -500.0, np.inf], np.float32)))
    values = host(bk.cast(codes, bk.f32))
    assert np.isnan(values[0]) and values[2] == -448 and values[3] == 448
    recipe.update_after_pass()
    assert host(recipe.scale)[0] == 1  # an infinite magnitude counts as the largest value
    recipe.cast(bk.upload(np.array([np.nan, 2.0], np.float32)))
    for _ in range(2):
        recipe.update_after_pass()
    assert host(recipe.scale)[0] == 224
    tiny = bk.fp8.Fp8Recipe("e5m2", 1)
    tiny.cast(bk.upload(np.array([1e-40], np.float32)))
    tiny.update_after_pass()
    assert np.isfinite(host(tiny.scale)).all()


@pytest.mark.parametrize("recipe", ["delayed", "current", "blocks"])
@pytest.mark.parametrize("gradient_format", ["e4m3", "e5m2"])
@pytest.mark.parametrize("dtype", [bk.f32, bk.bf16], ids=str)
def test_linear(library, rng, recipe, gradient_format, dtype):
    """Errors are those of 8-bit operands: some percent of the norm."""
    m, n, k = 40, 144, 200
    x, w, dy, b = (rng.standard_normal(shape) for shape in ((2, m // 2, k), (n, k), (2, m // 2, n), (n,)))
    x[0, 0] *= 20
    layer = bk.fp8.Linear(recipe, gradient_format=gradient_format, history_len=4)
    arrays = [bk.upload(each, dtype) for each in (x, w, dy, b)]
    for _ in range(2):  # delayed scaling knows nothing in the first pass
        y, saved = layer.forward(arrays[0], arrays[1], arrays[3])
        dx, dw = layer.backward(arrays[2], saved)
        layer.update()
    bound = 0.06 if gradient_format == "e4m3" or recipe == "blocks" else 0.1
    for found, want in (
        (y, x @ w.T + b), (dx, dy @ w), (dw, dy.reshape(m, n).T @ x.reshape(m, k)),
    ):  # fmt: skip
        found = host(found).astype(np.float64)
        assert found.shape == want.shape
        assert np.linalg.norm(found - want) < bound * np.linalg.norm(want)


def test_bad_arguments(library):
    with pytest.raises(bk.InvalidProblemError, match="fmt is 'e3m4'"):
        bk.fp8.Fp8Recipe("e3m4")
    with pytest.raises(bk.InvalidProblemError, match="history_len is 0"):
        bk.fp8.Fp8Recipe("e4m3", 0)
    with pytest.raises(bk.InvalidProblemError, match="recipe is 'other'"):
        bk.fp8.Linear("other")
    with pytest.raises(bk.InvalidProblemError, match="x has 3 elements, y 4"):
        bk.fp8.Fp8CastPlan().run(None, bk.zeros(3), bk.zeros(4, bk.u8), bk.fp8.Fp8Recipe())
