# SPDX-License-Identifier: Apache-2.0
"""Records of elementwise functions, independent of the kernels; the modules of functions/ list them in FUNCTIONS.

A module corresponds to a header of native/elementwise/functors. The tests take true values and difficult arguments from
an entry, tools.accuracy the domain and PyTorch's call, tools.bench PyTorch's call and ordinary arguments. Formulas use
the functions of reals.py.

`torch` and `torch_backward` are calls that a user of PyTorch writes, (torch, *operands, *parameters) -> tensor. TORCH
means the function of torch, torch.nn.functional or torch.special with the entry's name, a string another name, None
that there is none. `torch_backward` takes the saved operand; without it autograd computes the gradient.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from baracuda._library.op_table import rows

from . import arguments
from .bounds import EXACT, ORDINARY, Ulps
from .numerics import LIMITS, width
from .reals import Wide, wide

Formula = Callable[..., Any]
TORCH = "the same name"
EVERYWHERE = (-math.inf, math.inf)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Entry:
    name: str = dataclasses.field(kw_only=False)
    torch: Formula | str | None = TORCH
    torch_backward: Formula | None = None

    def torch_function(self, torch: Any) -> Formula | None:
        """Call of PyTorch on tensors and parameters."""
        if self.torch is None or callable(self.torch):
            return self.torch and (lambda *operands: self.torch(torch, *operands))
        name = self.name if self.torch == TORCH else self.torch
        modules = (torch, torch.nn.functional, torch.special)
        return next((getattr(module, name) for module in modules if hasattr(module, name)), None)

    def torch_gradient(self, torch: Any) -> Formula | None:
        """Call of PyTorch on dy and the saved operands."""
        return self.torch_backward and (lambda *operands: self.torch_backward(torch, *operands))


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Unary(Entry):
    """A function of one operand.

    forward     (x, *parameters) -> y; None for functions of integers
    slope       (saved, *parameters) -> dy / dx, by which dy is multiplied; `saved` is x, or y for the rows that save it
    backward    (dy, saved, *parameters) -> dx, if that is not dy * slope
    integer     (x, width in bits) -> y of Python integers, taken modulo 2^width
    domain      the least and the greatest argument
    ordinary    range of arguments in benchmarks, the domain by default
    edges       points, besides 0, where the formula or the domain changes, or the gradient has a root
    draw        a function of arguments.py, which draws arguments; chosen by the domain by default
    draw_y      (rng, shape) -> values of y for a gradient that takes them
    ulps, gradient_ulps   a class of bounds.py
    constants   parameters that are decimals in the table and are rounded to the compute type in the kernel
    parameters  choices of parameters that the tests try; problems that are not about parameters use the first
    measured    choices for tools.accuracy; timed: the one for tools.bench
    properties  words of: odd, even, rising, falling (on the domain, on either side of 0)
    """

    forward: Formula | None = None
    slope: Formula | None = None
    backward: Formula | None = None
    integer: Callable[[int, int], int] | None = None
    domain: tuple[float, float] = EVERYWHERE
    ordinary: tuple[float, float] | None = None
    edges: tuple[float, ...] = (1,)
    draw: arguments.Draw | None = None
    draw_y: Callable[..., Any] = arguments.any_positive
    ulps: Ulps = ORDINARY
    gradient_ulps: Ulps = ORDINARY
    constants: tuple[float, ...] = ()
    parameters: tuple[tuple[float, ...], ...] = ()
    measured: tuple[tuple[float, ...], ...] = ()
    timed: tuple[float, ...] = ()
    properties: str = ""

    def value(self, x: Any, *parameters: float) -> np.ndarray[Any, Any]:
        """Values for exact arguments, with an error of a few ulp of a 64-bit significand (2^-60), except near a zero
        of lgamma or digamma at an irrational argument, where the error is relative to the summands that cancel.
        Parameters are not rounded; a kernel rounds them to its compute type."""
        return _wide(self.forward, (x,), parameters)

    def gradient(self, dy: Any, saved: Any, *parameters: float) -> np.ndarray[Any, Any]:
        return _wide(self.pull, (dy, saved), parameters)

    def pull(self, dy: Any, saved: Any, *parameters: float) -> Any:
        """dx, for both kinds of numbers of reals.py."""
        if self.backward:
            return self.backward(dy, saved, *parameters)
        return dy * self.slope(saved, *parameters)

    @property
    def saves(self) -> str:
        """Name of the operand that the gradient's row saves, x or y."""
        return _saved().get(self.name, "x")

    @property
    def has_gradient(self) -> bool:
        return bool(self.slope or self.backward)

    def of_integers(self, x: Any, dtype: str) -> np.ndarray[Any, Any]:
        return _integers(self.integer, dtype, x)

    def seen(self, dtype: str) -> tuple[float, ...]:
        """The constants rounded to the compute type of the dtype."""
        return tuple(c if dtype == "f64" else float(np.float32(c)) for c in self.constants)

    def arguments(self, rng: np.random.Generator, shape: Any, dtype: str) -> np.ndarray[Any, Any]:
        """Random arguments in the domain, denser at difficult points."""
        return (self.draw or arguments.suiting(self.domain))(rng, shape, dtype, self.edges)

    def is_(self, word: str) -> bool:
        return word in self.properties.split()


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Binary(Entry):
    """A function of two operands.

    forward      (a, b, dtype) -> y of float64 arrays with values of the dtype: a value that rounds as the true one
                 does, or the true value with an error far below that of float64
    backward     (dy, a, b, dtype) -> the two gradients, each a pairs.Partial
    integer      (a, b, width in bits) -> y of Python integers, taken modulo 2^width
    ulps         EXACT if the reference decides the rounding of the result
    approximate  backends whose 16-bit gradients have a relative error of 2^-16, which the rounding to 16 bits hides: of
                 2^x by a short polynomial on the CPU, and of the GPU's approximate instructions
    base         whether `a` is positive in ordinary problems, like the base of a power
    """

    forward: Formula | None = None
    backward: Formula | None = None
    integer: Callable[[int, int, int], int] | None = None
    ulps: Ulps = EXACT
    approximate: tuple[str, ...] = ()
    base: bool = False

    def of_integers(self, a: Any, b: Any, dtype: str) -> np.ndarray[Any, Any]:
        return _integers(self.integer, dtype, a, b)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Truth(Entry):
    """A comparison, or a function of truth values: two arrays -> an array of bool."""

    holds: Formula


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Ternary(Entry):
    """A function of three operands.

    forward   (a, b, c, dtype) -> y as of Binary; (a, b, c, dtype, scale) -> pairs.Sum
    backward  (dy, a, b, c, dtype, *scale) -> three pairs.Partials
    timed     the scale in benchmarks
    """

    forward: Formula
    backward: Formula
    timed: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Gated(Entry):
    """y = a gate(b); `slope` gives the gate's derivative, and the sum of the magnitudes of its summands."""

    gate: Formula
    slope: Formula


@functools.cache
def _saved() -> dict[str, str]:
    return {function: operand for row in rows() for function, operand in row.saves.items()}


def _wide(formula: Formula, operands: tuple[Any, ...], parameters: tuple[float, ...]) -> np.ndarray[Any, Any]:
    shape = np.broadcast_shapes(*map(np.shape, operands))
    with np.errstate(all="ignore"):
        result = formula(*(np.atleast_1d(wide(v)) for v in operands), *map(Wide, parameters))
        return np.array(np.broadcast_to(result, shape or (1,)), Wide).reshape(shape)


def _integers(function: Callable[..., int], dtype: str, *operands: Any) -> np.ndarray[Any, Any]:
    """Element by element, modulo 2^width."""
    bits, low = width(dtype), LIMITS[dtype][0] if dtype != "bool" else 0
    arrays = np.broadcast_arrays(*operands)
    cells = zip(*(a.ravel().tolist() for a in arrays))
    values = [(function(*cell, bits) - low) % 2**bits + low for cell in cells]
    return np.array(values, np.uint64 if dtype == "u64" else np.int64).reshape(arrays[0].shape)
