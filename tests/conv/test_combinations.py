# SPDX-License-Identifier: Apache-2.0
"""Every combination of stride, padding, dilation, groups and layout on small extents, in all directions."""

import itertools

import numpy as np
import pytest

from baracuda import functions
from cases.conv.references import (
    convolve,
    data_gradient,
    filter_gradient,
    spread_of,
    to_first,
    to_last,
    windows_of,
)

ROWS = tuple([f"convolution{form}_f32" for form in ("", "_backward_data", "_backward_filter", "_transpose")])
pytestmark = [pytest.mark.host_arrays, pytest.mark.needs_ops(*ROWS)]
EXTENTS = {1: (13,), 2: (7, 9), 3: (4, 5, 6)}
TAPS = {1: (1, 3, 4), 2: ((1, 1), (3, 2), (2, 3)), 3: ((1, 1, 1), (2, 3, 2))}
GROUPS = ((1, 3, 4), (2, 2, 3), (5, 1, 1), (3, 1, 2))  # groups, and channels of one before and behind
PADDING = ((0, 0), (1, 1), (2, 0), (0, 3))


def numbers(rank):
    """Strides, paddings and dilations, the same for all axes and different ones."""
    for stride, padding, dilation in itertools.product((1, 2, 3), PADDING, (1, 2)):
        yield (stride,) * rank, (padding[0],) * rank, (padding[1],) * rank, (dilation,) * rank
    if rank > 1:
        yield (1, 3, 2)[:rank], (2, 0, 1)[:rank], (0, 1, 2)[:rank], (2, 1, 1)[:rank]


def near(got, want, magnitude, what):
    error = np.abs(got - want)
    assert got.shape == want.shape, what
    assert (error <= 4e-6 * magnitude + 1e-7).all(), f"{what}: {error.max()}"


def given_of(stride, before, after, dilation, groups, is_last):
    return {"stride": stride, "padding": before, "padding_after": after, "dilation": dilation, "groups": groups,
            "channels_last": is_last}  # fmt: skip


@pytest.mark.parametrize("is_last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolution(rng, rank, is_last):
    arranged, restored = (to_last, to_first) if is_last else (lambda a: a, lambda a: a)
    for taps, (groups, inputs, outputs) in itertools.product(TAPS[rank], GROUPS):
        taps = (taps,) if rank == 1 else taps
        x = rng.standard_normal((2, groups * inputs, *EXTENTS[rank])).astype(np.float32)
        w = rng.standard_normal((groups * outputs, inputs, *taps)).astype(np.float32)
        for entries in numbers(rank):
            counts = windows_of(x.shape[2:], taps, *entries)
            if min(counts) < 1:
                continue
            what, at = (taps, groups, inputs, outputs, entries), (*entries, groups)
            given = given_of(*at, is_last)
            dy = rng.standard_normal((2, groups * outputs, *counts)).astype(np.float32)
            wide = [each.astype(np.float64) for each in (x, w, dy)]
            sizes = [np.abs(each) for each in wide]
            ax, aw, ady = (np.ascontiguousarray(arranged(each)) for each in (x, w, dy))
            near(
                restored(functions.convolution(ax, aw, **given)),
                convolve(*wide[:2], *at),
                convolve(*sizes[:2], *at),
                what,
            )
            dx = functions.convolution_backward_data(ady, aw, ax, **given)
            near(restored(dx), data_gradient(wide[2], wide[1], x.shape[2:], *at),
                 data_gradient(sizes[2], sizes[1], x.shape[2:], *at), what)  # fmt: skip
            dw, db = functions.convolution_backward_filter(ady, ax, aw, **given)
            near(restored(dw), filter_gradient(wide[0], wide[2], taps, *at),
                 filter_gradient(sizes[0], sizes[2], taps, *at), what)  # fmt: skip
            axes = (0, *range(2, rank + 2))
            near(db, wide[2].sum(axes), sizes[2].sum(axes), what)


@pytest.mark.parametrize("is_last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolution_transpose(rng, rank, is_last):
    arranged, restored = (to_last, to_first) if is_last else (lambda a: a, lambda a: a)
    for taps, (groups, outputs, inputs) in itertools.product(TAPS[rank], GROUPS):
        taps = (taps,) if rank == 1 else taps
        x = rng.standard_normal((2, groups * inputs, *EXTENTS[rank])).astype(np.float32)
        w = rng.standard_normal((groups * inputs, outputs, *taps)).astype(np.float32)
        for entries, more in itertools.product(numbers(rank), (0, 1)):
            most = [max(s, d) - 1 for s, d in zip(entries[0], entries[3])]
            extra = tuple([min(more, each) for each in most])
            result = spread_of(x.shape[2:], taps, *entries, extra)
            if min(result) < 1:
                continue
            given = given_of(*entries, groups, is_last)
            got = functions.convolution_transpose(
                np.ascontiguousarray(arranged(x)), np.ascontiguousarray(arranged(w)), output_padding=extra, **given
            )
            wide = [each.astype(np.float64) for each in (x, w)]
            at = (result, *entries, groups)
            near(
                restored(got),
                data_gradient(*wide, *at),
                data_gradient(*map(np.abs, wide), *at),
                (taps, groups, entries),
            )
