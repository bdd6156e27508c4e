# SPDX-License-Identifier: Apache-2.0
"""Numbers of functions that are flags: bool in signatures, checked as such, 0 or 1 in C."""

from __future__ import annotations

FLAGS = frozenset(
    """
    aligns_ends are_probabilities by_blocks channels_last delta_softplus descending dt_softplus
    equal_nan full_flag hard include_last_offset
    include_self invert is_alpha is_base2 is_batch_invariant is_causal is_half keepdims largest log_input_flag
    log_target_flag normalize powers_of_two renormalize reverse right scale_grad_by_freq sorted
    swap_flag time_first tokens_first use_silu zero_infinity
    """.split()
)
