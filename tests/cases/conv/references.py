# SPDX-License-Identifier: Apache-2.0
"""Convolution from its definition, in float64 or integers: a sum of slices of the padded input, one for each tap.

Arrays have channels first. `entries` are those of a call: steps, padding, padding_after, dilation.
"""

import itertools

import numpy as np


def windows_of(spatial, taps, steps, before, after, dilation):
    """Extents of the result."""
    return tuple(
        (e + b + a - d * (k - 1) - 1) // s + 1
        for e, k, s, b, a, d in zip(spatial, taps, steps, before, after, dilation)
    )


def spread_of(spatial, taps, steps, before, after, dilation, output_padding):
    """Extents of the result of a transposed convolution."""
    return tuple(
        (e - 1) * s - b - a + d * (k - 1) + o + 1
        for e, k, s, b, a, d, o in zip(spatial, taps, steps, before, after, dilation, output_padding)
    )


def slices_of(taps, counts, steps, dilation):
    """The slice of the padded input that each tap reads."""
    for tap in itertools.product(*map(range, taps)):
        yield tap, tuple([slice(t * d, t * d + s * (c - 1) + 1, s) for t, d, s, c in zip(tap, dilation, steps, counts)])


def padded(x, before, after):
    return np.pad(x, [(0, 0), (0, 0), *zip(before, after)])


def by_groups(x, groups):
    """[n, c, ...] as [n, group, c / groups, ...]."""
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])


def of_groups(w, groups):
    """A filter as [group, its share of the first axis, ...]."""
    return w.reshape(groups, w.shape[0] // groups, *w.shape[1:])


def convolve(x, w, steps, before, after, dilation, groups=1):
    """[n, c_in, spatial] and [c_out, c_in / groups, taps] -> [n, c_out, spatial]."""
    taps, counts = w.shape[2:], windows_of(x.shape[2:], w.shape[2:], steps, before, after, dilation)
    wide, filters = by_groups(padded(x, before, after), groups), of_groups(w, groups)
    y = np.zeros((x.shape[0], groups, filters.shape[1], *counts), np.result_type(x, w))
    for tap, at in slices_of(taps, counts, steps, dilation):
        y += np.einsum("ngc...,gkc->ngk...", wide[(..., *at)], filters[(..., *tap)])
    return y.reshape(x.shape[0], w.shape[0], *counts)


def data_gradient(dy, w, spatial, steps, before, after, dilation, groups=1):
    """The adjoint of convolve in x, for x of these spatial extents. Elements that no window reaches get 0."""
    taps, counts = w.shape[2:], dy.shape[2:]
    gradients, filters = by_groups(dy, groups), of_groups(w, groups)
    reach = [max(e + b + a, d * (k - 1) + s * (c - 1) + 1)
             for e, b, a, d, k, s, c in zip(spatial, before, after, dilation, taps, steps, counts)]  # fmt: skip
    wide = np.zeros((dy.shape[0], groups, w.shape[1], *reach), np.result_type(dy, w))
    for tap, at in slices_of(taps, counts, steps, dilation):
        wide[(..., *at)] += np.einsum("ngk...,gkc->ngc...", gradients, filters[(..., *tap)])
    kept = wide[(..., *[slice(b, b + e) for b, e in zip(before, spatial)])]
    return kept.reshape(dy.shape[0], groups * w.shape[1], *spatial)


def filter_gradient(x, dy, taps, steps, before, after, dilation, groups=1):
    """The adjoint of convolve in w, for a filter of these taps."""
    counts, axes = dy.shape[2:], list(range(3, x.ndim + 1))
    wide, gradients = by_groups(padded(x, before, after), groups), by_groups(dy, groups)
    dw = np.zeros((groups, gradients.shape[2], wide.shape[2], *taps), np.result_type(x, dy))
    for tap, at in slices_of(taps, counts, steps, dilation):
        dw[(..., *tap)] = np.einsum(
            gradients, [0, 1, 2, *[a + 1 for a in axes]], wide[(..., *at)], [0, 1, 3, *[a + 1 for a in axes]], [1, 2, 3]
        )
    return dw.reshape(dy.shape[1], wide.shape[2], *taps)


def to_last(array):
    """Channels of an array or filter behind the other axes."""
    return np.moveaxis(array, 1, -1)


def to_first(array):
    return np.moveaxis(array, -1, 1)
