# SPDX-License-Identifier: Apache-2.0
"""Shape inference: the shapes of results, and the C scalars of a call.

Each shape rule, named by `Spec.layout`, is a function here or in a module beside this one. It makes a CallMeta from the
shapes of the arrays and the numbers of a call.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from baracuda._call import domains
from baracuda._call.scalars import (
    INT32_MAX,
    INT32_MIN,
    UINT64_MAX,
    as_flag,
    as_integer,
    as_integers,
    as_real,
    at_least,
    exceeds,
)
from baracuda._functions.flags import FLAGS
from baracuda._functions.shape_rules import (
    accumulated,
    attention,
    bags,
    convolution,
    copies,
    experts,
    fourier,
    gemm,
    indexing,
    losses,
    matrices,
    normalization,
    ordering,
    pooling,
    random,
    recurrent,
    reductions,
    rotary,
    searching,
    serving,
    state_space,
)
from baracuda._functions.shape_rules.call_meta import CallMeta, Shape, axis_of, dense_as, if_contiguous, member
from baracuda._functions.shape_rules.image import deform, pixels, regions, resample
from baracuda._functions.shape_rules.quantize import blocks, float_codes, quantizing
from baracuda._functions.spec import REQUIRED, Spec
from baracuda._library.op_table import Row
from baracuda.descriptor import MAX_RANK
from baracuda.dtypes import ElementKind
from baracuda.elementwise.affine import AffineDescriptor
from baracuda.elementwise.fill import FillDescriptor, stored_high
from baracuda.embeddings.bags import EmbeddingBagDescriptor
from baracuda.errors import InvalidProblemError, UnsupportedError
from baracuda.guarantee import BATCH_INVARIANT
from baracuda.indexing.masked import bits_high_of, bits_of
from baracuda.kinds import (
    CellKind,
    CodeBook,
    ColorConversion,
    EmbeddingBagMode,
    ExpertGroupScore,
    ExpertScoring,
    FloatFormat,
    Fp8Scaling,
    IntEnum,
    LossReduction,
    MxFormat,
    QuantileInterpolation,
    ScaleLayout,
    ScaleRule,
    ScatterReduction,
)


def infer_shapes(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """The shapes and scalars of a call. `shapes` has the arrays that are not None, by their Python names."""
    if spec.layout != "pointwise":
        for each in spec.arrays:
            if each.name not in shapes and not each.pointer and each.default is REQUIRED:
                raise InvalidProblemError(f"{each.name} is None, but is needed for its shape")
    meta = _SHAPE_RULES[spec.layout](spec, shapes, numbers)
    for name, extents in meta.extents.items():
        if len(extents) > MAX_RANK:
            named = spec.names.get(name, name)
            raise UnsupportedError(f"{named} has rank {len(extents)}; at most {MAX_RANK} is supported")
    return meta


def infer_served(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> tuple[Spec, CallMeta]:
    """The first row of a function that serves the call, and its shapes."""
    wrong: Exception | None = None
    for each in spec.serving({**shapes, **numbers}):
        try:
            return each, infer_shapes(each, shapes, numbers)
        except (InvalidProblemError, UnsupportedError) as error:
            wrong = error if wrong is None or each is spec else wrong
    assert wrong is not None
    raise wrong


def _pointwise(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    shape = broadcast(shapes)
    pointers = [param.name for param in spec.row.params if param.is_pointer]
    own = {out.pointer: spec.names.get(out.pointer[1:], out.pointer[1:]) for out in spec.outputs}
    results = {
        pointer: shapes.get(name, shape) if len(own) > 1 or name in shapes else shape for pointer, name in own.items()
    }
    if spec.name.endswith("_backward") and len(own) == 1 and not spec.is_partial and len(spec.arrays) < 3:
        results = dict.fromkeys(own, shape)
    return CallMeta(_same_shape(shape), dict.fromkeys(pointers, shape), results)


def broadcast(shapes: Mapping[str, Shape]) -> Shape:
    """The shape to which arrays broadcast. Extents are only compared, since they may be symbols of torch.compile."""
    found: list[int] = []
    for shape in shapes.values():
        found[:0] = [1] * (len(shape) - len(found))
        for axis, extent in enumerate(shape, len(found) - len(shape)):
            if extent == 1 or extent == found[axis]:
                continue
            if found[axis] != 1:
                named = ", ".join(f"{name} {extents}" for name, extents in shapes.items())
                raise InvalidProblemError(f"shapes do not broadcast: {named}")
            found[axis] = extent
    return tuple(found)


def _same_shape(shape: Shape) -> dict[str, Any]:
    return {"numel": math.prod(shape), "rank": len(shape), "shape": shape}


def _named(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    row, values = spec.row, {}
    for number in spec.numbers:
        if any(param.name == number.number and param.role == "extent" for param in row.params):
            values[number.number] = as_integer(number.name, numbers[number.name], 0, INT32_MAX)
    words = {param.name: param.shape.split(", ") for param in row.params if param.is_pointer}
    for argument in spec.arrays:
        if argument.name not in shapes:  # an optional array that is None
            continue
        expected, have = words[argument.pointer], shapes[argument.name]
        wanted = [int(word) if word.isdigit() else values.get(word) for word in expected]
        if len(have) != len(wanted) or any(w is not None and w != h for w, h in zip(wanted, have)):
            shown = ", ".join(
                word if w is None else f"{word} = {w}" if not word.isdigit() else word
                for word, w in zip(expected, wanted)
            )
            raise InvalidProblemError(f"{argument.name} has shape {have}, expected ({shown})")
        values |= {word: extent for word, extent in zip(expected, have) if not word.isdigit()}
    extents = {name: tuple([int(w) if w.isdigit() else values[w] for w in each]) for name, each in words.items()}
    for name, value in values.items():
        if exceeds(INT32_MAX, value):
            raise InvalidProblemError(f"{name} is {value}, must be <= {INT32_MAX}")
    return CallMeta(values, extents, {out.pointer: extents[out.pointer] for out in spec.outputs})


def _embedding(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    """Embeddings: indices of any shape, which C takes flattened."""
    index = shapes["indices"]
    if len(index) == 1:
        return _named(spec, shapes, numbers)
    flat = {**shapes, "indices": (math.prod(index),)}
    if "dout" in shapes:
        if shapes["dout"][:-1] != index or not shapes["dout"]:
            raise InvalidProblemError(
                f"dout has shape {shapes['dout']}, expected that of indices, {index}, and embedding_dim"
            )
        flat["dout"] = (math.prod(index), shapes["dout"][-1])
    meta = _named(spec, flat, numbers)
    if spec.name == "embedding":
        meta.shapes["out"] = (*index, meta.values["embedding_dim"])
    meta.op_views = {
        name: functools.partial(dense_as, meta.extents[name])
        for name in ("indices", "dout", "out")
        if name in meta.extents
    }
    return meta


def _gated(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    whole = shapes["x"]
    axis = axis_of("axis", numbers["axis"], whole)
    if whole[axis] % 2:
        raise InvalidProblemError(f"x has shape {whole}, must be even along axis {axis}")
    half = (*whole[:axis], whole[axis] // 2, *whole[axis + 1 :])
    values = {"output_numel": math.prod(half), "rank": len(half), "output_shape": half, "split_dim": axis}
    extents = {
        param.name: whole if param.name in ("x", "dx") else half for param in spec.row.params if param.is_pointer
    }
    return CallMeta(values, extents, {out.pointer: extents[out.pointer] for out in spec.outputs}, offset_axis=axis)


def _along_axis(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    (first, shape), *_ = shapes.items()
    may_broadcast = {a.name for a in spec.arrays if a.default is None}
    axis = axis_of("axis", numbers["axis"], shape)
    kind = next(param.name for param in spec.row.params if param.role == "axis").removesuffix("_axis")
    for name, have in shapes.items():
        if have != shape and (name not in may_broadcast or broadcast({first: shape, name: have}) != shape):
            raise InvalidProblemError(f"{name} has shape {have}, expected that of {first}, {shape}")
    values = _same_shape(shape) | {f"{kind}_axis": axis, f"{kind}_extent": shape[axis]}
    pointers = [param.name for param in spec.row.params if param.is_pointer]
    op_views = {param.name: if_contiguous for param in spec.row.pointers if param.shape == "numel"}
    shapes_of = {out.pointer: shape for out in spec.outputs}
    return CallMeta(values, dict.fromkeys(pointers, shape), shapes_of, offset_axis=axis, op_views=op_views)


def _prelu(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    shape, weight = shapes["x"], shapes["weight"]
    single = math.prod(weight) == 1 and len(weight) < 2
    axis = -1 if single else axis_of("axis", numbers["axis"], shape)
    if not single and weight != (shape[axis],):
        raise InvalidProblemError(f"weight has shape {weight}, expected one element or ({shape[axis]},)")
    inner = shape[axis + 1 :] if axis >= 0 else ()
    values = _same_shape(shape) | {
        "channel_stride": at_least(1, math.prod(inner)), "channel_extent": at_least(1, math.prod(weight)),
        "scalar_weight": int(single),
    }  # fmt: skip
    pointers = [param.name for param in spec.row.params if param.is_pointer]
    extents = {name: weight if name in ("weight", "dweight") else shape for name in pointers}
    return CallMeta(values, extents, {out.pointer: extents[out.pointer] for out in spec.outputs}, channel_axis=axis)


def _repeat(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    given = numbers["repeats"]
    times = as_integers("repeats", (given,) if isinstance(given, (int, np.integer)) else given, 1, INT32_MAX)
    ((name, shape),) = shapes.items()
    rank = max(len(times), len(shape))
    times, shape = (1,) * (rank - len(times)) + times, (1,) * (rank - len(shape)) + shape
    if name == "dy" and any(extent % t for extent, t in zip(shape, times)):
        raise InvalidProblemError(f"dy has shape {shape}, must be a multiple of repeats {times}")
    small = tuple(extent // t for extent, t in zip(shape, times)) if name == "dy" else shape
    large = tuple(extent * t for extent, t in zip(small, times))
    values = {
        "rank": rank, "input_shape": small, "output_shape": large, "repeats": times,
        "input_numel": math.prod(small), "output_numel": math.prod(large),
    }  # fmt: skip
    extents = {"x": small, "dx": small, "y": large, "dy": large}
    return CallMeta(values, extents, {out.pointer: extents[out.pointer] for out in spec.outputs})


def _loss(spec: Spec, shapes: Mapping[str, Shape], numbers: Mapping[str, Any]) -> CallMeta:
    given = numbers["reduction"]
    if not (isinstance(given, str) and given == "batchmean") or not any(
        param.name == "batch" for param in spec.row.params
    ):
        given = LossReduction(_enum_value(LossReduction, "reduction", given)).name.lower()
    return losses.loss(spec, shapes, numbers, given)


_SHAPE_RULES: dict[str, Callable[[Spec, Mapping[str, Shape], Mapping[str, Any]], CallMeta]] = {
    "pointwise": _pointwise, "named": _named, "rows_of_indices": _embedding, "gated": _gated, "prelu": _prelu,
    "repeat": _repeat,
    "scan": _along_axis, "softmax": _along_axis, "norm": normalization.rows, "channels": normalization.channels,
    "reduce": reductions.along_axes, "reduce_axes": reductions.over_axes,
    "reduce_backward": reductions.gradient, "reduce_to": reductions.to_shape,
    "trace": reductions.trace, "trace_backward": reductions.trace_gradient, "loss": _loss, "matmul": gemm.matmul,
    "matmul_backward": gemm.matmul_backward, "linear": gemm.linear,
    "linear_gated": gemm.linear_gated, "linear_backward": gemm.linear_backward,
    "grouped_gemm": gemm.grouped, "grouped_gemm_backward": gemm.grouped_backward,
    "accumulated": accumulated.along_axis,
    "rope": rotary.by_positions, "rope_apply": rotary.by_tables, "rope_apply_thd": rotary.of_tokens,
    "rope_tables": rotary.of_sums,
    "attention": attention.dense, "attention_varlen": attention.packed,
    "flip": copies.flip, "roll": copies.roll, "permute": copies.permute, "triangle": copies.triangle, "pad": copies.pad,
    "concat": copies.concat, "unfold": copies.unfold, "image_windows": copies.image_windows,
    "repeat_interleave": copies.repeat_interleave,
    "gather": indexing.gather, "index_select": indexing.select, "scatter": indexing.scatter,
    "scatter_backward": indexing.scatter_backward, "weighted_bags": bags.by_offsets,
    "last_offset_bags": bags.by_offsets, "sparse_bags": bags.by_offsets, "max_bags": bags.by_offsets,
    "numbered": indexing.numbered, "gather_rows": indexing.rows, "selection": indexing.selection,
    "masked_scatter": indexing.selection, "nonzero": indexing.nonzero, "one_hot": indexing.one_hot,
    "topk": ordering.top_k, "topk_backward": ordering.top_k_backward, "topk_segments": ordering.top_k_segments,
    "order_statistic": ordering.order_statistic, "quantile": ordering.quantile,
    "quantile_backward": ordering.quantile_backward,
    "searchsorted": searching.positions, "isin_sorted": searching.membership, "bins": searching.bins,
    "edge_bins": searching.edge_bins, "unique_runs": searching.runs, "unique": searching.unique,
    "masked": _pointwise, "dropout": random.dropout, "random": random.array, "multinomial": random.multinomial,
    "dequantize_blocks": blocks.dequantize_blocks, "take_blocks": blocks.take_blocks,
    "quantize_blocks": blocks.quantize_blocks,
    "quantize_activations": blocks.quantize_activations,
    "quantize_tensor": quantizing.of_tensor, "quantize_channels": quantizing.of_channels,
    "quantize_tokens": quantizing.of_tokens, "quantize_groups": quantizing.of_groups,
    "quantized_matmul": blocks.quantized_matmul,
    "quantized_linear": quantizing.linear, "integer_product": quantizing.product,
    "codes": float_codes.of_codes,
    "interpolate": resample.interpolate, "grid_sample": resample.grid_sample, "affine_grid": resample.affine_grid,
    "pixel_shuffle": resample.pixel_shuffle,
    "regions": regions.by_extents, "nms": _named, "box_pairs": _named,
    "pixels_to_planes": pixels.to_planes, "planes_to_pixels": pixels.to_pixels, "colors": pixels.colors,
    "frames": pixels.frames, "deform_columns": deform.columns,
    "pooled": pooling.by_windows, "pooled_to_size": pooling.by_outputs, "unpooled": pooling.unpooled,
    "serving": serving.by_extents, "experts": experts.by_extents, "recurrent": recurrent.by_extents,
    "sort": _along_axis, "matrices": matrices.of_batches,
    "convolution": convolution.by_axes, "fourier": fourier.along_axes,
    "cosine": fourier.along_axis, "fourier_convolution": fourier.convolution,
    "causal_conv": state_space.causal_conv, "selective_scan": state_space.selective_scan, "ssd": state_space.ssd,
    "state_update": state_space.state_update,
}  # fmt: skip


# High halves of 16-byte values: C's parameter -> that of the low half, and the function that makes it.
_LOW = {"fill_bits_high": "fill_bits", "value_high": "value"}
_HIGH = {"fill_bits_high": bits_high_of, "value_high": stored_high}


def parameters(
    spec: Spec, row: Row, numbers: Mapping[str, Any], element: ElementKind, values: Mapping[str, Any]
) -> dict[str, Any]:
    """The numbers of the function, converted and checked for the row's op."""
    found: dict[str, Any] = {}
    given = {number.number: (number.name, numbers[number.name]) for number in spec.numbers}
    for param in row.params:
        if low := _LOW.get(param.name):
            found[param.name] = _HIGH[param.name](given[low][1], element)
            continue
        if param.name not in given or param.name in values or param.role not in ("parameter", "mode"):
            continue
        name, value = given[param.name]
        if param.name in _CONVERSIONS:
            found[param.name] = _CONVERSIONS[param.name](name, value)
        elif param.name == "padding_idx":
            found["padding_idx"] = _padding(name, value, values["num_embeddings"])
        elif param.name == "fill_bits":
            found["fill_bits"] = bits_of(value, element)
        elif param.dtype == "T.bits" or param.name in _LOW.values():
            found[param.name] = FillDescriptor((), value, element=element).validated().stored_value
        elif param.dtype == "T.compute":
            found[param.name] = AffineDescriptor((), value, element=element).validated().scale
        elif param.dtype == "i32":
            found[param.name] = as_integer(name, value, INT32_MIN, INT32_MAX)
        elif param.dtype == "u64":
            found[param.name] = as_integer(name, value, 0, UINT64_MAX)
        elif param.dtype == "i64":
            integral = isinstance(value, float) and value.is_integer()
            found[param.name] = as_integer(name, int(value) if integral else value)
        else:
            found[param.name] = as_real(name, value)
    domains.check(row, spec.function, found, {number: name for number, (name, _) in given.items()})
    return found


def _enum_value(kind: type[IntEnum], name: str, value: object) -> int:
    """The number of an enumeration's member, given as such or by its name in lower case."""
    return int(member(kind, name, value))


def _inverse(name: str, value: object) -> float:
    number = as_real(name, value)
    if not (math.isfinite(number) and number > 0):
        raise InvalidProblemError(f"{name} is {value!r}, must be finite and > 0")
    return 1 / number


# Conversions of numbers from the caller's form to C's, by C's names.
_CONVERSIONS: dict[str, Callable[[str, object], int | float]] = {
    "mode": functools.partial(_enum_value, EmbeddingBagMode),
    "reduction_mode": functools.partial(_enum_value, LossReduction),
    "reduce": functools.partial(_enum_value, ScatterReduction), "inv_tau": _inverse, **dict.fromkeys(FLAGS, as_flag),
    "backend": lambda name, value: BATCH_INVARIANT * as_flag(name, value),
    "interpolation": functools.partial(_enum_value, QuantileInterpolation),
    "book": functools.partial(_enum_value, CodeBook), "float_format": functools.partial(_enum_value, FloatFormat),
    "mx_format": functools.partial(_enum_value, MxFormat), "scale_rule": functools.partial(_enum_value, ScaleRule),
    "scale_layout": functools.partial(_enum_value, ScaleLayout),
    "fp8_scaling": functools.partial(_enum_value, Fp8Scaling),
    "scoring": functools.partial(_enum_value, ExpertScoring),
    "group_score": functools.partial(_enum_value, ExpertGroupScore),
    "color_code": functools.partial(_enum_value, ColorConversion),
    "cell": functools.partial(_enum_value, CellKind),
}  # fmt: skip


def _padding(name: str, value: object, embeddings: int) -> int:
    """padding_idx as C takes it; a negative one counts from the last embedding, as in PyTorch."""
    index = None if value is None else as_integer(name, value, -embeddings, embeddings - 1)
    wrapped = index if index is None or index >= 0 else index + embeddings
    return EmbeddingBagDescriptor(embeddings, 0, 0, 0, EmbeddingBagMode.SUM, wrapped, element=ElementKind.F32).padding
