# SPDX-License-Identifier: Apache-2.0
"""Loading of NVIDIA's libraries (native/core/vendor/vendor.h), tested on stubs of them and of CUDA; Python's
preloading."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

import baracuda as bk
from baracuda._library import vendor
from harness import ROOT
from harness.compilers import compile_strictly, compiler

SOURCES = pathlib.Path(__file__).parent / "vendor"
CXX = ["-std=c++17", "-O1", "-Wno-pedantic", "-Wno-unknown-pragmas", "-Wno-psabi"]


def build_program(
    folder: pathlib.Path, *includes: pathlib.Path, source: str, program: str = "doors.cpp", more: tuple[str, ...] = ()
) -> pathlib.Path:
    """A program of tests/library/vendor, with a source of native/core/vendor and `more` of native."""
    main, program = SOURCES / program, folder / pathlib.Path(source).stem
    include = [f"-I{path}" for path in (*includes, ROOT / "native", ROOT / "include")]
    compile_strictly(
        compiler("CXX", "g++"), *CXX, *include, "-x", "c++", main,
        ROOT / "native/core/vendor" / source, *(ROOT / "native" / name for name in more), "-o", program,
        "-pthread", "-ldl",
    )  # fmt: skip
    return program


def build_stub(path: pathlib.Path, source: str, **macros: object) -> None:
    path.parent.mkdir(exist_ok=True)
    flags = [f"-D{name}={value}" for name, value in macros.items()]
    compile_strictly(
        compiler("CC", "gcc"), "-shared", "-fPIC", "-Wno-pedantic", *flags, SOURCES / source,
        f"-Wl,-soname,{path.name}", "-o", path,
    )  # fmt: skip


@pytest.fixture(scope="module")
def doors(tmp_path_factory):
    """run(case, folders): output lines of the program for a case that finds the stubs of those folders."""
    folder = tmp_path_factory.mktemp("vendor")
    program = build_program(folder, SOURCES, source="vendor.cu")
    build_stub(folder / "driver" / "libcuda.so.1", "stub_driver.c")
    for major in (12, 13):
        build_stub(
            folder / str(major) / f"libcublasLt.so.{major}", "stub_vendor.c",
            PREFIX="cublasLt", LIBRARY="cublasLt", VERSION=major * 10000 + 103,
        )  # fmt: skip
    build_stub(
        folder / "13" / "libcusolver.so.12", "stub_vendor.c", PREFIX="cusolverDn", LIBRARY="cusolver", VERSION=130000
    )
    (folder / "broken").mkdir()
    (folder / "broken" / "libcublasLt.so.13").write_text("no library\n")

    def run(case: str, *folders: str, **environment: str) -> list[str]:
        paths = os.pathsep.join(str(folder / name) for name in ("driver", *folders))
        result = subprocess.run(
            [str(program), case], env=os.environ | {"LD_LIBRARY_PATH": paths, **environment}, capture_output=True,
            text=True, check=False, timeout=120,
        )  # fmt: skip
        assert result.returncode == 0, f"exit {result.returncode}: {result.stdout}{result.stderr}"
        return result.stdout.splitlines()

    run.folder = folder
    return run


PACKAGES = "nvidia-cublas (CUDA 13) or nvidia-cublas-cu12 (CUDA 12)"


def test_missing_library(doors):
    text = f"3 cuBLASLt is not found (libcublasLt.so.13, libcublasLt.so.12): install the package {PACKAGES}"
    assert doors("missing") == [text]


def test_missing_symbol(doors):
    text = f"3 cuBLASLt 12.1.3 has no stub_new_function: install another version of the package {PACKAGES}"
    assert doors("missing", "12")[0] == text


def test_file_that_is_no_library(doors):
    (line,) = doors("missing", "broken")
    assert re.match(r"3 cuBLASLt cannot be loaded \(.*libcublasLt\.so\.13: .*\); it is in the package ", line)
    assert PACKAGES in line


def test_older_where_the_newer_is_broken(doors):
    assert doors("missing", "broken", "12")[0].startswith("3 cuBLASLt 12.1.3 has no stub_new_function")


def test_newest_first(doors):
    assert doors("missing", "12", "13")[0] == "0 "


def test_what_is_loaded_first(doors):
    assert "cuBLASLt 12.1.3 has no stub_new_function" in "".join(doors("loaded_first", "12", "13"))


def test_loaded_after_a_failure(doors):
    assert doors("late", LATE_LIBRARY=str(doors.folder / "13" / "libcublasLt.so.13"))


def counts(lines: list[str], library: str = "cublasLt") -> tuple[int, int]:
    return lines.count(f"{library} create"), lines.count(f"{library} destroy")


def test_handle_for_each_stream(doors):
    """Two streams, two threads' per-thread streams, and one more where two are in use at once, have a handle each."""
    assert counts(doors("streams", "13")) == (5, 5)


def test_handle_for_each_context(doors):
    """At exit the handles of the then current context are destroyed."""
    assert counts(doors("contexts", "13")) == (2, 1)


def test_number_of_handles_is_bounded(doors):
    assert counts(doors("most", "13"), "cusolverDn") == (33, 33)


def test_capture(doors):
    lines = doors("capture", "13")
    assert lines[0] == (
        "the stream is being captured, and this context has no idle handle of cuBLASLt: "
        "call the op once before the capture"
    )
    assert counts(lines) == (0, 0)
    assert counts(lines, "cusolverDn")[0] == 1


def test_handle_that_cannot_be_made(doors):
    lines = doors("failing", "13")
    assert lines[0] == "cuBLASLt cannot make a handle: it answers 3"
    assert counts(lines) == (1, 1)


def test_handle_that_gets_no_stream(doors):
    lines = doors("failing_stream", "13")
    assert "cuSOLVER cannot use the stream: it answers 7" in lines
    assert counts(lines, "cusolverDn") == (1, 1)


def test_threads(doors):
    """A handle has one user at a time, and there are no more handles than threads that use them at once."""
    made, destroyed = counts(doors("threads", "13"))
    assert 3 <= made == destroyed <= 3 * 8


def test_nothing_is_locked_inside_their_functions(doors):
    assert counts(doors("unlocked", "13"))[0] == 2


def test_fork(doors):
    """A child makes a handle of its own, and neither uses nor destroys its parent's."""
    lines = doors("forks", "13")
    assert counts(lines) == (2, 2)
    assert not [line for line in lines if "another process" in line]


def test_fork_amid_threads(doors):
    doors("forks_amid_threads", "13")


def test_exit(doors):
    """The current context's handles of both libraries are destroyed before either library's destructors run."""
    lines = doors("exits", "13")
    assert counts(lines) == (2, 1)
    assert counts(lines, "cusolverDn") == (1, 1)
    ends = [line.split()[1] for line in lines]
    assert ends == ["create"] * 3 + ["destroy"] * 2 + ["unloaded"] * 2


def test_exit_with_a_handle_in_use(doors):
    assert counts(doors("exits_in_use", "13")) == (1, 0)


def test_exit_after_the_driver(doors):
    assert counts(doors("exits_without_driver", "13")) == (1, 0)


def test_no_driver(doors):
    assert doors("no_driver", "13")[0] == "the CUDA driver names no current context"


def test_cpu_library_has_none(tmp_path):
    program = build_program(tmp_path, source="vendor_cpu.cpp")
    result = subprocess.run([str(program)], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.splitlines() == [f"{name} serves the CUDA library alone" for name in ("cuBLASLt", "cuDNN")]


# --- GEMM by cuBLASLt (native/gemm/cublaslt/cublaslt.h) ------------------------------------------------------------


@pytest.fixture(scope="module")
def products(tmp_path_factory):
    """run(case, folders): output lines of a program that multiplies by a stub of cuBLASLt that is in those folders."""
    folder = tmp_path_factory.mktemp("cublaslt")
    program = build_program(
        folder, SOURCES, source="vendor.cu", program="cublaslt.cpp", more=("gemm/cublaslt/cublaslt.cu",)
    )
    build_stub(folder / "driver" / "libcuda.so.1", "stub_driver.c")
    build_stub(folder / "13" / "libcublasLt.so.13", "stub_cublaslt.c")

    def run(case: str, *folders: str, **environment: str) -> list[str]:
        paths = os.pathsep.join(str(folder / name) for name in ("driver", *folders))
        result = subprocess.run(
            [str(program), case], env=os.environ | {"LD_LIBRARY_PATH": paths, **environment}, capture_output=True,
            text=True, check=False, timeout=120,
        )  # fmt: skip
        assert result.returncode == 0, f"exit {result.returncode}: {result.stdout}{result.stderr}"
        return result.stdout.splitlines()

    run.folder = folder
    return run


def test_gemm(products):
    """Layouts, pitches, batches, bias, alpha, beta and C reach cuBLASLt; the workspace is aligned as it requires."""
    lines = products("layouts", "13")
    asked = [line for line in lines if line.startswith("heuristic")]
    done = [line for line in lines if line.startswith("matmul")]
    assert len(asked) == len(done) == 32  # all problems differ
    assert {line.rpartition(" alignment ")[0] for line in asked} == {
        "heuristic workspace 0 reductions 0",
        f"heuristic workspace {32 << 20} reductions 2",
    }
    assert {int(line.split()[-1]) for line in asked} <= {16, 32, 64, 128, 256}
    numbers = {(int(w[2]), int(w[4])) for w in map(str.split, done)}
    assert numbers == {(0, 68), (1, 70)}
    assert {int(line.split()[6]) for line in done} == {1, 4}
    assert not [line for line in done if "misaligned" in line]


def test_choice_is_cached(products):
    assert [line.split()[0] for line in products("once", "13")] == ["heuristic"] + ["matmul"] * 3


def test_gemm_that_cublaslt_refuses(products):
    """A refusal is neither an error nor repeated."""
    assert [line.split()[0] for line in products("refused", "13")] == ["heuristic"]
    assert [line.split()[0] for line in products("failing", "13")] == ["heuristic", "matmul"]


def test_gemm_without_cublaslt(products):
    assert products("missing") == []


def test_cublaslt_that_comes_later(products):
    lines = products("missing", LATE_LIBRARY=str(products.folder / "13" / "libcublasLt.so.13"))
    assert [line.split()[0] for line in lines] == ["heuristic", "matmul"]


def test_captured_gemm(products):
    """A captured GEMM runs without cuBLASLt before the first handle exists, and with it afterwards."""
    assert [line.split()[0] for line in products("capture", "13")] == ["heuristic", "matmul", "matmul"]


def test_gemm_on_threads(products):
    lines = products("threads", "13")
    assert sum(line.startswith("matmul") for line in lines) == 400


# --- Python ----------------------------------------------------------------------------------------------------------

ABOUT = {"name": "cuBLASLt", "sonames": ["libno_such.so.13", "libno_such.so.12"], "packages": ["new", "old"]}


@pytest.fixture
def needy(library):
    """A library that may open one of NVIDIA's, which is not installed."""
    return bk.Library(library.ffi, library.lib, "needy.so", library.build_info | {"vendors": {"cublasLt": ABOUT}})


def test_preload_names_the_packages(needy, monkeypatch):
    def load(key):
        raise RuntimeError(f"no {key}\n  anywhere")

    monkeypatch.setattr("cuda.pathfinder.load_nvidia_dynamic_lib", load)
    text = (
        r"^cuBLASLt cannot be loaded: install the package new \(CUDA 13\) or old \(CUDA 12\) \(no cublasLt anywhere\)"
    )
    with pytest.raises(bk.UnsupportedError, match=text):
        vendor.preload(needy, "cublasLt")


def test_preload_without_pathfinder(needy, monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    with pytest.raises(bk.UnsupportedError, match=r"pathfinder is not installed, and libno_such\.so\.13: .*so\.12"):
        vendor.preload(needy, "cublasLt")
    monkeypatch.setitem(ABOUT, "sonames", ["libno_such.so.13", "libc.so.6"])
    assert vendor.preload(needy, "cublasLt") == "libc.so.6"


def test_the_first_gemm_loads_its_library(needy, monkeypatch):
    """It loads the library once in a process, also where there is none; no other op does."""
    loaded = []
    monkeypatch.setattr(vendor, "_tried", set())
    monkeypatch.setattr(vendor, "preload", lambda library, key: loaded.append(key))
    monkeypatch.setattr(needy, "backend", "cuda")
    needy.function("unary_neg_f32")
    assert loaded == []
    for _ in range(2):
        needy.function("gemm_dense_f32")
        needy.function("gemm_dense_f16", "workspace_size")
    assert loaded == ["cublasLt"]


def test_preload_of_what_no_op_uses(library):
    with pytest.raises(bk.UnsupportedError, match="uses no cufftMp"):
        vendor.preload(library, "cufftMp")
