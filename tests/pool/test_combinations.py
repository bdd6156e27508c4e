# SPDX-License-Identifier: Apache-2.0
"""Every combination of window, stride, padding, dilation, ceil_mode and layout on small images, against the
references of
the cases: values, indices and gradients."""

import itertools

import numpy as np
import pytest

import baracuda as bk
from cases.pool import geometry
from cases.pool.geometry import Axis

OPS = ("max_pool_f32", "avg_pool_f32")
pytestmark = [pytest.mark.host_arrays, pytest.mark.needs_ops(*OPS)]
IMAGES = {1: (2, 3, 9), 2: (2, 9, 4, 6), 3: (1, 2, 3, 4, 3)}
LAYOUTS = ("channels_first", "channels_last")
WINDOWS = [
    (kernel, stride, padding, dilation, ceil)
    for kernel, stride, padding, dilation, ceil in itertools.product(
        (1, 2, 3), (1, 2, 3), (0, 1), (1, 2), (False, True)
    )
    if padding <= kernel // 2
]


def laid_out(x, layout):
    return np.ascontiguousarray(np.moveaxis(x, 1, -1)) if layout == LAYOUTS[1] else x


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rank", IMAGES)
def test_every_window(rank, layout):
    rng, shape = np.random.default_rng(rank), IMAGES[rank]
    x = np.round(rng.standard_normal(shape) * 2).astype(np.float32) / 2
    tried = 0
    for kernel, stride, padding, dilation, ceil in WINDOWS:
        counts = [geometry.window_count(e, kernel, stride, padding, padding, dilation, ceil) for e in shape[2:]]
        if min(counts) < 1:
            continue
        axes = [Axis.windows(e, kernel, stride, padding, padding, dilation, ceil) for e in shape[2:]]
        of = {"stride": stride, "padding": padding, "dilation": dilation, "ceil_mode": ceil, "layout": layout}
        check_maxima(x, axes, kernel, of, rng)
        check_averages(x, axes, kernel, of, rng)
        tried += 1
    assert tried > 40


def check_maxima(x, axes, kernel, of, rng):
    layout = of["layout"]
    values, numbers = geometry.maxima(x, axes)
    y, indices = bk.max_pool_indices(laid_out(x, layout), kernel, **of)
    np.testing.assert_array_equal(y, laid_out(values, layout), err_msg=str(of))
    np.testing.assert_array_equal(indices, laid_out(numbers, layout), err_msg=str(of))
    dy = rng.standard_normal(values.shape).astype(np.float32)
    want = laid_out(geometry.by_numbers(dy, numbers, x.shape).value, layout)
    by_values = bk.max_pool_backward(laid_out(dy, layout), laid_out(x, layout), y, kernel, **of)
    by_indices = bk.max_pool_indices_backward(laid_out(dy, layout), indices, laid_out(x, layout), kernel, **of)
    np.testing.assert_allclose(by_values, want, rtol=1e-5, atol=1e-5, err_msg=str(of))
    np.testing.assert_allclose(by_indices, want, rtol=1e-5, atol=1e-5, err_msg=str(of))


def check_averages(x, axes, kernel, of, rng):
    layout = of["layout"]
    for includes in (False, True):
        divisor = geometry.divisors(axes, includes_padding=includes)
        want = geometry.averages(x, axes, divisor).value.astype(np.float64)
        y = bk.avg_pool(laid_out(x, layout), kernel, count_include_pad=includes, **of)
        np.testing.assert_allclose(y, laid_out(want, layout), rtol=1e-5, atol=1e-5, err_msg=str(of))
        dy = rng.standard_normal(want.shape).astype(np.float32)
        gradient = geometry.gradient_of_averages(dy, axes, x.shape, divisor).value
        dx = bk.avg_pool_backward(laid_out(dy, layout), laid_out(x, layout), kernel, count_include_pad=includes, **of)
        np.testing.assert_allclose(dx, laid_out(gradient, layout), rtol=1e-5, atol=1e-5, err_msg=str(of))
