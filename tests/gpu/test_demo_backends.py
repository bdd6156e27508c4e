# SPDX-License-Identifier: Apache-2.0
"""The demo learns the same on both backends."""

import pytest

from harness.demo import run_demo, shares


def test_both_backends_learn_the_same(library):
    options = ("--epochs", "2", "--backend")
    here, there = (shares(run_demo(*options, backend).stdout) for backend in ("cuda", "cpu"))
    assert here == pytest.approx(there, abs=0.01)  # some texts lie on a decision boundary
