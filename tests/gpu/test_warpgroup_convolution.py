# SPDX-License-Identifier: Apache-2.0
"""Convolution by warpgroups (native/conv/sm90/), on the chips that have it, with and without slices of K.

The problems are large; no extent of a GEMM is a whole number of tiles. Channels behind the batch axis are copied into a
workspace.
"""

import pytest
from gpu_tools import right_on_two_streams

from cases import Draw
from cases.conv.general import General, backward_data, backward_filter, forward
from harness import OPS

SAME = {"before": (1, 1), "after": (1, 1), "layout": 1}
EVERY = {"bias": True, "c": True, "beta": -0.5, "alpha": 1.5, "z": True, "activation": 3}
CALLS = {
    "plain": General(2, 64, 128, (44, 36), (3, 3), **SAME),
    "every_step": General(3, 72, 136, (31, 35), (3, 3), **SAME, **EVERY),
    "bias_relu": General(3, 40, 264, (31, 35), (3, 3), **SAME, bias=True, activation=1),
    "wide_tiles": General(5, 32, 264, (61, 59), (1, 3), before=(0, 2), after=(0, 0), layout=1, bias=True),
    "dilated": General(2, 64, 104, (50, 41), (3, 2), before=(3, 2), after=(1, 0), dilation=(2, 3), layout=1),
    "pointwise": General(3, 200, 328, (33, 31), (1, 1), layout=1, bias=True),
    "sequence": General(4, 96, 168, (1021,), (7,), before=(6,), layout=1, bias=True, activation=2),
    "volume": General(2, 48, 72, (9, 21, 20), (3, 2, 3), before=(1, 0, 2), after=(1, 1, 0), layout=1),
    "small_image": General(64, 320, 136, (5, 7), (3, 3), **SAME),
    "special": General(2, 64, 128, (44, 36), (3, 3), **SAME, kind="special"),
}
FIRST = {"before": (1, 1), "after": (1, 1), "layout": 0}
CALLS |= {
    "first": General(2, 64, 128, (44, 36), (3, 3), **FIRST, bias=True, activation=1),
    "first_every_step": General(3, 72, 136, (31, 35), (3, 3), **FIRST, **EVERY),
    "first_padded": General(3, 70, 133, (31, 35), (3, 3), **FIRST, bias=True),
}
STRIDED = {
    "first_steps": General(2, 96, 136, (90, 75), (3, 3), (2, 3), (1, 0), (0, 1), bias=True),
    "steps": General(2, 96, 136, (90, 75), (3, 3), (2, 3), (1, 0), (0, 1), layout=1, bias=True),
    "strided_pointwise": General(3, 200, 328, (65, 61), (1, 1), (2, 2), layout=1),
}
FILTERS = {
    "plain": General(2, 64, 136, (44, 36), (3, 3), **SAME),
    "bias": General(2, 128, 520, (20, 19), (3, 3), **SAME, bias=True),
    "wide_tiles": General(2, 256, 2056, (20, 19), (3, 3), **SAME),
    "dilated": General(2, 64, 104, (70, 61), (3, 2), before=(3, 2), after=(1, 0), dilation=(2, 3), layout=1),
    "steps": General(2, 64, 136, (90, 75), (3, 3), (2, 3), (1, 0), (0, 1), layout=1),
    "pointwise": General(3, 200, 328, (33, 31), (1, 1), layout=1),
    "volume": General(2, 64, 72, (9, 21, 20), (3, 2, 3), before=(1, 0, 2), after=(1, 1, 0), layout=1),
    "first": General(2, 64, 136, (44, 36), (3, 3), **FIRST, bias=True),
}


def calls(row, forms):
    """Each form in bf16, and the first in f16 too."""
    return [
        (row.replace("{T}", dtype), form)
        for dtype, several in (("bf16", tuple(forms)), ("f16", tuple(forms)[:2]))
        for form in several
        if row.replace("{T}", dtype) in OPS
    ]


@pytest.mark.parametrize("workspace", [None, "full"])
@pytest.mark.parametrize(("op", "form"), calls("convolution_{T}", CALLS | STRIDED))
def test_forward(library, op, form, workspace):
    problem = forward(Draw(OPS[op][1], f"{op} {form}"), (CALLS | STRIDED)[form])
    right_on_two_streams(library, op, problem, workspace=workspace)


@pytest.mark.parametrize("workspace", [None, "full"])
@pytest.mark.parametrize(("op", "form"), calls("convolution_backward_data_{T}", CALLS | STRIDED))
def test_backward_data(library, op, form, workspace):
    problem = backward_data(Draw(OPS[op][1], f"{op} {form}"), (CALLS | STRIDED)[form])
    right_on_two_streams(library, op, problem, workspace=workspace)


@pytest.mark.parametrize("workspace", [None, "full"])
@pytest.mark.parametrize(("op", "form"), calls("convolution_backward_filter_{T}", FILTERS))
def test_backward_filter(library, op, form, workspace):
    problem = backward_filter(Draw(OPS[op][1], f"{op} {form}"), FILTERS[form])
    right_on_two_streams(library, op, problem, workspace=workspace)
