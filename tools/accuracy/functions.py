# SPDX-License-Identifier: Apache-2.0
"""Measured functions: the unary functions of the op tables, forward and backward, and some of two operands."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from baracuda._library.op_table import ops
from tools.oracle import BINARY, UNARY
from tools.oracle.function import Entry
from tools.oracle.numerics import LARGEST, decode, encode, round_to

Array = np.ndarray[Any, Any]
DTYPES = ("f32", "f16", "bf16", "f64")
PAIRS = ("div", "pow", "atan2", "hypot", "floor_divide", "mod", "remainder")


@dataclasses.dataclass(frozen=True)
class Function:
    """kind  "unary", "backward" or "binary" """

    name: str
    kind: str
    parameters: tuple[float, ...] = ()

    @property
    def entry(self) -> Any:
        return (BINARY if self.kind == "binary" else UNARY)[self.name]

    @property
    def label(self) -> str:
        values = ", ".join(f"{p:g}" for p in self.parameters)
        return f"{self.name}({values})" if values else self.name

    def op(self, dtype: str) -> str:
        middle = "_param" if self.parameters else ""
        if self.kind == "binary":
            return f"binary_{self.name}_{dtype}"
        return f"unary_{self.name}{middle}{'_backward' if self.kind == 'backward' else ''}_{dtype}"

    @property
    def operands(self) -> tuple[str, ...]:
        if self.kind == "binary":
            return ("a", "b")
        return ("x",) if self.kind == "unary" else ("dy", self.entry.saves)

    def domain(self, dtype: str) -> tuple[float, float]:
        """Least and greatest saved value of a gradient that is measured: an x that the function is defined at, or a
        finite y that it can have. Beyond, the formulas of the table go on, but nobody needs their digits."""
        low, high = self.entry.domain
        if self.entry.saves == "x":
            return low, high
        ends = np.array([low, high])
        values = self.entry.value(ends)
        inner = [next_inside(low, 1, dtype), next_inside(high, -1, dtype)]
        values = np.where(np.isfinite(values), values, self.entry.value(inner))
        ends = np.sort(round_to(np.clip(values, -LARGEST[dtype], LARGEST[dtype]).astype(np.float64), dtype))
        return float(ends[0]), float(ends[1])

    def inside(self, saved: Array, dtype: str) -> Array:
        low, high = self.domain(dtype)
        return ((saved >= low) & (saved <= high)) | np.isnan(saved)

    def true(self, dtype: str, *operands: Array) -> Array:
        if self.kind == "binary":
            with np.errstate(all="ignore"):
                return np.asarray(self.entry.forward(*operands, dtype))
        formula = self.entry.value if self.kind == "unary" else self.entry.gradient
        return np.asarray(formula(*operands, *(self.parameters or self.entry.constants)))

    def true_on_device(self, *operands: Any) -> Any:
        """The function on float64 tensors with values of f32."""
        formula = self.entry.forward if self.kind == "unary" else self.entry.pull
        return formula(*operands, *(self.parameters or self.entry.constants))

    def peer(self, torch: Any) -> Callable[..., Any] | None:
        """PyTorch's result on the operands; None if it has no such function."""
        if torch is None:
            return None
        forward, gradient = self.entry.torch_function(torch), self.entry.torch_gradient(torch)
        if self.kind != "backward":
            return forward and (lambda *operands: forward(*operands, *self.parameters))
        if self.entry.saves == "y" or forward is None:
            return gradient and (lambda *operands: gradient(*operands, *self.parameters))

        def backward(dy: Any, x: Any) -> Any:
            leaf = x.detach().requires_grad_()
            forward(leaf, *self.parameters).backward(dy)
            return leaf.grad

        return backward


def next_inside(end: float, step: int, dtype: str) -> float:
    """The value of the dtype next to the end of a domain; the largest value if the end is infinite."""
    if math.isinf(end):
        return math.copysign(LARGEST[dtype], end)
    if end == 0:
        return float(decode(encode(np.array([0.0]), dtype) + 1, dtype)[0])
    bits = encode(np.array([end]), dtype)
    kind = bits.dtype.type
    return float(decode(bits - kind(1) if (end > 0) == (step < 0) else bits + kind(1), dtype)[0])


def functions(only: str = "") -> Iterator[Function]:
    """Functions with `only` in the label: with the table's constants, with parameters exact in every dtype, and of two
    operands."""
    unary: list[Entry] = [f for f in UNARY.values() if f.forward]
    found = [Function(f.name, kind) for kind in ("unary", "backward") for f in unary]
    found += [Function(f.name, kind, p) for f in unary for kind in ("unary", "backward") for p in f.measured]
    found += [Function(name, "binary") for name in PAIRS]
    for f in found:
        # functions that exist only with parameters are in the second list
        op = ops().get(f.op("f32"))
        takes = len(op.row.params) if op else 0
        if takes == len(f.operands) + 2 + len(f.parameters) and only in f"{f.label} {f.kind}":
            yield f
