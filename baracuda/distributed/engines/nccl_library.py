# SPDX-License-Identifier: Apache-2.0
"""NCCL's C functions, from a library that is opened at the first use: the one that the process has loaded already, that
of PyPI's package, which a framework that is imported later needs, or the one that the system's loader finds.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import os
import pathlib

from baracuda.distributed.errors import NcclError
from baracuda.dtypes import ElementKind
from baracuda.errors import UnsupportedError

PACKAGES = "nvidia-nccl-cu13 (CUDA 13) or nvidia-nccl-cu12 (CUDA 12)"
LIBRARY = "BARACUDA_NCCL_LIBRARY"  # a path that goes before all others
_SONAME = "libnccl.so.2"
OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}
DTYPES = {
    ElementKind.S8: 0, ElementKind.U8: 1, ElementKind.I32: 2, ElementKind.U32: 3, ElementKind.I64: 4,
    ElementKind.U64: 5, ElementKind.F16: 6, ElementKind.F32: 7, ElementKind.F32_STRICT: 7, ElementKind.F64: 8,
    ElementKind.BF16: 9, ElementKind.BOOL: 1,
}  # fmt: skip
BYTES = 1  # ncclUint8, for what is moved only


class UniqueId(ctypes.Structure):
    """ncclUniqueId"""

    _fields_ = [("internal", ctypes.c_char * 128)]


_POINTER, _SIZE, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_SIGNATURES: dict[str, tuple[object, ...]] = {
    "ncclGetVersion": (ctypes.POINTER(_INT),),
    "ncclGetUniqueId": (ctypes.POINTER(UniqueId),),
    "ncclCommInitRank": (ctypes.POINTER(_POINTER), _INT, UniqueId, _INT),
    "ncclCommDestroy": (_POINTER,),
    "ncclCommAbort": (_POINTER,),
    "ncclCommCount": (_POINTER, ctypes.POINTER(_INT)),
    "ncclCommUserRank": (_POINTER, ctypes.POINTER(_INT)),
    "ncclCommGetAsyncError": (_POINTER, ctypes.POINTER(_INT)),
    "ncclAllReduce": (_POINTER, _POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
    "ncclAllGather": (_POINTER, _POINTER, _SIZE, _INT, _POINTER, _POINTER),
    "ncclReduceScatter": (_POINTER, _POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
    "ncclReduce": (_POINTER, _POINTER, _SIZE, _INT, _INT, _INT, _POINTER, _POINTER),
    "ncclBroadcast": (_POINTER, _POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
    "ncclSend": (_POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
    "ncclRecv": (_POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
    "ncclGroupStart": (),
    "ncclGroupEnd": (),
}


class Nccl:
    """The functions, each of which raises NcclError for a status that is not 0."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        for name, arguments in _SIGNATURES.items():
            function = getattr(library, name)
            function.argtypes, function.restype = list(arguments), _INT
        library.ncclGetErrorString.restype = ctypes.c_char_p
        library.ncclGetErrorString.argtypes = [_INT]

    def call(self, name: str, *arguments: object) -> None:
        status = getattr(self.library, name)(*arguments)
        if status:
            raise NcclError(f"{name}: {self.text(status)}", symbol=name)

    def text(self, status: int) -> str:
        found = self.library.ncclGetErrorString(status)
        return f"status {status}" + (f", {found.decode(errors='replace')}" if found else "")

    @property
    def version(self) -> tuple[int, int, int]:
        number = _INT()
        self.call("ncclGetVersion", ctypes.byref(number))
        return number.value // 10000, number.value // 100 % 100, number.value % 100


@functools.cache
def nccl() -> Nccl:
    """NCCL; UnsupportedError names the packages that have it if it cannot be opened."""
    reasons = []
    for path in _candidates():
        try:
            return Nccl(ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL))
        except (OSError, AttributeError) as error:
            reasons.append(str(error))
    raise UnsupportedError(f"NCCL cannot be loaded: install the package {PACKAGES} ({'; '.join(reasons)})")


def _candidates() -> list[str]:
    if given := os.environ.get(LIBRARY):
        return [given]
    found = []
    with contextlib.suppress(OSError):
        ctypes.CDLL(_SONAME, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        found = [_SONAME]
    try:
        package = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        package = None
    for folder in (package.submodule_search_locations or ()) if package is not None else ():
        found += [str(path) for path in sorted(pathlib.Path(folder).glob(f"lib/{_SONAME}*"))]
    return [*found, _SONAME]
