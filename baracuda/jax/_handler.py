# SPDX-License-Identifier: Apache-2.0
"""Compiles, opens and registers the XLA FFI handler that calls the library (_handler.cpp).

It depends on jaxlib's version and on the signatures of the library's functions only. `make jax` compiles it into
build/jax; otherwise `CXX` or g++ compiles it at the first call, and it is cached in $XDG_CACHE_HOME/baracuda.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import pathlib
import shlex
import subprocess
import tempfile
import threading
from collections.abc import Iterator

import jax
import jaxlib

from baracuda._functions.spec import specs
from baracuda._library.loader import Library
from baracuda._library.op_table import Op, ops
from baracuda.errors import UnsupportedError

TARGET = "baracuda"
_PACKAGE = pathlib.Path(__file__).resolve().parents[1]
BUILT = _PACKAGE.parent / "build" / "jax"  # what `make jax` compiles
_SOURCE = pathlib.Path(__file__).with_name("_handler.cpp")
_BACKENDS = {"cpu": (0, "cpu"), "cuda": (1, "CUDA")}  # the handler's number, XLA's platform name
_LETTERS = {
    "i8": ("c", "int8_t"), "u8": ("b", "uint8_t"), "bool": ("b", "uint8_t"), "i16": ("s", "int16_t"),
    "u16": ("h", "uint16_t"), "i32": ("i", "int32_t"), "u32": ("u", "uint32_t"), "i64": ("l", "int64_t"),
    "u64": ("m", "uint64_t"), "f32": ("f", "float"), "f64": ("d", "double"), "pointer": ("p", "void*"),
}  # fmt: skip
# Ops without a spec: on any number of arrays, or on arrays that they also read.
_BY_HAND = {
    "concat_{T}", "concat_backward_{T}", "paged_kv_append_{T}", "paged_kv_append_quantized_{T}_{U}",
}  # fmt: skip
_lock = threading.Lock()
_registered: set[str] = set()


def signature(op: Op) -> str:
    """A letter for each parameter of `_run`."""
    own = [
        "pointer" if p.is_pointer or p.is_list or p.direction == "host" else p.dtype_of(op.slots) for p in op.row.params
    ]
    return "".join([_LETTERS[each][0] for each in [*own, *([] if op.row.is_bare else ["pointer", "i64"]), "pointer"]])


def register(library: Library) -> None:
    """Register a library with XLA for the platform of its backend."""
    with _lock:
        if library.backend in _registered:
            return
        handler, (number, platform) = _handler(), _BACKENDS[library.backend]
        handler.baracuda_jax_open.restype = ctypes.c_char_p
        if wrong := handler.baracuda_jax_open(number, os.fsencode(library.path)):
            raise UnsupportedError(f"{library.path}: {wrong.decode('utf-8', 'replace')}")
        entry = getattr(handler, f"baracuda_jax_{library.backend}")
        jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(entry), platform=platform)
        _allow_export()
        _registered.add(library.backend)


def _allow_export() -> None:
    """Let jax.export accept programs with calls of the handler: they name C functions and signatures, which are a
    stable ABI. JAX's list of stable targets is private; without it callers must disable the check.
    """
    with contextlib.suppress(ImportError, AttributeError):
        from jax._src.export import _export

        _export._CUSTOM_CALL_TARGETS_GUARANTEED_STABLE.add(TARGET)


@functools.cache
def _handler() -> ctypes.CDLL:
    name = f"libbaracuda_jax-{_version()}.so"
    folders = [_PACKAGE / "libs" / "jax", BUILT]
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "baracuda"
    path = next((folder / name for folder in (*folders, cache) if (folder / name).exists()), None)
    return ctypes.CDLL(str(path or compiled(cache)))


def _version() -> str:
    """jaxlib's version and a hash of the source and the signatures."""
    text = _SOURCE.read_text() + "".join(_table())
    return f"{jaxlib.version.__version__}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def compiled(folder: pathlib.Path) -> pathlib.Path:
    """Compile the handler into a folder and return its path."""
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"libbaracuda_jax-{_version()}.so"
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        table, result = pathlib.Path(scratch) / "signatures.inc", pathlib.Path(scratch) / path.name
        table.write_text("".join(_table()))
        compiler = shlex.split(os.environ.get("CXX") or "g++")
        command = [*compiler, "-std=c++17", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra",
                   f"-isystem{jax.ffi.include_dir()}", f'-DBARACUDA_SIGNATURES="{table}"', str(_SOURCE),
                   "-o", str(result), "-ldl"]  # fmt: skip
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except FileNotFoundError:
            raise UnsupportedError(f"baracuda.jax compiles its handler, but there is no {compiler[0]}") from None
        except subprocess.CalledProcessError as error:
            raise UnsupportedError(f"baracuda.jax cannot compile its handler: {error.stderr[-2000:]}") from None
        result.replace(path)  # atomic, as other processes may compile it too
    return path


def _table() -> Iterator[str]:
    """A macro line for each signature of a function on arrays."""
    types = dict(_LETTERS.values())
    patterns = {pattern for spec in specs().values() for each in (spec, *spec.others) for pattern in each.patterns}
    patterns |= {f"{pattern}_strided" for pattern in patterns} | _BY_HAND
    found = {signature(op) for op in ops().values() if op.row.pattern.replace("{F}", op.function) in patterns}
    for each in sorted(found):
        yield f'BARACUDA_SIGNATURE("{each}", {", ".join([types[letter] for letter in each])})\n'
