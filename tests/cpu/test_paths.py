# SPDX-License-Identifier: Apache-2.0
"""BARACUDA_CPU_ISA forces each ISA path that the machine has. Pointwise functions below f64 give the same bits on all
of them; ops whose bits may differ are compared with the references on each path."""

import functools
import json
import os
import pathlib
import subprocess
import sys

import pytest

import baracuda as bk
from harness.child import child_environment

pytestmark = pytest.mark.unsanitized("the sanitized library has one path, so there is none to compare it with")

TESTS = pathlib.Path(__file__).resolve().parents[1]
NAMES = ("baseline", "avx2", "avx512")


def others(library):
    """Paths of the machine except for the one in use."""
    isa = library.build_info.get("isa", NAMES[0])
    return NAMES[: NAMES.index(isa)]


def python(path, *arguments):
    environment = child_environment(BARACUDA_LIB=bk.default_library().path, BARACUDA_CPU_ISA=path)
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=TESTS.parent, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"{path}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@functools.cache
def digests(path):
    found = json.loads(python(path, str(TESTS / "cpu" / "path_digests.py"), "f32", "f16", "bf16"))
    return found["isa"], found["digests"]


def test_same_bits(library):
    isa, wanted = digests(library.build_info.get("isa", ""))
    assert isa == library.build_info.get("isa")
    assert len(wanted) > 500
    for path in others(library):
        forced, found = digests(path)
        assert forced == path
        different = [op for op in wanted if found[op] != wanted[op]]
        assert not different, f"{len(different)} results differ between {isa} and {path}: {different[:8]}"


def test_references_of_f64(library):
    """Functions and gradients of f64 are within the bounds of test_ops on each path."""
    for path in others(library):
        python(path, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TESTS / "ops" / "test_ops.py"),
               "--dtypes", "f64",
               "-k", "test_reference and (unary or binary) and not (strided or cmp or integer)")  # fmt: skip


def test_an_op_of_each_row(library):
    """Row ops, reductions, scans and GEMM have separate loops for each vector width; their loads need no alignment."""
    for path in others(library):
        python(path, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TESTS / "ops" / "test_ops.py"), "--op-a-row",
               "--one-launch", "--most-elements", "70000", "-k", "test_reference")  # fmt: skip


def test_stack(library):
    """The compiler keeps more vectors on the stack if they are wider than registers."""
    for path in others(library)[-1:]:
        python(path, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TESTS / "cpu" / "test_stack.py"))


@pytest.mark.parametrize("value", ["", "AVX2", "sse2"])
def test_unknown_names_change_nothing(value):
    show = "import baracuda as bk; print(bk.default_library().build_info.get('isa'))"
    environment = {k: v for k, v in os.environ.items() if k != "BARACUDA_CPU_ISA"}
    environment["BARACUDA_LIB"] = bk.default_library().path
    free = subprocess.run(
        [sys.executable, "-c", show], env=environment, cwd=TESTS.parent, capture_output=True, text=True
    )
    assert python(value, "-c", show) == free.stdout


def test_info_names_the_path(library):
    isa = library.build_info.get("isa", "")
    assert isa in python(isa, "-m", "baracuda", "info")
