# SPDX-License-Identifier: Apache-2.0
"""Sampling functions on arrays: optional operands, extents that must agree, and FlashInfer's filters by their names."""

import numpy as np
import pytest

import baracuda as bk

pytestmark = pytest.mark.host_arrays


def test_filters_by_name(rng):
    x = rng.standard_normal((3, 50)).astype(np.float32)
    probs = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    kept = np.isfinite(bk.top_k_mask_logits(x, top_k=7))
    assert (kept.sum(1) == 7).all()
    normalised = bk.top_k_renorm_probs(probs, top_k=7)
    assert np.array_equal(normalised > 0, kept)
    assert np.allclose(normalised.sum(1), 1, atol=1e-6)
    assert (bk.top_p_renorm_probs(probs, top_p=0.0) > 0).sum() == 3


def test_masks_are_optional(rng):
    x = rng.standard_normal((2, 40)).astype(np.float32)
    counts = np.ones((2, 40), np.int32)
    assert np.array_equal(bk.process_logits(x, counts=counts, presence=1.0), x - np.float32(1))
    allowed = np.array([[-1, 0], [0, -1]], np.int32)
    masked = bk.process_logits(x, allowed=allowed)
    assert np.array_equal(np.isfinite(masked), [np.arange(40) < 32, np.arange(40) >= 32])


def test_numbers_from_the_device(rng):
    x = np.repeat(rng.standard_normal((1, 40)).astype(np.float32), 500, 0)
    first = bk.sample_tokens(x, rng_state=np.array([3, 0]))[0]
    assert np.array_equal(first, bk.sample_tokens(x, seed=3)[0])
    assert not np.array_equal(first, bk.sample_tokens(x, rng_state=np.array([3, 2]))[0])


def test_targets_have_one_position_more():
    draft, tokens = np.full((1, 2, 3), 1 / 3, np.float32), np.zeros((1, 2), np.int32)
    with pytest.raises(
        bk.InvalidProblemError, match="target_probs has 2 positions, must have one more than drafted, 2"
    ):
        bk.speculative_sample(draft, tokens, draft)
