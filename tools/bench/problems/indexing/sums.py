# SPDX-License-Identifier: Apache-2.0
"""scatter_add, index_add, scatter_reduce, put_add, and the gradients of gathers, which are such sums."""

import dataclasses

import numpy as np

from tools.bench.check import compare, sample_indices, sums
from tools.bench.problems.embedding.bags import distinct, one_hot_row, uniform, zipf
from tools.bench.record import Bench, Bound, Operand
from tools.oracle.numerics import itemsize

# Parameter names of a row: updates, index, output; axis, its extent, number and shape of the updates.
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
        chosen = np.concatenate((sample_indices(problem, count), index[:16], [np.argmax(counts)]))
        return sums(problem, target, source, chosen, counts, lambda row: (np.flatnonzero(index == row), 1.0))

    return check


def check_elements(name, axis, reduce=np.sum):
    """Checks sampled cells of a matrix; `reduce` is NumPy's reduction."""
    source, ids, target = SCATTERED[name][:3]

    def check(problem):
        index, shape = problem.indices[ids], problem.buffers[target].operand.shape
        for fiber in sample_indices(problem, shape[1 - axis], 4):
            own = index[:, fiber] if axis == 0 else index[fiber]
            positions = (
                np.arange(len(own)) * index.shape[1] + fiber
                if axis == 0
                else fiber * index.shape[1] + np.arange(len(own))
            )
            x = problem.data.cells(problem.buffers[source], positions).astype(np.float64)
            for cell in own[:4]:
                summands = x[own == cell]
                if len(summands) > 64 and problem.dtype != "f32" and not problem.bench.workspace:
                    continue
                position = cell * shape[1] + fiber if axis == 0 else fiber * shape[1] + cell
                got = problem.data.cells(problem.buffers[target], np.array([position]))
                steps = "f32" if problem.bench.workspace else problem.dtype
                if wrong := compare(
                    problem, got, np.array([reduce(summands)]), np.array([reduce(np.abs(summands))]), steps
                ):
                    return f"{target}[{position}] {wrong}"
        return ""

    return check


def made(name, label, shape, axis, extent, fill, bounds, check, *, index, **given):
    """Traffic: the output counts once for zeroing and twice for read-modify-write."""
    source, ids, target, axis_name, extent_name, numel, shape_name = SCATTERED[name]
    own = tuple(extent if d == axis else e for d, e in enumerate(shape))
    index_shape = (shape[axis],) if ids == "idx" else shape
    arrays = {
        ids: Operand(index_shape, lambda rng: fill(rng, int(np.prod(index_shape)), extent).reshape(index_shape)),
        source: Operand(shape, "sixteenths"), target: Operand(own, 0.0),
    }  # fmt: skip
    scalars = {axis_name: axis, extent_name: extent, numel: int(np.prod(shape)), "rank": len(shape), shape_name: shape}

    def size(width, indices):
        return (int(np.prod(shape)) + 3 * int(np.prod(own))) * width + int(np.prod(index_shape)) * itemsize(index)

    return Bench(
        name=label, row=f"{name}{{I}}_{{T}}", dtypes=("f32", "bf16"), index=index, arrays=arrays, scalars=scalars,
        bytes=size, check=check, torch=(torch_peer(name, axis),), zeroed=(target,), bounds=bounds, **given,
    )  # fmt: skip


RULES = {"prod": (1, np.prod), "mean": (2, np.mean), "amax": (3, np.max)}


def torch_reduce(name, axis):
    return lambda torch, t, scalars: (
        lambda: t["out"].scatter_reduce_(axis, t["index"], t["updates"], name, include_self=False)
    )


def torch_put(torch, t, scalars):
    return lambda: t["out"].put_(t["index"], t["updates"], accumulate=True)


def check_put(problem):
    index, count = problem.indices["index"], problem.buffers["out"].operand.shape[0]
    x = problem.data.cells(problem.buffers["updates"], np.arange(len(index))).astype(np.float64)
    for cell in index[:16]:
        summands = x[index == cell]
        got = problem.data.cells(problem.buffers["out"], np.array([cell]))
        if wrong := compare(
            problem, got, np.array([summands.sum()]), np.array([np.abs(summands).sum()]), problem.dtype
        ):
            return f"out[{cell}] of {count} {wrong}"
    return ""


def check_means(problem):
    """The gradient of an update is that of its cell, 0.5, over the number of updates of the cell."""
    index, shape = problem.indices["index"], problem.buffers["dupdates"].operand.shape
    for fiber in sample_indices(problem, shape[0], 4):
        counts = np.bincount(index[fiber], minlength=shape[1])
        got = problem.data.cells(problem.buffers["dupdates"], fiber * shape[1] + np.arange(shape[1]))
        want = 0.5 / counts[index[fiber]]
        if wrong := compare(problem, got, want, want, problem.dtype):
            return f"dupdates[{fiber}] {wrong}"
    return ""


def gradients(side):
    shape = (side, side)
    arrays = {
        "dout": Operand(shape, 0.5), "x": Operand(shape, "sixteenths"), "updates": Operand(shape, "sixteenths"),
        "index": Operand(shape, lambda rng: uniform(rng, side * side, side).reshape(shape)),
        "out": Operand(shape, "sixteenths"), "dx": Operand(shape), "dupdates": Operand(shape),
    }  # fmt: skip
    scalars = {"upd_numel": side * side, "rank": 2, "scatter_dim": 1, "out_dim_size": side, "reduce": 2,
               "include_self": 0, "upd_shape": shape}  # fmt: skip
    return Bench(
        name="scatter_reduce_backward mean", row="scatter_reduce_backward{I}_{T}", dtypes=("f32", "bf16"), index="i32",
        arrays=arrays, scalars=scalars, bytes=lambda width, _: side * side * (4 * width + 4), check=check_means,
        workspace=True, bounds=(Bound("copy", 0.3),),
    )  # fmt: skip


def reductions(numel, side, gpu, index):
    """scatter_reduce with reductions other than the sum, and put_add."""
    for how in ("", " deterministic"):
        for name, (rule, reduce) in RULES.items():
            bench = made(
                "scatter_add", f"scatter_reduce {name}{how}", (side, side), 1, side, uniform,
                (Bound("peer", 2.0 if gpu else 1.0),), check_elements("scatter_add", 1, reduce), index=index,
                workspace=bool(how),
            )  # fmt: skip
            yield dataclasses.replace(
                bench, row="scatter_reduce{I}_{T}", torch=(torch_reduce(name, 1),),
                scalars=bench.scalars | {"reduce": rule, "include_self": 0},
            )  # fmt: skip
    yield gradients(side)
    count = numel // 2
    arrays = {
        "index": Operand((numel,), lambda rng: uniform(rng, numel, count)), "updates": Operand((numel,), "sixteenths"),
        "out": Operand((count,), 0.0),
    }  # fmt: skip
    yield Bench(
        name="put_add", row="put_add{I}_{T}", dtypes=("f32", "bf16"), index="i32", arrays=arrays,
        scalars={"numel": numel, "out_numel": count}, bytes=lambda width, _: (numel + 3 * count) * width + 4 * numel,
        check=check_put, torch=(torch_put,), zeroed=("out",), bounds=(Bound("peer", 2.0 if gpu else 1.0),),
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
    for how in ("", " deterministic"):
        near = (Bound("times", 2.0, "index_add uniform"),) if gpu else peer
        yield made(
            "index_add", f"index_add distinct{how}", (count, dim), 0, count, distinct, near,
            check_rows("index_add"), index=index, workspace=bool(how),
        )  # fmt: skip
        if gpu:
            yield made(
                "index_add", f"index_add uniform i64{how}", (n, dim), 0, count, uniform, near,
                check_rows("index_add"), index="i64", workspace=bool(how),
            )  # fmt: skip
            yield made(
                "scatter_add", f"scatter_add axis 1 uniform i64{how}", (side, side), 1, side, uniform,
                (Bound("times", 1.5, "scatter_add axis 1 uniform"),), check_elements("scatter_add", 1), index="i64",
                workspace=bool(how),
            )  # fmt: skip
    yield from reductions(n * dim // 8, side, gpu, index)
    yield made(
        "gather_backward", "gather_backward", (side, side), 1, side, uniform, peer,
        check_elements("gather_backward", 1), index=index,
    )  # fmt: skip
    yield made(
        "index_select_backward", "index_select_backward", (n, dim), 0, count, uniform, peer,
        check_rows("index_select_backward"), index=index,
    )  # fmt: skip
