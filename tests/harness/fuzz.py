# SPDX-License-Identifier: Apache-2.0
"""Fuzzes ops of most families with valid and invalid calls, on memory that ends where an operand ends.

usage: python -m harness.fuzz --seed S [--first K] [--calls N] [--log FILE]

Call number k of a seed does not depend on those before it: `--first k --calls 1` repeats it. Each starts as a problem
of the row, drawn from the op table; then a few things are changed: a scalar, an entry of a host array, a pointer, the
workspace. These guarantees hold for any arguments:

- the status is one of 0 to 4;
- after a failure no byte has changed, and the text has the op's name and one of its arguments';
- after a success no byte has changed outside the outputs' elements;
- what _can_implement refuses _run refuses, and both refuse an operand of more than 2^47 bytes;
- a number that _can_implement takes is refused by both or by neither.

The log has the call that is being made, so that a crash can be traced. With a CUDA library, which cannot be given host
memory, only calls that _can_implement refuses are made.
"""

import argparse
import itertools
import math
import mmap
import pathlib
import sys

import numpy as np

import baracuda as bk
from tools.oracle.numerics import itemsize

from .arena import Slot
from .fuzzing.calls import DRAWN, INSTANCES, change_pointer, change_problem, draw_call
from .fuzzing.extents import MOST_BYTES, cells_of, extents_of, reach_of
from .fuzzing.rows import Call
from .launch import OPS, ROWS, is_seen, last_error

SLOT_PAGES = 16
LOOPS = ("sampling_ratio", "sinkhorn_iters")  # counts that no extent bounds
MOST_ITERATIONS = 1000


class Fuzzer:
    def __init__(self, library, seed: int, log):
        self.library, self.seed, self.log = library, seed, log
        self.slots = [Slot(SLOT_PAGES) for _ in range(1 + max(len(ROWS[name].pointers) for name in DRAWN))]
        self.ran = 0

    def assign(self, rng, call: Call) -> dict:
        """Gives every pointer an address: a small operand begins or ends with its slot."""
        row, slots = OPS[call.op]
        spans = {}
        for p, slot in zip(row.pointers, self.slots):
            dtype = p.dtype_of(slots)
            size = itemsize(dtype)
            where = extents_of(call, p)
            low, high = (0, 0) if where is None else reach_of(*where, size)
            if high - low > slot.size:
                low = high = 0
            at_end = rng.random() < 0.7
            call.pointers[p.name] = slot.address + (slot.size - max(high, 0) if at_end else -low)
            slot.bytes[:] = rng.integers(0, 256, slot.size, np.uint8)
            if dtype in ("i32", "i64") and row.family in ("segment", "embedding", "indexing", "loss"):
                indices = rng.integers(-2, 12, slot.size // size)
                slot.bytes[:] = indices.astype(np.int32 if dtype == "i32" else np.int64).view(np.uint8)
            spans[p.name] = slot, (low, high)
        return spans

    def choose_workspace(self, rng, call: Call, values) -> None:
        row, _ = OPS[call.op]
        needed = 0
        if row.workspace:
            needed = self.library.function(call.op, "workspace_size")(*[values[p.name] for p in row.size_params])
        kind = rng.choice(["none", "full", "short", "misplaced"])
        slot = self.slots[-1]
        if kind == "none" or needed > slot.size:
            call.changes += ["workspace"] if row.workspace.startswith("needed: ") else []
            return
        nbytes = needed if kind != "short" else int(rng.integers(0, needed + 1))
        call.workspace = (slot.address + slot.size - nbytes, nbytes)
        if kind == "misplaced" and nbytes + 3 <= slot.size:
            call.workspace = (slot.address + 3, nbytes)
        if nbytes < needed:
            call.changes.append("workspace")

    def run(self, k: int) -> None:
        """Makes call number k."""
        rng = np.random.default_rng((self.seed, k))
        instances = INSTANCES[DRAWN[k % len(DRAWN)]]
        call = draw_call(rng, instances[rng.integers(len(instances))])
        row, _ = OPS[call.op]
        for _ in range(rng.choice([0, 0, 1, 1, 2])):
            change_problem(rng, call)
        spans = self.assign(rng, call)
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            change_pointer(rng, call, spans)
        ffi = self.library.ffi
        values = {}
        for p in row.problem:
            if p.direction == "host":
                entries = call.host[p.name]
                ctype = {"i32": "int32_t[8]", "i64": "int64_t[8]"}[p.dtype]
                values[p.name] = ffi.NULL if entries is None else ffi.new(ctype, entries)
            else:
                values[p.name] = call.scalars[p.name]
        self.write_log(k, call)
        checked = [ffi.NULL if p.is_pointer else values[p.name] for p in row.check_params]
        can = self.library.function(call.op, "can_implement")(*checked)
        self.check_can(call, can)
        self.choose_workspace(rng, call, values)
        self.write_log(k, call)
        if can == 0 and (self.library.backend == "cuda" or not self.is_small(call)):
            return
        self.ran += 1
        before = [slot.bytes.copy() for slot in self.slots]
        arguments = [ffi.cast("void*", call.pointers[p.name]) if p.is_pointer else values[p.name] for p in row.params]
        tail = (ffi.NULL,) if row.is_bare else (ffi.cast("void*", call.workspace[0]), call.workspace[1], ffi.NULL)
        status = self.library.function(call.op)(*arguments, *tail)
        assert status in (0, 1, 2, 3, 4), f"status {status}: {last_error(self.library)}"
        assert status != 0 or can == 0, f"status 0, though can_implement said {can}"
        if status:
            self.check_text(call, status)
        if status in (2, 3) and can == 0:
            self.check_unseen(call)
        self.check_memory(call, status, before)

    def is_small(self, call: Call) -> bool:
        """Whether a valid call has the memory that it needs, and ends soon."""
        row, slots = OPS[call.op]
        if any(call.scalars.get(name, 0) > MOST_ITERATIONS for name in LOOPS):
            return False
        for p in row.pointers:
            where = extents_of(call, p)
            if where is None:  # can_implement has not seen the arrays
                return True
            low, high = reach_of(*where, itemsize(p.dtype_of(slots)))
            if math.prod(where[0]) > 1 << 18 or high - low > self.slots[0].size:
                return False
        return True

    def check_can(self, call: Call, can: int) -> None:
        row, slots = OPS[call.op]
        assert can in (0, 2, 3), f"can_implement gives {can}"
        if can:
            self.check_text(call, can)
        elif all(p in row.check_params for p in row.problem if p.direction == "host"):
            for p in row.pointers:
                where = extents_of(call, p)
                assert where is not None, "can_implement takes what has no shape"
                low, high = reach_of(*where, itemsize(p.dtype_of(slots)))
                bound = 2 * MOST_BYTES if "twice" in p.shape else MOST_BYTES
                assert high - low <= bound, f"can_implement takes {p.name} of {high - low} bytes"

    def check_text(self, call: Call, status: int) -> None:
        row, _ = OPS[call.op]
        text = last_error(self.library)
        names = [p.name for p in row.params] + ["workspace"]
        assert text.startswith(f"{call.op}: "), text
        assert any(name in text.removeprefix(f"{call.op}: ") for name in names), text
        assert status != 4 or "workspace" in call.changes, text

    def check_unseen(self, call: Call) -> None:
        """Only a pointer, or a number that `_can_implement` does not take, is refused by `_run` alone."""
        text = last_error(self.library)
        assert not is_seen(call.op, text), f"can_implement takes what run refuses: {text}"

    def check_memory(self, call: Call, status: int, before) -> None:
        row, slots = OPS[call.op]
        for slot, bytes_before in zip(self.slots, before):
            changed = slot.bytes != bytes_before
            if not changed.any():
                continue
            assert status == 0, f"status {status}, but memory has changed: {last_error(self.library)}"
            if call.workspace[1] and slot is self.slots[-1]:
                first = call.workspace[0] - slot.address
                changed[first : first + call.workspace[1]] = False
            for p in row.pointers:
                pointer = call.pointers[p.name]
                if p.is_output and pointer:
                    cells = cells_of(*extents_of(call, p), itemsize(p.dtype_of(slots))) + (pointer - slot.address)
                    changed[cells[(cells >= 0) & (cells < slot.size)]] = False
            where = np.flatnonzero(changed)
            assert where.size == 0, (
                f"{where.size} bytes changed that no output has, the first at {hex(slot.address + where[0])}"
            )

    def write_log(self, k: int, call: Call) -> None:
        if self.log is not None:
            text = f"seed {self.seed}, call {k}: {call}".encode()[: len(self.log) - 1]
            self.log[: len(text) + 1] = text + b"\0"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--log", type=pathlib.Path)
    options = parser.parse_args()
    log = None
    if options.log:
        with options.log.open("r+b") as file:
            log = mmap.mmap(file.fileno(), 0)
    fuzzer = Fuzzer(bk.default_library(), options.seed, log)
    for k in itertools.islice(itertools.count(options.first), options.calls):
        try:
            fuzzer.run(k)
        except AssertionError as error:
            print(f"seed {options.seed}, call {k}: {error}", file=sys.stderr)
            return 1
    print(f"{fuzzer.ran} of {options.calls} calls were run")
    return 0


if __name__ == "__main__":
    sys.exit(main())
