# SPDX-License-Identifier: Apache-2.0
"""Softmax of masked logits, of 16-bit logits in f32, entmax15, and their gradients."""

import numpy as np

from tools.bench.check import compare, rows, sample_indices, shape
from tools.bench.problems.softmax.softmax import softmax
from tools.bench.record import Bench, Bound, Operand

# --- peers ----------------------------------------------------------------------------------------------------------


def torch_masked(torch, t, scalars):
    x, hidden = t["x"], t["mask"] == 0
    bias = t["bias"]
    return lambda: torch.softmax((x * scalars["scale"] + bias).masked_fill(hidden, float("-inf")), -1)


def torch_causal(torch, t, scalars):
    x = t["x"]
    hidden = torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).triu(1 + scalars["query_offset"])
    return lambda: torch.softmax((x * scalars["scale"]).masked_fill(hidden, float("-inf")), -1)


def torch_backward(log):
    def peer(torch, t, scalars):
        function = torch._log_softmax_backward_data if log else torch._softmax_backward_data
        return lambda: function(t["dy"], t["y"], -1, t["y"].dtype) * scalars.get("scale", 1.0)

    return peer


def torch_to_f32(log):
    def peer(torch, t, scalars):
        function = torch.log_softmax if log else torch.softmax
        return lambda: function(t["x"], -1, dtype=torch.float32)

    return peer


def torch_entmax(torch, t, scalars):
    """Entmax-1.5 by sorting, as in the code of the paper: PyTorch has none."""
    ranks = torch.arange(1, t["x"].shape[-1] + 1, device=t["x"].device, dtype=t["x"].dtype)

    def peer():
        z = (t["x"] - t["x"].amax(-1, keepdim=True)) / 2
        ordered = z.sort(-1, descending=True).values
        mean, squares = ordered.cumsum(-1) / ranks, ordered.square().cumsum(-1) / ranks
        tau = mean - torch.clamp((1 - ranks * (squares - mean.square())) / ranks, min=0).sqrt()
        support = (tau <= ordered).sum(-1, keepdim=True)
        return torch.clamp(z - tau.gather(-1, support - 1), min=0).square()

    return peer


def torch_entmax_backward(torch, t, scalars):
    def peer():
        s = t["y"].sqrt()
        return s * (t["dy"] - (s * t["dy"]).sum(-1, keepdim=True) / s.sum(-1, keepdim=True))

    return peer


# --- samples --------------------------------------------------------------------------------------------------------


def check(name):
    log = "log" in name

    def rows_are_right(problem):
        scalars = problem.bench.scalars
        count = int(np.prod(shape(problem, "y")[:-1]))
        chosen = sample_indices(problem, count)
        if "backward" in name:
            dy, y = rows(problem, "dy", chosen), rows(problem, "y", chosen)
            s = np.sqrt(y) if name.startswith("entmax") else np.exp(y) if log else y
            total = (dy if log else s * dy).sum(1, keepdims=True)
            total = total / s.sum(1, keepdims=True) if name.startswith("entmax") else total
            want = scalars.get("scale", 1.0) * (dy - s * total if log else s * (dy - total))
            return compare(problem, rows(problem, "dx", chosen), want, 8 * (np.abs(want).max() + np.abs(dy).max()))
        x, y = rows(problem, "x", chosen), rows(problem, "y", chosen)
        if name.startswith("entmax"):
            root = np.sqrt(y)
            tau = np.where(y > 0, x / 2 - root, np.nan)
            spread = np.nanmax(tau, 1) - np.nanmin(tau, 1)
            # Results are squares of x - tau: an error of tau shows in all of them.
            return compare(problem, y.sum(1), np.ones(len(y)), 64 * (1 + spread), problem.dtype)
        queries = chosen % shape(problem, "x")[-2]
        if "mask" in problem.buffers:  # plus the bias, one for all heads
            keeps = rows(problem, "mask", queries) != 0
            x = np.where(keeps, x * scalars["scale"] + rows(problem, "bias", queries), -np.inf)
        elif "is_causal" in scalars:
            keeps = np.arange(x.shape[1]) <= queries[:, None] + scalars["query_offset"]
            x = np.where(keeps, x * scalars["scale"], -np.inf)
        want = softmax(x)
        if log:
            with np.errstate(divide="ignore"):
                want = np.log(want)
            hidden = np.isinf(want)
            if not np.array_equal(hidden, np.isinf(y)):
                return "is infinite elsewhere"
            y, want = np.where(hidden, 0, y), np.where(hidden, 0, want)
        return compare(problem, y, want, 8 * np.abs(want).max())

    return rows_are_right


# --- problems -------------------------------------------------------------------------------------------------------


def made(name, row, arrays, bound, peer, *, dtypes=("f32", "bf16"), workspace=True, **scalars):
    rank = len(next(iter(arrays.values())).shape)
    return Bench(
        name=name, row=f"{row}_{{T}}", dtypes=dtypes, arrays=arrays, scalars={"softmax_axis": rank - 1} | scalars,
        check=check(row), torch=(peer,), workspace=workspace, bounds=(bound,),
    )  # fmt: skip


def benches(backend):
    on_gpu = backend == "cuda"
    count, n = (2**26, 1024) if on_gpu else (2**24, 1024)
    fast, level = (Bound("copy", 0.90) if on_gpu else Bound("peer", 1.0)), Bound("peer", 1.0)
    heads, queries = count // n // 1024, 1024
    full = (heads, queries, n)
    given, y = Operand(full, "normal"), Operand(full)
    dense = (queries * n, n, 1)
    for log in ("", "log_"):
        masked = {
            "x": given, "bias": Operand(full, "normal", (0, n, 1)), "mask": Operand(full, "flags", (0, n, 1)), "y": y,
        }  # fmt: skip
        yield made(f"masked_{log}softmax", f"masked_{log}softmax", masked, level, torch_masked, scale=0.125,
                   is_causal=0, query_offset=0)  # fmt: skip
        yield made(f"masked_{log}softmax causal", f"masked_{log}softmax", {"x": given, "y": y}, level, torch_causal,
                   scale=0.125, is_causal=1, query_offset=0, stride_bias=dense, stride_mask=dense)  # fmt: skip
        saved = Operand(full, -np.log(n) if log else 1 / n)
        gradient = {"dy": given, "y": saved, "dx": y}
        yield made(f"masked_{log}softmax_backward", f"masked_{log}softmax_backward", gradient, fast,
                   torch_backward(bool(log)), scale=0.125)  # fmt: skip
        name = f"{log}softmax_to_f32"
        yield made(name, name, {"x": given, "y": y}, fast, torch_to_f32(bool(log)), dtypes=("bf16",))
        yield made(f"{name}_backward", f"{name}_backward", gradient, fast, torch_backward(bool(log)), dtypes=("bf16",))
    plain = {"x": given, "y": y}
    yield made("entmax15", "entmax15", plain, level, torch_entmax, workspace=False)
    gradient = {"dy": given, "y": Operand(full, 1 / n), "dx": y}
    yield made("entmax15_backward", "entmax15_backward", gradient, level, torch_entmax_backward)
