# SPDX-License-Identifier: Apache-2.0
"""Affine quantisation at the size of a layer's activations, beside a copy and PyTorch; products of 8-bit codes."""

import numpy as np

from tools.bench.check import cells
from tools.bench.record import Bench, Bound, Operand

COPY = (Bound("copy", 0.9),)
UNMEASURED = {
    **{
        f"{op}_per_{scope}_{{T}}_{code}": "the kernel of s8 codes with another range"
        for op in ("quantize", "dequantize") for scope in ("tensor", "channel", "token", "group")
        for code in ("u8", "u4")
    },
    "dynamic_range_quantize_per_token_asym_{T}_s8": "the kernel of u8 codes with another range",
    "matmul_integer_{T}_u8": "the product of s8 codes, behind a copy of b",
    "qlinear_matmul_{T}_u8": "the product of s8 codes, behind a copy of b",
}  # fmt: skip


def unchecked(_problem):
    return ""  # tests/cases has the reference


def codes_are_near(problem):
    """Some codes are those of x, within one of a tie."""
    x, scalars = problem.bench.arrays["x"], problem.bench.scalars
    positions = problem.data.rng.integers(0, int(np.prod(x.shape)), 64)
    values = np.asarray(cells(problem, "x", positions), np.float64)
    wanted = np.clip(np.rint(values / scalars["scale"]) + scalars["zero_point"], scalars["q_min"], scalars["q_max"])
    got = np.asarray(cells(problem, "q", positions), np.float64)
    return "" if np.abs(got - wanted).max() <= 1 else f"codes {got} of {values}"


def torch_tensor(torch, t, scalars):
    x = t["x"].float()
    return lambda: torch.quantize_per_tensor(x, scalars["scale"], scalars["zero_point"], torch.qint8)


def torch_channel(torch, t, scalars):
    shape, axis = scalars["shape4"], scalars["axis"]
    x, scale, zero = t["x"].float().reshape(shape), t["scale"].double(), t["zero_point"].long()
    return lambda: torch.quantize_per_channel(x, scale, zero, axis, torch.qint8)


def torch_rows(torch, t, scalars):
    """Quantisation per token and per group, as eager code spells it."""
    x, scale, zero = t["x"], t["scale"].unsqueeze(-1), t["zero_point"].unsqueeze(-1)
    grouped = x.reshape(*scale.shape[:-1], -1)
    return lambda: torch.clamp(torch.round(grouped / scale + zero), -128, 127).to(torch.int8)


def torch_dequantize(torch, t, scalars):
    q, scale, zero = t["q"], t["scale"].unsqueeze(-1), t["zero_point"].unsqueeze(-1)
    grouped = q.reshape(*scale.shape[:-1], -1)
    return lambda: (grouped - zero) * scale


def torch_fake(torch, t, scalars):
    x, s = t["x"], scalars
    return lambda: torch.fake_quantize_per_tensor_affine(x, s["scale"], s["zero_point"], s["q_min"], s["q_max"])


def torch_dynamic(torch, t, scalars):
    x = t["x"]

    def peer():
        scale = x.abs().amax(-1, keepdim=True).float() / 127
        return torch.clamp(torch.round(x / scale), -128, 127).to(torch.int8), scale

    return peer


def torch_int_mm(torch, t, scalars):
    a, w, sa, sw = t["act_q"], t["weight_q"].t(), t["scale_a"], t["scale_w"]
    return lambda: torch._int_mm(a, w) * sa[:, None] * sw


SPAN = {"q_min": -128, "q_max": 127}
TENSOR = {"scale": 0.03, "zero_point": 3}


def integers(shape, low=-128, high=127):
    return Operand(shape, lambda rng: rng.integers(low, high, shape, endpoint=True))


def scopes(n, d):
    """Scope -> (scalars, shape of x, shape of the scales)."""
    return {
        "channel": ({"shape4": (n, d // 64, 8, 8), "axis": 1}, (n * d,), (d // 64,)),
        "token": ({"n": n, "d": d}, (n, d), (n,)),
        "group": ({"outer": n, "axis_size": d, "group_size": 128}, (n, d), (n, d // 128)),
    }


def benches(backend):
    n, d = (16384, 4096) if backend == "cuda" else (1024, 4096)
    numel = n * d
    x, q, y = Operand((numel,), "normal"), Operand((numel,)), Operand((numel,))
    yield Bench(
        name="quantize per tensor", row="quantize_per_tensor_{T}_s8", other="i8", dtypes=("f32", "bf16", "f16", "f64"),
        check=codes_are_near, arrays={"x": x, "q": q}, scalars=TENSOR | SPAN, torch=(torch_tensor,), bounds=COPY,
    )  # fmt: skip
    yield Bench(
        name="quantize per tensor, 4 bits", row="quantize_per_tensor_{T}_s4", other="u8", dtypes=("f32", "bf16"),
        check=unchecked, arrays={"x": x, "q": Operand((numel // 2,))},
        scalars=TENSOR | {"q_min": -8, "q_max": 7, "numel": numel},
    )  # fmt: skip
    codes = integers((numel,))
    yield Bench(
        name="dequantize per tensor", row="dequantize_per_tensor_{T}_s8", other="i8",
        dtypes=("f32", "bf16", "f16", "f64"), check=unchecked, arrays={"q": codes, "x": y}, scalars=TENSOR, bounds=COPY,
    )  # fmt: skip
    yield Bench(
        name="dequantize per tensor, 4 bits", row="dequantize_per_tensor_{T}_s4", other="u8", dtypes=("f32", "bf16"),
        check=unchecked, arrays={"q": integers((numel // 2,), 0, 255), "x": y}, scalars=TENSOR | {"numel": numel},
    )  # fmt: skip
    dy = Operand((numel,), "normal")
    for name, row in (
        ("quantize", "quantize_per_tensor_backward_{T}"),
        ("fake quantize", "fake_quantize_backward_{T}"),
    ):
        yield Bench(
            name=f"{name} per tensor backward", row=row, dtypes=("f32", "bf16"), check=unchecked,
            arrays={"x": x, "dy": dy, "dx": y}, scalars=TENSOR | SPAN, bounds=COPY,
        )  # fmt: skip
    yield Bench(
        name="fake quantize", row="fake_quantize_{T}", dtypes=("f32", "bf16"), check=unchecked, arrays={"x": x, "y": y},
        scalars=TENSOR | SPAN, torch=(torch_fake,), bounds=COPY,
    )  # fmt: skip
    yield Bench(
        name="dequantize per tensor backward", row="dequantize_per_tensor_backward_{T}", dtypes=("f32", "bf16"),
        check=unchecked, arrays={"dy": dy, "dq": y}, scalars={"scale": 0.03}, bounds=COPY,
    )  # fmt: skip
    for scope, (scalars, shape, own) in scopes(n, d).items():
        scale = {"scale": Operand(own, "positive"), "zero_point": integers(own, -5, 5)}
        given, made, dys = Operand(shape, "normal"), Operand(shape), Operand(shape, "normal")
        peer = torch_channel if scope == "channel" else torch_rows
        half = {"numel": numel} if scope == "channel" else {}
        yield Bench(
            name=f"quantize per {scope}", row=f"quantize_per_{scope}_{{T}}_s8", other="i8", dtypes=("f32", "bf16"),
            check=unchecked, arrays={"x": given, **scale, "q": made}, scalars=scalars | SPAN,
            torch=(peer,), bounds=COPY,
        )  # fmt: skip
        yield Bench(
            name=f"quantize per {scope}, 4 bits", row=f"quantize_per_{scope}_{{T}}_s4", other="u8", dtypes=("bf16",),
            check=unchecked, arrays={"x": given, **scale, "q": Operand((numel // 2,))},
            scalars=scalars | half | {"q_min": -8, "q_max": 7},
        )  # fmt: skip
        yield Bench(
            name=f"dequantize per {scope}", row=f"dequantize_per_{scope}_{{T}}_s8", other="i8", dtypes=("f32", "bf16"),
            check=unchecked, arrays={"q": integers(shape), **scale, "x": made}, scalars=scalars,
            torch=() if scope == "channel" else (torch_dequantize,), bounds=COPY,
        )  # fmt: skip
        yield Bench(
            name=f"dequantize per {scope}, 4 bits", row=f"dequantize_per_{scope}_{{T}}_s4", other="u8",
            dtypes=("bf16",), check=unchecked, scalars=scalars | half,
            arrays={"q": integers((numel // 2,), 0, 255), **scale, "x": made},
        )  # fmt: skip
        yield Bench(
            name=f"quantize per {scope} backward", row=f"quantize_per_{scope}_backward_{{T}}", dtypes=("bf16",),
            check=unchecked, arrays={"dy": dys, "x": given, **scale, "dx": made}, scalars=scalars | SPAN, bounds=COPY,
        )  # fmt: skip
        yield Bench(
            name=f"dequantize per {scope} backward", row=f"dequantize_per_{scope}_backward_{{T}}", dtypes=("bf16",),
            check=unchecked, arrays={"dy": dys, "scale": scale["scale"], "dq": made}, scalars=scalars, bounds=COPY,
        )  # fmt: skip
        if scope != "channel":
            continue
        for end, arrays in (
            ("", {"x": given, **scale, "y": made}),
            ("_backward", {"x": given, **scale, "dy": dys, "dx": made}),
        ):
            yield Bench(
                name=f"fake quantize per channel{end.replace('_', ' ')}", row=f"fake_quantize_per_channel{end}_{{T}}",
                dtypes=("f32",), check=unchecked, arrays=arrays, scalars=scalars | SPAN, bounds=COPY,
            )  # fmt: skip
        learned = {"scale": scale["scale"], "zero_point": Operand(own, "normal")}
        sums = {"dx": made, "dscale": Operand(own), "dzero_point": Operand(own)}
        for end, arrays in (
            ("", {"x": given, **learned, "y": made}),
            ("_backward", {"dy": dys, "x": given, **learned, **sums}),
        ):
            yield Bench(
                name=f"fake quantize learnable{end.replace('_', ' ')}", row=f"fake_quantize_learnable{end}_{{T}}",
                dtypes=("f32",), check=unchecked, arrays=arrays, workspace=bool(end),
                scalars=scalars | SPAN | {"grad_factor": 1.0, "numel": numel},
            )  # fmt: skip
    shape = (n, d)
    for kind, code, span in (("sym", "s8", SPAN), ("asym", "u8", {"q_min": 0, "q_max": 255})):
        zeros = {} if kind == "sym" else {"zero_point": Operand((n,))}
        yield Bench(
            name=f"dynamic quantize per token, {kind}metric",
            row=f"dynamic_range_quantize_per_token_{kind}_{{T}}_{code}",
            other="i8" if code == "s8" else "u8", dtypes=("f32", "bf16"), check=unchecked, scalars=span, workspace=True,
            arrays={"x": Operand(shape, "normal"), "scale": Operand((n,)), **zeros, "q": Operand(shape)},
            torch=(torch_dynamic,), bounds=COPY,
        )  # fmt: skip
    yield from products(backend)


def products(backend):
    m, n, k = (4096, 4096, 4096) if backend == "cuda" else (512, 512, 1024)
    flops = 2 * m * n * k
    yield Bench(
        name="quantized linear w8a8", row="quantized_linear_w8a8_{U}", other="f32", dtypes=("i8",), check=unchecked,
        arrays={"weight_q": integers((n, k)), "act_q": integers((m, k)), "scale_a": Operand((m,), "positive"),
                "scale_w": Operand((n,), "positive"), "y": Operand((m, n))},
        scalars={"m": m, "c_out": n, "k": k}, torch=(torch_int_mm,), flops=flops,
    )  # fmt: skip
    scales = {"a_scale": Operand((m,), "positive"), "weight_scale": Operand((n,), "positive")}
    yield Bench(
        name="quantized linear, zero points", row="quantized_linear_{T}_{U}", other="bf16", dtypes=("u8", "i8"),
        check=unchecked, workspace=True, flops=flops,
        arrays={"a": integers((m, k), 0, 127), "weight": integers((n, k)), **scales, "a_zero": integers((m,), 0, 9),
                "weight_zero": integers((n,), 0, 9), "bias": Operand((n,), "normal"), "y": Operand((m, n))},
        scalars={"m": m, "n": n, "k": k, "a_scales": m, "a_zeros": m, "weight_scales": n, "weight_zeros": n,
                 "activation": 0},
    )  # fmt: skip
    zeros = {"a_zero": integers((1,), 0, 9), "b_zero": integers((1,), 0, 9)}
    codes = {"a": integers((m, k), 0, 127), "b": integers((k, n))}
    counts = {"m": m, "n": n, "k": k, "layout": 0, "a_zeros": 1, "b_zeros": 1}
    yield Bench(
        name="matmul_integer", row="matmul_integer_{T}_i8", other="i8", dtypes=("u8", "i8"), check=unchecked,
        workspace=True, arrays={**codes, **zeros, "y": Operand((m, n))}, scalars=counts, flops=flops,
    )  # fmt: skip
    ones = {name: Operand((1,), "positive") for name in ("a_scale", "b_scale", "y_scale")}
    yield Bench(
        name="qlinear_matmul", row="qlinear_matmul_{T}_i8", other="i8", dtypes=("u8",), check=unchecked, workspace=True,
        arrays={"a": codes["a"], "a_scale": ones["a_scale"], "a_zero": zeros["a_zero"], "b": codes["b"],
                "b_scale": ones["b_scale"], "b_zero": zeros["b_zero"], "y_scale": ones["y_scale"],
                "y_zero": integers((1,), 0, 9), "y": Operand((m, n))},
        scalars=counts | {"a_scales": 1, "b_scales": 1}, flops=flops,
    )  # fmt: skip
