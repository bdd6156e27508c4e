# SPDX-License-Identifier: Apache-2.0
"""Integer parameters of rows that may not be negative: extents, counts, axes, modes."""

import re

from baracuda._functions.flags import FLAGS

# parameters that are not extents
ANY_SIGN = {
    "group_kind", "padding_idx", "scalar_weight", "x_half_offset", "dx_half_offset", "p0",
    "target_ignore", "ignore_index", "zero_infinity", "stride_row", "stride_col",
    "correction", "diagonal", "source_offset",
    "stride_a", "stride_b", "stride_c", "stride_d", "stride_dd", "stride_r", "stride_z", "query_offset", "fill_bits",
    "fill_bits_high", "bound", "other", "has_other", "is_sorted", "include_last_offset", "is_half", "include_self",
    "is_concatenated", "scale_grad_by_freq", "is_causal", "is_batch_invariant", "low", "high",
    "blocks", "deterministic", "top_k", "zero_point", "q_min", "q_max", "w_start_byte_offset", "stride_y", "is_prefill",
    "has_mask", "aligns_ends", "is_per_head", "window_left", "window_right",
    "window_size_left", "window_size_right", "window", "is_base2", "sampling_ratio", "divisor_override",
    "q_global_base", "k_global_base",
    *(f"stride_{operand}_{axis}" for operand in "qkvy" for axis in "bhs"),
}  # fmt: skip
# parameters that repeat an entry of a host array, so that only other values are wrong, and flags
REPEATED = re.compile(r"(scan|softmax|reduce)_(extent|stride_\w+)|stride_d?[xy]_[bhs]|reverse|hard|\w+_flag")
# extents that the reference's symbols have, and that the others determine
UNREAD = re.compile(r"conv_(transpose_)?\dd_\S+ [lhwd]_out")


def never_negative(row, parameter) -> bool:
    name = parameter.name
    if parameter.direction or parameter.dtype not in ("i32", "i64") or name in ANY_SIGN or name in FLAGS:
        return False
    return not REPEATED.fullmatch(name) and not UNREAD.match(f"{row.name} {name}")
