# SPDX-License-Identifier: Apache-2.0
"""Streams, a way to block one, and large device arrays, on cuda.bindings."""

import concurrent.futures
import contextlib
import ctypes
import dataclasses
import gc

import numpy as np
from cuda.bindings import driver, runtime

import tolerances
from cases import CASES, Draw
from harness import OPS, Launch, claims_determinism, cuda_check, decode, workspace_size
from harness.outcomes import check_outcome
from tools.oracle.numerics import bits_type, encode, itemsize

PER_THREAD = 2  # cudaStreamPerThread
SLACK = 1024  # guard bytes at each end of a large array
PATIENCE = 20.0  # seconds after which a call counts as waiting for the stream


@contextlib.contextmanager
def stream():
    """A stream that does not wait for the legacy default stream."""
    handle = cuda_check(runtime.cudaStreamCreateWithFlags(runtime.cudaStreamNonBlocking))
    try:
        yield int(handle)
    finally:
        cuda_check(runtime.cudaStreamSynchronize(handle))
        cuda_check(runtime.cudaStreamDestroy(handle))


def captured(handle, work):
    """The graph of the work that `work()` enqueues on the stream, and its result.

    Garbage collection is off meanwhile: it might free GPU memory, which ends a capture. What threads of frameworks do
    in this process does not.
    """
    gc.disable()
    try:
        mode = runtime.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        cuda_check(runtime.cudaStreamBeginCapture(handle, mode))
        result = work()
        return cuda_check(runtime.cudaStreamEndCapture(handle)), result
    finally:
        gc.enable()


class Gate:
    """Blocks streams until it is opened: they wait for a word in page-locked memory."""

    def __init__(self):
        self._address = int(cuda_check(runtime.cudaHostAlloc(64, runtime.cudaHostAllocMapped)))
        self._word = ctypes.c_uint32.from_address(self._address)
        self._word.value = 0

    def hold(self, handle: int) -> None:
        flag = driver.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_EQ
        cuda_check(driver.cuStreamWaitValue32(handle, self._address, 1, flag))

    def open(self) -> None:
        self._word.value = 1


@contextlib.contextmanager
def gate():
    made = Gate()
    try:
        yield made
    finally:
        made.open()


def is_waiting(handle: int) -> bool:
    (status,) = runtime.cudaStreamQuery(handle)
    return status == runtime.cudaError_t.cudaErrorNotReady


def in_thread(function):
    """The result of function() in a thread of its own, which must end soon; its error is raised here."""
    pool = concurrent.futures.ThreadPoolExecutor(1)
    try:
        return pool.submit(function).result(PATIENCE)
    except concurrent.futures.TimeoutError:
        raise AssertionError("the call did not return while its stream was held back") from None
    finally:
        pool.shutdown(wait=False)


def problem_of(op: str, seed: object = "gpu"):
    row, slots = OPS[op]
    case = CASES[row.name]
    return case, case.problems[case.large_of(slots)](Draw(slots, f"{op} {seed}"))


def variants(ops=tuple(OPS)):
    """(op, workspace) for every op and way to call it."""
    return [(op, w) for op in ops for w in workspaces_of(OPS[op][0].workspace)]


def workspaces_of(purpose: str) -> tuple[str | None, ...]:
    """None stands for no workspace, with which a row that needs one computes nothing."""
    return (None,) if not purpose else ("full",) if purpose.startswith("needed: ") else (None, "full")


def full_variants():
    """variants() of the full instances, since the code around a function does not depend on it."""
    return variants([op for op, (row, slots) in OPS.items() if CASES[row.name].is_full(slots)])


def prepare(library, op, problem, workspace) -> Launch:
    return Launch(library, op, problem, workspace=workspace_size(library, op, problem) if workspace else None)


def check(library, case, op, problem, prepared, workspace, status=0, reference=None):
    """Asserts that the outcome is right, and bitwise equal to `reference` where the op promises it."""
    outcome = prepared.outcome(status)
    check_outcome(library, case, op, problem, outcome, workspace)
    if reference is not None and claims_determinism(library, op, workspace):
        for name, bits in outcome.bits.items():
            tolerances.check_bits(f"{op}: {name}", bits, reference.bits[name], outcome.dtypes[name])
    return outcome


def right_on_two_streams(library, op, problem, case=None, workspace=None):
    """Asserts that the result is right, and bitwise equal on another stream."""
    case = case or CASES[OPS[op][0].name]
    first = prepare(library, op, problem, workspace)
    outcome = check(library, case, op, problem, first, workspace, first.run())
    again = prepare(library, op, problem, workspace)
    with stream() as handle:
        status = again.run(handle)
        cuda_check(runtime.cudaStreamSynchronize(handle))
    check(library, case, op, problem, again, workspace, status, outcome)


@dataclasses.dataclass
class Cell:
    """A pointer to an element of a Large array."""

    pointer: int


class Large:
    """A device array of many elements between guard bytes; its content is a short pattern over and over, or poison.

    Element i is pattern[i % len(pattern)]; an odd pattern length exposes an index that lost its upper bits.
    """

    def __init__(self, dtype: str, numel: int, pattern=None, byte: int = 0xA5):
        self.dtype, self.numel, self._size = dtype, numel, itemsize(dtype)
        self._nbytes = numel * self._size
        self._base = int(cuda_check(runtime.cudaMalloc(self._nbytes + 2 * SLACK)))
        self.pointer = self._base + SLACK
        cuda_check(runtime.cudaMemset(self._base, 0xA5, SLACK))
        cuda_check(runtime.cudaMemset(self.pointer + self._nbytes, 0xA5, SLACK))
        self.pattern = None
        if pattern is None:
            cuda_check(runtime.cudaMemset(self.pointer, byte, self._nbytes))
        else:
            self._fill(encode(pattern, dtype))
        cuda_check(runtime.cudaDeviceSynchronize())

    def _fill(self, bits: np.ndarray) -> None:
        self.pattern = decode(bits, self.dtype)
        bits = np.ascontiguousarray(bits)
        done = min(bits.nbytes, self._nbytes)
        to_device, on_device = (
            runtime.cudaMemcpyKind.cudaMemcpyHostToDevice,
            runtime.cudaMemcpyKind.cudaMemcpyDeviceToDevice,
        )
        cuda_check(runtime.cudaMemcpy(self.pointer, bits.ctypes.data, done, to_device))
        while done < self._nbytes:
            step = min(done, self._nbytes - done)
            cuda_check(runtime.cudaMemcpy(self.pointer + done, self.pointer, step, on_device))
            done += step

    def cell(self, index: int) -> Cell:
        return Cell(self.pointer + index * self._size)

    def values_at(self, indices: np.ndarray) -> np.ndarray:
        """The pattern's values at the indices, without a look at the device."""
        return self.pattern[indices % len(self.pattern)]

    def read(self, first: int, count: int) -> np.ndarray:
        """The float64 or integer values of a slice of device memory."""
        bits = np.empty(count, bits_type(self.dtype))
        kind = runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
        cuda_check(runtime.cudaMemcpy(bits.ctypes.data, self.pointer + first * self._size, bits.nbytes, kind))
        return decode(bits, self.dtype)

    def check_guards(self, name: str) -> None:
        for at in (self._base, self.pointer + self._nbytes):
            guard = np.empty(SLACK, np.uint8)
            kind = runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
            cuda_check(runtime.cudaMemcpy(guard.ctypes.data, at, SLACK, kind))
            assert (guard == 0xA5).all(), f"{name}: bytes beyond the array changed"

    def slices(self, length: int):
        """Yields (first, count) at the start, the end, around 2^31 and 2^32 elements and bytes, and between."""
        marks = [
            0,
            self.numel,
            2**31,
            2**32,
            2**31 // self._size,
            2**32 // self._size,
            2**30,
            3 * 2**29,
            self.numel // 3,
        ]
        for mark in marks:
            first = max(0, min(mark - length // 2, self.numel - length))
            if mark <= self.numel:
                yield first, length

    def __del__(self):
        if getattr(self, "_base", 0):
            runtime.cudaFree(self._base)


def call(library, op: str, values: dict, workspace: Large | None = None) -> None:
    """Runs the op with values by parameter name: Large arrays for pointers, lists for host arrays; it must succeed."""
    row, _ = OPS[op]
    ffi, arguments = library.ffi, []
    for p in row.params:
        value = values[p.name]
        if p.is_pointer:
            arguments.append(ffi.cast("void*", value.pointer))
        elif p.direction == "host":
            arguments.append(ffi.new("int64_t[]" if p.dtype == "i64" else "int32_t[]", list(value)))
        else:  # a number, or a list of operands as a cffi array
            arguments.append(value)
    space = (ffi.NULL, 0) if workspace is None else (ffi.cast("void*", workspace.pointer), workspace.numel)
    space = () if row.is_bare else space
    status = library.function(op)(*arguments, *space, ffi.NULL)
    assert status == 0, ffi.string(library.lib.baracuda_kernels_last_error()).decode()
    cuda_check(runtime.cudaDeviceSynchronize())
    for name, value in values.items():
        if isinstance(value, Large):
            value.check_guards(f"{op}: {name}")
    if workspace is not None:
        workspace.check_guards(f"{op}: workspace")


def large_workspace(library, op: str, values: dict) -> Large:
    row, _ = OPS[op]
    arguments = []
    for p in row.size_params:
        value = values[p.name]
        if p.direction == "host":
            value = library.ffi.new("int64_t[]" if p.dtype == "i64" else "int32_t[]", list(value))
        arguments.append(value)
    return Large("u8", library.function(op, "workspace_size")(*arguments))
