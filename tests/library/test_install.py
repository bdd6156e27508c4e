# SPDX-License-Identifier: Apache-2.0
"""Installation from a copy of the sources: sdist, wheel, and `make install` with both libraries under one PREFIX."""

import filecmp
import importlib.metadata
import os
import pathlib
import re
import shutil
import sys
import tarfile
import venv
import zipfile

import pytest

from harness import ROOT
from harness.building import attempt, make, run
from harness.compilers import C_SOURCES, PROGRAMS, compile_strictly, compiler

pytestmark = pytest.mark.unsanitized("it builds libraries of its own, without sanitizers")

NOT_SOURCES = (
    ".git",
    ".venv",
    "build",
    "dist",
    "libs",
    "*.egg-info",
    "__pycache__",
    ".*_cache",
    ".hypothesis",
    "node_modules",
    "target",
)
GENERATED = ("_ffi.py", "_oplist.py", "functions.pyi", "_plans.pyi", "_linalg.pyi")
PACKAGES = ("baracuda", "baracuda_cuda13")


def setuptools(hook, tree):
    """Runs a hook of the build backend and returns the path of its product."""
    code = f"import pathlib; from setuptools import build_meta as b; print('made', b.{hook}('dist'))"
    return tree / "dist" / run([sys.executable, "-c", code], tree, BACKENDS="cpu").rpartition("made ")[2].strip()


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """The sdist of a copy of the checkout, unpacked, with the objects that the checkout has built."""
    folder = tmp_path_factory.mktemp("install")
    shutil.copytree(ROOT, folder / "checkout", ignore=shutil.ignore_patterns(*NOT_SOURCES, *GENERATED))
    archive = setuptools("build_sdist", folder / "checkout")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    tree = folder / archive.name.removesuffix(".tar.gz")
    for part in ("gen", "contents", "cpu"):
        if (ROOT / "build" / part).exists():  # one time for all, so that make rebuilds nothing
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
    doors = [f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")]
    for name in ("Makefile", "LICENSE", "pyproject.toml", *doors):
        assert filecmp.cmp(ROOT / name, tree / name, shallow=False)


USE = """
import baracuda as bk, numpy as np
library = bk.default_library()
y = bk.empty((3,))
plan = bk.UnaryPlan.select(None, bk.UnaryDescriptor(bk.UnaryKind.NEG, (3,), element=bk.f32))
plan.run(None, None, bk.UnaryArgs(bk.upload(np.array([1, 2, 3], np.float32)), y))
print(library.path, library.backend, bk.download(y).tolist())
"""


@pytest.fixture(scope="module")
def wheels(tree):
    """The files of `make wheel` in dist/, with a CPU library of another length in place of the CUDA library."""
    setuptools("build_wheel", tree)
    (built,) = (tree / "build").glob("lib*/baracuda")
    (built / "left_over.py").write_text("")
    cuda = tree / "build" / "cuda" / "libbaracuda_kernels.so"
    cuda.parent.mkdir(parents=True)
    cuda.write_bytes((tree / "build" / "cpu" / "libbaracuda_kernels.so").read_bytes() + b"\0")
    shutil.rmtree(tree / "dist")
    make(tree, "wheel", "CUDA_MAJOR=13")
    shutil.rmtree(cuda.parent)
    return sorted((tree / "dist").iterdir(), key=lambda path: (path.suffix == ".whl", path.name))


def test_make_wheel_writes_an_sdist_and_two_wheels(wheels):
    patterns = (
        r"baracuda-[\d.]+\d\.tar\.gz",
        *(rf"{name}-[\d.]+-py3-none-manylinux_2_\d+_\w+\.whl" for name in PACKAGES),
    )
    assert len(wheels) == len(patterns)
    for path, pattern in zip(wheels, patterns):
        assert re.fullmatch(pattern, path.name)


@pytest.fixture(scope="module")
def site(wheels, tmp_path_factory):
    """The two wheels, unpacked."""
    folder = tmp_path_factory.mktemp("site")
    for wheel in wheels[1:]:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    return folder


def test_what_the_wheels_carry(site):
    own = ("py.typed", "libs/cpu/libbaracuda_kernels.so", "include/baracuda_kernels.h", "include/baracuda/core.hpp")
    for name in (*GENERATED, *own, "include/baracuda/segment.hpp", "include/baracuda/segment/segment.hpp"):
        assert (site / "baracuda" / name).is_file(), name
    assert not (site / "baracuda" / "left_over.py").exists()
    assert not (site / "baracuda" / "libs" / "cuda").exists()
    names = {path.name for path in site.iterdir()}
    infos = {name for name in names if name.endswith(".dist-info")}
    assert names - infos == {*PACKAGES, *(f"{name}.libs" for name in PACKAGES)}
    assert len(infos) == len(PACKAGES)
    for info in infos:
        assert (site / info / "licenses" / "LICENSE").is_file()
    # Both bundle libgomp, since the stand-in for the CUDA library is one of the CPU.
    assert all(list((site / f"{name}.libs").glob("libgomp-*")) for name in PACKAGES)
    (metadata,) = (text for path in site.glob("*/METADATA") if "Name: baracuda-cuda13\n" in (text := path.read_text()))
    assert re.search(r"^Requires-Dist: baracuda==[\d.]+$", metadata, flags=re.M)


def test_the_wheels_are_used(site, tmp_path):
    """They are used from a directory without baracuda, and not from the sources; each library comes from its own
    package."""
    environment = {"PYTHONPATH": str(site), "BARACUDA_BACKEND": "cpu"}
    library = site / "baracuda" / "libs" / "cpu" / "libbaracuda_kernels.so"
    assert run([sys.executable, "-c", USE], tmp_path, **environment) == f"{library} cpu [-1.0, -2.0, -3.0]\n"
    refused = attempt([sys.executable, "-c", "import baracuda as b; b.load(backend='cuda')"], tmp_path, **environment)
    assert f"{site}/baracuda_cuda13/libbaracuda_kernels.so: is a cpu library, not cuda" in refused.stdout
    flags = run([sys.executable, "-m", "baracuda", "cflags"], tmp_path, **environment)
    assert flags == f"-I{site / 'baracuda' / 'include'}\n"


def declared(name, found):
    """A distribution and all that it requires, as declared by the metadata of this environment."""
    if name not in found:
        found[name] = importlib.metadata.distribution(name)
        for line in found[name].requires or ():
            if "extra ==" not in line:
                declared(re.match(r"[\w.-]+", line)[0], found)
    return found


def test_the_wheels_are_used_in_a_bare_environment(wheels, tmp_path):
    """The environment has the declared dependencies and nothing else, taken from this environment without a network."""
    venv.create(tmp_path / "bare")
    python = tmp_path / "bare" / "bin" / "python"
    (packages,) = (tmp_path / "bare").glob("lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"]
    run([*pip, *[wheel for wheel in wheels if wheel.suffix == ".whl"]], tmp_path)
    (metadata,) = (path for path in packages.glob("baracuda-*.dist-info/METADATA"))
    needed = {}
    for line in metadata.read_text().splitlines():
        if line.startswith("Requires-Dist: ") and "extra ==" not in line:
            declared(re.match(r"[\w.-]+", line.split()[1])[0], needed)
    assert set(needed) == {"numpy", "cffi", "pycparser"}
    for distribution in needed.values():
        for top in {path.parts[0] for path in distribution.files} - {"..", "__pycache__"}:
            (packages / top).symlink_to(distribution.locate_file(top))
    library = packages / "baracuda" / "libs" / "cpu" / "libbaracuda_kernels.so"
    assert run([python, "-I", "-c", USE], tmp_path, BARACUDA_BACKEND="cpu").endswith("cpu [-1.0, -2.0, -3.0]\n")
    assert library.exists()
    assert str(library) in run([python, "-I", "-m", "baracuda", "info"], tmp_path)
    assert "x Phi(x)" in run([python, "-I", "-m", "baracuda", "ops", "gelu"], tmp_path)
    run(
        [python, "-I", "-c", "import baracuda as b, numpy as n; b.graph(lambda: b.gelu(n.ones(3, n.float32)))()"],
        tmp_path,
    )


BACKENDS = "from tools import build_library as b; print(b.backends(), b.chips())"


def test_what_an_installation_builds(tree, tmp_path):
    """The CUDA library is built where it is requested, or nvcc is found and chips are known."""
    for name, says in (("nvcc", ""), ("nvidia-smi", "9.0\n8.6\n9.0\n")):
        (tmp_path / name).write_text(f"#!/bin/sh\nprintf '{says}'\n")
        (tmp_path / name).chmod(0o755)
    program, bare = [sys.executable, "-c", BACKENDS], tmp_path / "bare"
    bare.mkdir()
    with_nvcc = {"PATH": f"{tmp_path}:/bin"}
    assert run(program, tree, **with_nvcc) == "['cpu', 'cuda'] ['CUDA_ARCHS=86 90']\n"
    assert run(program, tree, **with_nvcc, CUDA_ARCHS="80") == "['cpu', 'cuda'] []\n"
    assert run(program, tree, **with_nvcc, BACKENDS="cpu").startswith("['cpu'] ")
    (tmp_path / "nvidia-smi").unlink()
    assert run(program, tree, **with_nvcc, CUDA_ARCHS="80") == "['cpu', 'cuda'] []\n"
    assert run(program, tree, **with_nvcc, BACKENDS="cpu cuda") == "['cpu', 'cuda'] []\n"
    without_gpu = attempt(program, tree, **with_nvcc).stdout
    assert "no GPU: building the CPU library alone" in without_gpu
    assert "['cpu'] []\n" in without_gpu
    assert run(program, tree, PATH=str(bare)) == "['cpu'] []\n"
    refused = attempt(program, tree, PATH=str(bare), BACKENDS="cpu cuda")
    assert "nvcc cannot be found: put that of a CUDA toolkit" in refused.stdout
    assert "BACKENDS has rocm, must be cpu" in attempt(program, tree, BACKENDS="cpu rocm").stdout


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
    """Returns (variables and fields, compiler flags, linker flags) of a pkg-config file."""
    text = (prefix / "lib" / "pkgconfig" / f"{name}.pc").read_text()
    values = {}
    for line in filter(None, text.splitlines()):
        key, value = re.fullmatch(r"(\w+)(?:=|: )(.*)", line).groups()
        values[key] = re.sub(r"\$\{(\w+)\}", lambda match: values[match[1]], value)
    return values, values["Cflags"].split(), values["Libs"].split()


@pytest.fixture(scope="module")
def prefix(tree, tmp_path_factory):
    """The two libraries, installed one after the other. The second one differs by a byte that no loader looks at."""
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
    installed = {path.name for path in (prefix / "include" / "baracuda").rglob("*.hpp")}
    assert {"core.hpp", "kernels.hpp", "segment.hpp", "unary_backward.hpp"} <= installed
    for name in ("baracuda_kernels", "baracuda_kernels_cpu", "baracuda_kernels_cuda"):
        values, _, _ = pkg_config(prefix, name)
        assert (values["Name"], values["Version"], values["prefix"]) == (name, version, str(prefix))
    for link in prefix.rglob("*.so*"):
        assert not os.path.isabs(os.readlink(link) if link.is_symlink() else ""), "the tree may be moved"


@pytest.mark.parametrize("name", ["baracuda_kernels", "baracuda_kernels_cpu", "baracuda_kernels_cuda"])
def test_programs_are_built_with_the_flags(prefix, tmp_path, name):
    """The backends' files set their rpath; the plain one relies on the loader's path, or an rpath of its libdir."""
    variable, default, flags, source = PROGRAMS["c"]
    values, cflags, libs = pkg_config(prefix, name)
    rpath = [f"-Wl,-rpath,{values['libdir']}"] if name == "baracuda_kernels" else []
    program = tmp_path / "program"
    compile_strictly(
        compiler(variable, default),
        *flags,
        *cflags,
        C_SOURCES / source,
        "-o",
        program,
        *rpath,
        *libs,
        "-lm",
        "-pthread",
    )
    assert run([program], tmp_path) == "ok\n"
    linked = run(["ldd", program], tmp_path)
    found = pathlib.Path(re.search(r"libbaracuda_kernels\.so\.\d+ => (\S+)", linked)[1]).resolve()
    backend = name.removeprefix("baracuda_kernels").strip("_") or "cuda"
    assert found.parent == prefix / "lib" / "baracuda" / backend


def test_the_cmake_package(tree, prefix, tmp_path):
    """It is found below a prefix that has been moved; each program runs with its target's library."""
    moved = tmp_path / "moved"
    shutil.copytree(prefix, moved, symlinks=True)
    cmake = shutil.which("cmake", path=f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert cmake, "cmake is not installed: tools/requirements.txt has it"
    source = tree / "tests" / "library" / "cmake"
    configure = [cmake, "-S", source, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={moved}"]
    run(configure, tmp_path)
    run([cmake, "--build", tmp_path / "build"], tmp_path)
    for program, backend in (("cpp", "cpu"), ("c", "cuda"), ("cuda", "cuda")):
        assert run([tmp_path / "build" / program], tmp_path).startswith("12 14\n0 0\n19 22\n5 6\ninvalid problem: ")
        linked = run(["ldd", tmp_path / "build" / program], tmp_path)
        found = pathlib.Path(re.search(r"libbaracuda_kernels\.so\.\d+ => (\S+)", linked)[1]).resolve()
        assert found.parent == moved / "lib" / "baracuda" / backend
    shutil.rmtree(moved / "lib" / "baracuda" / "cpu")
    missing = attempt(configure, tmp_path)
    assert missing.returncode != 0
    assert "baracuda's cpu library is not installed below" in missing.stdout
    version = (moved / "lib" / "cmake" / "baracuda" / "baracudaConfigVersion.cmake").read_text()
    own = re.search(r'set\(PACKAGE_VERSION "(\d+)\.(\d+)', version)
    for asked, fits in (
        (f"{own[1]}.{own[2]}", True),
        (f"{own[1]}.{int(own[2]) + 1}", False),
        ("99", False),
    ):
        script = tmp_path / "version.cmake"
        script.write_text(
            f'set(PACKAGE_FIND_VERSION "{asked}")\n'
            f'include("{moved}/lib/cmake/baracuda/baracudaConfigVersion.cmake")\n'
            'message("${PACKAGE_VERSION_COMPATIBLE}")\n'
        )
        assert run([cmake, "-P", script], tmp_path).strip() == str(fits).upper(), asked


def test_rust_finds_what_is_built_and_installed(tree, prefix):
    """The crate's build script looks in these directories."""
    crate = tree / "build" / "rust" / "baracuda-sys"
    assert (crate / "../../cpu").resolve() == (tree / "build" / "cpu").resolve()
    assert '"../../cpu", "../../cuda"' in (crate / "build.rs").read_text()
    crate = prefix / "share" / "baracuda" / "rust" / "baracuda-sys"
    assert (crate / "../../../../lib").resolve() == (prefix / "lib").resolve()
    assert {"Cargo.toml", "build.rs", "src"} == {path.name for path in crate.iterdir()}
    assert "../../../../lib" in (crate / "build.rs").read_text()


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
