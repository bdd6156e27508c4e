# SPDX-License-Identifier: Apache-2.0
"""Batches of independent rows of any op whose row in the op table has an extent of them.

The extents that the table writes behind an operand say which of its axes goes over rows. An operand that has none of
them is shared by all rows; an output that has none, such as a mean or dgamma, is a sum over them.
"""

import dataclasses

import numpy as np

from cases import Array, Problem, strides_for
from tools.oracle.numerics import is_float, round_to

# words of the table -> how many of R rows of n items; "rows" is the axis of the batch
EXTENTS = {
    "shape": ("rows", "n"), "input_shape at input_stride": ("rows", "n"), "output_shape": ("rows", 1),
    "output_shape with reduce_extent along reduce_axis": ("rows", "n"),
    "output_shape at row-major strides": ("rows", 1),
    "shape with 1 along norm_axes_mask": ("rows", 1), "shape with 1 along reduce_axes_mask": ("rows", 1),
    "row_count": ("rows",), "norm_total_extent": ("n",), "numel": ("rows", "n"), "dinput_numel": ("rows", "n"),
    "n_rows": ("rows",), "batch_size": ("rows",), "results": ("rows",), "class_extent": ("n",), "v": ("n",),
    "d_extent": ("n",), "inner_extent": (1,), "n_extent": ("rows",), "c_extent": (4,), "spatial_extent": ("spatial",),
    "group_count": ("rows", 2), "statistic_count": (4,), "max_time": (9,), "num_classes": (6,), "states": (7,),
    "max_target_len": (3,), "1": (1,), "weight_extent": (1,), "pos_weight_extent": (1,),
}  # fmt: skip
FAMILIES = ("softmax", "norm", "loss", "reduce")
PITCHED = ("input_shape at input_stride", "dinput_numel")
MASKS = ("norm_axes_mask", "reduce_axes_mask")
BELOW_ONE = ("pred", "u_rand", "inv_std_in", "saved_rstd", "rms", "var", "running_var", "log_probs")  # inputs in (0, 1)


def words_of(p) -> list[tuple[str, str]]:
    """(extent, pitch) of each axis, as the table writes them."""
    words = [p.shape] if p.shape in EXTENTS else p.shape.split(", ")
    return [tuple((word + " by ").split(" by ")[:2]) for word in words]


def is_of_channels(row) -> bool:
    """Whether a row of the op is a channel of the batch."""
    return any("statistic_count" in p.shape for p in row.pointers) or "running_mean" in {p.name for p in row.pointers}


def extents_of(row, p) -> list[object]:
    own = {}
    if is_of_channels(row):
        own = {"n_extent": (2,), "c_extent": ("rows",), "statistic_count": ("rows",)}
    return [extent for word, _ in words_of(p) for extent in own.get(word, EXTENTS[word])]


def has_rows(row) -> bool:
    """Whether some output of the op has an axis of rows."""
    if row.family not in FAMILIES or row.points or row.lists:
        return False
    if not all(word in EXTENTS for p in row.pointers for word, _ in words_of(p)):
        return False
    return any(p.is_output and "rows" in extents_of(row, p) for p in row.pointers)


@dataclasses.dataclass
class Batch:
    """R rows of n items; problem() has any of them, in any order."""

    row: object
    slots: dict[str, str]
    rows: int
    n: int
    seed: int = 0

    def __post_init__(self):
        self.rng = np.random.default_rng(self.seed)
        self.names = {p.name: p for p in self.row.problem}
        is_elementwise = "numel" in self.names and "rank" not in self.names
        if is_elementwise or not any({"n", "spatial"} & {*extents_of(self.row, p)} for p in self.row.pointers):
            self.n = 1
        self.values = {p.name: self._draw(p) for p in self.row.pointers if p.direction not in ("out", "out?")}

    def axis(self, p) -> int:
        """The axis of rows of an operand, -1 if it has none."""
        extents = extents_of(self.row, p)
        return extents.index("rows") if "rows" in extents else -1

    def _shape(self, p, rows) -> tuple[int, ...]:
        sizes = {"rows": rows, "n": self.n, "spatial": max(1, self.n // 4)}
        return tuple(sizes.get(e, e) for e in extents_of(self.row, p))

    def _draw(self, p) -> np.ndarray:
        shape, dtype = self._shape(p, self.rows), p.dtype_of(self.slots)
        if p.name in ("input_lengths", "target_lengths"):
            return np.full(shape, 9 if p.name == "input_lengths" else 3, np.int64)
        if not is_float(dtype):
            most = 2 if dtype in ("u8", "bool") else 6 if "batch_size" in self.names else max(self.n, 2)
            return self.rng.integers(1 if "batch_size" in self.names else 0, most, shape)
        values = self.rng.random(shape, np.float32)
        values = 0.1 + 0.8 * values if p.name in BELOW_ONE else 6 * values - 3
        return round_to(values.astype(np.float64), dtype)

    def _is_reduced(self, p) -> bool:
        """Whether an operand of a gradient has one element a row, of stride 0 along it."""
        is_gradient = self.row.family == "reduce" and any(q.name == "dx" for q in self.row.pointers)
        return is_gradient and p.name in ("dy", "y")

    def problem(self, chosen, pad: int = 0) -> Problem:
        """The rows `chosen`, with `pad` elements behind each of the operands whose strides or pitch are arguments."""
        pad = 0 if "dinput_numel" in self.names else pad  # an op that writes the gaps, too
        rows, arrays, hosts, scalars = len(chosen), {}, {}, {}
        for p in self.row.pointers:
            shape, axis, strides = self._shape(p, rows), self.axis(p), None
            if self._is_reduced(p):
                strides = (1, 0)
            elif len(shape) == 2 and (f"stride_{p.name}" in self.names or p.shape in PITCHED):
                strides = (shape[1] + pad, 1)
            elif any(pitch for _, pitch in words_of(p)):
                strides = (shape[1] + pad, 1, 1)[: len(shape)]
            values = self.values.get(p.name)
            if values is not None and axis >= 0:
                values = np.take(values, chosen, axis)
            if values is not None and strides is not None and 0 in strides:
                values = np.broadcast_to(values[:, :1], values.shape)
            arrays[p.name] = Array(p.dtype_of(self.slots), shape, values, strides)
            for _, pitch in words_of(p):
                if pitch:
                    scalars[pitch] = self.n + pad
        for name, p in self.names.items():
            if p.direction == "host":
                hosts[name] = self._host(name, rows, pad, arrays)
            elif name not in scalars:
                scalars[name] = self._scalar(name, p, rows, pad)
        return Problem(scalars, arrays, hosts, (), self.slots.get("F", ""))

    def _host(self, name, rows, pad, arrays):
        if name in ("shape", "input_shape"):
            return rows, self.n
        if name == "output_shape":
            return rows, 1
        operand = name.removeprefix("stride_")
        if operand in arrays:
            return arrays[operand].strides or strides_for(arrays[operand].shape)
        return (self.n + pad, 1) if name == "input_stride" else (1, 1)

    def _scalar(self, name, p, rows, pad):
        channels = is_of_channels(self.row)
        groups = {"num_groups": 4 if channels else 2, "c_extent": rows if channels else 4}
        known = {
            "numel": rows * self.n, "output_numel": rows, "rank": 2, "rank_in": 2, "n_rows": rows, "batch_size": rows,
            "n_extent": 2 if channels else rows, "spatial_extent": max(1, self.n // 4), "group_kind": 1,
            "class_extent": self.n, "v": self.n, "d_extent": self.n, "norm_total_extent": self.n, "inner_extent": 1,
            "softmax_extent": self.n, "reduce_extent": self.n, "dinput_numel": rows * (self.n + pad), "max_time": 9,
            "weight_extent": 1, "pos_weight_extent": 1, "row_stride_input": self.n + pad, "num_classes": 6,
            "max_target_len": 3, "batch": rows, "ignore_index": -100, "target_ignore": -100,
            "reduction_mode": 0, "is_causal": 0, "query_offset": 0, "hard": 0, "p_norm": 1, "is_concatenated": 0,
            **groups, **dict.fromkeys(MASKS, 2),
        }  # fmt: skip
        if name in known:
            return known[name]
        if name.endswith("_axis"):
            return 1
        if name.startswith(("softmax_stride_", "reduce_stride_")):
            return 1
        return 0.5 if p.dtype in ("f32", "f64") else 0
