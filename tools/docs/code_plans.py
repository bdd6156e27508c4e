# SPDX-License-Identifier: Apache-2.0
"""Example programs of plans on quantised arrays: operands by their names and dtypes, shapes as the plan says them."""

from __future__ import annotations

from collections.abc import Iterable

import baracuda as bk
from tools.docs import gguf_plans

SCOPES = {"Channel": "(2, 4, 1, 1), 0", "Token": "2, 4", "Group": "2, 4, 2"}
F32 = "element=bk.f32"
# Page -> plans and what their descriptors take.
PLANS: dict[str, list[tuple[str, str]]] = {
    "dequantize_per_tensor_s8": [("DequantizePerTensor", f"8, 0.05, 1, {F32}")],
    "quantize_per_tensor": [("QuantizePerTensorBackward", f"8, 0.05, 1, {F32}")],
    "dequantize_per_tensor": [("DequantizePerTensorBackward", f"8, 0.05, {F32}")],
    "fake_quantize": [("FakeQuantize", f"8, 0.05, 1, {F32}"), ("FakeQuantizeBackward", f"8, 0.05, 1, {F32}")],
    "fake_quantize_per_channel": [
        (f"FakeQuantizePerChannel{end}", f"{SCOPES['Channel']}, {F32}") for end in ("", "Backward")
    ],
    "fake_quantize_learnable": [
        (f"FakeQuantizeLearnable{end}", f"{SCOPES['Channel']}, -8, 7, {F32}") for end in ("", "Backward")
    ],
    "dynamic_range_quantize_per_token_sym_s8": [("DynamicRangeQuantize", f"2, 4, {F32}")],
    "quantized_linear_w8a8": [("W8A8Linear", "m=2, c_out=2, k=4, element=bk.s8")],
    "quantized_linear": [
        ("QuantizedLinearCodes", "m=2, n=2, k=4, a_scales=2, a_zeros=1, weight_scales=2, weight_zeros=1, element=bk.u8")
    ],
    "matmul_integer_i8": [("MatmulInteger", "m=2, n=2, k=4, a_zeros=1, b_zeros=1, element=bk.u8")],
    "qlinear_matmul_i8": [("QLinearMatmul", "m=2, n=2, k=4, a_zeros=1, b_zeros=1, element=bk.u8")],
}
for _code in ("u8", "s4", "u4"):
    PLANS[f"dequantize_per_tensor_{_code}"] = [("DequantizePerTensor", f"8, 0.05, 1, input_element=bk.{_code}, {F32}")]
for _scope, _shape in SCOPES.items():
    _page = f"quantize_per_{_scope.lower()}"
    PLANS[f"{_page}_s8"] = [(f"QuantizePer{_scope}", f"{_shape}, {F32}")]
    PLANS[_page] = [(f"QuantizePer{_scope}Backward", f"{_shape}, {F32}")]
    PLANS[f"de{_page}_s8"] = [(f"DequantizePer{_scope}", f"{_shape}, {F32}")]
    PLANS[f"de{_page}"] = [(f"DequantizePer{_scope}Backward", f"{_shape}, {F32}")]


def has_programs(page: str) -> bool:
    return page in PLANS or bool(gguf_plans.program(page))


def programs(page: str) -> Iterable[tuple[str, str]]:
    """(title, code) of the plans of a page."""
    if code := gguf_plans.program(page):
        yield "Plan", code
    for name, fields in PLANS.get(page, ()):
        yield f"{name}Plan", "\n".join(program(name, fields))


def program(name: str, fields: str) -> Iterable[str]:
    descriptor = f"bk.{name}Descriptor({fields})"
    plan = eval(f"bk.{name}Plan.select(None, {descriptor})", {"bk": bk})
    given, results = [], []
    for operand in plan.operands:
        kinds = plan._forms[0].kinds(operand.name)
        if not kinds:
            continue
        if operand.output:
            results.append(operand.name)
            yield f"{operand.name} = bk.empty({operand.extents}, bk.{kinds[-1]})"
            given.append(f"{operand.name}={operand.name}")
        else:
            given.append(f"{operand.name}=bk.upload({values(operand.name, operand.extents, kinds[-1])})")
    yield f"plan = bk.{name}Plan.select(\n    None, {descriptor}\n)"
    yield f"args = bk.{name}Args(\n    " + ",\n    ".join(given) + ",\n)"
    yield "plan.run(None, bk.workspace(plan), args)"
    for result in results:
        yield f"print(bk.download({result}))"


def values(name: str, extents: tuple[int, ...], kind: bk.ElementKind) -> str:
    """A NumPy expression: scales are 0.05, zero points 1, codes and numbers rise."""
    dtype = f"np.{kind.numpy_dtype}"
    if "zero" in name or "scale" in name:
        return f"np.full({extents}, {1 if 'zero' in name else 0.05}, {dtype})"
    count = 1
    for extent in extents:
        count *= extent
    shape = "" if len(extents) == 1 else f".reshape{extents}"
    return f"np.arange({count}, dtype={dtype}){shape}"
