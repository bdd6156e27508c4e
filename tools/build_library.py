# SPDX-License-Identifier: Apache-2.0
"""setuptools commands of `pip install` and `pip wheel`: they build the libraries and the bindings with make.

A wheel has the CPU library and the headers of C and C++. It has the CUDA library if `make cuda` has built one, or if
nvcc is found and the chips are known: from CUDA_ARCHS ("80 90"), or from this machine's GPUs. BACKENDS=cpu in the
environment leaves the CUDA library out; BACKENDS="cpu cuda" requires it, by default for the chips of a release.
A wheel fits every Python 3 of its platform.
"""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys

from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.errors import PlatformError

ROOT = pathlib.Path(__file__).resolve().parent.parent
CUDA = ROOT / "build" / "cuda" / "libbaracuda_kernels.so"


def missing() -> list[str]:
    """Programs that the build needs and PATH lacks."""
    compiler = shlex.split(os.environ.get("CXX") or "g++")[0]
    return [program for program in ("make", compiler) if shutil.which(program) is None]


def backends() -> list[str]:
    """Backends whose libraries are built."""
    asked = os.environ.get("BACKENDS", "").split()
    if unknown := set(asked) - {"cpu", "cuda"}:
        raise PlatformError(f"BACKENDS has {' and '.join(sorted(unknown))}, must be cpu, or cpu and cuda")
    can_be_had = CUDA.exists() or shutil.which("nvcc") is not None
    if "cuda" in asked and not can_be_had:
        raise PlatformError(
            "BACKENDS asks for the CUDA library, and nvcc cannot be found: put that of a CUDA toolkit, 12.4 or newer, "
            "on PATH, or install the package baracuda-cuda13, which holds the library"
        )
    if asked or not can_be_had:
        return ["cpu", "cuda"] if "cuda" in asked else ["cpu"]
    if CUDA.exists() or "CUDA_ARCHS" in os.environ or chips():
        return ["cpu", "cuda"]
    print(
        "baracuda: nvcc is here and no GPU: building the CPU library alone. CUDA_ARCHS='80 90', say, compiles the CUDA "
        "library for these chips.",
        file=sys.stderr,
    )
    return ["cpu"]


def chips() -> list[str]:
    """Argument of make for the GPUs here: CUDA_ARCHS="80 90", or nothing if they are unknown."""
    program = shutil.which("nvidia-smi")
    if "CUDA_ARCHS" in os.environ or program is None:
        return []
    query = [program, "--query-gpu=compute_cap", "--format=csv,noheader"]
    found = subprocess.run(query, capture_output=True, text=True, check=False).stdout.split()
    numbers = sorted({int(each.replace(".", "")) for each in found if each.replace(".", "").isdigit()})
    return [f"CUDA_ARCHS={' '.join(map(str, numbers))}"] if numbers else []


def make(*targets: str) -> None:
    if not sys.platform.startswith("linux"):
        raise PlatformError(f"baracuda runs on Linux, this is {sys.platform}")
    if programs := missing():
        raise PlatformError(
            f"baracuda is built from source with make and g++, and {' and '.join(programs)} cannot be found; on Debian "
            "`apt-get install make g++` installs them, and CXX names another compiler"
        )
    command = ["make", *targets, "VENV=", f"PYTHON={sys.executable}"]
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        raise PlatformError(f"the build of baracuda failed, see the output of make above: {shlex.join(command)}")


class BuildPackage(build_py):
    """Modules, generated bindings, libraries. An editable install uses those of the checkout."""

    def run(self) -> None:
        if self.editable_mode:
            make("cpu", "gen")
            super().run()
            return
        package = pathlib.Path(self.build_lib).resolve() / "baracuda"
        shutil.rmtree(package, ignore_errors=True)  # an earlier build may have modules that were deleted since
        wanted = backends()
        if "cuda" in wanted and not CUDA.exists():
            make("cuda", *chips())
        make("package-libs", "gen", f"PACKAGE={package}", f"BACKENDS={' '.join(wanted)}")
        super().run()


class BinaryWheel(bdist_wheel):
    def finalize_options(self) -> None:
        self.distribution.has_ext_modules = lambda: True  # of a kind: the package goes where those go
        super().finalize_options()

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]
