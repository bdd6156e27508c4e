# SPDX-License-Identifier: Apache-2.0
"""Finite data with a finite result: sums, means and products whose partial results leave the dtype's range.

References are in longdouble, whose exponents reach 2^16384.
"""

import numpy as np
import pytest

import baracuda as bk

DTYPES = (np.float32, np.float64)
WIDE = np.longdouble
SHAPES = ((3,), (40,), (1025,), (70_001,))  # summed shapes


@pytest.fixture(params=DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def dtype(request):
    return request.param


def near_the_end(rng, shape, dtype, *, mixed=False):
    """The upper half of the range, with one sign or with both."""
    values = np.finfo(dtype).max * ((1 + rng.random(shape)) / 2)
    return (values * (rng.choice([-1, 1], shape) if mixed else 1)).astype(dtype)


def factors(rng, shape, dtype):
    """Large and small numbers alternate along each axis; the product of two adjacent ones is near 1."""
    exponent = 1000 if dtype == np.float64 else 120
    sign = 1 - 2 * (np.indices(shape).sum(0) % 2)
    return np.ldexp(np.exp(rng.standard_normal(shape) / 64), exponent * sign).astype(dtype)


def close(got, want, count, magnitude=None):
    """The results agree within the error of a sum of so many elements, with the sum of magnitudes `magnitude`."""
    got = np.asarray(got)
    with np.errstate(over="ignore", invalid="ignore"):
        want = np.asarray(want, WIDE)
        bound = np.finfo(got.dtype).eps * (8 + np.sqrt(count)) * np.abs(want if magnitude is None else magnitude)
        assert np.all(np.isfinite(got)), got
        assert np.all(np.abs(got - want) <= bound), (got, want)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("extent", SHAPES, ids=str)
@pytest.mark.parametrize("mixed", [False, True])
def test_means(rng, dtype, extent, axis, mixed):
    shape = (*extent, 3) if axis == 0 else (3, *extent)
    x = near_the_end(rng, shape, dtype, mixed=mixed)
    wide = x.astype(WIDE)
    close(bk.mean(x, axis), wide.mean(axis), extent[0], np.abs(wide).mean(axis))
    close(bk.mean(x), wide.mean(), x.size, np.abs(wide).mean())


@pytest.mark.parametrize("values", [[3, 3, -3, -3], [3, -3, 3, -3], [3, 3, 3, -3, -3]])
def test_sums(dtype, values):
    x = np.array(values * 20, dtype) * (np.finfo(dtype).max / dtype(3.5))
    with np.errstate(over="ignore"):
        want = x.astype(WIDE).sum().astype(dtype)
    assert bk.sum(x) == want


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("extent", SHAPES, ids=str)
def test_products(rng, dtype, extent, axis):
    shape = (*extent, 4) if axis == 0 else (4, *extent)
    x = factors(rng, shape, dtype)
    want = x.astype(WIDE).prod(axis, keepdims=True)
    with np.errstate(over="ignore", under="ignore"):
        fits = np.isfinite(want.astype(dtype)) & (np.abs(want) > np.finfo(dtype).tiny)
    got = np.asarray(bk.prod(x, axis, keepdims=True))
    close(got[fits], want[fits], extent[0] ** 2)
    dy = rng.standard_normal(want.shape).astype(dtype)
    want = dy * (want / x)
    got = np.asarray(bk.prod_backward(dy, x, axis, keepdims=True))
    with np.errstate(over="ignore", under="ignore"):
        fits = np.isfinite(want.astype(dtype)) & (np.abs(want) > np.finfo(dtype).tiny)
    close(got[fits], want[fits], extent[0] ** 2)


@pytest.mark.parametrize(
    ("values", "want"),
    [
        ([1e-22, 1e-22, 1e22, 1e22], 1), ([1e30, 1e-30] * 20, 1), ([1e30] * 9 + [1e-30] * 9, 1),
        ([0, 1e30, 1e30], 0), ([1e30, 1e30, 0], 0), ([1e30, 1e30], np.inf), ([-1e30, 1e30], -np.inf),
        ([1e-30, 1e-10, 1], 1e-40), ([1e-30, 1e-30], 0), ([np.inf, 0], np.nan), ([np.nan, 1e30, 1e30], np.nan),
    ],
)  # fmt: skip
def test_edges_of_products(values, want):
    np.testing.assert_allclose(bk.prod(np.array(values, np.float32)), want, rtol=1e-5)


def test_infinities_stay():
    """Data with infinities or NaN has the results of IEEE 754."""
    for values in ([np.inf, 1, 2], [-np.inf, 3e38, 3e38], [np.inf, -np.inf], [np.nan, 3e38, 3e38]):
        x = np.array(values * 9, np.float32)
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(bk.mean(x), x.astype(WIDE).mean().astype(np.float32))
            np.testing.assert_array_equal(bk.sum(x), x.astype(WIDE).sum().astype(np.float32))


@pytest.mark.parametrize("count", [3, 600, 5000])
def test_losses(rng, dtype, count):
    x = near_the_end(rng, (count,), dtype)
    close(bk.l1_loss(x, np.zeros_like(x)), x.astype(WIDE).mean(), count)
    log_probs = -near_the_end(rng, (count, 4), dtype)
    target = rng.integers(0, 4, count)
    picked = -log_probs[np.arange(count), target]
    close(bk.nll_loss(log_probs, target), picked.astype(WIDE).mean(), count)


@pytest.mark.parametrize("width", [1, 5, 130])
def test_segments(rng, dtype, width):
    ids = np.sort(rng.integers(0, 7, 300))
    x = near_the_end(rng, (300, width), dtype)
    got = np.asarray(bk.segment_mean(x, ids, 8))
    for s in range(7):
        close(got[s], x[ids == s].astype(WIDE).mean(0), 300)
    assert not got[7].any()
    x = factors(rng, (300, width), dtype)
    got = np.asarray(bk.segment_prod(x, ids, 8))
    for s in range(7):
        want = x[ids == s].astype(WIDE).prod(0)
        with np.errstate(over="ignore", under="ignore"):
            fits = np.isfinite(want.astype(dtype)) & (want > np.finfo(dtype).tiny)
        close(got[s][fits], want[fits], 300**2)


@pytest.mark.parametrize("width", [1, 5, 130])
def test_bags(rng, dtype, width):
    weight = near_the_end(rng, (20, width), dtype)
    indices, offsets = rng.integers(0, 20, 1000), np.array([0, 3, 3, 400])
    got = np.asarray(bk.embedding_bag(indices, weight, offsets, mode="mean"))
    for k, (first, last) in enumerate(((0, 3), (3, 3), (3, 400), (400, 1000))):
        if last > first:
            close(got[k], weight[indices[first:last]].astype(WIDE).mean(0), last - first)


def test_gradients_behind_overflow():
    """An operand that no result depends on has a gradient of 0, however large it is."""
    x = np.full(5, 1e30, np.float32)
    y = bk.exclusive_cumprod(x)
    dx = np.asarray(bk.exclusive_cumprod_backward(np.array([1, 1, 0, 0, 0], np.float32), x, y))
    np.testing.assert_array_equal(dx, np.array([1, 0, 0, 0, 0], np.float32))


def test_logsumexp_of_minus_infinity():
    x = np.array([[-np.inf] * 3, [-np.inf, 0, 0]], np.float32)
    y = np.array([[-np.inf], [np.log(2)]], np.float32)
    dx = bk.logsumexp_backward(np.ones((2, 1), np.float32), x, y, 1, keepdims=True)
    np.testing.assert_allclose(dx, [[0, 0, 0], [0, 0.5, 0.5]], rtol=1e-6)


def test_temperature_of_f64(rng):
    """1 / 0.3 is not exact in f32."""
    x, u = rng.standard_normal((3, 7)), rng.random((3, 7), np.float32)
    v = (x - np.log(-np.log(u.astype(np.float64)))) / 0.3
    e = np.exp(v - v.max(1, keepdims=True))
    np.testing.assert_allclose(bk.gumbel_softmax(x, u, 1, tau=0.3), e / e.sum(1, keepdims=True), rtol=1e-12)
