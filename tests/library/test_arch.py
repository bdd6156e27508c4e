# SPDX-License-Identifier: Apache-2.0
"""Files for one architecture: the chips that the Makefile compiles them for, and native/core/abi/arch.h's choice."""

import os
import pathlib
import re
import subprocess

import pytest

from harness import ROOT
from harness.compilers import compile_strictly, compiler

SOURCES = pathlib.Path(__file__).parent
LINKS = ("Makefile", "tools", "baracuda", "include", "native/core", "native/version_script.map")
FILES = ("plain", "mma_sm80", "mma_sm90a")


@pytest.fixture
def tree(tmp_path):
    """The project with a family of three files, two of them for one architecture."""
    for name in LINKS:
        link = tmp_path / name
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(ROOT / name)
    (tmp_path / "native/demo").mkdir()
    for name in FILES:
        (tmp_path / "native/demo" / f"{name}.cu").touch()
    return tmp_path


def commands(tree: pathlib.Path, archs: str) -> dict[str, str]:
    """The command that compiles each file in a build; its objects are those that it would link."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    result = subprocess.run(
        ["make", "-n", "build/cuda/libbaracuda_kernels.so", "INNER=1", "VENV=", "NVCC=nvcc", f"CUDA_ARCHS={archs}"],
        cwd=tree, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    lines = [line for line in result.stdout.splitlines() if " -c " in line]
    found = {pathlib.Path(re.search(r" -c (\S+)", line)[1]).stem: line for line in lines}
    link = next(line for line in result.stdout.splitlines() if "-shared" in line)
    for name in FILES:
        assert (f"obj/demo/{name}.o" in link) == (name in found)
    return found


def gencodes(command: str) -> list[str]:
    return [code.removeprefix("arch=") for code in re.findall(r"-gencode=(\S+)", command)]


def machine_code(*chips: str) -> list[str]:
    return [f"compute_{chip},code=sm_{chip}" for chip in chips]


CODES = {
    "80 86 90": {
        "plain": [*machine_code("80", "86", "90"), "compute_90,code=compute_90"],
        "mma_sm80": [*machine_code("80", "86", "90"), "compute_90,code=compute_90"],
        "mma_sm90a": machine_code("90a"),
    },
    "75 80": {
        "plain": [*machine_code("75", "80"), "compute_80,code=compute_80"],
        "mma_sm80": [*machine_code("80"), "compute_80,code=compute_80"],
    },
    "90": {"plain": machine_code("90"), "mma_sm80": machine_code("90"), "mma_sm90a": machine_code("90a")},
    "100": {"plain": machine_code("100"), "mma_sm80": machine_code("100")},
    "75": {"plain": machine_code("75")},
}
BOTH = "0: 75: 80:80 86:80 90:90a 100:80 120:80"
CHOICES = {
    "80 86 90": BOTH,
    "75 80": BOTH.replace("90a", "80"),
    "90": BOTH,
    "100": BOTH.replace("90a", "80"),
    "75": re.sub(r":\w+", ":", BOTH),
}


@pytest.mark.parametrize("archs", CODES)
def test_compiled_for(tree, archs):
    found = commands(tree, archs)
    assert {name: gencodes(found[name]) for name in FILES if name in found} == CODES[archs]


@pytest.mark.parametrize("archs", CHOICES)
def test_chosen(tree, tmp_path, archs):
    """The choice by device among the chips of a build; the program links, so that no absent file is referred to."""
    macros = re.findall(r"-DBK_HAS_\S+", commands(tree, archs)["plain"])
    program = tmp_path / "arches"
    compile_strictly(
        compiler("CXX", "g++"), "-std=c++17", "-O0", *macros, f"-I{SOURCES / 'vendor'}", f"-I{ROOT / 'native'}",
        SOURCES / "arch" / "arches.cpp", "-o", program,
    )  # fmt: skip
    result = subprocess.run([str(program)], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.strip() == CHOICES[archs]
