"""What is measured: the unary functions of the op tables, forward and backward, and some of two operands."""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tools.accuracy.ulp import Array, below_one, largest, round_to, smallest

_references = importlib.import_module("references")
_tables = importlib.import_module("harness.launch")
SAVES_OUTPUT = _references.SAVES_OUTPUT
DTYPES = ("f32", "f16", "bf16", "f64")

# Parametrised symbols, with parameters that every dtype has. The others have the table's constants.
PARAMETERS = {
    "elu": ((0.75,),),
    "logit": ((0.125,),),
    "powf": ((2.5,), (-0.3125,)),
    "powi": ((5,), (-3,)),
    "softplus": ((1.5, 20.0),),
}
# Where a gradient is asked for: an x that the function is defined at, or the arguments (of a dtype) of the y that it
# can have. Beyond, the formulas of the table go on, but nobody needs their digits.
_DOMAIN = {
    "log": (0.0, math.inf), "log2": (0.0, math.inf), "log10": (0.0, math.inf), "log1p": (-1.0, math.inf),
    "asin": (-1.0, 1.0), "acos": (-1.0, 1.0), "atanh": (-1.0, 1.0), "acosh": (1.0, math.inf), "logit": (0.0, 1.0),
    "powf": (0.0, math.inf),
}  # fmt: skip
_ARGUMENTS: dict[str, Callable[[str], tuple[float, float]]] = {
    "sqrt": lambda t: (0.0, largest(t)),
    "rsqrt": lambda t: (largest(t), smallest(t)),
    "cbrt": lambda t: (-largest(t), largest(t)),
    "exp": lambda t: (-math.inf, math.log(largest(t))),
    "exp2": lambda t: (-math.inf, math.log2(largest(t))),
    "expm1": lambda t: (-math.inf, math.log(largest(t))),
    "tanh": lambda t: (-math.inf, math.inf),
    "sigmoid": lambda t: (-math.inf, math.inf),
    "erfinv": lambda t: (-below_one(t), below_one(t)),
}
PAIRS = ("div", "pow", "atan2", "hypot", "floor_divide", "mod", "remainder")


@dataclasses.dataclass(frozen=True)
class Function:
    """kind  "unary", "backward" or "binary" """

    name: str
    kind: str
    parameters: tuple[float, ...] = ()

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
        saved = "y" if self.name in SAVES_OUTPUT else "x"
        return {"unary": ("x",), "backward": ("dy", saved), "binary": ("a", "b")}[self.kind]

    def domain(self, dtype: str) -> tuple[float, float]:
        """Least and greatest saved value of a gradient that is measured."""
        if self.name not in SAVES_OUTPUT:
            return _DOMAIN.get(self.name, (-math.inf, math.inf))
        ends = _references.FORWARD[self.name](np.array(_ARGUMENTS[self.name](dtype)))
        ends = np.clip(ends, -largest(dtype), largest(dtype)).astype(np.float64)
        low, high = round_to(ends, dtype).tolist()
        return low, high

    def inside(self, saved: Array, dtype: str) -> Array:
        low, high = self.domain(dtype)
        return ((saved >= low) & (saved <= high)) | np.isnan(saved)

    def true(self, *operands: Array) -> Array:
        if self.kind == "binary":
            return _BINARY[self.name](*operands)
        table = _references.FORWARD if self.kind == "unary" else _references.BACKWARD
        return table[self.name](*operands, *self.parameters)


def functions(only: str = "") -> Iterator[Function]:
    """Every function of the tables whose label contains `only`, in their order."""
    ops = _tables.OPS
    found = [Function(n, "unary") for n in _references.FORWARD] + [
        Function(n, "backward") for n in _references.BACKWARD
    ]
    for name, choices in PARAMETERS.items():
        found += [Function(name, kind, p) for kind in ("unary", "backward") for p in choices]
    found += [Function(name, "binary") for name in PAIRS]
    for f in found:
        # a function that only parametrised symbols have is in the list with parameters
        takes = len(ops[f.op("f32")][0].params) if f.op("f32") in ops else 0
        if takes == len(f.operands) + 2 + len(f.parameters) and only in f"{f.label} {f.kind}":
            yield f


def _quietly(function: Callable[..., Any]) -> Callable[..., Array]:
    def run(*operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(*(np.asarray(v, np.longdouble) for v in operands)))

    return run


def _mod(a: Array, b: Array) -> Array:
    """With the sign of b; a remainder of 0 has it too."""
    rest = np.fmod(a, b)
    return np.where(rest == 0, np.copysign(0, b), np.where((rest < 0) != (b < 0), rest + b, rest))


def _floor_divide(a: Array, b: Array) -> Array:
    """Below 0 for a quotient that is no more than negative. Its wide rounding reaches no integer that it does not."""
    tiny = np.isfinite(a) & np.isinf(b) & (a != 0) & (np.signbit(a) != np.signbit(b))
    return np.where(tiny, -1, np.floor(a / b))


_BINARY = {
    name: _quietly(function)
    for name, function in {
        "div": np.divide, "pow": np.power, "atan2": np.arctan2, "hypot": np.hypot, "floor_divide": _floor_divide,
        "mod": _mod, "remainder": np.fmod,
    }.items()
}  # fmt: skip
