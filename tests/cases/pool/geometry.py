# SPDX-License-Identifier: Apache-2.0
"""References of pooling in float64, window by window, from lists of the cells along each axis."""

import itertools
import math

import numpy as np

from ..model import Expected


class Axis:
    """cells[o] are the cells of window o in the image, padded[o] the number of those in the padded image."""

    def __init__(self, cells, padded=None):
        self.cells = cells
        self.padded = padded or [len(each) for each in cells]

    @classmethod
    def windows(cls, extent, kernel, step, low, high, dilation, ceil, count=None):
        if count is None:
            count = window_count(extent, kernel, step, low, high, dilation, ceil)
        taps = [[o * step - low + t * dilation for t in range(kernel)] for o in range(count)]
        return cls(
            [[at for at in each if 0 <= at < extent] for each in taps],
            [sum(at < extent + high for at in each) for each in taps],
        )

    @classmethod
    def adaptive(cls, extent, count):
        return cls([list(range(o * extent // count, -(-(o + 1) * extent // count))) for o in range(count)])


def window_count(extent, kernel, step, low, high, dilation, ceil):
    """All positions of a window that begin a step apart and end in the padded image; with ceil also one that leaves it
    by less than a step, if it begins in the image or the padding before it."""
    reach, starts = dilation * (kernel - 1) + 1, range(-low, extent + high, step)
    count = sum(start + reach <= extent + high for start in starts)
    behind = count * step - low
    beyond = behind + reach - (extent + high)
    return count + (ceil and 0 < beyond < step and behind < extent)


def each_window(axes):
    """(index of the window, its cells as an open mesh, shape of the mesh)."""
    for o in itertools.product(*[range(len(axis.cells)) for axis in axes]):
        lists = [axis.cells[i] for axis, i in zip(axes, o)]
        yield o, np.ix_(*lists) if all(lists) else None, tuple(map(len, lists))


def cells_of(x, mesh):
    """(N, C, cells) of a window."""
    found = x[(slice(None), slice(None), *mesh)]
    return found.reshape(*x.shape[:2], -1)


def windows_shape(shape, axes):
    return (*shape[:2], *[len(axis.cells) for axis in axes])


def maxima(x, axes):
    """Values, and row-major numbers in their plane; -infinity and -1 for windows without cells."""
    values, numbers = np.full(windows_shape(x.shape, axes), -np.inf), np.full(windows_shape(x.shape, axes), -1)
    plane = np.arange(math.prod(x.shape[2:])).reshape(x.shape[2:])
    for o, mesh, _ in each_window(axes):
        if mesh is None:
            continue
        cells = cells_of(x, mesh)
        first = np.argmax(cells, -1)  # NaN is the greatest for NumPy, too
        values[(..., *o)] = np.take_along_axis(cells, first[..., None], -1)[..., 0]
        numbers[(..., *o)] = plane[mesh].reshape(-1)[first]
    return values, numbers


def by_numbers(dy, numbers, shape, sign=None):
    """Sums of dy at the numbers, as an Expected of the shape of x. Those outside of the plane are left out."""
    planes, cells = shape[0] * shape[1], math.prod(shape[2:])
    flat, at = dy.reshape(planes, -1), np.asarray(numbers).reshape(planes, -1)
    sums, sizes, counts = np.zeros((planes, cells)), np.zeros((planes, cells)), np.zeros((planes, cells))
    for plane in range(planes):
        valid = (at[plane] >= 0) & (at[plane] < cells)
        own = at[plane][valid]
        values = flat[plane][valid] * (1 if sign is None else sign.reshape(planes, cells)[plane][own])
        np.add.at(sums[plane], own, values)
        np.add.at(sizes[plane], own, np.abs(values))
        np.add.at(counts[plane], own, 1)
    return Expected(sums.reshape(shape), count=counts.reshape(shape), magnitude=sizes.reshape(shape))


def divisors(axes, *, includes_padding=False, fixed=0):
    """The divisor of each window."""

    def count(axis):
        return np.array(axis.padded if includes_padding else [len(each) for each in axis.cells])

    whole = 1
    for k, axis in enumerate(axes):
        whole = whole * count(axis).reshape([-1 if d == k else 1 for d in range(len(axes))])
    return np.full(whole.shape, fixed) if fixed else whole


def averages(x, axes, divisor):
    shape = windows_shape(x.shape, axes)
    values, sizes, counts = np.zeros(shape, np.longdouble), np.zeros(shape), np.ones(shape[2:])
    for o, mesh, extents in each_window(axes):
        if mesh is None:
            continue
        cells = cells_of(x, mesh).astype(np.longdouble) / divisor[o]
        with np.errstate(invalid="ignore"):  # infinities of both signs
            values[(..., *o)], sizes[(..., *o)] = cells.sum(-1), np.abs(cells).sum(-1).astype(np.float64)
        counts[o] = math.prod(extents) + 2
    return Expected(values, count=np.broadcast_to(counts, shape), magnitude=sizes)


def spread(dy, axes, shape, weights):
    """Sums over the windows of a cell of dy weights(o, mesh), an array (N, C, cells of the window) or number."""
    sums, sizes, counts = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for o, mesh, extents in each_window(axes):
        if mesh is None:
            continue
        at = (slice(None), slice(None), *mesh)
        part = dy[(..., *o)][..., None] * np.broadcast_to(weights(o, mesh), (*shape[:2], math.prod(extents)))
        part = part.reshape(*shape[:2], *extents)
        sums[at] += part
        sizes[at] += np.abs(part)
        counts[at] += 1
    return sums, sizes, counts


def gradient_of_averages(dy, axes, shape, divisor):
    sums, sizes, counts = spread(dy, axes, shape, lambda o, _: 1 / divisor[o])
    return Expected(sums, count=counts + 6, magnitude=sizes)


# Roundings of a power and its root: those of 16-bit types err by 2^-17 in f32, others by less.
POWER = 300


def norms(x, axes, p):
    values = np.zeros(windows_shape(x.shape, axes), np.longdouble)
    for o, mesh, _ in each_window(axes):
        if mesh is None:
            continue
        cells = np.abs(cells_of(x, mesh).astype(np.longdouble))
        greatest = cells.max(-1)
        if p == np.inf:
            values[(..., *o)] = greatest
            continue
        with np.errstate(all="ignore"):
            scaled = greatest * ((cells / greatest[..., None]) ** np.longdouble(p)).sum(-1) ** (1 / np.longdouble(p))
        values[(..., *o)] = np.where((greatest > 0) & (greatest < np.inf), scaled, greatest)
    return Expected(values, count=POWER, magnitude=np.abs(values.astype(np.float64)))


def gradient_of_norms(dy, x, y, axes, p):
    shape = x.shape
    if p == np.inf:
        return by_numbers(dy, maxima(np.abs(x), axes)[1], shape, np.where(x < 0, -1.0, 1.0))

    def slope(o, mesh):
        cells, norm = cells_of(x, mesh), y[(..., *o)][..., None]
        with np.errstate(all="ignore"):
            found = (np.abs(cells) / norm) ** (p - 1) * np.sign(cells)
        return np.where((cells == 0) | (norm == 0), 0, found)

    sums, sizes, counts = spread(dy, axes, shape, slope)
    return Expected(sums, count=counts + POWER, magnitude=sizes)
