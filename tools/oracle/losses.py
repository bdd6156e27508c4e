"""Losses with a term for each element, in float64: what tests and benchmark hold the kernels to."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

Terms = tuple[np.ndarray, np.ndarray]  # values, and the magnitudes of what was added or cancelled in each


@dataclasses.dataclass(frozen=True)
class Loss:
    """One loss.

    inputs     names, in C's order; `integers` of them are i64
    term       (inputs..., parameter) -> Terms
    slope      (inputs..., parameter) -> Terms of each gradient, which is that times dy
    gradients  their names
    reads      the inputs that C's gradient takes; empty: all
    parameter  its name, and values to try
    domain     of an input, where it is not all reals: "probability" or "positive"
    """

    inputs: tuple[str, ...]
    term: Callable[..., Terms]
    slope: Callable[..., tuple[Terms, ...]]
    gradients: tuple[str, ...] = ("dpred",)
    reads: tuple[str, ...] = ()
    parameter: str = ""
    values: tuple[float, ...] = ()
    integers: tuple[str, ...] = ()
    domain: dict[str, str] = dataclasses.field(default_factory=dict)


def whole(value: Any) -> Terms:
    """Of one product: its own magnitude."""
    return np.asarray(value), np.abs(value)


def parted(*parts: Any) -> Terms:
    """Of a sum."""
    return sum(parts[1:], start=np.asarray(parts[0])), sum((np.abs(p) for p in parts), start=np.zeros(1))


def without(condition: Any, value: Any, other: Any = 0.0) -> np.ndarray:
    return np.where(condition, other, value)


def sign(d: np.ndarray) -> np.ndarray:
    return (d > 0).astype(np.float64) - (d < 0)


def sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1 + e)


def bent(square: float, bound: float, slope: float, d: np.ndarray) -> np.ndarray:
    """square d^2 below the bound, a straight line of the slope beyond that continues it."""
    size = np.abs(d)
    return np.where(size >= bound, slope * (size - bound / 2), square * d * d)


def smooth_l1(p: np.ndarray, t: np.ndarray, beta: float) -> Terms:
    return whole(bent(0.5 / beta if beta else 0.0, beta, 1.0, p - t))


def bce(p: np.ndarray, t: np.ndarray) -> Terms:
    one, other = (np.maximum(np.log(p), -100), np.maximum(np.log1p(-p), -100))
    value, magnitude = parted(-t * one, (t - 1) * other)
    return value, magnitude + 1e-3


def logits(x: np.ndarray, t: np.ndarray) -> Terms:
    return parted(x * np.where(x > 0, 1 - t, -t), np.log1p(np.exp(-np.abs(x))))


def kl_div(x: np.ndarray, t: np.ndarray) -> Terms:
    _, magnitude = parted(t * np.log(t), -t * x)
    value = t * (np.log(t) - x)
    return without(~(t > 0), value), without(~(t > 0), magnitude)


def poisson(x: np.ndarray, t: np.ndarray, flag: int) -> Terms:
    if flag:
        return parted(np.exp(x), -without(t == 0, t * x))
    return parted(x, -without(t == 0, t * np.log(x)))


def poisson_slope(x: np.ndarray, t: np.ndarray, flag: int) -> tuple[Terms]:
    return (parted(np.exp(x), -t) if flag else parted(np.ones_like(x), -without(t == 0, t / x)),)


def variance(v: np.ndarray, eps: float) -> np.ndarray:
    return np.where(v > eps, v, eps)


def gaussian(x: np.ndarray, t: np.ndarray, v: np.ndarray, eps: float) -> Terms:
    v = variance(v, eps)
    return parted(0.5 * np.log(v), 0.5 * (x - t) ** 2 / v)


def ranking(x1: np.ndarray, x2: np.ndarray, t: np.ndarray, margin: float) -> Terms:
    value, magnitude = parted(margin, -t * (x1 - x2))
    return without(value < 0, value), magnitude


def ranking_slope(x1: np.ndarray, x2: np.ndarray, t: np.ndarray, margin: float) -> tuple[Terms, Terms]:
    slope = np.where(margin - t * (x1 - x2) > 0, t, 0.0)
    return whole(-slope), whole(slope)


def hinge(x: np.ndarray, t: np.ndarray, margin: float) -> Terms:
    return np.where(t == 1, x, without(margin < x, margin - x)), np.abs(x) + abs(margin)


PAIR = ("pred", "target")
LOSSES = {
    "mse": Loss(PAIR, lambda p, t: whole((p - t) ** 2), lambda p, t: (whole(2 * (p - t)),)),
    "l1": Loss(PAIR, lambda p, t: whole(np.abs(p - t)), lambda p, t: (whole(sign(p - t)),)),
    "smooth_l1": Loss(
        PAIR, smooth_l1,
        lambda p, t, b: (whole(np.where(np.abs(p - t) >= b, sign(p - t), (p - t) / (b or 1.0))),),
        parameter="param", values=(1.0, 0.25, 3.0, 0.0),
    ),
    "huber": Loss(
        PAIR, lambda p, t, b: whole(bent(0.5, b, b, p - t)),
        lambda p, t, b: (whole(np.where(np.abs(p - t) >= b, b * sign(p - t), p - t)),),
        parameter="param", values=(1.0, 0.25, 3.0),
    ),
    "bce": Loss(
        PAIR, bce, lambda p, t: (whole((p - t) / np.maximum((1 - p) * p, 1e-12)),),
        domain={"pred": "probability", "target": "probability"},
    ),
    "bce_with_logits": Loss(
        ("logits", "target"), logits, lambda x, t: (parted(sigmoid(x), -t),), domain={"target": "probability"},
    ),
    "kl_div": Loss(
        PAIR, kl_div, lambda t: (whole(np.where(t > 0, -t, 0.0)),), gradients=("dinput",), reads=("target",),
    ),
    "poisson_nll": Loss(
        ("input", "target"), poisson, poisson_slope, gradients=("dinput",), parameter="log_input_flag", values=(1, 0),
        domain={"input": "positive"},
    ),
    "gaussian_nll": Loss(
        ("input", "target", "var"), gaussian,
        lambda x, t, v, eps: (whole((x - t) / variance(v, eps)),),
        gradients=("dinput",), parameter="eps", values=(1e-6, 0.5), domain={"var": "positive"},
    ),
    "margin_ranking": Loss(
        ("x1", "x2", "t"), ranking, ranking_slope, gradients=("dx1", "dx2"), parameter="margin", values=(0.5, 0.0),
    ),
    "hinge_embedding": Loss(
        ("input", "target"), hinge,
        lambda x, t, margin: (whole(np.where(t == 1, 1.0, np.where(margin > x, -1.0, 0.0))),),
        gradients=("dinput",), parameter="margin", values=(1.0, 0.25), integers=("target",),
    ),
}  # fmt: skip
