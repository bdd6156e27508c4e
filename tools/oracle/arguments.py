# SPDX-License-Identifier: Apache-2.0
"""Arguments that find wrong results: draws (rng, shape, dtype, edges) -> float64, each a mixture of ranges."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Draw = Callable[[np.random.Generator, Any, str, tuple[float, ...]], Array]
# ln of the largest value: exponentials overflow beyond
REACH = {"f16": 11.1, "bf16": 88.8, "f32": 88.8, "f64": 709.8}


def mixture(rng: np.random.Generator, shape: Any, *samples: Array) -> Array:
    """Takes each element from one of the arrays."""
    return np.choose(rng.integers(0, len(samples), shape), [np.broadcast_to(s, shape) for s in samples])


def near(rng: np.random.Generator, shape: Any, points: Any) -> Array:
    """The points, and values within 1 % of them."""
    chosen = rng.choice(np.asarray(points, np.float64), shape)
    return mixture(rng, shape, chosen, chosen * (1 + 0.01 * rng.standard_normal(shape)))


def both_signs(edges: tuple[float, ...]) -> list[float]:
    return [sign * e for e in edges for sign in (1, -1)]


def tiny(rng: np.random.Generator, shape: Any) -> Array:
    return np.ldexp(rng.standard_normal(shape), -rng.integers(0, 24, shape))


def anywhere(rng: np.random.Generator, shape: Any, dtype: str, edges: tuple[float, ...]) -> Array:
    return mixture(rng, shape, 3 * rng.standard_normal(shape), tiny(rng, shape), near(rng, shape, both_signs(edges)))


def positive(rng: np.random.Generator, shape: Any, dtype: str, edges: tuple[float, ...]) -> Array:
    """Values of every magnitude, and near 1."""
    return mixture(rng, shape, np.exp(4 * rng.standard_normal(shape)), 1 + 0.01 * rng.standard_normal(shape))


def inside_one(rng: np.random.Generator, shape: Any, dtype: str, edges: tuple[float, ...]) -> Array:
    small = tiny(rng, shape)
    edge = np.copysign(1 - np.abs(small) / 4, rng.standard_normal(shape))
    return np.clip(mixture(rng, shape, rng.uniform(-1, 1, shape), small, edge), -1, 1)


def above_one(rng: np.random.Generator, shape: Any, dtype: str, edges: tuple[float, ...]) -> Array:
    return mixture(rng, shape, 1 + np.abs(tiny(rng, shape)), 1 + np.exp(4 * rng.standard_normal(shape)))


def above_minus_one(rng: np.random.Generator, shape: Any, dtype: str, edges: tuple[float, ...]) -> Array:
    small = tiny(rng, shape)
    return mixture(rng, shape, small, np.exp(4 * rng.standard_normal(shape)), np.abs(small) / 4 - 1)


def probability(rng: np.random.Generator, shape: Any, dtype: str, edges: tuple[float, ...]) -> Array:
    small = tiny(rng, shape)
    return np.clip(mixture(rng, shape, rng.uniform(0, 1, shape), np.abs(small) / 4, 0.5 + small / 8), 0, 1)


def suiting(domain: tuple[float, float]) -> Draw:
    suited: dict[tuple[float, float], Draw] = {
        (0, math.inf): positive, (-1, 1): inside_one, (1, math.inf): above_one, (-1, math.inf): above_minus_one,
        (0, 1): probability,
    }  # fmt: skip
    return suited.get(domain, anywhere)


def exponents(base: float = math.e) -> Draw:
    """Exponents up to overflow, and down to underflow, of the base's power."""

    def draw(rng: np.random.Generator, shape: Any, dtype: str, edges: tuple[float, ...]) -> Array:
        reach = REACH[dtype] / math.log(base)
        wide = rng.uniform(-1.2 * reach, reach, shape)
        return mixture(rng, shape, wide, 3 * rng.standard_normal(shape), tiny(rng, shape))

    return draw


def tails(power: float = 1.0) -> Draw:
    """Values up to beyond the underflow of e^-(|x|^power / power), on both sides."""

    def draw(rng: np.random.Generator, shape: Any, dtype: str, edges: tuple[float, ...]) -> Array:
        wing = 1.1 * (power * REACH[dtype]) ** (1 / power)
        normal = 3 * rng.standard_normal(shape)
        edge = near(rng, shape, both_signs(edges))
        return mixture(rng, shape, rng.uniform(-wing, wing, shape), normal, tiny(rng, shape), edge)

    return draw


def angles(rng: np.random.Generator, shape: Any, dtype: str, edges: tuple[float, ...]) -> Array:
    normal = rng.standard_normal(shape)
    return mixture(rng, shape, 3 * normal, 1000 * normal, tiny(rng, shape), near(rng, shape, edges))


def of_gamma(rng: np.random.Generator, shape: Any, dtype: str, edges: tuple[float, ...]) -> Array:
    normal = rng.standard_normal(shape)
    return mixture(rng, shape, np.abs(3 * normal), 50 * normal, tiny(rng, shape), near(rng, shape, edges))


def any_positive(rng: np.random.Generator, shape: Any) -> Array:
    return np.exp(2 * rng.standard_normal(shape))


def around_zero(rng: np.random.Generator, shape: Any) -> Array:
    return 3 * rng.standard_normal(shape)
