# SPDX-License-Identifier: Apache-2.0
"""Views of memory: a pointer with shape, strides and dtype. Nothing here copies or dereferences."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from baracuda._arrays import capsules, export, views
from baracuda._call.scalars import as_integer, as_integers
from baracuda.dtypes import ElementKind, as_element, from_dlpack, from_typestr
from baracuda.errors import InvalidProblemError, UnsupportedError

# Address for operands without elements: not NULL, aligned for every dtype, never dereferenced.
EMPTY_ADDRESS = 0x1000
_MAX_ADDRESS = 2**64 - 1
_DEVICES = ("cpu", "cuda", None)


def contiguous_stride(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements: (4, 8) -> (8, 1), (2, 0, 3) -> (0, 3, 1)."""
    strides = []
    step = 1
    for extent in reversed(as_integers("shape", shape, 0)):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


class _Slots:
    """The fields of a view. `_with_address` fills them before it makes the view immutable."""

    __slots__ = (
        "__weakref__", "_pointer", "_sort", "device", "dtype", "high", "length", "low", "numel", "offset", "owner",
        "ptr", "readonly", "shape", "strides",
    )  # fmt: skip

    ptr: int
    shape: tuple[int, ...]
    dtype: ElementKind
    strides: tuple[int, ...]
    length: int | None
    offset: int
    device: str | None
    readonly: bool
    owner: object
    numel: int
    low: int  # offsets from ptr, in elements, of the lowest and highest element; (0, -1) for an empty view
    high: int
    _pointer: Any
    _sort: object  # cache key: equal for views that differ only in address, owner and `readonly`; or None


class TensorRef(_Slots):
    """An immutable view.

    ptr      address of the element at coordinate 0
    shape    extents
    dtype    ElementKind, or anything that names one
    strides  in elements, of any sign, 0 broadcasts; None: row-major
    length   elements in the buffer, where known: launches then check that the view stays inside
    offset   index of `ptr` in that buffer (negative strides reach below `ptr`)
    device   "cpu", "cuda", or None where unknown
    owner    kept alive with the view
    """

    __slots__ = ()

    def __init__(
        self,
        ptr: int,
        shape: Iterable[int],
        dtype: object,
        strides: Iterable[int] | None = None,
        length: int | None = None,
        *,
        offset: int = 0,
        device: str | None = None,
        readonly: bool = False,
        owner: object = None,
    ) -> None:
        if not isinstance(device, (str, type(None))) or device not in _DEVICES:
            raise InvalidProblemError(f"TensorRef: device is {device!r}, must be 'cpu', 'cuda' or None")
        if not isinstance(readonly, (bool, np.bool_)):
            raise InvalidProblemError(f"TensorRef: readonly is {readonly!r}, must be a bool")
        extents = as_integers("TensorRef: shape", shape, 0)
        steps = contiguous_stride(extents) if strides is None else as_integers("TensorRef: strides", strides)
        if len(steps) != len(extents):
            raise InvalidProblemError(f"TensorRef: strides {steps} and shape {extents} differ in length")
        numel = math.prod(extents)
        reach = [(extent - 1) * step for extent, step in zip(extents, steps)] if numel else []
        values = {
            "ptr": as_integer("TensorRef: ptr", ptr, 0, _MAX_ADDRESS),
            "shape": extents,
            "dtype": as_element(dtype, "TensorRef: dtype"),
            "strides": steps,
            "length": None if length is None else as_integer("TensorRef: length", length, 0),
            "offset": as_integer("TensorRef: offset", offset, 0),
            "device": device,
            "readonly": bool(readonly),
            "owner": owner,
            "numel": numel,
            "low": sum(r for r in reach if r < 0),
            "high": sum(r for r in reach if r > 0) if numel else -1,
            "_pointer": None,
            "_sort": None,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"TensorRef is immutable, cannot set {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"TensorRef is immutable, cannot delete {name}")

    def __repr__(self) -> str:
        return f"TensorRef({self.ptr:#x}, shape={self.shape}, dtype={self.dtype}, strides={self.strides})"

    def __copy__(self) -> TensorRef:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a TensorRef is an address of this process and cannot be pickled, nor copied with its memory")

    __iter__ = None  # `for row in x` would make views one by one; `x[k]` does

    def __getitem__(self, key: Any) -> TensorRef:
        """The part that integers, slices, `...` and None select, as in NumPy: a view, never a copy."""
        return self._part(*views.indexed(self.shape, self.strides, key))

    def reshape(self, *shape: int | Sequence[int]) -> TensorRef:
        """A view of the elements in row-major order with other extents, one of which may be -1. InvalidProblemError if
        this memory has no such view.
        """
        wanted: Any = shape[0] if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)) else shape
        return self._part(0, *views.reshaped(self.shape, self.strides, wanted))

    def transpose(self, *axes: int) -> TensorRef:
        """The axes in the order given, or reversed."""
        order = views.permuted(self.rank, axes)
        return self._part(0, tuple(self.shape[k] for k in order), tuple(self.strides[k] for k in order))

    @property
    def T(self) -> TensorRef:
        """The axes reversed."""
        return self.transpose()

    def view(self, dtype: object) -> TensorRef:
        """A view of the bytes as elements of another dtype. The last extent changes with the element's size, so the
        last axis must then be contiguous, and its bytes a whole number of elements.
        """
        element = as_element(dtype, "TensorRef.view: dtype")
        bits, wanted = self.dtype.bits, element.bits
        if bits == wanted:
            return TensorRef(
                self.ptr, self.shape, element, self.strides, self.length, offset=self.offset, device=self.device,
                readonly=self.readonly, owner=self._keeper,
            )  # fmt: skip
        *rows, last = self.shape or (1,)
        if self.rank and self.strides[-1] != 1 and last != 1:
            raise InvalidProblemError(
                f"TensorRef.view: the last axis has stride {self.strides[-1]}, must be contiguous"
            )
        outer = [step * bits for step in self.strides[:-1]]
        if any([number % wanted for number in (last * bits, *outer)]):
            raise InvalidProblemError(
                f"TensorRef.view: shape {self.shape} with strides {self.strides} of {self.dtype} is no whole number of "
                f"{element} a row"
            )
        strides = (*(step // wanted for step in outer), 1)
        return TensorRef(
            self.ptr, (*rows, last * bits // wanted), element, strides, device=self.device, readonly=self.readonly,
            owner=self._keeper,
        )  # fmt: skip

    def _part(self, start: int, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> TensorRef:
        bits = start * self.dtype.bits
        if bits % 8:
            raise InvalidProblemError(f"TensorRef: element {start} of {self.dtype} does not begin a byte")
        part = TensorRef(
            self.ptr + bits // 8, shape, self.dtype, strides, self.length, offset=self.offset + start,
            device=self.device, readonly=self.readonly, owner=self._keeper,
        )  # fmt: skip
        return _canonical(part)

    @property
    def _keeper(self) -> object:
        """The object that keeps the memory alive; a chain of views keeps one object."""
        return self if self.owner is None else self.owner

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of `numel` elements."""
        return self.dtype.nbytes(self.numel)

    @property
    def is_contiguous(self) -> bool:
        """Whether the strides are exactly `contiguous_stride(shape)`, those of extent-1 axes too."""
        return self.strides == contiguous_stride(self.shape)

    @property
    def is_dense(self) -> bool:
        """Whether the elements are row-major without gaps; strides of extent-1 axes do not matter."""
        step = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides)):
            if extent != 1:
                if stride != step:
                    return not self.numel
                step *= extent
        return True

    @property
    def pointer(self) -> Any:
        """cffi `void *` for the C call."""
        if self._pointer is None:
            from baracuda._ffi import ffi

            address = self.ptr if self.ptr or self.numel else EMPTY_ADDRESS
            object.__setattr__(self, "_pointer", ffi.cast("void *", address))
        return self._pointer

    @property
    def sort(self) -> object:
        """Cache key: all that a call depends on except the address and `readonly`."""
        return self._sort or (self.dtype, self.shape, self.strides, self.device, self.length, self.offset)

    @property
    def byte_range(self) -> tuple[int, int]:
        """First address touched and the one after the last; equal for an empty view."""
        if not self.numel:
            return self.ptr, self.ptr
        bits = self.dtype.bits
        return self.ptr + self.low * bits // 8, self.ptr + self.dtype.nbytes(self.high + 1)

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A DLPack capsule of the same memory, for `from_dlpack` of other packages. On CUDA the consumer's `stream`
        waits for the per-thread default stream.
        """
        return export.dlpack(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return export.dlpack_device(self)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return export.interface(self, "cpu")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return export.interface(self, "cuda")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """NumPy's view of host memory, also for dtypes that the interface cannot name, bf16 and fp8."""
        array = export.numpy_array(self)
        return array if dtype is None and not copy else np.array(array, dtype, copy=bool(copy) or None)


TensorMut = TensorRef  # outputs are views too; a launch refuses one that is `readonly`


def tensor(obj: object, name: str = "tensor") -> TensorRef:
    """Zero-copy view of `obj`: a TensorRef (returned as it is), a NumPy array, or an object with DLPack,
    `__cuda_array_interface__` or `__array_interface__`. No stream is synchronised. Errors call the argument `name`.
    """
    if isinstance(obj, TensorRef):
        return obj
    try:
        if isinstance(obj, (np.ndarray, np.generic)):
            return _from_numpy(obj, name)
        if (torch := sys.modules.get("torch")) is not None and type(obj) is getattr(torch, "Tensor", None):
            return _from_torch(obj, name)
        if (cupy := sys.modules.get("cupy")) is not None and type(obj) is getattr(cupy, "ndarray", None):
            return _from_cupy(obj, name)
        if hasattr(obj, "__dlpack_device__") and hasattr(obj, "__dlpack__"):
            return _from_dlpack(obj, name)
        for attribute, device in (("__cuda_array_interface__", "cuda"), ("__array_interface__", "cpu")):
            if (interface := getattr(obj, attribute, None)) is not None:
                return _from_interface(interface, obj, device, name)
    except (InvalidProblemError, UnsupportedError):
        raise
    except Exception as error:  # exporters raise whatever they like
        raise InvalidProblemError(f"{name} cannot be viewed: {type(error).__name__}: {error}") from error
    raise InvalidProblemError(
        f"{name} is of type {type(obj).__name__}, must be a TensorRef, or an array with DLPack or an array interface"
        + (": numpy.asarray makes one" if isinstance(obj, (list, tuple)) else "")
    )


# Views made of arrays before, by dtype, shape, strides and device.
_seen: dict[Any, TensorRef] = {}
_MOST_SEEN = 4096


def _with_address(like: TensorRef, ptr: int, readonly: bool, owner: object) -> TensorRef:
    """A view like another one at another address, without checks."""
    view = _Slots()
    view.ptr, view.readonly, view.owner, view._pointer, view._sort = ptr, readonly, owner, None, like
    view.shape, view.strides, view.dtype, view.device = like.shape, like.strides, like.dtype, like.device
    view.length, view.offset, view.numel = like.length, like.offset, like.numel
    view.low, view.high = like.low, like.high
    view.__class__ = TensorRef
    return view  # type: ignore[return-value]


def _cached_view(key: Any, view: TensorRef) -> TensorRef:
    if len(_seen) >= _MOST_SEEN:
        _seen.clear()
    like = _seen[key] = _with_address(view, 0, False, None)
    object.__setattr__(like, "_sort", None)
    object.__setattr__(view, "_sort", like)
    return view


def _from_torch(obj: Any, name: str) -> TensorRef:
    """A view of a PyTorch tensor: by DLPack, or from a cached view of a similar tensor."""
    if obj.requires_grad or obj.is_neg() or obj.is_conj():
        return _from_dlpack(obj, name)
    key = (obj.dtype, obj.shape, obj.stride(), obj.device, obj.layout, obj.is_pinned())
    like = _seen.get(key)
    if like is None:
        return _cached_view(key, _from_dlpack(obj, name))
    return _with_address(like, obj.data_ptr(), False, obj)


def _from_cupy(obj: Any, name: str) -> TensorRef:
    """A view of a CuPy array, in device or managed memory; CuPy asks CUDA which."""
    key = (obj.dtype, obj.shape, obj.strides, obj.__dlpack_device__())
    like = _seen.get(key)
    if like is None:
        return _cached_view(key, _from_dlpack(obj, name))
    return _with_address(like, obj.data.ptr, False, obj)


def _from_numpy(obj: np.ndarray[Any, Any] | np.generic, name: str) -> TensorRef:
    if type(obj) is np.ndarray:
        key = (obj.dtype, obj.shape, obj.strides)
        like = _seen.get(key)
        if like is not None:
            return _with_address(like, obj.ctypes.data, not obj.flags.writeable, obj)
        return _cached_view(key, _from_any_numpy(obj, name))
    return _from_any_numpy(obj, name)


def _from_any_numpy(obj: np.ndarray[Any, Any] | np.generic, name: str) -> TensorRef:
    if isinstance(obj, np.ma.MaskedArray):
        raise UnsupportedError(f"{name}: masked array")
    array = np.asarray(obj)
    if isinstance(obj, np.generic):
        array.flags.writeable = False  # a copy of the scalar, whose writes would be lost
    dtype = as_element(array.dtype, f"{name}: dtype")
    strides = _element_strides(array.strides, dtype.itemsize, name)
    readonly = not array.flags.writeable
    return _canonical(
        TensorRef(array.ctypes.data, array.shape, dtype, strides, device="cpu", readonly=readonly, owner=array)
    )


def _from_dlpack(obj: Any, name: str) -> TensorRef:
    device = capsules.device_name(obj.__dlpack_device__())
    if device not in ("cpu", "cuda", "shared"):
        raise UnsupportedError(f"{name}: {device} memory")
    view = capsules.export(obj, device)
    dtype = from_dlpack(*view.dtype, name)
    strides = contiguous_stride(view.shape) if view.strides is None else view.strides
    known_device = None if device == "shared" else device
    owner = (obj, view.capsule)
    return _canonical(
        TensorRef(view.address, view.shape, dtype, strides, device=known_device, readonly=view.readonly, owner=owner)
    )


def _from_interface(interface: Any, obj: object, device: str, name: str) -> TensorRef:
    if not isinstance(interface, dict):
        raise InvalidProblemError(f"{name}: its array interface is {interface!r}, must be a dict")
    if interface.get("mask") is not None:
        raise UnsupportedError(f"{name}: masked array")
    data = interface.get("data")
    if not isinstance(data, tuple) or len(data) != 2:
        raise InvalidProblemError(f"{name}: its array interface has data {data!r}, must be (pointer, read-only flag)")
    dtype = from_typestr(interface.get("typestr"), name)
    shape = as_integers(f"{name}: shape", interface.get("shape"), 0)
    strides = interface.get("strides")
    steps = contiguous_stride(shape) if strides is None else _element_strides(strides, dtype.itemsize, name)
    readonly, owner = bool(data[1]), (obj, interface)
    return _canonical(TensorRef(data[0] or 0, shape, dtype, steps, device=device, readonly=readonly, owner=owner))


def _element_strides(strides: object, itemsize: int, name: str) -> tuple[int, ...]:
    steps = as_integers(f"{name}: strides", strides)
    if any([step % itemsize for step in steps]):
        raise UnsupportedError(f"{name} has strides of {steps} bytes, no multiples of its {itemsize} byte elements")
    return tuple(step // itemsize for step in steps)


def _canonical(view: TensorRef) -> TensorRef:
    """The view with canonical strides for axes of extent 1, for which exporters may give any."""
    if not view.is_dense or view.is_contiguous:
        return view
    return TensorRef(
        view.ptr, view.shape, view.dtype, length=view.length, offset=view.offset, device=view.device,
        readonly=view.readonly, owner=view.owner,
    )  # fmt: skip
