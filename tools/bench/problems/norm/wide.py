# SPDX-License-Identifier: Apache-2.0
"""Group norm with statistics in the compute type, gradients of norms for x alone, and rows with f64 parameters."""

import dataclasses

import numpy as np

from tools.bench.check import compare, rows, sample_indices, shape
from tools.bench.problems.norm.norm import (
    EPS,
    OF_ITEM,
    cells,
    check_channels_backward,
    gradient,
    group_of,
    of_channels,
    torch_group_norm,
    whole_channel,
)
from tools.bench.record import Bench, Bound, Operand

_PARAM = "the kernel of the row whose numbers are f32"
UNMEASURED = dict.fromkeys(
    (
        "rms_norm_param_{T}", "layer_norm_param_{T}", "batch_norm_param_{T}", "group_norm_param_{T}",
        "add_rms_norm_param_{T}", "add_rms_norm_param_backward_{T}", "add_layer_norm_param_{T}",
        "add_layer_norm_param_backward_{T}", "batch_norm_training_param_{T}", "batch_norm_inference_param_{T}",
        "group_norm_channels_last_param_{T}", "l2_normalize_param_{T}", "l2_normalize_param_backward_{T}",
    ),
    _PARAM,
)  # fmt: skip

# --- peers ----------------------------------------------------------------------------------------------------------


def torch_rows(torch, t, scalars):
    """The forward op, for the statistics that PyTorch's gradient reads, and the gradient."""
    n, aten, x, gamma = t["x"].shape[-1:], torch.ops.aten, t["x"], t["gamma"]

    def layer_norm():
        _, mean, scale = aten.native_layer_norm(x, n, gamma, None, EPS)
        return aten.native_layer_norm_backward(t["dy"], x, n, mean, scale, gamma, gamma, [True] * 3)

    def rms_norm():
        _, scale = aten._fused_rms_norm(x, n, gamma, EPS)
        return aten._fused_rms_norm_backward(t["dy"], x, n, scale, gamma, [True] * 2)

    return layer_norm if "mean_out" in t else rms_norm


def torch_group_norm_backward(torch, t, scalars):
    n, c, s = t["x"].shape
    groups, backward = scalars["num_groups"], torch.ops.aten.native_group_norm_backward
    given = [t[name].reshape(n, groups).to(t["x"].dtype) for name in ("saved_mean", "saved_rstd")]
    return lambda: backward(t["dy"], t["x"], *given, t["gamma"], n, c, s, groups, [True] * 3)


def torch_group_norm_again(torch, t, scalars):
    n, c, s = t["x"].shape
    of, aten, dy, x, gamma = (n, c, s, scalars["num_groups"]), torch.ops.aten, t["dy"], t["x"], t["gamma"]

    def peer():
        _, mean, scale = aten.native_group_norm(x, gamma, None, *of, EPS)
        return aten.native_group_norm_backward(dy, x, mean, scale, gamma, *of, [True] * 3)

    return peer


# --- samples --------------------------------------------------------------------------------------------------------


def check_rows(problem):
    count, n = shape(problem, "x")
    chosen, centered = sample_indices(problem, count), "mean_out" in problem.buffers
    dy, x = (rows(problem, name, chosen) for name in ("dy", "x"))
    mean = x.mean(1, keepdims=True) if centered else 0.0
    scale = 1 / np.sqrt(np.square(x - mean).mean(1, keepdims=True) + EPS)
    h, xh = dy * cells(problem, "gamma", range(n)), (x - mean) * scale
    want = gradient(h, xh, scale, 1, centered)
    size = scale * (1 + np.abs(xh)) * (np.abs(h) + np.abs(xh).max())
    return compare(problem, rows(problem, "dx", chosen), want, 8 * size)


def check_channels(problem):
    c = shape(problem, "x")[1]
    for channel in (0, c - 1):
        channels, items, at = group_of(problem, channel)
        x = np.stack([whole_channel(problem, "x", each)[list(items)] for each in channels])
        if wrong := compare(problem, cells(problem, "saved_mean", [at]), x.mean(keepdims=True)[0, 0], np.abs(x).mean()):
            return wrong
    return check_channels_backward(problem)


# --- problems -------------------------------------------------------------------------------------------------------


def of_rows(name, count, n, bounds):
    given, centered = Operand((count, n), "normal"), name.startswith("layer")
    saved = ("mean_out", "inv_std_out") if centered else ("rms_out",)
    arrays = {"dy": given, "x": given, "gamma": Operand((n,), "normal")} | dict.fromkeys(saved, Operand((count,)))
    arrays |= {f"d{p}": Operand((n,)) for p in ("gamma", "beta")[: 1 + centered]} | {"dx": Operand((count, n))}
    scalars = {"shape": (count, n), "norm_axes_mask": 2, "norm_total_extent": n, "gamma_offset": 0.0, "eps": EPS}
    return Bench(
        name=f"{name} {n}", row=f"{name}_{{T}}", dtypes=("f32", "bf16"), arrays=arrays,
        scalars=scalars | {"stride_dsum": (n, 1)}, check=check_rows, torch=(torch_rows,), workspace=True, bounds=bounds,
    )  # fmt: skip


def benches(backend):
    def bound(copy):
        return (Bound("copy", copy) if backend == "cuda" else Bound("peer", 1.0),)

    numel = 1 << 26 if backend == "cuda" else 1 << 23
    for name in ("rms_norm", "layer_norm"):
        yield of_rows(f"{name}_recompute_backward", numel // 4096, 4096, bound(0.60))
    extents = (64, 256, 4096) if backend == "cuda" else (16, 64, 8192)
    yield of_channels("group_norm_wide", extents, OF_ITEM, 32, bound(0.80), torch_group_norm)
    yield of_channels("group_norm_wide_backward", extents, OF_ITEM, 32, bound(0.75), torch_group_norm_backward)
    again = of_channels("group_norm_recompute_backward", extents, OF_ITEM, 32, bound(0.55), torch_group_norm_again)
    saved = dict.fromkeys(("saved_mean", "saved_rstd"), Operand((extents[0] * 32,)))
    yield dataclasses.replace(
        again, arrays={**again.arrays, **saved}, scalars={**again.scalars, "eps": EPS}, check=check_channels
    )
