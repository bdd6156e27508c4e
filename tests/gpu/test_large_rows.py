# SPDX-License-Identifier: Apache-2.0
"""Reductions, scans, softmax, norms and losses of more than 2^31 elements.

The result of a row, or of a column, depends on no other: a few rows or columns are a small problem, which the case
table's reference checks. Operands repeat a short random pattern, so that their values are known.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest
from gpu_tools import Cell, Large, call, large_workspace

import tolerances
from cases import CASES, Array, Expected, Problem
from harness import OPS

ROWS, COLUMNS = 32801, 65537
MARKED = 2**31  # the rows around this element are checked
PERIOD, SLICE = 100_003, 50_000
EDGE = 16  # columns that are checked, at each end
OF_ROWS, OF_COLUMNS = "rows", "columns"


@dataclasses.dataclass(frozen=True)
class Sample:
    """Rows and columns of the large problem that form a small one."""

    rows: np.ndarray
    columns: np.ndarray

    def cells(self, kind: str) -> np.ndarray:
        """Indices into an operand with an element per cell, row or column, or a single one."""
        whole = self.rows[:, None] * COLUMNS + self.columns
        return {"cell": whole, "row": self.rows, "column": self.columns, "one": np.zeros(1, np.int64)}[kind]


def samples(direction):
    rows, columns = np.arange(ROWS), np.arange(COLUMNS)
    if direction == OF_ROWS:
        middle = min(MARKED // COLUMNS, ROWS - 2)
        for row in (0, 1, ROWS // 2, middle, middle + 1, ROWS - 1):
            yield Sample(rows[row : row + 1], columns)
    else:
        yield from (Sample(rows, columns[:EDGE]), Sample(rows, columns[-EDGE:]))


@dataclasses.dataclass(frozen=True)
class LargeOp:
    """An op of bf16.

    scalars   (rows, columns) -> scalars and host arrays
    inputs    name -> (what it has an element for, a seed, the distribution of values)
    outputs   name -> (what it has an element for, what its elements depend on: rows or columns)
    shape_of  operands of the case whose shape is not that of their elements: "cell", "row", "column" -> shape
    """

    scalars: Callable[[int, int], tuple[dict, dict]]
    inputs: dict[str, tuple[str, int, str]]
    outputs: dict[str, tuple[str, str]]
    shape_of: Callable[[str, int, int], tuple[int, ...]]


def pattern(seed, values):
    rng = np.random.default_rng(seed)
    if values == "classes":
        return rng.integers(0, COLUMNS, PERIOD)
    found = rng.standard_normal(PERIOD)
    return np.abs(found) + 0.5 if values == "positive" else found


def keepdims_shape(kind, rows, columns):
    return {"cell": (rows, columns), "row": (rows, 1), "column": (1, columns)}[kind]


def flat(kind, rows, columns):
    return {"cell": (rows, columns), "row": (rows,), "column": (columns,), "one": (1,)}[kind]


def of_norm(kind, rows, columns):
    return (columns,) if kind == "column" else keepdims_shape(kind, rows, columns)


def of_axis(prefix, axis, *operands, **more):
    """Scalars of an op along one axis, with the extent and the strides at it."""

    def scalars(rows, columns):
        shape, dense = (rows, columns), (columns, 1)
        given = {"numel": rows * columns, "rank": 2, f"{prefix}_axis": axis, f"{prefix}_extent": shape[axis], **more}
        given |= {f"{prefix}_stride_{name}": dense[axis] for name in operands}
        return given, {"shape": shape} | {f"stride_{name}": dense for name in operands}

    return scalars


def of_reduction(axis):
    def scalars(rows, columns):
        out, dense = (1, columns) if axis == 0 else (rows, 1), (columns, 1)
        given = {"output_numel": math.prod(out), "rank": 2, "reduce_axis": axis, "reduce_stride_x": dense[axis]}
        given["reduce_extent"] = (rows, columns)[axis]
        return given, {"output_shape": out, "stride_x": dense, "stride_y": (out[1], 1)}

    return scalars


def of_norms(save, *operands, **more):
    def scalars(rows, columns):
        given = {"numel": rows * columns, "rank": 2, "norm_axes_mask": 2, "norm_total_extent": columns, **more}
        dense = {f"stride_{name}": (columns, 1) for name in operands}
        return given, {"shape": (rows, columns), **dense, save: (1, 1)}

    return scalars


def of_losses(rows, columns):
    given = {"n_rows": rows, "class_extent": columns, "row_stride_input": columns}
    return {**given, "reduction_mode": 0, "scale_scalar": 1.0}, {}


X = {"x": ("cell", 51, "normal")}
Y_OF_ROWS, Y_OF_COLUMNS = {"y": ("cell", OF_ROWS)}, {"y": ("cell", OF_COLUMNS)}
LOGITS = {"input": ("cell", 57, "normal"), "target": ("row", 58, "classes")}
LAYER = {"dy": ("cell", 54, "normal"), **X, "gamma": ("column", 55, "normal"), "mean_in": ("row", 56, "normal")}
PROBLEMS = {
    "reduce_sum rows": LargeOp(of_reduction(1), X, {"y": ("row", OF_ROWS)}, keepdims_shape),
    "reduce_sum columns": LargeOp(of_reduction(0), X, {"y": ("column", OF_COLUMNS)}, keepdims_shape),
    "reduce_max rows": LargeOp(of_reduction(1), X, {"y": ("row", OF_ROWS)}, keepdims_shape),
    "scan_cumsum rows": LargeOp(of_axis("scan", 1, "x", "y", reverse=0), X, Y_OF_ROWS, keepdims_shape),
    "scan_cumsum columns": LargeOp(of_axis("scan", 0, "x", "y", reverse=0), X, Y_OF_COLUMNS, keepdims_shape),
    "softmax rows": LargeOp(of_axis("softmax", 1, "x", "y"), X, Y_OF_ROWS, keepdims_shape),
    "softmax columns": LargeOp(of_axis("softmax", 0, "x", "y"), X, Y_OF_COLUMNS, keepdims_shape),
    "softmax_backward rows": LargeOp(
        of_axis("softmax", 1, "dy", "y", "dx"),
        {"dy": ("cell", 52, "normal"), "y": ("cell", 53, "positive")}, {"dx": ("cell", OF_ROWS)}, keepdims_shape,
    ),
    "layer_norm rows": LargeOp(
        of_norms("stride_save", "x", "y", eps=1e-5),
        {**X, "gamma": ("column", 55, "normal"), "beta": ("column", 56, "normal")},
        {**Y_OF_ROWS, "mean_out": ("row", OF_ROWS), "inv_std_out": ("row", OF_ROWS)}, of_norm,
    ),
    "layer_norm_backward rows": LargeOp(
        of_norms("stride_save", "dy", "x", "dx"), {**LAYER, "inv_std_in": ("row", 57, "positive")},
        {"dx": ("cell", OF_ROWS), "dgamma": ("column", OF_COLUMNS), "dbeta": ("column", OF_COLUMNS)}, of_norm,
    ),
    "loss_cross_entropy rows": LargeOp(of_losses, LOGITS, {"out": ("row", OF_ROWS)}, flat),
    "loss_cross_entropy_backward rows": LargeOp(
        of_losses, {**LOGITS, "dy": ("row", 59, "normal")}, {"dinput": ("cell", OF_ROWS)}, flat
    ),
}  # fmt: skip


def selected(expected, at):
    """Some elements of a small problem's expected output."""
    fields = (expected.value, expected.count, expected.magnitude, expected.divided)
    return Expected(*[np.broadcast_to(field, expected.value.shape).ravel()[at] for field in fields])


def check(name, array, tolerance, expected, indices):
    """Compares contiguous runs at once; of many runs the first, the last, and those around the middle."""
    flat_indices, cells = indices.ravel(), np.arange(indices.size)
    runs = np.split(cells, np.flatnonzero(np.diff(flat_indices) != 1) + 1)
    near = min(MARKED // COLUMNS, len(runs) - 1)
    for run in runs if len(runs) < 64 else (*runs[:8], *runs[near - 8 : near + 8], *runs[-8:]):
        got = array.read(int(flat_indices[run[0]]), len(run))
        tolerances.check(f"{name} from {flat_indices[run[0]]}", got, array.dtype, selected(expected, run), tolerance)


@pytest.mark.parametrize("with_workspace", [False, True])
@pytest.mark.parametrize("label", PROBLEMS)
def test_large_rows(library, label, with_workspace):
    made, op = PROBLEMS[label], f"{label.split()[0]}_bf16"
    row, slots = OPS[op]
    if with_workspace and not row.workspace:
        return
    dtypes = {p.name: p.dtype_of(slots) for p in row.pointers}
    numel = {kind: math.prod(flat(kind, ROWS, COLUMNS)) for kind in ("cell", "row", "column")}
    large = {name: Large(dtypes[name], numel[kind], pattern(seed, values))
             for name, (kind, seed, values) in made.inputs.items()}  # fmt: skip
    large |= {name: Large(dtypes[name], numel[kind]) for name, (kind, _) in made.outputs.items()}
    scalars, host = made.scalars(ROWS, COLUMNS)
    values = {**dict.fromkeys(dtypes, Cell(0)), **scalars, **host, **large}
    call(library, op, values, large_workspace(library, op, values) if with_workspace else None)
    for direction in dict.fromkeys(direction for _, direction in made.outputs.values()):
        for sample in samples(direction):
            check_sample(op, made, large, dtypes, direction, sample)


def check_sample(op, made, large, dtypes, direction, sample):
    rows, columns = len(sample.rows), len(sample.columns)
    scalars, host = made.scalars(rows, columns)
    kinds = {name: kind for name, (kind, *_) in (made.inputs | made.outputs).items()}
    arrays = {name: Array(dtypes[name], made.shape_of(kind, rows, columns)) for name, kind in kinds.items()}
    for name in made.inputs:
        arrays[name].values = large[name].values_at(sample.cells(kinds[name])).reshape(arrays[name].shape)
    case, function = CASES[OPS[op][0].name], OPS[op][1].get("F", "")
    expected = case.reference(Problem(scalars, arrays, host, function=function))
    for name, (kind, depends) in made.outputs.items():
        if depends == direction:
            tolerance = case.tolerance_of(name, True)
            check(f"{op}: {name}", large[name], tolerance, expected[name], sample.cells(kind))


def whole_of(values, count):
    """The sum of `count` elements, which repeat those given."""
    times, tail = divmod(count, len(values))
    return values.sum() * times + values[:tail].sum()


@pytest.mark.parametrize("with_workspace", [False, True])
def test_mean_loss(library, with_workspace):
    n = MARKED + 12345
    pred, target, out = Large("bf16", n, pattern(61, "")), Large("bf16", n, pattern(62, "")), Large("bf16", 1)
    values = {"numel": n, "reduction_mode": 1, "pred": pred, "target": target, "out": out}
    call(
        library, "loss_mse_bf16", values, large_workspace(library, "loss_mse_bf16", values) if with_workspace else None
    )
    mean = whole_of(np.square(pred.pattern - target.pattern), n) / n
    tolerances.check("out", out.read(0, 1), "bf16", Expected(np.array([mean]), n, np.array([mean])), "loss")


def test_loss_backward(library):
    n = MARKED + 12347
    pred, target, dy = (Large("bf16", n, pattern(seed, "")) for seed in (63, 64, 65))
    dpred = Large("bf16", n)
    values = {"numel": n, "reduction_mode": 0, "scale_scalar": 1.0, "pred": pred, "target": target, "dy": dy}
    call(library, "loss_mse_backward_bf16", {**values, "dpred": dpred})
    for first, count in dpred.slices(SLICE):
        at = np.arange(first, first + count)
        d, g = pred.values_at(at) - target.values_at(at), dy.values_at(at)
        want = Expected(2 * d * g, 2, np.abs(2 * d * g))
        tolerances.check(f"dpred from {first}", dpred.read(first, count), "bf16", want, "loss")
