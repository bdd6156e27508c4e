# SPDX-License-Identifier: Apache-2.0
"""Shapes that have kernels of their own: few channels with steps, small groups, few outputs, depthwise filters."""

import ml_dtypes
import numpy as np
import pytest

import baracuda as bk
from baracuda import functions
from cases.conv.references import convolve, data_gradient, filter_gradient, to_first, to_last

DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
ALL_DTYPES = DTYPES | {"f32": np.float32}
ROWS = [f"convolution{form}_{dtype}" for form in ("", "_backward_data", "_backward_filter") for dtype in ALL_DTYPES]
pytestmark = pytest.mark.needs_ops(*ROWS)

# batch, channels before and behind, extents, taps; stride, padding, dilation, groups
FEW_CHANNELS = {
    "few 7x7 s2": (33, 3, 16, (14, 13), (7, 7), 2, 3, 1, 1),
    "few 3x3": (32, 5, 24, (7, 9), (3, 3), 1, 1, 1, 1),
    "few dilated": (32, 16, 8, (9, 8), (3, 2), 1, 2, 2, 1),
    "1d s4": (40, 4, 8, (37,), (9,), 4, 4, 1, 1),
    "1d s3, fewer taps": (40, 2, 8, (19,), (2,), 3, 0, 1, 1),
    "few in tiles": (7, 3, 8, (61, 70), (5, 5), 2, 2, 1, 1),
    "few 3x4 s2": (32, 4, 136, (9, 8), (3, 4), 2, 1, 1, 1),
    "3d s2": (16, 2, 8, (5, 4, 6), (3, 3, 3), 2, 1, 1, 1),
    "two chunks": (32, 3, 72, (6, 6), (3, 3), 2, 1, 1, 1),
}
FEW_OUTPUTS = {
    "outputs 3x3": (32, 40, 3, (7, 9), (3, 3), 1, 1, 1, 1),
    "outputs s2": (32, 16, 11, (9, 12), (3, 2), 2, 1, 1, 1),
    "outputs 1x1": (32, 72, 16, (5, 7), (1, 1), 1, 0, 1, 1),
    "outputs 3d": (16, 8, 4, (3, 5, 4), (3, 2, 3), 1, 1, 1, 1),
}
SMALL_GROUPS = {
    "groups of 8": (32, 80, 80, (7, 6), (3, 3), 1, 1, 1, 10),
    "groups of 16": (32, 48, 48, (5, 9), (3, 3), 1, 1, 1, 3),
    "groups of 8 s2": (33, 72, 72, (9, 8), (3, 3), 2, 1, 1, 9),
    "groups of 4": (34, 40, 40, (7, 9), (2, 3), 1, (1, 2), 2, 10),
    "groups in tiles": (6, 16, 16, (39, 38), (3, 3), 1, 1, 1, 2),
    "groups of 8 to 3": (32, 32, 12, (6, 7), (2, 3), 1, 1, 1, 4),
}
DEPTHWISE = {
    "own 7x7": (9, 72, 72, (17, 15), (7, 7), 1, 3, 1, 72),
    "own 5x6": (8, 16, 16, (19, 40), (5, 6), 1, 2, 1, 16),
    "own 3x3 s2": (7, 136, 136, (35, 31), (3, 3), 2, 1, 1, 136),
    "own 3x3": (5, 64, 64, (27, 61), (3, 3), 1, 1, 1, 64),
    "own dilated": (6, 24, 24, (23, 22), (3, 3), 1, 2, 2, 24),
    "own 7x7 in tiles": (2, 8, 8, (70, 301), (7, 7), 1, 3, 1, 8),
    "own, flat 3d": (3, 16, 16, (6, 9, 10), (1, 3, 3), 1, (0, 1, 1), 1, 16),
}


def near(got, want, magnitude):
    assert got.shape == want.shape
    error = np.abs(got.astype(np.float64) - want)
    eps = float(ml_dtypes.finfo(got.dtype).eps)
    assert (error <= eps * np.abs(want) + 1e-5 * magnitude + 1e-7).all(), error.max()


def problem(rng, case, dtype, is_last):
    """x, w and dy as the functions take them and in float64, and the numbers of the call."""
    batch, c_in, c_out, extents, taps, step, pad, dilation, groups = case
    rank = len(extents)
    each = [(n,) * rank if isinstance(n, int) else n for n in (step, pad, pad, dilation)]
    x = rng.standard_normal((batch, c_in, *extents)).astype(dtype)
    w = rng.standard_normal((c_out, c_in // groups, *taps)).astype(dtype)
    wide_x, wide_w = x.astype(np.float64), w.astype(np.float64)
    y = convolve(wide_x, wide_w, *each, groups)
    dy = rng.standard_normal(y.shape).astype(dtype)
    arranged = to_last if is_last else lambda a: a
    given = [bk.upload(np.ascontiguousarray(arranged(a))) for a in (x, w, dy)]
    numbers = {"stride": each[0], "padding": each[1], "padding_after": each[2], "dilation": each[3], "groups": groups,
               "channels_last": is_last}  # fmt: skip
    return given, (wide_x, wide_w, dy.astype(np.float64), y), (*each, groups), numbers


def twice(call, is_last):
    """The result with channels first; a second call has the same bits."""
    results = [bk.download(call()) for _ in range(2)]
    assert results[0].tobytes() == results[1].tobytes()
    return to_first(results[0]) if is_last else results[0]


@pytest.mark.parametrize("is_last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", FEW_CHANNELS | SMALL_GROUPS)
def test_data_gradient(rng, case, dtype, is_last):
    case = (FEW_CHANNELS | SMALL_GROUPS)[case]
    (x, w, dy), (wide_x, wide_w, wide_dy, _), at, numbers = problem(rng, case, DTYPES[dtype], is_last)
    got = twice(lambda: functions.convolution_backward_data(dy, w, x, **numbers), is_last)
    extents = wide_x.shape[2:]
    near(got, data_gradient(wide_dy, wide_w, extents, *at),
         data_gradient(np.abs(wide_dy), np.abs(wide_w), extents, *at))  # fmt: skip


@pytest.mark.parametrize("is_last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", FEW_OUTPUTS | SMALL_GROUPS)
@pytest.mark.parametrize("has_bias", [False, True], ids=["plain", "bias"])
def test_forward(rng, case, dtype, is_last, has_bias):
    case = (FEW_OUTPUTS | SMALL_GROUPS)[case]
    (x, w, _), (wide_x, wide_w, _, y), at, numbers = problem(rng, case, DTYPES[dtype], is_last)
    bias = rng.standard_normal(w.shape[0]).astype(DTYPES[dtype])
    options = {"bias": bk.upload(bias), "activation": 1} if has_bias else {}
    got = twice(lambda: functions.convolution(x, w, **options, **numbers), is_last)
    if has_bias:
        y = np.maximum(y + bias.astype(np.float64).reshape(-1, *[1] * (y.ndim - 2)), 0)
    near(got, y, convolve(np.abs(wide_x), np.abs(wide_w), *at) + 4)


def check_filter_gradient(rng, case, dtype, is_last):
    (x, w, dy), (wide_x, wide_w, wide_dy, _), at, numbers = problem(rng, case, dtype, is_last)
    got = twice(lambda: functions.convolution_backward_filter(dy, x, w, **numbers)[0], is_last)
    taps = wide_w.shape[2:]
    near(got, filter_gradient(wide_x, wide_dy, taps, *at), filter_gradient(np.abs(wide_x), np.abs(wide_dy), taps, *at))


@pytest.mark.parametrize("is_last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", FEW_CHANNELS | SMALL_GROUPS)
def test_filter_gradient(rng, case, dtype, is_last):
    check_filter_gradient(rng, (FEW_CHANNELS | SMALL_GROUPS)[case], DTYPES[dtype], is_last)


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("case", DEPTHWISE)
def test_depthwise_filter_gradient(rng, case, dtype):
    check_filter_gradient(rng, DEPTHWISE[case], ALL_DTYPES[dtype], True)


@pytest.mark.parametrize("dtype", ALL_DTYPES)
def test_filter_gradient_of_planes(rng, dtype):
    check_filter_gradient(rng, (9, 20, 33, (15, 14), (3, 2), 1, 1, 1, 1), ALL_DTYPES[dtype], False)
    check_filter_gradient(rng, (2, 72, 80, (24, 30), (1, 1), 1, 0, 1, 1), ALL_DTYPES[dtype], False)


@pytest.mark.parametrize("dtype", DTYPES)
def test_infinities(rng, dtype):
    """An infinity reaches the results whose windows have it, and no other; zeros beside it make no NaN."""
    x = np.ones((32, 8, 5, 5))
    x[3, 2, 4, 4] = np.inf
    ax, w = (bk.upload(to_last(each).astype(DTYPES[dtype])) for each in (x, np.ones((4, 8, 3, 3))))
    got = bk.download(functions.convolution(ax, w, channels_last=True)).astype(np.float64)
    want = np.full((32, 3, 3, 4), 72.0)
    want[3, 2, 2] = np.inf
    np.testing.assert_array_equal(got, want)
