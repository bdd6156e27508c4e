# SPDX-License-Identifier: Apache-2.0
"""What is known of a function apart from its kernels: the records that the modules of functions/ are made of.

A module stands for the header of native/elementwise that has the functors, and lists its functions in FUNCTIONS. The
tests take from an entry the true values and where to look for wrong ones, tools.accuracy the domain and PyTorch's
spelling, tools.bench PyTorch's spelling and ordinary arguments. A formula is written with the functions of reals.py.

`torch` and `torch_backward` are what a user of PyTorch writes, (torch, *operands, *parameters) -> tensor; TORCH is
the function of torch, torch.nn.functional or torch.special that has the entry's name, a string another name, None that
there is none. `torch_backward` computes from what was saved, too; without it autograd does.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from baracuda._optable import rows

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
        """Of tensors and parameters."""
        if self.torch is None or callable(self.torch):
            return self.torch and (lambda *operands: self.torch(torch, *operands))
        name = self.name if self.torch == TORCH else self.torch
        modules = (torch, torch.nn.functional, torch.special)
        return next((getattr(module, name) for module in modules if hasattr(module, name)), None)

    def torch_gradient(self, torch: Any) -> Formula | None:
        """Of dy and what the gradient takes."""
        return self.torch_backward and (lambda *operands: self.torch_backward(torch, *operands))


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Unary(Entry):
    """A function of one operand.

    forward     (x, *parameters) -> y; None for a function of integers alone
    slope       (saved, *parameters) -> dy / dx, by which dy is multiplied; `saved` is x, or y for the rows that save it
    backward    (dy, saved, *parameters) -> dx, where a product with the slope is not what is meant
    integer     (x, width in bits) -> y of Python integers, taken modulo 2^width
    domain      the least and the greatest argument
    ordinary    where benchmarks draw arguments, if that is less than the domain
    edges       where the formula or the domain changes, or the gradient has a root, beside 0
    draw        a function of arguments.py, which draws arguments; by default what suits the domain
    draw_y      (rng, shape) -> values of y for a gradient that takes them
    ulps, gradient_ulps   a class of bounds.py
    constants   parameters that the table gives as decimals and a kernel holds rounded to its compute type
    parameters  choices of parameters that the tests try, the first of them in problems that are not about parameters
    measured    choices for tools.accuracy; timed: the one for tools.bench
    properties  words of: odd, even, rising, falling (where it is defined, on either side of 0)
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
        """The true values for arguments that are taken as exact, with a few units of error in the last place of 64
        bits (2^-60), except beside a zero of lgamma or digamma at an irrational argument, where they are good to that
        of the terms which cancel. Parameters are taken as they are: a kernel's are rounded to its compute type."""
        return _wide(self.forward, (x,), parameters)

    def gradient(self, dy: Any, saved: Any, *parameters: float) -> np.ndarray[Any, Any]:
        return _wide(self.pull, (dy, saved), parameters)

    def pull(self, dy: Any, saved: Any, *parameters: float) -> Any:
        """dx in either kind of number."""
        if self.backward:
            return self.backward(dy, saved, *parameters)
        return dy * self.slope(saved, *parameters)

    @property
    def saves(self) -> str:
        """What the gradient takes, x or y, as its row says."""
        return _saved().get(self.name, "x")

    @property
    def has_gradient(self) -> bool:
        return bool(self.slope or self.backward)

    def of_integers(self, x: Any, dtype: str) -> np.ndarray[Any, Any]:
        return _integers(self.integer, dtype, x)

    def seen(self, dtype: str) -> tuple[float, ...]:
        """The constants as a kernel of the dtype has them."""
        return tuple(c if dtype == "f64" else float(np.float32(c)) for c in self.constants)

    def arguments(self, rng: np.random.Generator, shape: Any, dtype: str) -> np.ndarray[Any, Any]:
        """Within the domain, more of them where the function is interesting."""
        return (self.draw or arguments.suiting(self.domain))(rng, shape, dtype, self.edges)

    def is_(self, word: str) -> bool:
        return word in self.properties.split()


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Binary(Entry):
    """A function of two operands.

    forward      (a, b, dtype) -> y of float64 arrays that hold values of the dtype: what rounds to what the true value
                 does, or the true value with an error far below float64's own
    backward     (dy, a, b, dtype) -> the two gradients, each a pairs.Partial
    integer      (a, b, width in bits) -> y of Python integers, taken modulo 2^width
    ulps         EXACT where the reference decides how the result is rounded
    approximate  backends whose 16-bit gradients have a relative error of 2^-16, which the rounding to 16 bits hides: of
                 2^x by a short polynomial on the CPU, and of the GPU's approximate instructions
    base         whether `a` is positive in ordinary problems, as a power's base is
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
    """y = a gate(b); `slope` gives the gate's derivative, and the sum of the magnitudes of what cancels in it."""

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
