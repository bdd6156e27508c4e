# SPDX-License-Identifier: Apache-2.0
"""References of reductions over some axes, which remain as axes of extent 1, with the count and magnitude of their
errors."""

import math

import numpy as np

from tools.oracle.numerics import LIMITS, is_float

from ..model import Expected

WIDE = np.longdouble


def wrapped(values, dtype):
    """Integers modulo 2^width."""
    low, high = LIMITS[dtype]
    return (np.asarray(values) - low) % (high - low + 1) + low


def count_of(x, axes):
    return math.prod(x.shape[a] for a in axes)


def of_integers(name, x, axes, dtype):
    whole = x.astype(object)
    if name in ("sum", "prod"):
        total = np.add if name == "sum" else np.multiply
        found = (
            total.reduce(whole, axis=axes, keepdims=True)
            if x.size
            else np.full(kept(x, axes), int(name == "prod"), object)
        )
        return Expected(wrapped(found, dtype).astype(np.uint64 if dtype == "u64" else np.int64))
    if count_of(x, axes) == 0:
        return Expected(np.full(kept(x, axes), LIMITS[dtype][name == "min"]))
    return Expected(getattr(np, name)(x, axis=axes, keepdims=True))


def kept(x, axes):
    return tuple(1 if a in axes else e for a, e in enumerate(x.shape))


def extreme(name, x, axes):
    worst = {"max": -np.inf, "min": np.inf}[name]
    return Expected(getattr(np, name)(x, axis=axes, keepdims=True, initial=worst))


def total(x, axes):
    return Expected(x.sum(axes, keepdims=True), count_of(x, axes), np.abs(x).sum(axes, keepdims=True))


def mean(x, axes):
    found, n = total(x, axes), count_of(x, axes)
    if n == 0:
        return Expected(np.full(found.value.shape, np.nan))
    return Expected(found.value / n, n + 1 if n > 1 else 0, found.magnitude / n)


def prod(x, axes):
    """Equal operands make equal partial products, whose errors are not independent but add up: they count as often."""
    value, n = x.prod(axes, keepdims=True), count_of(x, axes)
    if n == 0:
        return Expected(value, n, np.abs(value))
    kept_first = np.moveaxis(x, axes, range(-len(axes), 0)) if axes else x[..., None]
    rows = np.sort(kept_first.reshape(*kept_first.shape[: x.ndim - len(axes)], n), -1)
    distinct = 1 + (rows[..., 1:] != rows[..., :-1]).sum(-1)
    return Expected(value, n, np.abs(value) * (n / distinct).reshape(value.shape))


def norm2(x, axes):
    value = np.sqrt(np.square(x).sum(axes, keepdims=True))
    return Expected(value, count_of(x, axes) + 4, value)


def logsumexp(x, axes):
    if count_of(x, axes) == 0:
        return Expected(np.full(kept(x, axes), -np.inf))
    largest = x.max(axes, keepdims=True)
    finite = np.where(np.isfinite(largest), largest, 0)
    logarithm = np.log(np.exp(x - finite).sum(axes, keepdims=True))
    value = np.where(np.isposinf(largest), largest, logarithm + finite)
    size = np.where(np.isfinite(value), np.abs(finite) + np.abs(logarithm) + 1, 1)
    return Expected(value, count_of(x, axes) + 8, size, divided=np.ones(value.shape))


def variance(x, axes, correction):
    """The errors are those of the sum of squares, and of the mean, by which each difference may be off."""
    n = count_of(x, axes)
    if n == 0 or n <= correction:
        return Expected(np.full(kept(x, axes), np.nan))
    middle = x.mean(axes, keepdims=True)
    value = np.square(x - middle).sum(axes, keepdims=True) / (n - correction)
    far = np.abs(middle) + np.abs(x - middle).max(axes, keepdims=True)
    return Expected(value, n + 8, value + np.sqrt(value) * far)


def var(x, axes, correction=0):
    return variance(x, axes, correction)


def std(x, axes, correction=0):
    found = variance(x, axes, correction)
    value = np.sqrt(found.value)
    return Expected(value, found.count, np.where(value > 0, found.magnitude / np.where(value > 0, value, 1), 0))


def number(name, x, axes):
    """The extreme of the elements that are not NaN; NaN if there are none."""
    worst = {"fmax": -np.inf, "fmin": np.inf}[name]
    value = getattr(np, name).reduce(x, axis=axes, keepdims=True, initial=worst)
    return Expected(np.where(np.isnan(x).all(axes, keepdims=True), np.nan, value))


def norm_p(x, axes, p):
    """The errors are those of the summands, each of which may be off by p times the error of a quotient."""
    size, count = np.abs(x), count_of(x, axes)
    if p == 0:
        return Expected((size != 0).sum(axes, keepdims=True).astype(np.float64))
    largest = size.max(axes, keepdims=True, initial=0)
    if np.isinf(p):
        return Expected(largest)
    unit = np.where((largest > 0) & np.isfinite(largest), largest, 1)
    with np.errstate(all="ignore"):
        value = unit * ((size / unit) ** WIDE(p)).sum(axes, keepdims=True) ** (1 / WIDE(p))
    return Expected(value, count + 4 * p + 16 + 32 / p, value)


def mean_of_integers(x, axes):
    """Exact except for the conversion of the sum and the quotient."""
    count = count_of(x, axes)
    if count == 0:
        return Expected(np.full(kept(x, axes), np.nan))
    found = np.add.reduce(x.astype(object), axis=axes, keepdims=True)
    value = np.vectorize(lambda total: WIDE(total) / count, otypes=[WIDE])(found).reshape(kept(x, axes))
    return Expected(value, 3, np.abs(value))


FLOATS = {
    "sum": total, "mean": mean, "prod": prod, "norm2": norm2, "logsumexp": logsumexp, "var": var, "std": std,
    "norm_p": norm_p,
}  # fmt: skip


def truth(name, x, axes):
    nonzero = (x != 0).sum(axes, keepdims=True)
    if name == "count_nonzero":
        return Expected(nonzero)
    return Expected((nonzero > 0 if name == "any" else nonzero == count_of(x, axes)).astype(np.uint8))


def of_bools(name, x, axes):
    """NumPy's results for bools: sums are counts; the maximum of nothing is False and its minimum True."""
    if name == "sum":
        return Expected((x != 0).sum(axes, np.int64, keepdims=True))
    found = {"max": np.logical_or, "min": np.logical_and}[name].reduce(x != 0, axis=axes, keepdims=True)
    return Expected(found.astype(np.uint8))


def index_of(name, x, axes):
    """NumPy's index: the first extreme, or the first NaN, in row-major order along the axes."""
    others = [a for a in range(x.ndim) if a not in axes]
    rows = x.transpose(*others, *axes).reshape([x.shape[a] for a in others] + [-1])
    return Expected(getattr(np, name)(rows, axis=-1).reshape(kept(x, axes)))


def reduced(name, x, axes, dtype, **parameters):
    """The reduction `name` of x over `axes`."""
    axes = tuple(axes)
    if name in ("any", "all", "count_nonzero"):
        return truth(name, x, axes)
    if name in ("argmax", "argmin"):
        return index_of(name, x, axes)
    if dtype == "bool":
        return of_bools(name, x, axes)
    if not is_float(dtype) and name == "mean":
        return mean_of_integers(x, axes)
    if not is_float(dtype):
        return of_integers(name, x, axes, dtype)
    with np.errstate(all="ignore"):
        if name in ("max", "min"):
            return extreme(name, x, axes)
        if name in ("fmax", "fmin"):
            return number(name, x, axes)
        return FLOATS[name](x.astype(WIDE), axes, **parameters)
