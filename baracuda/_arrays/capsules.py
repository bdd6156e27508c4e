# SPDX-License-Identifier: Apache-2.0
"""DLPack structures (dmlc/dlpack dlpack.h, versions 0.x and 1.x) and reading of capsules, by ctypes.

A capsule that is read is not marked as used: its destructor releases the tensor, so the capsule owns the memory.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

_DEVICE_NAMES = {1: "cpu", 2: "cuda", 3: "shared", 13: "shared"}  # pinned and managed memory serve both sides
READ_ONLY, _IS_COPIED = 1, 2


class Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("index", ctypes.c_int32)]


class DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("rank", ctypes.c_int32),
        ("dtype", DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
is_valid = ctypes.pythonapi.PyCapsule_IsValid
is_valid.restype, is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]


class View(NamedTuple):
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # in elements
    dtype: tuple[int, int, int]  # type code, bits, lanes
    readonly: bool  # also true for a copy, whose writes would be lost
    capsule: object


def device_name(device: tuple[int, int]) -> str:
    """ "cpu", "cuda", "shared" (either side may touch it), or "DLPack device <n>"."""
    kind = int(device[0])
    return _DEVICE_NAMES.get(kind, f"DLPack device {kind}")


def export(obj: Any, device: str) -> View:
    """Get a capsule from `obj` without synchronisation, and read it. JAX would take -1 for a stream handle."""
    stream = {"stream": -1} if device == "cuda" and not hasattr(obj, "block_until_ready") else {}
    try:
        capsule = obj.__dlpack__(max_version=(1, 0), **stream)
    except TypeError:  # an exporter older than version 1
        capsule = obj.__dlpack__(**stream)
    return read(capsule)


def read(capsule: object) -> View:
    """The tensor of a capsule."""
    if is_valid(capsule, b"dltensor_versioned"):
        managed = ctypes.cast(_get_pointer(capsule, b"dltensor_versioned"), ctypes.POINTER(Versioned)).contents
        if managed.major != 1:
            raise ValueError(f"DLPack version {managed.major}.{managed.minor}")
        content, readonly = managed.tensor, bool(managed.flags & (READ_ONLY | _IS_COPIED))
    elif is_valid(capsule, b"dltensor"):
        content, readonly = ctypes.cast(_get_pointer(capsule, b"dltensor"), ctypes.POINTER(Tensor)).contents, False
    else:
        raise ValueError("__dlpack__ gave no DLPack capsule")
    return View(
        address=(content.data or 0) + content.byte_offset,
        shape=tuple(content.shape[: content.rank]) if content.rank else (),
        strides=tuple(content.strides[: content.rank]) if content.rank and content.strides else None,
        dtype=(content.dtype.code, content.dtype.bits, content.dtype.lanes),
        readonly=readonly,
        capsule=capsule,
    )


def rewrite(capsule: object, device: tuple[int, int], dtype: tuple[int, int], minor: int) -> None:
    """Write another device and dtype into an unread capsule, and the minor version if it is versioned."""
    if is_valid(capsule, b"dltensor_versioned"):
        managed = ctypes.cast(_get_pointer(capsule, b"dltensor_versioned"), ctypes.POINTER(Versioned)).contents
        managed.minor, content = minor, managed.tensor
    else:
        content = ctypes.cast(_get_pointer(capsule, b"dltensor"), ctypes.POINTER(Tensor)).contents
    content.device, content.dtype = Device(*device), DataType(*dtype, 1)
