# SPDX-License-Identifier: Apache-2.0
"""Host time of functions, and of plans with new Args, on small arrays: new arrays each call, of cached shapes.

usage: python -m tools.bench.functions [--rounds N]

Prints microseconds of process time per call, the minimum over the rounds, and the bound if there is one, next to the
time of the framework's function: NumPy, PyTorch if it is installed (on the GPU if the default library is CUDA's), and
CuPy on a GPU.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import baracuda as bk
from tools.environment import import_torch

_CALLS = 400  # fits in the launch queue of a GPU
_ADD = {"numpy": 5.0, "torch": 8.0}  # microseconds for add(a, b) of arrays of each kind
_ARGS = 15.0  # for Args of arrays that were not seen before
_ROUNDS = 30
Call = Callable[[], Any]
Row = dict[str, Any]


class Candidate(NamedTuple):
    """Our call on arrays of a framework, the framework's own call, and the bound of ours in microseconds."""

    arrays: str
    name: str
    ours: Call
    theirs: Call | None = None
    bound: float | None = None


def costs(library: bk.Library, torch: Any, rounds: int = _ROUNDS) -> list[Row]:
    """A row for each candidate: microseconds of process time per call, the minimum over the rounds."""
    rows = []
    for arrays, name, ours, theirs, bound in candidates(library, torch):
        took = microseconds(ours, rounds)
        own = None if theirs is None else microseconds(theirs, rounds)
        met = None if bound is None else took <= bound
        rows.append({"arrays": arrays, "call": name, "us": took, "own_us": own, "bound": bound, "met": met})
    return rows


def candidates(library: bk.Library, torch: Any) -> Iterator[Candidate]:
    """Arrays of NumPy on the CPU, of `torch` unless it is None, and of CuPy on a GPU."""
    on_cuda = library.backend == "cuda"
    if not on_cuda:
        yield from _about(library, "numpy", np.add, *(np.ones(16, np.float32) for _ in range(3)))
        yield from _of_rows("numpy", np.ones((4, 4), np.float32), np.arange(4), _NUMPY)
        yield _of_new_shape("numpy", lambda length: np.ones(length, np.float32))
    if torch is not None:
        device = "cuda" if on_cuda else "cpu"
        yield from _about(library, "torch", torch.add, *(torch.ones(16, device=device) for _ in range(3)))
        own = torch.nn.functional
        theirs = {
            "sum": lambda x, at: torch.sum(x, 1), "cumsum": lambda x, at: torch.cumsum(x, 1),
            "softmax": lambda x, at: torch.softmax(x, -1),
            "layer_norm": lambda x, at: own.layer_norm(x, (4,), x[0], x[0]),
            "cross_entropy": own.cross_entropy, "matmul": lambda x, at: x @ x,
            "nonzero": lambda x, at: torch.nonzero(x), "concatenate": lambda x, at: torch.cat([x, x]),
        }  # fmt: skip
        yield from _of_rows("torch", torch.ones(4, 4, device=device), torch.arange(4, device=device), theirs)
        yield _of_new_shape("torch", lambda length: torch.ones(length, device=device))
    if on_cuda and importlib.util.find_spec("cupy"):
        import cupy

        yield from _about(library, "cupy", cupy.add, *(cupy.ones(16, "float32") for _ in range(3)))


def _about(library: bk.Library, arrays: str, own: Callable[..., Any], a: Any, b: Any, c: Any) -> Iterator[Candidate]:
    descriptor = bk.BinaryDescriptor(kind=bk.BinaryKind.ADD, shape=(16,), element=bk.f32)
    run = bk.BinaryPlan.select(None, descriptor, library=library).run
    yield Candidate(arrays, "add(a, b)", lambda: bk.add(a, b), lambda: own(a, b), _ADD.get(arrays))
    yield Candidate(arrays, "add(a, b, out=c)", lambda: bk.add(a, b, out=c), lambda: own(a, b, out=c))
    yield Candidate(arrays, "add(a, 2.5)", lambda: bk.add(a, 2.5), lambda: own(a, 2.5))
    yield Candidate(arrays, "gelu(a)", lambda: bk.gelu(a))
    yield Candidate(arrays, "leaky_relu(a, negative_slope=0.2)", lambda: bk.leaky_relu(a, negative_slope=0.2))
    yield Candidate(arrays, "mul_backward(a, a, b)", lambda: bk.mul_backward(a, a, b))
    yield Candidate(arrays, "plan.run of new Args", lambda: run(None, None, bk.BinaryArgs(a=a, b=b, y=c)), None, _ARGS)


_NUMPY: dict[str, Callable[..., Any]] = {
    "sum": lambda x, at: np.sum(x, axis=1), "cumsum": lambda x, at: np.cumsum(x, axis=1),
    "matmul": lambda x, at: x @ x, "nonzero": lambda x, at: np.nonzero(x),
    "concatenate": lambda x, at: np.concatenate([x, x]),
}  # fmt: skip


def _of_rows(arrays: str, x: Any, at: Any, theirs: dict[str, Callable[..., Any]]) -> Iterator[Candidate]:
    """Row functions: most take a workspace from the framework's allocator."""
    ours: dict[str, Call] = {
        "sum": lambda: bk.sum(x, axis=1), "cumsum": lambda: bk.cumsum(x, axis=1), "softmax": lambda: bk.softmax(x),
        "layer_norm": lambda: bk.layer_norm(x, x[0], x[0]), "cross_entropy": lambda: bk.cross_entropy(x, at),
        "matmul": lambda: bk.matmul(x, x), "nonzero": lambda: bk.nonzero(x),
        "concatenate": lambda: bk.concatenate([x, x]),
    }  # fmt: skip
    for name, call in ours.items():
        own = functools.partial(theirs[name], x, at) if name in theirs else None
        yield Candidate(arrays, f"{name} of 4 x 4", call, own)


def _of_new_shape(arrays: str, make: Callable[[int], Any]) -> Candidate:
    lengths = itertools.cycle(range(1, 100_000))
    return Candidate(arrays, "neg of a length not seen before", lambda: bk.neg(make(next(lengths))))


def host_sweeps(library: bk.Library, torch: Any) -> dict[str, dict[int, tuple[Call, Call]]]:
    """Function -> (number of elements -> our call on PyTorch tensors, and PyTorch's call)."""
    device = "cuda" if library.backend == "cuda" else "cpu"
    own = torch.nn.functional
    found: dict[str, dict[int, tuple[Call, Call]]] = {}
    for count in (16, 64, 256, 1024, 4096):
        a, b, c = (torch.ones(count, device=device) for _ in range(3))
        rows, row = torch.ones(count // 4, 4, device=device), torch.ones(4, device=device)
        at = torch.zeros(count // 4, dtype=torch.int64, device=device)
        calls: dict[str, tuple[Call, Call]] = {
            "add": (lambda a=a, b=b: bk.add(a, b), lambda a=a, b=b: torch.add(a, b)),
            "add out=": (lambda a=a, b=b, c=c: bk.add(a, b, out=c), lambda a=a, b=b, c=c: torch.add(a, b, out=c)),
            "gelu": (lambda a=a: bk.gelu(a), lambda a=a: own.gelu(a)),
            "sum": (lambda x=rows: bk.sum(x, axis=1), lambda x=rows: torch.sum(x, 1)),
            "softmax": (lambda x=rows: bk.softmax(x), lambda x=rows: torch.softmax(x, -1)),
            "layer_norm": (
                lambda x=rows, y=row: bk.layer_norm(x, y, y), lambda x=rows, y=row: own.layer_norm(x, (4,), y, y),
            ),
            "cross_entropy": (lambda x=rows, at=at: bk.cross_entropy(x, at),
                              lambda x=rows, at=at: own.cross_entropy(x, at)),
            "matmul": (lambda x=rows: bk.matmul(x.T, x), lambda x=rows: x.T @ x),
        }  # fmt: skip
        for name, pair in calls.items():
            found.setdefault(f"host time of {name}", {})[count] = pair
    return found


def microseconds(call: Call, rounds: int) -> float:
    call()
    best = float("inf")
    for _ in range(rounds):
        bk.synchronize()
        start = time.process_time_ns()
        for _ in range(_CALLS):
            call()
        best = min(best, (time.process_time_ns() - start) / _CALLS / 1000)
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    rounds, library = parser.parse_args().rounds, bk.default_library()
    rows = costs(library, import_torch(library.backend), rounds)
    for row in rows:
        own = "" if row["own_us"] is None else f"  its own {row['own_us']:.2f}"
        bound = "" if row["bound"] is None else f"  bound {row['bound']:g}"
        print(f"{row['arrays'] + ': ' + row['call']:42} {row['us']:6.2f} us{own}{bound}")
    return 1 if any(row["met"] is False for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
