# SPDX-License-Identifier: Apache-2.0
"""Kernels of the CUDA library without a GPU: gpu_on_threads stands in for CUDA, fibers for its threads."""

import pathlib
import subprocess

import pytest

from harness import ROOT
from harness.compilers import compile_strictly, compiler

pytestmark = pytest.mark.unsanitized("it builds a program of its own, without sanitizers")

SOURCES = pathlib.Path(__file__).parents[1] / "gpu_on_threads"


PROGRAMS = sorted([*SOURCES.glob("*.cpp"), *SOURCES.glob("attention/*.cpp")])


@pytest.mark.parametrize("source", PROGRAMS, ids=lambda path: path.relative_to(SOURCES).with_suffix("").as_posix())
def test_kernels(tmp_path, source):
    program = tmp_path / source.stem
    # Some compilers call vectors that no loop reads uninitialised, and variables that only an empty pack uses unused.
    compile_strictly(
        compiler("CXX", "g++"), "-std=c++17", "-O1", "-Wno-pedantic", "-Wno-unknown-pragmas", "-Wno-psabi",
        "-Wno-unknown-warning-option", "-Wno-maybe-uninitialized", "-Wno-unused-but-set-parameter",
        "-Wno-unused-but-set-parameter", "-Wno-unused-but-set-variable",
        f"-I{SOURCES}", f"-I{ROOT / 'native'}", source, "-o", program, "-pthread",
    )  # fmt: skip
    result = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout == "ok\n"
