# SPDX-License-Identifier: Apache-2.0
"""Parameters, gradients and states as arrays of any framework."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from baracuda import memory
from baracuda._arrays.frameworks import Framework, as_array, framework_of, library_for
from baracuda._library.loader import Library
from baracuda.dtypes import ElementKind
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.tensor import TensorRef, tensor

FLOATS = (ElementKind.F32, ElementKind.F64, ElementKind.F16, ElementKind.BF16)


def framework_for(array: Any, name: str) -> Framework:
    found = framework_of(array)
    if found is None:
        found = framework_of(as_array(array, name))
    assert found is not None
    return found


def is_torch(framework: Framework) -> bool:
    return hasattr(framework, "torch")


def plain(framework: Framework, array: Any) -> Any:
    """A torch tensor without its history; another array as it is."""
    return array.detach() if is_torch(framework) else array


def compute_dtype(dtype: ElementKind) -> ElementKind:
    """The dtype of states and master weights."""
    return ElementKind.F64 if dtype is ElementKind.F64 else ElementKind.F32


class Parameter:
    """One parameter: its array, and what does not change while it is optimised."""

    __slots__ = ("array", "device", "dtype", "framework", "library", "name", "shape", "size", "strides")

    def __init__(self, array: Any, name: str) -> None:
        self.name, self.framework = name, framework_for(array, name)
        self.array = array if framework_of(array) is not None else as_array(array, name)
        view = self.view()
        if view.dtype not in FLOATS:
            raise UnsupportedError(f"{name} has dtype {view.dtype}, must be f32, f64, f16 or bf16")
        if view.readonly:
            raise InvalidProblemError(f"{name} is read-only, must be writeable: a step updates it in place")
        if not is_packed(view):
            raise UnsupportedError(f"{name} of shape {view.shape} has strides {view.strides}, must be without gaps")
        self.dtype, self.shape, self.strides = view.dtype, tuple(view.shape), tuple(view.strides)
        self.size = math.prod(self.shape)
        self.library: Library = library_for(view.device)
        self.framework = self.framework.on(self.library.backend)
        self.device = str(getattr(array, "device", self.library.backend))

    def view(self) -> TensorRef:
        return tensor(plain(self.framework, self.array), self.name)

    @property
    def address(self) -> int:
        return address_of(self.framework, self.array)

    def like(self, dtype: ElementKind, value: float = 0.0) -> Any:
        """An array of this layout, filled with a value."""
        framework = self.framework
        if is_torch(framework):
            torch = framework.torch  # type: ignore[attr-defined]
            made = torch.empty_like(self.array, dtype=framework.native(dtype, self.array), requires_grad=False)
            return made.fill_(value) if value else made.zero_()
        if value and isinstance(self.array, TensorRef):
            return memory.upload(np.full(self.shape, value, dtype.numpy_dtype), dtype, library=self.library)
        made = framework.empty(self.shape, framework.native(dtype, self.array), self.array)
        framework.zero(made) if not value else framework.fill(made, value)
        return made

    def bytes(self, count: int) -> Any:
        made = self.framework.bytes(count, self.array)
        self.framework.zero(made)
        return made

    def gradient(self, grad: Any) -> Any:
        """A gradient in the layout of the parameter: itself, or a copy."""
        name = f"the gradient of {self.name}"
        view = tensor(plain(self.framework, grad), name)
        if view.dtype is not self.dtype or tuple(view.shape) != self.shape:
            raise InvalidProblemError(
                f"{name} has dtype {view.dtype} and shape {tuple(view.shape)}, must be {self.dtype} {self.shape}"
            )
        if view.device not in (None, self.library.backend):
            raise InvalidProblemError(f"{name} is in {view.device} memory, {self.name} in {self.library.backend}")
        if same_layout(view.shape, view.strides, self.strides):
            return grad
        if is_torch(self.framework):
            return self.framework.torch.empty_like(self.array).copy_(grad)  # type: ignore[attr-defined]
        return self.framework.contiguous(grad)


def is_packed(view: TensorRef) -> bool:
    """Whether the elements fill their memory, in some order of the axes."""
    step = 1
    for stride, extent in sorted((s, n) for s, n in zip(view.strides, view.shape) if n != 1):
        if stride != step and extent > 0:
            return math.prod(view.shape) == 0
        step *= extent
    return True


def same_layout(shape: Sequence[int], one: Sequence[int], other: Sequence[int]) -> bool:
    return all(a == b for n, a, b in zip(shape, one, other) if n != 1)


def address_of(framework: Framework, array: Any) -> int:
    if is_torch(framework):
        return int(array.data_ptr())
    from baracuda._ffi import ffi

    return int(ffi.cast("uintptr_t", framework.pointer(array)))


def number_of(array: Any) -> float | int:
    """The element of an array, once the device has computed it."""
    if isinstance(array, TensorRef):
        array = memory.download(array)
    return array.item()  # type: ignore[no-any-return]
