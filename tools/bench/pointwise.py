"""The elementwise family: every op over 256 MiB and more an operand, strided views, small tensors; on the CPU the list
of ops that PyTorch vectorises. Results are held against float64 before they are timed.

Operands come from a pool by their kind: "n" normal, "p" positive, "u" inside (-1, 1), "o" at least 1, "q" inside
(0, 1), "b" bytes 0 and 1.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import baracuda as bk
from tools.bench.data import Data
from tools.bench.pointwise_peers import evaluate, peers_of

# relative; PyTorch's own gelu is far off in its tail, hence f64
_ALLOWED = {"f64": 2.0**-40, "f32": 2.0**-20, "f16": 2.0**-7, "bf16": 2.0**-4}
FLOATS = ("f32", "f16", "bf16")

NORMAL = """
    neg abs sign reciprocal square cube cbrt exp exp2 expm1 sin cos tan atan sinh cosh tanh asinh floor ceil
    round trunc frac erf erfc relu relu_propagating gelu gelu_tanh silu mish sigmoid softplus softsign
    tanhshrink relu6 hardswish hardsigmoid hardtanh selu leaky_relu hardshrink softshrink step
""".split()
POSITIVE = "sqrt rsqrt log log2 log10 log1p lgamma digamma".split()
UNIT = "asin acos atanh erfinv".split()
UNARY = dict.fromkeys(NORMAL, "n") | dict.fromkeys(POSITIVE, "p") | dict.fromkeys(UNIT, "u")
UNARY |= {"acosh": "o", "logit": "q"}
BINARY = """
    add sub mul div pow atan2 hypot copysign nextafter fmin fmax maximum minimum floor_divide mod remainder
""".split()
BINARY_BACKWARD = "mul div pow atan2 hypot copysign fmin fmax maximum minimum mod remainder".split()
GATED = ["glu", "reglu", "swiglu", "geglu"]
_CAST_NAMES = """
    f32 bf16, bf16 f32, f32 f16, f16 f32, f32 f64, f64 f32, f32 i32, i32 f32, i64 f32, f32 i8, u8 f32, f32 u8,
    bf16 fp8e4m3, fp8e4m3 bf16, f32 bool, f16 bf16, i64 i32, f32 s4, u4 f32
"""
CASTS = [tuple(pair.split()) for pair in _CAST_NAMES.split(",")]
# On the CPU no slower than PyTorch but for noise; of the rest three quarters of its speed are asked for.
CPU_FAST = """
    exp log sin cos tanh erf sigmoid relu gelu gelu_tanh silu mish softplus softsign tanhshrink relu6 hardswish
    hardsigmoid hardtanh selu leaky_relu hardshrink softshrink
""".split()


@dataclasses.dataclass(frozen=True)
class Bound:
    kind: str
    value: float
    other: str = ""


@dataclasses.dataclass(frozen=True)
class Spec:
    """One line of the table.

    op        function as its peers and references know it: "gelu", "gelu_backward", "add"
    symbol    op of the library, "{T}" standing for the dtype
    inputs    kind of each input; outputs: number of outputs of the first input's size
    scalars   C arguments by position: {"before": (...), "after": (...)} the pointers
    layout    "" for dense operands, or the name of a strided case
    """

    name: str
    op: str
    symbol: str
    dtype: str
    inputs: str
    outputs: int = 1
    bounds: tuple[Bound, ...] = ()
    layout: str = ""
    dtypes: tuple[str, ...] = ()  # of each operand where they differ, inputs then outputs
    after: tuple[Any, ...] = ()
    numel: int = 0
    workspace: bool = False  # as the runner's other problems have it


COPY = (Bound("copy", 0.95),)
PEER = (Bound("peer", 1.0),)
NEAR_PEER = (Bound("peer", 0.9),)
THREE_QUARTERS = (Bound("peer", 0.75),)


def specs(backend: str, numel: int) -> Iterator[Spec]:
    """`numel` elements of 4 bytes; of 2 bytes twice as many."""
    return _on_gpu(numel) if backend == "cuda" else _on_cpu(numel)


def _on_gpu(numel: int) -> Iterator[Spec]:
    for dtype in FLOATS:
        n = numel * (2 if dtype != "f32" else 1)
        for op, kind in UNARY.items():
            yield Spec(op, op, f"unary_{op}_{{T}}", dtype, kind, bounds=COPY, numel=n)
        for op, kind in UNARY.items():
            yield Spec(
                f"{op}_backward",
                f"{op}_backward",
                f"unary_{op}_backward_{{T}}",
                dtype,
                "n" + kind,
                bounds=COPY,
                numel=n,
            )
        yield Spec("elu", "elu", "unary_elu_param_{T}", dtype, "n", bounds=COPY, after=(1.5,), numel=n)
        yield Spec("powf", "powf", "unary_powf_param_{T}", dtype, "p", bounds=COPY, after=(1.5,), numel=n)
        yield Spec("threshold", "threshold", "unary_threshold_{T}", dtype, "n", bounds=COPY, after=(0.5, -1.0), numel=n)
        for op in BINARY:
            yield Spec(op, op, f"binary_{op}_{{T}}", dtype, "pn" if op == "pow" else "nn", bounds=COPY, numel=n)
        for op in ("add", "sub"):
            yield Spec(f"{op}_backward", f"{op}_backward", f"binary_{op}_backward_{{T}}", dtype, "n", 2, COPY, numel=n)
        for op in BINARY_BACKWARD:
            kinds = "npn" if op == "pow" else "nnn"
            yield Spec(
                f"{op}_backward", f"{op}_backward", f"binary_{op}_backward_{{T}}", dtype, kinds, 2, COPY, numel=n
            )
        for op in ("eq", "lt"):
            yield Spec(op, op, f"binary_cmp_{op}_{{T}}", dtype, "nn", 1, COPY, dtypes=(dtype, dtype, "u8"), numel=n)
        for op in ("clamp", "fma"):
            yield Spec(op, op, f"ternary_{op}_{{T}}", dtype, "nnn", bounds=COPY, numel=n)
        for op in ("addcmul", "addcdiv"):
            yield Spec(op, op, f"ternary_{op}_{{T}}", dtype, "nnp", bounds=COPY, after=(0.5,), numel=n)
        yield Spec(
            "where", "where", "where_{T}", dtype, "bnn", bounds=COPY, dtypes=("u8", dtype, dtype, dtype), numel=n
        )
        yield Spec("where_backward", "where_backward", "where_backward_{T}", dtype, "bn", 2, COPY,
                   dtypes=("u8", dtype, dtype, dtype), numel=n)  # fmt: skip
        yield Spec("fill", "fill", "fill_{T}", dtype, "", bounds=COPY, after=(0,), numel=2 * n)
        yield Spec("affine", "affine", "affine_{T}", dtype, "n", bounds=COPY, after=(1.5, -0.25), numel=n)
        for op in GATED:
            yield Spec(f"gated {op}", op, f"gated_{op}_{{T}}", dtype, "n", bounds=COPY, layout="gated", numel=2 * n)
            yield Spec(f"gated {op}_backward", f"{op}_backward", f"gated_{op}_backward_{{T}}", dtype, "nn", bounds=COPY,
                       layout="gated_backward", numel=2 * n)  # fmt: skip
        for channels in ("1", "64", "last"):
            yield Spec(f"prelu, channels {channels}", "prelu", "prelu_{T}", dtype, "n", bounds=COPY,
                       layout=f"prelu {channels}", numel=n)  # fmt: skip
            yield Spec(f"prelu_backward, channels {channels}", "prelu_backward", "prelu_backward_{T}", dtype, "nn",
                       bounds=COPY, layout=f"prelu_backward {channels}", numel=n)  # fmt: skip
        for layout in ("transposed", "broadcast row", "broadcast column", "sliced rows"):
            least = (*PEER, Bound("copy", 0.8))
            yield Spec(
                f"add, {layout}", "add", "binary_add_{T}_strided", dtype, "nn", bounds=least, layout=layout, numel=n
            )
        yield Spec("gelu, transposed", "gelu", "unary_gelu_{T}_strided", dtype, "n", bounds=(*PEER, Bound("copy", 0.8)),
                   layout="transposed", numel=n)  # fmt: skip
        for small in (16, 1024, 65536):
            for op, symbol, kinds in (("add", "binary_add_{T}", "nn"), ("gelu", "unary_gelu_{T}", "n")):
                yield Spec(
                    f"{op}, {small} elements", op, symbol, dtype, kinds, bounds=PEER, layout="small", numel=small
                )
    for op in ("exp", "log", "sin", "tanh", "erf", "gelu", "silu", "lgamma"):
        yield Spec(op, op, f"unary_{op}_{{T}}", "f64", UNARY[op], bounds=PEER, numel=numel // 2)
    for op in ("pow", "atan2"):
        yield Spec(op, op, f"binary_{op}_{{T}}", "f64", "pn" if op == "pow" else "nn", bounds=PEER, numel=numel // 2)
    yield from _casts(numel, COPY)


def _casts(numel: int, bounds: tuple[Bound, ...]) -> Iterator[Spec]:
    for source, target in CASTS:
        yield Spec(f"cast {source} to {target}", "cast", f"cast_{source}_{target}", source, "n", bounds=bounds,
                   dtypes=(source, target), numel=2 * numel)  # fmt: skip


def _on_cpu(numel: int) -> Iterator[Spec]:
    for dtype in ("f32", "bf16"):
        for op, kind in UNARY.items():
            bounds = NEAR_PEER if op in CPU_FAST else THREE_QUARTERS
            yield Spec(op, op, f"unary_{op}_{{T}}", dtype, kind, bounds=bounds, numel=numel)
        yield Spec("elu", "elu", "unary_elu_param_{T}", dtype, "n", bounds=PEER, after=(1.5,), numel=numel)
        for op, kind in UNARY.items():
            name, symbol = f"{op}_backward", f"unary_{op}_backward_{{T}}"
            yield Spec(name, name, symbol, dtype, "n" + kind, bounds=THREE_QUARTERS, numel=numel)
        for op in ("add", "mul", "div", "pow"):
            yield Spec(op, op, f"binary_{op}_{{T}}", dtype, "pn" if op == "pow" else "nn", bounds=PEER, numel=numel)
        yield Spec(
            "where", "where", "where_{T}", dtype, "bnn", bounds=PEER, dtypes=("u8", dtype, dtype, dtype), numel=numel
        )
    for source, target in CASTS[:4]:
        yield Spec(f"cast {source} to {target}", "cast", f"cast_{source}_{target}", source, "n", bounds=PEER,
                   dtypes=(source, target), numel=numel)  # fmt: skip


class Pool:
    """Operands that the problems share, made on first use."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self._made: dict[tuple[Any, ...], Any] = {}

    def get(self, kind: str, place: int, dtype: str, numel: int) -> Any:
        """A torch tensor of `numel` elements (bytes for the 4-bit types); `place` tells operands of one kind apart."""
        torch, device = self.data.torch, self.data.device
        key = (kind, place, dtype, numel)
        if key in self._made:
            return self._made[key]
        if sum(t.numel() * t.element_size() for t in self._made.values()) > (24 << 30):
            self._made.clear()
        if dtype in ("s4", "u4"):
            made = torch.randint(0, 256, (numel // 2,), dtype=torch.uint8, device=device)
        elif kind == "b":
            made = torch.randint(0, 2, (numel,), dtype=torch.uint8, device=device)
        elif kind == "y":
            made = torch.empty((numel,), dtype=torch_dtype(torch, dtype), device=device)
        else:
            values = torch.randn((numel,), device=device, dtype=torch.float64 if dtype == "f64" else torch.float32)
            if kind == "p":
                values = values.abs_().add_(0.0625)
            elif kind == "o":
                values = values.abs_().add_(1.0)
            elif kind == "u":
                values = values.mul_(0.5).tanh_()
            elif kind == "q":
                values = values.sigmoid_()
            made = values.to(torch_dtype(torch, dtype))
        self._made[key] = made
        return made


_TORCH_NAMES = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "fp8e4m3": "float8_e4m3fn", "u8": "uint8",
    "s4": "uint8", "u4": "uint8", "i8": "int8", "i32": "int32", "i64": "int64", "bool": "bool",
}  # fmt: skip


def torch_dtype(torch: Any, dtype: str) -> Any:
    return getattr(torch, _TORCH_NAMES[dtype])


class Problem:
    """A spec in memory; the interface of table.Problem as far as the runner needs it."""

    def __init__(self, data: Data, pool: Pool, spec: Spec) -> None:
        self.data, self.spec, self.workspace = data, spec, None
        self.bench, self.dtype = spec, spec.dtype
        self.op = spec.symbol.replace("{T}", spec.dtype)
        dtypes = spec.dtypes or (spec.dtype,) * (len(spec.inputs) + spec.outputs)
        counts = self._counts()
        self.x = [
            pool.get(kind, place, dtype, counts[place]) for place, (kind, dtype) in enumerate(zip(spec.inputs, dtypes))
        ]
        self.y = [
            pool.get("y", 10 + place, dtype, counts[len(spec.inputs) + place])
            for place, dtype in enumerate(dtypes[len(spec.inputs) :])
        ]
        self.views, self.host, self.extra = _shaped(data, spec, self.x, self.y)
        self.nbytes = sum(_bytes(t) for t in (*self.views, *self.extra) if t is not None)

    def _counts(self) -> list[int]:
        spec, n = self.spec, self.spec.numel
        if spec.layout == "gated":
            return [n, n // 2]
        if spec.layout == "gated_backward":
            return [n, n // 2, n]
        return [n] * (len(spec.inputs) + spec.outputs)

    def launch(self) -> Callable[[], None]:
        library = self.data.library
        ffi = library.ffi
        pointers = [ffi.cast("void *", t.data_ptr()) for t in self.views]
        extra = [ffi.NULL if t is None else ffi.cast("void *", t.data_ptr()) for t in self.extra]
        arguments = self.host(ffi, pointers, extra)
        scratch: tuple[Any, Any] = (ffi.NULL, 0)
        if self.spec.layout.startswith("prelu_backward"):
            size = library.function(self.op, "workspace_size")(*arguments[:4])
            self._scratch = bk.empty(max(size, 1), bk.u8, library=library)
            scratch = (self._scratch.pointer, size)
        call = functools.partial(library.function(self.op), *arguments, *scratch, ffi.cast("void *", self.data.stream))
        check, op = library.check, self.op

        def run() -> None:
            if status := call():
                check(op, status)

        return run

    def check(self) -> str:
        """What is wrong with sampled outputs; empty if nothing is."""
        torch = self.data.torch
        picks = torch.from_numpy(sample(self)).to(self.views[-1].device)
        if self.spec.layout.startswith(("gated", "prelu")) or {"s4", "u4"} & set(self.spec.dtypes) or not self.x:
            return ""  # the tests hold these; their cells do not correspond one to one
        count = len(self.spec.inputs)
        inputs = [t.reshape(-1)[picks] if t.is_contiguous() else _gather(t, picks) for t in self.views[:count]]
        outputs = [t.reshape(-1)[picks] if t.is_contiguous() else _gather(t, picks) for t in self.views[count:]]
        truth = evaluate(torch, self.spec, inputs)
        for got, wanted in zip(outputs, truth or []):
            if not got.dtype.is_floating_point and got.dtype is not torch.bool:
                bounds = torch.iinfo(got.dtype)
                wanted = wanted.clamp(bounds.min, bounds.max)
            rounded = wanted.to(got.dtype).double()
            size = wanted.abs().clamp(min=2.0**-12)
            if self.spec.op in ("addcmul", "addcdiv", "fma", "affine"):  # a sum may cancel
                size = size + sum(t.double().abs() for t in inputs)
            allowed = _ALLOWED.get(self.dtype, 0.0) * size if got.dtype.is_floating_point else torch.zeros_like(size)
            excess = torch.where(got.double() == rounded, -1.0, (got.double() - wanted).abs() - allowed)
            if bool((excess > 0).any()):
                worst = int(excess.nan_to_num(-1.0).argmax())
                cells = ", ".join(f"{float(t[worst]):g}" for t in inputs)
                return f"({cells}) gives {float(got[worst]):g}, expected {float(wanted[worst]):g}"
        return ""

    def peers(self, on_gpu: bool) -> list[tuple[str, Callable[[], Any]]]:
        return peers_of(self, on_gpu)


def _gather(t: Any, picks: Any) -> Any:
    return t[picks // t.shape[1], picks % t.shape[1]]


def _bytes(t: Any) -> int:
    """Bytes behind a view: a broadcast axis counts once."""
    cells = 1
    for extent, stride in zip(t.shape, t.stride()):
        cells *= extent if stride else 1
    return cells * t.element_size()


def _shaped(data: Data, spec: Spec, x: list[Any], y: list[Any]) -> tuple[list[Any], Any, list[Any]]:
    """(operands as the op sees them, function that makes the C arguments, further operands)."""
    after = list(spec.after)
    if spec.op == "fill":
        return y, lambda ffi, p, e: [spec.numel, *p, 0], []
    if spec.layout in ("", "small"):
        return [*x, *y], lambda ffi, p, e: [spec.numel, *p, *after], []
    columns = 8192 if spec.numel >= 1 << 24 else 64
    rows = spec.numel // columns
    if spec.layout.startswith("gated"):
        shape, width = (rows, columns // 2), columns
        views = [t.view(rows, -1) for t in (*x, *y)]

        def gated(ffi: Any, p: list[Any], e: list[Any]) -> list[Any]:
            strides = [ffi.new("int64_t[]", t.stride()) for t in views]
            halves = [width // 2] * (2 if spec.layout == "gated_backward" else 1)
            return [spec.numel // 2, 2, ffi.new("int32_t[]", shape), 1, *halves, *strides, *p]

        return views, _keep(gated), []
    if spec.layout.startswith("prelu"):
        channels = {"1": 1, "64": 64, "last": 4096}[spec.layout.split()[-1]]
        inner = {"1": spec.numel, "64": 16384, "last": 1}[spec.layout.split()[-1]]
        weight = data.torch.full((channels,), 0.25, dtype=y[0].dtype, device=y[0].device)
        sums = data.torch.empty_like(weight)
        if spec.layout.startswith("prelu_backward"):
            pointers = lambda p, e: [p[0], p[1], e[0], p[2], e[1]]  # noqa: E731
            extra = [weight, sums]
        else:
            pointers = lambda p, e: [p[0], e[0], p[1]]  # noqa: E731
            extra = [weight]
        head = [spec.numel, inner, channels, int(channels == 1)]
        return [*x, *y], lambda ffi, p, e: [*head, *pointers(p, e)], extra
    views = [t.view(rows, columns) for t in (*x, *y)]
    if spec.layout == "transposed":
        views[0] = x[0].view(columns, rows).t()
    elif spec.layout == "broadcast row":
        views[0] = x[0][:columns].view(1, columns).expand(rows, columns)
    elif spec.layout == "broadcast column":
        views[0] = x[0][:rows].view(rows, 1).expand(rows, columns)
    elif spec.layout == "sliced rows":
        views = [t[:, 3 : columns - 2] for t in views]

    def strided(ffi: Any, p: list[Any], e: list[Any]) -> list[Any]:
        shape = views[-1].shape
        strides = [ffi.new("int64_t[]", t.stride()) for t in views]
        return [shape[0] * shape[1], 2, ffi.new("int32_t[]", list(shape)), *strides, *p, *after]

    return views, _keep(strided), []


def _keep(make: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """cffi arrays live as long as the arguments' list, which functools.partial holds."""
    return make


def sample(problem: Problem, count: int = 2048) -> np.ndarray[Any, Any]:
    shape = problem.views[-1].shape
    total = int(np.prod(shape))
    return np.concatenate(([0, total - 1], problem.data.rng.integers(0, total, count)))
