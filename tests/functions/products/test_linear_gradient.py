# SPDX-License-Identifier: Apache-2.0
"""Gradients of linear on arrays of any rank, and gradients that are not wanted."""

import numpy as np
import pytest

import baracuda as bk
from plan_tools import odd


def test_linear_backward(rng):
    for shape in ((4,), (3, 4), (2, 3, 4), (0, 4)):
        x, weight, dy = odd(rng, shape, -2, 2), odd(rng, (5, 4), -2, 2), odd(rng, (*shape[:-1], 5), -2, 2)
        dx, dweight, dbias = bk.linear_backward(dy, x, weight)
        rows, tokens = dy.reshape(-1, 5), x.reshape(-1, 4)
        np.testing.assert_allclose(dx, dy @ weight, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(dweight, rows.T @ tokens, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(dbias, rows.sum(0), rtol=1e-9, atol=1e-9)
        assert bk.linear_backward(dy, x, weight, needs=(False, True, False))[::2] == (None, None)
    with pytest.raises(bk.InvalidProblemError, match=r"dy has shape \(3, 4\), expected \(3, 5\)"):
        bk.linear_backward(np.ones((3, 4)), np.ones((3, 4)), np.ones((5, 4)))
