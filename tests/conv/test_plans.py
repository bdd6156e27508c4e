# SPDX-License-Identifier: Apache-2.0
"""Conv1dPlan to ConvTranspose3dPlan: three directions, numbers by axis, errors."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest

import baracuda as bk
from cases.conv.references import convolve, data_gradient, filter_gradient

DIRECTIONS = ("fw", "bw_data", "bw_filter")
ROWS = [f"conv{form}_{rank}d_{d}_f32" for form in ("", "_transpose") for rank in (1, 2, 3) for d in DIRECTIONS]
pytestmark = pytest.mark.needs_ops(*ROWS)


def descriptor(rank, transposed):
    name = f"Conv{'Transpose' if transposed else ''}{rank}dDescriptor"
    made = getattr(bk, name)(2, 4, 6, *(7, 6, 8)[:rank], *(3, 2, 3)[:rank], element=bk.f32)
    made = made.with_stride(*(2, 1, 2)[:rank]).with_padding(*(1, 0, 1)[:rank]).with_groups(2)
    return made.with_output_padding(*(1, 0, 1)[:rank]) if transposed else made.with_dilation(*(1, 2, 1)[:rank])


@pytest.mark.parametrize("transposed", [False, True], ids=["conv", "transpose"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_directions(rng, rank, transposed):
    given = descriptor(rank, transposed)
    word = type(given).__name__.removesuffix("Descriptor")
    plan = getattr(bk, f"{word}Plan").select(None, given)
    x, w, dy = (
        rng.standard_normal(s).astype(np.float32) for s in (given.input_shape, given.filter_shape, given.output_shape)
    )
    dx, dw, dz = (bk.upload(each) for each in (x, w, dy))
    y, gx, gw = (bk.zeros(s, bk.f32) for s in (given.output_shape, given.input_shape, given.filter_shape))
    args = {
        "fw": getattr(bk, f"{word}FwArgs")(input=dx, filter=dw, output=y),
        "bw_data": getattr(bk, f"{word}BwDataArgs")(filter=dw, grad_output=dz, grad_input=gx),
        "dw": getattr(bk, f"{word}DwArgs")(input=dx, grad_output=dz, grad_filter=gw),
    }
    for direction, own in args.items():
        for with_workspace in (False, True):
            size = getattr(plan, direction).workspace_size
            assert size <= plan.workspace_size
            space = bk.empty((size,), bk.u8) if with_workspace and size else None
            getattr(plan, f"run_{direction}")(None, space, own)
    entries = [given._each(name) for name in ("stride", "pad", "pad", "dilation")]
    x6, w6, dy6 = (each.astype(np.float64) for each in (x, w, dy))
    if transposed:
        want = (data_gradient(x6, w6, given.output_spatial, *entries, 2), convolve(dy6, w6, *entries, 2),
                filter_gradient(dy6, x6, given.taps, *entries, 2))  # fmt: skip
    else:
        want = (convolve(x6, w6, *entries, 2), data_gradient(dy6, w6, given.spatial, *entries, 2),
                filter_gradient(x6, dy6, given.taps, *entries, 2))  # fmt: skip
    for ours, theirs in zip((y, gx, gw), want):
        np.testing.assert_allclose(bk.download(ours), theirs, rtol=2e-5, atol=2e-5 * np.abs(theirs).max())


def test_copies_and_properties():
    plan = bk.Conv2dPlan.select(None, descriptor(2, False))
    assert pickle.loads(pickle.dumps(plan)).descriptor == plan.descriptor
    assert copy.copy(plan).workspace_size == plan.workspace_size
    assert "Conv2dPlan" in repr(plan)
    assert plan.precision_guarantee.deterministic
    assert plan.sku.category is bk.OpCategory.CONVOLUTION


BAD = {
    "groups": ({"groups": 4}, r"groups is 4, must divide c_out, 6"),
    "stride": ({"stride_h": 0}, r"stride_h is 0"),
    "wide": ({"kh": 30}, r"the output would have an extent of -?\d+ along h"),
    "batch": ({"batch": -1}, r"batch is -1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_descriptors(name):
    changes, text = BAD[name]
    with pytest.raises(bk.InvalidProblemError, match=text):
        bk.Conv2dPlan.select(None, dataclasses.replace(descriptor(2, False), **changes))


def test_bad_calls():
    with pytest.raises(bk.InvalidProblemError, match="descriptor is of type"):
        bk.Conv1dPlan.select(None, descriptor(2, False))
    with pytest.raises(bk.InvalidProblemError, match=r"pad is \(1,\), must have 2 numbers"):
        descriptor(2, False).with_padding(1)
    with pytest.raises(bk.InvalidProblemError, match="output_pad_h is 2, must be less"):
        bk.ConvTranspose2dPlan.select(None, descriptor(2, True).with_output_padding(2, 0))
    with pytest.raises(bk.UnsupportedError, match="element is"):
        bk.Conv1dPlan.select(None, bk.Conv1dDescriptor(1, 1, 1, 4, 2, element=bk.i32))
