# SPDX-License-Identifier: Apache-2.0
"""RoIAlign, RoIPool, their gradients, non-maximum suppression, and intersection over union."""

import numpy as np

from tools.oracle.numerics import COMPUTE, round_to

from .model import Bad, Case, Expected, Idle, Problem

EXTENTS = ("batch", "channels", "height", "width", "num_rois", "pooled_h", "pooled_w")
# batch, channels, height, width, regions, pooled_h, pooled_w
SHAPES = {
    "one": (1, 1, 1, 1, 1, 1, 1), "plain": (2, 3, 9, 11, 5, 3, 2), "square": (1, 5, 16, 16, 7, 7, 7),
    "exact": (1, 5, 16, 16, 7, 4, 8), "channels": (2, 70, 6, 5, 3, 2, 2),
    "wide": (1, 2, 5, 70, 4, 1, 5), "tall": (1, 2, 61, 4, 4, 6, 1),
    "many": (3, 2, 20, 20, 230, 2, 3), "no_images": (0, 2, 5, 4, 19, 2, 2),
    "no_regions_of_an_image": (7, 1, 4, 4, 2, 2, 2),
    "no_cells": (2, 3, 0, 4, 3, 2, 2), "large": (2, 9, 33, 47, 40, 7, 7),
}  # fmt: skip


# --- regions ----------------------------------------------------------------------------------------------------------


def regions(draw, shape, kind="normal"):
    """Rows (image, x1, y1, x2, y2) in quarters of a cell; some images do not exist, some boxes lie outside."""
    batch, _, height, width, count = shape[:5]
    corner = draw.rng.integers(-8, [4 * width + 8, 4 * height + 8], (count, 2)) / 4
    size = draw.rng.integers(0, [4 * width + 2, 4 * height + 2], (count, 2)) / 4
    image = draw.rng.integers(0, max(batch, 1), (count, 1)).astype(float)
    if kind == "strays" or batch == 0:
        image = draw.rng.choice([-1.0, -0.5, batch, 0.75, np.nan, np.inf, -3e4], (count, 1))
    if kind == "inverted":
        size = -size
    found = np.concatenate([image, corner, corner + size], 1)
    if kind == "special":
        strange = draw.rng.choice([np.nan, np.inf, -np.inf, 3e4, -3e4], found.shape)
        found = np.where(draw.rng.random(found.shape) < 0.2, strange, found)
        found[:, 0] = image[:, 0]
    return draw.array(round_to(found, draw.dtype))


def results(shape):
    return (shape[4], shape[1], *shape[5:])


def align(draw, shape, kind="normal", scale=0.5, ratio=2, aligned=0, values="normal", gradient=False):
    image = draw.floats(shape[:4], values)
    pooled = draw.floats(results(shape), values) if gradient else draw.output(results(shape))
    arrays = {"dout": pooled} if gradient else {"input": image}
    arrays |= {"rois": regions(draw, shape, kind)}
    arrays |= {"dinput": image} if gradient else {"output": pooled}
    scalars = dict(zip(EXTENTS, shape)) | {"spatial_scale": scale, "sampling_ratio": ratio, "aligned": aligned}
    return Problem(scalars, arrays)


def image_of(index, batch):
    return int(index) if -1 < index < batch and batch else -1


def axis_samples(low, high, scale, aligned, pooled, ratio, extent):
    """The taps of the samples of each bin of an axis: (low cell, weight of the cell above); and their number."""
    start, end = low * scale - 0.5 * aligned, high * scale - 0.5 * aligned
    with np.errstate(invalid="ignore"):
        size = end - start if aligned or not end - start < 1 else 1.0
    if not (np.isfinite(start) and np.isfinite(size)):
        return [[] for _ in range(pooled)], 1.0, 0.0
    step = size / pooled
    count = ratio if ratio > 0 else max(int(np.ceil(step)), 1)
    bins = []
    for p in range(pooled):
        taps = []
        for i in range(count):
            at = start + p * step + (i + 0.5) * step / count
            if extent and -1 <= at <= extent:
                at = max(at, 0.0)
                cell = min(int(at), extent - 1)
                taps.append((cell, 0.0 if cell == extent - 1 else at - cell))
        bins.append(taps)
    return bins, count, abs(start) + abs(size) + 1


def axis_weights(bins, extent):
    """[pooled, extent]: the weight of each cell in each bin, and how far an error of the position moves it."""
    weights, moved = np.zeros((len(bins), extent)), np.zeros((len(bins), extent))
    for p, taps in enumerate(bins):
        for cell, upper in taps:
            weights[p, cell] += 1 - upper
            if upper:
                weights[p, cell + 1] += upper
            moved[p, max(cell - 1, 0) : cell + 3] += 1
    return weights, moved


def of_region(problem, roi):
    """Weights of both axes, divided by the samples, and their uncertainty in units of a rounding."""
    s = problem.scalars
    (rows, along_y, far_y), (columns, along_x, far_x) = (
        axis_samples(roi[2 - a], roi[4 - a], np.float64(np.float32(s["spatial_scale"])), s["aligned"], s[pooled],
                     s["sampling_ratio"], s[extent])
        for a, pooled, extent in ((0, "pooled_h", "height"), (1, "pooled_w", "width"))
    )  # fmt: skip
    (y, y_moved), (x, x_moved) = axis_weights(rows, s["height"]), axis_weights(columns, s["width"])
    count = along_y * along_x
    unsure = far_y * y_moved[:, None, :, None] * (x + x_moved)[None, :, None] + far_x * (
        (y + y_moved)[:, None, :, None] * x_moved[None, :, None]
    )
    return y[:, None, :, None] * x[None, :, None] / count, unsure / count, int(count)


def align_reference(problem):
    s, rois = problem.scalars, problem.arrays["rois"].values
    images = problem.arrays["input"].values
    value = np.zeros(problem.arrays["output"].shape)
    size, most = np.zeros(value.shape), 1
    for r, roi in enumerate(rois):
        image = image_of(roi[0], s["batch"])
        if image < 0:
            continue
        weights, unsure, count = of_region(problem, roi)
        value[r] = np.einsum("pqyx,cyx->cpq", weights, images[image])
        size[r] = np.einsum("pqyx,cyx->cpq", weights + unsure, np.abs(images[image]))
        most = max(most, 4 * count)
    return {"output": Expected(value, count=most, magnitude=size)}


def align_backward_reference(problem):
    s, rois = problem.scalars, problem.arrays["rois"].values
    dout, value = problem.arrays["dout"].values, problem.arrays["dinput"].values.copy()
    size = np.abs(value)
    touched = np.zeros(value.shape, bool)
    for r, roi in enumerate(rois):
        image = image_of(roi[0], s["batch"])
        if image < 0:
            continue
        weights, unsure, _ = of_region(problem, roi)
        value[image] += np.einsum("pqyx,cpq->cyx", weights, dout[r])
        size[image] += np.einsum("pqyx,cpq->cyx", weights + unsure, np.abs(dout[r]))
        touched[image] |= (weights + unsure).sum((0, 1)) > 0
    count = s["num_rois"] * s["pooled_h"] * s["pooled_w"]
    return {"dinput": Expected(value, count=np.where(touched, count, 0), magnitude=np.where(touched, size, 0))}


def align_problems(gradient=False):
    def of(name, **options):
        return lambda d: align(d, SHAPES[name], gradient=gradient, **options)

    return {name: of(name) for name in SHAPES} | {
        "aligned": of("plain", aligned=1), "adaptive": of("square", ratio=0),
        "adaptive_aligned": of("tall", ratio=-1, aligned=1),
        "inverted": of("exact", kind="inverted", aligned=1), "strays": of("many", kind="strays"),
        "special": of("many", kind="special"), "special_adaptive": of("square", kind="special", ratio=0, aligned=1),
        "scaled": of("plain", scale=0.3, ratio=0), "many_samples": of("plain", ratio=70, scale=2.0),
        "uncached": of("square", ratio=130),
    }  # fmt: skip


def half_away(x):
    return np.copysign(np.floor(np.abs(x) + x.dtype.type(0.5)), x)


def pool(draw, shape, kind="normal", scale=0.5, values="normal"):
    arrays = {
        "input": draw.floats(shape[:4], values), "rois": regions(draw, shape, kind),
        "output": draw.output(results(shape)), "argmax": draw.output(results(shape), dtype="i32"),
    }  # fmt: skip
    return Problem(dict(zip(EXTENTS, shape)) | {"spatial_scale": scale}, arrays)


def pool_bins(low, high, scale, pooled, extent, real):
    """(begin, end) of each bin of an axis, in the arithmetic of the op: corners of bins are rounded to cells."""
    start, end = half_away(real(low) * real(scale)), half_away(real(high) * real(scale))
    size = end - start + real(1)
    if not (np.isfinite(start) and np.isfinite(size)):
        return [(0, 0)] * pooled
    size = max(size, real(1))
    step = size / real(pooled)
    cut = [
        np.clip([np.floor(real(p) * step) + start, np.ceil(real(p + 1) * step) + start], 0, extent)
        for p in range(pooled)
    ]
    return [(int(a), int(b)) for a, b in cut]


def pool_reference(problem):
    s, x, rois = problem.scalars, problem.arrays["input"].values, problem.arrays["rois"].values
    real = np.float64 if COMPUTE[problem.arrays["input"].dtype] == "f64" else np.float32
    output, argmax = np.zeros(problem.arrays["output"].shape), np.full(problem.arrays["output"].shape, -1)
    with np.errstate(invalid="ignore", over="ignore"):
        for r, roi in enumerate(rois):
            image = image_of(roi[0], s["batch"])
            if image < 0:
                continue
            rows = pool_bins(roi[2], roi[4], np.float32(s["spatial_scale"]), s["pooled_h"], s["height"], real)
            columns = pool_bins(roi[1], roi[3], np.float32(s["spatial_scale"]), s["pooled_w"], s["width"], real)
            for p, (top, bottom) in enumerate(rows):
                for q, (left, right) in enumerate(columns):
                    if top >= bottom or left >= right:
                        continue
                    window = x[image, :, top:bottom, left:right].reshape(s["channels"], -1)
                    best = np.argmax(window, 1)  # the first maximum, or NaN
                    output[r, :, p, q] = window[np.arange(len(best)), best]
                    argmax[r, :, p, q] = (top + best // (right - left)) * s["width"] + left + best % (right - left)
    return {"output": Expected(output), "argmax": Expected(argmax)}


def pool_backward(draw, shape, kind="normal", strays=False):
    """argmax of few cells, so that many bins have one."""
    cells = max(shape[2] * shape[3], 1)
    argmax = draw.rng.integers(0, min(cells, 6), results(shape)) * (cells // min(cells, 6))
    if strays:
        none = draw.rng.choice([-1, cells, 2**31 - 1, -(2**31)], argmax.shape)
        argmax = np.where(draw.rng.random(argmax.shape) < 0.3, none, argmax)
    arrays = {
        "dout": draw.floats(results(shape)), "rois": regions(draw, shape, kind),
        "argmax": draw.array(argmax, "i32"), "dinput": draw.floats(shape[:4]),
    }  # fmt: skip
    return Problem(dict(zip(EXTENTS, shape)), arrays)


def pool_backward_reference(problem):
    s, a = problem.scalars, {name: each.values for name, each in problem.arrays.items()}
    cells = s["height"] * s["width"]
    value = a["dinput"].reshape(s["batch"], s["channels"], cells).copy()
    size, count = np.abs(value), np.zeros(value.shape)
    for r, roi in enumerate(a["rois"]):
        image = image_of(roi[0], s["batch"])
        for c in range(s["channels"]) if image >= 0 else ():
            for g, at in zip(a["dout"][r, c].reshape(-1), a["argmax"][r, c].reshape(-1)):
                if 0 <= at < cells:
                    value[image, c, at] += g
                    size[image, c, at] += abs(g)
                    count[image, c, at] += 1
    shape = problem.arrays["dinput"].shape
    summed = np.where(count > 0, count + 1, 0).reshape(shape)
    return {
        "dinput": Expected(value.reshape(shape), count=summed, magnitude=np.where(count > 0, size, 0).reshape(shape))
    }


# --- suppression ------------------------------------------------------------------------------------------------------


def boxes_of(draw, count, kind="normal"):
    centre, size = draw.rng.random((count, 2)) * 40, draw.rng.random((count, 2)) * 15
    if kind == "integers":  # ratios that are exactly the threshold
        centre, size = draw.rng.integers(0, 6, (2, count, 2)) * 1.0
    if kind == "one":
        centre, size = np.full((count, 2), 7.0), np.full((count, 2), 3.0)
    if kind == "chain":  # each overlaps its neighbours alone
        centre = np.stack([np.arange(count) % 30 * 1.0, np.arange(count) // 30 * 4.0], 1)
        size = np.full((count, 2), 2.0)
    if kind == "apart":
        centre, size = (
            np.stack([np.arange(count) % 50 * 4.0, np.arange(count) // 50 * 4.0], 1),
            np.full((count, 2), 1.0),
        )
    found = np.concatenate([centre - size / 2, centre + size / 2], 1)
    if kind == "special":
        strange = draw.rng.choice([np.nan, np.inf, -np.inf, 0.0, 3e4], found.shape)
        found = np.where(draw.rng.random(found.shape) < 0.1, strange, found)
    if kind == "inverted":
        found = np.where(draw.rng.random((count, 1)) < 0.3, found[:, [2, 1, 0, 3]], found)
    return draw.array(round_to(found, draw.dtype))


def overlaps(box, others, real):
    """Ratios of a box with others, in the arithmetic of the op."""
    a, b = box.astype(real), others.astype(real)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        areas = [(each[..., 2] - each[..., 0]) * (each[..., 3] - each[..., 1]) for each in (a, b)]
        low, high = (np.where(a[:2] > b[:, :2], a[:2], b[:, :2]), np.where(a[2:] < b[:, 2:], a[2:], b[:, 2:]))
        sides = high - low
        common = np.where((sides > 0).all(1), sides[:, 0] * sides[:, 1], real(0))
        joint = areas[0] + areas[1] - common
        return np.where(joint > 0, common / np.where(joint > 0, joint, 1), np.where(joint <= 0, real(0), joint))


def kept(boxes, threshold, dtype, classes=None):
    """A mask of boxes in falling order."""
    real = np.float64 if COMPUTE[dtype] == "f64" else np.float32
    mask = np.ones(len(boxes), bool)
    for i in range(len(boxes)):
        if mask[i]:
            same = classes is None or classes[i + 1 :] == classes[i]
            mask[i + 1 :] &= ~((overlaps(boxes[i], boxes[i + 1 :], real) > real(np.float32(threshold))) & same)
    return mask


def nms(draw, count, kind="normal", threshold=0.5):
    arrays = {
        "boxes": boxes_of(draw, count, kind), "keep_mask": draw.output((count,), dtype="u8"),
        "count_out": draw.output((1,), dtype="i32"),
    }  # fmt: skip
    return Problem({"num_boxes": count, "iou_thresh": threshold}, arrays)


def nms_reference(problem):
    boxes = problem.arrays["boxes"]
    mask = kept(boxes.values, problem.scalars["iou_thresh"], boxes.dtype)
    return {"keep_mask": Expected(mask.astype(np.int64)), "count_out": Expected(np.array([mask.sum()]))}


def batched(draw, count, kind="normal", threshold=0.5, classes=3, scores="normal"):
    given = draw.rng.permutation(count) / max(count, 1)
    if scores == "ties":
        given = draw.rng.integers(0, 4, count) / 4
    if scores == "special":
        given = np.where(
            draw.rng.random(count) < 0.4, draw.rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], count), given
        )
    low = -2 if draw.index == "i32" else -(2**40)
    arrays = {
        "boxes": boxes_of(draw, count, kind), "scores": draw.array(round_to(given, draw.dtype)),
        "classes": draw.indices(low + draw.rng.integers(0, max(classes, 1), count)),
        "indices": draw.output((count,), dtype="i64"), "count": draw.output((1,), dtype="i32"),
    }  # fmt: skip
    return Problem({"num_boxes": count, "iou_thresh": threshold}, arrays, null=() if classes else ("classes",))


def batched_reference(problem):
    boxes, scores = problem.arrays["boxes"], problem.arrays["scores"].values
    is_nan = np.isnan(scores)
    order = np.lexsort((-np.where(is_nan, 0, scores), ~is_nan))
    classes = None if "classes" in problem.null else problem.arrays["classes"].values[order]
    mask = kept(boxes.values[order], problem.scalars["iou_thresh"], boxes.dtype, classes)
    found = np.full(len(order), -1)
    found[: mask.sum()] = order[mask]
    return {"indices": Expected(found), "count": Expected(np.array([mask.sum()]))}


NMS = {
    "none": (0,), "one_box": (1,), "plain": (13,), "word": (32,), "past_a_word": (33, "integers"),
    "equal": (100, "one"), "chain": (200, "chain", 0.3), "apart": (300, "apart"), "integers": (400, "integers"),
    "inverted": (90, "inverted"), "special": (150, "special"), "negative": (70, "normal", -1.0),
    "above_all": (70, "one", 1.0), "low": (500, "normal", 0.05),
    "panel": (1024, "normal", 0.3), "past_a_panel": (1025,),
    "panels": (2500, "normal", 0.7), "large": (2100, "normal", 0.4),
}  # fmt: skip


def iou(draw, rows, columns, kind="normal"):
    arrays = {
        "boxes1": boxes_of(draw, rows, kind), "boxes2": boxes_of(draw, columns, kind),
        "iou": draw.output((rows, columns)),
    }  # fmt: skip
    return Problem({"rows": rows, "columns": columns}, arrays)


def iou_reference(problem):
    first, second = (problem.arrays[name].values for name in ("boxes1", "boxes2"))
    value = np.zeros(problem.arrays["iou"].shape)
    size = np.zeros(value.shape)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        area = (second[:, 2] - second[:, 0]) * (second[:, 3] - second[:, 1])
        for i, box in enumerate(first):
            value[i] = overlaps(box, second, np.float64)
            own = (box[2] - box[0]) * (box[3] - box[1])
            both = np.abs(own) + np.abs(area)
            joint = (own + area) / (1 + value[i])
            size[i] = value[i] * np.where(joint > 0, 2 * both / np.where(joint > 0, joint, 1), 0)
    return {"iou": Expected(value, count=10, magnitude=np.where(np.isfinite(size), size, 0))}


IOU = {
    "one": (1, 1), "plain": (5, 7), "row": (1, 1500), "column": (300, 1), "integers": (20, 30, "integers"),
    "special": (30, 40, "special"), "inverted": (20, 20, "inverted"), "large": (70, 1100),
}  # fmt: skip


def negative(*names):
    return tuple(Bad(f"negative_{n}", 2, rf"{n} is -3, must be >= 0", {n: -3}, can=2) for n in names)


def too_large(*names):
    return Bad("too_large", 2, r"batch is 2147483647", dict.fromkeys(names, 2**31 - 1), can=2)


NOTHING = tuple(Idle(f"no_{name}", {name: 0}) for name in ("channels", "num_rois", "pooled_h", "pooled_w"))
POOL_BAD = (
    *negative(*EXTENTS),
    Bad("plane", 3, r"height \* width is 4294967296, at most 2147483647", {"height": 2**16, "width": 2**16}, can=3),
)

CASES = (
    Case(
        row="roi_align_{T}", problems=align_problems(), reference=align_reference, tolerance={"output": "norm"},
        plain="plain", large="large", bad=negative(*EXTENTS), idle=NOTHING,
    ),
    Case(
        row="roi_align_backward_{T}", problems=align_problems(gradient=True), reference=align_backward_reference,
        tolerance={"dinput": "norm"}, plain="plain", large="large", bad=negative(*EXTENTS),
        idle=(*NOTHING, Idle("no_images", {"batch": 0}), Idle("no_rows", {"height": 0})),
    ),
    Case(
        row="roi_pool_{T}",
        problems={name: lambda d, s=s: pool(d, s) for name, s in SHAPES.items()}
        | {
            "strays": lambda d: pool(d, SHAPES["many"], "strays"),
            "special": lambda d: pool(d, SHAPES["many"], "special"),
            "inverted": lambda d: pool(d, SHAPES["square"], "inverted"),
            "scaled": lambda d: pool(d, SHAPES["plain"], scale=0.3),
            "values": lambda d: pool(d, SHAPES["square"], values="special", scale=1.0),
        },
        reference=pool_reference, tolerance={"output": "exact", "argmax": "exact"}, plain="plain", large="large",
        bad=POOL_BAD, idle=NOTHING,
    ),
    Case(
        row="roi_pool_backward_{T}",
        problems={name: lambda d, s=s: pool_backward(d, s) for name, s in SHAPES.items()}
        | {
            "strays": lambda d: pool_backward(d, SHAPES["many"], "strays"),
            "no_cell": lambda d: pool_backward(d, SHAPES["square"], strays=True),
            "tiles": lambda d: pool_backward(d, (1, 2, 50, 90, 9, 3, 3)),
        },
        reference=pool_backward_reference, tolerance={"dinput": "total"}, plain="plain", large="large", bad=POOL_BAD,
        idle=(*NOTHING, Idle("no_images", {"batch": 0}), Idle("no_rows", {"height": 0})),
    ),
    Case(
        row="nms_{T}", problems={name: lambda d, a=a: nms(d, *a) for name, a in NMS.items()}, reference=nms_reference,
        tolerance={"keep_mask": "exact", "count_out": "exact"}, plain="plain", large="large", bad=negative("num_boxes"),
        idle=(),
    ),
    Case(
        row="batched_nms{I}_{T}",
        problems={name: lambda d, a=a: batched(d, *a) for name, a in NMS.items()}
        | {
            "one_class": lambda d: batched(d, 120, classes=0), "ties": lambda d: batched(d, 300, scores="ties"),
            "scores": lambda d: batched(d, 200, scores="special"), "classes": lambda d: batched(d, 1500, classes=80),
            "class_each": lambda d: batched(d, 100, "one", classes=1000),
        },
        reference=batched_reference, tolerance={"indices": "exact", "count": "exact"}, plain="plain", large="large",
        bad=negative("num_boxes"), idle=(),
    ),
    Case(
        row="box_iou_{T}", problems={name: lambda d, a=a: iou(d, *a) for name, a in IOU.items()},
        reference=iou_reference, tolerance={"iou": "pointwise"}, plain="plain", large="large",
        bad=negative("rows", "columns"), idle=(Idle("no_rows", {"rows": 0}), Idle("no_columns", {"columns": 0})),
    ),
)  # fmt: skip
