# SPDX-License-Identifier: Apache-2.0
"""Interpolation along one axis as a matrix of float64, from definitions: y = A x."""

import functools
import math

import numpy as np

NEAREST, NEAREST_EXACT, LINEAR, CUBIC, AREA, LANCZOS, BOX, HAMMING = range(8)
FILTERS = (LANCZOS, BOX, HAMMING)
BYTE_UNIT = 2**22  # integer weights of bytes


def keys(d, a):
    """The kernel of Keys's cubic convolution."""
    d = abs(d)
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return (((d - 5) * d + 8) * d - 4) * a if d < 2 else 0.0


def sinc(x):
    return 1.0 if x == 0 else math.sin(math.pi * x) / (math.pi * x)


def kernel(mode, a):
    """(half the width of the kernel, the kernel)"""
    return {
        LINEAR: (1, lambda x: max(0.0, 1 - abs(x))),
        CUBIC: (2, lambda x: keys(x, a)),
        AREA: (0.5, lambda x: float(-0.5 < x <= 0.5)),
        LANCZOS: (3, lambda x: sinc(x) * sinc(x / 3) if -3 <= x < 3 else 0.0),
        BOX: (0.5, lambda x: float(-0.5 < x <= 0.5)),
        HAMMING: (1, lambda x: sinc(x) * (0.54 + 0.46 * math.cos(math.pi * x)) if abs(x) < 1 else 0.0),
    }[mode]


def step_of(n, m, align, factor):
    if factor:
        return 1 / factor
    if align:
        return (n - 1) / (m - 1) if m > 1 else 0.0
    return n / max(m, 1)


@functools.cache
def matrix(mode, n, m, align=False, factor=0.0, a=-0.75, antialias=False):
    """A [m, n] of an axis of n elements that becomes one of m."""
    found = np.zeros((m, n))
    step = step_of(n, m, align, factor)
    for o in range(m):
        if mode in (NEAREST, NEAREST_EXACT):
            half = mode == NEAREST_EXACT
            i = int((o + 0.5 * half) * step) if factor else (2 * o + half) * n // (2 * m)
            found[o, min(i, n - 1)] = 1
        elif antialias or mode in FILTERS:
            found[o] = filtered(mode, n, o, align, step, a)
        elif mode == AREA:
            low, high = o * n // m, -(-(o + 1) * n // m)
            found[o, low:high] = 1 / (high - low)
        else:
            p = min(max(o * step if align else (o + 0.5) * step - 0.5, -4.0), n + 4.0)
            base = math.floor(p)
            for i in range(base - 1, base + 3):
                w = max(0.0, 1 - abs(p - i)) if mode == LINEAR else keys(p - i, a)
                found[o, min(max(i, 0), n - 1)] += w
    found.setflags(write=False)
    return found


def filtered(mode, n, o, align, step, a):
    """A row of an antialiased filter, as Pillow computes it."""
    reach, of = kernel(mode, a)
    stretch = max(step, 1.0)
    centre = min(max(o * step + 0.5 if align else (o + 0.5) * step, 0.0), float(n))
    low = max(int(centre - reach * stretch + 0.5), 0)
    high = min(int(centre + reach * stretch + 0.5), n)
    row = np.zeros(n)
    total = 0.0
    for i in range(low, high):
        row[i] = of((i - centre + 0.5) * (1 / stretch))
        total += row[i]
    if total:
        return row / total
    row[min(int(centre), n - 1)] = 1
    return row


def applied(matrices, x):
    """The matrices along the last axes of x, in turn; elements of weight 0 are not read."""
    if np.isfinite(x).all():
        for d, each in enumerate(matrices):
            x = np.moveaxis(np.tensordot(x, each, (x.ndim - len(matrices) + d, 1)), -1, x.ndim - len(matrices) + d)
        return x
    whole = functools.reduce(np.kron, matrices)
    lead = x.shape[: x.ndim - len(matrices)]
    flat = x.reshape(-1, 1, whole.shape[1])
    with np.errstate(invalid="ignore", over="ignore"):
        found = np.where(whole != 0, whole * flat, 0).sum(-1)
    return found.reshape(*lead, *[each.shape[0] for each in matrices])


def of_bytes(matrices, x):
    """Bytes: integer weights, and sums rounded to bytes after each axis, the last first; axes that stay are left."""
    x = np.asarray(x, np.int64)
    axes = [d for d in reversed(range(len(matrices))) if not is_identity(matrices[d])]
    for d in axes:
        weights = np.trunc(matrices[d] * BYTE_UNIT + np.copysign(0.5, matrices[d])).astype(np.int64)
        at = x.ndim - len(matrices) + d
        sums = np.moveaxis(np.tensordot(x, weights, (at, 1)), -1, at)
        x = np.clip((sums + BYTE_UNIT // 2) >> 22, 0, 255)
    return x


def is_identity(of):
    return of.shape[0] == of.shape[1] and np.array_equal(of, np.eye(len(of)))


def blurred(matrices):
    """Magnitudes for error bounds: weights have an absolute error, so that each that is read counts 1/2 more."""
    return [np.abs(each) + 0.5 * (each != 0) for each in matrices]
