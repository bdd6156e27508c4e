# SPDX-License-Identifier: Apache-2.0
"""Regions and boxes of a detector: 1000 regions of a feature map of 256 channels, suppression of 10,000 boxes.

PyTorch has no such ops; its peers are formulas that users write: grid_sample for RoIAlign, broadcasting for overlaps.
"""

import functools

import numpy as np

from tools.bench.check import cells, compare, rows, same, sample_indices
from tools.bench.record import Bench, Bound, Operand, Sweep

UNMEASURED = {"roi_pool_backward_{T}": "a scatter by argmax of a superseded op"}
POOLED = (7, 7)


@functools.cache
def regions(batch, height, width, count):
    """Rows (image, x1, y1, x2, y2) in cells of the map."""
    rng = np.random.default_rng(3)
    corner = rng.random((count, 2)) * (width * 0.8, height * 0.8)
    size = np.exp(rng.normal(2.2, 0.7, (count, 2)))
    return np.round(np.concatenate([rng.integers(0, batch, (count, 1)), corner, corner + size], 1) * 8) / 8


@functools.cache
def candidates(count):
    """Boxes in clusters, as a detector gives them, and distinct scores in falling order."""
    rng = np.random.default_rng(5)
    centre = rng.random((max(count // 20, 1), 2)) * 1000
    boxes = centre[rng.integers(0, len(centre), count)] + rng.normal(0, 4, (count, 2))
    size = np.exp(rng.normal(4, 0.4, (count, 2)))
    return np.round(np.concatenate([boxes - size / 2, boxes + size / 2], 1) * 8) / 8


def of_boxes(count):
    return Operand((count, 4), lambda rng: candidates(count))


def scores(count):
    return Operand((count,), lambda rng: np.random.default_rng(9).permutation(count) / 2**20)


def torch_align(torch, t, scalars):
    """Two samples a bin and axis by grid_sample, and their mean."""
    x, rois = t["input"], t["rois"]
    n, (height, width) = 2, x.shape[2:]
    steps = [(torch.arange(p * n, device=x.device, dtype=x.dtype) + 0.5) / (p * n) for p in POOLED]

    def call():
        y = rois[:, 2:3] + steps[0] * (rois[:, 4:5] - rois[:, 2:3])
        h = rois[:, 1:2] + steps[1] * (rois[:, 3:4] - rois[:, 1:2])
        grid = torch.stack(
            torch.broadcast_tensors((h[:, None] + 0.5) * 2 / width - 1, (y[:, :, None] + 0.5) * 2 / height - 1), -1
        )
        whole = torch.nn.functional.grid_sample(x.expand(len(rois), -1, -1, -1), grid, align_corners=False)
        return torch.nn.functional.avg_pool2d(whole, n)

    return call


def finite(problem, name):
    found = cells(problem, name, sample_indices(problem, int(np.prod(problem.bench.arrays[name].shape))))
    return "" if np.isfinite(found).all() else f"{name} has values that are not finite"


def check_pool(problem):
    """Maxima are the elements that argmax names."""
    shape = problem.bench.arrays["output"].shape
    at = sample_indices(problem, int(np.prod(shape)))
    region, channel = at // int(np.prod(shape[1:])), at // int(np.prod(shape[2:])) % shape[1]
    _, channels, height, width = problem.bench.arrays["input"].shape
    found, image = cells(problem, "argmax", at), regions_of(problem)[region, 0].astype(int)
    there = (image * channels + channel) * height * width + np.maximum(found, 0)
    want = np.where(found < 0, 0, cells(problem, "input", there))
    return "" if np.array_equal(want, cells(problem, "output", at)) else "maxima are not those at argmax"


def regions_of(problem):
    return problem.bench.arrays["rois"].fill(None)


def torch_iou(torch, t, scalars):
    def call():
        a, b = t["boxes1"], t["boxes2"]
        areas = [(each[:, 2] - each[:, 0]) * (each[:, 3] - each[:, 1]) for each in (a, b)]
        sides = (torch.minimum(a[:, None, 2:], b[:, 2:]) - torch.maximum(a[:, None, :2], b[:, :2])).clamp(min=0)
        common = sides[..., 0] * sides[..., 1]
        return common / (areas[0][:, None] + areas[1] - common)

    return call


def check_iou(problem):
    a, b = (problem.bench.arrays[name].fill(None) for name in ("boxes1", "boxes2"))
    for i, j in zip(sample_indices(problem, len(a), 4), sample_indices(problem, len(b), 4)):
        sides = np.maximum(np.minimum(a[i, 2:], b[j, 2:]) - np.maximum(a[i, :2], b[j, :2]), 0)
        areas = [np.prod(each[2:] - each[:2]) for each in (a[i], b[j])]
        want = np.prod(sides) / (sum(areas) - np.prod(sides))
        if wrong := compare(problem, rows(problem, "iou", [i])[0][j], want, 16.0):
            return f"iou[{i}, {j}] {wrong}"
    return ""


def check_batched(problem):
    """The best box is kept, and what is kept is distinct."""
    given = problem.bench.arrays["scores"].fill(None)
    kept = int(cells(problem, "count", [0])[0])
    found = cells(problem, "indices", np.arange(kept))
    if len(np.unique(found)) != kept:
        return f"{kept} indices are not distinct"
    return same(problem, "indices", [0], np.array([np.argmax(given)]))


def check_mask(problem):
    mask = cells(problem, "keep_mask", np.arange(problem.bench.scalars["num_boxes"]))
    return same(problem, "count_out", [0], np.array([mask.sum()]))


def align(batch, channels, height, width, count, dtypes):
    pooled = (count, channels, *POOLED)
    rois = Operand((count, 5), lambda rng: regions(batch, height, width, count))
    scalars = {"spatial_scale": 1.0, "sampling_ratio": 2, "aligned": 1}
    image = Operand((batch, channels, height, width), "normal")
    size = f"{count} of {batch} x {channels} x {height} x {width}"
    yield Bench(
        name=f"roi_align {size}", row="roi_align_{T}", dtypes=dtypes, scalars=scalars, bounds=(Bound("peer", 1.0),),
        torch=(torch_align,) if batch == 1 else (), check=lambda p: finite(p, "output"),
        arrays={"input": image, "rois": rois, "output": Operand(pooled)},
    )  # fmt: skip
    yield Bench(
        name=f"roi_align_backward {size}", row="roi_align_backward_{T}", dtypes=dtypes, scalars=scalars,
        check=lambda p: finite(p, "dinput"),
        arrays={"dout": Operand(pooled, "normal"), "rois": rois, "dinput": image},
    )  # fmt: skip


def batched(count, dtypes=("f32",)):
    return Bench(
        name=f"batched_nms {count}", row="batched_nms{I}_{T}", index="i32", dtypes=dtypes, workspace=True,
        check=check_batched, scalars={"num_boxes": count, "iou_thresh": 0.5},
        arrays={
            "boxes": of_boxes(count), "scores": scores(count),
            "classes": Operand((count,), lambda rng: np.arange(count) % 80), "indices": Operand((count,)),
            "count": Operand((1,)),
        },
    )  # fmt: skip


def benches(backend):
    on_gpu = backend == "cuda"
    yield from align(1, 256 if on_gpu else 16, 50, 68, 1000 if on_gpu else 64, ("f32",))
    if on_gpu:
        yield from align(2, 256, 200, 272, 1000, ("f32", "f16"))
    count, channels = (1000, 256) if on_gpu else (64, 16)
    yield Bench(
        name="roi_pool", row="roi_pool_{T}", dtypes=("f32",), scalars={"spatial_scale": 1.0}, check=check_pool,
        arrays={
            "input": Operand((1, channels, 50, 68), "normal"),
            "rois": Operand((count, 5), lambda rng: regions(1, 50, 68, count)),
            "output": Operand((count, channels, *POOLED)), "argmax": Operand((count, channels, *POOLED)),
        },
    )  # fmt: skip
    count = 10_000 if on_gpu else 1000
    yield Bench(
        name=f"nms {count}", row="nms_{T}", dtypes=("f32",), workspace=True, check=check_mask,
        scalars={"num_boxes": count, "iou_thresh": 0.5},
        arrays={"boxes": of_boxes(count), "keep_mask": Operand((count,)), "count_out": Operand((1,))},
    )  # fmt: skip
    yield batched(count)
    if on_gpu:
        yield batched(100_000, ("f32", "f16"))
    pairs = 4096 if on_gpu else 256
    yield Bench(
        name=f"box_iou {pairs}", row="box_iou_{T}", dtypes=("f32",), check=check_iou, torch=(torch_iou,),
        bounds=(Bound("copy", 0.8), Bound("peer", 1.0)),
        arrays={"boxes1": of_boxes(pairs), "boxes2": of_boxes(pairs), "iou": Operand((pairs, pairs))},
    )  # fmt: skip


def sweeps(backend):
    """Boxes, across panels."""
    counts = (100, 1000, 1024, 1025, 4096, 10_000, 30_000, 100_000) if backend == "cuda" else (100, 1000, 1025, 4000)
    yield Sweep(name="batched_nms", axis="boxes", points={n: batched(n) for n in counts})
