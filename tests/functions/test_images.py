# SPDX-License-Identifier: Apache-2.0
"""Functions of images on NumPy arrays: every mode and option on small extents, against matrices of float64."""

import itertools

import numpy as np
import pytest

import baracuda as bk
from cases.resample.affine import centres
from cases.resample.grid_sample import Sampled, sample, sample_backward
from cases.resample.matrices import (
    AREA,
    BOX,
    CUBIC,
    HAMMING,
    LANCZOS,
    LINEAR,
    NEAREST,
    NEAREST_EXACT,
    applied,
    matrix,
    of_bytes,
)

NAMES = {
    "nearest": NEAREST, "nearest_exact": NEAREST_EXACT, "linear": LINEAR, "cubic": CUBIC, "area": AREA,
    "lanczos": LANCZOS, "box": BOX, "hamming": HAMMING,
}  # fmt: skip
SMOOTH = ("linear", "cubic")
IMAGES = {1: (2, 3, 6), 2: (2, 3, 5, 6), 3: (1, 2, 4, 3, 5)}
SIZES = {1: ((1,), (3,), (6,), (11,)), 2: ((1, 9), (3, 4), (5, 13), (12, 2)), 3: ((2, 7, 3), (5, 1, 5))}


def options_of(mode):
    """(align_corners, antialias)"""
    smooth = (False, True) if mode in (*SMOOTH, "area") else (False,)
    return itertools.product((False, True) if mode in SMOOTH else (False,), smooth)


def close(got, wanted, bound=1e-5):
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=bound, atol=bound)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("mode", NAMES)
def test_interpolate(rng, mode, axes):
    x = rng.standard_normal(IMAGES[axes]).astype(np.float32)
    for size, (align, smooth) in itertools.product(SIZES[axes], options_of(mode)):
        a = -0.5 if smooth else -0.75
        of = [matrix(NAMES[mode], n, m, align, 0.0, a, smooth) for n, m in zip(x.shape[2:], size)]
        options = {"mode": mode, "align_corners": align, "antialias": smooth}
        close(bk.interpolate(x, size=size, **options), applied(of, x.astype(np.float64)))
        dy = rng.standard_normal((*x.shape[:2], *size)).astype(np.float32)
        found = bk.interpolate_backward(dy, x, **options)
        close(found, applied([each.T for each in of], dy.astype(np.float64)), 2e-5)


@pytest.mark.parametrize("factor", [0.4, 0.75, 1.0, 1.9, 2.0, 3.3])
@pytest.mark.parametrize("mode", ["nearest", "nearest_exact", "linear", "cubic"])
def test_scale_factors(rng, mode, factor):
    x = rng.standard_normal((1, 2, 7, 10)).astype(np.float32)
    factors = (factor, 1.5)
    size = [int(np.floor(n * f)) for n, f in zip(x.shape[2:], factors)]
    of = [matrix(NAMES[mode], n, m, False, f) for n, m, f in zip(x.shape[2:], size, factors)]
    close(bk.interpolate(x, scale_factor=factors, mode=mode), applied(of, x.astype(np.float64)))
    dy = rng.standard_normal((1, 2, *size)).astype(np.float32)
    wanted = applied([each.T for each in of], dy.astype(np.float64))
    close(bk.interpolate_backward(dy, x, scale_factor=factors, mode=mode), wanted)


def test_one_factor_or_extent_serves_all_axes(rng):
    x = rng.standard_normal((1, 2, 4, 6)).astype(np.float32)
    assert (bk.interpolate(x, scale_factor=2.0) == x.repeat(2, 2).repeat(2, 3)).all()
    assert bk.interpolate(x, size=5).shape == (1, 2, 5, 5)
    assert bk.interpolate(x[..., 0], size=9, mode="linear").shape == (1, 2, 9)


def test_names_of_modes(rng):
    x = rng.standard_normal((1, 2, 4, 6)).astype(np.float32)
    for name, mode in (("bilinear", "linear"), ("bicubic", "cubic"), ("nearest-exact", bk.ResampleMode.NEAREST_EXACT)):
        assert (bk.interpolate(x, size=(7, 3), mode=name) == bk.interpolate(x, size=(7, 3), mode=mode)).all()
    volume = rng.standard_normal((1, 2, 3, 4, 6)).astype(np.float32)
    linear, trilinear = (bk.interpolate(volume, size=(4, 4, 4), mode=mode) for mode in ("linear", "trilinear"))
    assert (linear == trilinear).all()
    with pytest.raises(bk.InvalidProblemError, match="mode is 'bilinear', which is for 2 spatial axes"):
        bk.interpolate(volume, size=4, mode="bilinear")


@pytest.mark.parametrize("arguments, text", [
    ({}, "neither size nor scale_factor"), ({"size": 3, "scale_factor": 2.0}, "size and scale_factor are both"),
    ({"size": (3, 4, 5)}, r"size is \(3, 4, 5\)"), ({"scale_factor": -1.0}, "scale_factor is -1.0, must be finite"),
    ({"size": 3, "mode": "sharp"}, "mode is 'sharp'"), ({"size": 3, "align_corners": True}, "align_corners is True"),
    ({"size": 3, "antialias": True}, "antialias is True"), ({"size": -1}, "size"),
])  # fmt: skip
def test_wrong_arguments(arguments, text):
    with pytest.raises(bk.InvalidProblemError, match=text):
        bk.interpolate(np.zeros((1, 1, 4, 4), np.float32), **arguments)


def test_cubic_parameter(rng):
    x = rng.standard_normal((1, 1, 5, 7)).astype(np.float32)
    of = [matrix(CUBIC, n, m, False, 0.0, -1.0) for n, m in zip((5, 7), (9, 4))]
    close(bk.interpolate(x, size=(9, 4), mode="cubic", cubic_a=-1.0), applied(of, x.astype(np.float64)))


def test_layouts_and_results(rng):
    x = rng.standard_normal((2, 5, 6, 3)).astype(np.float32).transpose(0, 3, 1, 2)  # channels last
    wanted = bk.interpolate(np.ascontiguousarray(x), size=(8, 4), mode="linear")
    out = np.zeros((2, 8, 4, 3), np.float32).transpose(0, 3, 1, 2)
    assert bk.interpolate(x, size=(8, 4), mode="linear", out=out) is out
    assert (out == wanted).all()
    flipped = bk.interpolate(x[:, :, ::-1], size=(5, 6))
    assert (flipped == x[:, :, ::-1]).all()


@pytest.mark.parametrize("mode", ["nearest_exact", "linear", "cubic", "box", "area"])
@pytest.mark.parametrize("shape", [(9, 11), (9, 11, 3), (2, 9, 11, 4)])
def test_resize_of_bytes(rng, shape, mode):
    x = rng.integers(0, 256, shape, np.uint8)
    first = max(len(shape) - 3, 0)
    planes = np.moveaxis(x, -1, first) if len(shape) > 2 else x
    for size in ((4, 5), (20, 7), (9, 13), (9, 11)):
        smooth = mode != "nearest_exact"
        of = [matrix(NAMES[mode], n, m, False, 0.0, -0.5, smooth) for n, m in zip((9, 11), size)]
        wanted = of_bytes(of, planes)
        wanted = np.moveaxis(wanted, first, -1) if len(shape) > 2 else wanted
        found = bk.resize(x, size=size, mode=mode)
        assert found.dtype == np.uint8
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, wanted)


def test_resize_keeps_a_plain_image():
    x = np.full((7, 9, 3), 200, np.uint8)
    for mode in NAMES:
        assert (bk.resize(x, size=(4, 12), mode=mode) == 200).all(), mode


def test_resize_of_floats(rng):
    x = rng.standard_normal((6, 8, 3)).astype(np.float32)
    of = [matrix(LINEAR, n, m, False, 0.0, -0.5, True) for n, m in zip((6, 8), (3, 10))]
    close(bk.resize(x, size=(3, 10)), np.moveaxis(applied(of, np.moveaxis(x, -1, 0).astype(np.float64)), 0, -1))
    dy = rng.standard_normal((3, 10, 3)).astype(np.float32)
    back = applied([each.T for each in of], np.moveaxis(dy, -1, 0).astype(np.float64))
    close(bk.resize_backward(dy, x), np.moveaxis(back, 0, -1))


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("axes", [2, 3])
def test_grid_sample(rng, mode, padding, axes):
    spatial, points = ((5, 6), (4, 3)) if axes == 2 else ((3, 4, 5), (2, 3, 3))
    numbers = [("bilinear", "nearest", "bicubic").index(mode), ("zeros", "border", "reflection").index(padding)]
    for align in (False, True):
        x = rng.standard_normal((2, 3, *spatial)).astype(np.float32)
        grid = rng.uniform(-1.7, 1.7, (2, *points, axes)).astype(np.float32)
        dy = rng.standard_normal((2, 3, *points)).astype(np.float32)
        of = Sampled(grid.astype(np.float64), spatial, *numbers, align, "f32")
        options = {"mode": mode, "padding_mode": padding, "align_corners": align}
        close(bk.grid_sample(x, grid, **options), sample(of, x.astype(np.float64))[0].reshape(2, 3, *points))
        dx, dgrid = bk.grid_sample_backward(dy, x, grid, **options)
        images, grids, _ = sample_backward(of, dy.astype(np.float64), x.astype(np.float64))
        close(dx, images[0].reshape(x.shape))
        close(dgrid, grids[0].reshape(grid.shape), 1e-4)
        assert bk.grid_sample_backward(dy, x, grid, needs=[False, True], **options)[0] is None


def test_grid_sample_anywhere():
    """Positions that are no finite number, or far away, read nothing outside of the image."""
    x = np.arange(1, 13, dtype=np.float32).reshape(1, 1, 3, 4)
    far = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 3e38, 2.0**31, -(2.0**40)], np.float32)
    grid = np.stack(np.meshgrid(far, far), -1)[None]
    for mode, align in itertools.product(("bilinear", "nearest", "bicubic"), (False, True)):
        assert (bk.grid_sample(x, grid, mode=mode, align_corners=align) == 0).all()
        for padding in ("border", "reflection"):
            found = bk.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=align)
            assert np.isfinite(found).all() and (np.abs(found) < 30).all()


def test_affine_grid(rng):
    for dims, extents in ((2, (3, 4)), (3, (2, 3, 4)), (2, (1, 5))):
        for align in (False, True):
            theta = rng.standard_normal((2, dims, dims + 1)).astype(np.float32)
            along = [centres(n, align).astype(np.float64) for n in extents]
            base = np.stack([*reversed(np.meshgrid(*along, indexing="ij")), np.ones(extents)], -1)
            depth = extents[0] if dims == 3 else 0
            options = {"depth": depth, "align_corners": align}
            grid = bk.affine_grid(theta, *extents[-2:], **options)
            close(grid, np.einsum("...k,ndk->n...d", base, theta.astype(np.float64)))
            dy = rng.standard_normal(grid.shape).astype(np.float32)
            flat = dy.astype(np.float64).reshape(2, -1, dims)
            wanted = np.einsum("ncd,ck->ndk", flat, base.reshape(-1, dims + 1))
            close(bk.affine_grid_backward(dy, *extents[-2:], **options), wanted)


def test_pixel_shuffle(rng):
    for dtype in (np.float32, np.float16, np.uint8, np.int64, np.complex64):
        x = (rng.standard_normal((2, 5, 12, 3, 4)) * 50).astype(dtype)
        wanted = x.reshape(2, 5, 3, 2, 2, 3, 4).transpose(0, 1, 2, 5, 3, 6, 4).reshape(2, 5, 3, 6, 8)
        found = bk.pixel_shuffle(x, 2)
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(bk.pixel_unshuffle(found, 2), x)
    with pytest.raises(bk.InvalidProblemError, match=r"channels must be a multiple of 5\^2"):
        bk.pixel_shuffle(x, 5)
    with pytest.raises(bk.InvalidProblemError, match="height and width must be multiples of 2"):
        bk.pixel_unshuffle(x, 2)
