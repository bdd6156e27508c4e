"""Host time of functions, and of plans with new Args, on small arrays, fresh each call but of shapes seen before.

usage: python -m tools.bench.functions [--rounds N]

Prints microseconds of process time a call, the least of the rounds, and the bound where there is one, beside what the
frameworks' own functions take: NumPy's, PyTorch's where it is installed, on the GPU where the default library is
CUDA's, and CuPy's there.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import baracuda as bk

_CALLS = 400  # fits in the launch queue of a GPU
_ARGS = 15.0  # microseconds for Args of arrays that were not seen before
Candidate = tuple[str, Callable[[], Any], "float | None"]


def candidates() -> Iterator[Candidate]:
    """(name, call, bound in microseconds)"""
    if bk.default_library().backend == "cpu":
        yield from _about("numpy", np.add, *(np.ones(16, np.float32) for _ in range(3)), 5.0)
        yield from _of_rows("numpy", np.ones((4, 4), np.float32), np.arange(4), _NUMPY)
    on_cuda = bk.default_library().backend == "cuda"
    if importlib.util.find_spec("torch"):
        import torch

        device = "cuda" if on_cuda else "cpu"
        yield from _about("torch", torch.add, *(torch.ones(16, device=device) for _ in range(3)), 8.0)
        own = torch.nn.functional
        theirs = {
            "sum": lambda x, at: torch.sum(x, 1), "cumsum": lambda x, at: torch.cumsum(x, 1),
            "softmax": lambda x, at: torch.softmax(x, -1),
            "layer_norm": lambda x, at: own.layer_norm(x, (4,), x[0], x[0]),
            "cross_entropy": own.cross_entropy, "matmul": lambda x, at: x @ x,
            "nonzero": lambda x, at: torch.nonzero(x), "concatenate": lambda x, at: torch.cat([x, x]),
        }  # fmt: skip
        yield from _of_rows("torch", torch.ones(4, 4, device=device), torch.arange(4, device=device), theirs)
    if on_cuda and importlib.util.find_spec("cupy"):
        import cupy

        yield from _about("cupy", cupy.add, *(cupy.ones(16, "float32") for _ in range(3)), None)


def _about(name: str, own: Callable[..., Any], a: Any, b: Any, c: Any, bound: float | None) -> Iterator[Candidate]:
    yield f"{name}: its own add(a, b)", lambda: own(a, b), None
    yield f"{name}: add(a, b)", lambda: bk.add(a, b), bound
    yield f"{name}: add(a, b, out=c)", lambda: bk.add(a, b, out=c), None
    yield f"{name}: add(a, 2.5)", lambda: bk.add(a, 2.5), None
    yield f"{name}: gelu(a)", lambda: bk.gelu(a), None
    yield f"{name}: leaky_relu(a, negative_slope=0.2)", lambda: bk.leaky_relu(a, negative_slope=0.2), None
    yield f"{name}: mul_backward(a, a, b)", lambda: bk.mul_backward(a, a, b), None
    descriptor = bk.BinaryDescriptor(kind=bk.BinaryKind.ADD, shape=(16,), element=bk.f32)
    run = bk.BinaryPlan.select(None, descriptor).run
    yield f"{name}: plan.run of new Args", lambda: run(None, None, bk.BinaryArgs(a=a, b=b, y=c)), _ARGS


_NUMPY: dict[str, Callable[..., Any]] = {
    "sum": lambda x, at: np.sum(x, axis=1), "cumsum": lambda x, at: np.cumsum(x, axis=1),
    "matmul": lambda x, at: x @ x, "nonzero": lambda x, at: np.nonzero(x),
    "concatenate": lambda x, at: np.concatenate([x, x]),
}  # fmt: skip


def _of_rows(name: str, x: Any, at: Any, theirs: dict[str, Callable[..., Any]]) -> Iterator[Candidate]:
    """Functions of rows: most of them take a workspace from the framework's allocator."""
    ours: dict[str, Callable[[], Any]] = {
        "sum": lambda: bk.sum(x, axis=1), "cumsum": lambda: bk.cumsum(x, axis=1), "softmax": lambda: bk.softmax(x),
        "layer_norm": lambda: bk.layer_norm(x, x[0], x[0]), "cross_entropy": lambda: bk.cross_entropy(x, at),
        "matmul": lambda: bk.matmul(x, x), "nonzero": lambda: bk.nonzero(x),
        "concatenate": lambda: bk.concatenate([x, x]),
    }  # fmt: skip
    for function, call in ours.items():
        if function in theirs:
            yield f"{name}: its own {function}", functools.partial(theirs[function], x, at), None
        yield f"{name}: {function}", call, None


def microseconds(call: Callable[[], Any], rounds: int) -> float:
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
    parser.add_argument("--rounds", type=int, default=60)
    rounds = parser.parse_args().rounds
    missed = 0
    for name, call, bound in candidates():
        took = microseconds(call, rounds)
        missed += bound is not None and took > bound
        print(f"{name:45} {took:6.2f} us{f'  bound {bound:g}' if bound else ''}")
    shapes = iter(range(100_000))
    print(
        f"{'the first call of a shape':45} {microseconds(lambda: bk.neg(np.ones(next(shapes), np.float32)), 3):6.2f} us"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
