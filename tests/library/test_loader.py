# SPDX-License-Identifier: Apache-2.0
"""The choice of a library, and the error when none can be opened."""

import logging
import os
import pathlib
import subprocess
import sys

import pytest

import baracuda as bk
from baracuda import _oplist
from baracuda._library import loader, op_table
from baracuda._library.param import symbol_of
from harness.child import child_environment

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def fresh(monkeypatch):
    """A loader that has opened nothing, and an environment without its variables."""
    monkeypatch.setattr(loader, "_opened", {})
    monkeypatch.setattr(loader, "_default", None)
    monkeypatch.delenv("BARACUDA_LIB", raising=False)
    monkeypatch.delenv("BARACUDA_BACKEND", raising=False)
    return monkeypatch


def run_python(code, **environment):
    env = {key: value for key, value in child_environment().items() if not key.startswith("BARACUDA_")} | environment
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)


def test_import_loads_nothing():
    code = (
        "import sys, baracuda; "
        "print([name for name in ('cuda', 'cuda.bindings', 'baracuda._ffi', 'ml_dtypes') if name in sys.modules])"
    )
    result = run_python(code, BARACUDA_LIB="/nonexistent.so")
    assert (result.returncode, result.stdout.strip()) == (0, "[]"), result.stderr


def test_first_use_fails_with_every_path(tmp_path):
    result = run_python("import baracuda; baracuda.default_library()", BARACUDA_LIB=str(tmp_path / "none.so"))
    assert result.returncode == 1
    assert "LibraryNotFoundError: cannot use the library of BARACUDA_LIB" in result.stderr
    assert f"{tmp_path}/none.so: " in result.stderr


def test_default_is_cached(library):
    assert bk.default_library() is library
    assert bk.load(library.path) is library
    assert bk.load(backend=library.backend) is library


def test_library_describes_itself(library):
    assert library.backend in ("cpu", "cuda")
    assert library.build_info["backend"] == library.backend
    assert {"version", "commit", "compiler", "archs"} <= set(library.build_info)
    symbols = library.symbols()
    assert len(symbols) == len(set(symbols)) == library.lib.baracuda_kernels_symbol_count()
    assert "baracuda_kernels_abi_version" in symbols
    for op in op_table.ops():
        assert symbol_of(op, "run") in symbols
        assert library.function(op) is library.function(op)


def test_unknown_function(library):
    with pytest.raises(bk.UnsupportedError, match="no symbol baracuda_kernels_frobnicate_f32_run"):
        library.function("frobnicate_f32")


def test_environment_names_a_file(fresh, library):
    fresh.setenv("BARACUDA_LIB", library.path)
    assert bk.default_library().path == library.path


def test_environment_names_a_backend(fresh, library):
    fresh.setenv("BARACUDA_BACKEND", library.backend)
    assert bk.default_library().backend == library.backend


def test_file_of_the_other_backend_is_refused(fresh, library):
    other = "cuda" if library.backend == "cpu" else "cpu"
    fresh.setenv("BARACUDA_LIB", library.path)
    fresh.setenv("BARACUDA_BACKEND", other)
    with pytest.raises(bk.LibraryNotFoundError, match=f"is a {library.backend} library, not {other}"):
        bk.default_library()


@pytest.mark.parametrize("value", ["gpu", "CPU", "cpu,cuda"])
def test_unknown_backend(fresh, value):
    fresh.setenv("BARACUDA_BACKEND", value)
    with pytest.raises(bk.LibraryNotFoundError, match=f"BARACUDA_BACKEND is '{value}'"):
        bk.default_library()
    with pytest.raises(bk.InvalidProblemError, match="backend is"):
        bk.load(backend=value)


def test_explicit_backend_never_falls_back(fresh, library, tmp_path):
    fresh.setattr(loader, "_candidates", lambda backend: [str(tmp_path / backend / loader.SONAME)])
    fresh.setattr(loader, "cuda_unavailable", lambda: "")
    fresh.setenv("BARACUDA_BACKEND", "cuda")
    with pytest.raises(bk.LibraryNotFoundError, match="cuda") as caught:
        bk.default_library()
    assert [path for path, _ in caught.value.tried] == [str(tmp_path / "cuda" / loader.SONAME)]


def test_automatic_choice_prefers_a_working_cuda_library(fresh, library):
    fresh.setattr(loader, "cuda_unavailable", lambda: "")
    fresh.setattr(loader, "_handshake", lambda path: bk.Library(None, None, path, {"backend": path.split("/")[0]}))
    fresh.setattr(loader, "_candidates", lambda backend: [f"{backend}/lib.so"])
    assert bk.default_library().path == "cuda/lib.so"


def test_automatic_choice_falls_back_and_says_so(fresh, caplog):
    def handshake(path):
        if path.startswith("cuda"):
            raise loader._RefusedError("too old")
        return bk.Library(None, None, path, {"backend": "cpu"})

    fresh.setattr(loader, "_handshake", handshake)
    fresh.setattr(loader, "_candidates", lambda backend: [f"{backend}/lib.so"])
    fresh.setattr(loader, "cuda_unavailable", lambda: "")
    with caplog.at_level(logging.INFO, "baracuda"):
        assert bk.default_library().backend == "cpu"
    assert "cuda/lib.so: too old" in caplog.text
    assert {record.levelname for record in caplog.records} == {"INFO"}


def test_no_device_means_cpu(fresh):
    fresh.setattr(loader, "_handshake", lambda path: bk.Library(None, None, path, {"backend": path.split("/")[0]}))
    fresh.setattr(loader, "_candidates", lambda backend: [f"{backend}/lib.so"])
    fresh.setattr(loader, "cuda_unavailable", lambda: "the driver reports no device")
    assert bk.default_library().backend == "cpu"


def test_nothing_found_lists_all(fresh, tmp_path):
    fresh.setattr(loader, "_candidates", lambda backend: [str(tmp_path / backend / name) for name in "ab"])
    fresh.setattr(loader, "cuda_unavailable", lambda: "")
    with pytest.raises(bk.LibraryNotFoundError) as caught:
        bk.default_library()
    assert [path for path, _ in caught.value.tried] == [str(tmp_path / b / n) for b in ("cuda", "cpu") for n in "ab"]
    assert all(path in str(caught.value) and reason for path, reason in caught.value.tried)


def test_candidates_are_wheel_checkout_system():
    wheel, checkout, system = loader._candidates("cuda")
    assert wheel.endswith(f"baracuda/libs/cuda/{loader.SONAME}")
    assert checkout.endswith(f"build/cuda/{loader.SONAME}")
    assert system == loader.SONAME


def test_abi_hash_mismatch(fresh, library):
    fresh.setattr(_oplist, "ABI_HASH", "0123456789abcdef")
    found = library.ffi.string(library.lib.baracuda_kernels_abi_hash()).decode()
    with pytest.raises(bk.LibraryNotFoundError, match=f"{found}.*0123456789abcdef"):
        bk.load(library.path)


def foreign_library(folder):
    """A shared library that is not baracuda's."""
    path, source = folder / "foreign.so", folder / "foreign.c"
    source.write_text("int foreign(void) { return 1; }\n")
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, source], check=True, env=environment)
    return path


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("foreign.so", "is no baracuda library"), ("text.so", "invalid ELF header|file too short"),
        ("none.so", "No such file"), ("", "is no path"), ("a\0b", "is no path"), (".", "cannot read|Is a directory"),
    ],
)  # fmt: skip
def test_not_a_library(fresh, tmp_path, name, why):
    (tmp_path / "text.so").write_text("no ELF, and not even near to being one" * 9)
    foreign_library(tmp_path)
    given = str(tmp_path / name) if name.strip("\0ab") else name
    for path in (given, os.fsencode(given)):
        with pytest.raises(bk.LibraryNotFoundError, match=why) as caught:
            bk.load(path)
        ((tried, reason),) = caught.value.tried
        assert tried == given
        assert f"{tried}: {reason}" in str(caught.value)
        assert caught.value.__context__ is None


@pytest.mark.parametrize("path", [5, 1.5, object(), ["a.so"], True])
def test_not_a_path(path):
    with pytest.raises(bk.InvalidProblemError, match=r"path is .*, must be a path"):
        bk.load(path)


def test_a_function_that_the_file_lacks(library, tmp_path):
    """A function is declared in the header, but not in the library."""
    lacking = bk.Library(library.ffi, library.ffi.dlopen(str(foreign_library(tmp_path))), "old.so", library.build_info)
    with pytest.raises(bk.UnsupportedError, match=r"old\.so has no symbol baracuda_kernels_alibi_f32_run"):
        lacking.function("alibi_f32")


def test_missing_bindings(fresh, library):
    fresh.setitem(sys.modules, "baracuda._ffi", None)
    with pytest.raises(bk.LibraryNotFoundError, match="generated bindings are missing"):
        bk.load(library.path)


def test_command_line(library):
    result = run_python("import runpy, sys; sys.argv[1:] = ['info']; runpy.run_module('baracuda', run_name='__main__')",
                        BARACUDA_LIB=library.path)  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert library.path in result.stdout
    assert "CUDA device" in result.stdout
    code = (
        "import runpy, sys; sys.argv[1:] = ['ops', '--family', {!r}]; runpy.run_module('baracuda', run_name='__main__')"
    )
    result = run_python(code.format("segment"))
    assert result.returncode == 0, result.stderr
    assert "unsorted_segment_sum{I}_{T}" in result.stdout
    assert "alibi" not in result.stdout
    assert "f32 f64 f16 bf16 x i32 i64" in result.stdout
    assert run_python(code.format("nonsense")).returncode == 1


PROGRAMS = [
    "baracuda info", "baracuda ops", "baracuda ops --family elementwise", "baracuda --help", "baracuda.demo classify",
]  # fmt: skip


@pytest.mark.parametrize("arguments", PROGRAMS)
def test_closed_pipes(library, arguments):
    """`python -m baracuda ops | head -1`: no traceback, whether the pipe is closed early or from the start."""
    environment = child_environment(BARACUDA_LIB=library.path)
    command = [sys.executable, "-m", *arguments.split()]
    for lines in (0, 1):
        reader, writer = os.pipe()
        with open(reader, "rb", 0) as pipe:
            process = subprocess.Popen(command, env=environment, stdout=writer, stderr=subprocess.PIPE, text=True)
            os.close(writer)
            for _ in range(lines):
                pipe.read(1)
        error = process.communicate(timeout=120)[1]
        assert error == ""
        assert process.returncode in (0, 1)
        assert lines or process.returncode == 1 or "--help" in arguments  # argparse ignores a failed write


def test_a_named_library_serves_its_backend(library):
    """BARACUDA_LIB is the library of its backend, also where the backend is asked for by name."""
    code = f"import baracuda as bk; print(bk.load(backend={library.backend!r}) is bk.default_library())"
    result = run_python(code, BARACUDA_LIB=library.path)
    assert result.stdout.strip() == "True", result.stderr
