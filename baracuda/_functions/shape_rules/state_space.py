# SPDX-License-Identifier: Apache-2.0
"""Shape rules of state-space layers: sequences in a batch, or one after the other in one row, with offsets.

Channels precede tokens, or with time_first follow them. Operands of one row may lack the batch.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from baracuda._call.scalars import INT32_MAX, as_flag, as_real, exceeds
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, ViewAs, as_strided, check_shape, dense_as
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError
from baracuda.tensor import TensorRef

_F32_MAX = 3.4028234663852886e38


def _permuted(order: Sequence[int | None], view: TensorRef) -> TensorRef:
    """The view with axes in an order; None is a new axis of extent 1."""
    shape = tuple([1 if axis is None else view.shape[axis] for axis in order])
    return as_strided(view, shape, tuple([0 if axis is None else view.strides[axis] for axis in order]))


def _with_inner(inner: int, order: Sequence[int | None], view: TensorRef) -> TensorRef | None:
    """_permuted, if the axes from `inner` on are contiguous."""
    found = _permuted(order, view)
    step = 1
    for extent, stride in reversed(list(zip(found.shape[inner:], found.strides[inner:]))):
        if extent > 1 and stride != step:
            return None
        step *= extent
    return found


def _ordered(shape: Shape, order: Sequence[int | None]) -> Shape:
    return tuple([1 if axis is None else shape[axis] for axis in order])


def _dense(extents: Shape) -> ViewAs:
    return functools.partial(dense_as, extents)


def _refuse(name: str, have: Shape, expected: str) -> None:
    raise InvalidProblemError(f"{name} has shape {have}, expected {expected}")


def _sequences(shapes: Mapping[str, Shape], batch: Any) -> Any:
    """The number of sequences: that of offsets less one, or the batch."""
    if "cu_seqlens" not in shapes:
        return batch
    offsets = shapes["cu_seqlens"]
    if len(offsets) != 1 or not offsets[0]:
        _refuse("cu_seqlens", offsets, "(sequences + 1,)")
    if batch != 1:
        raise InvalidProblemError(f"cu_seqlens is given for a batch of {batch}, must be one row of tokens")
    return offsets[0] - 1


def _made(
    spec: Spec, shapes: Mapping[str, Shape], values: dict[str, Any], extents: dict[str, Shape],
    own: Mapping[str, Shape], views: Mapping[str, ViewAs],
) -> CallMeta:  # fmt: skip
    """The meta of a call; `own` has the caller's shapes of operands, where they are not those of C."""
    for name, value in values.items():
        if not isinstance(value, float) and exceeds(INT32_MAX, value):
            raise InvalidProblemError(f"{name} is {value}, must be <= {INT32_MAX}")
    known = {**extents, **own}
    for argument in spec.arrays:
        if argument.name in shapes:
            check_shape(argument.name, shapes[argument.name], known[argument.pointer])
    results = {out.pointer: known[out.pointer] for out in spec.outputs}
    whole = {name: views.get(name, _dense(shape)) for name, shape in extents.items()}
    return CallMeta(values, extents, results, op_views=whole)


def causal_conv(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """x is (batch, channels, tokens) or (batch, tokens, channels), without the batch for one row; a step of decoding
    may lack the tokens.
    """
    x, weight = shapes["x"], shapes["weight"]
    time_first = bool(as_flag("time_first", numbers.get("time_first", False)))
    is_step = "time_first" not in numbers and len(x) == 2
    if len(x) not in (2, 3):
        _refuse("x", x, "(batch, channels, tokens), or with time_first (batch, tokens, channels)")
    if len(weight) != 2:
        _refuse("weight", weight, "(channels, width)")
    order: tuple[int | None, ...] = (0, 1, 2) if len(x) == 3 else (0, 1, None) if is_step else (None, 0, 1)
    if time_first:
        order = (order[0], order[2], order[1])
    batch, channels, tokens = _ordered(x, order)
    if not weight[1]:
        _refuse("weight", weight, "(channels, width) with a width from 1 to 16")
    sequences, states = _sequences(shapes, batch), weight[1] - 1
    values = {"batch": batch, "channels": channels, "seqlen": tokens, "width": weight[1], "sequences": sequences}
    of_x, of_state = (batch, channels, tokens), (sequences, channels, states)
    extents: dict[str, Shape] = {
        "weight": (channels, weight[1]), "dweight": (channels, weight[1]), "bias": (channels,), "dbias": (channels,),
        "cu_seqlens": (sequences + 1,), **dict.fromkeys(("x", "y", "dy", "dx"), of_x),
        **dict.fromkeys(("initial_state", "final_state", "d_final_state", "d_initial_state"), of_state),
    }  # fmt: skip
    own = dict.fromkeys(("x", "y", "dy", "dx"), x)
    views: dict[str, ViewAs] = dict.fromkeys(own, functools.partial(_permuted, order))
    return _made(spec, shapes, values, extents, own, views)


def selective_scan(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """u is (batch, channels, tokens), b and c (batch, groups, states, tokens), or with time_first (batch, tokens,
    channels) and (batch, tokens, groups, states); without groups for one of them, and without the batch for one row.
    """
    u, a, b, c = (shapes[name] for name in "uabc")
    time_first = bool(as_flag("time_first", numbers["time_first"]))
    if len(u) not in (2, 3):
        _refuse("u", u, "(batch, channels, tokens), or with time_first (batch, tokens, channels)")
    if len(a) != 2:
        _refuse("a", a, "(channels, states)")
    first: tuple[int | None, ...] = (None,) if len(u) == 2 else (0,)
    at = len(u) - 2  # of the first axis behind the batch
    order = (*first, at, at + 1) if time_first else (*first, at + 1, at)
    batch, tokens, channels = _ordered(u, order)

    def of_groups(name: str, shape: Shape) -> tuple[int | None, ...]:
        if len(shape) not in (len(u), len(u) + 1):
            shown = "tokens, groups, states" if time_first else "groups, states, tokens"
            _refuse(name, shape, f"({'batch, ' * (len(u) == 3)}{shown}), or without groups")
        if len(shape) == len(u):
            return (*first, at, None, at + 1) if time_first else (*first, at + 1, None, at)
        return (*first, at, at + 1, at + 2) if time_first else (*first, at + 2, at, at + 1)

    orders = {"b": of_groups("b", b), "c": of_groups("c", c)}
    groups = _ordered(b, orders["b"])[2]
    sequences, states = _sequences(shapes, batch), a[1]
    if channels % groups if groups else channels:
        raise InvalidProblemError(f"b has shape {b}: {groups} groups do not divide {channels} channels")
    values = {
        "batch": batch,
        "seqlen": tokens,
        "dim": channels,
        "groups": groups,
        "dstate": states,
        "sequences": sequences,
    }
    of_u, of_b, of_state = (batch, tokens, channels), (batch, tokens, groups, states), (sequences, channels, states)
    of_channels = ("d_skip", "dd_skip", "delta_bias", "d_delta_bias")
    extents: dict[str, Shape] = {
        "a": (channels, states), "da": (channels, states), "cu_seqlens": (sequences + 1,),
        **dict.fromkeys(("u", "delta", "z", "y", "dy", "du", "d_delta", "dz"), of_u),
        **dict.fromkeys(("b", "c", "db", "dc"), of_b), **dict.fromkeys(of_channels, (channels,)),
        **dict.fromkeys(("initial_state", "last_state", "d_last_state", "d_initial_state"), of_state),
    }  # fmt: skip
    own = dict.fromkeys(("u", "delta", "z", "y", "dy", "du", "d_delta", "dz"), u)
    views: dict[str, ViewAs] = dict.fromkeys(own, functools.partial(_permuted, order))
    for name, shape in (("b", b), ("c", c)):
        if _ordered(shape, orders[name]) != of_b:
            shown = f"{groups} groups, {states} states, {tokens} tokens and a batch of {batch}"
            _refuse(name, shape, f"axes of {shown}")
        own |= {name: shape, f"d{name}": shape}
        views |= dict.fromkeys((name, f"d{name}"), functools.partial(_permuted, orders[name]))
    return _made(spec, shapes, values, extents, own, views)


def ssd(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """x is (batch, tokens, heads, head_dim), dt (batch, tokens, heads), b and c (batch, tokens, groups, states);
    without the batch for one row.
    """
    x, b = shapes["x"], shapes["b"]
    if len(x) not in (3, 4):
        _refuse("x", x, "(batch, tokens, heads, head_dim)")
    if len(b) != len(x):
        _refuse("b", b, f"({'batch, ' * (len(x) == 4)}tokens, groups, states)")
    first: tuple[int | None, ...] = (None, 0, 1, 2) if len(x) == 3 else (0, 1, 2, 3)
    (batch, tokens, heads, head_dim), (_, _, groups, states) = _ordered(x, first), _ordered(b, first)
    if heads % groups if groups else heads:
        raise InvalidProblemError(f"b has shape {b}: {groups} groups do not divide {heads} heads")
    sequences = _sequences(shapes, batch)
    low, high = numbers["dt_min"], numbers["dt_max"]
    values = {
        "batch": batch, "seqlen": tokens, "heads": heads, "head_dim": head_dim, "groups": groups, "state_dim": states,
        "sequences": sequences, "dt_min": -_F32_MAX if low is None else as_real("dt_min", low),
        "dt_max": _F32_MAX if high is None else as_real("dt_max", high),
    }  # fmt: skip
    of_x, of_dt, of_b = (batch, tokens, heads, head_dim), (batch, tokens, heads), (batch, tokens, groups, states)
    of_state = (sequences, heads, head_dim, states)
    extents: dict[str, Shape] = {
        "cu_seqlens": (sequences + 1,), **dict.fromkeys(("x", "z", "y", "dy", "dx", "dz"), of_x),
        **dict.fromkeys(("dt", "ddt"), of_dt), **dict.fromkeys(("b", "c", "db", "dc"), of_b),
        **dict.fromkeys(("a", "da", "d_skip", "dd_skip", "dt_bias", "ddt_bias"), (heads,)),
        **dict.fromkeys(("initial_state", "last_state", "d_last_state", "d_initial_state"), of_state),
    }  # fmt: skip
    lead = x[:-2]
    own: dict[str, Shape] = {
        **dict.fromkeys(("x", "z", "y", "dy", "dx", "dz"), x), **dict.fromkeys(("dt", "ddt"), (*lead, heads)),
        **dict.fromkeys(("b", "c", "db", "dc"), (*lead, groups, states)),
    }  # fmt: skip
    views: dict[str, ViewAs] = {
        name: functools.partial(_with_inner, 2, first[:3] if name in ("dt", "ddt") else first) for name in own
    }
    return _made(spec, shapes, values, extents, own, views)


def state_update(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """x is (batch, channels) and b (batch, states) or (batch, groups, states); or x is (batch, heads, head_dim) and b
    (batch, groups, states), and dt and the parameters are of heads, or of heads and channels.
    """
    x, state, dt, b = (shapes[name] for name in ("x", "state", "dt", "b"))
    if len(x) not in (2, 3):
        _refuse("x", x, "(batch, channels) or (batch, heads, head_dim)")
    if len(b) not in ((2, 3) if len(x) == 2 else (3,)):
        _refuse("b", b, "(batch, groups, states)")
    if len(state) != len(x) + 1:
        _refuse("state", state, f"{(*x, 'states')}")
    groups, states = 1 if len(b) == 2 else b[1], state[-1]
    heads, head_dim = (x[1], x[2]) if len(x) == 3 else (groups, x[1] // groups if groups else 0)
    if len(x) == 2 and heads * head_dim != x[1]:
        raise InvalidProblemError(f"b has shape {b}: {groups} groups do not divide {x[1]} channels")
    if len(x) == 3 and (heads % groups if groups else heads):
        raise InvalidProblemError(f"b has shape {b}: {groups} groups do not divide {heads} heads")
    per_head = len(x) == 3 and len(dt) == 2
    lead = x[1:2] if per_head else x[1:]  # axes of parameters
    rates = heads if per_head else heads * head_dim
    values = {
        "batch": x[0], "heads": heads, "head_dim": head_dim, "groups": groups, "dstate": states,
        "is_per_head": int(per_head),
    }  # fmt: skip
    of_x, of_b = (x[0], heads, head_dim), (x[0], groups, states)
    extents: dict[str, Shape] = {
        **dict.fromkeys(("x", "z", "y"), of_x), **dict.fromkeys(("state", "new_state"), (*of_x, states)),
        "dt": (x[0], rates), "a": (rates, 1 if per_head else states), **dict.fromkeys(("b", "c"), of_b),
        **dict.fromkeys(("d_skip", "dt_bias"), (rates,)),
    }  # fmt: skip
    own: dict[str, Shape] = {
        **dict.fromkeys(("x", "z", "y"), x), **dict.fromkeys(("state", "new_state"), (*x, states)),
        "dt": (x[0], *lead), "a": lead if per_head else (*lead, states),
        **dict.fromkeys(("b", "c"), (x[0], states) if len(b) == 2 else (x[0], groups, states)),
        **dict.fromkeys(("d_skip", "dt_bias"), lead),
    }  # fmt: skip
    return _made(spec, shapes, values, extents, own, {})
