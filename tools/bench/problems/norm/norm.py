# SPDX-License-Identifier: Apache-2.0
"""RMS, layer, batch and group norm, and their gradients."""

import numpy as np

from tools.bench.check import compare, rows, sample_indices, shape
from tools.bench.record import COUNTS, LENGTHS, Bench, Bound, Operand, Sweep

EPS = 1e-5
OF_BATCH, OF_ITEM = 0, 1


def cells(problem, name, positions):
    return problem.data.cells(problem.buffers[name], np.asarray(positions))


# --- peers ----------------------------------------------------------------------------------------------------------


def torch_layer_norm(torch, t, scalars):
    n = t["x"].shape[-1:]
    return lambda: torch.nn.functional.layer_norm(t["x"], n, t["gamma"], t["beta"], EPS)


def torch_rms_norm(torch, t, scalars):
    n = t["x"].shape[-1:]
    return lambda: torch.nn.functional.rms_norm(t["x"], n, t["gamma"], EPS)


def torch_layer_norm_backward(torch, t, scalars):
    n, wide = t["x"].shape[-1:], torch.float64 if t["x"].dtype == torch.float64 else torch.float32
    mean, scale = t["mean_in"].to(wide), t["inv_std_in"].to(wide)
    backward = torch.ops.aten.native_layer_norm_backward
    return lambda: backward(t["dy"], t["x"], n, mean, scale, t["gamma"], t["gamma"], [True] * 3)


def torch_rms_norm_backward(torch, t, scalars):
    n, scale = t["x"].shape[-1:], 1 / t["rms"].float()
    backward = torch.ops.aten._fused_rms_norm_backward
    return lambda: backward(t["dy"], t["x"], n, scale, t["gamma"], [True] * 2)


def torch_rms_norm_autograd(torch, t, scalars):
    x, gamma = t["x"].detach().requires_grad_(), t["gamma"].detach().requires_grad_()
    y = torch.nn.functional.rms_norm(x, x.shape[-1:], gamma, EPS)
    return lambda: torch.autograd.grad(y, (x, gamma), t["dy"], retain_graph=True)


def torch_batch_norm(torch, t, scalars):
    return lambda: torch.nn.functional.batch_norm(t["x"], None, None, t["gamma"], t["beta"], True, 0.0, EPS)


def torch_group_norm(torch, t, scalars):
    return lambda: torch.nn.functional.group_norm(t["x"], scalars["num_groups"], t["gamma"], t["beta"], EPS)


def torch_batch_norm_backward(torch, t, scalars):
    mean, scale = t["saved_mean"].float(), t["saved_rstd"].float()
    gamma, backward = t["gamma"].float(), torch.ops.aten.native_batch_norm_backward
    return lambda: backward(t["dy"], t["x"], gamma, None, None, mean, scale, True, EPS, [True] * 3)


def torch_group_norm_backward(torch, t, scalars):
    n, c, s = t["x"].shape
    groups, backward = scalars["num_groups"], torch.ops.aten.native_group_norm_backward
    mean, scale = t["saved_mean"].reshape(n, groups), t["saved_rstd"].reshape(n, groups)
    return lambda: backward(t["dy"], t["x"], mean, scale, t["gamma"], n, c, s, groups, [True] * 3)


# --- samples --------------------------------------------------------------------------------------------------------


def check_rows(problem):
    count, n = shape(problem, "x")
    chosen = sample_indices(problem, count)
    x, centered = rows(problem, "x", chosen), "beta" in problem.buffers
    gamma = cells(problem, "gamma", range(n))
    beta = cells(problem, "beta", range(n)) if centered else 0.0
    mean = x.mean(1, keepdims=True) if centered else 0.0
    expected = (x - mean) / np.sqrt(np.square(x - mean).mean(1, keepdims=True) + EPS) * gamma + beta
    return compare(problem, rows(problem, "y", chosen), expected, 8 * (np.abs(expected) + np.abs(gamma) + np.abs(beta)))


def gradient(h, xh, scale, axis, centered):
    level = h.mean(axis, keepdims=True) if centered else 0.0
    return scale * (h - level - xh * (h * xh).mean(axis, keepdims=True))


def check_rows_backward(problem):
    count, n = shape(problem, "x")
    chosen, centered = sample_indices(problem, count), "mean_in" in problem.buffers
    gamma = cells(problem, "gamma", range(n))

    def normalized(x, positions):
        if centered:
            scale = cells(problem, "inv_std_in", positions)[:, None]
            return (x - cells(problem, "mean_in", positions)[:, None]) * scale, scale
        scale = 1 / cells(problem, "rms", positions)[:, None]
        return x * scale, scale

    dy, x = rows(problem, "dy", chosen), rows(problem, "x", chosen)
    xh, scale = normalized(x, chosen)
    expected = gradient(dy * gamma, xh, scale, 1, centered)
    size = scale * (1 + np.abs(xh)) * (np.abs(dy * gamma) + np.abs(xh).max())
    wrong = compare(problem, rows(problem, "dx", chosen), expected, 8 * size)
    for column in (0, n - 1):
        at = np.arange(count) * n + column
        dy, x = cells(problem, "dy", at)[:, None], cells(problem, "x", at)[:, None]
        products = dy * normalized(x, np.arange(count))[0]
        got = cells(problem, "dgamma", [column])
        wrong = wrong or compare(problem, got, products.sum(keepdims=True)[0], np.abs(products).sum())
    return wrong


def whole_channel(problem, name, channel):
    """Values of a channel, [N, S]."""
    n, c, s = shape(problem, "x")
    return rows(problem, name, np.arange(n) * c + channel).reshape(n, s)


def group_of(problem, channel):
    """(channels of the group of a channel, items that share its statistic)"""
    n, c, _ = shape(problem, "x")
    if problem.bench.scalars["group_kind"] == OF_BATCH:
        return [channel], range(n), channel
    groups = problem.bench.scalars["num_groups"]
    first = channel // (c // groups) * (c // groups)
    return range(first, first + c // groups), [n - 1], (n - 1) * groups + channel // (c // groups)


def check_channels(problem):
    c = shape(problem, "x")[1]
    for channel in (0, c - 1):
        channels, items, _ = group_of(problem, channel)
        x = np.stack([whole_channel(problem, "x", each)[list(items)] for each in channels])
        deviation = np.sqrt(x.var() + EPS)
        gamma, beta = cells(problem, "gamma", channels)[:, None, None], cells(problem, "beta", channels)[:, None, None]
        expected = (x - x.mean()) / deviation * gamma + beta
        got = np.stack([whole_channel(problem, "y", each)[list(items)] for each in channels])
        if wrong := compare(problem, got, expected, 8 * (np.abs(expected) + np.abs(gamma) + np.abs(beta))):
            return wrong
    return ""


def check_channels_backward(problem):
    c = shape(problem, "x")[1]
    for channel in (0, c - 1):
        channels, items, at = group_of(problem, channel)
        mean, scale = cells(problem, "saved_mean", [at])[0], cells(problem, "saved_rstd", [at])[0]
        gamma = cells(problem, "gamma", channels)[:, None, None]
        dy, x = (
            np.stack([whole_channel(problem, name, each)[list(items)] for each in channels]) for name in ("dy", "x")
        )
        xh = (x - mean) * scale
        expected = gradient(dy * gamma, xh, scale, (0, 1, 2), True)
        got = np.stack([whole_channel(problem, "dx", each)[list(items)] for each in channels])
        size = scale * (1 + np.abs(xh)) * (np.abs(dy * gamma) + np.abs(gamma).max())
        if wrong := compare(problem, got, expected, 16 * size):
            return wrong
    return ""


# --- problems -------------------------------------------------------------------------------------------------------


def of_rows(name, count, n, bound, *, what=""):
    """`name`: of the row; `what`: tells problems of one row apart."""
    backward, centered = name.endswith("_backward"), name.startswith("layer")
    full, column, row = (count, n), (n,), (count, 1)
    save = {"mean_in": "normal", "inv_std_in": "positive"} if centered else {"rms": "above one"}
    affine = ("gamma", "beta") if centered else ("gamma",)
    if backward:
        arrays = {"dy": Operand(full, "normal"), "x": Operand(full, "normal"), "gamma": Operand(column, "normal")}
        arrays |= {key: Operand(row, fill) for key, fill in save.items()} | {"dx": Operand(full)}
        arrays |= {f"d{key}": Operand(column) for key in affine}
        strides, peers = ("dy", "x", "dx"), (torch_rms_norm_backward, torch_rms_norm_autograd)
        peers = (torch_layer_norm_backward,) if centered else peers
    else:
        arrays = {"x": Operand(full, "normal")} | {key: Operand(column, "normal") for key in affine}
        arrays |= {"y": Operand(full)}
        arrays |= {key: Operand(row) for key in (("mean_out", "inv_std_out") if centered else ("rms_out",))}
        strides, peers = ("x", "y"), (torch_layer_norm if centered else torch_rms_norm,)
    scalars = {"numel": count * n, "rank": 2, "shape": full, "norm_axes_mask": 2, "norm_total_extent": n}
    scalars |= {f"stride_{key}": (n, 1) for key in strides} | {"stride_save" if centered else "stride_rms": (1, 1)}
    scalars |= {} if backward else {"eps": EPS}
    return Bench(
        name=f"{name} {what or n}", row=f"{name}_{{T}}", dtypes=("f32", "bf16"), arrays=arrays, scalars=scalars,
        check=check_rows_backward if backward else check_rows, torch=peers, workspace=True, bounds=bound,
    )  # fmt: skip


def of_channels(name, extents, kind, groups, bound, peer):
    backward, (n, c, _) = name.endswith("_backward"), extents
    saved = (c if kind == OF_BATCH else n * groups,)
    arrays = {"dy": Operand(extents, "normal")} if backward else {}
    arrays |= {"x": Operand(extents, "normal"), "gamma": Operand((c,), "normal")}
    if backward:
        arrays |= {"saved_mean": Operand(saved, "normal"), "saved_rstd": Operand(saved, "positive")}
        arrays |= {"dx": Operand(extents), "dgamma": Operand((c,)), "dbeta": Operand((c,))}
    else:
        arrays |= {"beta": Operand((c,), "normal"), "y": Operand(extents)}
        arrays |= {"saved_mean": Operand(saved), "saved_rstd": Operand(saved)}
    scalars = dict(zip(("n_extent", "c_extent", "spatial_extent"), extents)) | {
        "num_groups": groups,
        "group_kind": kind,
    }
    return Bench(
        name=f"{name} {extents[1]}x{extents[2]}", row=f"{name}_{{T}}", dtypes=("f32", "bf16"), arrays=arrays,
        scalars=scalars | ({} if backward else {"eps": EPS}), torch=(peer,), workspace=True, bounds=bound,
        check=check_channels_backward if backward else check_channels,
    )  # fmt: skip


STRIDED = {f"{name}_norm{form}_{{T}}_strided" for name in ("rms", "layer") for form in ("", "_backward")}
UNMEASURED = dict.fromkeys(STRIDED, "another name of the row without it")


def benches(backend):
    def bound(copy):
        return (Bound("copy", copy) if backend == "cuda" else Bound("peer", 1.0),)

    numel = 1 << 26 if backend == "cuda" else 1 << 24
    for name in ("rms_norm", "layer_norm"):
        for n in (1024, 4096, 32768):
            yield of_rows(name, numel // n, n, bound(0.92))
        for n in (1024, 4096, 8192):
            yield of_rows(f"{name}_backward", numel // n, n, bound(0.85))
        for count in (1, 64):
            few = (Bound("peer", 1.0),)
            yield of_rows(name, count, 4096, few, what=f"{count} rows")
            yield of_rows(f"{name}_backward", count, 4096, few, what=f"{count} rows")
    extents = (64, 256, 4096) if backend == "cuda" else (16, 64, 16384)
    for name, kind, groups, forward, backward in (
        ("batch_norm", OF_BATCH, extents[1], torch_batch_norm, torch_batch_norm_backward),
        ("group_norm", OF_ITEM, 32, torch_group_norm, torch_group_norm_backward),
    ):
        yield of_channels(name, extents, kind, groups, bound(0.80), forward)
        yield of_channels(f"{name}_backward", extents, kind, groups, bound(0.75), backward)


def sweeps(backend):
    numel = 2**26 if backend == "cuda" else 2**21
    for name in ("layer_norm", "rms_norm", "layer_norm_backward", "rms_norm_backward"):
        along = {n: of_rows(name, numel // n, n, ()) for n in LENGTHS}
        yield Sweep(name=f"{name}, {numel} elements", axis="row length", points=along, level=True)
        if not name.endswith("_backward"):
            few = {n: of_rows(name, 64, n, ()) for n in LENGTHS}
            yield Sweep(name=f"{name}, 64 rows", axis="row length", points=few)
        many = {count: of_rows(name, count, 4096, ()) for count in COUNTS}
        yield Sweep(name=f"{name}, rows of 4096", axis="rows", points=many)
    for name, kind, groups, peer in (
        ("batch_norm", OF_BATCH, 64, torch_batch_norm), ("group_norm", OF_ITEM, 32, torch_group_norm),
    ):  # fmt: skip
        sizes = [s for s in (4, 16, 49, 64, 196, 256, 784, 1024, 3136, 4096, 16384) if 64 * s <= numel // 4]
        planes = {s: of_channels(name, (numel // 64 // s, 64, s), kind, groups, (), peer) for s in sizes}
        yield Sweep(name=f"{name} of 64 channels, {numel} elements", axis="plane", points=planes, level=True)
