# SPDX-License-Identifier: Apache-2.0
"""Shape rules of float-coded formats: the extents of codes and scales follow from those of the values."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

from baracuda._call.scalars import INT32_MAX, as_flag, as_integer
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, check_shape, dense_as, member
from baracuda._functions.spec import Spec
from baracuda.errors import InvalidProblemError
from baracuda.guarantee import BATCH_INVARIANT
from baracuda.kinds import Fp8Scaling, MxFormat, ScaleLayout
from baracuda.quantize.shapes import fp8_scale_shape, mx_code_bytes, mx_scale_shape

Shapes = Mapping[str, Shape]
Numbers = Mapping[str, Any]

_OUTER_BLOCK = 256


def _matrix(name: str, shapes: Shapes) -> Shape:
    if len(shapes[name]) != 2:
        raise InvalidProblemError(f"{name} has shape {shapes[name]}, must be a matrix")
    return shapes[name]


def _rows(name: str, shapes: Shapes) -> tuple[Shape, int, int]:
    """Leading axes, their elements and the last extent."""
    if not shapes[name]:
        raise InvalidProblemError(f"{name} has shape (), must have an axis")
    *leading, last = shapes[name]
    return tuple(leading), math.prod(leading), last


def _of(values: dict[str, Any], extents: Mapping[str, Shape], shapes: dict[str, Shape]) -> CallMeta:
    views = {name: functools.partial(dense_as, extents[name]) for name in extents}
    return CallMeta(values, extents, shapes, op_views=views)


def _nf4_dequantize(spec: Spec, shapes: Shapes, numbers: Numbers) -> CallMeta:
    (pairs, k), (n, blocks) = _matrix("w_packed", shapes), _matrix("absmax", shapes)
    if n != 2 * pairs or not blocks or k % blocks:
        raise InvalidProblemError(
            f"absmax has shape {(n, blocks)}, must be ({2 * pairs}, a divisor of {k}) for w_packed {(pairs, k)}"
        )
    extents = {"w_packed": (pairs, k), "absmax": (n, blocks), "out": (n, k)}
    return _of({"n": n, "k": k, "block_size": k // blocks}, extents, {"out": (n, k)})


def _each(spec: Spec, shapes: Shapes, numbers: Numbers) -> CallMeta:
    """Elements one by one."""
    (taken,), (made,) = spec.arrays, spec.outputs
    shape = shapes[taken.name]
    flat = (math.prod(shape),)
    return _of({"numel": flat[0]}, {taken.pointer: flat, made.pointer: flat}, {made.pointer: shape})


def _quantize_mx(spec: Spec, shapes: Shapes, numbers: Numbers) -> CallMeta:
    form = member(MxFormat, "mx_format", numbers["mx_format"])
    layout = member(ScaleLayout, "scale_layout", numbers["scale_layout"])
    leading, rows, n = _rows("x", shapes)
    width, scales = mx_code_bytes(n, form), mx_scale_shape(rows, n, form, layout)
    extents: dict[str, Shape] = {
        "x": (rows, n), "tensor_scale": (1,), "codes": (rows, width), "scales": scales
    }  # fmt: skip
    of_result = (*leading, scales[1]) if layout == ScaleLayout.LINEAR else scales
    return _of({"rows": rows, "n": n}, extents, {"codes": (*leading, width), "scales": of_result})


def _dequantize_mx(spec: Spec, shapes: Shapes, numbers: Numbers) -> CallMeta:
    form = member(MxFormat, "mx_format", numbers["mx_format"])
    layout = member(ScaleLayout, "scale_layout", numbers["scale_layout"])
    leading, rows, width = _rows("codes", shapes)
    each = mx_code_bytes(form.block, form)
    if width % each:
        raise InvalidProblemError(f"codes has shape {shapes['codes']}, whose last extent must be a multiple of {each}")
    n = width // each * form.block
    scales = mx_scale_shape(rows, n, form, layout)
    wanted = (*leading, scales[1]) if layout == ScaleLayout.LINEAR else scales
    check_shape("scales", shapes["scales"], wanted)
    extents = {"codes": (rows, width), "scales": scales, "tensor_scale": (1,), "y": (rows, n)}
    return _of({"rows": rows, "n": n}, extents, {"y": (*leading, n)})


def _mx_matmul(spec: Spec, shapes: Shapes, numbers: Numbers) -> CallMeta:
    form = member(MxFormat, "mx_format", numbers["mx_format"])
    layout = member(ScaleLayout, "scale_layout", numbers["scale_layout"])
    leading, m, k = _rows("x", shapes)
    n = _matrix("codes", shapes)[0]
    check_shape("codes", shapes["codes"], (n, mx_code_bytes(k, form)))
    scales = mx_scale_shape(n, k, form, layout)
    check_shape("scales", shapes["scales"], scales)
    check_shape("bias", shapes.get("bias", (n,)), (n,))
    extents = {
        "x": (m, k), "codes": shapes["codes"], "scales": scales, "tensor_scale": (1,), "bias": (n,), "y": (m, n)
    }  # fmt: skip
    backend = BATCH_INVARIANT * as_flag("batch_invariant", numbers["batch_invariant"])
    values = {"m": m, "n": n, "k": k, "mx_format": int(form), "scale_layout": int(layout), "backend": backend}
    return _of(values, extents, {"y": (*leading, n)})


def _block_size(numbers: Numbers) -> int:
    return as_integer("block_size", numbers["block_size"], 1, INT32_MAX)


def _quantize_blocks(spec: Spec, shapes: Shapes, numbers: Numbers) -> CallMeta:
    """Flat arrays in blocks: 4 bits, or 8 with a map."""
    numel, block = math.prod(shapes["x"]), _block_size(numbers)
    codes = numel if "map" in shapes else -(-numel // 2)
    extents: dict[str, Shape] = {
        "x": (numel,), "map": (256,), "offset": (1,), "codes": (codes,), "absmax": (-(-numel // block),)
    }  # fmt: skip
    mine = {p.name: extents[p.name] for p in spec.row.pointers}
    of_codes = shapes["x"] if "map" in shapes else (codes,)
    return _of({"numel": numel}, mine, {"codes": of_codes, "absmax": extents["absmax"]})


def _dequantize_8bit(spec: Spec, shapes: Shapes, numbers: Numbers) -> CallMeta:
    shape, block = shapes["codes"], _block_size(numbers)
    numel = math.prod(shape)
    extents: dict[str, Shape] = {
        "codes": (numel,), "absmax": (-(-numel // block),), "map": (256,), "offset": (1,), "y": (numel,)
    }  # fmt: skip
    return _of({"numel": numel}, extents, {"y": shape})


def _maxima(numel: int, numbers: Numbers) -> dict[str, Shape]:
    blocks = -(-numel // _block_size(numbers))
    return {
        "codes": (-(-numel // 2),), "absmax": (blocks,), "absmax_codes": (blocks,), "absmax_map": (256,),
        "absmax_outer": (-(-blocks // _OUTER_BLOCK),), "absmax_offset": (1,),
    }  # fmt: skip


def _dequantize_4bit(spec: Spec, shapes: Shapes, numbers: Numbers) -> CallMeta:
    most = 2 * math.prod(shapes["codes"])
    numel = most if numbers["numel"] is None else as_integer("numel", numbers["numel"], 0)
    if -(-numel // 2) != most // 2:
        raise InvalidProblemError(f"numel is {numel}, but codes has {most // 2} bytes")
    return _of({"numel": numel}, _maxima(numel, numbers) | {"y": (numel,)}, {"y": (numel,)})


def _gemv_4bit(spec: Spec, shapes: Shapes, numbers: Numbers) -> CallMeta:
    n = as_integer("n", numbers["n"], 0, INT32_MAX)
    leading, m, k = _rows("x", shapes)
    extents = _maxima(n * k, numbers) | {"x": (m, k), "bias": (n,), "y": (m, n)}
    return _of({"m": m, "n": n, "k": k}, extents, {"y": (*leading, n)})


def _fp8(spec: Spec, shapes: Shapes, numbers: Numbers) -> CallMeta:
    scaling = member(Fp8Scaling, "scaling", numbers["scaling"])
    rows, columns = _matrix("x", shapes)
    own, across = fp8_scale_shape(rows, columns, scaling), fp8_scale_shape(columns, rows, scaling)
    of_results: dict[str, Shape] = {"y": (rows, columns), "scale": own, "y_t": (columns, rows), "scale_t": across}
    extents: dict[str, Shape] = {
        **of_results, "x": (rows, columns), "scale": (math.prod(own),), "scale_t": (math.prod(across),)
    }  # fmt: skip
    if "scale" in shapes:
        check_shape("scale", shapes["scale"], own)
    mine = {p.name: extents[p.name] for p in spec.row.pointers}
    results = {out.pointer: of_results[out.pointer] for out in spec.outputs}
    return _of({"rows": rows, "columns": columns}, mine, results)


_RULES: dict[str, Callable[[Spec, Shapes, Numbers], CallMeta]] = {
    "nf4_dequantize_{T}": _nf4_dequantize, "encode_floats_{T}": _each, "decode_floats_{T}": _each,
    "quantize_mx_{T}": _quantize_mx, "dequantize_mx_{T}": _dequantize_mx, "quantize_4bit_{T}": _quantize_blocks,
    "quantize_8bit_blocks_{T}": _quantize_blocks, "dequantize_8bit_blocks_{T}": _dequantize_8bit,
    "dequantize_4bit_{T}": _dequantize_4bit, "gemv_4bit_{T}": _gemv_4bit, "quantize_fp8_{T}_{U}": _fp8,
    "dequantize_fp8_{T}_{U}": _fp8, "mx_matmul_{T}": _mx_matmul,
}  # fmt: skip


def of_codes(spec: Spec, shapes: Shapes, numbers: Numbers) -> CallMeta:
    """The rule of the function's row."""
    return _RULES[spec.row.name](spec, shapes, numbers)
