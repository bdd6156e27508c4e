# SPDX-License-Identifier: Apache-2.0
"""Copies by index: gather, scatter, masked select and scatter, nonzero, one_hot."""

import numpy as np

from tools.bench.check import cells, same, sample_indices, shape
from tools.bench.record import Bench, Bound, Operand


def at_random(shape, extent):
    return lambda rng: rng.integers(0, extent, shape)


def permuted(height, length):
    """Each row is a permutation, so that no two updates have one target."""
    return lambda rng: rng.permuted(np.broadcast_to(np.arange(length), (height, length)), axis=1)


def extents_of(scale):
    return (2**16 // scale, 1024)


# --- along an axis ----------------------------------------------------------------------------------------------------


def check_gather(problem):
    _, columns = shape(problem, "out")
    _, extent = shape(problem, "src")
    index = problem.indices["index"]
    positions = sample_indices(problem, index.size)
    return same(
        problem, "out", positions, cells(problem, "src", positions // columns * extent + index.reshape(-1)[positions])
    )


def check_scatter(problem):
    _, columns = shape(problem, "updates")
    index = problem.indices["index"]
    positions = sample_indices(problem, index.size)
    targets = positions // columns * columns + index.reshape(-1)[positions]
    return same(problem, "out", targets, cells(problem, "updates", positions))


def check_select(problem):
    source, output = ("table", "dest") if "table" in problem.buffers else ("src", "out")
    _, columns = shape(problem, output)
    index = problem.indices["idx"]
    positions = sample_indices(problem, index.size * columns)
    chosen = index.astype(np.int64)[positions // columns] * columns + positions % columns
    return same(problem, output, positions, cells(problem, source, chosen))


def check_take(problem):
    index = problem.indices["index"]
    positions = sample_indices(problem, index.size)
    return same(problem, "out", positions, cells(problem, "src", index[positions]))


def check_put(problem):
    index = problem.indices["index"]
    positions = sample_indices(problem, index.size)
    return same(problem, "out", index[positions], cells(problem, "updates", positions))


def torch_gather(torch, t, scalars):
    return lambda: torch.gather(t["src"], 1, t["index"], out=t["out"])


def torch_scatter(torch, t, scalars):
    return lambda: t["out"].scatter_(1, t["index"], t["updates"])


def torch_select(source, index, output):
    def made(torch, t, scalars):
        return lambda: torch.index_select(t[source], 0, t[index], out=t[output])

    return made


def torch_take(torch, t, scalars):
    return lambda: torch.take(t["src"], t["index"], out=t["out"])


def torch_put(torch, t, scalars):
    return lambda: t["out"].put_(t["index"], t["updates"])


def numpy_gather(a, scalars):
    return lambda: np.take_along_axis(a["src"], a["index"], 1)


def numpy_scatter(a, scalars):
    return lambda: np.put_along_axis(a["out"], a["index"], a["updates"], 1)


def numpy_select(source, index, output):
    return lambda a, scalars: lambda: np.take(a[source], a[index], 0, out=a[output], mode="clip")


def numpy_take(a, scalars):
    return lambda: np.take(a["src"], a["index"], out=a["out"], mode="clip")


def numpy_put(a, scalars):
    return lambda: np.put(a["out"], a["index"], a["updates"])


def along_axis(backend, of):
    height, length = extents_of(1 if backend == "cuda" else 4)
    both = (height, length)
    for index in ("i32", "i64"):
        yield Bench(
            name=f"gather dim 1 {index}", row="gather{I}_{T}", dtypes=("f32", "bf16"), index=index,
            check=check_gather, bounds=of(0.80), torch=(torch_gather,), numpy=(numpy_gather,),
            arrays={"src": Operand(both, "normal"), "index": Operand(both, at_random(both, length)),
                    "out": Operand(both)},
            scalars={"out_numel": height * length, "gather_dim": 1, "src_dim_size": length, "out_shape": both},
        )  # fmt: skip
        yield Bench(
            name=f"scatter dim 1 {index}", row="scatter{I}_{T}", dtypes=("f32", "bf16"), index=index,
            check=check_scatter, bounds=of(0.80), torch=(torch_scatter,), numpy=(numpy_scatter,),
            arrays={"updates": Operand(both, "normal"), "index": Operand(both, permuted(height, length)),
                    "out": Operand(both)},
            scalars={"upd_numel": height * length, "scatter_dim": 1, "out_dim_size": length, "upd_shape": both},
        )  # fmt: skip


def whole_rows(backend, of):
    n, h, v = (2**20, 128, 2**18) if backend == "cuda" else (2**17, 128, 2**16)
    table, chosen = Operand((v, h), "normal"), Operand((n,), at_random((n,), v))
    for index in ("i32", "i64"):
        yield Bench(
            name=f"index_select rows {index}", row="index_select{I}_{T}", dtypes=("f32", "bf16"), index=index,
            check=check_select, bounds=of(0.80), torch=(torch_select("src", "idx", "out"),),
            numpy=(numpy_select("src", "idx", "out"),),
            arrays={"src": table, "idx": chosen, "out": Operand((n, h))},
            scalars={"out_numel": n * h, "select_dim": 0, "src_dim_size": v, "out_shape": (n, h)},
        )  # fmt: skip
    yield Bench(
        name="gather_rows", row="gather_rows_{T}", dtypes=("f32", "bf16"), check=check_select, bounds=of(0.80),
        torch=(torch_select("table", "idx", "dest"),), numpy=(numpy_select("table", "idx", "dest"),),
        arrays={"table": table, "idx": chosen, "dest": Operand((n, h))}, scalars={"v": v, "h": h, "n": n},
    )  # fmt: skip


def flat(backend, of):
    n, extent = (2**26, 2**20) if backend == "cuda" else (2**24, 2**18)
    yield Bench(
        name="take", row="take{I}_{T}", dtypes=("f32",), index="i64", check=check_take, bounds=of(0.30),
        torch=(torch_take,), numpy=(numpy_take,), scalars={"numel": n, "src_numel": extent},
        arrays={"src": Operand((extent,), "normal"), "index": Operand((n,), at_random((n,), extent)),
                "out": Operand((n,))},
    )  # fmt: skip
    yield Bench(
        name="put", row="put{I}_{T}", dtypes=("f32",), index="i64", check=check_put, bounds=of(0.15),
        torch=(torch_put,), numpy=(numpy_put,), scalars={"numel": extent, "out_numel": extent},
        arrays={"updates": Operand((extent,), "normal"),
                "index": Operand((extent,), lambda rng: rng.permutation(extent)), "out": Operand((extent,))},
    )  # fmt: skip


# --- by a mask --------------------------------------------------------------------------------------------------------


def halves(n):
    """Mask with exactly half of the elements set: one of every two neighbours."""

    def draw(rng):
        first = rng.integers(0, 2, n // 2)
        return np.stack([first, 1 - first], 1).reshape(-1)

    return draw


def check_fill(problem):
    positions = sample_indices(problem, shape(problem, "out")[0])
    chosen = problem.indices["mask"][positions] != 0
    return same(problem, "out", positions, np.where(chosen, 0, cells(problem, "src", positions)))


def check_fill_backward(problem):
    positions = sample_indices(problem, shape(problem, "dsrc")[0])
    chosen = problem.indices["mask"][positions] != 0
    return same(problem, "dsrc", positions, np.where(chosen, 0, cells(problem, "dout", positions)))


def check_masked_select(problem):
    positions = np.flatnonzero(problem.indices["mask"])
    ranks = sample_indices(problem, len(positions))
    return same(problem, "counter", [0], np.array([len(positions)])) or same(
        problem, "out", ranks, cells(problem, "src", positions[ranks])
    )


def check_masked_scatter(output, source):
    def check(problem):
        positions = np.flatnonzero(problem.indices["mask"])
        ranks = sample_indices(problem, len(positions))
        return same(problem, output, positions[ranks], cells(problem, source, ranks))

    return check


def torch_fill(source, output):
    def made(torch, t, scalars):
        mask = t["mask"].bool()
        zero = torch.zeros((), dtype=t[source].dtype, device=t[source].device)
        return lambda: torch.where(mask, zero, t[source], out=t[output])

    return made


def torch_masked_select(torch, t, scalars):
    mask = t["mask"].bool()
    return lambda: torch.masked_select(t["src"], mask)


def torch_masked_scatter(source, output):
    def made(torch, t, scalars):
        mask = t["mask"].bool()
        return lambda: t[output].masked_scatter_(mask, t[source])

    return made


def numpy_fill(source, output):
    def made(a, scalars):
        mask = a["mask"] != 0
        zero = a[source].dtype.type(0)
        return lambda: np.copyto(a[output], np.where(mask, zero, a[source]))

    return made


def numpy_masked_select(a, scalars):
    mask = a["mask"] != 0
    return lambda: a["src"][mask]


def numpy_masked_scatter(source, output):
    return lambda a, scalars: lambda: np.place(a[output], a["mask"] != 0, a[source])


def masked(backend, of):
    n = 2**26 if backend == "cuda" else 2**24
    mask = Operand((n,), halves(n))
    for name, first, output, check in (
        ("masked_fill", "src", "out", check_fill), ("masked_fill_backward", "dout", "dsrc", check_fill_backward),
    ):  # fmt: skip
        yield Bench(
            name=name, row=f"{name}_{{T}}", dtypes=("f32", "bf16"), check=check, bounds=of(0.95),
            arrays={first: Operand((n,), "normal"), "mask": mask, output: Operand((n,))},
            scalars={"numel": n} | ({"fill_bits": 0} if name == "masked_fill" else {}),
            torch=(torch_fill(first, output),), numpy=(numpy_fill(first, output),),
        )  # fmt: skip
    some = n // 2
    yield Bench(
        name="masked_select", row="masked_select_{T}", dtypes=("f32", "bf16"), check=check_masked_select,
        bounds=of(0.70), scalars={"numel": n, "max_selected": some}, workspace=True, torch=(torch_masked_select,),
        numpy=(numpy_masked_select,),
        arrays={"src": Operand((n,), "normal"), "mask": mask, "out": Operand((some,)), "counter": Operand((1,))},
    )  # fmt: skip
    for name, source, extent, output, bound in (
        ("masked_select_backward", "dout", "max_selected", "dsrc", 0.40),
        ("masked_scatter", "source", "source_numel", "out", 0.50),
    ):
        yield Bench(
            name=name, row=f"{name}_{{T}}", dtypes=("f32", "bf16"), check=check_masked_scatter(output, source),
            bounds=of(bound), scalars={"numel": n, extent: some}, workspace=True,
            arrays={source: Operand((some,), "normal"), "mask": mask, output: Operand((n,))},
            torch=(torch_masked_scatter(source, output),), numpy=(numpy_masked_scatter(source, output),),
        )  # fmt: skip


# --- nonzero, one_hot -------------------------------------------------------------------------------------------------


def check_nonzero(problem):
    (count,) = cells(problem, "counter", [0])
    height, columns = shape(problem, "x")
    table = cells(problem, "out_coords", np.arange(2 * min(int(count), 64))).reshape(-1, 2)
    found = np.flatnonzero(cells(problem, "x", np.arange(4 * 64)))[: len(table)]
    expected = np.stack(np.unravel_index(found, (height, columns)), 1)
    return "" if np.array_equal(table[: len(found)], expected) else "out_coords is not the first nonzero elements'"


def check_one_hot(problem):
    src, (n,) = problem.indices["src"], shape(problem, "out")
    classes = problem.bench.scalars["num_classes"]
    positions = np.append(sample_indices(problem, n), src[0])
    return same(problem, "out", positions, np.where(src[positions // classes] == positions % classes, 1.0, 0.0))


def torch_nonzero(torch, t, scalars):
    return lambda: torch.nonzero(t["x"])


def numpy_nonzero(a, scalars):
    return lambda: np.argwhere(a["x"])


def torch_one_hot(torch, t, scalars):
    classes = scalars["num_classes"]
    out, src = t["out"].view(-1, classes), t["src"].view(-1, 1)
    return lambda: out.zero_().scatter_(1, src, 1.0)


def numpy_one_hot(a, scalars):
    out, rows = a["out"].reshape(-1, scalars["num_classes"]), np.arange(len(a["src"]))

    def peer():
        out[...] = 0
        out[rows, a["src"]] = 1

    return peer


def coordinates(backend, of):
    height, columns = (2**14, 2**12) if backend == "cuda" else (2**12, 2**12)
    yield Bench(
        name="nonzero", row="nonzero{I}_{T}", dtypes=("f32",), index="i64", check=check_nonzero, bounds=of(0.70),
        arrays={"out_coords": Operand((height * columns, 2)), "counter": Operand((1,)),
                "x": Operand((height, columns), "flags")},
        scalars={"numel": height * columns, "max_nz": height * columns, "shape": (height, columns)}, workspace=True,
        bytes=lambda size, _: height * columns * (size + 8),  # half of the elements are set
        torch=(torch_nonzero,), numpy=(numpy_nonzero,),
    )  # fmt: skip
    for classes in (10, 1000):
        n = (2**26 if backend == "cuda" else 2**24) // classes
        yield Bench(
            name=f"one_hot {classes}", row="one_hot{I}_{T}", dtypes=("f32",), index="i64", check=check_one_hot,
            bounds=of(0.75), scalars={"out_numel": n * classes, "num_classes": classes},
            arrays={"src": Operand((n,), at_random((n,), classes)), "out": Operand((n * classes,))},
            torch=(torch_one_hot,), numpy=(numpy_one_hot,),
        )  # fmt: skip


UNMEASURED = {
    f"{name}_{{T}}_strided": "the pointwise skeleton's loops, which the strided ops of elementwise measure"
    for name in ("masked_fill", "masked_fill_backward")
} | {
    "masked_fill_{T} halves": "the loop of masked_fill, of one element a vector",
    "masked_fill_{T}_strided halves": "the pointwise skeleton's loops, which the strided ops of elementwise measure",
}


def benches(backend):
    def of(copy):
        return (Bound("copy", copy) if backend == "cuda" else Bound("peer", 1.0),)

    for family in (along_axis, whole_rows, flat, masked, coordinates):
        yield from family(backend, of)
