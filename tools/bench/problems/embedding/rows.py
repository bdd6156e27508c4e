# SPDX-License-Identifier: Apache-2.0
"""Rows of embeddings, maxima of bags, and the gradients of their tables."""

import dataclasses

import numpy as np

from tools.bench.check import compare, rows, sample_indices, sums
from tools.bench.problems.embedding.bags import LENGTH, distinct, one_hot_row, uniform, zipf
from tools.bench.record import Bench, Bound, Operand
from tools.oracle.numerics import itemsize


def torch_rows(torch, t, scalars):
    return lambda: torch.nn.functional.embedding(t["indices"], t["weight"])


def torch_rows_into(torch, t, scalars):
    return lambda: torch.index_select(t["weight"], 0, t["indices"], out=t["out"])


def torch_rows_backward(torch, t, scalars):
    backward, count = torch.ops.aten.embedding_dense_backward, scalars["num_embeddings"]
    return lambda: backward(t["dout"], t["indices"], count, -1, False)


def torch_rows_by_frequency(torch, t, scalars):
    backward, count = torch.ops.aten.embedding_dense_backward, scalars["num_embeddings"]
    return lambda: backward(t["dout"], t["indices"], count, -1, True)


def torch_bag_max(torch, t, scalars):
    function = torch.nn.functional.embedding_bag
    return lambda: function(t["indices"], t["weight"], t["offsets"], mode="max")


def torch_bag_max_backward(torch, t, scalars):
    index = t["out_index"].long()
    return lambda: t["dweight"].scatter_add_(0, index, t["dout"])


def numpy_rows(a, scalars):
    return lambda: np.take(a["weight"], a["indices"], axis=0, out=a["out"])


def numpy_rows_backward(a, scalars):
    return lambda: np.add.at(a["dweight"], a["indices"], a["dout"])


def check_rows(problem):
    indices = problem.indices["indices"]
    chosen = sample_indices(problem, len(indices))
    got, expected = rows(problem, "out", chosen), rows(problem, "weight", indices[chosen])
    return "" if np.array_equal(got, expected) else "out differs from the rows of weight"


def check_rows_backward(problem):
    indices, count = problem.indices["indices"], problem.bench.scalars["num_embeddings"]
    counts = np.bincount(indices, minlength=count)
    chosen = np.concatenate((sample_indices(problem, count), indices[:16], [np.argmax(counts)]))
    return sums(problem, "dweight", "dout", chosen, counts, lambda row: (np.flatnonzero(indices == row), 1.0))


def check_rows_by_frequency(problem):
    indices, count = problem.indices["indices"], problem.bench.scalars["num_embeddings"]
    counts = np.bincount(indices, minlength=count)
    chosen = np.concatenate((sample_indices(problem, count), indices[:16], [np.argmax(counts)]))
    shares = 1 / np.maximum(counts, 1)
    return sums(problem, "dweight", "dout", chosen, counts, lambda row: (np.flatnonzero(indices == row), shares[row]))


def check_bag_max(problem):
    indices = problem.indices["indices"]
    for bag in sample_indices(problem, len(problem.indices["offsets"])):
        x = rows(problem, "weight", indices[bag * LENGTH : (bag + 1) * LENGTH])
        if not np.array_equal(rows(problem, "out", [bag])[0], x.max(0)):
            return f"out[{bag}] differs from the greatest of its rows"
    return ""


def check_bag_max_backward(problem):
    index = problem.indices["out_index"]
    for row in sample_indices(problem, problem.bench.scalars["num_embeddings"]):
        bags, columns = np.nonzero(index == row)
        total = np.zeros((2, index.shape[1]))
        values = rows(problem, "dout", bags).astype(np.float64)[np.arange(len(bags)), columns] if len(bags) else 0.0
        np.add.at(total[0], columns, values)
        np.add.at(total[1], columns, np.abs(values))
        got = rows(problem, "dweight", [row])[0]
        if wrong := compare(problem, got, total[0], total[1], problem.dtype if not problem.bench.workspace else "f32"):
            return f"dweight[{row}] {wrong}"
    return ""


def by_rows(backend, name, spread, bound, *, times=2, **given):
    """Traffic of the gradient: dweight once for zeroing, touched rows read and written. `times`: indices per row."""
    count, dim = (2**20, 128) if backend == "cuda" else (2**16, 128)
    n = times * count
    is_backward, index = "backward" in name, "i32" if backend == "cuda" else "i64"  # of PyTorch
    arrays = {"indices": Operand((n,), lambda rng: spread(rng, n, count))}
    if is_backward:
        arrays |= {"dout": Operand((n, dim), "sixteenths"), "dweight": Operand((count, dim), 0.0)}
    else:
        arrays |= {"weight": Operand((count, dim), "sixteenths"), "out": Operand((n, dim))}

    def size(width, indices):
        found = np.unique(indices["indices"]).size
        return (n + count + 2 * found if is_backward else n + found) * dim * width + n * itemsize(index)

    return Bench(
        name=name, row=f"embedding{'_backward' if is_backward else ''}{{I}}_{{T}}", dtypes=("f32", "bf16"), index=index,
        arrays=arrays, bytes=size, check=check_rows_backward if is_backward else check_rows,
        scalars={"num_indices": n, "num_embeddings": count, "embedding_dim": dim, "padding_idx": -1},
        bounds=bound, **given,
    )  # fmt: skip


def torch_renorm(torch, t, scalars):
    copy = t["weight"].clone()
    return lambda: torch.embedding_renorm_(copy, t["indices"], scalars["max_norm"], scalars["norm_type"])


def check_renorm(problem):
    """Renorm of rows with elements in [-4, 4]; some norms exceed the bound."""
    indices, count = problem.indices["indices"], problem.bench.scalars["num_embeddings"]
    chosen = np.concatenate((sample_indices(problem, count), indices[:16]))
    x, got = rows(problem, "weight", chosen).astype(np.float64), rows(problem, "out", chosen).astype(np.float64)
    norms = np.sqrt((x * x).sum(1))
    bound = problem.bench.scalars["max_norm"]
    cut = np.isin(chosen, indices) & (norms > bound)
    expected = np.where(cut[:, None], x * (bound / (norms + 1e-7))[:, None], x)
    wrong = np.abs(got - expected).max() > (1e-2 if problem.dtype == "bf16" else 1e-5) * np.abs(expected).max()
    return "out differs from the rows of weight, cut to max_norm" if wrong else ""


def renorm(backend):
    bench = by_rows(backend, "embedding_renorm", uniform, (), torch=(torch_renorm,), workspace=True)
    count, dim, n = (bench.scalars[name] for name in ("num_embeddings", "embedding_dim", "num_indices"))
    return dataclasses.replace(
        bench, row="embedding_renorm{I}_{T}", check=check_renorm, bounds=(Bound("peer", 1.0),),
        scalars={"num_indices": n, "num_embeddings": count, "embedding_dim": dim, "max_norm": 20.0, "norm_type": 2.0},
        arrays=bench.arrays | {"out": Operand((count, dim))},
        bytes=lambda width, indices: 2 * (count + np.unique(indices["indices"]).size) * dim * width,
    )  # fmt: skip


def by_frequency(backend, s, spread):
    """Measured with a workspace only: without one the indices are read again and again."""
    gpu, name = backend == "cuda", f"embedding_dense_backward by frequency, {s}"
    bench = by_rows(
        backend, name, spread, (Bound("peer", 4.0 if gpu else 1.0),), torch=(torch_rows_by_frequency,),
        zeroed=("dweight",), workspace=True,
    )  # fmt: skip
    return dataclasses.replace(
        bench, row="embedding_dense_backward{I}_{T}", check=check_rows_by_frequency,
        scalars=bench.scalars | {"scale_grad_by_freq": 1},
    )  # fmt: skip


def torch_sparse_rows(torch, t, scalars):
    """PyTorch's sparse gradient has a row per index; optimisers coalesce it."""
    size = (scalars["num_embeddings"], scalars["embedding_dim"])
    return lambda: torch.sparse_coo_tensor(t["indices"][None], t["dout"], size).coalesce()


def check_sparse_rows(problem):
    indices = problem.indices["indices"]
    found, counts = np.unique(indices, return_counts=True)
    (count,) = problem.data.cells(problem.buffers["count"], np.arange(1))
    if count != len(found):
        return f"count is {count}, must be {len(found)}"
    slots = np.unique(np.concatenate((sample_indices(problem, len(found)), [0, len(found) - 1, np.argmax(counts)])))
    if not np.array_equal(problem.data.cells(problem.buffers["rows"], slots), found[slots]):
        return "rows are not those that indices name"
    return sums(problem, "values", "dout", slots, counts, lambda slot: (np.flatnonzero(indices == found[slot]), 1.0))


def sparse_rows(backend, s, spread):
    """Traffic: reads a row of dout and writes a row of values per index."""
    gpu, name = backend == "cuda", f"embedding_sparse_backward {s}"
    bench = by_rows(backend, name, spread, (Bound("peer", 1.0),), torch=(torch_sparse_rows,), workspace=True)
    (n, dim), index = bench.arrays["dout"].shape, "i32" if gpu else "i64"
    arrays = {key: bench.arrays[key] for key in ("indices", "dout")}
    return dataclasses.replace(
        bench, row="embedding_sparse_backward{I}_{T}", check=check_sparse_rows,
        arrays=arrays | {"rows": Operand((n,)), "values": Operand((n, dim)), "count": Operand((1,))},
        scalars=bench.scalars | {"scale_grad_by_freq": 0},
        bytes=lambda width, indices: 2 * n * (dim * width + itemsize(index)),
    )  # fmt: skip


def bag_max(backend):
    count, dim, bags = (2**20, 128, 2**16) if backend == "cuda" else (2**16, 128, 2**12)
    total = bags * LENGTH
    arrays = {
        "indices": Operand((total,), lambda rng: uniform(rng, total, count)),
        "offsets": Operand((bags,), lambda rng: np.arange(bags) * LENGTH),
        "weight": Operand((count, dim), "sixteenths"), "out": Operand((bags, dim)), "out_index": Operand((bags, dim)),
    }  # fmt: skip
    scalars = {"total_indices": total, "num_embeddings": count, "embedding_dim": dim, "num_bags": bags}
    return Bench(
        name="embedding_bag_max", row="embedding_bag_max{I}{O}_{T}", dtypes=("f32", "bf16"), index="i32", arrays=arrays,
        scalars=scalars | {"padding_idx": -1}, check=check_bag_max, torch=(torch_bag_max,),
        bytes=lambda width, indices: (total + bags) * dim * width + bags * dim * 4 + (total + bags) * 4,
        bounds=(Bound("peer", 1.0),),
    )  # fmt: skip


def bag_max_backward(backend, how):
    count, dim, bags = (2**18, 128, 2**18) if backend == "cuda" else (2**13, 128, 2**13)
    arrays = {
        "out_index": Operand((bags, dim), lambda rng: rng.integers(0, count, (bags, dim))),
        "dout": Operand((bags, dim), "sixteenths"), "dweight": Operand((count, dim), 0.0),
    }  # fmt: skip
    return Bench(
        name=f"embedding_bag_max_backward{how}", row="embedding_bag_max_backward{I}_{T}", dtypes=("f32", "bf16"),
        index="i32", arrays=arrays, scalars={"num_embeddings": count, "embedding_dim": dim, "num_bags": bags},
        workspace=bool(how), check=check_bag_max_backward, torch=(torch_bag_max_backward,), zeroed=("dweight",),
        bounds=(),
    )  # fmt: skip


def benches(backend):
    gpu = backend == "cuda"
    floor = (Bound("copy", 0.80),) if gpu else (Bound("peer", 1.0),)
    for s, spread in (("uniform", uniform), ("zipf", zipf)):
        yield by_rows(
            backend, f"embedding {s}", spread, floor, torch=(torch_rows, torch_rows_into), numpy=(numpy_rows,)
        )
    for how in ("", " deterministic"):
        also = {"torch": (torch_rows_backward,), "numpy": (numpy_rows_backward,), "zeroed": ("dweight",)}
        also["workspace"] = bool(how)
        for s, spread in (("uniform", uniform), ("zipf", zipf)):
            name = f"embedding_backward {s}"
            bounds = (Bound("peer", 4.0 if gpu else 1.0),)
            near = (Bound("times", 1.5, name),) if gpu and how else ()
            yield by_rows(backend, name + how, spread, bounds + near, **also)
        name = "embedding_backward one hot row"
        hot = (Bound("times", 2.0, "embedding_backward uniform"),) if gpu else ()
        yield by_rows(backend, name + how, one_hot_row, hot, **also)
        yield by_rows(backend, f"embedding_backward distinct{how}", distinct, hot, times=1, **also)
    for s, spread in (("uniform", uniform), ("zipf", zipf)):
        yield by_frequency(backend, s, spread)
        yield sparse_rows(backend, s, spread)
    yield renorm(backend)
    yield bag_max(backend)
    for how in ("", " deterministic"):
        yield bag_max_backward(backend, how)
