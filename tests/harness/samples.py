# SPDX-License-Identifier: Apache-2.0
"""Sample arguments of every function on arrays: small, in float64 where it takes that, and where it is smooth."""

import dataclasses
import itertools
from typing import Any

import numpy as np

from baracuda._functions.spec import REQUIRED, specs
from baracuda.dtypes import as_element

# Values for functions that are not to be tried on the sample values, between 0.2 and 0.8.
DOMAINS = {"acosh": (1.2, 2.0), "logit": (0.3, 0.7)}
OPERANDS = ("x", "y", "u", "dy", "sum", "dsum", "residual", "bias", "mask", "v")
SHAPES = {
    "pointwise": [(3, 4), (4,), (3, 1), (3, 4)],
    "gated": {"x": (3, 4), "dy": (3, 2)},
    "prelu": {"x": (2, 3, 4), "weight": (3,), "dy": (2, 3, 4)},
    "repeat": {"x": (3, 2), "dy": (6, 6)},
    "reduce": {"x": (3, 4, 2)},
    "reduce_backward": {"x": (3, 4, 2), "y": (), "dy": ()},
    "pad": {"x": (3, 4), "dy": (6, 7)},
    "concat": {"a": (3, 4), "b": (2, 4), "dy": (5, 4)},
    "unfold": {"x": (3, 4), "dy": (3, 2, 3)},
    "image_windows": {"x": (2, 3, 5, 4), "dy": (2, 18, 9)},
    "pooled": {"x": (2, 3, 5, 4), **dict.fromkeys(("y", "dy"), (2, 3, 3, 3))},
    "pooled_to_size": {"x": (2, 3, 5, 4), **dict.fromkeys(("y", "dy"), (2, 3, 3, 2)), "samples": (2, 3, 2)},
    "unpooled": {"x": (2, 3, 3, 2), "dy": (2, 3, 6, 5)},
    "repeat_interleave": {"x": (3, 4), "dy": (24,)},
    "topk": {"x": (3, 4)},
    "topk_backward": {"dy": (3, 2)},
    "topk_segments": {"x": (5,)},
    "random": dict.fromkeys(("x", "p", "rate"), (3, 4)),
    "dropout": dict.fromkeys(("x", "dy", "residual"), (3, 4)),
    "multinomial": {"cdf": (3, 4)},
    "dequantize_blocks": {"x": (3, 36)}, "take_blocks": {"x": (5, 36)}, "quantize_activations": {"x": (3, 40)},
    "quantize_blocks": {"x": (3, 64), "importance": (64,)},
    "searchsorted": {"sorted_seq": (5,), "values": (3, 4)},
    "isin_sorted": {"sorted_seq": (5,), "values": (3, 4)},
    "bins": {"x": (3, 4)},
    "edge_bins": {"x": (3, 4), "edges": (5,)},
    "unique_runs": {"x": (4, 3)},
    "unique": {"x": (3, 4)},
    "order_statistic": {"x": (3, 4)},
    "quantile": {"x": (3, 4), "q": (2,)},
    "quantile_backward": {"x": (3, 4), **dict.fromkeys(("dy", "weight"), (2,))},
    "matmul": {"a": (3, 4), "b": (4, 2)},
    "matmul_backward": {"dy": (3, 2), "a": (3, 4), "b": (4, 2)},
    "linear": {"x": (3, 4), "weight": (2, 4), "bias": (2,)},
    "linear_gated": {"x": (3, 4), "weight": (2, 4), "up_weight": (2, 4), "bias": (2,), "up_bias": (2,)},
    "linear_backward": {"dy": (3, 2), "x": (3, 4), "weight": (2, 4)},
    "grouped_gemm": {"a": (5, 4), "b": (3, 4, 2)},
    "grouped_gemm_backward": {"dy": (5, 2), "a": (5, 4), "b": (3, 4, 2)},
    "trace_backward": {"dy": (), "x": (3, 4)},
    "matrices": {"a": (4, 3), "b": (4, 2), "v": (4, 3), "tau": (3,), "c": (4, 2), "pivots": (3,)},
    "last_offset_bags": {"weight": (5, 3), "dout": (2, 3)},
    "max_bags": {"weight": (5, 3)},
    "sparse_bags": {"per_sample_weights": (4,), "dout": (3, 3)},
    "weighted_bags": {"weight": (5, 3), "per_sample_weights": (4,), "dout": (3, 3)},
    "scatter_backward": {"updates": (3, 2)} | dict.fromkeys(("dy", "x", "y"), (3, 4)),
    "norm": {**dict.fromkeys(OPERANDS, (3, 4)), "g": (3, 1), "gamma": (4,), "beta": (4,)},
    "channels": {"x": (2, 4, 3), "dy": (2, 4, 3)}
    | dict.fromkeys(("gamma", "beta", "running_mean", "running_var"), (4,)),
    "quantize_tensor": dict.fromkeys(("x", "dy"), (3, 4)),
    "quantize_channels": dict.fromkeys(("x", "dy", "q"), (3, 4)) | dict.fromkeys(("scale", "zero_point"), (3,)),
    "quantize_tokens": dict.fromkeys(("x", "dy", "q"), (3, 4)) | dict.fromkeys(("scale", "zero_point"), (3,)),
    "quantize_groups": dict.fromkeys(("x", "dy", "q"), (3, 4)) | dict.fromkeys(("scale", "zero_point"), (3, 2)),
    "quantized_matmul": {"x": (3, 64), "w": (5, 36), "bias": (5,)},
    "quantized_linear": {"a": (3, 4), "weight": (5, 4), "a_scale": (3,), "weight_scale": (5,), "a_zero": (1,),
                         "weight_zero": (5,), "bias": (5,)},
    "integer_product": {"a": (3, 4), "b": (4, 5), "a_scale": (3,), "b_scale": (5,), "y_scale": (1,), "a_zero": (1,),
                        "b_zero": (5,), "y_zero": (1,)},
    "fourier": {"x": (3, 4)}, "cosine": {"x": (3, 4)}, "fourier_convolution": {"x": (3, 4), "w": (2, 3)},
    "convolution": {"x": (2, 4, 5, 6), "weight": (6, 4, 3, 2), "bias": (6,), "scale": (6,), "dy": (2, 6, 3, 5)},
    "rope": {"x": (2, 3, 4), "dy": (2, 3, 4)},
    "rope_apply": {"x": (2, 3, 4), "dy": (2, 3, 4), "cos": (3, 2), "sin": (3, 2)},
    "rope_apply_thd": {"x": (3, 2, 4), "dy": (3, 2, 4), "cos": (3, 2), "sin": (3, 2)},
    "rope_tables": {"x": (2, 3, 4), "dy": (2, 3, 4)},
    "accumulated": {"x": (3, 2), "dy": (3, 2)},
    "gather": {"x": (3, 4)},
    "scatter": {"updates": (3, 2)},
    "index_select": {"x": (4, 3)},
    "numbered": {"x": (3, 4), "updates": (4,)},
    "gather_rows": {"table": (4, 3)},
    "selection": {"x": (3, 4), "dy": (8,), "mask": (3, 4)},
    "masked_scatter": {"source": (12,), "mask": (3, 4)},
    "attention": {
        **dict.fromkeys(("bias", "mask"), (2, 6, 4, 5)), **dict.fromkeys(("y", "dy"), (2, 6, 4, 8)), "lse": (2, 6, 4),
        "q": (2, 6, 4, 7), "k": (2, 3, 5, 7), "v": (2, 3, 5, 8), "slopes": (6,), "sinks": (6,),
    },
    "causal_conv": {
        **dict.fromkeys(("x", "dy"), (1, 4, 5)), "weight": (4, 3), "bias": (4,), "conv_state": (1, 4, 2),
        **dict.fromkeys(("initial_state", "dfinal_state"), (2, 4, 2)),
    },
    "selective_scan": {
        **dict.fromkeys(("u", "delta", "z", "dy"), (1, 4, 5)), "a": (4, 3), **dict.fromkeys(("b", "c"), (1, 2, 3, 5)),
        **dict.fromkeys(("d_skip", "delta_bias"), (4,)), **dict.fromkeys(("initial_state", "dlast_state"), (2, 4, 3)),
    },
    "ssd": {
        **dict.fromkeys(("x", "z", "dy"), (1, 5, 4, 3)), "dt": (1, 5, 4), **dict.fromkeys(("b", "c"), (1, 5, 2, 3)),
        **dict.fromkeys(("a", "d_skip", "dt_bias"), (4,)),
        **dict.fromkeys(("initial_state", "dlast_state"), (2, 4, 3, 3)),
    },
    "state_update": {
        "state": (2, 4, 3), **dict.fromkeys(("x", "dt", "z"), (2, 4)), "a": (4, 3), **dict.fromkeys("bc", (2, 3)),
        **dict.fromkeys(("d_skip", "dt_bias"), (4,)),
    },
    "attention_varlen": {
        **dict.fromkeys(("y", "dy"), (5, 6, 8)), "lse": (6, 5), "q": (5, 6, 7), "k": (9, 3, 7), "v": (9, 3, 8),
        "slopes": (6,), "sinks": (6,),
    },
}  # fmt: skip
for _layout in ("softmax", "scan", "sort", "reduce_axes", "reduce_to", "trace", "flip", "roll", "permute", "triangle",
                "masked", "nonzero"):  # fmt: skip
    SHAPES[_layout] = dict.fromkeys(OPERANDS, (3, 4))
STATISTICS = {
    "norm": (3, 1),
    "batch_norm_backward": (4,),
    "batch_norm_training_backward": (4,),
    "group_norm_backward": (2, 2),
    "instance_norm_backward": (2, 4),
    "group_norm_wide_backward": (2, 2),
    "instance_norm_wide_backward": (2, 4),
    "group_norm_channels_last_backward": (2, 2),
    "instance_norm_channels_last_backward": (2, 4),
}
EXTENTS = {  # extents of losses
    "n_rows": 3, "class_extent": 4, "inner_extent": 2, "d_extent": 4, "max_time": 5, "batch_size": 2, "num_classes": 4,
    "max_target_len": 2, "states": 5,
}  # fmt: skip
LOSSES = {"numel": (3, 4), "targets_numel": (2, 2), "results": (), "weight_extent": (3, 4), "pos_weight_extent": (4,)}
NUMBERS = {
    "size": [4], "num_groups": 2, "repeats": [2, 3], "shifts": [2], "dims": [1, 0], "pad_low": [1, 1],
    "pad_high": [2, 2], "split_offset": 3, "n": 3, "exponent": 2.5, "value": 2, "scale": 3, "offset": 1, "p0": 0.5,
    "p1": 0.75, "alpha": 0.5, "threshold": 0.5, "lambd": 0.25, "min_val": 0.3, "max_val": 0.6, "num_classes": 5,
    "num_bins": 4, "low": -0.5, "high": 1.5,
    "num_embeddings": 5, "p": 3.0, "max_norm": 0.5, "norm_type": 2.0, "max_seqlen_q": 3, "max_seqlen_k": 4,
    "top_k": 3, "top_p": 0.75, "min_p": 0.25, "format": "q4_0",
}  # fmt: skip
_PER_ROW = dict.fromkeys(
    ("temperature_of", "top_p_of", "min_p_of", "typical_p_of", "repetition_of", "frequency_of", "presence_of"), (3,)
)
_TOKENS = {**_PER_ROW, **dict.fromkeys(("x", "logits", "probs", "counts", "in_prompt"), (3, 16))}
_OF_TOKENS = (
    "sample_tokens", "filter_tokens", "typical_sampling", "top_k_mask_logits", "top_k_renorm_probs",
    "top_p_renorm_probs", "token_penalty_lists", "top_k_sampling_from_probs", "top_p_sampling_from_probs",
    "min_p_sampling_from_probs", "top_k_top_p_sampling_from_probs",
)  # fmt: skip
_MAXIMA = dict.fromkeys(("absmax", "absmax_codes", "absmax_outer", "absmax_offset"), (1,)) | {"absmax_map": (256,)}
_KEYS, _VALUES, _STATES = (1, 5, 2, 4), (1, 5, 2, 3), (2, 2, 4, 3)  # two sequences of two heads
_OF_STATES = {
    **dict.fromkeys(("q", "k", "r", "w", "a", "b"), _KEYS), **dict.fromkeys(("v", "dy"), _VALUES), "beta": (1, 5, 2),
    "g": (1, 5, 2), "bonus": (2, 4), **dict.fromkeys(("initial_state", "dfinal_state"), _STATES),
}  # fmt: skip
_OF_TOKEN = {n: (2, *s[2:]) for n, s in _OF_STATES.items() if len(s) > 2 and s[1] == 5}
_CELLS = {
    "gates": (3, 2, 1, 8), "w_hh": (1, 8, 2), "b_hh": (1, 8), "w_hr": (1, 2, 2),
    **dict.fromkeys(("h0", "c0", "dh_n", "dc_n"), (1, 2, 2)), **dict.fromkeys(("y", "dy"), (3, 2, 1, 2)),
    "reserve": (3, 2, 1, 10),
}  # fmt: skip
NAMED = {  # shapes, and the numbers that follow from no shape
    "affine_grid": ({"theta": (2, 2, 3)}, {"height": 3, "width": 2}),
    "affine_grid_backward": ({"dy": (2, 3, 2, 2)}, {"height": 3, "width": 2}),
    "interpolate": ({"x": (2, 3, 5, 4)}, {"size": [7, 6], "mode": "linear"}),
    "interpolate_backward": ({"dy": (2, 3, 7, 6), "x": (2, 3, 5, 4)}, {"mode": "linear"}),
    "resize": ({"x": (2, 5, 4, 3)}, {"size": [3, 6]}),
    "resize_backward": ({"dy": (2, 3, 6, 3), "x": (2, 5, 4, 3)}, {}),
    "grid_sample": ({"x": (2, 3, 5, 4), "grid": (2, 3, 4, 2)}, {}),
    "grid_sample_backward": ({"dy": (2, 3, 3, 4), "x": (2, 3, 5, 4), "grid": (2, 3, 4, 2)}, {}),
    "pixel_shuffle": ({"x": (2, 8, 3, 2)}, {}),
    "pixel_unshuffle": ({"x": (2, 2, 6, 4)}, {}),
    "alibi": ({"scores": (2, 3, 2, 4), "slopes": (3,)}, {}),
    "alibi_backward": ({"dy": (2, 3, 2, 4)}, {}),
    **dict.fromkeys(("unfold", "unfold_backward"), ({}, {"axis": 1, "size": 3})),
    **dict.fromkeys(("im2col", "im2col_backward"), ({}, {"kernel_size": [3, 2], "padding": [1, 0], "stride": [2, 1]})),
    "col2im": ({"x": (2, 18, 9)}, {"output_size": [5, 4], "kernel_size": [3, 2], "padding": [1, 0], "stride": [2, 1]}),
    **dict.fromkeys(("repeat_interleave", "repeat_interleave_backward"), ({}, {"repeats": 2})),
    **{
        f"{name}{end}": ({}, {"kernel_size": [3, 2], "padding": [1, 0], "stride": [2, 1]})
        for name in ("max_pool", "max_pool_indices", "avg_pool", "lp_pool")
        for end in ("", "_backward")
    },
    **{
        f"{name}{end}": ({}, {"output_size": [3, 2], "kernel_size": [2, 2]})
        for name in ("adaptive_avg_pool", "adaptive_max_pool", "adaptive_max_pool_indices", "fractional_max_pool")
        for end in ("", "_backward")
    },
    **dict.fromkeys(("max_unpool", "max_unpool_backward"), ({}, {"output_size": [6, 5]})),
    "embedding": ({"weight": (5, 3)}, {}),
    "embedding_backward": ({"dout": (4, 3)}, {}),
    "embedding_dense_backward": ({"dout": (4, 3)}, {"scale_grad_by_freq": True}),
    "embedding_sparse_backward": ({"dout": (4, 3)}, {"scale_grad_by_freq": True}),
    "embedding_renorm": ({"weight": (5, 3)}, {}),
    "embedding_bag": ({"weight": (5, 3)}, {"mode": "sum"}),
    "embedding_bag_backward": ({"dout": (3, 3)}, {"mode": "mean"}),
    "embedding_bag_max_backward": ({"dout": (2, 3)}, {}),
    "index_add": ({}, {"size": 5}),
    "index_select_backward": ({}, {"size": 5}),
    "gather_backward": ({}, {"size": 4}),
    **dict.fromkeys(("scatter_add", "scatter_reduce"), ({}, {"size": 4})),
    "scatter": ({}, {"size": 4}),
    "topk_backward": ({}, {"size": 4}),
    **dict.fromkeys(("put", "put_add"), ({}, {"size": 12})),
    **dict.fromkeys(("segment_max_or_zero", "segment_min_or_zero"), ({"x": (4, 3)}, {"num_segments": 3})),
    "attention_decode": ({"q": (2, 6, 7), "k": (2, 3, 5, 7), "v": (2, 3, 5, 8)}, {}),
    "attention_paged": ({"q": (9, 6, 7), "k_cache": (5, 3, 4, 7), "v_cache": (5, 3, 4, 8)}, {}),
    "attention_paged_quantized": (
        {"q": (9, 6, 7), "k_cache": (5, 3, 4, 7), "v_cache": (5, 3, 4, 8)}
        | dict.fromkeys(("k_scales", "v_scales"), (5, 3, 4)),
        {},
    ),
    "attention_paged_latent": ({"q": (9, 6, 7), "cache": (5, 4, 7)}, {"d_v": 5}),
    "attention_ragged": ({"q": (9, 6, 7), "k": (5, 3, 7), "v": (5, 3, 8)}, {}),
    "merge_attention_states": ({"values": (3, 4, 5), "lse": (3, 4)}, {}),
    "merge_attention_sets": ({"v": (2, 3, 4, 5), "s": (2, 3, 4)}, {}),
    "hyper_connection": ({"x": (2, 3, 4), "gamma": (4,), "h_pre": (3,), "h_post": (3,), "h_res": (3, 3)}, {}),
    "convolution_transpose": ({"weight": (4, 6, 3, 2)}, {}),
    "integers_like": ({}, {"high": 9}),
    **dict.fromkeys(_OF_TOKENS, (_TOKENS, {})),
    "process_logits": ({**_TOKENS, "bias": (16,)}, {}),
    "token_bias_lists": ({**_TOKENS, "bias": (3, 5)}, {}),
    "speculative_sample": ({"draft_probs": (3, 2, 8), "target_probs": (3, 3, 8)}, {}),
    **{f"gated_delta_rule{end}": (_OF_STATES, {}) for end in ("", "_backward")},
    **{f"gated_linear_attention{end}": (_OF_STATES | {"g": _KEYS}, {}) for end in ("", "_backward")},
    **{f"rwkv7{end}": (_OF_STATES, {"scale": 1.0}) for end in ("", "_backward")},
    "gated_delta_rule_update": (_OF_TOKEN | {"state": _STATES}, {}),
    "gated_linear_attention_update": (  # as many heads as no other axis has
        dict.fromkeys(("q", "k", "g"), (2, 3, 4)) | {"v": (2, 3, 3), "bonus": (3, 4)},
        {},
    ),
    "rwkv7_update": (_OF_TOKEN | {"state": _STATES}, {"scale": 1.0}),
    **{f"recurrent_cells{end}": (_CELLS, {}) for end in ("", "_forward", "_backward")},
    "moe_route": ({"logits": (3, 8), "bias": (8,)}, {"top_k": 2}),
    "moe_route_backward": ({"dweights": (3, 2), "logits": (3, 8)}, {}),
    "causal_conv1d_update": ({"x": (2, 4, 5), "conv_state": (2, 4, 2)}, {}),
    "moe_sort": ({}, {"experts": 4}),
    "moe_permute": ({"x": (3, 4)}, {}),
    "moe_permute_backward": ({"dy": (6, 4)}, {}),
    "moe_combine": ({"y": (6, 4), "weights": (3, 2)}, {}),
    "moe_combine_backward": ({"dout": (3, 4), "y": (6, 4), "weights": (3, 2)}, {}),
    **{f"grouped_linear{end}": ({"x": (5, 4), "weight": (3, 2, 4), "dy": (5, 2)}, {}) for end in ("", "_backward")},
    "roi_align": ({"input": (2, 3, 5, 6)}, {"output_size": [2, 3]}),
    "roi_align_backward": ({"input": (2, 3, 5, 6), "dy": (3, 3, 2, 3)}, {}),
    "roi_pool": ({"input": (2, 3, 5, 6)}, {"output_size": [2, 3]}),
    "roi_pool_backward": ({"input": (2, 3, 5, 6), "dy": (3, 3, 2, 3)}, {}),
    **dict.fromkeys(("nms", "batched_nms"), ({"scores": (4,)}, {"iou_threshold": 0.5})),
    **dict.fromkeys(
        ("deform_columns", "deform_columns_backward"),
        (
            {"input": (2, 4, 4, 5), "offset": (2, 16, 3, 4), "mask": (2, 8, 3, 4), "dy": (2, 16, 3, 4)},
            {"kernel_size": [2, 2]},
        ),
    ),
    "fft_cosine": ({}, {"kind": 2}),
    "linalg_matmul": ({"b": (3, 2)}, {}),
    "linalg_solve_triangular": ({"b": (2, 3, 2)}, {"upper": True}),
    **dict.fromkeys([f"linalg_{of}solve" for of in ("", "cholesky_", "lu_", "ldl_")], ({"b": (2, 3, 2)}, {})),
    "box_iou": ({"boxes1": (3, 4), "boxes2": (5, 4)}, {}),
    "pixels_to_planes": ({"x": (2, 5, 6, 3), "mean": (3,), "std": (3,)}, {"crop": [1, 2, 3, 4]}),
    "planes_to_pixels": ({"y": (2, 3, 4, 5), "mean": (3,), "std": (3,)}, {}),
    "convert_color": ({"x": (2, 3, 4, 5)}, {"conversion": "rgb_to_hsv"}),
    "nv12_to_rgb": ({"x": (2, 6, 4)}, {}),
    "tree_sample": ({"target_probs": (3, 5, 3)}, {}),
    "nf4_dequantize": ({"w_packed": (2, 6), "absmax": (4, 3)}, {}),
    "encode_floats": ({"x": (3, 4)}, {"float_format": "e4m3"}),
    "decode_floats": ({"codes": (3, 4)}, {"float_format": "e4m3"}),
    "quantize_mx": ({"x": (3, 64), "tensor_scale": (1,)}, {}),
    "dequantize_mx": ({"codes": (3, 32), "scales": (3, 2), "tensor_scale": (1,)}, {}),
    "mx_matmul": ({"x": (3, 64), "codes": (5, 32), "scales": (5, 2), "tensor_scale": (1,), "bias": (5,)}, {}),
    "quantize_4bit": ({"x": (3, 4)}, {}),
    "dequantize_4bit": ({"codes": (6,), **_MAXIMA}, {}),
    "gemv_4bit": ({"x": (3, 4), "codes": (10,), "bias": (5,), **_MAXIMA}, {"n": 5}),
    "quantize_8bit_blocks": ({"x": (3, 4), "map": (256,), "offset": (1,)}, {}),
    "dequantize_8bit_blocks": ({"codes": (3, 4), "absmax": (1,), "map": (256,), "offset": (1,)}, {}),
    **dict.fromkeys(("quantize_fp8", "quantize_fp8_transposed", "quantize_fp8_both"), ({"x": (3, 4)}, {})),
    "dequantize_fp8": ({"x": (3, 4), "scale": (3, 1)}, {}),
    "masked_select": ({}, {"max_selected": 8}),  # as many as there are: elements behind them are not written
    **{
        f"{order}segment_{reduction}": ({"x": (4, 3)}, {"num_segments": 3})
        for order in ("", "unsorted_")
        for reduction in ("sum", "mean", "max", "min", "prod")
    },
    **{
        f"{order}segment_{reduction}_backward": ({"dy": (3, 3), "x": (4, 3), "y": (3, 3)}, {})
        for order in ("", "unsorted_")
        for reduction in ("sum", "mean", "max", "min", "prod")
    },
}
# Values of 5 x 4 cells that rise in row-major order, and the last cell of each window: the one of the maximum.
_RISING = np.linspace(0.2, 0.8, 120).reshape(2, 3, 5, 4)
_LAST_CELLS = {
    name: np.add.outer(4 * np.array(rows), columns)
    for name, rows, columns in (("max_pool", [1, 3, 4], [1, 2, 3]), ("adaptive_max_pool", [1, 3, 4], [1, 3]))
}
INDICES = {
    "indices": [4, 0, 2, 2], "offsets": [0, 1, 4], "segment_ids": [0, 0, 1, 2], "out_index": [[4, 0, 2], [1, -1, 2]],
    **{(f"{name}_backward", "x"): _RISING for name in ("max_pool", "adaptive_max_pool")},
    **{(f"{name}_backward", "y"): _RISING.reshape(2, 3, 20)[..., last] for name, last in _LAST_CELLS.items()},
    **{(f"{name}_indices_backward", "indices"): np.broadcast_to(last, (2, 3, *last.shape))
       for name, last in _LAST_CELLS.items()},
    ("fractional_max_pool_backward", "indices"): np.arange(36).reshape(2, 3, 3, 2) % 20,
    **{(f"max_unpool{end}", "indices"): np.arange(36).reshape(2, 3, 3, 2) * 7 % 30 for end in ("", "_backward")},
    "positions": [5, 0, 2], "starts": [5], ("embedding_bag_max", "offsets"): [0, 1],
    **{(name, "index"): [[3, 1], [0, 0], [2, 1]] for name in
       ("gather", "gather_backward", "scatter_add", "scatter_reduce", "scatter_reduce_backward")},
    **{(f"grouped_gemm{end}", "offsets"): [0, 2, 2, 5] for end in ("", "_backward")},
    ("scatter", "index"): [[3, 1], [0, 2], [2, 1]],
    ("index_select", "index"): [3, 0], ("index_select_backward", "index"): [3, 0, 3], ("index_add", "index"): [3, 0, 3],
    ("take", "index"): [11, 0, 5, 5],
    **{(name, "index"): [11, 0, 5, 4] for name in ("put", "put_add")}, ("gather_rows", "index"): [3, 0, 3],
    ("one_hot", "index"): [4, 0, 1],
    **{(f"{name}quantile_backward", end): [3, 1] for name in ("", "nan") for end in ("lower", "upper")},
    ("topk_backward", "indices"): [[3, 1], [0, 2], [2, 1]], ("topk_segments", "offsets"): [0, 3, 5],
    ("searchsorted", "sorter"): [2, 0, 1, 4, 3], ("unique_runs", "order"): [2, 0, 3, 1],
    **{(f"grouped_linear{end}", "offsets"): [0, 2, 2, 5] for end in ("", "_backward")},
    ("moe_sort", "ids"): [[1, 3], [0, 1], [3, -1]], ("moe_route_backward", "ids"): [[1, 3], [0, 7], [5, 2]],
    **{(f"moe_{name}{end}", "order"): [2, 0, 3, 1, 4, -1] for name in ("permute", "combine")
       for end in ("", "_backward")},
    **{(f"moe_{name}{end}", "position"): [[1, 3], [0, 2], [4, -1]] for name in ("permute", "combine")
       for end in ("", "_backward")},
    **dict.fromkeys(("map", "absmax_map"), np.linspace(-1, 1, 256)),
    **{(f"roi_{name}{end}", "boxes"): [[0, 0.3, 0.4, 4.1, 3.7], [1, 1.2, 0.1, 5.3, 4.6], [0, 2.2, 1.3, 3.4, 2.8]]
       for name in ("align", "pool") for end in ("", "_backward")},
    ("roi_pool_backward", "argmax"): np.arange(54).reshape(3, 3, 2, 3) % 30,
    **{(name, "boxes"): [[0, 0, 2, 2], [0.2, 0, 2, 2], [5, 5, 6, 7], [0, 0, 2, 1.8]]
       for name in ("nms", "batched_nms")},
    ("batched_nms", "idxs"): [0, 0, 1, 1],
    "cu_seqlens": [0, 2, 5], "lengths": [3, 1],
    "seed": [11], "cu_seqlens_q": [0, 3, 5], "cu_seqlens_k": [0, 4, 9], "page_ids": [3, 0, 4],
    "page_offsets": [0, 2, 3], "last_page_len": [1, 4], "q_offsets": [0, 3, 9], "k_offsets": [0, 1, 5],
    **dict.fromkeys(
        [(f"{n}_update", "state") for n in ("gated_delta_rule", "rwkv7")], np.linspace(-1, 1, 48).reshape(_STATES)
    ),
    ("gated_linear_attention_update", "state"): np.linspace(-1, 1, 72).reshape(2, 3, 4, 3),
    "state": [11, 4], ("selective_state_update", "state"): None, "rng_state": [11, 4],
    "seed_of": [11, 0, 7], "offset_of": [0, 4, 2],
    "top_k_of": [3, 1, 16], "allowed": [[0x5A5A], [0x00FF], [-1]],
    "tokens": [[3, 3, 0, 15, -1], [1, 2, 3, 4, 5], [-1] * 5], "prompt_length": [2, 0, 5],
    "draft_tokens": [[0, 5], [7, 7], [2, 1]], "node_tokens": [[0, 0, 1, 2, 0], [2, 1, 0, 2, 1], [1, 2, 0, 1, 2]],
    "parents": [[-1, 0, 0, 1, 1], [-1, 0, 0, 0, 2], [-1, 0, 1, 2, 3]],
    **{(f"nll_loss{end}", "target"): [[2, 0], [0, 1], [3, 3]] for end in ("", "_forward", "_backward")},
}  # fmt: skip

# Square matrices, whose eigenvalues are apart, and factors.
_SQUARE = [[[3, 0.4, 0.5], [0.2, 2, 0.7], [0.6, 0.3, 5]], [[4, 0.1, 0.7], [0.3, 6, 0.2], [0.8, 0.5, 2]]]
INDICES |= {
    (f"linalg_{name}", array): _SQUARE
    for array, names in {
        "a": "cholesky inv det slogdet solve solve_triangular ldl_factor matrix_exp eigh eigvalsh eig eigvals eig_left",
        "l": "cholesky_solve", "lu": "lu_solve", "ld": "ldl_solve",
    }.items() for name in names.split()
} | {(f"linalg_{of}_solve", "pivots"): [[2, 3, 3], [1, 2, 3]] for of in ("lu", "ldl")}  # fmt: skip

OF_BYTES = {"dequantize_blocks": "x", "take_blocks": "x", "quantized_matmul": "w"}  # the array of bytes


@dataclasses.dataclass
class Sample:
    """Arrays and numbers by name, in the order of the spec. An array that is left out is None; a dtype is NumPy's."""

    arrays: dict[str, Any]
    numbers: dict[str, Any]

    def arguments(self, name, array=lambda value: value, dtype=lambda value: value):
        """Returns (positional arguments, options), arrays and dtypes converted."""
        values = {key: value if value is None else array(value) for key, value in self.arrays.items()}
        values |= {key: dtype(value) if key == "dtype" else value for key, value in self.numbers.items()}
        spec = specs()[name]
        needed = [values[a.name] for a in spec.positional]
        return needed, {n.name: values[n.name] for n in spec.numbers if n.default is not REQUIRED and n.name in values}


def sample(name: str) -> Sample:
    spec, rng = specs()[name], np.random.default_rng(7)
    arrays = {a.name: array_of(spec, k, rng) for k, a in enumerate(spec.arrays)}
    special = NAMED.get(name, ({}, {}))[1]
    numbers = {}
    for number in spec.numbers:
        if number.name == "dtype":
            numbers["dtype"] = np.dtype(np.float16 if "to_f32" in name else np.float32)
            if name.startswith("quantize_fp8"):
                numbers["dtype"] = as_element("fp8e4m3").numpy_dtype
        elif number.default is REQUIRED or number.name in special:
            numbers[number.name] = special.get(number.name, NUMBERS.get(number.name, 2))
    return Sample(arrays, numbers)


def array_of(spec, position, rng):
    argument = spec.arrays[position]
    slots = [p.dtype for row in spec.rows for p in row.params if p.name == argument.pointer]
    slots = [row.slots["U"][0] if each == "U" else "f32" if each == "U.compute" else each for row in spec.rows
             for each in slots]  # fmt: skip
    slot = next(
        (each for each in slots if each != "bf16"), spec.slot_of(argument)
    )  # NumPy itself and PyTorch's from_numpy have no bf16
    known = INDICES.get((spec.name, argument.name), INDICES.get(argument.name))
    is_bytes = OF_BYTES.get(spec.layout) == argument.name
    dtype = np.dtype(np.uint8) if is_bytes else dtype_of(spec, slot)
    if known is not None:
        return np.array(known, dtype)
    shape = shape_of(spec, position)
    low, high = DOMAINS.get(spec.name.removesuffix("_backward"), (0.2, 0.8))
    if dtype.kind == "f":
        made = rng.random(shape) * (high - low) + low
        if argument.name.endswith("probs"):
            made /= made.sum(-1, keepdims=True)
        return np.asarray(made.cumsum(-1) if argument.name == "cdf" else made, dtype)
    if dtype.kind == "c":
        return (rng.random((*shape, 2)) * (high - low) + low).view(dtype)[..., 0]
    if dtype.kind == "b" and argument.name == "mask":
        if "log" in spec.name:  # a masked element has a logarithm of -inf
            return np.ones(shape, dtype)
        return np.arange(np.prod(shape)).reshape(shape) % 3 != 1
    if is_bytes or argument.name == "codes" or "scales" in argument.name:
        # Scales and narrow floats of such bytes are normal numbers: XLA computes subnormal ones as 0.
        return np.asarray(rng.integers(60, 64, shape), dtype)
    return np.asarray(rng.integers(0, {"b": 2, "i": 3}.get(dtype.kind, 5), shape), dtype)


def dtype_of(spec, slot):
    if slot in ("T", "T.compute"):
        offered = [d for row in spec.rows for d in row.slots.get("T", ())]
        chosen = next((d for d in ("f64", "f16", "i32", "bool", "i8", "u8", "c64") if d in offered), "f64")
        if offered and offered[0].startswith("fp8"):
            chosen = offered[0]
        return np.dtype(np.float32 if (chosen, slot) == ("f16", "T.compute") else as_element(chosen).numpy_dtype)
    if slot in ("I", "O"):
        return np.dtype(np.int32)
    is_code = spec.row.family in ("image", "quantize") or spec.layout in ("quantized_linear", "integer_product")
    return np.dtype(np.bool_) if slot == "u8" and not is_code else as_element(slot).numpy_dtype


def shape_of(spec, position):
    name, shapes = spec.arrays[position].name, SHAPES.get(spec.layout, {})
    pointer = spec.arrays[position].pointer
    if spec.layout == "pointwise":
        return shapes[position]
    if spec.layout == "loss":
        words = next((p.shape for p in spec.row.params if p.name == pointer), "n_rows, class_extent")
        words = spec.extents.get(name, words)
        if "focal" in spec.name and words == "results":
            return LOSSES["numel"]
        if words in LOSSES:
            return LOSSES[words]
        return tuple(int(w) if w.isdigit() else EXTENTS[w.split(" by ")[0]] for w in words.split(", "))
    if name in ("mean", "inv_std", "rms") and name not in NAMED.get(spec.name, ({}, {}))[0]:
        return STATISTICS.get(spec.name, STATISTICS["norm"])
    if "channels_last" in spec.name and name in ("x", "dy"):
        return shapes[name][0], *shapes[name][2:], shapes[name][1]
    own = NAMED.get(spec.name, ({}, {}))[0]
    return own[name] if spec.layout in ("named", "rows_of_indices") or name in own else shapes[name]


def grouped_products(rng) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Operands of grouped_gemm in float32, and the gradients of the sum of its squares by a and b in float64."""
    a, b, offsets = rng.random((5, 4), np.float32), rng.random((3, 4, 2), np.float32), np.array([0, 2, 2, 5], np.int32)
    rows = [slice(*pair) for pair in itertools.pairwise(offsets)]
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    slopes = [2 * wide_a[each] @ wide_b[g] for g, each in enumerate(rows)]
    of_a = np.concatenate([slope @ wide_b[g].T for g, slope in enumerate(slopes)])
    return [a, b, offsets], [of_a, np.stack([wide_a[each].T @ slope for each, slope in zip(rows, slopes)])]
