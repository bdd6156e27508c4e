# SPDX-License-Identifier: Apache-2.0
"""Bags of embeddings and the gradient of their table."""

import dataclasses

import numpy as np

from tools.bench.check import compare, sample_indices, sums
from tools.bench.record import Bench, Bound, Operand

SUM, MEAN = 0, 1
LENGTH = 32  # indices per bag

UNMEASURED = {
    "embedding_bag_last_offset{I}{O}_{T}": "the kernels of embedding_bag",
    "embedding_bag_last_offset_backward{I}{O}_{T}": "the kernels of embedding_bag_backward",
    "embedding_bag_dense_backward{I}{O}_{T}": "the kernels of embedding_dense_backward and of weighted bags",
    "embedding_bag_sparse_backward{I}{O}_{T}": "the kernels of embedding_sparse_backward and of weighted bags",
    "embedding_bag_max_last_offset{I}{O}_{T}": "the kernels of embedding_bag_max",
}


def uniform(rng, total, rows):
    return rng.integers(0, rows, total)


def zipf(rng, total, rows):
    """Ranks by Zipf's law with exponent 1, rows in random order."""
    cumulated = np.cumsum(1 / np.arange(1, rows + 1))
    ranks = np.searchsorted(cumulated, rng.random(total) * cumulated[-1])
    return rng.permutation(rows)[np.minimum(ranks, rows - 1)]


def one_hot_row(rng, total, rows):
    return np.full(total, rows // 2)


def distinct(rng, total, rows):
    """No row twice, in random order; there are at least as many rows as indices."""
    return rng.permutation(rows)[:total]


def mode_name(scalars):
    return "mean" if scalars["mode"] == MEAN else "sum"


def torch_bag(torch, t, scalars):
    function = torch.nn.functional.embedding_bag
    return lambda: function(t["indices"], t["weight"], t["offsets"], mode=mode_name(scalars))


def torch_bag_backward(torch, t, scalars):
    weight = torch.zeros_like(t["dweight"], requires_grad=True)
    out = torch.nn.functional.embedding_bag(t["indices"], weight, t["offsets"], mode=mode_name(scalars))
    return lambda: torch.autograd.grad(out, weight, t["dout"], retain_graph=True)


def numpy_bag(a, scalars):
    lengths = np.diff(np.append(a["offsets"], scalars["total_indices"]))

    def peer():
        np.add.reduceat(a["weight"][a["indices"]], a["offsets"], axis=0, out=a["out"])
        if scalars["mode"] == MEAN:
            np.divide(a["out"], lengths[:, None], out=a["out"])

    return peer


def check(problem):
    indices, offsets = problem.indices["indices"], problem.indices["offsets"]
    ends = np.append(offsets[1:], len(indices))

    def summands(bag):
        chosen = indices[offsets[bag] : ends[bag]]
        return chosen, 1.0 / max(len(chosen), 1) if problem.bench.scalars.get("mode") else 1.0

    return sums(problem, "out", "weight", sample_indices(problem, len(offsets)), ends - offsets, summands)


def check_backward(problem):
    indices, offsets = problem.indices["indices"], problem.indices["offsets"]
    rows = problem.bench.scalars["num_embeddings"]
    counts = np.bincount(indices, minlength=rows)
    bag_of = np.repeat(np.arange(len(offsets)), LENGTH)
    scale = 1.0 / LENGTH if problem.bench.scalars.get("mode") else 1.0
    chosen = np.concatenate((sample_indices(problem, rows), indices[:16], [np.argmax(counts)]))
    return sums(problem, "dweight", "dout", chosen, counts, lambda row: (bag_of[np.flatnonzero(indices == row)], scale))


def made(backend, name, spread, mode, bound, **given):
    """Traffic: forward counts a row each time it is gathered; backward counts dweight once, for zeroing, and its
    touched rows once more, as did the measurements behind the bounds."""
    rows, dim, bags = (2**20, 128, 2**16) if backend == "cuda" else (2**16, 128, 2**12)
    total = bags * LENGTH
    is_backward = "backward" in name
    arrays = {
        "indices": Operand((total,), lambda rng: spread(rng, total, rows)),
        "offsets": Operand((bags,), lambda rng: np.arange(bags) * LENGTH),
    }
    if is_backward:
        arrays |= {"dout": Operand((bags, dim), "sixteenths"), "dweight": Operand((rows, dim), 0.0)}
    else:
        arrays |= {"weight": Operand((rows, dim), "sixteenths"), "out": Operand((bags, dim))}

    def size(width, indices):
        touched = rows + np.unique(indices["indices"]).size if is_backward else total
        return (touched + bags) * dim * width + (total + bags) * 4

    names = ("total_indices", "num_embeddings", "embedding_dim", "num_bags", "mode", "padding_idx")
    return Bench(
        name=name, row=f"embedding_bag{'_backward' if is_backward else ''}{{I}}{{O}}_{{T}}", dtypes=("f32", "bf16"),
        index="i32", arrays=arrays, scalars=dict(zip(names, (total, rows, dim, bags, mode, -1))), bytes=size,
        check=check_backward if is_backward else check, bounds=(Bound("peer", bound),), **given,
    )  # fmt: skip


def torch_weighted(torch, t, scalars):
    function = torch.nn.functional.embedding_bag
    return lambda: function(
        t["indices"], t["weight"], t["offsets"], mode="sum", per_sample_weights=t["per_sample_weights"]
    )


def of_scales(bench, name):
    """A weighted problem from an unweighted one: all weights are 1, so the same checks hold."""
    scalars = {k: v for k, v in bench.scalars.items() if k != "mode"} | {"include_last_offset": 0}
    total = scalars["total_indices"]
    return dataclasses.replace(
        bench, name=name, row=bench.row.replace("embedding_bag", "embedding_bag_weighted"), scalars=scalars,
        arrays=bench.arrays | {"per_sample_weights": Operand((total,), 1.0)},
    )  # fmt: skip


def check_scales(problem):
    indices, size = problem.indices["indices"], problem.bench.scalars["embedding_dim"]
    for k in sample_indices(problem, len(indices), 8):
        rows = [(problem.buffers["weight"], indices[k]), (problem.buffers["dout"], k // LENGTH)]
        x, y = (problem.data.cells(b, row * size + np.arange(size)).astype(np.float64) for b, row in rows)
        got = problem.data.cells(problem.buffers["dper_sample_weights"], np.array([k]))
        if wrong := compare(problem, got, np.array([(x * y).sum()]), np.array([np.abs(x * y).sum()]), "f32"):
            return f"dper_sample_weights[{k}] {wrong}"
    return ""


def weighted(backend):
    gpu = backend == "cuda"
    peer = (Bound("peer", 1.4 if gpu else 1.0),)
    bench = made(backend, "embedding_bag sum", uniform, SUM, 1.0, torch=(torch_weighted,))
    yield dataclasses.replace(of_scales(bench, "embedding_bag_weighted"), bounds=peer)
    for how in ("", " deterministic"):
        bench = made(backend, "embedding_bag_backward sum", uniform, SUM, 1.0, zeroed=("dweight",), workspace=bool(how))
        yield dataclasses.replace(of_scales(bench, f"embedding_bag_weighted_backward{how}"), bounds=())
    bench = of_scales(made(backend, "embedding_bag sum", uniform, SUM, 1.0), "embedding_bag_weights_backward")
    arrays = dict(bench.arrays)
    out, scales = arrays.pop("out"), arrays.pop("per_sample_weights")
    yield dataclasses.replace(
        bench, row="embedding_bag_weights_backward{I}{O}_{T}", check=check_scales, bounds=(Bound("copy", 0.5),) * gpu,
        arrays=arrays | {"dout": Operand(out.shape, "sixteenths"), "dper_sample_weights": Operand(scales.shape)},
    )  # fmt: skip


def benches(backend):
    yield from weighted(backend)
    gpu = backend == "cuda"
    spreads, modes = (("uniform", uniform), ("zipf", zipf)), (("sum", SUM), ("mean", MEAN))
    for s, spread in spreads:
        for m, mode in modes:
            name = f"embedding_bag {m} {s}"
            yield made(backend, name, spread, mode, 1.4 if gpu else 1.0, torch=(torch_bag,), numpy=(numpy_bag,))
    for how, bounds in (("", {"uniform": 3.0, "zipf": 2.5}), (" deterministic", {"uniform": 5.0, "zipf": 5.0})):
        also = {"torch": (torch_bag_backward,), "zeroed": ("dweight",), "workspace": bool(how)}
        for s, spread in spreads:
            for m, mode in modes:
                name, bound = f"embedding_bag_backward {m} {s}{how}", bounds[s] if gpu else 1.0
                yield made(backend, name, spread, mode, bound, **also)
                if (s, m) == ("uniform", "sum"):
                    name = name.replace("uniform", "one hot row")
                    yield dataclasses.replace(made(backend, name, one_hot_row, mode, bound, **also), bounds=())
