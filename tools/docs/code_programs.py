# SPDX-License-Identifier: Apache-2.0
"""Example programs of functions on quantised arrays: codes, scales and zero points that belong together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from baracuda._functions.spec import Spec

X = "x = np.array([[0.5, 2, 3, -1], [1, 0.25, 4, -2]], np.float32)"
ZEROS = "np.array([1, 0], np.int32)"
# Scale and zero points by layout; those of a tensor are numbers.
SCALES = {
    "quantize_tensor": ("0.05", ""),
    "quantize_channels": ("np.array([0.05, 0.1], np.float32)  # a row each", ZEROS),
    "quantize_tokens": ("np.array([0.05, 0.1], np.float32)", ZEROS),
    "quantize_groups": ("np.array([[0.05, 0.1], [0.02, 0.2]], np.float32)  # of two columns each",
                        "np.array([[1, 0], [0, 2]], np.int32)"),
}  # fmt: skip
CODES = {
    "a": "np.array([[10, 20, 30], [1, 2, 3]], np.uint8)", "weight": "np.array([[1, 0, 2], [-1, 1, 0]], np.int8)",
    "a_scale": "np.array([0.1, 0.2], np.float32)  # a row each", "weight_scale": "np.array([0.5, 1], np.float32)",
    "bias": "np.array([1, -1], np.float32)", "a_zero": "np.array([8, 0], np.int32)", "weight_zero": ZEROS,
}  # fmt: skip
PRODUCTS = CODES | {
    "a_scale": "np.array([0.1], np.float32)", "b_scale": "np.array([0.5], np.float32)",
    "y_scale": "np.array([0.25], np.float32)", "y_zero": "np.array([3], np.int32)",
    "a_zero": "np.array([8], np.int32)", "b_zero": "np.array([1], np.int32)",
    "b": "np.array([[1, 0], [0, 2], [3, 1]], np.{code})",
}  # fmt: skip


def has_programs(specs: Sequence[Spec]) -> bool:
    layouts = {*SCALES, "quantized_linear", "integer_product"}
    return bool(specs) and all(spec.layout in layouts for spec in specs)


def programs(specs: Sequence[Spec]) -> Iterable[tuple[str, str]]:
    """(title, code) of each function of a page."""
    for spec in specs:
        lines = list(affine(spec)) if spec.layout in SCALES else list(products(spec))
        yield spec.name, "\n".join(lines)


def products(spec: Spec) -> Iterable[str]:
    operands = CODES if spec.layout == "quantized_linear" else PRODUCTS
    code = "uint8" if spec.name.endswith("u8") else "int8"
    for argument in spec.arrays:
        yield f"{argument.name} = {operands[argument.name].replace('{code}', code)}"
    yield f"print(bk.{spec.name}({', '.join(argument.name for argument in spec.arrays)}))"


def affine(spec: Spec) -> Iterable[str]:
    names = [argument.name for argument in spec.positional]
    if spec.name.startswith("dynamic_range"):
        yield X
        yield f"{', '.join(output.name for output in spec.outputs)} = bk.{spec.name}(x)"
        yield f"print({', '.join(output.name for output in spec.outputs)})"
        return
    scale, zeros = SCALES[spec.layout]
    if {"x", "q", "dy"} & set(names):
        yield X
    yield f"scale = {scale}"
    if zeros and "zero_point" in names:
        yield f"zero_point = {zeros}" if "learnable" not in spec.name else "zero_point = np.array([1, 0], np.float32)"
    if "q" in names:
        forward = spec.name.removeprefix("de")
        given = ", ".join(name for name in ("x", "scale", "zero_point") if name == "x" or name in names)
        yield f"q = bk.{forward}({given})"
    if "dy" in names:
        yield "dy = np.ones_like(x)"
    arguments = ", ".join(name for name in names if name != "axis")
    star = "*" if len(spec.outputs) > 1 else ""
    yield f"print({star}bk.{spec.name}({arguments}))"
