# SPDX-License-Identifier: Apache-2.0
"""Long rows on the CPU whose passes are fused: exponentials of a row that threads share, blocks of a log-sum-exp scan,
and gradients of norms that read memory once. Results are right and bitwise equal for any number of threads."""

import numpy as np
import pytest

import baracuda as bk
from cases import scan
from cases.norm import add as norm_add
from cases.norm import rows as norm_rows
from cases.softmax import softmax
from harness.on_threads import check_on_threads


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("op", ["softmax_f32_strided", "softmax_bf16_strided"])
def test_softmax_that_threads_share(library, set_threads, op, rows):
    check_on_threads(library, set_threads, op, softmax.forward, (rows, 100_003), 1)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", ["normal", "infinite", "least"])
@pytest.mark.parametrize("shape", [(1, 70_001), (1, 200_000), (2, 40_000), (5, 33), (9, 64), (7, 129)], ids=str)
@pytest.mark.parametrize("op", ["scan_log_cumsum_exp_f32", "scan_exclusive_log_cumsum_exp_f32"])
def test_logarithms_of_sums(library, set_threads, op, shape, kind, reverse):
    """Rows within a block and beyond; several rows at a time; tiles that threads share where there is a single row."""
    check_on_threads(library, set_threads, op, scan.forward, shape, 1, kind=kind, reverse=reverse)


@pytest.mark.parametrize("shape", [(257, 4100), (33, 40_003), (20_003, 70)], ids=str)
@pytest.mark.parametrize("name", ["{}_norm_backward_f32_strided", "add_{}_norm_backward_f32",
                                  "{}_norm_recompute_backward_f32"])  # fmt: skip
@pytest.mark.parametrize("of", ["layer", "rms"])
def test_gradients_in_one_pass(library, set_threads, of, name, shape):
    """Row blocks of which the last is shorter, and several of them; whole tiles or not."""
    make = norm_add.recompute if "recompute" in name else norm_add.backward if "add" in name else norm_rows.backward
    check_on_threads(library, set_threads, name.format(of), make, shape, 2, centered=of == "layer")


@pytest.mark.parametrize("of", ["layer", "rms"])
def test_in_place(rng, of):
    """A result written over its input has the bits of one written elsewhere."""
    x, dy, extra = rng.standard_normal((3, 257, 4100)).astype(np.float32)
    gamma = rng.standard_normal(4100).astype(np.float32)
    function = getattr(bk, f"{of}_norm_recompute_backward")
    apart = function(dy, x, gamma, extra, axis=-1)
    given = x.copy()
    over = function(dy, given, gamma, extra, axis=-1, out=(given, *(np.empty_like(each) for each in apart[1:])))
    for one, other in zip(apart, over, strict=True):
        np.testing.assert_array_equal(one, other)
    row = x.reshape(1, -1)
    shares = bk.softmax(row, axis=-1)
    np.testing.assert_array_equal(bk.softmax(row, axis=-1, out=row), shares)
