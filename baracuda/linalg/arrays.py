# SPDX-License-Identifier: Apache-2.0
"""Operations of a framework that linear algebra needs, and those of arrays of any framework."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any, Protocol

from baracuda import functions
from baracuda._arrays.frameworks import result_framework
from baracuda._arrays.shaping import empty_like, given_array, reshaped
from baracuda._promotion import kind_of
from baracuda.linalg.names import CLASSES, HOME
from baracuda.tensor import tensor

Array = Any
Shape = tuple[int, ...]


class Arrays(Protocol):
    """Operations that each framework does in its own way."""

    @property
    def functions(self) -> ModuleType:
        """Its functions by name."""

    def given(self, x: Any, name: str) -> Array:
        """The argument as an array; InvalidProblemError for what is none."""

    def is_complex(self, x: Array) -> bool: ...

    def conjugate(self, x: Array) -> Array: ...

    def modulus(self, x: Array) -> Array:
        """|x| of complex numbers."""

    def total(self, x: Array, axis: int) -> Array:
        """The sum of complex numbers along an axis."""

    def converted(self, x: Array, like: Array) -> Array:
        """x in the dtype of another array."""

    def reshaped(self, x: Array, shape: Shape) -> Array: ...

    def permuted(self, x: Array, order: Shape) -> Array: ...

    def broadcast(self, x: Array, shape: Shape) -> Array:
        """x along more axes, an array of its own."""

    def empty(self, like: Array, shape: Shape) -> Array:
        """An array of the same dtype, whose elements are not read."""

    def added(self, x: Array, a: Array, b: Array, beta: float, alpha: float) -> Array:
        """beta x + alpha a b, of batches of matrices."""


class LinalgCalls:
    """Base of the classes that have the functions, for one framework."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self.functions: Any = arrays.functions

    def identity_like(self, a: Array) -> Array:
        """The identity of the extent and dtype of a matrix: the product of no reflectors."""
        n = a.shape[-1]
        return self.functions.linalg_householder_product(self.arrays.empty(a, (n, n)), self.arrays.empty(a, (0,)))


def function_of(arrays: Arrays, name: str) -> Callable[..., Any]:
    """A function of NAMES for one framework."""
    module = HOME[name]
    made = getattr(importlib.import_module(f"baracuda.linalg.{module}"), CLASSES[module])(arrays)
    found: Callable[..., Any] = getattr(made, name)
    return found


def described(function: Callable[..., Any], name: str, module: str) -> Callable[..., Any]:
    """A function of its own, with the signature and the words of a method."""

    @functools.wraps(function)
    def called(*arguments: Any, **options: Any) -> Any:
        return function(*arguments, **options)

    called.__module__, called.__qualname__ = module, name
    called.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return called


class AnyArrays:
    """Arrays of any framework, through `baracuda.functions`."""

    functions = functions

    def given(self, x: Any, name: str) -> Array:
        return given_array(x, name)

    def is_complex(self, x: Array) -> bool:
        return kind_of(x) == "c"

    def conjugate(self, x: Array) -> Array:
        return x.conj()

    def modulus(self, x: Array) -> Array:
        return abs(x)

    def total(self, x: Array, axis: int) -> Array:
        return x.sum(axis)

    def converted(self, x: Array, like: Array) -> Array:
        return functions.cast(x, tensor(like, "a").dtype)

    def reshaped(self, x: Array, shape: Shape) -> Array:
        return reshaped(x, shape)

    def permuted(self, x: Array, order: Shape) -> Array:
        return result_framework(x).permuted(x, order)

    def broadcast(self, x: Array, shape: Shape) -> Array:
        framework = result_framework(x)
        return framework.contiguous(framework.broadcast_to(x, shape))

    def empty(self, like: Array, shape: Shape) -> Array:
        return empty_like(like, shape, tensor(like, "a").dtype)

    def added(self, x: Array, a: Array, b: Array, beta: float, alpha: float) -> Array:
        from baracuda.composites import baddbmm

        return baddbmm(x, a, b, beta=beta, alpha=alpha)
