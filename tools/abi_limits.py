# SPDX-License-Identifier: Apache-2.0
"""Ranges of scalars and host arrays of C functions, by parameter name: a name has one meaning in all rows.

The header and the tests read it. Limits of all extents, axes, ranks, strides and pitches are in core/abi/prologue.h.
"""

from abi_row import Row

LIMITS = {
    "fourier_axes": "of each entry 0 or 1, one at least",
    "a_scales": "1 or m",
    "a_zeros": "0, 1 or m",
    "alibi_batch_stride": ">= 0",
    "align_corners": "0 or 1; 0 but for resample_mode 2 and 3",
    "antialias": "0 or 1; 0 for resample_mode 0 and 1",
    "b_zeros": "0, 1 or n",
    "blank": "in [0, num_classes)",
    "block_size": ">= 1",
    "channel_extent": ">= 1",
    "channel_stride": ">= 1; numel is a multiple of channel_stride * channel_extent",
    "channels_last": "0 or 1",
    "cubic_a": "finite",
    "d": "even, >= 2",
    "depth": "at most 1 for dims 2",
    "dilation": "of each entry >= 1",
    "dims": "each axis once",
    "dropout": "in [0, 1)",
    "dx_half_offset": "not 0 where the halves have elements, at most 2^47 bytes either way",
    "format": "the GGML id of a format of blocks",
    "group_kind": "0 or 1",
    "h": ">= 1",
    "head_dim": "even",
    "is_causal": "0, or 1 where softmax_axis is the last of two axes or more",
    "kernel_size": "of each entry >= 1, and a window fits into the padded input",
    "label_smoothing": "in [0, 1]",
    "mode": "0 (sum) or 1 (mean)",
    "norm_axes_mask": "a bit for each normalised axis, one at least and none beyond rank",
    "norm_total_extent": "the product of the extents of these axes",
    "num_groups": ">= 1, and divides c_extent where a group is a part of the channels",
    "pad_low": "of each entry >= 0",
    "norm_p": "> 0",
    "output_size": "of each entry >= 0",
    "padding": "of each entry >= 0",
    "padding_mode": "0 (zeros), 1 (border) or 2 (reflection)",
    "padding_high": "of each entry >= 0, and less than a window",
    "padding_low": "of each entry >= 0, and less than a window",
    "output_padding": "of each entry >= 0, and below the larger of steps and dilation",
    "padding_after": "of each entry >= 0",
    "pos_weight_extent": ">= 1",
    "query_offset": "in [-2^32, 2^32]",
    "r": ">= 1",
    "range_start_bytes": "of each entry >= 0, and the slice is inside of the destination",
    "rank_in": "0 to 8",
    "reduce": "0 (sum), 1 (prod), 2 (mean), 3 (amax) or 4 (amin)",
    "reduction_mode": "0 (none), 1 (mean) or 2 (sum)",
    "resample_mode": "in [0, 7]",
    "rotary_dim": "even, in [0, head_dim]",
    "sample_mode": "0 (linear), 1 (nearest) or 2 (cubic)",
    **dict.fromkeys(("scale_z", "scale_y", "scale_x"), "finite, >= 0"),
    "scan_extent": "shape[scan_axis]",
    "scan_stride_x": "stride_x[scan_axis]",
    "softmax_extent": "shape[softmax_axis]",
    "softmax_stride_dy": "stride_dy[softmax_axis]",
    "softmax_stride_x": "stride_x[softmax_axis]",
    "softmax_stride_y": "stride_y[softmax_axis]",
    "softcap": ">= 0",
    "source_offset": "in [-2^47, 2^47]",
    "split_offset": "in [0, the extent along concat_dim]",
    "steps": "of each entry >= 1",
    "stride_b": ">= 0",
    "td": "a multiple of d",
    "v": ">= 1",
    "weight_extent": ">= 1",
    "weight_scales": "1 or n",
    "weight_zeros": "0, 1 or n",
    "window_size": "in [1, the extent along unfold_dim]",
    "window_step": ">= 1",
    "x_half_offset": "at most 2^47 bytes either way",
}


# Rows whose names begin so have other limits of some names; empty where there is none.
OTHERS: dict[tuple[str, ...], dict[str, str]] = {
    ("sdpa", "flash_sdpa", "fa2_sdpa", "attention"): {"is_causal": "", "head_dim": ">= 1"},
    ("attention_paged",): {"is_causal": "", "page_size": ">= 1"},
    ("attention_paged_latent",): {"d_v": "at most d_k"},
    ("flashinfer_merge",): dict.fromkeys(("num_index_sets", "seq_len", "num_heads", "head_dim"), ">= 1"),
    ("hyper_connection",): {"n_streams": "<= 31"},
    ("apply_token_penalty", "flashinfer_top_", "flashinfer_min_p_"): {"batch": ">= 1", "vocab": ">= 1"},
    ("affine_grid",): {"align_corners": "0 or 1", "dims": "2 or 3"},
    ("grid_sample_2d",): dict.fromkeys(("ih", "iw"), ">= 1 where the output has elements"),
    ("grid_sample_{T}", "grid_sample_backward_{T}"): {"align_corners": "0 or 1"},
    ("recurrent_gated", "rwkv7"): {"heads": ">= 1", "d_k": "in [1, 256]", "d_v": ">= 1"},
    ("recurrent_gated",): {"qk_heads": ">= 1, a divisor of heads", "gate_width": "1 or d_k", "normalizes": "0 or 1"},
    ("recurrent_cells",): {
        "directions": "1 or 2",
        "hidden": ">= 1",
        "outputs": ">= 1",
        "cell": "in [0, 4]",
        "reverse": "0, or 1 with one direction",
    },
    ("causal_conv1d_{T}",): {"width": "2, 3 or 4"},
    ("causal_conv1d_general",): {"width": "in [1, 16]", "sequences": "batch, unless that is 1"},
    ("selective_scan",): {"dstate": "at most 256"},
    ("selective_scan_general",): {"groups": "divides dim", "sequences": "batch, unless that is 1"},
    ("ssd_",): {"head_dim": "at most 256", "state_dim": "at most 256"},
    ("ssd_chunk_scan",): {"chunk_size": ">= 1"},
    ("ssd_scan",): {
        "groups": "divides heads",
        "sequences": "batch, unless that is 1",
        "dt_min": "at most dt_max",
        "dt_max": "",
    },
    ("selective_state_update",): {"head_dim": "", "groups": "divides heads"},
    ("moe_sort",): {"tokens": "tokens * top_k is at most 2^31 - 1"},
    ("conv", "im2col_1d", "im2col_2d", "col2im_1d"): {
        "groups": ">= 1, and divides both numbers of channels",
        **{
            f"{name}_{axis}": f">= {low}"
            for name, low in (("stride", 1), ("dilation", 1), ("pad", 0))
            for axis in "ldhw"
        },
        **{f"output_pad_{axis}": ">= 0, and below the larger of stride and dilation" for axis in "ldhw"},
        **dict.fromkeys(("l_filt", "kl", "kd", "kh", "kw"), ">= 1"),
    },
    ("conv_transpose",): dict.fromkeys(("l_in", "d_in", "h_in", "w_in"), ">= 1"),
    ("mode{I}", "{F}{I}_{T}", "{F}_{T}"): {"axis_len": ">= 1"},
}
# Extents, windows and steps of pooling with a rank in its name; padding is at most half of a window.
_POOLED = {f"{axis}_{end}": ">= 1" for axis in "ldhw" for end in ("in", "out")}
_POOLED |= {f"{end}_{axis}": ">= 1" for axis in "dhw" for end in ("in", "out")}
_POOLED |= {f"{name}{axis}": ">= 1" for axis in "ldhw" for name in "ks"} | {"kernel": ">= 1", "stride": ">= 1"}
_POOLED |= {f"p{axis}": f">= 0, and at most half of k{axis}" for axis in "ldhw"}
OTHERS[tuple([f"{kind}_pool_{rank}d" for kind in ("max", "avg", "lp", "fractional_max") for rank in (1, 2, 3)])] = (
    _POOLED
)
OTHERS["adaptive_avg_pool_{T}_", "adaptive_max_pool_{T}_"] = _POOLED


def limits_of(row: Row) -> dict[str, str]:
    """Limits of a row's scalars and host arrays."""
    limits = LIMITS
    for prefixes, others in OTHERS.items():
        if row.pattern.startswith(prefixes):
            limits = limits | others
    return {p.name: limits[p.name] for p in row.problem if limits.get(p.name) and p.role != "stride"}
