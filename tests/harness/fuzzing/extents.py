# SPDX-License-Identifier: Apache-2.0
"""Layout of the operands of a random call: extents and strides from the row's shapes and the call's arguments."""

import math
import re

import numpy as np

from tools.oracle.numerics import itemsize

from ..launch import OPS
from . import codes, matrices, rows, windows
from .rows import Call

MOST_BYTES = 2**47
INDEXED = re.compile(r" with (\w+) along (\w+)$")


def indexed_extents(extents: list[int], words: str, numbers) -> list[int]:
    """The extents of an indexed operand, whose extent along the axis is its own."""
    indexed = INDEXED.search(words)
    if not indexed or not 0 <= numbers[indexed[2]] < len(extents):
        return extents
    axis = numbers[indexed[2]]
    return [*extents[:axis], numbers[indexed[1]], *extents[axis + 1 :]]


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
    if OPS[call.op][0].family in rows.FAMILIES and (where := rows.layout_of(call, p)) is not False:
        return where
    if (where := windows.layout_of(call, p)) is not False:
        return where
    if (where := matrices.layout_of(call, p, OPS[call.op][0].family)) is not False:
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
        rows.counts(names)
        | computed_extents(names)
        | (narrow_extents(names) if "k" in names or "K" in names or "IC" in names else {})
    )
    names |= codes.extents(OPS[call.op][0], names) | windows.extents(OPS[call.op][0], names)
    names["positions"] = names.get("drafted", names.get("num_speculative_tokens", -1)) + 1
    names["boundaries"] = names.get("sequences", -1) + 1
    if "hidden" in names:
        gates = {2: 3, 3: 3, 4: 4}.get(names["cell"], 1)
        names["gate_rows"], names["saved_rows"] = gates * names["hidden"], (gates + (gates > 1)) * names["hidden"]
        names["cell_rows"] = names["hidden"] if names["cell"] == 4 else 0
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
