# SPDX-License-Identifier: Apache-2.0
"""Functions of losses that take several forms of an argument."""

import numpy as np
import pytest

import baracuda as bk


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_targets_of_ctc(rng, dtype):
    """Targets are a row per sample, or concatenated; the mean is of losses divided by their target lengths."""
    frames = np.log(rng.dirichlet(np.ones(5), (9, 3)))
    padded = np.array([[1, 2, 0], [3, 3, 4], [4, 0, 0]], dtype)
    lengths, labels = np.array([9, 7, 8]), np.array([2, 3, 1])
    whole = padded[np.arange(3) < labels[:, None]]
    each = bk.ctc_loss(frames, padded, lengths, labels, reduction="none")
    for targets, most in ((padded, None), (padded, 3), (whole, None), (whole, 3)):
        found = bk.ctc_loss(frames, targets, lengths, labels, reduction="none", max_target_len=most)
        np.testing.assert_array_equal(found, each)
        np.testing.assert_allclose(bk.ctc_loss(frames, targets, lengths, labels), (each / labels).mean(), 1e-14)
        _, *saved = bk.ctc_loss_forward(frames, targets, lengths, labels, max_target_len=most)
        got = bk.ctc_loss_backward(np.ones(()), frames, targets, lengths, labels, *saved, max_target_len=most)
        np.testing.assert_allclose(got.sum(2), 0, atol=1e-14)
        np.testing.assert_array_equal(saved[1], each)
    with pytest.raises(bk.InvalidProblemError, match=r"max_target_len is 2, must be that of targets, 3"):
        bk.ctc_loss(frames, padded, lengths, labels, max_target_len=2)
    with pytest.raises(bk.InvalidProblemError, match=r"targets has shape \(2, 3\), expected \(batch_size = 3"):
        bk.ctc_loss(frames, padded[:2], lengths, labels)
    with pytest.raises(bk.InvalidProblemError, match=r"targets has shape \(\), expected \(batch_size, max"):
        bk.ctc_loss(frames, padded[0, 0], lengths, labels)
