# SPDX-License-Identifier: Apache-2.0
"""Numbers of functions that are flags: bool in signatures, checked as such, 0 or 1 in C."""

from __future__ import annotations

FLAGS = frozenset(
    """
    adjoint align_corners aligned aligns_ends allow_tf32 antialias are_probabilities bgr by_blocks ceil_mode
    channels_last complete conjugate conjugates count_include_pad delta_softplus descending dt_softplus equal_nan
    flip_columns full_flag full_matrices full_range hard hermitian include_last_offset include_self inverse invert
    is_709 is_alpha is_base2 is_batch_invariant is_causal is_half is_sine keepdims largest left log_input_flag
    log_target_flag normalize normalizes onesided powers_of_two renormalize reverse reverse_channels right
    scale_grad_by_freq sorted swap_flag time_first tokens_first transpose transposes unit unitriangular upper
    use_silu zero_infinity
    """.split()
)
