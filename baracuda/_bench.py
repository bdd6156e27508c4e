"""`python -m baracuda bench gelu --dtype bf16`: a function beside what else is installed here, drawn.

Peers are the functions of that name of PyTorch and NumPy, on the same values. One that gives other values means
something else by the name, and is left out. Times are the least of several rounds: of the clock on the CPU, between two
events on a GPU.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import baracuda as bk
from baracuda._functions.spec import REQUIRED, Spec, specs
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import BaracudaError, InvalidProblemError, UnsupportedError

_SECONDS = 0.1  # of each measurement
_WIDTH = 40  # of the longest bar
_CLOSE = 0.05  # what tells a peer that means something else from one that rounds otherwise
Call = Callable[[], Any]


def bench(name: str, dtype: str, sizes: tuple[int, ...]) -> Iterator[str]:
    """The lines of the table."""
    spec = specs().get(name)
    if spec is None:
        raise InvalidProblemError(f"no function {name!r}; `python -m baracuda ops` lists the ops")
    required = [n.name for n in spec.numbers if n.default is REQUIRED]
    if spec.layout != "pointwise" or required:
        what = f"it needs {', '.join(required)}" if required else "its operands are of several shapes"
        raise UnsupportedError(f"bench takes functions of arrays of one shape alone; {name} is none: {what}")
    kind = as_element(dtype)
    backend = bk.default_library().backend
    yield f"{name}, {kind}, {backend}: {bk.default_library().path}"
    for size in sizes:
        calls = dict(candidates(spec, kind, size, backend))
        times = {peer: seconds(call, backend) for peer, call in calls.items()}
        moved = kind.itemsize * size * (len(spec.arrays) + len(spec.outputs))
        yield f"{size} elements"
        for peer, found in times.items():
            bar = "#" * max(1, round(_WIDTH * found / max(times.values())))
            yield f"  {peer:9s} {found * 1e6:10.1f} us {moved / found / 1e9:8.1f} GB/s  {bar}"


def candidates(spec: Spec, kind: ElementKind, size: int, backend: str) -> Iterator[tuple[str, Call]]:
    """(name, call), this package's first."""
    values = [drawn(size, kind, seed) for seed in range(len(spec.arrays))]
    torch = _torch(backend)
    function = getattr(bk, spec.name)
    if torch is not None:
        native = [torch.from_numpy(v.astype(np.float32)).to(getattr(torch, kind.numpy_name)) for v in values]
        native = [v.cuda() for v in native] if backend == "cuda" else native
        own = function(*native)
        yield "baracuda", lambda: function(*native)
        places = (torch, torch.nn.functional, torch.special)
        peer = next((f for place in places if callable(f := getattr(place, spec.name, None))), None)
        if peer is not None and agrees(lambda: peer(*native), own):
            yield "torch", lambda: peer(*native)
    else:
        arrays = [bk.upload(v, kind) for v in values] if backend == "cuda" else values
        own = function(*arrays)
        yield "baracuda", lambda: function(*arrays)
    theirs = getattr(np, spec.name, None)
    if backend == "cpu" and callable(theirs) and agrees(lambda: theirs(*values), own):
        yield "numpy", lambda: theirs(*values)


def drawn(size: int, kind: ElementKind, seed: int) -> np.ndarray[Any, Any]:
    """Numbers that every function takes."""
    rng = np.random.default_rng(seed)
    if kind.integer_range is not None or kind is ElementKind.BOOL:
        return rng.integers(0, 2, size).astype(kind.numpy_dtype)
    return rng.uniform(0.25, 0.75, size).astype(kind.numpy_dtype)


def agrees(call: Call, own: Any) -> bool:
    """Whether a peer computes the same."""
    try:
        theirs, ours = (_numbers(each) for each in (call(), own))
    except (TypeError, ValueError, RuntimeError, AttributeError, IndexError):  # another signature, or dtype
        return False
    return theirs.shape == ours.shape and bool(np.allclose(theirs, ours, _CLOSE, _CLOSE, equal_nan=True))


def _numbers(array: Any) -> np.ndarray[Any, Any]:
    if isinstance(array, bk.TensorRef):
        array = bk.download(array)
    return np.asarray(array.double().cpu() if hasattr(array, "cpu") else array, np.float64)


def seconds(call: Call, backend: str) -> float:
    """Of one call."""
    torch = _torch(backend) if backend == "cuda" else None
    call()
    bk.synchronize()
    count, best = 1, float("inf")
    stop = time.perf_counter() + _SECONDS
    while time.perf_counter() < stop or best == float("inf"):
        took = _round(call, count, torch)
        best = min(best, took / count)
        count = count * 2 if took < _SECONDS / 16 else count
    return best


def _round(call: Call, count: int, torch: Any) -> float:
    if torch is not None:
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(count):
            call()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) / 1e3
    start = time.perf_counter()
    for _ in range(count):
        call()
    bk.synchronize()
    return time.perf_counter() - start


def _torch(backend: str) -> Any:
    """PyTorch, if it is installed and has the device."""
    try:
        import torch
    except ImportError:
        return None
    return torch if backend == "cpu" or torch.cuda.is_available() else None


def run(name: str, dtype: str, sizes: tuple[int, ...]) -> int:
    """The program: the table, or what is wrong."""
    try:
        for line in bench(name, dtype, sizes):
            print(line)
    except BaracudaError as error:
        print(error, file=sys.stderr)
        return 1
    return 0
