# SPDX-License-Identifier: Apache-2.0
"""Distributions as functions of a stream's numbers, in float64: the transformations that the op tables define."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from tools.oracle.numerics import COMPUTE, DIGITS, SMALLEST, round_to
from tools.oracle.philox import more_words, numbers

_NORMAL = NormalDist()
_WIDE = np.longdouble


def words_of(dtype: str) -> int:
    """32-bit words of a number for results of a dtype."""
    return 2 if dtype in ("f64", "i64", "u64") else 1


def tails(seed: int, offset: int, count: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """(t, whether u > 1/2) of the midpoint u of a number's interval, t = min(u, 1 - u): exact."""
    each = words_of(dtype)
    bits = 52 if each == 2 else 32
    whole = numbers(seed, offset, count, each) >> np.uint64(64 - bits if each == 2 else 0)
    is_upper = whole >= np.uint64(1 << (bits - 1))
    folded = np.where(is_upper, np.uint64(2**bits - 1) - whole, whole)
    return (folded.astype(np.float64) + 0.5) * 2.0**-bits, is_upper


def half_open(seed: int, offset: int, count: int, dtype: str) -> np.ndarray:
    """Multiples of 2^-digits in [0, 1)."""
    each, digits = words_of(dtype), DIGITS[dtype]
    return (numbers(seed, offset, count, each) >> np.uint64(32 * each - digits)).astype(np.float64) * 2.0**-digits


def quantile(t: np.ndarray, is_upper: np.ndarray) -> np.ndarray:
    """The standard normal quantile of a tail."""
    z = np.array([_NORMAL.inv_cdf(p) if p < 0.5 else 0.0 for p in t.ravel()]).reshape(t.shape)
    return np.where(is_upper, -z, z)


def exponential(t: np.ndarray, is_upper: np.ndarray) -> np.ndarray:
    return np.where(is_upper, -np.log1p(-t), -np.log(t))


def neighbour(value: float, towards: float, dtype: str) -> float:
    """The next number of a dtype in the direction of another."""
    if dtype in ("f32", "f64"):
        kind = np.float32 if dtype == "f32" else np.float64
        return float(np.nextafter(kind(value), kind(towards)))
    exponent = max(math.frexp(value)[1] - DIGITS[dtype], round(math.log2(SMALLEST[dtype])))
    sign = 1 if towards > value else -1
    away = [sign * 2.0 ** (exponent - k) for k in (1, 0)]  # below a power of two numbers are closer
    steps = [float(round_to(np.array(value + step), dtype)) for step in away]
    return next(step for step in steps if step != value)


def uniform(
    low: float, high: float, seed: int, offset: int, count: int, dtype: str, *, includes_high: bool = False
) -> np.ndarray:
    """[low, high), or (low, high]."""
    compute = COMPUTE[dtype]
    first, end = (float(round_to(np.array(value), dtype)) for value in (low, high))
    span = float(round_to(np.array(high - low), compute))
    u = half_open(seed, offset, count, dtype).astype(_WIDE)
    if includes_high:
        return np.maximum(end - u * span, neighbour(first, end, dtype))
    return np.minimum(first + u * span, neighbour(end, first, dtype))


def truncated_normal(
    low: float, high: float, mean: float, stddev: float, t: np.ndarray, is_upper: np.ndarray
) -> np.ndarray:
    """The quantile of the distribution that is cut to [low, high]; t and is_upper are those of u."""
    first, last = (low - mean) / stddev, (high - mean) / stddev
    mirrored = first + last > 0
    if mirrored:
        first, last = -last, -first
    below, until = (0.5 * math.erfc(-z / math.sqrt(2)) for z in (first, last))
    above = 0.5 * math.erfc(last / math.sqrt(2))
    width = until - below if last < 0 else 1 - below - above
    from_below, from_above = np.where(is_upper, 1 - t, t), np.where(is_upper, t, 1 - t)
    p, q = below + from_below * width, above + from_above * width
    z = quantile(np.maximum(np.minimum(p, q), 1e-300), p >= q)
    return np.clip(mean + stddev * (-z if mirrored else z), low, high)


Located = Callable[[np.ndarray, np.ndarray], np.ndarray]
# Standard forms, of the location 0 and the scale 1.
LOCATED: dict[str, Located] = {
    "gumbel": lambda t, is_upper: -np.log(exponential(t, is_upper)),
    "cauchy": lambda t, is_upper: np.where(is_upper, 1, -1) / np.tan(np.pi * t),
    "laplace": lambda t, is_upper: np.where(is_upper, -1, 1) * np.log(2 * t),
    "logistic": lambda t, is_upper: np.where(is_upper, -1, 1) * (np.log(t) - np.log1p(-t)),
}


def trials(p: float, t: np.ndarray, is_upper: np.ndarray) -> np.ndarray:
    """ln(u) / ln(1 - p), of which the geometric variable is the ceiling, at least 1."""
    rate = -math.log1p(-p) if p < 1 else math.inf
    return exponential(t, is_upper) / rate


def probability_words(p: np.ndarray) -> np.ndarray:
    """The number of words of the event with a probability."""
    known = np.nan_to_num(np.asarray(p, np.float64), nan=0.0)
    return np.floor(np.clip(known, 0, 1) * 2.0**32 + 0.5)


def integers(low: int, high: int, seed: int, offset: int, count: int, dtype: str) -> np.ndarray:
    """[low, high), by multiplication and rejection (Lemire 2019), in Python's integers."""
    each = words_of(dtype)
    bits, span = 32 * each, high - low
    found = []
    for k, number in enumerate(numbers(seed, offset, count, each)):
        product, attempt = int(number) * span, 0
        while product % 2**bits < 2**bits % span:
            attempt += 1
            words = more_words(seed, (offset + k) % 2**64, attempt, each)
            product = (words[0] | words[1] << 32 if each == 2 else words[0]) * span
        found.append(low + (product >> bits))
    return np.array(found, np.int64)


def _midpoint(words: list[int]) -> float:
    return (((words[0] | words[1] << 32) >> 12) + 0.5) * 2.0**-52


def poisson(rate: float, number: int, seed: int, index: int) -> tuple[float, bool]:
    """(a variable of the rate, whether it is so close to a step that rounding may change it). index is the number's."""
    if not rate >= 0:
        return math.nan, False
    if rate < 10:
        u, k = ((number >> 12) + 0.5) * 2.0**-52, 0
        probability = total = math.exp(-rate)
        while u > total and k < 100:
            k += 1
            probability *= rate / k
            total += probability
        return float(k), min(abs(u - total), abs(u - (total - probability))) < 1e-14
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha, squeeze = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2)
    for attempt in range(1, 1000):
        words = more_words(seed, index, attempt, 2)
        u, v = _midpoint(words[:2]) - 0.5, _midpoint(words[2:])
        distance = 0.5 - abs(u)
        k = math.floor((2 * a / distance + b) * u + rate + 0.43)
        if distance >= 0.07 and v <= squeeze:
            return float(k), False
        if k < 0 or (distance < 0.013 and v > distance):
            continue
        accepted = math.log(v * inverse_alpha / (a / distance**2 + b))
        if accepted <= -rate + k * math.log(rate) - math.lgamma(k + 1):
            return float(k), False
    raise ArithmeticError(f"no variable of the rate {rate} in a thousand attempts")
