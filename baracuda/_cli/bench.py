# SPDX-License-Identifier: Apache-2.0
"""`python -m baracuda bench gelu --dtype bf16`: times a function against other installed libraries, with a bar chart.

Peers are the functions of that name in PyTorch, NumPy, CuPy and JAX (jitted), on the same values. A peer whose values
differ is left out. Times are the minimum of several trials: wall clock on the CPU, CUDA events on a GPU, except for
JAX, which has its own streams.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import baracuda as bk
from baracuda._functions.spec import REQUIRED, Spec, specs
from baracuda.dtypes import ElementKind, as_element
from baracuda.errors import BaracudaError, InvalidProblemError, UnsupportedError

_SECONDS = 0.1  # duration of each measurement
_WIDTH = 40  # length of the longest bar
_CLOSE = 0.05  # tolerance: larger differences mean another function
_COLUMNS = 1024  # most columns of a matrix
_WITH_AXIS = ("softmax", "scan", "sort")  # shape rules with an axis that peers must be given
# Shape rules of functions of one matrix, and of GEMMs of square matrices.
_MATRIX = (*_WITH_AXIS, "gated", "reduce", "reduce_axes", "norm", "triangle", "flip")
_GEMMS = ("matmul", "linear")
Call = Callable[[], Any]
Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class Peer:
    """Another library: how it makes an array, the modules of its functions, and its name for an axis."""

    name: str
    array: Callable[[Array], Any]
    modules: tuple[Any, ...]
    axis: str = "axis"
    finished: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda function: function


def bench(name: str, dtype: str, sizes: tuple[int, ...]) -> Iterator[str]:
    """The lines of the table."""
    spec = specs().get(name)
    if spec is None:
        raise InvalidProblemError(f"no function {name!r}; `python -m baracuda ops` lists the ops")
    required = [n.name for n in spec.numbers if n.default is REQUIRED]
    if required or spec.layout not in ("pointwise", *_MATRIX, *_GEMMS):
        what = f"it needs {', '.join(required)}" if required else "its operands are of several shapes"
        raise UnsupportedError(f"bench takes functions of arrays of one shape, of a matrix and of two; {name}: {what}")
    element = as_element(dtype)
    backend = bk.default_library().backend
    yield f"{name}, {element}, {backend}: {bk.default_library().path}"
    for size in sizes:
        values = operands(spec, element, size)
        calls = dict(candidates(spec, element, values, backend))
        times = {peer: seconds(call, "" if peer == "jax" else backend) for peer, call in calls.items()}
        first = calls["baracuda"]()
        results = [each for each in (first if isinstance(first, tuple) else (first,)) if each is not None]
        bytes_moved = element.itemsize * sum(v.size for v in values) + sum(_nbytes(result) for result in results)
        yield f"{size} elements" if spec.layout == "pointwise" else " and ".join([str(v.shape) for v in values])
        for peer, found in times.items():
            bar = "#" * max(1, round(_WIDTH * found / max(times.values())))
            yield f"  {peer:9s} {found * 1e6:10.1f} us {bytes_moved / found / 1e9:8.1f} GB/s  {bar}"


def operands(spec: Spec, element: ElementKind, size: int) -> list[Array]:
    """The arrays that the function needs, of `size` elements each, or about that many in a matrix."""
    count = sum(argument.default is REQUIRED for argument in spec.arrays)
    shape: tuple[int, ...] = (size,)
    if spec.layout in _GEMMS:
        shape = (math.isqrt(size),) * 2
    elif spec.layout in _MATRIX:
        columns = max(2, min(_COLUMNS, math.isqrt(size)) // 2 * 2)
        shape = (max(1, size // columns), columns)
    return [random_values(math.prod(shape), element, seed).reshape(shape) for seed in range(count)]


def candidates(spec: Spec, element: ElementKind, values: list[Array], backend: str) -> Iterator[tuple[str, Call]]:
    """(name, call), this package's first."""
    peers = {peer.name: peer for peer in _peers(element, backend)}
    function = getattr(bk, spec.name)
    like = (
        peers["torch"].array
        if "torch" in peers
        else (lambda v: v)
        if backend == "cpu"
        else lambda v: bk.upload(v, element)
    )
    arrays = [like(v) for v in values]
    own = function(*arrays)
    yield "baracuda", lambda: function(*arrays)
    for peer in peers.values():
        theirs = next((f for module in peer.modules if callable(f := getattr(module, spec.name, None))), None)
        if theirs is None:
            continue
        whole = functools.partial(theirs, **_options(spec, peer, values))
        call = functools.partial(peer.finished(whole), *[peer.array(v) for v in values])
        if agrees(call, own):
            yield peer.name, call


def _options(spec: Spec, peer: Peer, values: list[Array]) -> dict[str, Any]:
    """Arguments that a peer needs where the function has a default."""
    if spec.layout in _WITH_AXIS:
        return {peer.axis: -1}
    return {"normalized_shape": values[0].shape[-1:]} if spec.layout == "norm" and peer.name == "torch" else {}


def _peers(element: ElementKind, backend: str) -> Iterator[Peer]:
    torch = _torch(backend)
    if torch is not None:
        dtype = getattr(torch, element.numpy_name)
        yield Peer(
            "torch", lambda v: torch.from_numpy(v.astype(np.float32)).to(dtype).to(backend),
            (torch, torch.nn.functional, torch.special), "dim",
        )  # fmt: skip
    if backend == "cpu":
        yield Peer("numpy", lambda v: v, (np,))
    elif (cupy := _imported("cupy")) is not None:
        yield Peer("cupy", cupy.asarray, (cupy,))
    jax = _imported("jax")
    if jax is not None and (element.itemsize < 8 or jax.config.jax_enable_x64):
        try:
            there = jax.devices("gpu" if backend == "cuda" else "cpu")[0]
        except RuntimeError:  # it has no such device
            return
        yield Peer("jax", lambda v: jax.device_put(v, there), (jax.numpy, jax.nn), finished=_waited(jax))


def _waited(jax: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The function jitted, and complete when the call returns."""

    def finished(function: Callable[..., Any]) -> Callable[..., Any]:
        compiled = jax.jit(function)
        return lambda *arrays: jax.block_until_ready(compiled(*arrays))

    return finished


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def random_values(size: int, element: ElementKind, seed: int) -> Array:
    """Random values in the domain of every function."""
    rng = np.random.default_rng(seed)
    if element.integer_range is not None or element is ElementKind.BOOL:
        return rng.integers(0, 2, size).astype(element.numpy_dtype)
    return rng.uniform(0.25, 0.75, size).astype(element.numpy_dtype)


def agrees(call: Call, own: Any) -> bool:
    """Whether a peer computes the same."""
    try:
        theirs, ours = (_numbers(each) for each in (call(), own))
    except (
        TypeError,
        ValueError,
        RuntimeError,
        AttributeError,
        IndexError,
        NotImplementedError,
    ):  # another signature, or dtype
        return False
    return theirs.shape == ours.shape and bool(np.allclose(theirs, ours, _CLOSE, _CLOSE, equal_nan=True))


def _nbytes(array: Any) -> int:
    return int(array.nbytes)


def _numbers(array: Any) -> Array:
    if isinstance(array, bk.TensorRef):
        array = bk.download(array)
    return np.asarray(array.double().cpu() if hasattr(array, "cpu") else array, np.float64)


def seconds(call: Call, backend: str) -> float:
    """Seconds of one call."""
    torch = _torch(backend) if backend == "cuda" else None
    call()
    bk.synchronize()
    count, best = 1, float("inf")
    stop = time.perf_counter() + _SECONDS
    while time.perf_counter() < stop or best == float("inf"):
        took = _trial(call, count, torch)
        best = min(best, took / count)
        count = count * 2 if took < _SECONDS / 16 else count
    return best


def _trial(call: Call, count: int, torch: Any) -> float:
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
    torch = _imported("torch")
    return torch if torch is not None and (backend == "cpu" or torch.cuda.is_available()) else None


def run(name: str, dtype: str, sizes: tuple[int, ...]) -> int:
    """The program: the table, or what is wrong."""
    try:
        for line in bench(name, dtype, sizes):
            print(line)
    except BaracudaError as error:
        print(error, file=sys.stderr)
        return 1
    return 0
