# SPDX-License-Identifier: Apache-2.0
"""Preloads NVIDIA's libraries, which the CUDA library opens by soname, from where cuda.pathfinder finds them.

Their names and packages are in the library's build information; the CPU library uses none.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import TYPE_CHECKING, Any

from baracuda.errors import UnsupportedError

if TYPE_CHECKING:
    from baracuda._library.loader import Library

# Prefixes of ops that use a vendor's library if it can be opened.
_OPS_OF = {"cublasLt": ("gemm", "gemv", "grouped_gemm", "linear_backward")}
_tried: set[str] = set()


def before(library: Library, op: str) -> None:
    """Preload a vendor's library before the first op that uses it, from where cuda.pathfinder finds it, such as PyPI's
    packages. If that fails, the op reports it or does without.
    """
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
