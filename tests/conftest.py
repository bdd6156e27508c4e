"""Fixtures for all tests."""

import ctypes
import importlib.util
import os
import pathlib

import numpy as np
import pytest

import baracuda as bk

TESTS = pathlib.Path(__file__).parent
# Several test processes share the cores: idle OpenMP threads must not spin. Read when the library is opened.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def pytest_ignore_collect(collection_path: pathlib.Path, config: pytest.Config) -> bool | None:
    """Guarantees of one backend alone are collected only with its library, those of stack use not under a sanitizer,
    what PyTorch, JAX and type checkers are told only where they are installed.
    """
    needs = {"test_torch.py": "torch", "test_jax.py": "jax", "test_types.py": "mypy"}.get(collection_path.name)
    if needs is not None and not importlib.util.find_spec(needs):
        return True
    if collection_path.name == "test_stack.py" and hasattr(ctypes.CDLL(None), "__asan_init"):
        return True
    other = "cpu" if bk.default_library().backend == "cuda" else "cuda"
    return True if collection_path == TESTS / {"cpu": "cpu", "cuda": "gpu"}[other] else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a library of some families or dtypes (BARACUDA_LIB), tests by op are those of the ops that it has."""
    info = bk.default_library().build_info
    if "families" not in info and "dtypes" not in info:
        return
    symbols = set(bk.default_library().symbols())
    ops = {item: getattr(getattr(item, "callspec", None), "params", {}).get("op") for item in items}
    absent = [item for item, op in ops.items() if isinstance(op, str) and f"baracuda_kernels_{op}_run" not in symbols]
    config.hook.pytest_deselected(items=absent)
    items[:] = [item for item in items if item not in set(absent)]


@pytest.fixture(scope="session")
def library() -> bk.Library:
    """The library under test: the default one."""
    return bk.default_library()


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
