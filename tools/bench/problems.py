"""The benchmark problems: inputs, our launch, the peers, the fewest bytes, the bound, and the check before timing.

Every problem is made at 2^-shift of the size that counts on a GPU (inputs of 256 MiB and more). Fewest bytes: every
operand once; of a table read through random indices, larger than any cache, every row that an index names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import baracuda as bk
from tools.bench.data import Buffer, Data
from tools.bench.timing import Call

DIM = 128
BAG = 32
WEIGHT = 0.3
ATOMIC = bk.PlanPreference(max_workspace_bytes=0)
DETERMINISTIC = bk.PlanPreference(deterministic=True)
_SAMPLES = 16
_ULP = {"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}


@dataclasses.dataclass(frozen=True)
class Bound:
    """copy: at least this fraction of the copy; torch: at least this many times the peer; even: at most this many
    times the row of variant `even`."""

    kind: str
    value: float

    def __str__(self) -> str:
        return f"{self.value:g} {'of copy' if self.kind == 'copy' else f'x {self.kind}'}"


@dataclasses.dataclass
class Row:
    """One line of the table. `check` returns "" or what is wrong after `ours` ran. Peers: the first of a list that
    works counts on a GPU, the fastest on the CPU."""

    op: str
    variant: str
    ours: Call
    nbytes: int
    check: Callable[[], str]
    torch: list[tuple[str, Call]] = dataclasses.field(default_factory=list)
    numpy: list[tuple[str, Call]] = dataclasses.field(default_factory=list)
    bound: Bound | None = None


def compare(got: Any, expected: Any, magnitude: Any, element: bk.ElementKind, steps: bk.ElementKind) -> str:
    """Rounding once to `element`, and sums in the type `steps` of terms whose absolute values add to `magnitude`."""
    allowed = _ULP[element.token] * np.abs(expected) + 4 * _ULP[steps.token] * magnitude
    excess = np.abs(got - expected) - allowed
    if np.all(excess <= 0):
        return ""
    worst = np.unravel_index(np.argmax(np.where(np.isnan(excess), np.inf, excess)), excess.shape)
    return f"is {got[worst]:g}, expected {expected[worst]:g} +- {allowed[worst]:.2g}"


@dataclasses.dataclass
class Bench:
    """What a problem needs to make itself."""

    data: Data
    element: bk.ElementKind
    shift: int

    @property
    def torch(self) -> Any:
        return self.data.torch

    @property
    def on_gpu(self) -> bool:
        return self.data.device == "cuda"

    def launch(self, plan_type: Any, args: Any, preference: bk.PlanPreference | None = None, **problem: Any) -> Any:
        """(bound launch, workspace bytes)."""
        descriptor = plan_type.descriptor_type(element=self.element, **problem)
        plan = plan_type.select(self.data.stream, descriptor, preference, library=self.data.library)
        return plan.bind(self.data.stream, bk.workspace(plan), args), plan.workspace_size

    def picks(self, count: int, least: int = _SAMPLES) -> np.ndarray[Any, Any]:
        """Sampled positions, the first and the last among them."""
        return np.concatenate(([0, count - 1], self.data.rng.integers(0, count, least)))

    def torch_calls(self, make: Callable[[Any], list[tuple[str, Call]]]) -> list[tuple[str, Call]]:
        return make(self.torch) if self.torch is not None else []

    def numpy_calls(self, *buffers: Buffer, make: Callable[..., list[tuple[str, Call]]]) -> list[tuple[str, Call]]:
        """Peers of NumPy, where the buffers are arrays to it."""
        return make(*(b.numpy for b in buffers)) if all(b.numpy is not None for b in buffers) else []


def lerp(b: Bench) -> Iterator[Row]:
    n = 1 << (28 - b.shift)
    x, y, out, second = (b.data.normal((n,), b.element) for _ in range(4))
    picks = b.picks(n, 4096)
    name = f"2^{28 - b.shift}"
    problem = {"kind": bk.BinaryKind.LERP, "shape": (n,), "params": (WEIGHT,)}
    run, _ = b.launch(bk.BinaryParamPlan, bk.BinaryParamArgs(x.view, y.view, out.view), **problem)

    def check_forward() -> str:
        low, high = b.data.rows(x, picks), b.data.rows(y, picks)
        expected = low + np.float32(WEIGHT) * (high - low)
        return compare(b.data.rows(out, picks), expected, np.abs(low) + np.abs(high), b.element, bk.f32)

    yield Row(
        "binary_lerp", name, run, 3 * x.nbytes, check_forward,
        b.torch_calls(lambda t: [("lerp", lambda: t.lerp(x.torch, y.torch, WEIGHT, out=out.torch))]),
        b.numpy_calls(x, y, out, make=lambda i, j, o: [("a+p(b-a)", lambda: _numpy_lerp(i, j, o))]),
        Bound("copy", 0.95),
    )  # fmt: skip
    run, _ = b.launch(bk.BinaryParamBackwardPlan, bk.BinaryParamBackwardArgs(x.view, out.view, second.view), **problem)

    def check_backward() -> str:
        dy = b.data.rows(x, picks)
        p = np.float64(np.float32(WEIGHT))
        wrong = compare(b.data.rows(out, picks), (1 - p) * dy, np.abs(dy), b.element, bk.f32)
        return wrong or compare(b.data.rows(second, picks), p * dy, np.abs(dy), b.element, bk.f32)

    def two_products(module: Any, dy: Any, da: Any, db: Any) -> list[tuple[str, Call]]:
        multiply = module.multiply
        return [("2 mul", lambda: (multiply(dy, 1 - WEIGHT, out=da), multiply(dy, WEIGHT, out=db)))]

    yield Row(
        "binary_lerp_backward", name, run, 3 * x.nbytes, check_backward,
        b.torch_calls(lambda t: two_products(t, x.torch, out.torch, second.torch)),
        b.numpy_calls(x, out, second, make=lambda i, j, k: two_products(np, i, j, k)),
        Bound("copy", 0.95),
    )  # fmt: skip


def _numpy_lerp(a: Any, b: Any, out: Any) -> None:
    np.subtract(b, a, out=out)
    np.multiply(out, a.dtype.type(WEIGHT), out=out)
    np.add(out, a, out=out)


def repeat(b: Bench) -> Iterator[Row]:
    r, c, k = 2048 >> (b.shift // 2), 4096 >> (b.shift // 2), 4
    x, y, dx = (b.data.normal(shape, b.element) for shape in ((r, c), (k * r, k * c), (r, c)))
    name = f"[{r},{c}]x({k},{k})"
    problem = {"input_shape": (r, c), "repeats": (k, k)}
    picks = b.picks(k * r)

    def gathered() -> Any:
        return b.data.rows(y, picks)

    backward, _ = b.launch(bk.RepeatBackwardPlan, bk.RepeatBackwardArgs(y.view, dx.view), **problem)

    def check_backward() -> str:
        rows = picks % r
        parts = np.stack([b.data.rows(y, rows + i * r).reshape(-1, k, c) for i in range(k)])
        magnitude = np.abs(parts).sum((0, 2))
        return compare(b.data.rows(dx, rows), parts.sum((0, 2)), magnitude, b.element, bk.f32)

    yield Row(
        "repeat_backward", name, backward, x.nbytes + y.nbytes, check_backward,
        b.torch_calls(lambda t: [("view.sum", lambda: t.sum(y.torch.view(k, r, k, c), (0, 2), out=dx.torch))]),
        b.numpy_calls(y, dx, make=lambda dy, o: [("view.sum", lambda: dy.reshape(k, r, k, c).sum((0, 2), out=o))]),
        Bound("copy", 0.92),
    )  # fmt: skip
    forward, _ = b.launch(bk.RepeatPlan, bk.RepeatArgs(x.view, y.view), **problem)

    def check_forward() -> str:
        return compare(gathered(), np.tile(b.data.rows(x, picks % r), (1, k)), 0.0, b.element, bk.f32)

    def torch_peers(_: Any) -> list[tuple[str, Call]]:
        tiles, source = y.torch.view(k, r, k, c), x.torch.view(1, r, 1, c)
        return [("repeat", lambda: x.torch.repeat(k, k)), ("expand.copy_", lambda: tiles.copy_(source))]

    yield Row(
        "repeat", name, forward, x.nbytes + y.nbytes, check_forward, b.torch_calls(torch_peers),
        b.numpy_calls(x, y, make=lambda i, o: [
            ("tile", lambda: np.tile(i, (k, k))),
            ("copyto", lambda: np.copyto(o.reshape(k, r, k, c), i.reshape(1, r, 1, c))),
        ]),
        Bound("copy", 0.75),
    )  # fmt: skip


def alibi(b: Bench) -> Iterator[Row]:
    batch, heads, length = 4, 32 >> (b.shift // 2), 2048 >> (b.shift // 4)
    shape = (batch, heads, length, length)
    x, y = b.data.normal(shape, b.element), b.data.empty(shape, b.element)
    slopes = b.data.normal((heads,), b.element)
    name = "x".join(map(str, shape))
    problem = dict(zip(("batch_size", "num_heads", "query_len", "key_len"), shape))
    offset = np.arange(length)[None, :] - np.arange(length)[:, None]
    distance = None if b.torch is None else b.torch.from_numpy(offset).to(x.torch.device, x.torch.dtype)
    picks = b.picks(batch * heads * length)
    forward, _ = b.launch(bk.AlibiPlan, bk.AlibiArgs(x.view, slopes.view, y.view), **problem)

    def check_forward() -> str:
        slope = b.data.rows(slopes, picks // length % heads)
        expected = b.data.rows(x, picks) + slope * offset[picks % length]
        return compare(b.data.rows(y, picks), expected, np.abs(slope) * length, b.element, bk.f32)

    def torch_forward(t: Any) -> list[tuple[str, Call]]:
        column = slopes.torch.view(1, heads, 1, 1)
        return [
            ("x+s*dist", lambda: x.torch + column * distance),
            ("add(out)", lambda: t.add(x.torch, column * distance, out=y.torch)),
        ]

    yield Row(
        "alibi", name, forward, 2 * x.nbytes, check_forward, b.torch_calls(torch_forward),
        b.numpy_calls(x, slopes, y, make=lambda i, s, o: [
            ("x+s*dist", lambda: np.add(i, s[:, None, None] * offset.astype(i.dtype), out=o)),
        ]),
        Bound("copy", 0.95),
    )  # fmt: skip
    dslopes = b.data.empty((heads,), b.element)

    def check_backward() -> str:
        wrong = compare(b.data.rows(y, picks), b.data.rows(x, picks), 0.0, b.element, bk.f32)
        for head in (0, heads - 1):
            rows = [b.data.rows(x, np.arange(length) + (i * heads + head) * length) for i in range(batch)]
            terms = sum(rows) * offset
            magnitude = np.sqrt(batch) * np.abs(terms).sum()
            got = b.data.rows(dslopes, np.array([head]))
            wrong = wrong or compare(got, terms.sum().reshape(1, 1), magnitude, b.element, bk.f32)
        return wrong

    def torch_backward(t: Any) -> list[tuple[str, Call]]:
        def eager() -> None:
            x.torch.clone()
            (x.torch * distance).sum((0, 2, 3))

        def contracted() -> None:
            y.torch.copy_(x.torch)
            t.einsum("bhij,ij->h", x.torch, distance)

        return [("clone, mul, sum", eager), ("copy_, einsum", contracted)]

    def numpy_backward(dy: Any, da: Any) -> list[tuple[str, Call]]:
        weights = offset.astype(dy.dtype)

        def contracted() -> None:
            np.copyto(da, dy)
            np.tensordot(dy, weights, 2)

        return [("copyto, tensordot", contracted)]

    for variant, preference in (("workspace", None), ("no workspace", ATOMIC)):
        args = bk.AlibiBackwardArgs(x.view, y.view, dslopes.view)
        backward, size = b.launch(bk.AlibiBackwardPlan, args, preference, **problem)
        if size or variant != "workspace":
            yield Row(
                "alibi_backward", f"{name} {variant}", backward, 2 * x.nbytes, check_backward,
                b.torch_calls(torch_backward), b.numpy_calls(x, y, make=numpy_backward), Bound("copy", 0.92),
            )  # fmt: skip
