# SPDX-License-Identifier: Apache-2.0
"""Fuzzes ops of most families with valid and invalid calls, on memory that ends where an operand ends.

usage: python -m harness.fuzz --seed S [--first K] [--calls N] [--log FILE]

Call number k of a seed does not depend on those before it: `--first k --calls 1` repeats it. Each starts as a problem
of the row, drawn from the op table; then a few things are changed: a scalar, an entry of a host array, a pointer, the
workspace. These guarantees hold for any arguments:

- the status is one of 0 to 4;
- after a failure no byte has changed, and the text has the op's name and one of its arguments';
- after a success no byte has changed outside the outputs' elements;
- what _can_implement refuses _run refuses, and both refuse an operand of more than 2^47 bytes;
- a number that _can_implement takes is refused by both or by neither.

The log has the call that is being made, so that a crash can be traced. With a CUDA library, which cannot be given host
memory, only calls that _can_implement refuses are made.
"""

import argparse
import dataclasses
import itertools
import math
import mmap
import pathlib
import re
import sys

import numpy as np

import baracuda as bk
from tools.oracle.numerics import itemsize

from . import fuzz_rows
from .arena import Slot
from .fuzz_rows import small_shape, small_strides
from .launch import OPS, ROWS, is_seen, last_error

MOST_BYTES = 2**47
SLOT_PAGES = 16
EXTREMES = (-1, 0, 1, 2, 9, 2**15, 2**31 - 1, 2**31, -(2**31), 2**32, 2**46, 2**47, 2**60, -(2**60), 2**62, 2**63 - 1,
            -(2**63), -(2**63) + 1)  # fmt: skip
# The table does not determine the memory of all operands of these ops, which compute it; cases alone try them.
UNDRAWN_OPS = (
    "attention_", "col2im", "concat", "contiguize", "fa2_sdpa", "flash_sdpa", "flip", "im2col", "pad", "permute",
    "repeat_interleave", "roll", "sdpa_", "tri", "unfold", "write_slice",
)  # fmt: skip
# Ops that take addresses on the device are not drawn: nothing is known of the memory behind them.
DRAWN = [name for name, row in ROWS.items() if not row.pattern.startswith(UNDRAWN_OPS) and not row.points]
INDEXED = re.compile(r" with (\w+) along (\w+)$")
INSTANCES = {name: [op for op, (row, _) in OPS.items() if row.name == name] for name in DRAWN}


@dataclasses.dataclass
class Call:
    """Arguments by name. A pointer has an address, and a slot that its memory is in."""

    op: str
    scalars: dict[str, int | float]
    host: dict[str, list[int] | None]
    pointers: dict[str, int] = dataclasses.field(default_factory=dict)
    workspace: tuple[int, int] = (0, 0)
    changes: list[str] = dataclasses.field(default_factory=list)

    def __str__(self):
        pointers = {name: hex(p) for name, p in self.pointers.items()}
        return f"{self.op} {self.scalars} {self.host} {pointers} workspace {self.workspace}, changed: {self.changes}"


# --- problems --------------------------------------------------------------------------------------------------------


def indexed_extents(extents: list[int], words: str, numbers) -> list[int]:
    """The extents of an indexed operand, whose extent along the axis is its own."""
    indexed = INDEXED.search(words)
    if not indexed or not 0 <= numbers[indexed[2]] < len(extents):
        return extents
    axis = numbers[indexed[2]]
    return [*extents[:axis], numbers[indexed[1]], *extents[axis + 1 :]]


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
    return scalars


def narrow_extents(names) -> dict[str, int]:
    """Extents of GEMM whose elements share bytes or scales."""
    if "groupsize" in names:
        groups = 1 if names["groupsize"] == -1 else names["K"] // 128
        return {"strips": names["K"] // 16, "words": 2 * names["N"], "groups": groups, "locks": 0}
    if "group_size" in names:
        k, multiple = names.get("IC", names.get("K")), 2 if names["group_size"] == 64 else 1
        words = -(-k * multiple // 128 // (8 * multiple)) * multiple if k > 0 else k
        return {"words": k // 8, "zero_words": words, "scale_columns": 8 * words}
    k, n = names.get("k", 0), names.get("n", 0)
    if "scaling" in names:
        blocks, m = -(-k // 128), names["m"]
        of_b = (1, n, -(-n // 128) * blocks)
        scaling = names["scaling"] if 0 <= names["scaling"] <= 2 else 0
        return {"a_scales": (1, m, m * blocks)[scaling], "b_scales": of_b[scaling]}
    shared = {"half_k": k // 2, "half_n": n // 2, "bytes_of_k": k // 8, "bytes_of_n": n // 8}
    return {**shared, "words": k // 8}


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


def matrices_of(scalars, p) -> tuple[list[int], list[int]]:
    """Extents and strides of an operand with a pitch, as stored."""
    names = scalars | narrow_extents(scalars)
    extents = [names[e] for e in p.shape.split(", ")]
    if (p.name.rstrip("12"), scalars.get("layout")) in (("a", 2), ("a", 3), ("b", 1), ("b", 3)):
        extents[-2:] = reversed(extents[-2:])
        packed = {"half_n": "half_k", "bytes_of_n": "bytes_of_k"}.get(p.shape.split(", ")[-1])
        if packed:  # elements share bytes along K
            extents[-2:] = names["n"], names[packed]
    strides = [scalars[f"ld{p.name}"], 1]
    return extents, [scalars[f"stride_{p.name}"], *strides] if len(extents) == 3 else strides


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
    if made := fuzz_rows.drawn(rng, row):
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
        rank = call.scalars["rank" if "rank" in call.scalars else "rank_in"]
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
        # On another operand, or a few elements off it, if the memory that the call reaches is there.
        at = call.pointers[other.name] + (int(rng.integers(-9, 10)) * size if kind == "shift" else 0)
        if at and spans[other.name][0].holds(at + low, at + high):
            call.pointers[p.name] = at
    call.changes.append(f"{kind} {p.name}")


# --- where operands lie ----------------------------------------------------------------------------------------------


def computed_extents(names) -> dict[str, int]:
    """Extents that the op computes from its arguments."""
    if "select_dim" in names:
        axis, shape, rank = names["select_dim"], names["out_shape"], names["rank"]
        return {"selected": shape[axis] if shape and 0 <= axis < min(rank, len(shape)) else -1}
    if "add_dim" in names:
        axis, shape, rank = names["add_dim"], names["src_shape"], names["rank"]
        return {"selected": shape[axis] if shape and 0 <= axis < min(rank, len(shape)) else -1}
    if "num_bags" in names:
        return {"offset_count": names["num_bags"] + (names.get("include_last_offset", 1) != 0)}
    if "groups" in names:
        return {"offset_count": names["groups"] + 1}
    if "segments" in names and "k" in names:
        return {"offset_count": names["segments"] + 1}
    if "num_page_ids" in names:
        return {"offset_count": names["batch"] + 1}
    if {"num_classes", "out_numel"} <= set(names):
        return {"rows": -(-names["out_numel"] // names["num_classes"]) if names["num_classes"] > 0 else -1}
    if "reduction_mode" not in names:
        return {}
    count = next(names[name] for name in ("numel", "n_rows", "batch_size") if name in names) * names.get(
        "inner_extent", 1
    )
    return {
        "results": count if names["reduction_mode"] == 0 else 1,
        "states": 2 * names.get("max_target_len", 0) + 1,
    }


def extents_of(call: Call, p) -> tuple[list[int], list[int]] | None:
    """Extents and strides of an operand by the op table; None where the arguments do not determine them."""
    names = {**call.scalars, **call.host}
    if OPS[call.op][0].family in fuzz_rows.FAMILIES and (where := fuzz_rows.layout_of(call, p)) is not False:
        return where
    if f"stride_{p.name}" in call.host:
        shape, _, factors = INDEXED.sub("", p.shape).split(",")[0].partition(" * ")
        rank = call.scalars["rank"]
        arrays = [names[shape], names[f"stride_{p.name}"], *([names[factors]] if factors else [])]
        if not 0 <= rank <= 8 or (rank > 0 and None in arrays):
            return None
        shape, strides, *factors = ([] if rank == 0 else list(a[:rank]) for a in arrays)
        shape = indexed_extents(shape, p.shape, names)
        shape = [e * f for e, f in zip(shape, factors[0])] if factors else shape
        if "twice" in p.shape:
            shape, strides = [2, *shape], [call.scalars[f"{p.name}_half_offset"], *strides]
        return (shape, strides) if all(e >= 0 for e in shape) else None
    if f"ld{p.name}" in call.scalars:
        extents, strides = matrices_of(call.scalars, p)
        if any(e < 0 for e in extents):
            return None
        row, slots = OPS[call.op]
        if p.direction.endswith("?"):  # it may have a pitch of 0; _run refuses what _can_implement does not see
            low, high = reach_of(extents, strides, itemsize(p.dtype_of(slots)))
            is_unseen = f"ld{p.name}" not in [q.name for q in row.check_params]
            is_wrong = (extents[-2] > 1 and strides[-2] < extents[-1]) or high - low > MOST_BYTES
            if strides[-2] == 0 or (is_unseen and is_wrong):
                extents[-2] = 0
        return extents, strides
    if " at " in p.shape:
        words, _, steps = p.shape.partition(" at ")
        shape, strides = ([names[word] for word in each.split(", ")] for each in (words, steps))
        return (shape, [*strides, 1]) if min(shape) >= 0 else None
    if " by " in p.shape:
        names["table_row"] = names.get("td", names.get("d", 0)) // 2
        count, stride, *within = (names[word] for word in re.split(" by |, ", p.shape))
        steps = [math.prod(within[d + 1 :]) for d in range(len(within))]
        return ([count, *within], [stride, *steps]) if min(count, stride, *within) >= 0 else None
    names |= (
        fuzz_rows.counts(names)
        | computed_extents(names)
        | (narrow_extents(names) if "k" in names or "K" in names or "IC" in names else {})
    )
    names["positions"] = names.get("drafted", names.get("num_speculative_tokens", -1)) + 1
    names["num_edges"] = names.get("num_bins", -1) + 1
    extents = []
    for e in p.shape.split(", "):
        if "?" in e:
            extents.append(1 if names["scalar_weight"] else names["channel_extent"])
        elif " / " in e:
            extents.append(names[e.split(" / ")[0]] // 2)
        else:
            extents.append(names[e] if e in names else int(e))
    if any(e < 0 for e in extents):
        return None
    strides = [math.prod(extents[d + 1 :]) for d in range(len(extents))]
    return extents, strides


def reach_of(extents, strides, size: int) -> tuple[int, int]:
    """Bytes before and after the pointer; an axis of stride 0 has one element."""
    if any(e == 0 and s != 0 for e, s in zip(extents, strides)):
        return 0, 0
    steps = [(e - 1) * s for e, s in zip(extents, strides) if e > 0]
    return min(0, sum(s for s in steps if s < 0)) * size, (sum(s for s in steps if s > 0) + 1) * size


def cells_of(extents, strides, size: int) -> np.ndarray:
    """Offsets of every byte of the elements."""
    if any(e == 0 and s != 0 for e, s in zip(extents, strides)):
        return np.zeros(0, np.int64)  # other strides may exceed 64 bits
    offsets = np.zeros(1, np.int64)
    for extent, stride in zip(extents, strides):
        offsets = np.add.outer(offsets, np.arange(extent if stride else min(extent, 1) or 1) * stride).ravel()
    return np.unique(np.add.outer(offsets * size, np.arange(size)).ravel())


class Fuzzer:
    def __init__(self, library, seed: int, log):
        self.library, self.seed, self.log = library, seed, log
        self.slots = [Slot(SLOT_PAGES) for _ in range(1 + max(len(ROWS[name].pointers) for name in DRAWN))]
        self.ran = 0

    def assign(self, rng, call: Call) -> dict:
        """Gives every pointer an address: a small operand begins or ends with its slot."""
        row, slots = OPS[call.op]
        spans = {}
        for p, slot in zip(row.pointers, self.slots):
            dtype = p.dtype_of(slots)
            size = itemsize(dtype)
            where = extents_of(call, p)
            low, high = (0, 0) if where is None else reach_of(*where, size)
            if high - low > slot.size:
                low = high = 0
            at_end = rng.random() < 0.7
            call.pointers[p.name] = slot.address + (slot.size - max(high, 0) if at_end else -low)
            slot.bytes[:] = rng.integers(0, 256, slot.size, np.uint8)
            if dtype in ("i32", "i64") and row.family in ("segment", "embedding", "indexing", "loss"):
                indices = rng.integers(-2, 12, slot.size // size)
                slot.bytes[:] = indices.astype(np.int32 if dtype == "i32" else np.int64).view(np.uint8)
            spans[p.name] = slot, (low, high)
        return spans

    def choose_workspace(self, rng, call: Call, values) -> None:
        row, _ = OPS[call.op]
        needed = 0
        if row.workspace:
            needed = self.library.function(call.op, "workspace_size")(*[values[p.name] for p in row.size_params])
        kind = rng.choice(["none", "full", "short", "misplaced"])
        slot = self.slots[-1]
        if kind == "none" or needed > slot.size:
            call.changes += ["workspace"] if row.workspace.startswith("needed: ") else []
            return
        nbytes = needed if kind != "short" else int(rng.integers(0, needed + 1))
        call.workspace = (slot.address + slot.size - nbytes, nbytes)
        if kind == "misplaced" and nbytes + 3 <= slot.size:
            call.workspace = (slot.address + 3, nbytes)
        if nbytes < needed:
            call.changes.append("workspace")

    def run(self, k: int) -> None:
        """Makes call number k."""
        rng = np.random.default_rng((self.seed, k))
        instances = INSTANCES[DRAWN[k % len(DRAWN)]]
        call = draw_call(rng, instances[rng.integers(len(instances))])
        row, _ = OPS[call.op]
        for _ in range(rng.choice([0, 0, 1, 1, 2])):
            change_problem(rng, call)
        spans = self.assign(rng, call)
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            change_pointer(rng, call, spans)
        ffi = self.library.ffi
        values = {}
        for p in row.problem:
            if p.direction == "host":
                entries = call.host[p.name]
                ctype = {"i32": "int32_t[8]", "i64": "int64_t[8]"}[p.dtype]
                values[p.name] = ffi.NULL if entries is None else ffi.new(ctype, entries)
            else:
                values[p.name] = call.scalars[p.name]
        self.write_log(k, call)
        checked = [ffi.NULL if p.is_pointer else values[p.name] for p in row.check_params]
        can = self.library.function(call.op, "can_implement")(*checked)
        self.check_can(call, can)
        self.choose_workspace(rng, call, values)
        self.write_log(k, call)
        if can == 0 and (self.library.backend == "cuda" or not self.is_small(call)):
            return
        self.ran += 1
        before = [slot.bytes.copy() for slot in self.slots]
        arguments = [ffi.cast("void*", call.pointers[p.name]) if p.is_pointer else values[p.name] for p in row.params]
        tail = (ffi.NULL,) if row.is_bare else (ffi.cast("void*", call.workspace[0]), call.workspace[1], ffi.NULL)
        status = self.library.function(call.op)(*arguments, *tail)
        assert status in (0, 1, 2, 3, 4), f"status {status}: {last_error(self.library)}"
        assert status != 0 or can == 0, f"status 0, though can_implement said {can}"
        if status:
            self.check_text(call, status)
        if status in (2, 3) and can == 0:
            self.check_unseen(call)
        self.check_memory(call, status, before)

    def is_small(self, call: Call) -> bool:
        """Whether a valid call has the memory that it needs, and ends soon."""
        row, slots = OPS[call.op]
        for p in row.pointers:
            where = extents_of(call, p)
            if where is None:  # can_implement has not seen the arrays
                return True
            low, high = reach_of(*where, itemsize(p.dtype_of(slots)))
            if math.prod(where[0]) > 1 << 18 or high - low > self.slots[0].size:
                return False
        return True

    def check_can(self, call: Call, can: int) -> None:
        row, slots = OPS[call.op]
        assert can in (0, 2, 3), f"can_implement gives {can}"
        if can:
            self.check_text(call, can)
        elif all(p in row.check_params for p in row.problem if p.direction == "host"):
            for p in row.pointers:
                where = extents_of(call, p)
                assert where is not None, "can_implement takes what has no shape"
                low, high = reach_of(*where, itemsize(p.dtype_of(slots)))
                bound = 2 * MOST_BYTES if "twice" in p.shape else MOST_BYTES
                assert high - low <= bound, f"can_implement takes {p.name} of {high - low} bytes"

    def check_text(self, call: Call, status: int) -> None:
        row, _ = OPS[call.op]
        text = last_error(self.library)
        names = [p.name for p in row.params] + ["workspace"]
        assert text.startswith(f"{call.op}: "), text
        assert any(name in text.removeprefix(f"{call.op}: ") for name in names), text
        assert status != 4 or "workspace" in call.changes, text

    def check_unseen(self, call: Call) -> None:
        """Only a pointer, or a number that `_can_implement` does not take, is refused by `_run` alone."""
        text = last_error(self.library)
        assert not is_seen(call.op, text), f"can_implement takes what run refuses: {text}"

    def check_memory(self, call: Call, status: int, before) -> None:
        row, slots = OPS[call.op]
        for slot, bytes_before in zip(self.slots, before):
            changed = slot.bytes != bytes_before
            if not changed.any():
                continue
            assert status == 0, f"status {status}, but memory has changed: {last_error(self.library)}"
            if call.workspace[1] and slot is self.slots[-1]:
                first = call.workspace[0] - slot.address
                changed[first : first + call.workspace[1]] = False
            for p in row.pointers:
                pointer = call.pointers[p.name]
                if p.is_output and pointer:
                    cells = cells_of(*extents_of(call, p), itemsize(p.dtype_of(slots))) + (pointer - slot.address)
                    changed[cells[(cells >= 0) & (cells < slot.size)]] = False
            where = np.flatnonzero(changed)
            assert where.size == 0, (
                f"{where.size} bytes changed that no output has, the first at {hex(slot.address + where[0])}"
            )

    def write_log(self, k: int, call: Call) -> None:
        if self.log is not None:
            text = f"seed {self.seed}, call {k}: {call}".encode()[: len(self.log) - 1]
            self.log[: len(text) + 1] = text + b"\0"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--log", type=pathlib.Path)
    options = parser.parse_args()
    log = None
    if options.log:
        with options.log.open("r+b") as file:
            log = mmap.mmap(file.fileno(), 0)
    fuzzer = Fuzzer(bk.default_library(), options.seed, log)
    for k in itertools.islice(itertools.count(options.first), options.calls):
        try:
            fuzzer.run(k)
        except AssertionError as error:
            print(f"seed {options.seed}, call {k}: {error}", file=sys.stderr)
            return 1
    print(f"{fuzzer.ran} of {options.calls} calls were run")
    return 0


if __name__ == "__main__":
    sys.exit(main())
