# SPDX-License-Identifier: Apache-2.0
"""Compiles programs against the header, with warnings as errors, and runs them with a library."""

import os
import pathlib
import shlex
import shutil
import subprocess

from .launch import ROOT

C_SOURCES = ROOT / "tests" / "library" / "c_abi"
STRICT = ["-Wall", "-Wextra", "-Werror", "-Wpedantic"]
PROGRAMS = {
    "c": ("CC", "gcc", ["-std=c11"], "smoke.c"),
    "cpp": ("CXX", "g++", ["-std=c++17"], "smoke.cpp"),
}


def compiler(variable: str, default: str) -> list[str]:
    command = shlex.split(os.environ.get(variable) or default)
    assert shutil.which(command[0]), f"{command[0]} is not installed: these tests need a compiler, set {variable}"
    return command


def compile_strictly(command: list[str], *arguments: object) -> None:
    # A sanitizer that is preloaded into the tests must not be loaded into the compiler.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    result = subprocess.run(
        [*command, *STRICT, *map(str, arguments)], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


def compile_and_run(
    language: str, source: pathlib.Path, library: pathlib.Path, folder: pathlib.Path, *arguments: str
) -> str:
    """Standard output of the program, linked with the library."""
    variable, default, flags, _ = PROGRAMS[language]
    program = folder / "program"
    # A program asks for the library by its soname.
    for name in ("libbaracuda_kernels.so", "libbaracuda_kernels.so.1"):
        (folder / name).symlink_to(library)
    compile_strictly(
        compiler(variable, default), *flags, *arguments, f"-I{ROOT / 'include'}", source, "-o", program, f"-L{folder}",
        f"-Wl,-rpath,{folder}", "-lbaracuda_kernels", "-lm", "-pthread",
    )  # fmt: skip
    result = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout
