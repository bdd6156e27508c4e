# SPDX-License-Identifier: Apache-2.0
"""Gradients of sdpa from its probabilities, and of flash_sdpa from lse of T."""

import numpy as np

from tools.oracle.numerics import round_to

from ...model import Bad, Case, Expected, Idle, Problem
from ..oracle import backward, forward
from .dense import (
    EXTENTS,
    SHAPES,
    VIEWS,
    bad_calls,
    both,
    extents_of,
    rules_of,
    scalars_of,
    sdpa,
    sdpa_reference,
    steps_of,
    values_of,
)

OPERANDS = ("q", "k", "v", "attn", "dy", "dscores_ws", "dQ", "dK", "dV")
GRADIENTS = ("dQ", "dK", "dV")
LIKE = {"dQ": "q", "dK": "k", "dV": "v", "dy": "y"}


# --- from probabilities ----------------------------------------------------------------------------------------------


def from_weights(draw, shape, **scalars):
    saved = sdpa(draw, shape, **scalars)
    e = extents_of(shape)
    arrays = {name: saved.arrays[name] for name in "qkv"}
    arrays["attn"] = draw.array(round_to(sdpa_reference(saved)["attn"].value, draw.dtype))
    arrays["dy"] = draw.floats(e["y"])
    arrays["dscores_ws"] = draw.output(shape[:4])
    arrays |= {name: draw.output(e[LIKE[name]]) for name in GRADIENTS}
    return Problem({n: saved.scalars[n] for n in (*EXTENTS, "scale")}, arrays)


def from_weights_reference(problem):
    """dA and dS are rounded to T: an error of eps(T) of each of them."""
    q, k, v, p, dy = values_of(problem, "q", "k", "v", "attn", "dy")
    scale = float(np.float32(problem.scalars["scale"]))
    da, da_size = dy @ v.swapaxes(2, 3), np.abs(dy) @ np.abs(v).swapaxes(2, 3)
    dots, dots_size = (p * da).sum(-1, keepdims=True), (p * da_size).sum(-1, keepdims=True)
    ds, ds_size = p * (da - dots), p * (da_size + dots_size)
    k_len, q_len = k.shape[2], q.shape[2]

    def expected(left, size, right, factor, count):
        magnitude = size @ np.abs(right) * abs(factor)
        return Expected(left @ right * factor, np.float64(count + v.shape[-1]), magnitude, 0 * magnitude)

    transposed, transposed_size = ds.swapaxes(2, 3), ds_size.swapaxes(2, 3)
    found = {
        "dscores_ws": Expected(ds, np.float64(v.shape[-1] + k_len), ds_size, 0 * ds_size),
        "dQ": expected(ds, ds_size, k, scale, k_len),
        "dK": expected(transposed, transposed_size, q, scale, q_len),
        "dV": expected(p.swapaxes(2, 3), np.abs(p).swapaxes(2, 3), dy, 1.0, q_len),
    }
    for name in ("dK", "dV"):
        strides = problem.host.get(f"stride_{LIKE[name]}")
        if strides and strides[1] == 0:
            found[name] = added(found[name], problem.arrays[name], problem.host[f"stride_{name}"][1] == 0)
    return found


def added(gradient, array, sums):
    """The gradient added to what is there, over all heads where they share it."""
    value, size = gradient.value, gradient.magnitude
    if sums:
        value, size = (np.broadcast_to(x.sum(1, keepdims=True), x.shape) for x in (value, size))
    before = array.values.astype(np.float64)
    return Expected(before + value, gradient.count * (value.shape[1] if sums else 1), np.abs(before) + size, 0 * size)


GRADIENT_VIEWS = {
    name: view | {"dy": view.get("y", {}), "dQ": {k: v for k, v in view.get("q", {}).items() if k != "shared"}}
    for name, view in VIEWS.items()
}


def strided(draw, shape, view="plain", sums=False, **options):
    problem = from_weights(draw, shape, **options)
    layouts = GRADIENT_VIEWS[view]
    for name in ("q", "k", "v", "dy", *GRADIENTS):
        array = problem.arrays[name]
        layout = layouts.get(name, {})
        is_shared = name in ("dK", "dV") and 1 in layouts.get(LIKE[name], {}).get("shared", ())
        if is_shared and sums:
            layout = {"shared": (1,)}
        steps = steps_of(array.shape, **layout)
        problem.host[f"stride_{name}"] = steps
        if array.values is not None or name in ("dK", "dV"):
            values = array.values if array.values is not None else draw.floats(array.shape).values
            problem.arrays[name] = draw.array(values, array.dtype, (*steps, 1))
        else:
            problem.arrays[name] = draw.output(array.shape, (*steps, 1))
    return problem


def strided_problems():
    chosen = ("one", "small", "around_tile", "more_queries", "odd", "no_keys", "large")
    table = {name: lambda d, s=SHAPES[name]: strided(d, s) for name in chosen}
    for view in VIEWS:
        table[view] = lambda d, v=view: strided(d, (2, 3, 20, 35, 16, 16), v)
        table[f"{view}_causal"] = lambda d, v=view: strided(d, (3, 2, 35, 20, 24, 24), v, is_causal=1)
    for view in ("shared_head", "shared_keys_only", "shared_batch"):
        table[f"{view}_summed"] = lambda d, v=view: strided(d, (2, 3, 20, 35, 16, 16), v, True)
    return table


STRIDES = tuple(f"stride_{name}" for name in ("q", "k", "v", "dy", *GRADIENTS))
STRIDED_BAD = (
    *(Bad(f"no_{name}", 2, rf"{name} is NULL", host={name: None}, can=2) for name in STRIDES),
    Bad("far_stride", 2, rf"stride_v\[0\] is {2**60}", host={"stride_v": (2**60, 64, 8)}, can=2),
    Bad("one_place", 2, r"stride_dQ\[2\] is 0, but an output has 5 elements", host={"stride_dQ": (120, 40, 0)}, can=2),
    Bad("shared_gradient", 2, r"stride_dK\[1\] is 0, but an output has 3", host={"stride_dK": (168, 0, 8)}, can=2),
)

# --- from lse --------------------------------------------------------------------------------------------------------

FLASH = ("q", "k", "v", "y", "lse", "dy", "d_ws", *GRADIENTS)


def from_lse(draw, shape, **scalars):
    e = extents_of(shape)
    arrays = {name: draw.floats(e[name]) for name in "qkv"}
    problem = Problem(scalars_of(shape, **scalars), arrays)
    saved = forward(*values_of(problem, "q", "k", "v"), rules_of(problem))
    arrays["y"], arrays["lse"] = (draw.array(round_to(saved[name].value, draw.dtype)) for name in ("y", "lse"))
    arrays["dy"] = draw.floats(e["y"])
    arrays["d_ws"] = draw.output(shape[:3])
    arrays |= {name: draw.output(e[LIKE[name]]) for name in GRADIENTS}
    return problem


def from_lse_reference(problem):
    found = backward(*values_of(problem, "q", "k", "v", "y", "lse", "dy"), rules_of(problem))
    return {"d_ws": found["dots"], "dQ": found["dq"], "dK": found["dk"], "dV": found["dv"]}


IDLE = (Idle("no_batch", {"batch": 0}), Idle("no_heads", {"heads": 0}), Idle("no_rows", {"q_len": 0, "k_len": 0}))
EMPTY = {"no_queries": (2, 3, 0, 5, 4, 6)}

CASES = (
    Case(
        row="sdpa_backward_{T}",
        problems=both(from_weights) | {n: lambda d, s=s: from_weights(d, s) for n, s in EMPTY.items()},
        reference=from_weights_reference, tolerance=dict.fromkeys(("dscores_ws", *GRADIENTS), "attention"),
        plain="small", large="large", bad=bad_calls(OPERANDS), idle=IDLE,
    ),
    Case(
        row="sdpa_backward_{T}_strided",
        problems=strided_problems() | {n: lambda d, s=s: strided(d, s) for n, s in EMPTY.items()},
        reference=from_weights_reference, tolerance=dict.fromkeys(("dscores_ws", *GRADIENTS), "attention"),
        plain="small", large="large", bad=(*bad_calls(OPERANDS, huge=False), *STRIDED_BAD), idle=IDLE,
    ),
    Case(
        row="flash_sdpa_backward_{T}",
        problems=both(from_lse) | {n: lambda d, s=s: from_lse(d, s) for n, s in EMPTY.items()},
        reference=from_lse_reference, tolerance={"d_ws": "total_of_products", **dict.fromkeys(GRADIENTS, "attention")},
        plain="small", large="large", bad=bad_calls(FLASH), idle=IDLE,
    ),
)  # fmt: skip
