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


@pytest.mark.parametrize("layout", [{"data": 2, "zero": 2}, {"data": 2, "zero": 3}, {"data": 2}], ids=name_of)
@pytest.mark.parametrize("changes", [{"accumulate": 2, "batch": 2}, {"dropout": 0.2}], ids=["accumulate", "dropout"])
def test_batches_and_dropout(layout, changes):
    found = ranks.run(2, training.losses, layout, changes)
    assert training.largest_difference(found[0][0], training.alone(**changes)) < 1e-4


@pytest.mark.parametrize("layout", [{"data": 2, "zero": 3}, {"data": 2, "tensor": 2}], ids=name_of)
def test_two_runs_are_equal(layout):
    first, second = (ranks.run(size_of(layout), training.losses, layout, {}) for _ in range(2))
    assert first == second
