# SPDX-License-Identifier: Apache-2.0
"""The example of each language in tests/examples builds, runs and prints what all of them print.

BARACUDA_EXAMPLES adds languages to the three that need nothing else: "rust go", or "all"; CI sets those that it could
install. Node's koffi is in build/node, where `make examples-node` puts it.
"""

import os
import shutil
import subprocess
import sys

import pytest

from harness import ROOT
from harness.child import child_environment
from harness.compilers import compile_and_run

EXAMPLES = ROOT / "tests" / "examples"
SUMS = ["12 14", "0 0", "19 22", "5 6"]
FAILURE = "unsorted_segment_sum_f32: n is -6, must be >= 0"


def command(line, folder, **variables):
    """Standard output of a program; a sanitizer that is preloaded into the tests must not be loaded into it."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"} | variables
    result = subprocess.run(
        list(map(str, line)), cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture
def linkable(cpu_library, tmp_path):
    """A folder that has the library under the names that linker and loader look for."""
    folder = tmp_path / "lib"
    folder.mkdir()
    for name in ("libbaracuda_kernels.so", "libbaracuda_kernels.so.1"):
        (folder / name).symlink_to(cpu_library)
    return folder


def c(library, linkable, folder):
    return compile_and_run("c", EXAMPLES / "c" / "segments.c", library, folder)


def cpp(library, linkable, folder):
    return compile_and_run("cpp", EXAMPLES / "cpp" / "segments.cpp", library, folder, f"-I{ROOT / 'build' / 'include'}")


def python(library, linkable, folder):
    environment = child_environment(BARACUDA_LIB=str(library))
    result = subprocess.run(
        [sys.executable, EXAMPLES / "python" / "segments.py"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


def rust(library, linkable, folder):
    """Built in a copy, since cargo writes beside the sources; the path of the crate stays valid there."""
    package = folder / "tests" / "examples" / "rust"
    shutil.copytree(EXAMPLES / "rust", package)
    shutil.copytree(ROOT / "build" / "rust", folder / "build" / "rust")
    return command(["cargo", "run", "--offline", "--quiet"], package, BARACUDA_LIB_DIR=str(linkable))


def go(library, linkable, folder):
    program = folder / "segments"
    command(
        ["go", "build", "-o", program], EXAMPLES / "go", CGO_ENABLED="1", CGO_CFLAGS=f"-I{ROOT / 'include'}",
        CGO_LDFLAGS=f"-L{linkable} -Wl,-rpath,{linkable} -lbaracuda_kernels",
    )  # fmt: skip
    return command([program], folder)


def node(library, linkable, folder):
    modules = str(ROOT / "build" / "node" / "node_modules")
    return command(["node", EXAMPLES / "node" / "segments.js"], folder, NODE_PATH=modules, BARACUDA_LIB=str(library))


LANGUAGES = {"c": c, "cpp": cpp, "python": python, "rust": rust, "go": go, "node": node}
ALWAYS = ("c", "cpp", "python")
UFUNCS = os.environ.get("BARACUDA_EXAMPLES", "").replace("all", " ".join(LANGUAGES)).split()


@pytest.mark.unsanitized("test_c_abi and test_cpp make its calls under sanitizers; other runtimes cannot load one")
@pytest.mark.parametrize("language", dict.fromkeys([*ALWAYS, *UFUNCS]))
def test_example(language, cpu_library, linkable, tmp_path):
    *sums, failure = LANGUAGES[language](cpu_library, linkable, tmp_path).splitlines()
    assert sums == SUMS
    assert failure == f"invalid problem: {FAILURE}" if language != "python" else "-6" in failure


def test_there_is_a_way_to_run_every_example():
    assert {folder.name for folder in EXAMPLES.iterdir()} == set(LANGUAGES)
