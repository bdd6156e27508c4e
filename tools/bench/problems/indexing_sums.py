"""Sums of elements and of rows where an index says, and the same as gradients."""

import numpy as np

from tools.bench.check import compare, picks, sums
from tools.bench.problems.embedding import one_hot_row, uniform, zipf
from tools.bench.record import Bench, Bound, Operand
from tools.oracle.numerics import itemsize

# Of a row: updates, index, output; axis, its extent, number and shape of the updates.
SCATTERED = {
    "scatter_add": ("updates", "index", "out", "scatter_dim", "out_dim_size", "upd_numel", "upd_shape"),
    "gather_backward": ("dout", "index", "dsrc", "gather_dim", "src_dim_size", "out_numel", "out_shape"),
    "index_add": ("src", "idx", "dst", "add_dim", "dst_dim_size", "src_numel", "src_shape"),
    "index_select_backward": ("dout", "idx", "dsrc", "select_dim", "src_dim_size", "out_numel", "out_shape"),
}


def torch_peer(name, axis):
    source, ids, target = SCATTERED[name][:3]
    method = "scatter_add_" if ids == "index" else "index_add_"
    return lambda torch, t, scalars: lambda: getattr(t[target], method)(axis, t[ids], t[source])


def numpy_rows(name):
    source, ids, target = SCATTERED[name][:3]
    return lambda a, scalars: lambda: np.add.at(a[target], a[ids], a[source])


def check_rows(name):
    source, ids, target = SCATTERED[name][:3]

    def check(problem):
        index, count = problem.indices[ids], problem.buffers[target].operand.shape[0]
        counts = np.bincount(index, minlength=count)
        chosen = np.concatenate((picks(problem, count), index[:16], [np.argmax(counts)]))
        return sums(problem, target, source, chosen, counts, lambda row: (np.flatnonzero(index == row), 1.0))

    return check


def check_elements(name, axis):
    """Sampled cells of a matrix."""
    source, ids, target = SCATTERED[name][:3]

    def check(problem):
        index, shape = problem.indices[ids], problem.buffers[target].operand.shape
        for line in picks(problem, shape[1 - axis], 4):
            own = index[:, line] if axis == 0 else index[line]
            places = (
                np.arange(len(own)) * index.shape[1] + line
                if axis == 0
                else line * index.shape[1] + np.arange(len(own))
            )
            x = problem.data.cells(problem.buffers[source], places).astype(np.float64)
            for cell in own[:4]:
                terms = x[own == cell]
                if len(terms) > 64 and problem.dtype != "f32" and not problem.bench.workspace:
                    continue
                place = cell * shape[1] + line if axis == 0 else line * shape[1] + cell
                got = problem.data.cells(problem.buffers[target], np.array([place]))
                steps = "f32" if problem.bench.workspace else problem.dtype
                if wrong := compare(problem, got, np.array([terms.sum()]), np.array([np.abs(terms).sum()]), steps):
                    return f"{target}[{place}] {wrong}"
        return ""

    return check


def made(name, label, shape, axis, extent, fill, bounds, check, *, index, **given):
    """The output counts once for zeroing and twice for being added to."""
    source, ids, target, axis_name, extent_name, numel, shape_name = SCATTERED[name]
    own = tuple(extent if d == axis else e for d, e in enumerate(shape))
    lines = (shape[axis],) if ids == "idx" else shape
    arrays = {
        ids: Operand(lines, lambda rng: fill(rng, int(np.prod(lines)), extent).reshape(lines)),
        source: Operand(shape, "sixteenths"), target: Operand(own, 0.0),
    }  # fmt: skip
    scalars = {axis_name: axis, extent_name: extent, numel: int(np.prod(shape)), "rank": len(shape), shape_name: shape}

    def size(width, indices):
        return (int(np.prod(shape)) + 3 * int(np.prod(own))) * width + int(np.prod(lines)) * itemsize(index)

    return Bench(
        name=label, row=f"{name}{{I}}_{{T}}", dtypes=("f32", "bf16"), index=index, arrays=arrays, scalars=scalars,
        bytes=size, check=check, torch=(torch_peer(name, axis),), zeroed=(target,), bounds=bounds, **given,
    )  # fmt: skip


def benches(backend):
    gpu = backend == "cuda"
    spreads = (("uniform", uniform), ("zipf", zipf), ("one hot row", one_hot_row))
    n, count, dim = (2**21, 2**20, 128) if gpu else (2**17, 2**16, 128)
    index = "i32" if gpu else "i64"  # of PyTorch
    side = 2**13 if gpu else 2**12
    peer = (Bound("peer", 4.0),) if gpu else (Bound("peer", 1.0),)
    for how in ("", " deterministic"):
        for s, spread in spreads:
            near = (Bound("times", 1.5, f"index_add {s}"),) if gpu and how and s != "one hot row" else ()
            hot = (Bound("times", 2.0, "index_add uniform"),) if gpu and s == "one hot row" else ()
            yield made(
                "index_add", f"index_add {s}{how}", (n, dim), 0, count, spread, near + hot or peer,
                check_rows("index_add"), index=index, numpy=(numpy_rows("index_add"),), workspace=bool(how),
            )  # fmt: skip
            for axis in (0, 1):
                label = f"scatter_add axis {axis} {s}"
                near = (Bound("times", 1.5, label),) if gpu and how and s != "one hot row" else ()
                hot = (Bound("times", 2.0, f"scatter_add axis {axis} uniform"),) if gpu and s == "one hot row" else ()
                yield made(
                    "scatter_add", label + how, (side, side), axis, side, spread, near + hot or peer,
                    check_elements("scatter_add", axis), index=index, workspace=bool(how),
                )  # fmt: skip
    yield made(
        "gather_backward", "gather_backward", (side, side), 1, side, uniform, peer,
        check_elements("gather_backward", 1), index=index,
    )  # fmt: skip
    yield made(
        "index_select_backward", "index_select_backward", (n, dim), 0, count, uniform, peer,
        check_rows("index_select_backward"), index=index,
    )  # fmt: skip
