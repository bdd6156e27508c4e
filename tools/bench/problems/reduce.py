# SPDX-License-Identifier: Apache-2.0
"""Reductions along an inner, a middle and an outer axis and of everything, and their gradients."""

import math

import numpy as np

from tools.bench.check import compare, sample_indices
from tools.bench.record import COUNTS, LENGTHS, SIZES, Bench, Bound, Operand, Sweep
from tools.oracle.numerics import is_float

TORCH = {
    "sum": "sum", "mean": "mean", "max": "amax", "min": "amin", "prod": "prod", "argmax": "argmax", "argmin": "argmin",
    "logsumexp": "logsumexp", "any": "any", "all": "all", "count_nonzero": "count_nonzero",
}  # fmt: skip
NUMPY = {
    "sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod, "argmax": np.argmax,
    "argmin": np.argmin, "any": np.any, "all": np.all, "count_nonzero": np.count_nonzero,
    "var": lambda x, axis: np.var(x, axis, ddof=1), "std": lambda x, axis: np.std(x, axis, ddof=1),
    "norm2": lambda x, axis: np.linalg.norm(x, axis=axis),
    "logsumexp": lambda x, axis: np.logaddexp.reduce(x, axis), "p3": lambda x, axis: np.linalg.norm(x, 3, axis),
}  # fmt: skip
UNMEASURED = {
    f"reduce_{name}{form}_{{T}}{word}": f"the kernels of {kernel}"
    for form in ("", "_axes", "_to")
    for name, word, kernel in (("{F}", " bool", "any and all"), ("sum", "", "count_nonzero"))
}
FLOATS = ("f32", "f16", "bf16", "f64")
PLAIN = ("sum", "mean", "max", "min", "prod")
MOMENTS = ("var", "std")


def torch_reduction(function, axis):
    def peer(torch, t, scalars):
        x = t["x"]
        if function == "norm2":
            return lambda: torch.linalg.vector_norm(x, dim=axis)
        if function in MOMENTS:
            return lambda: getattr(torch, function)(x, dim=axis, correction=1)
        return lambda: getattr(torch, TORCH[function])(x, dim=axis)

    return peer


def numpy_reduction(function, axis):
    return lambda a, scalars: lambda: NUMPY[function](a["x"], axis=axis)


def check_of(function, axis):
    """Sampled results against NumPy's of the same elements."""

    def check(problem):
        shape, data = problem.buffers["x"].operand.shape, problem.data
        if axis is None:
            x = data.rows(problem.buffers["x"], np.arange(shape[0]))
            size = np.abs(x).sum() if function in ("sum", "mean") else 1.0
            return compare(problem, data.cells(problem.buffers["y"], np.array([0])), NUMPY[function](x, None), size)
        before, n, after = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
        chosen = sample_indices(problem, before * after, 4)
        positions = (chosen // after * n * after + chosen % after)[:, None] + np.arange(n) * after
        x = data.cells(problem.buffers["x"], positions.ravel()).astype(np.float64).reshape(positions.shape)
        expected = np.asarray(NUMPY[function](x, axis=1), np.float64)
        if not is_float(problem.dtype):
            got = data.cells(problem.buffers["y"], chosen)
            return "" if np.array_equal(got, expected) else f"is {got}, expected {expected}"
        size = np.abs(x).sum(1) if function in ("sum", "mean") else np.abs(expected) + 1.0 * (function not in TORCH)
        return compare(problem, data.cells(problem.buffers["y"], chosen), expected, size)

    return check


def row_of(function, dtypes, output):
    if function.startswith("arg"):
        own = "" if dtypes[0] in FLOATS else " integers"
        return "arg_reduce_{F}_{T}" if output == "i64" else "arg_reduce_{F}_{T}_{U}" + own
    if function in ("any", "all"):
        return "reduce_{F}_{T} truth"
    if function == "count_nonzero":
        return "reduce_count_nonzero_{T}"
    if dtypes[0] not in FLOATS:
        return "reduce_{F}_{T} integers"
    return "reduce_{F}_{T}" + ("" if function in PLAIN else " moments" if function in MOMENTS else " floats")


def made(where, function, shape, axis, bound, *, fill="sixteenths", dtypes=("f32", "bf16"), output="", **given):
    """axis None reduces everything: C gets x as one axis."""
    row = row_of(function, dtypes, output)
    out = (1,) if axis is None else tuple(1 if a == axis else e for a, e in enumerate(shape))
    scalars = {
        "output_numel": math.prod(out), "output_shape": out, "reduce_axis": axis or 0,
        "reduce_extent": math.prod(shape) if axis is None else shape[axis],
        "reduce_stride_x": 1 if axis is None else math.prod(shape[axis + 1 :]),
    }  # fmt: skip
    peers = {"torch": (torch_reduction(function, axis),), "numpy": (numpy_reduction(function, axis),)}
    return Bench(
        name=f"reduce_{function} {where}", row=row, function="" if function == "count_nonzero" else function,
        other=output if "{U}" in row else "", dtypes=dtypes, scalars=scalars, check=check_of(function, axis),
        arrays={"x": Operand(shape, fill), "y": Operand(out)}, bounds=(bound,), workspace=True, **{**peers, **given},
    )  # fmt: skip


# Suffix of the row's name for a reduction to a shape; other reductions have it in their name.
TO_ROWS = dict.fromkeys(PLAIN, "") | dict.fromkeys(MOMENTS, " moments") | {"fmax": " numbers", "any": " truth"}


def to_shape(function, shape, out, bound, dtypes=("f32", "bf16"), end=None):
    """Reductions over columns. No value is NaN."""
    end = TO_ROWS.get(function, " floats") if end is None else end
    row = f"reduce_{{F}}_to_{{T}}{end}"
    if function in ("norm_p", "count_nonzero"):
        row = f"reduce_{function}_to_{{T}}"
    kind = {"fmax": "max", "norm_p": "p3"}.get(function, function)

    def check(problem):
        got = problem.data.rows(problem.buffers["dst"], np.array([0]))[0]
        if function == "sum":
            return compare(problem, got, *problem.data.row_sums(problem.buffers["src"], np.arange(shape[0])))
        chosen = sample_indices(problem, shape[1], 4)
        positions = chosen[:, None] + np.arange(shape[0]) * shape[1]
        x = problem.data.cells(problem.buffers["src"], positions.ravel()).astype(np.float64).reshape(positions.shape)
        expected = np.asarray(NUMPY[kind](x, axis=1), np.float64)
        return compare(problem, got[chosen], expected, np.abs(expected) + 1.0)

    def peer(torch, t, scalars):
        if function in ("norm2", "norm_p"):
            return lambda: torch.linalg.vector_norm(t["src"], 3 if function == "norm_p" else 2, dim=0, keepdim=True)
        if function == "count_nonzero":
            return lambda: torch.count_nonzero(t["src"], 0)
        return lambda: getattr(torch, {"fmax": "amax"}.get(function, function))(t["src"], 0, keepdim=True)

    own = {"correction": 1} if function in MOMENTS else {"p": 3.0} if function == "norm_p" else {}
    return Bench(
        name=f"reduce_{function}_to{' of integers' * (end == ' integers')}", row=row,
        function=function if "{F}" in row else "", dtypes=dtypes, bounds=(bound,), workspace=True, check=check,
        scalars={"input_shape": shape, "output_shape": out, "rank_in": len(shape)} | own,
        arrays={"src": Operand(shape, "sixteenths" if function == "sum" else "normal"), "dst": Operand(out)},
        torch=(peer,), numpy=(lambda a, scalars: lambda: NUMPY[kind](a["src"], axis=0),),
    )  # fmt: skip


def trace(n, bound):
    def check(problem):
        diagonal = problem.data.cells(problem.buffers["x"], np.arange(n) * (n + 1))
        got = problem.data.cells(problem.buffers["y"], np.array([0]))
        return compare(problem, got, diagonal.sum(), np.abs(diagonal).sum())

    return Bench(
        name="trace", row="trace_{T}", dtypes=("f32",), check=check, bounds=(bound,), workspace=True,
        scalars={"rows": n, "stride_row": n, "stride_col": 1}, bytes=lambda width, _: (n + 1) * width,
        arrays={"x": Operand((n, n), "sixteenths"), "y": Operand((1,))},
        torch=(lambda torch, t, scalars: lambda: torch.trace(t["x"]),),
        numpy=(lambda a, scalars: lambda: np.trace(a["x"]),),
    )  # fmt: skip


def trace_gradient(n, bound):
    def check(problem):
        positions = np.array([0, 1, n, n + 1, n * n - 1])
        got = problem.data.cells(problem.buffers["dx"], positions)
        return compare(problem, got, np.array([1.0, 0.0, 0.0, 1.0, 1.0]), 1.0)

    return Bench(
        name="trace_backward", row="trace_backward_{T}", dtypes=("f32",), check=check, bounds=(bound,),
        scalars={"rows": n, "columns": n}, arrays={"dy": Operand((1,), 1.0), "dx": Operand((n, n))},
    )  # fmt: skip


# --- any set of axes -------------------------------------------------------------------------------------------------

AXES_ROWS = {
    **dict.fromkeys(PLAIN, "reduce_{F}_axes_{T}"), **dict.fromkeys(MOMENTS, "reduce_{F}_axes_{T} moments"),
    "norm2": "reduce_{F}_axes_{T} floats", "any": "reduce_{F}_axes_{T} truth", "fmax": "reduce_{F}_axes_{T} numbers",
    "argmax": "arg_reduce_{F}_axes_{T}_{U}", "count_nonzero": "reduce_count_nonzero_axes_{T}",
    "norm_p": "reduce_norm_p_axes_{T}",
}  # fmt: skip


def of_rows(function, x, scalars):
    """Expected results of rows, by output."""
    if function == "norm_p":
        return {"y": (np.abs(x) ** scalars["p"]).sum(1) ** (1 / scalars["p"])}
    if function == "fmax":
        return {"y": x.max(1)}
    if function == "argmax":
        return {"value": x.max(1), "place": x.argmax(1)}
    if function in MOMENTS:
        return {"y": NUMPY[function](x, 1), "mean": x.mean(1)}
    return {"y": NUMPY[function](x, 1)}


def torch_over(function, axes):
    def peer(torch, t, scalars):
        x = t["x"]
        if function in ("norm2", "norm_p"):
            return lambda: torch.linalg.vector_norm(x, scalars.get("p", 2), dim=axes)
        if function in MOMENTS:
            return lambda: getattr(torch, f"{function}_mean")(x, dim=axes, correction=1)
        if function == "argmax":  # over a single axis
            return lambda: torch.max(x, axes[0])
        return lambda: getattr(torch, {**TORCH, "fmax": "amax"}[function])(x, dim=axes)

    return peer


def over(where, function, shape, axes, bound, *, fill="sixteenths", dtypes=("f32", "bf16"), row="", other="", **given):
    """`row` is named for integers."""
    row = row or AXES_ROWS[function]
    result_shape = tuple(1 if a in axes else e for a, e in enumerate(shape))
    names = ("value", "place") if function == "argmax" else ("y", "mean") if function in MOMENTS else ("y",)
    scalars = {"shape": shape, "numel": math.prod(shape), "reduce_axes_mask": sum(1 << a for a in axes), **given}
    before, n = math.prod(result_shape), math.prod(shape[a] for a in axes)
    steps = [math.prod(shape[a + 1 :]) for a in range(len(shape))]

    def positions_of(extents, chosen):
        coordinates = np.unravel_index(chosen, extents)
        return sum(c * steps[a] for a, c in enumerate(coordinates))

    inner = positions_of(tuple(e if a in axes else 1 for a, e in enumerate(shape)), np.arange(n))

    def check(problem):
        chosen, data = sample_indices(problem, before, 4), problem.data
        positions = positions_of(result_shape, chosen)[:, None] + inner
        x = data.cells(problem.buffers["x"], positions.ravel()).astype(np.float64).reshape(positions.shape)
        for name, expected in of_rows(function, x, scalars).items():
            got = data.cells(problem.buffers[name], chosen)
            size = np.abs(x).sum(1) if function in ("sum", "mean") else np.abs(expected) + 1.0
            if found := compare(problem, got, np.asarray(expected, np.float64), size):
                return f"{name}: {found}"
        return ""

    return Bench(
        name=f"{row.partition('_{')[0]}_{function}_axes {where}", row=row, function=function if "{F}" in row else "",
        other=other, dtypes=dtypes, scalars=scalars, check=check, bounds=(bound,), workspace=True,
        arrays={"x": Operand(shape, fill), **{name: Operand(result_shape) for name in names}},
        torch=() if row == "reduce_mean_axes_{T}_{U}" else (torch_over(function, axes),),
        numpy=() if function in ("argmax", "norm_p", "fmax") else (
            lambda a, scalars: lambda: NUMPY[function](a["x"], axis=axes if len(axes) > 1 else axes[0]),
        ),
    )  # fmt: skip


def axes_benches(rows, width, read):
    channels = (64, rows // 64, width)
    for function in ("sum", "var"):
        fill = "normal" if function == "var" else "sixteenths"
        yield over("of channels", function, channels, (0, 2), read, fill=fill)
        yield over("of planes", function, channels, (1, 2), read, fill=fill)
    yield over("inner", "fmax", (rows, width), (1,), read)
    yield over("inner", "norm_p", (rows, width), (1,), Bound("peer", 1.0), fill="normal", p=3.0)
    yield over("inner", "norm2", (rows, width), (1,), read, fill="normal")
    yield over("inner", "argmax", (rows, width), (1,), read, other="i64")
    yield over("inner", "any", (rows, width), (1,), read, fill=0.0)
    yield over("inner", "count_nonzero", (rows, width), (1,), read)
    yield over("of integers", "sum", channels, (0, 2), read, dtypes=("i32",), row="reduce_{F}_axes_{T} integers")
    yield over(
        "of integers", "mean", (rows, width), (1,), read, dtypes=("i32",), row="reduce_mean_axes_{T}_{U}", other="f64"
    )


# --- gradients --------------------------------------------------------------------------------------------------------

FORWARD = {
    "sum": lambda torch, x: x.sum(1, keepdim=True), "mean": lambda torch, x: x.mean(1, keepdim=True),
    "max_min": lambda torch, x: x.amax(1, keepdim=True), "prod": lambda torch, x: x.prod(1, keepdim=True),
    "norm2": lambda torch, x: torch.linalg.vector_norm(x, dim=1, keepdim=True),
    "logsumexp": lambda torch, x: torch.logsumexp(x, 1, keepdim=True),
    "norm_p": lambda torch, x: torch.linalg.vector_norm(x, 3.0, dim=1, keepdim=True),
    "var": lambda torch, x: x.var(1, keepdim=True), "std": lambda torch, x: x.std(1, keepdim=True),
}  # fmt: skip


def torch_gradient(function):
    def peer(torch, t, scalars):
        x = (t["x"] if "x" in t else t["dx"]).detach().clone().requires_grad_()
        y = FORWARD[function](torch, x)
        dy = t["dy"][:, :1]
        # the gradient of a sum is a view, which is copied, as its user would do
        return lambda: torch.autograd.grad(y, x, dy, retain_graph=True)[0].contiguous()

    return peer


def expected_gradient(function, dy, x, y):
    n = dy.shape[1]
    if function in ("sum", "mean"):
        return dy / (n if function == "mean" else 1)
    if function == "max_min":
        return np.where(x == y, dy / np.maximum((x == y).sum(1, keepdims=True), 1), 0)
    if function == "prod":
        return dy * x.prod(1, keepdims=True) / x
    if function == "norm2":
        return dy * x / y
    if function == "norm_p":
        return dy * np.sign(x) * (x / y) ** 2
    if function == "logsumexp":
        return dy * np.exp(x - y)
    factor = 2 / (n - 1) if function == "var" else 1 / ((n - 1) * x.std(1, ddof=1, keepdims=True))
    return dy * (x - x.mean(1, keepdims=True)) * factor


def gradient(function, shape, bound, *, over_axes=False):
    still, saved = (1, 0), function not in ("sum", "mean")
    arrays = {"dy": Operand(shape, "sixteenths", still)}
    if saved:
        arrays |= {"x": Operand(shape, 1.0 if function == "prod" else "normal"), "y": Operand(shape, 2.0, still)}
    scalars = {"shape": shape}
    if function == "mean":
        scalars["inv_extent"] = 1 / shape[1]
    if function == "norm_p":
        scalars["p"] = 3.0
    if over_axes:
        del arrays["y"]
        scalars["correction"] = 1
    elif function in MOMENTS:
        scalars |= {"reduce_axis": 1, "reduce_extent": shape[1], "reduce_stride_x": 1, "correction": 1}

    def check(problem):
        chosen, data = sample_indices(problem, shape[0], 4), problem.data
        positions = (chosen[:, None] * shape[1] + np.arange(shape[1])).ravel()
        got = {name: data.cells(buffer, positions).reshape(-1, shape[1]) for name, buffer in problem.buffers.items()}
        given = [got.get(name, got["dy"]).astype(np.float64) for name in ("dy", "x", "y")]
        expected = expected_gradient(function, *given)
        # The mean is computed from differences to the row's first element: its error is some roundings of the largest
        # difference, at most 2 max |x|, which dominates for an element near the mean.
        slack = 1 / shape[1] * np.abs(given[0]) * np.abs(given[1]).max() if function in MOMENTS else 1e-6
        return compare(problem, got["dx"], expected, 8 * np.abs(expected) + slack)

    row = {"norm2": "reduce_{F}_backward_{T}", "logsumexp": "reduce_{F}_backward_{T}"}
    row |= dict.fromkeys(MOMENTS, f"reduce_{{F}}_{'axes_' * over_axes}backward_{{T}} moments")
    own = "axes_" * over_axes
    return Bench(
        name=f"reduce_{function}_{own}backward", row=row.get(function, f"reduce_{function}_backward_{{T}}"),
        scalars=scalars, function=function if function in row else "", dtypes=("f32", "bf16"), check=check,
        bounds=(bound,), arrays=arrays | {"dx": Operand(shape)}, torch=(torch_gradient(function),),
    )  # fmt: skip


def benches(backend):
    on_gpu = backend == "cuda"
    rows, width = (65536, 1024) if on_gpu else (16384, 1024)
    read = Bound("copy", 0.9, dtypes=("f32",)) if on_gpu else Bound("peer", 1.0)
    for function in ("sum", "mean", "max", "argmax", "var", "norm2", "logsumexp"):
        fill = "normal" if function in ("var", "norm2", "logsumexp") else "sixteenths"
        given = {"fill": fill, "output": "i64" if function == "argmax" else ""}
        yield made("inner", function, (rows, width), 1, read, **given)
        if function in ("sum", "max", "argmax", "var"):
            yield made("middle", function, (64, rows // 64, width), 1, read, **given)
            yield made("outer", function, (rows, width), 0, read, **given)
            yield made("of everything", function, (rows, width), None, read, **given)
    yield made("of short rows", "sum", (rows * width // 32, 32), 1, read)
    for count in (1, 8, 64):
        yield made(f"of {count} rows", "sum", (count, 4096), 1, Bound("peer", 1.0))
    yield made("inner", "prod", (rows, width), 1, read, fill=1.0)
    yield made("inner", "argmin", (rows, width), 1, read, output="i32")
    yield made("inner, integers", "sum", (rows, width), 1, read, dtypes=("i32",), torch=())
    yield made("inner, integers", "argmax", (rows, width), 1, read, dtypes=("i32",), output="i32")
    yield made("inner", "any", (rows, width), 1, read, fill=0.0)
    yield made("inner", "count_nonzero", (rows, width), 1, read)
    for function in ("sum", "norm2", "var", "fmax", "any", "count_nonzero"):
        yield to_shape(function, (rows, width), (1, width), read)
    yield to_shape("max", (rows, width), (1, width), read, ("i32",), " integers")
    yield to_shape("norm_p", (rows, width), (1, width), Bound("peer", 1.0))
    yield from axes_benches(rows, width, read)
    yield trace(4096, Bound("peer", 1.0))
    written = Bound("copy", 0.85) if on_gpu else Bound("peer", 1.0)
    yield trace_gradient(4096, Bound("copy", 0.85))
    for function in FORWARD:
        yield gradient(function, (rows, width), written)
    yield gradient("var", (rows, width), written, over_axes=True)


def sweeps(backend):
    numel, none = 2**26 if backend == "cuda" else 2**21, Bound("peer", 1.0)
    for function in ("sum", "mean", "max", "argmax", "logsumexp", "var", "norm2", "prod"):
        fill = 1.0 if function == "prod" else "normal" if function in ("logsumexp", "var", "norm2") else "sixteenths"
        given = {"fill": fill, "output": "i64" if function == "argmax" else "", "numpy": ()}

        def swept(shapes, axis, function=function, given=given):
            return {n: made("swept", function, shape, axis, none, **given) for n, shape in shapes.items()}

        inner = swept({n: (numel // n, n) for n in LENGTHS}, 1)
        yield Sweep(name=f"{function} of rows, {numel} elements", axis="row length", points=inner, level=True)
        if function in ("sum", "max", "argmax", "var", "logsumexp"):
            outer = swept({n: (n, numel // n) for n in LENGTHS}, 0)
            yield Sweep(name=f"{function} of columns, {numel} elements", axis="axis length", points=outer, level=True)
        if function in ("sum", "max", "var"):
            few = swept({n: (64, n) for n in LENGTHS}, 1)
            yield Sweep(name=f"{function} of 64 rows", axis="row length", points=few)
            many = swept({count: (count, 4096) for count in COUNTS}, 1)
            yield Sweep(name=f"{function} of rows of 4096", axis="rows", points=many)
            whole = swept({n: (1, n) for n in SIZES if n <= numel}, None)
            yield Sweep(name=f"{function} of everything", axis="elements", points=whole)
