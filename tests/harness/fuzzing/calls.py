# SPDX-License-Identifier: Apache-2.0
"""Random calls of a row, and random changes of them: a scalar, an entry of a host array, a pointer."""

import math

import numpy as np

from tools.oracle.numerics import itemsize

from ..launch import OPS, ROWS
from . import codes, matrices, rows, windows
from .extents import INDEXED, indexed_extents, matrices_of
from .rows import Call, small_shape, small_strides

EXTREMES = (-1, 0, 1, 2, 9, 2**15, 2**31 - 1, 2**31, -(2**31), 2**32, 2**46, 2**47, 2**60, -(2**60), 2**62, 2**63 - 1,
            -(2**63), -(2**63) + 1)  # fmt: skip
# The table does not determine the memory of all operands of these ops, which compute it; cases alone try them.
UNDRAWN_OPS = (
    "attention_", "col2im", "concat", "contiguize", "fa2_sdpa", "flash_sdpa", "flip", "im2col", "pad", "permute",
    "repeat_interleave", "roll", "sdpa_", "tri", "unfold", "write_slice",
    "dequantize_fp8", "dequantize_per_", "dequantize_{F}", "fake_quantize_learnable", "fake_quantize_per_channel",
    "mmvq_", "moe_", "nf4_", "quantize_fp8", "quantize_per_", "quantize_q8_1",
    *("max_pool_{T}", "max_pool_backward", "max_pool_indices", "avg_pool_{T}", "avg_pool_backward", "lp_pool_{T}"),
    *("lp_pool_backward", "adaptive_", "fractional_max_pool_{T}", "fractional_max_pool_backward", "max_unpool"),
    "causal_conv1d_general", "selective_scan_general", "selective_state_update", "ssd_scan_",
    "grid_sample_{T}", "grid_sample_backward_{T}",
)  # fmt: skip
# Ops that take addresses on the device are not drawn: nothing is known of the memory behind them.
DRAWN = [name for name, row in ROWS.items() if not row.pattern.startswith(UNDRAWN_OPS) and not row.points]
INSTANCES = {name: [op for op, (row, _) in OPS.items() if row.name == name] for name in DRAWN}


def draw_host(rng, row) -> tuple[dict, dict]:
    """Scalars and host arrays of a row with strides."""
    shape = small_shape(rng)
    names = [p.name for p in row.problem]
    counted = names[0]
    host, repeats = {}, None
    for p in row.problem:
        if p.direction == "host" and p.name.endswith("shape"):
            host[p.name] = list(shape)
        elif p.name == "repeats":
            repeats = host["repeats"] = [int(rng.choice([0, 1, 1, 2, 3])) for _ in shape]
    for name in [p.name for p in row.problem if p.name in ("fourier_axes", "starts", "shift_amt")]:
        host[name] = [int(rng.integers(0, 2 if name == "fourier_axes" else 4)) for _ in shape]
    if any(p.name == "stride" and p.direction == "host" for p in row.problem):  # row-major ones
        host["stride"] = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    if "output_shape" in host and "input_shape" in host:  # any output extents go with input extents from 1 on
        host["input_shape"] = [max(1, e + int(rng.integers(-2, 3))) for e in shape]
    # axes along which outputs have stride 0
    sums = bool(row.workspace) and not repeats and not any(p.role == "axis" for p in row.problem)
    axis_scalars = {}
    for p in row.pointers:
        if indexed := INDEXED.search(p.shape):
            axis_scalars.setdefault(indexed[2], int(rng.integers(0, max(len(shape), 1))))
            axis_scalars.setdefault(indexed[1], int(rng.integers(0, 9)))
    if "rows_shape" in host:  # 1 along the axis, where operands have axis_len or k elements
        axis = next(axis_scalars[p.name] for p in row.problem if p.role == "axis")
        shape[axis : axis + 1] = host["rows_shape"][axis : axis + 1] = [1] * (axis < len(shape))
        axis_scalars["k"] = int(rng.integers(0, axis_scalars["axis_len"] + 1))
    for p in (p for p in row.pointers if f"stride_{p.name}" in names):
        own = indexed_extents(host[p.shape.split(",")[0].split(" ")[0]], p.shape, axis_scalars)
        wide = [e * f for e, f in zip(own, repeats)] if repeats and "repeats" in p.shape else own
        host[f"stride_{p.name}"] = small_strides(rng, wide, not p.is_output or sums)
    scalars = {counted: math.prod(shape), "rank": len(shape), **axis_scalars}
    if "scan_axis" in names:
        axis = scalars["scan_axis"] = int(rng.integers(0, max(len(shape), 1)))
        scalars["scan_extent"] = shape[axis] if shape else 1
        if "scan_stride_x" in names:
            scalars["scan_stride_x"] = host["stride_x"][axis] if shape else 1
        scalars["reverse"] = int(rng.integers(0, 2))
    if "sort_axis" in names:
        scalars["sort_axis"] = int(rng.integers(0, max(len(shape), 1)))
        scalars["descending"] = int(rng.integers(0, 2))
    if "softmax_axis" in names:
        axis = scalars["softmax_axis"] = int(rng.integers(0, max(len(shape), 1)))
        if "softmax_extent" in names:
            scalars["softmax_extent"] = shape[axis] if shape else 1
        for name in (name for name in names if name.startswith("softmax_stride_")):
            scalars[name] = host[name.removeprefix("softmax_")][axis] if shape else 1
        if "inv_tau" in names:
            scalars["inv_tau"] = float(rng.choice([0.5, 1.0, 3.0]))
        if "hard" in names:
            scalars["hard"] = int(rng.integers(0, 2))
        if "scale" in names:
            scalars["scale"] = float(rng.choice([-2.0, 0.125, 1.0]))
        if "is_causal" in names:
            scalars["is_causal"] = int(len(shape) > 1 and axis == len(shape) - 1 and rng.random() < 0.5)
            scalars["query_offset"] = int(rng.integers(-9, 10))
    if "split_dim" in names:
        scalars["split_dim"] = int(rng.integers(0, max(len(shape), 1)))
        for name in ("x", "dx"):
            if f"{name}_half_offset" in names:
                strides = host[f"stride_{name}"]
                # behind all that the first half reaches, so that the halves do not overlap
                reach = sum(abs(s) * e for s, e in zip(strides, shape)) + 1
                scalars[f"{name}_half_offset"] = reach if rng.random() < 0.8 else int(rng.integers(-9, 10))
    return scalars, host


def draw_flat(rng, row) -> dict:
    """Scalars of a row without strides."""
    scalars = {}
    for p in row.problem:
        if p.name == "numel":
            scalars["numel"] = int(rng.choice([0, 1, 2, 3, 7, 63, 64, 65, 130, 1000]))
            if any("/" in q.shape for q in row.pointers):
                scalars["numel"] &= ~1
        elif p.dtype in ("i32", "i64"):
            scalars[p.name] = int(rng.choice([0, 1, 1, 2, 3, 5, 8, 17]))
    if "channel_stride" in scalars:
        scalars["channel_stride"], scalars["channel_extent"] = (int(rng.integers(1, 6)) for _ in range(2))
        scalars["scalar_weight"] = int(rng.integers(0, 2))
        scalars["numel"] = int(rng.integers(0, 5)) * scalars["channel_stride"] * scalars["channel_extent"]
    if "reduction_mode" in scalars:
        scalars["reduction_mode"] = int(rng.integers(0, 3))
    for name in (name for name in scalars if name.startswith("row_stride")):
        columns = next(scalars[extent] for extent in ("class_extent", "d_extent", "v") if extent in scalars)
        scalars[name] = columns + int(rng.choice([0, 0, 1, 3]))
        if "dinput_numel" in scalars:
            scalars["dinput_numel"] = scalars["n_rows"] * scalars[name]
    if "is_concatenated" in scalars:
        scalars["is_concatenated"] = int(rng.integers(0, 2))
        if not scalars["is_concatenated"]:
            scalars["targets_numel"] = scalars["batch_size"] * scalars["max_target_len"]
    if "mode" in scalars:
        scalars["mode"] = int(rng.choice([0, 1, 1, 2]))
    if row.family == "gemm":
        draw_narrow(rng, row, scalars)
    draw_pitches(rng, row, scalars)
    draw_features(rng, row, scalars)
    codes.draw(rng, row, scalars)
    windows.draw(rng, row, scalars)
    return scalars


def draw_narrow(rng, row, scalars) -> None:
    """Sets extents that such GEMM takes."""
    words = {word for p in row.pointers for word in p.shape.split(", ")}
    if "groupsize" in scalars:
        scalars |= {"N": 64 * int(rng.integers(1, 3)), "K": 128 * int(rng.integers(1, 3))}
        scalars |= {"groupsize": int(rng.choice([128, -1])), "max_par": 16}
    elif "group_size" in scalars:
        scalars["group_size"] = int(rng.choice([64, 128]))
        scalars |= dict.fromkeys({"IC", "K"} & set(scalars), 128 * int(rng.integers(1, 11)))
        scalars |= dict.fromkeys({"OC"} & set(scalars), 64) | dict.fromkeys({"split_k_iters"} & set(scalars), 1)
    elif words & {"half_k", "half_n"} and "words" not in words:
        scalars |= {"k": 2 * scalars["k"], "n": 2 * scalars["n"]}
    elif words & {"bytes_of_k", "bytes_of_n"} or words >= {"half_k", "words"}:
        scalars |= {name: 8 * scalars[name] for name in ("k", "n") if name in scalars}


def draw_features(rng, row, scalars) -> None:
    """Arguments of rotary embeddings: features in pairs, whole rows, and strides of views."""
    if not row.pattern.startswith("rope"):
        return
    features = "head_dim" if "head_dim" in scalars else "d"
    scalars[features] = int(rng.choice([2, 4, 6, 8, 16]))
    if "td" in scalars:
        scalars["td"] = scalars["d"] * int(rng.integers(0, 6))
    if "stride_b" in scalars:
        scalars["stride_b"] = int(rng.choice([0, 0, 3, 8, 40]))
    if "rotary_dim" in scalars:
        scalars["rotary_dim"] = int(rng.choice([0, 2, scalars[features]]))
    for p in (p for p in row.pointers if " at " in p.shape):
        words, _, steps = p.shape.partition(" at ")
        extents = [scalars[word] for word in words.split(", ")]
        drawn = small_strides(rng, extents[:-1], not p.is_output)
        scalars |= {name: step * (extents[-1] + 1) for name, step in zip(steps.split(", "), drawn)}


def draw_pitches(rng, row, scalars) -> None:
    """Matrices with and without gaps between rows, in any order."""
    for name in ("layout", "scaling"):
        if name in scalars:
            scalars[name] = int(rng.integers(0, 4 if name == "layout" else 3))
    for p in row.pointers:
        if f"ld{p.name}" in scalars:
            extents, _ = matrices_of(scalars | {f"stride_{p.name}": 0}, p)
            pitch = scalars[f"ld{p.name}"] = max(extents[-1], 1) + int(rng.choice([0, 0, 1, 3]))
            if f"stride_{p.name}" in scalars:
                scalars[f"stride_{p.name}"] = int(rng.choice([1, 1, -1])) * (pitch * max(extents[-2], 1) + 2)


def draw_call(rng, op) -> Call:
    row, slots = OPS[op]
    host = {}
    if made := rows.drawn(rng, row) or windows.drawn(rng, row) or matrices.drawn(rng, row):
        scalars, host = made
    elif any(p.direction == "host" for p in row.problem):
        scalars, host = draw_host(rng, row)
    else:
        scalars = draw_flat(rng, row)
    for p in row.problem:
        if p.direction != "host" and p.name not in scalars:
            is_float = p.dtype_of(slots) in ("f32", "f64")
            scalars[p.name] = float(rng.choice([0.5, -2.0, 0.0])) if is_float else int(rng.integers(0, 100))
    # A caller promises `rank` entries, so host arrays have enough for any changed rank.
    return Call(op, scalars, {name: e if e is None else e + [1] * (8 - len(e)) for name, e in host.items()})


# --- changes ---------------------------------------------------------------------------------------------------------

RANGES = {"i32": (-(2**31), 2**31 - 1), "i64": (-(2**63), 2**63 - 1)}


def extreme(rng, dtype: str) -> int:
    low, high = RANGES[dtype]
    return int(rng.choice(np.array([v for v in EXTREMES if low <= v <= high], object)))


def change_problem(rng, call: Call) -> None:
    row, _ = OPS[call.op]
    integers = [p for p in row.problem if p.dtype in RANGES]
    p = integers[rng.integers(len(integers))]
    if p.direction != "host":
        call.scalars[p.name] = extreme(rng, p.dtype)
    elif rng.random() < 0.2:
        call.host[p.name] = None
    elif call.host[p.name]:
        rank = 3 if row.family == "linalg" else call.scalars["rank" if "rank" in call.scalars else "rank_in"]
        call.host[p.name][rng.integers(max(1, min(rank, 8)))] = extreme(rng, p.dtype)
    call.changes.append(p.name)


def change_pointer(rng, call: Call, spans) -> None:
    row, slots = OPS[call.op]
    p, other = (row.pointers[k] for k in rng.integers(len(row.pointers), size=2))
    kind = rng.choice(["null", "odd", "alias", "shift"])
    slot, (low, high) = spans[p.name]
    size = itemsize(p.dtype_of(slots))
    if kind == "null":
        call.pointers[p.name] = 0
    elif not call.pointers[p.name] or (kind == "odd" and size == 1):
        return
    elif kind == "odd":
        call.pointers[p.name] += -1 if slot.holds(call.pointers[p.name] + low - 1, call.pointers[p.name]) else 1
    else:
        # A pointer to another operand, or a few elements off it, if the memory that the call reaches is there.
        at = call.pointers[other.name] + (int(rng.integers(-9, 10)) * size if kind == "shift" else 0)
        if at and spans[other.name][0].holds(at + low, at + high):
            call.pointers[p.name] = at
    call.changes.append(f"{kind} {p.name}")
