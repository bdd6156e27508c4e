# SPDX-License-Identifier: Apache-2.0
"""Random problems of norms and reductions, whose table has a mask or an axis, and the memory of their operands."""

import dataclasses
import math
import re

MOST_ELEMENTS = 2048  # of a problem before it is changed
MASKED = re.compile(r"^\w+ with 1 along (\w+_mask)$")
ALONG = " with reduce_extent along reduce_axis"
FAMILIES = ("norm", "reduce")


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


def small_shape(rng) -> list[int]:
    shape = []
    for _ in range(rng.integers(0, 9)):
        extent = int(rng.choice([0, 1, 1, 2, 2, 3, 4, 5, 7, 33, 70]))
        shape.append(extent if math.prod(shape) * max(extent, 1) <= MOST_ELEMENTS else 1)
    return shape


def small_strides(rng, shape, may_broadcast: bool) -> list[int]:
    """Strides of a view: axes in any order, gaps, reversed axes, and axes of stride 0."""
    strides, step = [0] * len(shape), int(rng.choice([1, 1, 1, 2]))
    for axis in rng.permutation(len(shape)) if rng.random() < 0.5 else reversed(range(len(shape))):
        if may_broadcast and rng.random() < 0.25:
            continue
        strides[axis] = -step if rng.random() < 0.2 else step
        step = step * max(shape[axis], 1) + int(rng.choice([0, 0, 1]))
    return strides


def row_major(extents) -> list[int]:
    return [math.prod(extents[d + 1 :]) for d in range(len(extents))]


def drawn(rng, row) -> tuple[dict, dict] | None:
    """Scalars and host arrays; None for rows that are drawn as all others are."""
    names = {p.name: p for p in row.problem}
    if row.family not in FAMILIES:
        return None
    if "rank_in" in names:
        return to_shape(rng)
    if "spatial_extent" in names:
        return of_channels(rng, names), {}
    if "rank" not in names:  # the trace and its gradient
        scalars = {name: int(rng.integers(0, 9)) for name in ("rows", "columns") if name in names}
        return scalars | {n: int(rng.choice([-7, 1, 9, 10])) for n in names if n.startswith("stride_")}, {}
    return of_axes(rng, row, names)


def to_shape(rng) -> tuple[dict, dict]:
    shape = small_shape(rng)
    host = {"input_shape": shape, "input_stride": small_strides(rng, shape, True)}
    return {"rank_in": len(shape)}, host | {"output_shape": [e if rng.random() < 0.5 else 1 for e in shape]}


def of_channels(rng, names) -> dict:
    groups, width = (int(n) for n in rng.integers(1, 5, 2))
    scalars = {"n_extent": int(rng.integers(0, 5)), "spatial_extent": int(rng.choice([0, 1, 3, 20]))}
    scalars["c_extent"] = groups * width if rng.random() < 0.9 else 0
    flags = {name: int(rng.integers(0, 2)) for name in ("channels_last", "group_kind")}
    return {name: value for name, value in {**scalars, **flags, "num_groups": groups}.items() if name in names}


def of_axes(rng, row, names) -> tuple[dict, dict]:
    shape = small_shape(rng)
    scalars, host = {"rank": len(shape)}, {}
    mask = next((name for name in names if name.endswith("_mask")), "")
    if mask:
        scalars[mask] = int(rng.integers(0, 1 << len(shape)))
    if "norm_total_extent" in names:
        scalars["norm_total_extent"] = math.prod(e for d, e in enumerate(shape) if scalars[mask] >> d & 1)
    axis = int(rng.integers(0, max(len(shape), 1)))
    whole = list(shape)
    if "reduce_axis" in names:
        scalars |= {"reduce_axis": axis, "reduce_extent": shape[axis] if shape else 1}
    if "output_shape" in names and shape:
        shape[axis] = 1
    host["output_shape" if "output_shape" in names else "shape"] = list(shape)
    scalars["output_numel" if "output_numel" in names else "numel"] = math.prod(shape)
    operands = {p.name: p for p in row.pointers}
    for name in (n for n in names if n.startswith("stride_")):
        operand = operands.get(name.removeprefix("stride_"))
        is_masked = operand is None or MASKED.match(operand.shape)
        own = whole if operand is not None and operand.shape.endswith(ALONG) else shape
        own = [1 if scalars[mask] >> d & 1 else e for d, e in enumerate(shape)] if mask and is_masked else own
        may_broadcast = operand is not None and not operand.is_output
        host[name] = small_strides(rng, own, may_broadcast) if operand is not None or rng.random() < 0.7 else None
    if "reduce_stride_x" in names:
        scalars["reduce_stride_x"] = host["stride_x"][axis] if shape else 1
    return scalars, host


def layout_of(call, p) -> tuple[list[int], list[int]] | bool | None:
    """Extents and strides of an operand; None where the arguments do not determine them, False where the general rules
    hold."""
    names = {**call.scalars, **call.host}
    if "rank_in" in names:
        return _of_shape(names, "input" if p.name == "src" else "output")
    masked = MASKED.match(p.shape)
    if masked or p.shape == "row_count":
        return _masked(names, p, masked[1] if masked else "norm_axes_mask")
    if p.shape.endswith(ALONG):
        rank, axis = names["rank"], names["reduce_axis"]
        if not 0 <= axis < rank <= 8 or names["output_shape"] is None or names["stride_x"] is None:
            return None
        extents, strides = names["output_shape"][:rank], names["stride_x"][:rank]
        extents[axis], strides[axis] = names["reduce_extent"], names["reduce_stride_x"]
        return (extents, strides) if min(extents) >= 0 else None
    return False


def _of_shape(names, kind) -> tuple[list[int], list[int]] | None:
    rank, shape, strides = names["rank_in"], names[f"{kind}_shape"], names["input_stride"]
    if not 0 <= rank <= 8 or (rank and (shape is None or strides is None)):
        return None
    extents = list(shape[:rank]) if rank else []
    if any(e < 0 for e in extents):
        return None
    return extents, list(strides[:rank]) if kind == "input" and rank else row_major(extents)


def _masked(names, p, mask) -> tuple[list[int], list[int]] | None:
    """An operand with one element per row. The entries of its strides at the row's axes are ignored."""
    rank, shape = names["rank"], names["shape"]
    if not 0 <= rank <= 8 or (rank and shape is None):
        return None
    whole = list(shape[:rank]) if rank else []
    if any(e < 0 for e in whole):
        return None
    least = min if mask.startswith("norm") else lambda extent, one: one  # a norm has no empty rows
    extents = [least(e, 1) if names[mask] >> d & 1 else e for d, e in enumerate(whole)]
    if p.shape == "row_count":
        return [math.prod(extents)], [1]
    named = next((n for n in (f"stride_{p.name}", "stride_rms", "stride_save") if n in names), None)
    strides = names[named] if named else None
    if strides is None and named == f"stride_{p.name}":
        return None if rank else ([], [])
    strides = row_major(extents) if strides is None else strides[:rank]
    return extents, [0 if names[mask] >> d & 1 else s for d, s in enumerate(strides)]


def counts(names) -> dict[str, int]:
    """Element counts of the statistics of channels and groups."""
    if "spatial_extent" not in names:
        return {}
    items, channels, spatial = (names[f"{axis}_extent"] for axis in ("n", "c", "spatial"))
    has_any = min(items, channels, spatial) > 0
    of_batch = "group_kind" in names and names["group_kind"] == 0
    groups = channels if of_batch else items * names.get("num_groups", 0)
    return {"group_count": groups * has_any, "statistic_count": channels * has_any}
