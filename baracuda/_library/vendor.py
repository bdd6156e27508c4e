# SPDX-License-Identifier: Apache-2.0
"""Preloads libraries that baracuda's open by soname: NVIDIA's from where cuda.pathfinder finds them, and OpenBLAS.

Names and packages of NVIDIA's are in the CUDA library's build information. The CPU library uses OpenBLAS's LAPACK for
large matrices if the package scipy-openblas64 is installed (native/linalg/lapack/lapack.h).
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import pathlib
from typing import TYPE_CHECKING, Any

from baracuda.errors import UnsupportedError

if TYPE_CHECKING:
    from baracuda._library.loader import Library

# Prefixes of ops that use a vendor's library if it can be opened.
_OPS_OF = {"cublasLt": ("gemm", "gemv", "grouped_gemm", "linear_backward")}
_OPS_OF_LAPACK = ("linalg_", "cholesky_", "lu_", "qr_", "ormqr_", "lstsq_", "solve_", "inverse_", "eig", "svd")
_tried: set[str] = set()


def before(library: Library, op: str) -> None:
    """Preload a vendor's library before the first op that uses it, from where cuda.pathfinder finds it, such as PyPI's
    packages. If that fails, the op reports it or does without.
    """
    if library.backend == "cpu":
        if "lapack" not in _tried and op.startswith(_OPS_OF_LAPACK):
            _tried.add("lapack")
            load_lapack()
        return
    for key, ops in _OPS_OF.items():
        if key not in _tried and op.startswith(ops) and key in vendors(library):
            _tried.add(key)
            with contextlib.suppress(UnsupportedError):
                preload(library, key)


def vendors(library: Library) -> dict[str, dict[str, Any]]:
    """Facts by the name for cuda.pathfinder: `name`, `sonames`, `packages` (for CUDA 13 and for CUDA 12)."""
    found: dict[str, dict[str, Any]] = library.build_info.get("vendors", {})
    return found


def preload(library: Library, key: str) -> str:
    """Load one of vendors(), so that dlopen by soname succeeds in this process, and return its path.

    UnsupportedError names the packages that hold it if it cannot be loaded.
    """
    about = vendors(library).get(key)
    if about is None:
        raise UnsupportedError(f"the {library.backend} library {library.path} uses no {key}")
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib
    except ImportError:
        return _load_by_soname(about)
    try:
        return str(load_nvidia_dynamic_lib(key).abs_path)
    except (RuntimeError, OSError) as error:  # not found, or one of its dependencies is missing
        raise _missing(about, error) from error


def load_lapack() -> str:
    """Load the LAPACK that the CPU library uses, and return its path; "" if it is off, or not found."""
    path = os.environ.get("BARACUDA_LAPACK") or _path_of_openblas()
    if path == "off":
        return ""
    try:
        ctypes.CDLL(path)
    except OSError:
        return ""
    return path


def _path_of_openblas() -> str:
    """The file in the package scipy-openblas64, else a name for the system loader."""
    soname = "libscipy_openblas64_.so"
    spec = importlib.util.find_spec("scipy_openblas64")
    path = pathlib.Path(spec.origin).with_name("lib") / soname if spec and spec.origin else None
    return str(path) if path and path.is_file() else soname


def _load_by_soname(about: dict[str, Any]) -> str:
    """The soname, if the system loader finds it or another module has loaded it."""
    reasons = []
    for soname in about["sonames"]:
        try:
            ctypes.CDLL(soname)
        except OSError as error:
            reasons.append(str(error))
        else:
            return str(soname)
    raise _missing(about, f"cuda.pathfinder is not installed, and {'; '.join(reasons)}")


def _missing(about: dict[str, Any], reason: object) -> UnsupportedError:
    text = " ".join(str(reason).split())
    return UnsupportedError(f"{about['name']} cannot be loaded: {how_to_install(about)} ({text})")


def how_to_install(about: dict[str, Any]) -> str:
    return "install the package {} (CUDA 13) or {} (CUDA 12)".format(*about["packages"])
