"""NVIDIA's libraries that ops of the CUDA library open by soname: loads them from where cuda.pathfinder finds them.

What they are called and which packages hold them comes from the library's build information; the CPU library uses none.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import TYPE_CHECKING, Any

from baracuda.errors import UnsupportedError

if TYPE_CHECKING:
    from baracuda._lib import Library

# What the names of ops begin with that a vendor's library serves where it can be opened.
_SERVES = {"cublasLt": ("gemm", "gemv", "grouped_gemm", "linear_backward")}
_tried: set[str] = set()


def before(library: Library, op: str) -> None:
    """Before the first op that a vendor's library serves, load that from where cuda.pathfinder finds it, as in PyPI's
    packages. Where it cannot be loaded the op says so itself, or does without.
    """
    for key, ops in _SERVES.items():
        if key not in _tried and op.startswith(ops) and key in vendors(library):
            _tried.add(key)
            with contextlib.suppress(UnsupportedError):
                preload(library, key)


def vendors(library: Library) -> dict[str, dict[str, Any]]:
    """By cuda.pathfinder's name: `name`, `sonames`, `packages` (for CUDA 13 and for CUDA 12)."""
    return library.build_info.get("vendors", {})


def preload(library: Library, key: str) -> str:
    """Load one of vendors(), whose dlopen by soname then succeeds in this process; where it was found.

    UnsupportedError names the packages that hold it where it cannot be loaded.
    """
    about = vendors(library).get(key)
    if about is None:
        raise UnsupportedError(f"the {library.backend} library {library.path} uses no {key}")
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib
    except ImportError:
        return _by_soname(about)
    try:
        return str(load_nvidia_dynamic_lib(key).abs_path)
    except (RuntimeError, OSError) as error:  # not found; found, but something that it needs is not
        raise _missing(about, error) from error


def _by_soname(about: dict[str, Any]) -> str:
    """Where the system loader knows it, or another module has loaded it."""
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
