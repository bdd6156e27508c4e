"""What installs, from a copy of the sources: sdist, wheel, and `make install` with both libraries under one PREFIX."""

import filecmp
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

from harness import ROOT
from test_c_abi import PROGRAMS, SOURCES, compile_strictly, compiler

pytestmark = pytest.mark.unsanitized("it builds libraries of its own, without sanitizers")

NOT_SOURCES = (".git", ".venv", "build", "dist", "libs", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis")
GENERATED = ("_ffi.py", "_oplist.py", "functions.pyi")


def run(command, cwd, **changes):
    """Standard output and error of a command that succeeds."""
    result = attempt(command, cwd, **changes)
    assert result.returncode == 0, result.stdout
    return result.stdout


def attempt(command, cwd, **changes):
    dropped = ("LD_PRELOAD", "PYTHONPATH", "MAKEFLAGS", "MFLAGS", "MAKELEVEL")
    environment = {k: v for k, v in os.environ.items() if k not in dropped and not k.startswith("BARACUDA_")} | changes
    return subprocess.run(
        [*map(str, command)], cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False, timeout=1200,
    )  # fmt: skip


def make(tree, *arguments, **changes):
    return run(["make", "--no-print-directory", *arguments, "VENV=", f"PYTHON={sys.executable}"], tree, **changes)


def setuptools(hook, tree):
    """Run a hook of the build backend; the path of what it made."""
    code = f"import pathlib; from setuptools import build_meta as b; print('made', b.{hook}('dist'))"
    return tree / "dist" / run([sys.executable, "-c", code], tree).rpartition("made ")[2].strip()


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """The sdist of a copy of the checkout, unpacked, with the objects that the checkout has built."""
    folder = tmp_path_factory.mktemp("install")
    shutil.copytree(ROOT, folder / "checkout", ignore=shutil.ignore_patterns(*NOT_SOURCES, *GENERATED))
    archive = setuptools("build_sdist", folder / "checkout")
    with tarfile.open(archive) as tar:
        tar.extractall(folder)
    tree = folder / archive.name.removesuffix(".tar.gz")
    for part in ("gen", "contents", "cpu"):
        if (ROOT / "build" / part).exists():  # all of one time, and so nothing that make would make again
            shutil.copytree(ROOT / "build" / part, tree / "build" / part, copy_function=shutil.copyfile)
    for path in (tree / "build").rglob("*"):
        os.utime(path, (tree.stat().st_mtime,) * 2)
    return tree


def files(folder, *parts):
    found = (path.relative_to(folder) for part in parts for path in (folder / part).rglob("*") if path.is_file())
    return {path for path in found if path.suffix != ".pyc" and path.name not in GENERATED}


def test_the_sdist_has_all_sources(tree):
    parts = ("native", "include", "tools", "tests", "baracuda")
    assert files(tree.parent / "checkout", *parts) == files(tree, *parts)
    for name in ("Makefile", "LICENSE", "README.md", "pyproject.toml", "CHANGELOG.md"):
        assert filecmp.cmp(ROOT / name, tree / name, shallow=False)


USE = """
import baracuda as bk, numpy as np
library = bk.default_library()
y = bk.empty((3,))
plan = bk.UnaryPlan.select(None, bk.UnaryDescriptor(bk.UnaryKind.NEG, (3,), element=bk.f32))
plan.run(None, None, bk.UnaryArgs(bk.upload(np.array([1, 2, 3], np.float32)), y))
print(library.path, library.backend, bk.download(y).tolist())
"""


def test_the_wheel_carries_the_library(tree, tmp_path):
    """The wheel is used from a directory that has no baracuda, and not out of the sources."""
    setuptools("build_wheel", tree)
    (built,) = (tree / "build").glob("lib*/baracuda")
    (built / "left_over.py").write_text("")
    wheel = setuptools("build_wheel", tree)
    assert re.fullmatch(r"baracuda-[\d.]+-py3-none-linux_\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path / "site")
    assert {f"baracuda/{name}" for name in (*GENERATED, "py.typed", "libs/cpu/libbaracuda_kernels.so")} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "baracuda/left_over.py" not in names
    assert {name.split("/")[0] for name in names} == {"baracuda", wheel.name.split("-py3")[0] + ".dist-info"}
    output = run([sys.executable, "-c", USE], tmp_path, PYTHONPATH=str(tmp_path / "site"), BARACUDA_BACKEND="cpu")
    library = tmp_path / "site" / "baracuda" / "libs" / "cpu" / "libbaracuda_kernels.so"
    assert output.split(" ", 1) == [str(library), "cpu [-1.0, -2.0, -3.0]\n"]


@pytest.mark.parametrize("there", [(), ("make",), ("g++",)])
def test_a_build_without_tools_says_what_is_missing(tree, tmp_path, there):
    for program in there:
        (tmp_path / program).symlink_to(shutil.which(program))
    result = attempt(
        [sys.executable, "-c", "from setuptools import build_meta as b; b.build_wheel('dist')"], tree,
        PATH=str(tmp_path), CXX="g++",
    )  # fmt: skip
    assert result.returncode != 0
    missing = " and ".join(name for name in ("make", "g++") if name not in there)
    assert f"with make and g++, and {missing} cannot be found" in result.stdout
    assert "apt-get install make g++" in result.stdout


# --- make install ----------------------------------------------------------------------------------------------------


def pkg_config(prefix, name):
    """(variables and fields, compiler flags, linker flags) of a pkg-config file."""
    text = (prefix / "lib" / "pkgconfig" / f"{name}.pc").read_text()
    values = {}
    for line in filter(None, text.splitlines()):
        key, value = re.fullmatch(r"(\w+)(?:=|: )(.*)", line).groups()
        values[key] = re.sub(r"\$\{(\w+)\}", lambda match: values[match[1]], value)
    return values, values["Cflags"].split(), values["Libs"].split()


@pytest.fixture(scope="module")
def prefix(tree, tmp_path_factory):
    """Both libraries, installed one after the other. The second one differs by a byte that no loader looks at."""
    prefix = tmp_path_factory.mktemp("prefix")
    make(tree, "install", f"PREFIX={prefix}", "BACKEND=cpu")
    cuda = tree / "build" / "cuda" / "libbaracuda_kernels.so"
    cuda.parent.mkdir(parents=True)
    cuda.write_bytes((tree / "build" / "cpu" / "libbaracuda_kernels.so").read_bytes() + b"\0")
    make(tree, "install", f"PREFIX={prefix}")
    shutil.rmtree(cuda.parent)
    return prefix


def test_both_libraries_and_the_licence_are_installed(tree, prefix):
    libraries = {
        backend: prefix / "lib" / "baracuda" / backend / "libbaracuda_kernels.so" for backend in ("cpu", "cuda")
    }
    assert libraries["cuda"].stat().st_size == libraries["cpu"].stat().st_size + 1
    assert (prefix / "lib" / "libbaracuda_kernels.so").resolve() == libraries["cuda"].resolve()
    assert filecmp.cmp(prefix / "share" / "licenses" / "baracuda" / "LICENSE", ROOT / "LICENSE", shallow=False)
    assert filecmp.cmp(
        prefix / "include" / "baracuda_kernels.h", ROOT / "include" / "baracuda_kernels.h", shallow=False
    )
    version = re.search(r'__version__ = "(.*)"', (ROOT / "baracuda" / "__init__.py").read_text())[1]
    for name in ("baracuda_kernels", "baracuda_kernels_cpu", "baracuda_kernels_cuda"):
        values, _, _ = pkg_config(prefix, name)
        assert (values["Name"], values["Version"], values["prefix"]) == (name, version, str(prefix))
    for link in prefix.rglob("*.so*"):
        assert not os.path.isabs(os.readlink(link) if link.is_symlink() else ""), "the tree may be moved"


@pytest.mark.parametrize("name", ["baracuda_kernels", "baracuda_kernels_cpu", "baracuda_kernels_cuda"])
def test_programs_are_built_with_the_flags(prefix, tmp_path, name):
    """The backends' files bring their rpath; the plain one is for the loader's path, or an rpath of its libdir."""
    variable, default, flags, source = PROGRAMS["c"]
    values, cflags, libs = pkg_config(prefix, name)
    rpath = [f"-Wl,-rpath,{values['libdir']}"] if name == "baracuda_kernels" else []
    program = tmp_path / "program"
    compile_strictly(
        compiler(variable, default), *flags, *cflags, SOURCES / source, "-o", program, *rpath, *libs, "-lm", "-pthread"
    )
    assert run([program], tmp_path) == "ok\n"
    linked = run(["ldd", program], tmp_path)
    found = pathlib.Path(re.search(r"libbaracuda_kernels\.so\.\d+ => (\S+)", linked)[1]).resolve()
    backend = name.removeprefix("baracuda_kernels").strip("_") or "cuda"
    assert found.parent == prefix / "lib" / "baracuda" / backend


def test_install_refuses_what_is_not_there(tree, prefix, tmp_path):
    for backend, text in (("cuda", "no cuda library, 'make cuda' builds it"), ("gpu", "must be cpu or cuda")):
        result = attempt(
            ["make", "install", "VENV=", f"PYTHON={sys.executable}", f"PREFIX={tmp_path / 'p'}", f"BACKEND={backend}"],
            tree,
        )
        assert result.returncode != 0
        assert text in result.stdout
        assert not (tmp_path / "p").exists()


def test_destdir(tree, prefix, tmp_path):
    make(tree, "install", "PREFIX=/opt/baracuda", f"DESTDIR={tmp_path}", "BACKEND=cpu")
    assert (tmp_path / "opt" / "baracuda" / "lib" / "libbaracuda_kernels.so").exists()
    assert pkg_config(tmp_path / "opt" / "baracuda", "baracuda_kernels")[0]["prefix"] == "/opt/baracuda"
