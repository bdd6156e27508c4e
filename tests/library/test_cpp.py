# SPDX-License-Identifier: Apache-2.0
"""The C++ wrappers that tools/gen_cpp.py writes: every function of the C header has one, and they compile and run.

BARACUDA_CXX names the compilers, "g++ clang++" in CI; without it CXX's is tried.
"""

import importlib
import os
import re
import shlex
import shutil
import subprocess

import pytest

from harness import ROOT
from harness.compilers import C_SOURCES, STRICT, compile_and_run, compile_strictly, compiler

WRAPPERS = ROOT / "build" / "include"
INCLUDES = [f"-I{ROOT / 'include'}", f"-I{WRAPPERS}"]
COMPILERS = os.environ.get("BARACUDA_CXX", "").split() or [shlex.join(compiler("CXX", "g++"))]
COMPILED_ALONE = pytest.mark.unsanitized("it runs nothing")
EACH_COMPILER = pytest.mark.parametrize("cxx", COMPILERS)


def has_rows(table):
    """Tables of functions alone have no typed wrappers."""
    sections = f"\n{table.read_text()}".split("\n[")[1:]
    return not sections or any("\nfunction =" not in section for section in sections)


@EACH_COMPILER
def test_they_run(cxx, cpu_library, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", cxx)
    source = C_SOURCES / "wrapper.cpp"
    assert compile_and_run("cpp", source, cpu_library, tmp_path, *INCLUDES) == "ok\n"


@COMPILED_ALONE
@EACH_COMPILER
def test_headers_in_any_order_and_standard(cxx, tmp_path):
    tables = sorted((path.relative_to(WRAPPERS) for path in WRAPPERS.glob("baracuda/*/*.hpp")), reverse=True)
    assert len(tables) == len([path for path in (ROOT / "native").rglob("*.abi") if has_rows(path)])
    source = tmp_path / "all.cpp"
    source.write_text("".join(f"#include <{name}>\n" for name in tables) + "#include <baracuda/kernels.hpp>\n")
    compile_strictly(shlex.split(cxx), "-std=c++20", *INCLUDES, "-fsyntax-only", source)


@COMPILED_ALONE
def test_every_function_of_the_header_is_called():
    declared = re.findall(r"\b(baracuda_kernels_\w+_(?:run|can_implement|workspace_size))\(", text(ROOT / "include"))
    functions = importlib.import_module("abi_functions").read_functions()  # which are no ops, and have no wrappers
    declared = {*declared} - {name for each in functions for name, _, _ in each.instances()}
    called = re.findall(r"\b(baracuda_kernels_\w+_(?:run|can_implement|workspace_size))\(", text(WRAPPERS / "baracuda"))
    assert len(declared) > 6000
    assert sorted(declared) == sorted(set(called))


def text(folder):
    return "".join(path.read_text() for path in sorted(folder.rglob("*.h*")))


@COMPILED_ALONE
@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        ("baracuda::binary_lerp(2, single, single, single, 0.5f)", None),
        ("baracuda::binary_lerp(2, single, twice, single, 0.5f)", "no matching function"),
        ("baracuda::binary_lerp(2, elements, elements, elements, 0.5f)", "no matching function"),
        ("baracuda::binary_lerp(2, twice, twice, read, 0.5f)", "invalid conversion from 'const"),
        ("baracuda::binary_lerp_can_implement<float>(2, 0.5f)", None),
        ("baracuda::binary_lerp_can_implement<char>(2, 0.5f)", "undefined reference"),
    ],
)
def test_types_are_checked(call, complaint, cpu_library, tmp_path):
    source = tmp_path / "call.cpp"
    source.write_text(
        '#include "baracuda/elementwise/lerp.hpp"\n'
        "float single[2]; double twice[2]; const double read[2] = {}; char elements[2];\n"
        f"int main() {{ {call}; }}\n"
    )
    command = [*compiler("CXX", "g++"), *STRICT, "-std=c++17", *INCLUDES, str(source), "-o", str(tmp_path / "call")]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"} | {"LC_ALL": "C"}
    result = subprocess.run([*command, str(cpu_library)], env=environment, capture_output=True, text=True, check=False)
    assert (result.returncode == 0) == (complaint is None), result.stderr
    assert (complaint or "") in result.stderr


@COMPILED_ALONE
def test_the_compilers_are_there():
    assert [cxx for cxx in COMPILERS if shutil.which(shlex.split(cxx)[0]) is None] == []
