# SPDX-License-Identifier: Apache-2.0
"""Training a language model on several ranks: the losses of one rank, in every layout."""

import pytest

import baracuda as bk
from distributed import ranks, training

LAYOUTS = [
    {"data": 2}, {"data": 2, "zero": 1}, {"data": 2, "zero": 2}, {"data": 2, "zero": 3}, {"tensor": 2}, {"context": 2},
    {"data": 4, "zero": 3}, {"data": 2, "tensor": 2, "zero": 1}, {"context": 2, "tensor": 2, "zero": 3},
    {"data": 2, "context": 2, "zero": 2},
]  # fmt: skip

pytestmark = pytest.mark.needs_ops(
    "add_rms_norm_f32", "attention_f32", "merge_attention_states_f32", "binary_add_f32", "cast_f32_bf16", "fill_f32",
    "embedding_i64idx_f32", "gated_swiglu_f32", "gemm_dense_f32", "loss_flce_per_row_f32", "optim_adam_f32",
    "rope_apply_thd_half_f32", "reduce_logsumexp_f32", "random_advance",
)  # fmt: skip


def name_of(layout):
    return "-".join([f"{key}{value}" for key, value in layout.items()])


def size_of(layout):
    return bk.distributed.Layout(**layout).size


@pytest.fixture(scope="module")
def alone():
    return training.alone()


@pytest.mark.parametrize("layout", LAYOUTS, ids=name_of)
def test_losses_are_those_of_one_rank(alone, layout):
    found = ranks.run(size_of(layout), training.losses, layout, {})
    for losses, _ in found:
        assert training.largest_difference(losses, alone) < 1e-4
        assert losses == found[0][0]


@pytest.mark.parametrize("layout", [{"data": 2}, {"data": 2, "zero": 2}, {"tensor": 2}], ids=name_of)
def test_a_long_run_follows_one_rank(layout):
    """Differences of the order of sums do not grow."""
    changes = {"steps": 200, "rate": 0.005}
    found, one = ranks.run(2, training.run_to_the_end, layout, changes), training.alone(**changes)
    assert one[-1] < 0.8 * one[0]
    assert training.largest_difference(found[0], one) < 1e-3
    assert found[0] == found[1]


@pytest.mark.parametrize("layout", [{"data": 2, "zero": 2}, {"data": 2, "zero": 3}, {"data": 2}], ids=name_of)
@pytest.mark.parametrize("changes", [{"accumulate": 2, "batch": 2}, {"dropout": 0.2}], ids=["accumulate", "dropout"])
def test_batches_and_dropout(layout, changes):
    found = ranks.run(2, training.losses, layout, changes)
    assert training.largest_difference(found[0][0], training.alone(**changes)) < 1e-4


@pytest.mark.parametrize("layout", [{"data": 2, "zero": 3}, {"data": 2, "tensor": 2}], ids=name_of)
def test_two_runs_are_equal(layout):
    first, second = (ranks.run(size_of(layout), training.losses, layout, {}) for _ in range(2))
    assert first == second
