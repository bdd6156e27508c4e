# SPDX-License-Identifier: Apache-2.0
"""Add + norm, batch norm with running statistics, L2 normalisation, and their gradients."""

import numpy as np

from tools.bench.check import compare, rows, sample_indices, shape
from tools.bench.problems.norm.norm import EPS, cells, gradient
from tools.bench.record import Bench, Bound, Operand

# --- peers ----------------------------------------------------------------------------------------------------------


def torch_add_norm(torch, t, scalars):
    n, functional = t["x"].shape[-1:], torch.nn.functional

    def peer():
        total = t["x"] + t["residual"]
        if "beta" in t:
            return functional.layer_norm(total, n, t["gamma"], t["beta"], EPS), total
        return functional.rms_norm(total, n, t["gamma"], EPS), total

    return peer


def torch_add_norm_backward(torch, t, scalars):
    n, aten = t["sum"].shape[-1:], torch.ops.aten
    if "mean_in" in t:
        given = t["mean_in"][:, None], t["inv_std_in"][:, None], t["gamma"], t["gamma"], [True] * 3
        return lambda: aten.native_layer_norm_backward(t["dy"], t["sum"], n, *given)[0] + t["dsum"]
    scale = 1 / t["rms"][:, None]
    return lambda: aten._fused_rms_norm_backward(t["dy"], t["sum"], n, scale, t["gamma"], [True] * 2)[0] + t["dsum"]


def in_front(t, scalars, *names):
    """[N, C, S], a permuted view if channels are last."""
    return [t[name].movedim(2, 1) if scalars["channels_last"] else t[name] for name in names]


def torch_batch_norm(torch, t, scalars):
    (x,) = in_front(t, scalars, "x")
    trains, momentum = "saved_mean" in t, scalars.get("momentum", 0.0)
    given = t["running_mean"].clone(), t["running_var"].clone(), t["gamma"], t["beta"]
    return lambda: torch.nn.functional.batch_norm(x, *given, trains, momentum, EPS)


def torch_batch_norm_backward(torch, t, scalars):
    dy, x = in_front(t, scalars, "dy", "x")
    given = t["gamma"], None, None, t["saved_mean"], t["saved_rstd"], True, EPS, [True] * 3
    return lambda: torch.ops.aten.native_batch_norm_backward(dy, x, *given)


def torch_group_norm(torch, t, scalars):
    x = t["x"].movedim(2, 1)
    gamma, beta = t["gamma"].to(x.dtype), t["beta"].to(x.dtype)
    return lambda: torch.nn.functional.group_norm(x, scalars["num_groups"], gamma, beta, EPS)


def torch_group_norm_backward(torch, t, scalars):
    n, s, c = t["x"].shape
    groups, wide = scalars["num_groups"], t["x"].dtype
    statistics = [t[name].reshape(n, groups).to(wide) for name in ("saved_mean", "saved_rstd")]
    given = *statistics, t["gamma"].to(wide), n, c, s, groups, [True] * 3

    def peer():  # PyTorch takes channels first only
        dy, x = (t[name].movedim(2, 1).contiguous() for name in ("dy", "x"))
        dx, *others = torch.ops.aten.native_group_norm_backward(dy, x, *given)
        return dx.movedim(1, 2).contiguous(), *others

    return peer


def torch_l2_normalize(torch, t, scalars):
    return lambda: torch.nn.functional.normalize(t["x"], dim=-1)


def torch_l2_normalize_backward(torch, t, scalars):
    x = t["x"].detach().requires_grad_()
    y = torch.nn.functional.normalize(x, dim=-1)
    return lambda: torch.autograd.grad(y, x, t["dy"], retain_graph=True)


def torch_weight_norm(torch, t, scalars):
    return lambda: torch._weight_norm(t["v"], t["g"][:, None], 0)


def torch_weight_norm_backward(torch, t, scalars):
    v, g = t["v"].detach().requires_grad_(), t["g"][:, None].detach().requires_grad_()
    w = torch._weight_norm(v, g, 0)
    return lambda: torch.autograd.grad(w, (v, g), t["dw"], retain_graph=True)


# --- samples --------------------------------------------------------------------------------------------------------


def check_add_norm(problem):
    count, n = shape(problem, "x")
    chosen = sample_indices(problem, count)
    total = rows(problem, "sum", chosen)
    exact = rows(problem, "x", chosen) + rows(problem, "residual", chosen)
    if wrong := compare(problem, total, exact, np.abs(exact)):
        return wrong
    centered = "beta" in problem.buffers
    gamma, beta = (cells(problem, name, range(n)) if name in problem.buffers else 0.0 for name in ("gamma", "beta"))
    mean = total.mean(1, keepdims=True) if centered else 0.0
    want = (total - mean) / np.sqrt(np.square(total - mean).mean(1, keepdims=True) + EPS) * gamma + beta
    return compare(problem, rows(problem, "y", chosen), want, 8 * (np.abs(want) + np.abs(gamma) + np.abs(beta)))


def check_add_norm_backward(problem):
    count, n = shape(problem, "sum")
    chosen, centered = sample_indices(problem, count), "mean_in" in problem.buffers
    dy, x, extra = (rows(problem, name, chosen) for name in ("dy", "sum", "dsum"))
    scale = cells(problem, "inv_std_in", chosen) if centered else 1 / cells(problem, "rms", chosen)
    scale, mean = scale[:, None], cells(problem, "mean_in", chosen)[:, None] if centered else 0.0
    h, xh = dy * cells(problem, "gamma", range(n)), (x - mean) * scale
    want = extra + gradient(h, xh, scale, 1, centered)
    size = np.abs(extra) + scale * (1 + np.abs(xh)) * (np.abs(h) + np.abs(xh).max())
    return compare(problem, rows(problem, "dx", chosen), want, 8 * size)


def of_channel(problem, name, channel):
    """Values of a channel, item by item."""
    n, c, s = (problem.bench.scalars[f"{axis}_extent"] for axis in ("n", "c", "spatial"))
    if problem.bench.scalars["channels_last"]:
        return cells(problem, name, np.arange(n * s) * c + channel)
    return cells(problem, name, (np.arange(n)[:, None] * c * s + channel * s + np.arange(s)).ravel())


def check_batch_norm(problem):
    for channel in (0, problem.bench.scalars["c_extent"] - 1):
        x, y = (of_channel(problem, name, channel) for name in ("x", "y"))
        gamma, beta = (cells(problem, name, [channel])[0] for name in ("gamma", "beta"))
        trains = "saved_mean" in problem.buffers
        mean = x.mean() if trains else cells(problem, "running_mean", [channel])[0]
        var = x.var() if trains else cells(problem, "running_var", [channel])[0]
        want = (x - mean) / np.sqrt(var + EPS) * gamma + beta
        if wrong := compare(problem, y, want, 8 * (np.abs(want) + np.abs(gamma) + np.abs(beta) + np.abs(mean * gamma))):
            return wrong
    return ""


def check_batch_norm_backward(problem):
    for channel in (0, problem.bench.scalars["c_extent"] - 1):
        dy, x, dx = (of_channel(problem, name, channel) for name in ("dy", "x", "dx"))
        names = ("gamma", "saved_mean", "saved_rstd")
        gamma, mean, scale = (cells(problem, name, [channel])[0] for name in names)
        h, xh = dy * gamma, (x - mean) * scale
        want = gradient(h, xh, scale, 0, True)
        size = scale * (1 + np.abs(xh)) * (np.abs(h) + np.abs(gamma))
        if wrong := compare(problem, dx, want, 16 * size):
            return wrong
    return ""


def of_group(problem, name, item, channels):
    """Values of an item, [S, channels]."""
    c, s = (problem.bench.scalars[f"{axis}_extent"] for axis in ("c", "spatial"))
    return cells(problem, name, ((item * s + np.arange(s)[:, None]) * c + channels).ravel()).reshape(s, -1)


def groups_of(problem):
    """(item, channels of the group, index of its statistic) for the first and the last group"""
    n, c, groups = (problem.bench.scalars[name] for name in ("n_extent", "c_extent", "num_groups"))
    for item, group in ((0, 0), (n - 1, groups - 1)):
        yield item, np.arange(c // groups) + group * (c // groups), item * groups + group


def check_group_norm(problem):
    for item, channels, _ in groups_of(problem):
        x, y = (of_group(problem, name, item, channels) for name in ("x", "y"))
        gamma, beta = (cells(problem, name, channels) for name in ("gamma", "beta"))
        want = (x - x.mean()) / np.sqrt(x.var() + EPS) * gamma + beta
        if wrong := compare(problem, y, want, 8 * (np.abs(want) + np.abs(gamma) + np.abs(beta))):
            return wrong
    return ""


def check_group_norm_backward(problem):
    for item, channels, at in groups_of(problem):
        dy, x, dx = (of_group(problem, name, item, channels) for name in ("dy", "x", "dx"))
        gamma = cells(problem, "gamma", channels)
        mean, scale = (cells(problem, name, [at])[0] for name in ("saved_mean", "saved_rstd"))
        h, xh = dy * gamma, (x - mean) * scale
        want = gradient(h, xh, scale, (0, 1), True)
        size = scale * (1 + np.abs(xh)) * (np.abs(h) + np.abs(gamma).max())
        if wrong := compare(problem, dx, want, 16 * size):
            return wrong
    return ""


def check_lengths(problem):
    x_name, y_name = ("v", "w") if "v" in problem.buffers else ("x", "y")
    chosen = sample_indices(problem, shape(problem, x_name)[0])
    x = rows(problem, x_name, chosen)
    gain = cells(problem, "g", chosen)[:, None] if x_name == "v" else 1.0
    want = gain * x / np.linalg.norm(x, axis=1, keepdims=True)
    return compare(problem, rows(problem, y_name, chosen), want, 8 * np.abs(want))


def check_lengths_backward(problem):
    x_name, dy_name, dx_name = ("v", "dw", "dv") if "v" in problem.buffers else ("x", "dy", "dx")
    chosen = sample_indices(problem, shape(problem, x_name)[0])
    x, dy = rows(problem, x_name, chosen), rows(problem, dy_name, chosen)
    scale = (cells(problem, "g", chosen)[:, None] if x_name == "v" else 1.0) / np.linalg.norm(x, axis=1, keepdims=True)
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    want = scale * (dy - u * (u * dy).sum(1, keepdims=True))
    size = np.abs(scale) * (np.abs(dy) + np.abs(u) * np.abs(u * dy).sum(1, keepdims=True))
    return compare(problem, rows(problem, dx_name, chosen), want, 8 * size)


# --- problems -------------------------------------------------------------------------------------------------------


def row_scalars(count, n):
    return {"shape": (count, n), "norm_axes_mask": 2, "norm_total_extent": n}


def add_norms(name, count, n, forward, backward):
    full, column, each = Operand((count, n)), Operand((n,), "normal"), Operand((count,))
    given, centered = Operand((count, n), "normal"), name.startswith("add_layer")
    affine = {"gamma": column} | ({"beta": column} if centered else {})
    saved = dict.fromkeys(("mean_out", "inv_std_out") if centered else ("rms_out",), each)
    arrays = {"x": given, "residual": given, **affine, **saved, "sum": full, "y": full}
    scalars = row_scalars(count, n) | {"gamma_offset": 0.0}
    yield Bench(
        name=f"{name} {n}", row=f"{name}_{{T}}", dtypes=("f32", "bf16"), arrays=arrays, scalars=scalars | {"eps": EPS},
        check=check_add_norm, torch=(torch_add_norm,), workspace=True, bounds=forward,
    )  # fmt: skip
    fills = {"mean_in": "normal", "inv_std_in": "positive"} if centered else {"rms": "above one"}
    arrays = {"dy": given, "dsum": given, "sum": given, "gamma": column}
    arrays |= {key: Operand((count,), fill) for key, fill in fills.items()}
    arrays |= {f"d{key}": Operand((n,)) for key in affine} | {"dx": full}
    yield Bench(
        name=f"{name}_backward {n}", row=f"{name}_backward_{{T}}", dtypes=("f32", "bf16"), arrays=arrays,
        scalars=scalars, check=check_add_norm_backward, torch=(torch_add_norm_backward,), workspace=True,
        bounds=backward,
    )  # fmt: skip


def batch_norms(n, c, s, last, forward, backward):
    extents, of = ((n, s, c) if last else (n, c, s)), Operand((c,), "normal")
    what = f"{c}x{s}{' channels last' * last}"
    scalars = {"n_extent": n, "c_extent": c, "spatial_extent": s, "channels_last": last}
    parameters = {"gamma": of, "beta": of, "running_mean": of, "running_var": Operand((c,), "positive")}
    saved = {name: Operand((c,)) for name in ("saved_mean", "saved_rstd", "new_running_mean", "new_running_var")}
    x, y = Operand(extents, "normal"), Operand(extents)
    for name, arrays, more, bounds in (
        ("batch_norm_training", {"x": x, **parameters, "y": y, **saved}, {"momentum": 0.1}, forward),
        ("batch_norm_inference", {"x": x, **parameters, "y": y}, {}, forward),
    ):
        yield Bench(
            name=f"{name} {what}", row=f"{name}_{{T}}", dtypes=("f32", "bf16"), arrays=arrays,
            scalars=scalars | {"eps": EPS} | more, check=check_batch_norm, torch=(torch_batch_norm,),
            workspace=name.endswith("training"), bounds=bounds,
        )  # fmt: skip
    arrays = {"dy": x, "x": x, "gamma": of, "saved_mean": of, "saved_rstd": Operand((c,), "positive"), "dx": y}
    yield Bench(
        name=f"batch_norm_training_backward {what}", row="batch_norm_training_backward_{T}", dtypes=("f32", "bf16"),
        arrays=arrays | {"dgamma": Operand((c,)), "dbeta": Operand((c,))}, scalars=scalars, workspace=True,
        check=check_batch_norm_backward, torch=(torch_batch_norm_backward,), bounds=backward,
    )  # fmt: skip


def group_norms(n, c, s, groups, forward, backward):
    x, y, of = Operand((n, s, c), "normal"), Operand((n, s, c)), Operand((c,), "normal")
    saved, what = Operand((n * groups,)), f"{c}x{s} of {groups}"
    scalars = {"n_extent": n, "c_extent": c, "spatial_extent": s, "num_groups": groups}
    yield Bench(
        name=f"group_norm_channels_last {what}", row="group_norm_channels_last_{T}", dtypes=("f32", "bf16"),
        arrays={"x": x, "gamma": of, "beta": of, "y": y, "saved_mean": saved, "saved_rstd": saved},
        scalars=scalars | {"eps": EPS}, check=check_group_norm, torch=(torch_group_norm,), workspace=True,
        bounds=forward,
    )  # fmt: skip
    statistics = {"saved_mean": Operand((n * groups,), "normal"), "saved_rstd": Operand((n * groups,), "positive")}
    arrays = {"dy": x, "x": x, "gamma": of, **statistics, "dx": y, "dgamma": Operand((c,)), "dbeta": Operand((c,))}
    yield Bench(
        name=f"group_norm_channels_last_backward {what}", row="group_norm_channels_last_backward_{T}",
        dtypes=("f32", "bf16"), arrays=arrays, scalars=scalars, check=check_group_norm_backward,
        torch=(torch_group_norm_backward,), workspace=True, bounds=backward,
    )  # fmt: skip


def lengths(count, n, forward, backward):
    given, full, gain = Operand((count, n), "normal"), Operand((count, n)), Operand((count,), "normal")
    eps, scalars = {"eps": 1e-12}, row_scalars(count, n)
    for name, arrays, more, check, peer, bounds in (
        ("l2_normalize", {"x": given, "y": full}, eps, check_lengths, torch_l2_normalize, forward),
        ("l2_normalize_backward", {"dy": given, "x": given, "dx": full}, eps, check_lengths_backward,
         torch_l2_normalize_backward, backward),
        ("weight_norm", {"v": given, "g": gain, "w": full}, {}, check_lengths, torch_weight_norm, forward),
        ("weight_norm_backward", {"dw": given, "v": given, "g": gain, "dg": Operand((count,)), "dv": full}, {},
         check_lengths_backward, torch_weight_norm_backward, backward),
    ):  # fmt: skip
        yield Bench(
            name=f"{name} {n}", row=f"{name}_{{T}}", dtypes=("f32", "bf16"), arrays=arrays, scalars=scalars | more,
            check=check, torch=(peer,), workspace=True, bounds=bounds,
        )  # fmt: skip


def benches(backend):
    def bound(copy):
        return (Bound("copy", copy) if backend == "cuda" else Bound("peer", 1.0),)

    numel = 1 << 26 if backend == "cuda" else 1 << 23
    for name in ("add_rms_norm", "add_layer_norm"):
        for n in (1024, 4096):
            yield from add_norms(name, numel // n, n, bound(0.90), bound(0.60))
    n, c, s = (64, 256, 4096) if backend == "cuda" else (16, 64, 8192)
    for last in (0, 1):
        yield from batch_norms(n, c, s, last, bound(0.55), bound(0.55))
    for channels, groups in ((320, 32), (512, 32), (64, 64)):  # groups of ten channels, of sixteen, of one
        spatial = 4096 if backend == "cuda" else 1024
        items = max(numel // (channels * spatial), 1)
        yield from group_norms(items, channels, spatial, groups, bound(0.55), bound(0.50))
    yield from lengths(numel // 1024, 1024, bound(0.90), bound(0.85))
