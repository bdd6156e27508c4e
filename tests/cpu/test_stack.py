# SPDX-License-Identifier: Apache-2.0
"""The CPU library needs at most 32 KiB of stack per call, on the calling thread and on OpenMP's threads; OpenBLAS takes
more where it computes matrices."""

import ctypes
import os
import struct
import subprocess
import sys

import pytest

from baracuda._library.param import symbol_of
from cases import CASES, Draw
from harness import OPS, ROWS, Launch, workspace_size
from harness.child import child_environment
from harness.compilers import C_SOURCES, compile_strictly, compiler

MOST = 32 * 1024
MOST_OF_OPENBLAS = MOST if os.environ.get("BARACUDA_LAPACK") == "off" else 2 * MOST
REGISTERS, ARGUMENTS = 8, 64


class Call(ctypes.Structure):
    _fields_ = [
        ("function", ctypes.c_void_p), ("integers", ctypes.c_uint64 * ARGUMENTS),
        ("numbers", ctypes.c_double * REGISTERS), ("status", ctypes.c_int32),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def stack_of(tmp_path_factory):
    path = tmp_path_factory.mktemp("stack") / "stack.so"
    compile_strictly(
        compiler("CC", "gcc"), "-std=c11", "-O2", "-fPIC", "-shared", C_SOURCES / "stack.c", "-o", path, "-pthread"
    )
    function = ctypes.CDLL(str(path)).stack_of
    function.argtypes, function.restype = [ctypes.POINTER(Call)], ctypes.c_int64
    return function


def address_of(library, symbol):
    return int(library.ffi.cast("uintptr_t", library.ffi.addressof(library.lib, symbol)))


def call_of(library, prepared):
    """The arguments of a launch as integers and floats."""
    integers, numbers = [], []
    row, slots = OPS[prepared.op]
    for p, value in zip(row.params, prepared.arguments):
        dtype = "" if p.direction else p.dtype_of(slots)
        if dtype in ("f32", "f64"):
            bits = struct.pack("<f4x", value) if dtype == "f32" else struct.pack("<d", value)
            numbers.append(struct.unpack("<d", bits)[0])
        else:
            integers.append(int(library.ffi.cast("uintptr_t", value)) if p.direction else value % 2**64)
    if not row.is_bare:
        workspace, nbytes = prepared.arguments[-2:]
        integers += [int(library.ffi.cast("uintptr_t", workspace)), nbytes]
    integers.append(0)
    call = Call(function=address_of(library, symbol_of(prepared.op, "run")))
    call.integers[: len(integers)] = integers
    call.numbers[: len(numbers)] = numbers
    return call


@pytest.fixture
def one_thread():
    runtime = ctypes.CDLL("libgomp.so.1")
    before = runtime.omp_get_max_threads()
    runtime.omp_set_num_threads(1)
    yield
    runtime.omp_set_num_threads(before)


# The problems that use most stack: buffers of every kind, sums of both kinds, problems large enough to be divided.
PROBLEMS = (
    "plain",
    "mixed",
    "special",
    "permuted_in",
    "tiles",
    "sum_each",
    "sum_long",
    "sum_tall",
    "all",
    "n33",
    "positions_mean",
    "positions_many",
    "row",
    "few_rows",
    "d1030",
    "depthwise",
    "depthwise_last",
    "causal_first",
)


def instances(row):
    """Every dtype of a row's first and last function; some of the casts."""
    ops = [op for op, (r, slots) in OPS.items() if r.name == row.name]
    functions = list(row.functions)
    kept = [op for op in ops if OPS[op][1].get("F") in (None, *functions[:1], *functions[-1:])]
    return kept if len(kept) < 40 else kept[::9]


@pytest.mark.parametrize("name", ROWS)
def test_a_call_takes_little_stack(library, stack_of, one_thread, name):
    row, case = ROWS[name], CASES[name]
    alone = stack_of(ctypes.byref(Call(function=address_of(library, "baracuda_kernels_abi_version"))))
    assert 0 < alone < MOST
    taken = {}
    for op in instances(row):
        _, slots = OPS[op]
        for problem_name in sorted({*PROBLEMS, case.plain, case.large} & set(case.problems)):
            problem = case.problems[problem_name](Draw(slots, problem_name))
            size = workspace_size(library, op, problem)
            for workspace in {size} if row.workspace.startswith("needed: ") else {0, size}:
                prepared = Launch(library, op, problem, workspace=workspace or None)
                call = call_of(library, prepared)
                taken[op, problem_name, workspace] = stack_of(ctypes.byref(call)) - alone
                assert call.status == 0
    most = max(taken, key=taken.get)
    limit = MOST_OF_OPENBLAS if name.startswith("linalg_") else MOST
    assert taken[most] <= limit, f"{most}: {taken[most]} bytes"


SCRIPT = """
from cases import CASES, Draw
from harness import OPS, launch

for name, case in CASES.items():
    for op, (row, slots) in OPS.items():
        if row.name == name and case.is_full(slots) and slots.get("T") in ("f16", "f64", "i64", "bool"):
            problem = case.problems[case.large](Draw(slots, case.large))
            assert launch(LIBRARY, op, problem, workspace="full").status == 0
"""


def test_small_stacks_of_openmp(library):
    """Threads that OpenMP starts run on small stacks."""
    environment = child_environment(OMP_STACKSIZE="64k", OMP_NUM_THREADS="4", BARACUDA_LIB=library.path)
    program = "import baracuda\nLIBRARY = baracuda.default_library()\n" + SCRIPT
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert result.returncode == 0, result.stderr[-2000:]
