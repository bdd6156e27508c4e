# SPDX-License-Identifier: Apache-2.0
"""Arrays of any framework for functions that compose others: as given, reshaped, or broadcast."""

from __future__ import annotations

from typing import Any

from baracuda._arrays.frameworks import NUMPY, SCALARS, as_array, framework_of, result_framework
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError
from baracuda.tensor import TensorRef, tensor

Shape = tuple[int, ...]


def given_array(given: Any, name: str) -> Any:
    """The array, or a view of an object that is read as one; InvalidProblemError for a number."""
    if type(given) in SCALARS:
        raise InvalidProblemError(f"{name} is {given!r}, must be an array")
    return given if hasattr(given, "__array_namespace__") or framework_of(given) is not None else as_array(given, name)


def reshaped(x: Any, shape: Shape) -> Any:
    return x if tuple(x.shape) == shape else result_framework(x).reshaped(x, shape)


def broadcast(name: str, x: Any, shape: Shape) -> Any:
    have = tuple(x.shape)
    padded = (1,) * (len(shape) - len(have)) + have
    if len(padded) != len(shape) or any([own not in (1, want) for own, want in zip(padded, shape)]):
        raise InvalidProblemError(f"{name} has shape {have}, must broadcast to {shape}")
    return x if have == shape else result_framework(x).broadcast_to(x, shape)


def empty_like(x: Any, shape: Shape, element: ElementKind) -> Any:
    """A new array of the framework and device of x."""
    framework = result_framework(x).on(tensor(x, "x").device or "cpu") if framework_of(x) is not NUMPY else NUMPY
    return framework.empty(shape, framework.native(element, x), x)


def number(x: Any) -> int | float:
    """The value of an array of one element; it waits for the device."""
    if isinstance(x, TensorRef):
        from baracuda.memory import download

        found: int | float = download(x).item()
        return found
    value: int | float = x.item()
    return value
