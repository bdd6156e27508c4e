# SPDX-License-Identifier: Apache-2.0
"""Arguments: every 16-bit value, or samples that are dense near difficult points."""

from __future__ import annotations

import functools

import numpy as np

from tools.accuracy.ulp import Array
from tools.oracle.numerics import decode, encode

_BITS = {"f16": np.uint16, "bf16": np.uint16, "f32": np.uint32, "f64": np.uint64}
# Poles, zeros of functions and gradients, ends of domains and branches.
_POINTS = (
    0.0, 0.25, 0.5, 0.75, 1.0, 1.1924, 1.2785, 1.4616321449683623, 1.5, 2.0, 2.457024738, 2.7476826467, 3.0, 3.0886,
    4.0, 5.0, 6.0, 0.7517915, 0.5040830082644554, 1.5734984732, 2.6107208680, 0.3247, 8.0, 9.0, 10.0, 11.0, 13.0,
    20.0, 26.5, 38.5, 80.0, 87.3, 88.7, 103.9, 127.0, 128.0, 149.0, 708.4, 709.8, 745.1, 1024.0, 1074.0, 16.64, 17.33,
    65504.0, 3.4028235e38, 1.1754944e-38, 1.4e-45, 6.1e-5, 6e-8, 2.2250738585072014e-308,
)  # fmt: skip


@functools.cache
def sample(dtype: str, quick: bool = False, seed: int = 7) -> Array:
    """Bits of values of the dtype; for 16 bits all values."""
    if dtype in ("f16", "bf16"):
        return np.arange(65536, dtype=np.uint16)
    n = 1 << (12 if quick else 15)
    rng = np.random.default_rng(seed)
    kind = _BITS[dtype]
    anywhere = rng.integers(0, 1 << (8 * np.dtype(kind).itemsize), n, kind, endpoint=False) if dtype == "f32" else None
    if anywhere is None:
        anywhere = rng.integers(0, (1 << 64) - 1, n, np.uint64, endpoint=True)
    sign = rng.choice((-1.0, 1.0), 2 * n)
    parts = [
        sign * np.exp2(rng.uniform(-40, 11, 2 * n)),
        rng.uniform(-12, 12, 2 * n),
        rng.uniform(-1.5, 1.5, n),
        rng.uniform(-110, 110, n),
        sign[:n] * (1 - np.exp2(rng.uniform(-53 if dtype == "f64" else -24, 0, n))),
        np.rint(rng.uniform(-4000, 4000, n // 4)) * (np.pi / 2),
        np.rint(rng.uniform(-200, 200, n // 4)),
        np.rint(rng.uniform(-60, 60, n // 4)) / 2,
    ]
    if dtype == "f64":
        parts.append(rng.uniform(-760, 760, n))
    bits = [anywhere, *(encode(part, dtype) for part in parts), _near_points(dtype)]
    return np.unique(np.concatenate(bits))


def _near_points(dtype: str) -> Array:
    """The points, 32 neighbours to either side, both signs; zeros, infinities, NaN."""
    kind = _BITS[dtype]
    points = encode(np.array(_POINTS), dtype).astype(kind)
    steps = np.arange(-32, 33).astype(np.int64)
    near = (points.astype(np.int64)[:, None] + steps).ravel()
    near = near[near >= 0].astype(kind)
    top = kind(1) << kind(8 * np.dtype(kind).itemsize - 1)
    special = encode(np.array([0.0, np.inf, np.nan]), dtype).astype(kind)
    both = np.concatenate([near, special])
    return np.concatenate([both, both | top])


def gradients(dtype: str, n: int, random: bool) -> Array:
    """Bits of dy: ones, or values of magnitude 0.5 to 2."""
    if not random:
        return encode(np.ones(n), dtype)
    rng = np.random.default_rng(11)
    return encode(rng.choice((-1.0, 1.0), n) * np.exp2(rng.uniform(-1, 1, n)), dtype)


@functools.cache
def pairs(dtype: str, quick: bool = False) -> tuple[Array, Array]:
    """Bits of two operands: any magnitudes, similar magnitudes, small integers and specials."""
    n = 1 << (13 if quick else 17)
    rng = np.random.default_rng(3)

    def signed(values: Array) -> Array:
        return rng.choice((-1.0, 1.0), values.shape) * values

    span = {"f16": 12.0, "f64": 900.0}.get(dtype, 110.0)
    a = signed(np.exp2(rng.uniform(-span, span, n)))
    b = signed(np.exp2(rng.uniform(-span, span, n)))
    base, power = np.exp2(rng.uniform(-8, 8, n)), signed(np.exp2(rng.uniform(-6, 5, n)))
    like = signed(np.exp2(rng.uniform(-10, 10, n)))
    near = like * np.exp2(rng.uniform(-3, 12, n))
    whole = np.rint(rng.uniform(-40, 40, (2, n // 4)))
    scaled = np.rint(rng.uniform(-4000, 4000, n // 4)) / 10
    special = np.array([0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, np.inf, -np.inf, np.nan, 1e38, -1e38, 1e-40, -1e-40])
    first, second = (v.ravel() for v in np.meshgrid(special, special))
    left = np.concatenate([a, base, near, like, whole[0], scaled, first])
    right = np.concatenate([b, power, like, near, whole[1], np.full(n // 4, 0.1), second])
    return encode(left, dtype), encode(right, dtype)


def values(bits: Array, dtype: str) -> Array:
    return decode(bits, dtype)
