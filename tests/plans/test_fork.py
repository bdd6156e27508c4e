# SPDX-License-Identifier: Apache-2.0
"""A child that is forked after a call, as multiprocessing does, can call the library.

Each test runs in a process of its own with a time limit, since the failure is a deadlock.
"""

import subprocess
import sys

import pytest

import baracuda as bk
from harness.child import child_environment

PROLOGUE = """
import concurrent.futures, multiprocessing, os, threading, warnings
import numpy as np
import baracuda as bk
warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12 and later: it sees the threads
library = bk.default_library()
NULL = library.ffi.NULL
forked = multiprocessing.get_context("fork")

def gelu(n=1 << 20):
    x, y = np.linspace(-3, 3, n, dtype=np.float32), np.empty(n, np.float32)
    pointers = [library.ffi.cast("void*", a.ctypes.data) for a in (x, y)]
    assert library.function("unary_gelu_f32")(n, *pointers, NULL, 0, NULL) == 0
    return y

def threads():
    return len(os.listdir("/proc/self/task"))

def in_child(function):
    child = forked.Process(target=function)
    child.start()
    child.join()
    assert child.exitcode == 0, child.exitcode
"""

PROGRAMS = {
    "the thread that forked works alone": """
expected, used = gelu(), threads()
assert used > 1, "no thread was started"
def child():
    assert (gelu() == expected).all()
    assert threads() == 1
in_child(child)
assert (gelu() == expected).all() and threads() == used
""",
    "a thread of the child starts others": """
expected = gelu()
def child():
    seen = []
    thread = threading.Thread(target=lambda: seen.extend([gelu(), threads()]))
    thread.start()
    thread.join()
    assert (seen[0] == expected).all()
    assert seen[1] > 2
in_child(child)
""",
    "a child that forks again": """
expected = gelu()
def grandchild():
    assert (gelu() == expected).all()
def child():
    assert (gelu() == expected).all()
    in_child(grandchild)
in_child(child)
""",
    "a child of a process that has made no call": """
def child():
    gelu()
    assert threads() > 1
in_child(child)
""",
    "functions and plans that were prepared before": """
x = np.linspace(-3, 3, 1 << 18, dtype=np.float32).reshape(512, 512)
plan = bk.UnaryPlan.select(None, bk.UnaryDescriptor(kind=bk.UnaryKind.GELU, shape=x.shape, element=bk.f32))
again = bk.graph(lambda: bk.gelu(x))
y = np.empty_like(x)
launch = plan.bind(None, None, bk.UnaryArgs(x=x, y=y))
expected = bk.gelu(x)
def same():
    y[...] = 0
    launch()
    assert all((found == expected).all() for found in (bk.gelu(x), y, again()))
def child():
    same()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(bk.gelu, x) for _ in range(8)]:
            assert (done.result() == expected).all()
    assert bk.tanh(x[:3]).shape == (3, 512)  # prepared by the child
in_child(child)
same()
""",
    "functions that take a workspace": """
x = np.linspace(-3, 3, 1 << 18, dtype=np.float32).reshape(512, 512)
def results():
    return bk.matmul(x, x), bk.sum(x, axis=0), bk.softmax(x)
expected = results()
def same():
    assert all((a == b).all() for a, b in zip(results(), expected))
in_child(same)
same()
""",
    "a pool of processes": """
expected = gelu()
with concurrent.futures.ProcessPoolExecutor(2, mp_context=forked) as pool:
    for y in pool.map(gelu, [1 << 20] * 4):
        assert (y == expected).all()
""",
}
NEEDS = {"functions that take a workspace": ("gemm_dense_f32", "reduce_sum_f32", "softmax_f32")}  # beside gelu and tanh
CHECKS = """
def child():
    assert library.function("unary_gelu_f32", "can_implement")(5, NULL, NULL) == 0
    assert library.function("unary_gelu_f32", "can_implement")(-5, NULL, NULL) == 2
    assert library.last_error().startswith("unary_gelu_f32: numel is -5")
    assert library.function("unary_gelu_f32")(-6, NULL, NULL, NULL, 0, NULL) == 2
    assert library.function("unary_gelu_f32")(0, NULL, NULL, NULL, 0, NULL) == 0
in_child(child)
"""


def run(library, program):
    environment = child_environment(BARACUDA_LIB=str(library), OMP_NUM_THREADS="3")
    environment.pop("BARACUDA_BACKEND", None)  # the path chooses the backend
    environment["OPENBLAS_NUM_THREADS"] = "1"  # NumPy's threads end at a fork

    result = subprocess.run(
        [sys.executable, "-c", PROLOGUE + program], env=environment, capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr


def has(op):
    return f"baracuda_kernels_{op}_run" in bk.default_library().symbols()


@pytest.mark.parametrize("program", [program for program in PROGRAMS if all(map(has, NEEDS.get(program, ())))])
def test_cpu_library(cpu_library, program):
    run(cpu_library, PROGRAMS[program])


def test_checks_and_errors(library):
    """Checks and errors need no device, so they run on the library under test."""
    run(library.path, CHECKS)
