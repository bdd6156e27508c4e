# SPDX-License-Identifier: Apache-2.0
"""Elementwise problems from the oracle's entries: operands, expected values, PyTorch's calls."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from tools.bench.record import Bench, Call, TorchPeer, row_named
from tools.oracle import BINARY, GATED, TERNARY, TRUTH, UNARY, casts
from tools.oracle.numerics import PACKED, encode, is_float, round_to

# relative to the value, or to the operands of a sum; PyTorch's functions have no smaller errors
_ALLOWED = {"f64": 2.0**-40, "f32": 2.0**-20, "f16": 2.0**-7, "bf16": 2.0**-4}
_FILL = {(0, math.inf): "positive", (1, math.inf): "above one", (-1, 1): "inside one", (0, 1): "probability"}
SAMPLES = 2048
Values = dict[str, Any]


def function_of(row: str, choice: str) -> str:
    """Name of the function: the choice of the row's slot F, or a part of the row's name."""
    found = re.match(r"(?:unary|binary|ternary)_(\w+?)(_param)?(_backward)?_{T}", row)
    return choice or (found[1] if found else "")


def entry_of(row: str, function: str) -> Any:
    """Oracle entry of a bench; None for where, casts, fill, affine, lerp and prelu."""
    tables = {"unary": UNARY, "binary": TRUTH if function in TRUTH else BINARY, "ternary": TERNARY, "gated": GATED}
    return tables.get(row.split("_")[0], {}).get(function)


def fill_of(row: str, function: str, parameter: str, dtype: str) -> str | float:
    """Fill of an input: the range that benchmarks draw it from."""
    entry, kind = entry_of(row, function), row.split("_")[0]
    if parameter == "cond" or dtype == "bool":
        return "flags"
    if parameter == "weight":
        return 0.25
    if not is_float(dtype) or dtype in PACKED:
        return "counts"
    if parameter == "dy" or kind not in ("unary", "binary", "ternary"):
        return "normal"
    if kind == "unary":
        return _FILL.get(entry.ordinary or entry.domain, "normal")
    if (getattr(entry, "base", False) and parameter == "a") or (getattr(entry, "timed", ()) and parameter == "c"):
        return "positive"
    return "normal"


def parameter_of(row: str, function: str, name: str) -> float | int:
    """A scalar argument of the function."""
    entry = entry_of(row, function)
    if name in ("p0", "p1"):
        choice = entry.timed or entry.parameters[0]
        return (*choice, 0)[int(name[1])]
    if row.startswith("ternary"):
        return entry.timed[0]
    inplace = row.startswith("affine_inplace")  # its result must not grow from launch to launch
    return {"p": 0.3, "a": 1.5, "b": -0.25, "scale": 1 if inplace else 1.5, "offset": 0, "value": 0}[name]


# --- Expected values -------------------------------------------------------------------------------------------------


def expected(bench: Bench, x: Values, dtype: str) -> Values | None:
    """Outputs for sampled inputs; None if elements do not correspond one to one, or the op has no formula."""
    kind, function = bench.row.split("_")[0], function_of(bench.row, bench.function)
    entry, numbers, backward = entry_of(bench.row, function), _numbers(bench), "_backward" in bench.row
    if entry is None or kind == "gated":
        return _moved(bench, kind, backward, x, dtype)
    if kind == "unary" and not is_float(dtype):
        return {"y": entry.of_integers(x["x"], dtype)}
    if kind == "unary":
        numbers = numbers[:1] if function == "powi" else numbers or entry.seen(dtype)
        if backward:
            return {"dx": entry.gradient(x["dy"], x.get("saved", x.get("x")), *numbers)}
        return {"y": entry.value(x["x"], *numbers)}
    operands = [x.get(name) for name in ("a", "b", "c")[: 3 if kind == "ternary" else 2]]
    if backward:
        found = entry.backward(x["dy"], *operands, dtype, *numbers)
        return {name: partial.value for name, partial in zip(("da", "db", "dc"), found)}
    if entry in TRUTH.values():
        return {"y": entry.holds(*((v != 0) if dtype == "bool" else v for v in operands)).astype(np.int64)}
    if not is_float(dtype):
        return {"y": entry.of_integers(*operands, dtype) if kind == "binary" else np.clip(*operands)}
    value = entry.forward(*operands, dtype, *numbers)
    return {"y": getattr(value, "value", value)}


def _numbers(bench: Bench) -> tuple[float, ...]:
    names = [p.name for p in row_named(bench.row).params if p.role == "parameter"]
    return tuple(bench.scalars[name] for name in names)


def _moved(bench: Bench, kind: str, backward: bool, x: Values, dtype: str) -> Values | None:
    if kind == "where" and backward:
        return {"da": np.where(x["cond"] != 0, x["dy"], 0), "db": np.where(x["cond"] != 0, 0, x["dy"])}
    if kind == "where":
        return {"y": np.where(x["cond"] != 0, x["a"], x["b"])}
    if kind == "affine" and "x" in x:
        return {"y": bench.scalars["a"] * x["x"] + bench.scalars["b"]}
    if bench.row.startswith("binary_lerp"):
        p = np.float64(np.float32(bench.scalars["p"]))
        return {"da": (1 - p) * x["dy"], "db": p * x["dy"]} if backward else {"y": x["a"] + p * (x["b"] - x["a"])}
    if kind == "cast" and not {dtype, bench.other} & set(PACKED):
        bits = casts.cast(encode(x["x"], dtype), dtype, bench.other)
        return {"y": casts.exact_values(bits, bench.other)}
    return None


def check(problem: Any) -> str:
    bench, data = problem.bench, problem.data
    total = math.prod(problem.shape)
    if len({buffer.operand.shape for buffer in problem.buffers.values()}) > 1:
        return ""  # tests cover ops whose elements do not correspond one to one
    positions = np.concatenate(([0, total - 1], data.rng.integers(0, total, SAMPLES)))
    row = problem.row
    outputs = [p.name for p in row.params if p.is_pointer and "out" in p.direction]
    x = {name: data.cells(b, positions) for name, b in problem.buffers.items() if name not in outputs}
    with np.errstate(all="ignore"):
        wanted = expected(bench, x, problem.dtype) or {}
    for name, value in wanted.items():
        if name not in problem.buffers:
            continue
        wrong = _wrong(problem, name, data.cells(problem.buffers[name], positions), value, x)
        if wrong is not None:
            cells = ", ".join(f"{float(v[wrong]):g}" for v in x.values())
            return f"({cells}) gives another {name} than {float(value[wrong]):g}"
    return ""


def _wrong(problem: Any, name: str, got: Any, wanted: Any, x: Values) -> int | None:
    """Index of the first value beyond the bound; sums may cancel."""
    dtype = problem.buffers[name].dtype
    if not is_float(dtype):
        bad = (got != 0) != (wanted != 0) if dtype == "bool" else got != wanted
        return int(np.argmax(bad)) if np.any(bad) else None
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(wanted), 2.0**-12)
        if problem.bench.row.startswith(("ternary", "affine", "binary_lerp")):
            size = size + sum(np.abs(v) for v in x.values())
        excess = np.abs(got - wanted) - _ALLOWED.get(dtype, 0.0) * size
        rounded = round_to(np.asarray(wanted, np.float64), dtype)
        fine = (got == rounded) | (np.isnan(got) & np.isnan(wanted)) | (excess <= 0)
    return None if np.all(fine) else int(np.argmin(fine))


# --- PyTorch ---------------------------------------------------------------------------------------------------------


def torch_peers(row: str, function: str) -> tuple[TorchPeer, ...]:
    """The eager call that users write; it writes to our memory if it takes `out=`."""
    kind = row.split("_")[0]
    if row.startswith("binary_lerp"):
        return (_lerp_backward if "_backward" in row else _lerp,)
    own = {"cast": _copied, "fill": _filled, "affine": _affine, "where": _where}
    if kind in own:
        return (own[kind],)
    entry = entry_of(row, function)
    if entry is None or (kind == "gated" and "_backward" in row):
        return ()
    row_, outputs = row_named(row), [p.name for p in row_named(row).params if p.is_pointer and "out" in p.direction]
    inputs = [p.name for p in row_.params if p.is_pointer and p.name not in outputs]
    names = [p.name for p in row_.params if p.role == "parameter"][: 1 if function == "powi" else None]

    def peer(torch: Any, t: Values, scalars: Mapping[str, Any]) -> Call:
        x, numbers = [t[name] for name in inputs], [scalars[name] for name in names]
        if kind == "gated":
            x = [x[0].flatten(1)]
        if "_backward" in row:
            return _gradient(torch, entry, x, numbers)
        return _forward(torch, entry, x, numbers, t[outputs[0]])

    return (peer,)


def _forward(torch: Any, entry: Any, x: list[Any], numbers: list[float], y: Any) -> Call:
    function = entry.torch_function(torch)
    if function is None:
        raise NotImplementedError
    if not x[0].is_contiguous() and len(x) == 1:  # PyTorch would preserve the memory order of the input
        return lambda: y.copy_(function(*x, *numbers))
    try:
        function(*x, *numbers, out=y)
    except (TypeError, RuntimeError):
        return lambda: function(*x, *numbers)
    return lambda: function(*x, *numbers, out=y)


def _gradient(torch: Any, entry: Any, x: list[Any], numbers: list[float]) -> Call:
    """Gradient by autograd on the CPU, where PyTorch has no direct call; the forward pass is not timed."""
    gradient = entry.torch_gradient(torch)
    if gradient is not None:
        return lambda: gradient(*x, *numbers)
    function = getattr(entry, "torch_function", lambda _: None)(torch)
    if function is None or len(x) != 2 or entry.saves == "y" or x[0].device.type != "cpu":
        raise NotImplementedError
    leaf = x[1].detach().requires_grad_()
    result = function(leaf, *numbers)
    return lambda: torch.autograd.grad(result, leaf, x[0], retain_graph=True)


def _copied(torch: Any, t: Values, scalars: Mapping[str, Any]) -> Call:
    if t["x"].numel() != t["y"].numel():
        raise NotImplementedError  # two elements a byte
    return lambda: t["y"].copy_(t["x"])


def _filled(torch: Any, t: Values, scalars: Mapping[str, Any]) -> Call:
    return lambda: t["y"].fill_(0)


def _affine(torch: Any, t: Values, scalars: Mapping[str, Any]) -> Call:
    if "x" not in t:
        return lambda: t["y"].mul_(scalars["scale"]).add_(scalars["offset"])
    return lambda: t["x"] * scalars["a"] + scalars["b"]


def _where(torch: Any, t: Values, scalars: Mapping[str, Any]) -> Call:
    if "dy" in t:
        return lambda: (torch.where(t["cond"] != 0, t["dy"], 0), torch.where(t["cond"] != 0, 0, t["dy"]))
    condition = t["cond"].bool()
    return lambda: torch.where(condition, t["a"], t["b"], out=t["y"])


def _lerp(torch: Any, t: Values, scalars: Mapping[str, Any]) -> Call:
    return lambda: torch.lerp(t["a"], t["b"], scalars["p"], out=t["y"])


def _lerp_backward(torch: Any, t: Values, scalars: Mapping[str, Any]) -> Call:
    p = scalars["p"]
    return lambda: (torch.mul(t["dy"], 1 - p, out=t["da"]), torch.mul(t["dy"], p, out=t["db"]))
