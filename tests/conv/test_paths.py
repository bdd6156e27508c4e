# SPDX-License-Identifier: Apache-2.0
"""Extents that choose each kernel of a GPU: slices of K, copied and padded operands, large tiles, depthwise kernels."""

import ml_dtypes
import numpy as np
import pytest

from baracuda import functions
from cases.conv.references import convolve, data_gradient, filter_gradient, to_first, to_last, windows_of

DIRECTIONS = ("", "_backward_data", "_backward_filter")
pytestmark = [pytest.mark.host_arrays]
# batch, groups, channels of a group before and behind, extents, taps, stride, padding before and behind, dilation
PATHS = {
    "slices of K": (1, 1, 136, 24, (5, 6), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),
    "slices of pixels": (2, 1, 24, 40, (28, 27), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),
    "padded channels": (2, 1, 3, 20, (65, 64), (7, 7), (2, 2), (3, 3), (3, 3), (1, 1)),
    "padded groups": (2, 3, 20, 12, (24, 23), (3, 3), (2, 1), (1, 2), (1, 0), (1, 2)),
    "sequence": (2, 1, 72, 80, (700,), (4,), (3,), (3,), (0,), (1,)),
    "volume": (1, 1, 16, 72, (9, 10, 11), (3, 3, 3), (1, 2, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    "large tiles": (4, 1, 16, 136, (48, 44), (1, 1), (1, 1), (0, 0), (0, 0), (1, 1)),
    "large tiles of data": (4, 1, 136, 16, (48, 44), (1, 1), (1, 1), (0, 0), (0, 0), (1, 1)),
    "large tiles of filters": (1, 1, 512, 512, (2, 2), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),
    "depthwise": (2, 24, 1, 1, (40, 37), (7, 7), (1, 1), (3, 3), (3, 3), (1, 1)),
    "depthwise sequence": (3, 16, 1, 1, (900,), (4,), (1,), (3,), (0,), (1,)),
    "depthwise phases": (2, 40, 1, 2, (30, 30), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1)),
    "few groups": (2, 3, 1, 16, (30, 30), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1)),
}
DTYPES = {"f32": (np.float32, 4e-6), "bf16": (ml_dtypes.bfloat16, 2.0**-7), "tf32": (np.float32, 2.0**-9)}


def needed(name):
    dtype = "f32" if name == "tf32" else name
    return pytest.mark.needs_ops(*(f"convolution{way}_{dtype}" for way in DIRECTIONS))


@pytest.mark.parametrize("is_last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", [pytest.param(name, marks=needed(name)) for name in DTYPES])
def test_path(rng, name, path, is_last):
    dtype, step = DTYPES[name]
    batch, groups, inputs, outputs, extents, taps, stride, before, after, dilation = PATHS[path]
    entries = (stride, before, after, dilation)
    counts = windows_of(extents, taps, *entries)
    x = rng.standard_normal((batch, groups * inputs, *extents)).astype(dtype)
    w = rng.standard_normal((groups * outputs, inputs, *taps)).astype(dtype)
    dy = rng.standard_normal((batch, groups * outputs, *counts)).astype(dtype)
    wide = [each.astype(np.float64) for each in (x, w, dy)]
    sizes = [np.abs(each) for each in wide]
    arranged, restored = (to_last, to_first) if is_last else (lambda a: a, lambda a: a)
    ax, aw, ady = (np.ascontiguousarray(arranged(each)) for each in (x, w, dy))
    given = {"stride": stride, "padding": before, "padding_after": after, "dilation": dilation, "groups": groups,
             "channels_last": is_last, "allow_tf32": name == "tf32"}  # fmt: skip

    def near(got, reference, a, b, *rest):
        got, want = restored(got).astype(np.float64), reference(wide[a], wide[b], *rest)
        magnitude = reference(sizes[a], sizes[b], *rest)
        rounding = 0 if dtype == np.float32 else np.abs(want)
        bound = (step if dtype == np.float32 else 4e-6) * magnitude + step * rounding + 1e-6
        assert got.shape == want.shape
        assert (np.abs(got - want) <= bound).all(), np.abs(got - want).max()

    near(functions.convolution(ax, aw, **given), convolve, 0, 1, *entries, groups)
    dx = functions.convolution_backward_data(ady, aw, ax, **given)
    near(dx, data_gradient, 2, 1, x.shape[2:], *entries, groups)
    dw, _ = functions.convolution_backward_filter(ady, ax, aw, **given)
    near(dw, filter_gradient, 0, 2, taps, *entries, groups)
