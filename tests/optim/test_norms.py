# SPDX-License-Identifier: Apache-2.0
"""Norms and clipping of gradients against float64."""

import math

import numpy as np
import pytest

import baracuda as bk
import baracuda.optim as optim
from baracuda.optim import clip

from . import references

SIZES = (0, 1, 257, 4096, 9001)
UNIT = {"f32": 2.0**-23, "f64": 2.0**-51, "f16": 2.0**-23, "bf16": 2.0**-23}


def gradients(device, dtype, scale=1.0, sizes=SIZES, offset=0):
    rng = np.random.default_rng(1)
    return [device.put(scale * rng.standard_normal(n), dtype, offset=offset) for n in sizes]


def norm_of(device, grads, order=2.0):
    return np.linalg.norm(np.concatenate([device.values(g).ravel() for g in grads]), order)


@pytest.mark.parametrize("order", [2.0, 1.0, 3.5, math.inf])
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
def test_norm(device, dtype, order):
    for offset in (0, 1):
        grads = gradients(device, dtype, offset=offset)
        found = device.values(optim.get_total_norm(grads, order))
        np.testing.assert_allclose(found, norm_of(device, grads, order), rtol=4 * UNIT[dtype])


@pytest.mark.parametrize("scale", [1e30, 1e-35])
def test_no_norm_overflows_or_vanishes(device, scale):
    grads = gradients(device, "f32", scale)
    np.testing.assert_allclose(device.values(optim.get_total_norm(grads)), norm_of(device, grads), rtol=1e-6)


def test_the_grouping_of_tensors_does_not_matter(device):
    """The chunks of one tensor are those of its parts."""
    values = np.random.default_rng(2).standard_normal(5 * 4096)
    whole, parts = device.put(values, "bf16"), [device.put(each, "bf16") for each in values.reshape(5, 4096)]
    norms = [device.values(optim.get_total_norm(grads)) for grads in ([whole], parts, [whole])]
    assert norms[0] == norms[1] == norms[2]


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
def test_clip_grad_norm(device, dtype):
    for most in (0.5, 1e6):
        grads = gradients(device, dtype)
        before, norm = [device.values(g) for g in grads], norm_of(device, grads)
        found = optim.clip_grad_norm_(grads, most)
        np.testing.assert_allclose(device.values(found), norm, rtol=4 * UNIT[dtype])
        for g, x in zip(grads, before):
            unit = {"f16": 2.0**-10, "bf16": 2.0**-7}.get(dtype, 1e-6)
            np.testing.assert_allclose(device.values(g), x * min(1, most / (norm + 1e-6)), rtol=unit, atol=2.0**-24)


def test_clip_grad_value(device):
    grads = gradients(device, "f32")
    before = [device.values(g) for g in grads]
    optim.clip_grad_value_(grads, 0.3)
    for g, x in zip(grads, before):
        np.testing.assert_array_equal(device.values(g), np.clip(x, np.float32(-0.3), np.float32(0.3)))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_non_finite_gradients(device, value):
    grads = [*gradients(device, "f32"), device.put([1.0, value])]
    for order in (2.0, 1.0, math.inf):
        np.testing.assert_equal(float(device.values(optim.get_total_norm(grads, order))), value)
    with pytest.raises(RuntimeError, match="norm of order 2"):
        optim.clip_grad_norm_(grads, 1.0, error_if_nonfinite=True)


def test_norms_of_several_dtypes(device):
    """Gradients of f32 and of bf16 have one norm."""
    grads = gradients(device, "f32") + gradients(device, "bf16")
    np.testing.assert_allclose(device.values(optim.get_total_norm(grads)), norm_of(device, grads), rtol=1e-6)


def test_refusals(device):
    g = device.put(np.ones(3))
    with pytest.raises(bk.InvalidProblemError, match="norm_type is 0"):
        optim.get_total_norm([g], 0)
    with pytest.raises(bk.InvalidProblemError, match="max_norm"):
        optim.clip_grad_norm_([g], "a")
    assert optim.get_total_norm([]) == 0


@pytest.mark.parametrize("name", references.OPTIONS)
def test_max_norm_of_a_step(device, name):
    """A step with max_norm is one after clipping, up to the rounding of clipped gradients; gradients stay."""
    rng = np.random.default_rng(3)
    values, grads = rng.standard_normal(5000), rng.standard_normal(5000)
    p, g, q, h = device.put(values), device.put(grads), device.put(values), device.put(grads)
    before = device.bits(g)
    getattr(optim, name)([p], max_norm=0.5).step([g])
    optim.clip_grad_norm_([h], 0.5)
    getattr(optim, name)([q]).step([h])
    np.testing.assert_allclose(device.values(p), device.values(q), rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(device.bits(g), before)


def test_a_table_is_pointed_at_other_tensors(device):
    """A table serves calls with other PyTorch tensors, which keep its end on the device."""
    first, then = gradients(device, "f32"), gradients(device, "f32", scale=3.0, offset=1)
    table = clip._Gradients(first)
    table.release()
    np.testing.assert_allclose(device.values(clip._total(table.parts, 2.0, False)), norm_of(device, first), rtol=1e-6)
    table._fill([g.ptr for g in then], is_refill=True)
    np.testing.assert_allclose(device.values(clip._total(table.parts, 2.0, False)), norm_of(device, then), rtol=1e-6)
    limits = [np.clip(device.values(g), np.float32(-0.3), np.float32(0.3)) for g in then]
    clip._clip(table.parts, 0.0, 0.3, None)
    for g, want in zip(then, limits):
        np.testing.assert_array_equal(device.values(g), want)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_step_clips_after_the_division_by_a_number(device, groups):
    """grad_scale may be a number, whatever the arrays are: the norm is of the divided gradients of all groups."""
    rng = np.random.default_rng(4)
    params, grads = ([device.put(rng.standard_normal(9)) for _ in range(2)] for _ in range(2))
    before, slopes = ([device.values(each) for each in arrays] for arrays in (params, grads))
    given = [{"params": [p]} for p in params] if groups == 2 else params
    optim.SGD(given, lr=0.5, max_norm=0.25).step(grads, grad_scale=4.0)
    factor = 0.25 / (np.linalg.norm(np.concatenate(slopes)) / 4 + 1e-6) / 4
    assert factor < 0.25
    for p, start, slope in zip(params, before, slopes):
        np.testing.assert_allclose(device.values(p), start - 0.5 * factor * slope, rtol=1e-5, atol=1e-6)


def test_a_norm_that_is_given(device):
    """Such as that of all ranks' gradients: it is that of the divided gradients, and stands for the one of a step."""
    rng = np.random.default_rng(6)
    values, slope = rng.standard_normal(300), rng.standard_normal(300)
    p, g = device.put(values), device.put(slope)
    start = device.values(p)
    optim.SGD([p], lr=0.5, max_norm=0.25).step([g], grad_scale=2.0, norm=device.put(np.array([100.0])))
    want = start - 0.5 * 0.25 / 100 * device.values(g) / 2
    np.testing.assert_allclose(device.values(p), want, rtol=1e-5, atol=1e-6)
