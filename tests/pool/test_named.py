# SPDX-License-Identifier: Apache-2.0
"""The functions under PyTorch's names: known answers, images without batches, and errors."""

import numpy as np
import pytest

import baracuda as bk

pytestmark = [pytest.mark.host_arrays, pytest.mark.needs_ops("max_pool_f32", "avg_pool_f32", "max_unpool_f32")]
SQUARE = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)


def test_known_answers():
    y, indices = bk.max_pool2d(SQUARE, 2, return_indices=True)
    np.testing.assert_array_equal(y, [[[[6, 8], [14, 16]]]])
    np.testing.assert_array_equal(indices, [[[[5, 7], [13, 15]]]])
    np.testing.assert_array_equal(bk.avg_pool2d(SQUARE, 2), [[[[3.5, 5.5], [11.5, 13.5]]]])
    np.testing.assert_array_equal(bk.avg_pool2d(SQUARE, 2, divisor_override=1), [[[[14, 22], [46, 54]]]])
    np.testing.assert_array_equal(bk.adaptive_avg_pool2d(SQUARE, 1), [[[[8.5]]]])
    np.testing.assert_array_equal(bk.adaptive_max_pool2d(SQUARE, (None, 1)), [[[[4], [8], [12], [16]]]])
    np.testing.assert_allclose(bk.lp_pool1d(np.array([[[3, 4, 6, 8]]], np.float32), 2, 2), [[[5, 10]]], rtol=1e-6)
    np.testing.assert_array_equal(bk.lp_pool1d(np.array([[[3, -4]]], np.float32), np.inf, 2), [[[4]]])
    np.testing.assert_array_equal(bk.max_unpool2d(y, indices, 2), np.where(np.isin(SQUARE, [6, 8, 14, 16]), SQUARE, 0))


def test_the_last_window_of_ceil_mode_begins_in_the_image():
    """Windows of 2 at a stride of 3 over four cells with padding 1 would begin at -1, 2 and 5, behind the image."""
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
    assert bk.max_pool1d(x, 2, 3, 1, ceil_mode=True).shape == (1, 1, 2)
    assert bk.max_pool1d(x, 2, 3, 1).shape == (1, 1, 2)
    assert bk.max_pool1d(x, 3, 2, ceil_mode=True).shape == (1, 1, 2)
    np.testing.assert_array_equal(bk.avg_pool1d(x, 3, 2, ceil_mode=True), [[[1, 2.5]]])


def test_nan_and_equal_cells():
    x = np.array([[[1, np.nan, 3, np.nan, 5, 5]]], np.float32)
    y, indices = bk.max_pool1d(x, 2, return_indices=True)
    np.testing.assert_array_equal(y, [[[np.nan, np.nan, 5]]])
    np.testing.assert_array_equal(indices, [[[1, 3, 4]]])
    y, indices = bk.max_pool1d(np.full((1, 1, 4), -np.inf, np.float32), 2, return_indices=True)
    np.testing.assert_array_equal(indices, [[[0, 2]]])
    np.testing.assert_array_equal(y, [[[-np.inf, -np.inf]]])


def test_images_without_batches_and_asymmetric_padding():
    np.testing.assert_array_equal(bk.max_pool2d(SQUARE[0], 2), bk.max_pool2d(SQUARE, 2)[0])
    last = np.ascontiguousarray(np.moveaxis(SQUARE, 1, -1))
    np.testing.assert_array_equal(
        bk.avg_pool2d(last[0], 2, layout="channels_last")[..., 0], bk.avg_pool2d(SQUARE[0], 2)[0]
    )
    padded = np.pad(SQUARE, [(0, 0), (0, 0), (1, 0), (0, 1)])
    np.testing.assert_allclose(bk.avg_pool2d(SQUARE, 2, 1, ((1, 0), (0, 1))), bk.avg_pool2d(padded, 2, 1), rtol=1e-6)
    y, indices = bk.max_pool2d(SQUARE[0], 2, return_indices=True)
    assert bk.max_unpool2d(y, indices, 2).shape == (1, 4, 4)
    assert bk.max_unpool2d(y, indices, 2, output_size=(5, 4)).shape == (1, 5, 4)


def test_sums_that_overflow_on_the_way():
    large = np.full((1, 1, 4), 3e38, np.float32)
    np.testing.assert_allclose(bk.avg_pool1d(large, 4), [[[3e38]]], rtol=1e-6)
    np.testing.assert_allclose(bk.lp_pool1d(large[..., :1], 2, 1), [[[3e38]]], rtol=1e-6)
    np.testing.assert_allclose(bk.lp_pool1d(np.full((1, 1, 4), 1e-30, np.float32), 2, 4), [[[2e-30]]], rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: bk.max_pool2d(SQUARE[0, 0], 2), r"x has shape \(4, 4\), must have 2 spatial axes"),
        (lambda: bk.max_pool2d(SQUARE, 5), "no window fits into 4 cells"),
        (lambda: bk.max_pool2d(SQUARE, 2, padding=2), r"padding_low\[0\] is 2, must be less than the window, 2"),
        (lambda: bk.avg_pool2d(SQUARE, (2, 2, 2)), "kernel_size is .*, must be one number or one for each of 2 axes"),
        (lambda: bk.avg_pool2d(SQUARE, 2, divisor_override=0), "divisor_override is 0"),
        (lambda: bk.adaptive_avg_pool2d(SQUARE, (1, 2, 3)), "output_size is .*, must be one number"),
        (lambda: bk.max_pool2d(SQUARE, 2, layout="last"), "layout is 'last', must be one of"),
        (lambda: bk.fractional_max_pool2d(SQUARE, 2, random_samples=np.zeros((1, 1, 2), np.float32)), "output_size"),
    ],
)  # fmt: skip
def test_errors(call, text):
    with pytest.raises(bk.InvalidProblemError, match=text):
        call()


def test_a_norm_that_is_not_positive():
    with pytest.raises(bk.UnsupportedError, match="norm_p is 0, must be > 0"):
        bk.lp_pool1d(SQUARE[0], 0.0, 2)
