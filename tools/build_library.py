"""What `pip install` and `pip wheel` do beside packing files: build the libraries and the bindings, with make.

A wheel holds the CPU library, and the CUDA library where `make cuda` has built one and BACKENDS=cpu in the environment
does not leave it out; and the headers of C and C++. It fits every Python 3 of its platform.
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


def missing() -> list[str]:
    """Programs of the build that are not on PATH."""
    compiler = shlex.split(os.environ.get("CXX") or "g++")[0]
    return [program for program in ("make", compiler) if shutil.which(program) is None]


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
        raise PlatformError(f"the build of baracuda failed, what make said stands above: {shlex.join(command)}")


class BuildPackage(build_py):
    """Modules, generated bindings, libraries. An editable install uses those of the checkout."""

    def run(self) -> None:
        if self.editable_mode:
            make("cpu", "gen")
            super().run()
            return
        package = pathlib.Path(self.build_lib).resolve() / "baracuda"
        shutil.rmtree(package, ignore_errors=True)  # of an earlier build, with what has been deleted since
        make("package-libs", "gen", f"PACKAGE={package}")
        super().run()


class BinaryWheel(bdist_wheel):
    def finalize_options(self) -> None:
        self.distribution.has_ext_modules = lambda: True  # of a kind: the package goes where those go
        super().finalize_options()

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]
