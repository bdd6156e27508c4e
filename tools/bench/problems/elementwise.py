# SPDX-License-Identifier: Apache-2.0
"""The elementwise family: every op on operands of 256 MiB and more, strided views, small tensors; on the CPU the ops
that PyTorch vectorises; and the first function of every other row of the tables, so that each row is measured.

Operands, expected values and PyTorch's calls follow from the tables and the oracle's entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from baracuda._library.op_table import Row, rows
from tools.bench.elementwise import check, fill_of, function_of, parameter_of, torch_peers
from tools.bench.record import LENGTHS, SIZES, Bench, Bound, Operand, Sweep, row_named
from tools.oracle.numerics import PACKED

FLOATS = ("f32", "f16", "bf16")
COPY, PEER, NEAR_PEER, THREE_QUARTERS = (
    (Bound("copy", 0.95),), (Bound("peer", 1.0),), (Bound("peer", 0.9),), (Bound("peer", 0.75),),
)  # fmt: skip
# Functions of the first two rows that are aliases, or have parameters with defaults.
SAME = ("gelu_erf", "elu")
UNARY, UNARY_BACKWARD, ONE_PARAMETER = "unary_{F}_{T}", "unary_{F}_backward_{T}", "unary_{F}_param_{T}"
BINARY, BINARY_BACKWARD, LINEAR = "binary_{F}_{T}", "binary_{F}_backward_{T}", "binary_{F}_backward_{T} linear"
_CASTS = """
    f32 bf16, bf16 f32, f32 f16, f16 f32, f32 f64, f64 f32, f32 i32, i32 f32, i64 f32, f32 i8, u8 f32, f32 u8,
    bf16 fp8e4m3, fp8e4m3 bf16, f32 bool, f16 bf16, i64 i32, f32 s4, u4 f32
"""
CASTS = [tuple(pair.split()) for pair in _CASTS.split(",")]
# Functions that must reach PyTorch's speed on the CPU, within noise; the others must reach three quarters of it.
CPU_FAST = """
    exp log sin cos tanh erf sigmoid relu gelu gelu_tanh silu mish softplus softsign tanhshrink relu6 hardswish
    hardsigmoid hardtanh selu leaky_relu hardshrink softshrink
""".split()


def functions(row: str) -> list[str]:
    return [name for name in row_named(row).functions if name not in SAME]


def strided(row: str) -> str:
    """The row of the strided form."""
    pattern, *rest = row.split(" ", 1)
    return " ".join([f"{pattern}_strided", *rest])


def made(
    name: str, row: str, dtype: str, numel: int, bounds: tuple[Bound, ...] = (), *, function: str = "", other: str = "",
    layout: str = "",
) -> Bench:  # fmt: skip
    """`layout`: of the first operand, or of all; "" for a flat row."""
    table, computed, arrays = row_named(row), function_of(row, function), {}
    for position, p in enumerate(p for p in table.params if p.is_pointer):
        is_input = "in" in p.direction
        fill = fill_of(row, computed, p.name, dtype_of(p, dtype, other)) if is_input else "empty"
        arrays[p.name] = laid_out(layout, numel, position, p.name, fill)
    scalars = {p.name: parameter_of(row, computed, p.name) for p in table.params if p.role == "parameter"}
    return Bench(
        name=name, row=row, dtypes=(dtype,), arrays=arrays, scalars=scalars, check=check,
        function=function, other=other, bounds=bounds, torch=torch_peers(row, computed), brief=True,
    )  # fmt: skip


def dtype_of(param: Any, dtype: str, other: str) -> str:
    return {"T": dtype, "U": other}.get(param.dtype, param.dtype)


def laid_out(layout: str, numel: int, position: int, name: str, fill: str | float) -> Operand:
    if not layout:
        return Operand((numel,), fill)
    columns = 8192 if numel >= 1 << 24 else 64
    extents = (numel // columns, columns)
    if layout == "sliced rows":
        steps = (0, 1) if name in ("weight", "dweight") else (columns, 1)  # one channel per column
        return Operand((extents[0], columns - 5), fill, steps, 0 if steps[0] == 0 else 3)
    first = {"transposed": (1, extents[0]), "broadcast row": (0, 1), "broadcast column": (1, 0)}[layout]
    return Operand(extents, fill, first if position == 0 else None)


def cast(pair: tuple[str, ...], numel: int, bounds: tuple[Bound, ...]) -> Bench:
    source, target = pair
    packed = {t in PACKED for t in pair}
    kind = "" if packed == {False} else " repack" if packed == {True} else " unpack" if source in PACKED else " pack"
    row = "cast_{T}_{U}" + kind
    return made(f"cast {source} to {target}", row, source, numel, bounds, other=target)


def benches(backend: str, numel: int) -> Iterator[Bench]:
    """Operands of `numel` 4-byte elements; on a GPU 2-byte dtypes have twice as many."""
    known = set()
    for bench in on_gpu(numel) if backend == "cuda" else on_cpu(numel):
        known.add(bench.row)
        yield bench
    for row in rows():
        if row.family == "elementwise" and row.name not in known | LERP:
            yield of_row(row, numel)


def on_gpu(numel: int) -> Iterator[Bench]:
    for dtype in FLOATS:
        n = numel * (2 if dtype != "f32" else 1)
        for row, suffix in (
            (UNARY, ""), (UNARY_BACKWARD, "_backward"), (BINARY, ""), (LINEAR, "_backward"),
            (BINARY_BACKWARD, "_backward"), ("ternary_{F}_{T}", ""), ("ternary_{F}_{T} scaled", ""),
        ):  # fmt: skip
            for f in functions(row):
                yield made(f"{f}{suffix}", row, dtype, n, COPY, function=f)
        for f in ("elu", "powf"):
            yield made(f, ONE_PARAMETER, dtype, n, COPY, function=f)
        yield made("threshold", "unary_threshold_{T}", dtype, n, COPY)
        for f in ("eq", "lt"):
            yield made(f, "binary_cmp_{F}_{T}", dtype, n, COPY, function=f)
        for name in ("where", "where_backward", "affine"):
            yield made(name, f"{name}_{{T}}", dtype, n, COPY)
        yield made("fill", "fill_{T}", dtype, 2 * n, COPY)
        yield from gated(dtype, 2 * n)
        yield from prelu(dtype, n)
        least = (*PEER, Bound("copy", 0.8))
        for layout in ("transposed", "broadcast row", "broadcast column", "sliced rows"):
            yield made(f"add, {layout}", strided(BINARY), dtype, n, least, function="add", layout=layout)
        yield made("gelu, transposed", strided(UNARY), dtype, n, least, function="gelu", layout="transposed")
        for small in (16, 1024, 65536):
            for f, row in (("add", BINARY), ("gelu", UNARY)):
                yield made(f"{f}, {small} elements", row, dtype, small, PEER, function=f)
    for f in ("exp", "log", "sin", "tanh", "erf", "gelu", "silu", "lgamma"):
        yield made(f, UNARY, "f64", numel // 2, PEER, function=f)
    for f in ("pow", "atan2"):
        yield made(f, BINARY, "f64", numel // 2, PEER, function=f)
    for pair in CASTS:
        yield cast(pair, 2 * numel, COPY)


def gated(dtype: str, numel: int) -> Iterator[Bench]:
    """Gated units. An operand with both halves has `numel` elements."""
    columns = 8192 if numel >= 1 << 24 else 64
    wide, half = (numel // columns, columns), (numel // columns, columns // 2)
    for row, suffix in (("gated_{F}_{T}", ""), ("gated_{F}_backward_{T}", "_backward")):
        shape = {"output_numel": numel // 2, "rank": 2, "output_shape": half, "split_dim": 1}
        shape |= {f"{name}_half_offset": columns // 2 for name in ("x", "dx")}
        arrays = {
            p.name: Operand(wide if p.name in ("x", "dx") else half, "empty" if "out" in p.direction else "normal")
            for p in row_named(row).params
            if p.is_pointer
        }
        for f in functions(row):
            yield Bench(name=f"gated {f}{suffix}", row=row, dtypes=(dtype,), arrays=arrays, scalars=shape, check=check,
                        function=f, bounds=COPY, torch=torch_peers(row, f), brief=True)  # fmt: skip


def prelu(dtype: str, numel: int) -> Iterator[Bench]:
    for name in ("prelu", "prelu_backward"):
        for label, channels, inner in (("1", 1, numel), ("64", 64, min(16384, numel // 64)), ("last", 4096, 1)):
            row = row_named(f"{name}_{{T}}")
            sizes = {p.name: channels if "weight" in p.name else numel for p in row.params if p.is_pointer}
            fills = {"dy": "normal", "x": "normal", "weight": 0.25}
            layout = {"numel": numel, "channel_stride": inner, "channel_extent": channels}
            yield Bench(
                name=f"{name}, channels {label}", row=row.name, dtypes=(dtype,), check=check, bounds=COPY, brief=True,
                scalars={**layout, "scalar_weight": int(channels == 1)}, workspace=bool(row.workspace),
                arrays={p: Operand((n,), fills.get(p, "empty")) for p, n in sizes.items()},
            )  # fmt: skip


def on_cpu(numel: int) -> Iterator[Bench]:
    for dtype in ("f32", "bf16"):
        for f in functions(UNARY):
            yield made(f, UNARY, dtype, numel, NEAR_PEER if f in CPU_FAST else THREE_QUARTERS, function=f)
        yield made("elu", ONE_PARAMETER, dtype, numel, PEER, function="elu")
        for f in functions(UNARY_BACKWARD):
            yield made(f"{f}_backward", UNARY_BACKWARD, dtype, numel, THREE_QUARTERS, function=f)
        for f in ("add", "mul", "div", "pow"):
            yield made(f, BINARY, dtype, numel, PEER, function=f)
        yield made("where", "where_{T}", dtype, numel, PEER)
    for pair in CASTS[:4]:
        yield cast(pair, numel, PEER)
    yield from gated("f32", numel)
    yield from prelu("f32", numel)


def of_row(row: Row, numel: int) -> Bench:
    """The first function of a row, in f32 if the row has f32; strided rows get padded rows."""
    function = next(iter(row.functions), "")
    dtype, other = (
        ("f32" if "f32" in row.slots.get(slot, ()) else row.slots.get(slot, ("",))[0]) for slot in ("T", "U")
    )
    layout = "sliced rows" if "_strided" in row.pattern else ""
    name = re.sub(r"_?{\w}", "", row.name.replace("{F}", function))
    return made(name, row.name, dtype, numel, function=function, other=other, layout=layout)


# --- lerp, timed as long as the other families' problems -------------------------------------------------------------


def numpy_lerp(a: dict[str, Any], scalars: Any) -> Any:
    p = a["y"].dtype.type(scalars["p"])

    def peer() -> None:
        np.subtract(a["b"], a["a"], out=a["y"])
        np.multiply(a["y"], p, out=a["y"])
        np.add(a["y"], a["a"], out=a["y"])

    return peer


def numpy_lerp_backward(a: dict[str, Any], scalars: Any) -> Any:
    p = a["da"].dtype.type(scalars["p"])
    return lambda: (np.multiply(a["dy"], 1 - p, out=a["da"]), np.multiply(a["dy"], p, out=a["db"]))


LERP = {"binary_lerp_{T}", "binary_lerp_backward_{T}"}


def lerp(backend: str) -> Iterator[Bench]:
    numel, bound = (2**28, Bound("copy", 0.95)) if backend == "cuda" else (2**24, Bound("peer", 1.0))
    for name, numpy_peer in (("lerp", numpy_lerp), ("lerp_backward", numpy_lerp_backward)):
        row = row_named(f"binary_{name}_{{T}}")
        arrays = {
            p.name: Operand((numel,), "empty" if "out" in p.direction else "sixteenths")
            for p in row.params
            if p.is_pointer
        }
        yield Bench(name=name, row=row.name, dtypes=("f32", "bf16"), arrays=arrays, scalars={"p": 0.3}, check=check,
                    bounds=(bound,), torch=torch_peers(row.name, ""), numpy=(numpy_peer,))  # fmt: skip


# --- sweeps ----------------------------------------------------------------------------------------------------------


def viewed(dtype: str, extents: tuple[int, ...], first: Operand, second: Operand) -> Bench:
    """a + b of views."""
    arrays = {"a": first, "b": second, "y": Operand(extents)}
    return Bench(name="add", row=strided(BINARY), dtypes=(dtype,), arrays=arrays, check=check, function="add",
                 torch=torch_peers(BINARY, "add"), brief=True)  # fmt: skip


def sliced(extents: tuple[int, ...]) -> Operand:
    """A corner of an array that is one larger along every axis, so that no two axes merge."""
    steps = [1]
    for extent in extents[:0:-1]:
        steps.append(steps[-1] * (extent + 1))
    return Operand(extents, "normal", tuple(reversed(steps)))


def sweeps(backend: str) -> Iterator[Sweep]:
    numel = 2**26 if backend == "cuda" else 2**21
    sizes = [n for n in SIZES if n <= numel]
    for dtype in ("f32", "bf16"):
        for f in ("gelu", "exp", "silu", "tanh", "relu"):
            points = {n: made(f, UNARY, dtype, n, function=f) for n in sizes}
            yield Sweep(name=f, axis="elements", points=points)
        yield Sweep(name="gelu_backward", axis="elements", points={
            n: made("gelu_backward", UNARY_BACKWARD, dtype, n, function="gelu") for n in sizes})  # fmt: skip
        yield Sweep(name="x + y", axis="elements", points={
            n: made("add", BINARY, dtype, n, function="add") for n in sizes})  # fmt: skip
        other = "bf16" if dtype == "f32" else "f32"
        yield Sweep(name=f"cast {dtype} to {other}", axis="elements", points={
            n: cast((dtype, other), n, ()) for n in sizes})  # fmt: skip
        by_rows: dict[str, dict[int, Bench]] = {"x + row": {}, "x + column": {}, "x + transposed": {}, "slices": {}}
        for n in LENGTHS:
            extents = (numel // n, n)
            x = Operand(extents, "normal")
            for name, y in (
                ("x + row", Operand(extents, "normal", (0, 1))), ("x + column", Operand(extents, "normal", (1, 0))),
                ("x + transposed", Operand(extents, "normal", (1, extents[0]))), ("slices", sliced(extents)),
            ):  # fmt: skip
                by_rows[name][n] = viewed(dtype, extents, x, y)
        for name, points in by_rows.items():
            yield Sweep(name=f"{name}, {numel} elements", axis="row length", points=points, level=True)
        few = {n: viewed(dtype, (64, n), Operand((64, n), "normal"), Operand((64, n), "normal", (0, 1)))
               for n in LENGTHS}  # fmt: skip
        yield Sweep(name="x + row, 64 rows", axis="row length", points=few)
        ranks = {}
        for rank in range(1, 9):
            extents = (*(5,) * (rank - 1), numel // 5 ** (rank - 1))
            ranks[rank] = viewed(dtype, extents, Operand(extents, "normal"), sliced(extents))
        yield Sweep(name=f"x + slices, {numel} elements", axis="rank", points=ranks, level=True)
