# SPDX-License-Identifier: Apache-2.0
"""Selective scans and their gradients in float64, step by step.

Every channel has a step, rates, b and c of its own here: callers expand heads and groups, and sum gradients over them.
Axes are (row, token, channel, state). A second run with magnitudes bounds what may cancel.
"""

import dataclasses
import itertools

import numpy as np


@dataclasses.dataclass
class Scan:
    """spans has (sequence, row, begin, end); d, z, bias, initial and gradients of results may be None."""

    u: np.ndarray
    delta: np.ndarray
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    spans: list
    softplus: bool = False
    clamp: tuple = (-np.inf, np.inf)
    d: np.ndarray | None = None
    z: np.ndarray | None = None
    bias: np.ndarray | None = None
    initial: np.ndarray | None = None
    dy: np.ndarray | None = None
    d_last: np.ndarray | None = None


def logistic(z):
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-z))


def spans_of(rows, tokens, offsets=None):
    """The tokens of each sequence; offsets are clamped to those that there are."""
    if offsets is None:
        return [(s, s, 0, tokens) for s in range(rows)]
    ends = [min(max(int(o), 0), tokens) for o in offsets]
    return [(s, 0, begin, max(begin, end)) for s, (begin, end) in enumerate(itertools.pairwise(ends))]


def solve(scan):
    """(values, magnitudes): y, last, and with dy all gradients, by name."""
    raw = scan.delta + (0 if scan.bias is None else scan.bias)
    soft = np.where(raw <= 20, np.log1p(np.exp(np.minimum(raw, 20))), raw) if scan.softplus else raw
    step = np.clip(soft, *scan.clamp)
    slope = np.where(raw <= 20, logistic(raw), 1.0) if scan.softplus else np.ones_like(raw)
    slope = np.where((soft < scan.clamp[0]) | (soft > scan.clamp[1]), 0.0, slope)
    with np.errstate(invalid="ignore", over="ignore"):
        decay = np.exp(step[..., None] * scan.a)
        gate = 1.0 if scan.z is None else scan.z * logistic(scan.z)
        found = []
        for of in (lambda x: x, lambda x: None if x is None else np.abs(x)):
            dy = None if scan.dy is None else of(scan.dy)
            g = None if dy is None else dy * of(np.asarray(gate))
            plain = _recur(
                decay, of(step), of(scan.a), of(scan.u), of(scan.b), of(scan.c), g, of(scan.d), of(scan.initial),
                of(scan.d_last), scan.spans,
            )  # fmt: skip
            found.append(_finished(plain, scan, of, gate, slope, dy))
    return found


def _finished(plain, scan, of, gate, slope, dy):
    whole = plain.pop("y")
    plain["y"] = whole * of(np.asarray(gate))
    if dy is None:
        return plain
    plain["ddelta"] = plain.pop("dstep") * slope
    plain["dbias"] = plain["ddelta"].sum((0, 1))
    if scan.z is not None:
        s = logistic(scan.z)
        plain["dz"] = dy * whole * (s * (1 + of(scan.z) * (1 - s)))
    return plain


def _recur(decay, step, rate, u, b, c, g, d, initial, d_last, spans):
    rows, tokens, channels, states = decay.shape
    y, h_before = np.zeros_like(u), np.zeros((rows, tokens, channels, states))
    last = np.zeros((len(spans), channels, states))
    names = ("du", "dstep", "db", "dc", "da", "dd")
    shapes = (u.shape, u.shape, decay.shape, decay.shape, (channels, states), (channels,))
    grads = {name: np.zeros(shape) for name, shape in zip(names, shapes)} | {"dinitial": np.zeros_like(last)}
    skip = 0.0 if d is None else d
    for s, row, begin, end in spans:
        h = np.zeros((channels, states)) if initial is None else initial[s].copy()
        for t in range(begin, end):
            h_before[row, t] = h
            h = decay[row, t] * h + (step[row, t] * u[row, t])[:, None] * b[row, t]
            y[row, t] = (h * c[row, t]).sum(-1) + (0 if d is None else d * u[row, t])
        last[s] = h
        if g is None:
            continue
        passed = np.zeros_like(h) if d_last is None else d_last[s].copy()
        for t in range(end - 1, begin - 1, -1):
            now = g[row, t][:, None]
            h = decay[row, t] * h_before[row, t] + (step[row, t] * u[row, t])[:, None] * b[row, t]
            dh = now * c[row, t] + passed
            product = decay[row, t] * h_before[row, t] * dh
            of_b = (b[row, t] * dh).sum(-1)
            grads["du"][row, t] = step[row, t] * of_b + skip * g[row, t]
            grads["dstep"][row, t] = u[row, t] * of_b + (rate * product).sum(-1)
            grads["da"] += step[row, t][:, None] * product
            grads["db"][row, t] = (step[row, t] * u[row, t])[:, None] * dh
            grads["dc"][row, t] = now * h
            grads["dd"] += u[row, t] * g[row, t]
            passed = decay[row, t] * dh
        grads["dinitial"][s] = passed
    return {"y": y, "last": last} | (grads if g is not None else {})


def grouped(x, groups):
    """Sums over the channels of each group, the last axis but one."""
    *shape, channels, states = x.shape
    return x.reshape(*shape, groups, channels // groups if groups else 0, states).sum(-2)


def headed(x, heads):
    """Sums over the channels of each head, the last axis."""
    *shape, channels = x.shape
    return x.reshape(*shape, heads, channels // heads if heads else 0).sum(-1)
