# SPDX-License-Identifier: Apache-2.0
"""Finds, opens and checks the C library.

Order: BARACUDA_LIB (a file), BARACUDA_BACKEND (cpu or cuda), the CUDA library where a device answers, the CPU library.
The candidates of a backend are libs/<backend>/ in this package (wheel), the packages with the CUDA library only
(CUDA_PACKAGES), build/<backend>/ beside this package (checkout), and the system loader. An explicit choice that fails
raises; an automatic one falls back and logs at level INFO.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import os
import pathlib
import threading
from typing import Any

from baracuda._library import vendor
from baracuda._library.param import symbol_of
from baracuda.errors import InvalidProblemError, LibraryNotFoundError, UnsupportedError, raise_for_status

SONAME = "libbaracuda_kernels.so"
PREFIX = "baracuda_kernels_"
BACKENDS = ("cpu", "cuda")
CUDA_PACKAGES = ("baracuda_cuda13", "baracuda_cuda12")

_HOW_TO_BUILD = "in a checkout `make cpu gen` writes them; an installed package has them"

_log = logging.getLogger("baracuda")
_PACKAGE = pathlib.Path(__file__).resolve().parents[1]
_lock = threading.RLock()
_opened: dict[str, Library] = {}
_default: Library | None = None


class Library:
    """One opened library: `ffi`, `lib` (cffi), `path`, `backend` ("cpu" or "cuda") and `build_info`."""

    def __init__(self, ffi: Any, lib: Any, path: str, build_info: dict[str, Any]) -> None:
        self.ffi = ffi
        self.lib = lib
        self.path = path
        self.build_info = build_info
        self.backend: str = build_info["backend"]
        self._functions: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"<baracuda {self.backend} library {self.path}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.path, self.backend)

    def __copy__(self) -> Library:
        return self

    def __deepcopy__(self, _memo: object) -> Library:
        return self

    def symbols(self) -> list[str]:
        """Names of all exported functions, in header order."""
        count = self.lib.baracuda_kernels_symbol_count()
        return [self._string(self.lib.baracuda_kernels_symbol_name(i)) for i in range(count)]

    def function(self, op: str, kind: str = "run") -> Any:
        """C function of an op such as "alibi_f32"; kind is "run", "can_implement" or "workspace_size"."""
        name = symbol_name(op, kind)
        function = self._functions.get(name)
        if function is None:
            vendor.before(self, op)
            with contextlib.suppress(AttributeError, self.ffi.error):  # not declared; declared, but not in the file
                function = self._functions[name] = getattr(self.lib, name)
        if function is None:
            raise UnsupportedError(f"{self.path}{self._restriction()} has no symbol {name}", symbol=name)
        return function

    def _restriction(self) -> str:
        """The families and dtypes of a restricted build, for messages; empty for a full one."""
        limits = [f"{key} {' '.join(self.build_info[key])}" for key in ("families", "dtypes") if key in self.build_info]
        return f", built for {' and '.join(limits)} alone," if limits else ""

    def last_error(self) -> str:
        """Text of the calling thread's last failure."""
        return self._string(self.lib.baracuda_kernels_last_error())

    def status_name(self, status: int) -> str:
        return self._string(self.lib.baracuda_kernels_status_name(status))

    def check(self, symbol: str, status: int) -> None:
        """Raise the exception of `status` if it is not 0."""
        if status:
            raise_for_status(self, symbol, status)

    def _string(self, pointer: Any) -> str:
        text: str = self.ffi.string(pointer).decode("utf-8", "replace")
        return text


def symbol_name(op: str, kind: str = "run") -> str:
    return symbol_of(op, kind)


def load(path: str | os.PathLike[str] | None = None, backend: str | None = None) -> Library:
    """Open a library: the file `path`, or the one of `backend`, or the one that the environment and machine choose.

    LibraryNotFoundError lists every path tried and why it was refused.
    """
    if path is not None and not isinstance(path, (str, bytes, os.PathLike)):
        raise InvalidProblemError(f"path is {path!r}, must be a path")
    if backend is not None and not (isinstance(backend, str) and backend in BACKENDS):
        raise InvalidProblemError(f"backend is {backend!r}, must be one of {', '.join(BACKENDS)}")
    tried: list[tuple[str, str]] = []
    with _lock:
        if path is not None:
            return _explicit("the given library", [os.fsdecode(path)], backend, tried)
        if backend is not None:
            return _explicit(f"a {backend} library", _named_or_found(backend), backend, tried)
        return _choose(tried)


def _reopen(path: str, backend: str) -> Library:
    """Unpickle a library: from the same file or, if it is missing, the library of its backend."""
    with _lock:
        return _explicit(f"a {backend} library", [path, *_named_or_found(backend)], backend, [])


def _named_or_found(backend: str) -> list[str]:
    """BARACUDA_LIB, or else the candidates of the backend."""
    return [*filter(None, [os.environ.get("BARACUDA_LIB")]), *_candidates(backend)]


def default_library() -> Library:
    """The library used if none is named; opened on the first call."""
    global _default
    if _default is None:
        with _lock:
            if _default is None:
                _default = load()
    return _default


def cuda_unavailable() -> str:
    """Why no CUDA device can be used; empty if one answers."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        return f"cuda-python is not usable ({error})"
    try:
        (status,) = driver.cuInit(0)
        if status == driver.CUresult.CUDA_SUCCESS:
            status, count = driver.cuDeviceGetCount()
            if status == driver.CUresult.CUDA_SUCCESS:
                return "" if count else "the driver reports no device"
        return f"the driver answers {status.name}"
    except Exception as error:  # a missing libcuda surfaces as RuntimeError or as the loader's own types
        return f"no CUDA driver ({error})"


def _choose(tried: list[tuple[str, str]]) -> Library:
    wanted = os.environ.get("BARACUDA_BACKEND") or None
    if wanted is not None and wanted not in BACKENDS:
        raise LibraryNotFoundError(f"BARACUDA_BACKEND is {wanted!r}, must be one of {', '.join(BACKENDS)}")
    if path := os.environ.get("BARACUDA_LIB"):
        return _explicit("the library of BARACUDA_LIB", [path], wanted, tried)
    if wanted:
        return _explicit(f"a {wanted} library (BARACUDA_BACKEND)", _candidates(wanted), wanted, tried)
    if reason := cuda_unavailable():
        tried.append(("cuda", reason))
    elif library := _first(_candidates("cuda"), "cuda", tried):
        return library
    if library := _first(_candidates("cpu"), "cpu", tried):
        _log.info("CPU library %s; %s", library.path, "; ".join(f"{where}: {reason}" for where, reason in tried))
        return library
    raise LibraryNotFoundError("found no baracuda library; tried", tuple(tried))


def _explicit(what: str, paths: list[str], backend: str | None, tried: list[tuple[str, str]]) -> Library:
    if library := _first(paths, backend, tried):
        return library
    raise LibraryNotFoundError(f"cannot use {what}; tried", tuple(tried))


def _candidates(backend: str) -> list[str]:
    own, built = _PACKAGE / "libs" / backend / SONAME, _PACKAGE.parent / "build" / backend / SONAME
    return [str(own), *(_cuda_packages() if backend == "cuda" else ()), str(built), SONAME]


def _cuda_packages() -> list[str]:
    """The libraries in CUDA_PACKAGES."""
    specs = map(importlib.util.find_spec, CUDA_PACKAGES)
    return [str(pathlib.Path(spec.origin).with_name(SONAME)) for spec in specs if spec and spec.origin]


def _first(paths: list[str], backend: str | None, tried: list[tuple[str, str]]) -> Library | None:
    for path in paths:
        try:
            return _open(path, backend)
        except _RefusedError as reason:
            tried.append((path, str(reason)))
    return None


class _RefusedError(Exception):
    """Why a candidate cannot be used."""


def _open(path: str, backend: str | None) -> Library:
    library = _opened.get(path)
    if library is None:
        library = _opened[path] = _handshake(path)
    if backend is not None and library.backend != backend:
        raise _RefusedError(f"is a {library.backend} library, not {backend}")
    return library


def _handshake(path: str) -> Library:
    try:
        from baracuda._ffi import ffi
        from baracuda._oplist import ABI_HASH
    except ImportError as error:
        raise _RefusedError(f"the generated bindings are missing ({error}): {_HOW_TO_BUILD}") from None
    if not path or "\0" in path:  # the loader takes "" for the program itself
        raise _RefusedError("is no path")
    try:
        lib = ffi.dlopen(path)
    except OSError as error:
        raise _RefusedError(str(error)) from None
    try:
        version, found = lib.baracuda_kernels_abi_version(), ffi.string(lib.baracuda_kernels_abi_hash()).decode()
        info = json.loads(ffi.string(lib.baracuda_kernels_build_info()))
    except (ffi.error, AttributeError) as error:
        raise _RefusedError(f"is no baracuda library ({error})") from None
    except ValueError as error:
        raise _RefusedError(f"its build information is no JSON ({error})") from None
    if version != lib.BARACUDA_ABI_VERSION:
        raise _RefusedError(f"has ABI version {version}, this package needs {lib.BARACUDA_ABI_VERSION}")
    if found != ABI_HASH:
        raise _RefusedError(f"has ABI hash {found}, this package was made for {ABI_HASH}")
    if info.get("backend") not in BACKENDS:
        raise _RefusedError(f"its build information names backend {info.get('backend')!r}")
    return Library(ffi, lib, path, info)
