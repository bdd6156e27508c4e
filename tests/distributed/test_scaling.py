# SPDX-License-Identifier: Apache-2.0
"""`python -m tools.bench.scaling`: what ranks measure, and how it is shown. Times are not tested."""

import dataclasses

import numpy as np
import pytest

import baracuda as bk
from baracuda.demo import train
from baracuda.demo.training import Schedule
from distributed import ranks, training
from tools.bench import scaling

TRAINING = pytest.mark.needs_ops("attention_f32", "gemm_dense_f32", "optim_adam_f32", "merge_attention_states_f32")


def made(comm, *arguments):
    config = dataclasses.replace(training.CONFIG, vocabulary=64)
    train.SIZES["tiny"] = train.Size(config, bk.f32, 0, 0, Schedule(steps=1, batch=4, length=16, rate=0.02, warmup=2))
    options = scaling.parse(["--ranks", "2", "--size", "tiny", "--steps", "2", *arguments])
    return scaling.Rank(comm, options)


def measured(comm, *arguments):
    rank = made(comm, *arguments)
    row = rank.ours(np.arange(2000) * 7 % 64)
    sharded = rank.trainer(np.arange(2000) * 7 % 64, rank.schedule, rank.mesh).p.ranks.sharded
    return row, None if sharded is None else len(sharded.units), rank.schedule


def losses(comm, *arguments):
    return made(comm, *arguments).losses(np.arange(2000) * 7 % 64)


@TRAINING
@pytest.mark.parametrize("layout", ["--zero=0", "--zero=1", "--zero=3", "--tensor=2", "--context=2"])
def test_a_row(layout):
    (row, units, schedule), other = ranks.run(2, measured, layout)
    assert schedule.batch == 8 and row["ranks"] == 2 and units == 4
    assert row["step"] == other[0]["step"] > 0 and row["host"] > 0
    assert row["rate"] == pytest.approx(8 * 16 / row["step"])
    assert ("exchange" in row) is (layout != "--tensor=2")  # with which no rank has the parameters of another
    assert ("compute" in row) is layout.startswith("--zero")
    alone = ranks.run(1, measured)[0][0]
    assert "exchange" not in alone
    assert f"scaling {row['rate'] / 2 / alone['rate']:5.3f}" in scaling.line(row, 1, alone)


@TRAINING
def test_texts_are_divided_with_strong_scaling():
    assert ranks.run(2, measured, "--is-strong")[0][2].batch == 4


@TRAINING
def test_losses_are_those_of_one_rank():
    one, (many, _) = ranks.run(1, losses, "--losses", "5")[0], ranks.run(2, losses, "--losses", "5")
    difference, step = scaling.compare_losses(one, many)
    assert len(one) == 5 and difference < 1e-4 and 0 <= step < 5


def test_what_is_hidden():
    assert scaling.hidden({"exposed": 1.0, "exchange": 4.0}) == 0.75
    assert scaling.hidden({"exposed": 9.0, "exchange": 4.0}) == 0.0
