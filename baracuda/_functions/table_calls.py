# SPDX-License-Identifier: Apache-2.0
"""Specs of the functions that rows declare by `call`. A row's parameters tell its shape rule."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from baracuda._functions.spec import RENAMED, REQUIRED, Argument, Spec
from baracuda._library.op_table import CallRow, Row, rows

Variant = tuple[str, Row, str, CallRow]  # pattern, row, value of {F}, call

# Shape rule (shape_rules/infer.py) -> parameters that identify its rows; the first match counts.
_RULE_PARAMETERS = {
    "causal_conv": ("width", "use_silu"), "selective_scan": ("delta_softplus", "sequences"),
    "ssd": ("dt_softplus", "sequences"), "state_update": ("dt_softplus", "is_per_head"),
    "quantile_backward": ("order_axis", "dy"), "quantile": ("order_axis", "q"), "order_statistic": ("order_axis",),
    "topk_backward": ("topk_axis", "dy"), "topk": ("topk_axis",), "topk_segments": ("segments", "offsets", "k"),
    "searchsorted": ("sequences", "len_sorted"), "isin_sorted": ("len_sorted", "invert"),
    "edge_bins": ("num_bins", "edges"), "bins": ("num_bins",), "unique_runs": ("max_unique", "width"),
    "unique": ("max_unique", "inverse"),
    "interpolate": ("resample_mode", "antialias"), "grid_sample": ("sample_mode", "padding_mode"),
    "affine_grid": ("dims", "align_corners"), "named": ("theta", "height", "width"),
    "pixel_shuffle": ("n", "c", "h", "w", "r"),
    "fourier_convolution": ("fourier_axes", "starts"), "cosine": ("fourier_axis", "kind"),
    "fourier": ("fourier_axes", "input_shape"),
    "dropout": ("shared", "is_alpha"), "multinomial": ("seed", "cdf"), "random": ("seed", "state"),
    "flip": ("flip_axes",), "roll": ("shifts",), "permute": ("dims",), "triangle": ("diagonal",), "pad": ("pad_low",),
    "concat": ("split_offset",), "unfold": ("window_step",), "image_windows": ("kernel_size", "steps"),
    "repeat_interleave": ("repeat_dim",), "max_bags": ("num_bags", "out_index"),
    "sparse_bags": ("include_last_offset", "values"),
    "weighted_bags": ("include_last_offset",), "last_offset_bags": ("num_bags", "mode"),
    "softmax": ("softmax_axis",), "norm": ("norm_axes_mask",), "channels": ("spatial_extent",),
    "reduce_to": ("input_stride",), "trace": ("stride_row",),
    "trace_backward": ("rows", "columns", "dy"), "reduce": ("reduce_extent", "output_shape"),
    "reduce_axes": ("reduce_axes_mask",), "reduce_backward": ("stride_dx", "stride_dy"), "loss": ("reduction_mode",),
    "linear": ("lda", "bias"), "linear_gated": ("lda", "bias1"), "matmul_backward": ("stride_dd", "da"),
    "matmul": ("layout", "batch"),
    "linear_backward": ("dweight", "dbias"),
    "grouped_gemm_backward": ("groups", "offsets", "dd"), "grouped_gemm": ("groups", "offsets", "d"),
    "rope": ("head_dim", "base"), "rope_apply": ("td", "cos_tab"), "rope_apply_thd": ("t_outer", "cos_tab"),
    "rope_tables": ("places", "inner"),
    "attention": ("kv_heads", "stride_bias"), "attention_varlen": ("kv_heads", "cu_seqlens_q"),
    "gather": ("gather_dim",), "index_select": ("select_dim",), "scatter_backward": ("scatter_dim", "dupdates"),
    "scatter": ("scatter_dim",),
    "numbered": ("numel", "index"), "gather_rows": ("table", "idx"), "selection": ("max_selected",),
    "masked_scatter": ("source_numel",), "nonzero": ("max_nz",), "one_hot": ("num_classes",),
    "masked": ("numel", "mask"), "sort": ("sort_axis",),
    "quantize_activations": ("kx", "dst_q8_1"), "take_blocks": ("format", "indices"),
    "quantize_blocks": ("format", "importance"),
    "quantized_matmul": ("format", "w"),
    "dequantize_blocks": ("format", "x"),
    "quantize_channels": ("shape4",), "quantize_groups": ("group_size", "axis_size"),
    "quantize_tokens": ("n", "d", "scale"), "quantize_tensor": ("numel", "scale"),
    "convolution": ("filter_shape",),
    "quantized_linear": ("weight_zeros",), "integer_product": ("a_zeros", "b_zeros"),
    "regions": ("num_rois", "rois"), "nms": ("num_boxes", "scores"), "box_pairs": ("boxes1", "boxes2"),
    "pixels_to_planes": ("source_h", "source_w"), "planes_to_pixels": ("reverse_channels", "flip_columns"),
    "colors": ("color_code",), "deform_columns": ("kernel_h", "offset"), "frames": ("full_range", "bgr"),
}  # fmt: skip


def declared_specs() -> list[Spec]:
    """The specs of all rows that declare functions."""
    found: dict[str, list[Variant]] = {}
    for row in rows():
        if row.pattern.endswith("_strided"):
            continue
        for function, call in ((f, c) for c in row.calls for f in row.functions or ("",)):
            pattern = row.pattern.replace("{F}", function)
            name = call.name.replace("{F}", function)
            found.setdefault(RENAMED.get(name, (name,))[0], []).append((pattern, row, function, call))
    return [_function(name, variants) for name, variants in found.items()]


def _function(name: str, variants: list[Variant]) -> Spec:
    """The spec of the row with most arguments; the other rows become its `others`."""
    groups = [[variant] for variant in variants if variant[3].results]
    if not groups:
        raise LookupError(f"call = {name}: no row has its signature")
    for variant in (v for v in variants if not v[3].results):  # they belong to a row with the same parameters
        next((each for each in groups if _names(each[0][1]) == _names(variant[1])), groups[0]).append(variant)
    specs = [_spec(name, each[0], each) for each in groups]
    specs.sort(key=lambda spec: len(spec.arrays) + len(spec.numbers))
    fullest = max(specs, key=lambda spec: len(spec.arrays) + len(spec.numbers))
    return dataclasses.replace(
        fullest, others=tuple([_with_arguments_of(spec, fullest) for spec in specs if spec is not fullest])
    )


def _with_arguments_of(spec: Spec, fullest: Spec) -> Spec:
    """A spec with the arguments of another that has more; those that C does not take have no pointer or number."""
    own = {argument.name: argument for argument in (*spec.arrays, *spec.numbers)}
    if set(own) - {a.name for a in (*fullest.arrays, *fullest.numbers)} or len(spec.outputs) != len(fullest.outputs):
        raise LookupError(f"call = {spec.name}: neither of two rows has all arguments of the other")
    filled = [{a.name: own.get(a.name, Argument(a.name, default=a.default)) for a in each}
             for each in (fullest.arrays, fullest.numbers)]  # fmt: skip
    return dataclasses.replace(spec, arrays=tuple(filled[0].values()), numbers=tuple(filled[1].values()),
                               absent=tuple([a for each in filled for a in each if a not in own]))  # fmt: skip


def _names(row: Row) -> set[str]:
    return {param.name for param in row.params}


def _spec(name: str, declared: Variant, variants: list[Variant]) -> Spec:
    _, row, function, call = declared
    arrays, numbers = list(_arrays(row, call)), []
    for argument in call.arguments:
        if argument.name not in {array.name for array in arrays}:
            default = argument.default[0] if argument.default else REQUIRED
            numbers.append(
                Argument(
                    argument.name,
                    number=argument.source or {"axis": "axes"}.get(argument.name, argument.name),
                    default=default,
                )
            )
    outputs = tuple(Argument(own, source) for own, source in call.results)
    ordered_rows = sorted(dict.fromkeys(variant[1] for variant in variants), key=lambda other: other is not row)
    return Spec(
        name, tuple(dict.fromkeys(variant[0] for variant in variants)), tuple(ordered_rows), function, tuple(arrays),
        tuple(sorted(numbers, key=lambda n: n.default is not REQUIRED)), outputs, _shape_rule(row, arrays),
        dict(call.fixed), {a.name: a.extents for a in call.arguments if a.extents},
    )  # fmt: skip


def _arrays(row: Row, call: CallRow) -> Iterator[Argument]:
    pointers = {param.name for param in row.pointers}
    for argument in call.arguments:
        if argument.source in pointers or not (argument.source or argument.by_keyword):
            yield Argument(argument.name, argument.source, default=None if argument.default else REQUIRED)


def _shape_rule(row: Row, arrays: Sequence[Argument]) -> str:
    """The rule of a function with these arrays; other inputs that C can do without are none of it."""
    taken = {array.pointer for array in arrays}
    names = {param.name for param in row.params if param.direction != "in?" or param.name in taken}
    if row.family == "linalg":
        return "matrices"
    if row.family == "pool":
        return "unpooled" if "unpool" in row.name else "pooled" if "steps" in names else "pooled_to_size"
    if row.accumulates and any(param.role == "axis" for param in row.params):
        return "accumulated"
    found = next((rule for rule, known in _RULE_PARAMETERS.items() if names.issuperset(known)), None)
    if found is None and row.family in ("attention", "sampling"):
        return "serving"
    if found is None and row.family == "quantize":
        return "codes"
    if found is None and row.family == "moe":
        return "experts"
    if found is None and row.family == "recurrent":
        return "recurrent"
    if found is None:
        raise LookupError(f"[{row.name}]: no shape rule of baracuda/_functions has such parameters")
    return found
