# SPDX-License-Identifier: Apache-2.0
"""Gradients as formulas in a framework's own functions, so that they can be differentiated again, in either mode.

A formula takes `m`, the functions of a framework under the names below, then the arrays and numbers of the gradient,
and returns its results in order. 16-bit arrays are given as f32. Results may have the broadcast shape of dy; the caller
sums them to the shape of their operand. Saved statistics are differentiated as functions of the input.

m  exp log sin cos tan sinh cosh tanh sqrt erf ndtr digamma trigamma abs sign sigmoid floor trunc isnan copysign where
   stop        stop_gradient
   power       power(a, b)
   sum mean    along a tuple of axes, with keepdims
   halves      the two halves of an array along an axis
   concat      two arrays along an axis
   one_hot     one_hot(index, count, axis), f32, along a new axis
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

Formula = Callable[..., Any]

# --- elementwise: a result for each operand ---------------------------------------------------------------------------

_LN2, _LN10 = math.log(2), math.log(10)
_SQRT_2_PI, _CUBIC = math.sqrt(2 / math.pi), 0.044715


def _normal_pdf(m: Any, x: Any) -> Any:
    return m.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _gelu_slope(m: Any, x: Any) -> Any:
    return m.ndtr(x) + x * _normal_pdf(m, x)


def _gelu_tanh_slope(m: Any, x: Any) -> Any:
    t = m.tanh(_SQRT_2_PI * (x + _CUBIC * x * x * x))
    return (1 + t) / 2 + x * (1 - t * t) / 2 * _SQRT_2_PI * (1 + 3 * _CUBIC * x * x)


def _silu_slope(m: Any, x: Any) -> Any:
    s = m.sigmoid(x)
    return s * (1 + x * (1 - s))


def _mish_slope(m: Any, x: Any) -> Any:
    t = m.tanh(_softplus(m, x))
    return t + x * (1 - t * t) * m.sigmoid(x)


def _softplus(m: Any, x: Any) -> Any:
    return m.where(x > 0, x, 0 * x) + m.log(1 + m.exp(-m.abs(x)))


def _logit(m: Any, dy: Any, x: Any, eps: float) -> Any:
    found = dy / (x * (1 - x))
    return m.where((x >= eps) & (x <= 1 - eps), found, 0 * dy) if eps > 0 else found


def _pow(m: Any, dy: Any, a: Any, b: Any) -> Any:
    of_base = m.where(b == 0, 0 * dy, dy * b * m.power(a, b - 1))
    is_flat = (a == 0) & (b >= 0)
    positive = m.where(is_flat, 0 * a + 1, a)
    return of_base, m.where(is_flat, 0 * dy, dy * m.power(positive, b) * m.log(positive))


def _powi(m: Any, dy: Any, x: Any, n: int) -> Any:
    return 0 * dy if n == 0 else n * dy if n == 1 else n * dy * x ** (n - 1)


def _atan2(m: Any, dy: Any, a: Any, b: Any) -> Any:
    is_origin = (a == 0) & (b == 0)
    square = m.where(is_origin, 0 * a + 1, a * a + b * b)
    return dy * b / square, -dy * a / square


def _hypot(m: Any, dy: Any, a: Any, b: Any) -> Any:
    is_origin = (a == 0) & (b == 0)
    r = m.sqrt(m.where(is_origin, 0 * a + 1, a * a + b * b))
    return dy * a / r, dy * b / r


def _split_ties(m: Any, dy: Any, takes_a: Any, is_equal: Any) -> Any:
    """dy for the operand that was taken; equal operands get half each."""
    half = m.where(is_equal, dy / 2, 0 * dy)
    return m.where(takes_a, dy, half), m.where(takes_a | is_equal, half, dy)


def _minimum(m: Any, dy: Any, a: Any, b: Any) -> Any:
    is_nan = m.isnan(a) | m.isnan(b)
    da, db = _split_ties(m, dy, a < b, a == b)
    return m.where(is_nan, dy, da), m.where(is_nan, dy, db)


def _fmin(m: Any, dy: Any, a: Any, b: Any) -> Any:
    return _split_ties(m, dy, (a < b) | (m.isnan(b) & ~m.isnan(a)), (a == b) | (m.isnan(a) & m.isnan(b)))


def _clamp(m: Any, dy: Any, x: Any, low: Any, high: Any) -> Any:
    is_above = (x > high) | (low > high)
    is_below = (x < low) & ~is_above
    zero = 0 * dy
    return (m.where(is_above | is_below, zero, dy), m.where(is_below, dy, zero), m.where(is_above, dy, zero))


_ELEMENTWISE: dict[str, Formula] = {
    "neg": lambda m, dy: -dy,
    "abs": lambda m, dy, x: dy * m.sign(x),
    **dict.fromkeys(("sign", "floor", "ceil", "round", "trunc", "step"), lambda m, dy: 0 * dy),
    "frac": lambda m, dy: dy,
    "reciprocal": lambda m, dy, x: -dy / (x * x),
    "square": lambda m, dy, x: 2 * dy * x,
    "cube": lambda m, dy, x: 3 * dy * x * x,
    "sqrt": lambda m, dy, y: dy / (2 * y),
    "rsqrt": lambda m, dy, y: -y * y * y * dy / 2,
    "cbrt": lambda m, dy, y: dy / (3 * y * y),
    "exp": lambda m, dy, y: dy * y,
    "exp2": lambda m, dy, y: dy * y * _LN2,
    "expm1": lambda m, dy, y: dy * (y + 1),
    "log": lambda m, dy, x: dy / x,
    "log2": lambda m, dy, x: dy / (x * _LN2),
    "log10": lambda m, dy, x: dy / (x * _LN10),
    "log1p": lambda m, dy, x: dy / (1 + x),
    "sin": lambda m, dy, x: dy * m.cos(x),
    "cos": lambda m, dy, x: -dy * m.sin(x),
    "tan": lambda m, dy, x: dy / (m.cos(x) * m.cos(x)),
    "asin": lambda m, dy, x: dy / m.sqrt(1 - x * x),
    "acos": lambda m, dy, x: -dy / m.sqrt(1 - x * x),
    "atan": lambda m, dy, x: dy / (1 + x * x),
    "sinh": lambda m, dy, x: dy * m.cosh(x),
    "cosh": lambda m, dy, x: dy * m.sinh(x),
    "tanh": lambda m, dy, y: dy * (1 - y * y),
    "asinh": lambda m, dy, x: dy / m.sqrt(1 + x * x),
    "acosh": lambda m, dy, x: dy / m.sqrt(x * x - 1),
    "atanh": lambda m, dy, x: dy / (1 - x * x),
    "erf": lambda m, dy, x: dy * m.exp(-x * x) * (2 / math.sqrt(math.pi)),
    "erfc": lambda m, dy, x: -dy * m.exp(-x * x) * (2 / math.sqrt(math.pi)),
    "erfinv": lambda m, dy, y: dy * m.exp(y * y) * (math.sqrt(math.pi) / 2),
    "lgamma": lambda m, dy, x: dy * m.digamma(x),
    "digamma": lambda m, dy, x: dy * m.trigamma(x),
    **dict.fromkeys(("relu", "relu_propagating"), lambda m, dy, x: m.where(x > 0, dy, 0 * dy)),
    **dict.fromkeys(("gelu", "gelu_erf"), lambda m, dy, x: dy * _gelu_slope(m, x)),
    "gelu_tanh": lambda m, dy, x: dy * _gelu_tanh_slope(m, x),
    "silu": lambda m, dy, x: dy * _silu_slope(m, x),
    "mish": lambda m, dy, x: dy * _mish_slope(m, x),
    "sigmoid": lambda m, dy, y: dy * y * (1 - y),
    "logit": _logit,
    "softplus": lambda m, dy, x, beta, threshold: m.where(beta * x > threshold, dy, dy * m.sigmoid(beta * x)),
    "softsign": lambda m, dy, x: dy / ((1 + m.abs(x)) * (1 + m.abs(x))),
    "tanhshrink": lambda m, dy, x: dy * m.tanh(x) * m.tanh(x),
    "relu6": lambda m, dy, x: m.where((x > 0) & (x < 6), dy, 0 * dy),
    "hardswish": lambda m, dy, x: m.where(x <= -3, 0 * dy, m.where(x >= 3, dy, dy * (2 * x + 3) / 6)),
    "hardsigmoid": lambda m, dy, x: m.where((x > -3) & (x < 3), dy / 6, 0 * dy),
    "hardtanh": lambda m, dy, x, min_val, max_val: m.where((x > min_val) & (x < max_val), dy, 0 * dy),
    "selu": lambda m, dy, x, alpha, scale: m.where(x > 0, scale * dy, scale * alpha * dy * m.exp(-m.abs(x))),
    "elu": lambda m, dy, x, alpha: m.where(x > 0, dy, alpha * dy * m.exp(-m.abs(x))),
    "leaky_relu": lambda m, dy, x, negative_slope: m.where(x > 0, dy, negative_slope * dy),
    **dict.fromkeys(("hardshrink", "softshrink"), lambda m, dy, x, lambd: m.where(m.abs(x) > lambd, dy, 0 * dy)),
    "threshold": lambda m, dy, x, threshold, value: m.where(x > threshold, dy, 0 * dy),
    "powf": lambda m, dy, x, exponent: dy * exponent * m.power(x, exponent - 1),
    "powi": _powi,
    "add": lambda m, dy, a, b: (dy, dy),
    "sub": lambda m, dy, a, b: (dy, -dy),
    "mul": lambda m, dy, a, b: (dy * b, dy * a),
    "div": lambda m, dy, a, b: (dy / b, -dy * a / (b * b)),
    "pow": _pow,
    "atan2": _atan2,
    "hypot": _hypot,
    "copysign": lambda m, dy, a, b: (dy * m.sign(a) * m.copysign(0 * b + 1, b), 0 * dy),
    "remainder": lambda m, dy, a, b: (dy, -dy * m.floor(a / b)),
    "fmod": lambda m, dy, a, b: (dy, -dy * m.trunc(a / b)),
    "minimum": _minimum,
    "maximum": lambda m, dy, a, b: _minimum(m, dy, -a, -b),
    "fmin": _fmin,
    "fmax": lambda m, dy, a, b: _fmin(m, dy, -a, -b),
    "ldexp": lambda m, dy, a, b: dy * m.power(0 * dy + 2, 0 * dy + b),
    "lerp": lambda m, dy, a, b, weight: (dy * (1 - weight), dy * weight),
    "where": lambda m, dy, cond, a, b: (m.where(cond, dy, 0 * dy), m.where(cond, 0 * dy, dy)),
    "masked_fill": lambda m, dy, mask: m.where(mask, 0 * dy, dy),
    "clamp": _clamp,
    "fma": lambda m, dy, a, b, c: (dy * b, dy * a, dy),
    "addcmul": lambda m, dy, a, b, c, value: (dy, value * c * dy, value * b * dy),
    "addcdiv": lambda m, dy, a, b, c, value: (dy, value * dy / c, -value * b * dy / (c * c)),
}


# --- gated units, softmax and reductions ------------------------------------------------------------------------------


def _gated(gate: Callable[[Any, Any], Any], slope: Callable[[Any, Any], Any]) -> Formula:
    """Gradient of a gate(b), where a and b are the halves of x along axis."""

    def formula(m: Any, dy: Any, x: Any, axis: int) -> Any:
        a, b = m.halves(x, axis)
        return m.concat(dy * gate(m, b), dy * a * slope(m, b), axis)

    return formula


def _sigmoid_slope(m: Any, x: Any) -> Any:
    return m.sigmoid(x) * (1 - m.sigmoid(x))


def _prelu(m: Any, dy: Any, x: Any, weight: Any, axis: int) -> Any:
    rank = len(x.shape)
    is_single = len(weight.shape) == 0 or weight.shape[0] == 1
    shape = [1] * rank if is_single else [-1 if a == axis % rank else 1 for a in range(rank)]
    of_weight = m.where(x > 0, 0 * dy, dy * x)
    if not is_single:
        of_weight = m.sum(of_weight, tuple([a for a in range(rank) if a != axis % rank]))
    return m.where(x > 0, dy, dy * weight.reshape(shape)), _in_shape_of(m, of_weight, weight)


def _in_shape_of(m: Any, gradient: Any, like: Any) -> Any:
    """The gradient in the shape of `like`, summed over all axes if `like` has one element."""
    if math.prod(like.shape) == 1:
        gradient = m.sum(gradient, tuple(range(len(gradient.shape))))
    return gradient.reshape(tuple(like.shape))


def _softmax(m: Any, dy: Any, y: Any, axis: int, scale: float = 1.0, tau: float = 1.0) -> Any:
    return y * (dy - m.sum(dy * y, (axis,))) * (scale / tau)


def _log_softmax(m: Any, dy: Any, y: Any, axis: int, scale: float = 1.0) -> Any:
    is_masked = y == -math.inf
    dy = m.where(is_masked, 0 * dy, dy)
    return m.where(is_masked, 0 * dy, scale * (dy - m.exp(y) * m.sum(dy, (axis,))))


def _axes(axis: Any, rank: int) -> tuple[int, ...]:
    """Sorted axes in [0, rank); None stands for all of them."""
    several = range(rank) if axis is None else [axis] if isinstance(axis, int) else axis
    return tuple(sorted({a % rank for a in several}))


def _reduced(of: Callable[..., Any], has_result: bool) -> Formula:
    """Gradient of a reduction; `of` takes dy and y with reduced axes of extent 1."""

    def formula(m: Any, dy: Any, x: Any, *rest: Any, axis: Any, keepdims: bool, **numbers: Any) -> Any:
        rank = len(x.shape)
        axes = _axes(axis, rank)
        shape = [1 if a in axes else x.shape[a] for a in range(rank)]
        count = math.prod([x.shape[a] for a in axes])
        y = rest[0].reshape(shape) if has_result else None
        return of(m, dy.reshape(shape), x, y, axes, count, **numbers)

    return formula


def _of_norm2(m: Any, dy: Any, x: Any, y: Any, axes: Sequence[int], count: Any) -> Any:
    return dy * x / m.where(y == 0, y + 1, y)


def _of_variance(m: Any, dy: Any, x: Any, y: Any, axes: Any, count: Any, correction: int) -> Any:
    return dy * 2 * (x - m.mean(x, axes)) / (count - correction)


def _of_deviation(m: Any, dy: Any, x: Any, y: Any, axes: Any, count: Any, correction: int) -> Any:
    d = x - m.mean(x, axes)
    return dy * d / (m.sqrt(m.sum(d * d, axes) / (count - correction)) * (count - correction))


# --- norms ------------------------------------------------------------------------------------------------------------


def _inverse_std(m: Any, square: Any, saved: Any) -> Any:
    """1 / sqrt(square + eps), equal to `saved`; eps is recovered from both as a constant."""
    return 1 / m.sqrt(square + m.stop(1 / (saved * saved) - square))


def _centred(m: Any, dy: Any, x: Any, inverse: Any, weight: Any, axes: Sequence[int]) -> tuple[Any, Any]:
    """(dx, normalised x) of a norm by mean and variance along axes."""
    d = x - m.mean(x, axes)
    s = _inverse_std(m, m.mean(d * d, axes), inverse)
    normed, g = d * s, dy if weight is None else dy * weight
    return s * (g - m.mean(g, axes) - normed * m.mean(g * normed, axes)), normed


def _rms_scaled(m: Any, dy: Any, x: Any, r: Any, weight: Any, axes: Sequence[int]) -> tuple[Any, Any]:
    """(dx, normalised x) of a norm by the root mean square along axes."""
    s = _inverse_std(m, m.mean(x * x, axes), 1 / r)
    normed, g = x * s, dy if weight is None else dy * weight
    return s * (g - normed * m.mean(g * normed, axes)), normed


def _row_norm(has_mean: bool, has_sum: bool = False) -> Formula:
    """layer_norm and rms_norm; with has_sum those of x + residual, where the gradient of the sum comes in too."""

    def formula(m: Any, dy: Any, x: Any, *rest: Any, axis: Any, gamma_offset: float = 0.0) -> Any:
        saved, gamma, dsum = rest[has_mean], rest[1 + has_mean], rest[-1] if has_sum else None
        rank = len(x.shape)
        axes = _axes(axis, rank)
        others = tuple([a for a in range(rank) if a not in axes])
        shape = [x.shape[a] if a in axes else 1 for a in range(rank)]
        weight = None if gamma is None else gamma.reshape(shape) + gamma_offset
        dx, normed = (_centred if has_mean else _rms_scaled)(m, dy, x, saved, weight, axes)
        row = tuple([x.shape[a] for a in axes])
        of_row = [m.sum(each, others).reshape(row) for each in ((dy * normed, dy) if has_mean else (dy * normed,))]
        return (dx if dsum is None else dx + dsum, *of_row)

    return formula


def _channel_norm(by_group: bool, is_last: bool = False) -> Formula:
    """Group norm (statistics of channel groups of an item), or batch norm (statistics of channels over all items)."""

    def formula(
        m: Any, dy: Any, x: Any, mean: Any, inverse: Any, gamma: Any, num_groups: int = 0, channels_last: bool = False
    ) -> Any:
        rank, last = len(x.shape), is_last or channels_last
        channel = rank - 1 if last else 1
        count = x.shape[channel]
        inner = [x.shape[a] for a in range(1, rank) if a != channel]
        weight = None if gamma is None else gamma.reshape([count if a == channel else 1 for a in range(rank)])
        others = tuple([a for a in range(rank) if a != channel])
        if not by_group:
            shape = [count if a == channel else 1 for a in range(rank)]
            dx, normed = _centred(m, dy, x, inverse.reshape(shape), weight, others)
        else:  # shape (N, groups, channels / group, spatial), or with the channels last
            groups = num_groups or count
            split = [groups, count // groups]
            whole = [x.shape[0], *([*inner, *split] if last else [*split, *inner])]
            first = len(whole) - 2 if last else 1
            axes = tuple([a for a in range(1, len(whole)) if a != first])
            saved = inverse.reshape([x.shape[0] if a == 0 else groups if a == first else 1 for a in range(len(whole))])
            g = dy if weight is None else dy * weight
            dx, normed = _centred(m, g.reshape(whole), x.reshape(whole), saved, None, axes)
            dx, normed = dx.reshape(tuple(x.shape)), normed.reshape(tuple(x.shape))
        return dx, m.sum(dy * normed, others).reshape((count,)), m.sum(dy, others).reshape((count,))

    return formula


def _l2_normalize(m: Any, dy: Any, x: Any, axis: Any, eps: float) -> Any:
    axes = _axes(axis, len(x.shape))
    square = m.sum(x * x, axes)
    is_small = square <= eps * eps
    r = m.sqrt(m.where(is_small, 0 * square + 1, square))
    y = x / r
    return m.where(is_small, dy / eps if eps else 0 * dy, (dy - y * m.sum(dy * y, axes)) / r)


# --- losses -----------------------------------------------------------------------------------------------------------


def _per_summand(dy: Any, reduction: Any, count: Any) -> Any:
    """dy of each summand."""
    return dy / count if str(reduction).rpartition(".")[2].lower() == "mean" else dy


def _of_difference(slope: Callable[..., Any]) -> Formula:
    def formula(m: Any, dy: Any, x: Any, target: Any, reduction: Any, **numbers: Any) -> Any:
        return _per_summand(dy, reduction, max(math.prod(x.shape), 1)) * slope(m, x - target, **numbers)

    return formula


def _of_target(formula: Formula) -> Formula:
    """The gradient of the target of a loss of x - target, from that of x."""
    return lambda m, *given, **numbers: -formula(m, *given, **numbers)


def _smooth_l1(m: Any, d: Any, beta: float) -> Any:
    return m.where(m.abs(d) < beta, d / beta, m.sign(d)) if beta else m.sign(d)


def _logits(m: Any, dy: Any, x: Any, target: Any, weight: Any, pos_weight: Any, reduction: Any) -> Any:
    positive = 1 if pos_weight is None else pos_weight
    found = (1 + (positive - 1) * target) * m.sigmoid(x) - positive * target
    return _per_summand(dy, reduction, max(math.prod(x.shape), 1)) * found * (1 if weight is None else weight)


def _logits_target(m: Any, dy: Any, x: Any, weight: Any, pos_weight: Any, reduction: Any) -> Any:
    positive = 1 if pos_weight is None else pos_weight
    found = (positive - 1) * _softplus(m, -x) - x
    return _per_summand(dy, reduction, max(math.prod(x.shape), 1)) * found * (1 if weight is None else weight)


def _kl_scale(dy: Any, reduction: Any, target: Any) -> Any:
    """dy of each summand; "batchmean" divides by the first extent."""
    if str(reduction).rpartition(".")[2].lower() == "batchmean":
        return dy / max(target.shape[0], 1)
    return _per_summand(dy, reduction, max(math.prod(target.shape), 1))


def _kl_div(m: Any, dy: Any, target: Any, reduction: Any, log_target: bool) -> Any:
    return -(m.exp(target) if log_target else target) * _kl_scale(dy, reduction, target)


def _kl_div_target(m: Any, dy: Any, x: Any, target: Any, reduction: Any, log_target: bool) -> Any:
    scale = _kl_scale(dy, reduction, target)
    if log_target:
        return m.exp(target) * (target + 1 - x) * scale
    is_positive = target > 0
    return m.where(is_positive, m.log(m.where(is_positive, target, 0 * target + 1)) + 1 - x, 0 * x) * scale


def _cross_entropy(
    m: Any, dy: Any, x: Any, target: Any, weight: Any, divisor: Any, reduction: Any, ignore_index: int,
    label_smoothing: float, z_loss: float,
) -> Any:  # fmt: skip
    count, rank = x.shape[1], len(x.shape)
    counts = (target != ignore_index) & (target >= 0) & (target < count)
    chosen = m.one_hot(target, count, 1)
    w = 1 if weight is None else weight.reshape([count if a == 1 else 1 for a in range(rank)])
    top = m.stop(m.max(x, 1))
    e = m.exp(x - top)
    whole = m.sum(e, (1,))
    p = e / whole
    of_target = m.sum(chosen * w, (1,))
    all_weights = count if weight is None else m.sum(w, (1,))
    share = label_smoothing / count
    found = (1 - label_smoothing) * of_target * (p - chosen) + share * (p * all_weights - w)
    if z_loss:
        found = found + 2 * z_loss * (m.log(whole) + top) * p
    name = str(reduction).rpartition(".")[2].lower()
    s = dy.reshape(tuple(target.shape))[:, None] if name == "none" else dy / divisor if name == "mean" else dy
    return m.where(counts[:, None], found * s, 0 * found)


# --- the table --------------------------------------------------------------------------------------------------------

_NOT_ELEMENTWISE: dict[str, Formula] = {
    "glu": _gated(lambda m, b: m.sigmoid(b), _sigmoid_slope),
    "reglu": _gated(lambda m, b: m.where(b > 0, b, 0 * b), lambda m, b: m.where(b > 0, 0 * b + 1, 0 * b)),
    "swiglu": _gated(lambda m, b: b * m.sigmoid(b), _silu_slope),
    "geglu": _gated(lambda m, b: b * m.ndtr(b), _gelu_slope),
    "prelu": _prelu,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "softmax_to_f32": lambda m, dy, y, axis, dtype: _softmax(m, dy, y, axis),
    "log_softmax_to_f32": lambda m, dy, y, axis, dtype: _log_softmax(m, dy, y, axis),
    "masked_softmax": _softmax,
    "masked_log_softmax": _log_softmax,
    "gumbel_softmax": _softmax,
    "logsumexp": _reduced(lambda m, dy, x, y, axes, count: dy * m.exp(x - y), True),
    "norm2": _reduced(_of_norm2, True),
    "var": _reduced(_of_variance, False),
    "std": _reduced(_of_deviation, False),
    "layer_norm": _row_norm(True),
    "rms_norm": _row_norm(False),
    "add_layer_norm": _row_norm(True, True),
    "add_rms_norm": _row_norm(False, True),
    "l2_normalize": _l2_normalize,
    "batch_norm": _channel_norm(False),
    "batch_norm_training": _channel_norm(False),
    **dict.fromkeys(("group_norm", "group_norm_wide", "instance_norm", "instance_norm_wide"), _channel_norm(True)),
    **dict.fromkeys(("group_norm_channels_last", "instance_norm_channels_last"), _channel_norm(True, True)),
    "mse_loss": _of_difference(lambda m, d: 2 * d),
    "l1_loss": _of_difference(lambda m, d: m.sign(d)),
    "huber_loss": _of_difference(lambda m, d, delta: m.where(m.abs(d) < delta, d, delta * m.sign(d))),
    "smooth_l1_loss": _of_difference(_smooth_l1),
    "kl_div": _kl_div,
    "binary_cross_entropy_with_logits": _logits,
    "cross_entropy": _cross_entropy,
}

# Name of a gradient -> its formula.
FORMULAS: dict[str, Formula] = {f"{name}_backward": each for name, each in {**_ELEMENTWISE, **_NOT_ELEMENTWISE}.items()}
FORMULAS |= {
    f"{name}_target_backward": _of_target(FORMULAS[f"{name}_backward"])
    for name in ("mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss")
}
FORMULAS["binary_cross_entropy_with_logits_target_backward"] = _logits_target
FORMULAS["kl_div_target_backward"] = _kl_div_target
