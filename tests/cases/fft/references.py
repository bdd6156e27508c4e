# SPDX-License-Identifier: Apache-2.0
"""Discrete Fourier transforms from their definition, in long double."""

import numpy as np

LONGEST_MATRIX = 700
TWO_PI = 8 * np.arctan(np.longdouble(1))


def roots(numerators, n):
    """exp(-2 pi i k / n) of integers, reduced to an eighth of 2 pi before they are rounded."""
    k = np.asarray(numerators, np.int64) % n
    octants, rest = np.divmod(8 * k, n)
    angle = TWO_PI * rest.astype(np.longdouble) / (8 * np.longdouble(n))
    c, s, h = np.cos(angle), np.sin(angle), np.sqrt(np.longdouble(0.5))
    cosine = [c, h * (c - s), -s, -h * (c + s), -c, -h * (c - s), s, h * (c + s)]
    sine = [s, h * (c + s), c, h * (c - s), -s, -h * (c + s), -c, -h * (c - s)]
    return np.choose(octants, cosine) - 1j * np.choose(octants, sine)


def transform(x, axis, n, inverse):
    """Transform along one axis, of x cropped or padded to n: a product with the matrix of roots; of long
    ones NumPy's transform, which has the precision of its argument."""
    x = np.moveaxis(np.asarray(x, np.clongdouble), axis, -1)[..., :n]
    if n > LONGEST_MATRIX:
        found = np.fft.ifft(x, n, norm="forward") if inverse else np.fft.fft(x, n)
    else:
        k = np.arange(n)
        matrix = roots(np.outer(k[: x.shape[-1]], k), n)
        found = x @ (np.conj(matrix) if inverse else matrix)
    return np.moveaxis(found, -1, axis)


def whole_of(half, axis, n):
    """A fiber from the first n // 2 + 1 elements of it, padded with zeros or cropped."""
    half = np.moveaxis(np.array(half, np.clongdouble), axis, -1)
    kept = half[..., : n // 2 + 1]
    kept = np.concatenate([kept, np.zeros((*kept.shape[:-1], n // 2 + 1 - kept.shape[-1]), np.clongdouble)], -1)
    kept[..., 0] = kept[..., 0].real
    if n % 2 == 0:
        kept[..., -1] = kept[..., -1].real
    mirrored = np.conj(kept[..., 1 : (n + 1) // 2][..., ::-1])
    return np.moveaxis(np.concatenate([kept, mirrored], -1), -1, axis)


def interior_of(shape, axis, n):
    """A mask of the elements of a half fiber that have a conjugate in the other half."""
    k = np.arange(shape[axis])
    inside = (k > 0) & (2 * k != n)
    return inside.reshape([-1 if a == axis % len(shape) else 1 for a in range(len(shape))])
