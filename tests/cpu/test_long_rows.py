"""Rows on the CPU whose passes are joined: exponentials of a row that threads share, blocks of a logarithm of sums, and
gradients of norms that read memory once. Of the same bits for any number of threads."""

import numpy as np
import pytest

import baracuda as bk

THREADS = (1, 2, 3)


def on_all(set_threads, function):
    """What a function gives, a tuple of arrays, of whatever number of threads."""
    found = []
    for threads in THREADS:
        set_threads(threads)
        made = function()
        found.append(made if isinstance(made, tuple) else (made,))
    for other in found[1:]:
        for one, again in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, again)
    return found[0]


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("rows", [1, 2])
def test_softmax_that_threads_share(set_threads, rng, rows, in_place):
    x = (3 * rng.standard_normal((rows, 100_003))).astype(np.float32)
    shares = np.exp(x - x.max(1, keepdims=True).astype(np.float64))

    def function():
        given = x.copy()
        return bk.softmax(given, axis=-1, out=given if in_place else None)

    (y,) = on_all(set_threads, function)
    np.testing.assert_allclose(y, shares / shares.sum(1, keepdims=True), rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(1, 70_001), (1, 200_000), (2, 40_000), (5, 33), (9, 64), (7, 129)], ids=str)
@pytest.mark.parametrize("name", ["logcumsumexp", "exclusive_logcumsumexp"])
def test_logarithms_of_sums(set_threads, rng, name, shape, reverse):
    """Within a block and beyond; of several rows at a time; of chunks, which threads share where there is one row."""
    x = (5 * rng.standard_normal(shape)).astype(np.float32)
    x[:, shape[1] // 3] = 40  # what follows is far below
    x[:, [0, -1, shape[1] // 2]] = -np.inf
    (y,) = on_all(set_threads, lambda: getattr(bk, name)(x, axis=-1, reverse=reverse))
    turned = x[:, ::-1] if reverse else x
    value = np.logaddexp.accumulate(turned.astype(np.float64), 1)
    if name.startswith("exclusive"):
        value = np.concatenate([np.full((len(x), 1), -np.inf), value[:, :-1]], 1)
    np.testing.assert_allclose(y, value[:, ::-1] if reverse else value, rtol=2e-6, atol=2e-6)


def norm_gradients(dy, x, gamma, is_centered, eps):
    """dx without what is added, dgamma, dbeta, and the statistics, in f64."""
    dy, x = dy.astype(np.float64), x.astype(np.float64)
    mean = x.mean(1, keepdims=True) if is_centered else 0.0
    scale = 1 / np.sqrt(np.square(x - mean).mean(1, keepdims=True) + eps)
    h, xh = dy * gamma, (x - mean) * scale
    level = h.mean(1, keepdims=True) if is_centered else 0.0
    dx = scale * (h - level - xh * (h * xh).mean(1, keepdims=True))
    return dx, (dy * xh).sum(0), dy.sum(0), mean, scale


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("shape", [(257, 4100), (33, 40_003), (20_003, 70)], ids=str)
@pytest.mark.parametrize("name", ["{}_norm_backward", "add_{}_norm_backward", "{}_norm_recompute_backward"])
@pytest.mark.parametrize("of", ["layer", "rms"])
def test_gradients_in_one_pass(set_threads, rng, of, name, shape, in_place):
    """Parts of a run of rows, the last of which is shorter, and of several; whole chunks or not; dx over x or not."""
    x, dy, extra = rng.standard_normal((3, *shape)).astype(np.float32)
    gamma = rng.standard_normal(shape[1]).astype(np.float32)
    is_centered, is_alone = of == "layer", name == "{}_norm_backward"
    dx, *sums, mean, scale = norm_gradients(dy, x, gamma, is_centered, 1e-5)
    sums = sums if is_centered else sums[:1]
    saved = [s.astype(np.float32) for s in ((mean, scale) if is_centered else (1 / scale,))]
    function = getattr(bk, name.format(of))

    def call():
        given = x.copy()
        out = (given, *(np.empty(shape[1], np.float32) for _ in sums)) if in_place else None
        if "recompute" in name:
            return function(dy, given, gamma, extra, axis=-1, eps=1e-5, out=out)
        return function(dy, given, *saved, gamma, *(() if is_alone else (extra,)), axis=-1, out=out)

    found = on_all(set_threads, call)
    np.testing.assert_allclose(found[0], dx + (0 if is_alone else extra), rtol=1e-3, atol=2e-4)
    for one, exact in zip(found[1:], sums, strict=True):
        np.testing.assert_allclose(one, exact, rtol=1e-3, atol=2e-6 * shape[0])
