# SPDX-License-Identifier: Apache-2.0
"""Long sums keep their accuracy, along any axis and without a workspace."""

import numpy as np
import pytest

import tolerances
from cases import Draw
from cases.norm.batch import training
from cases.reduce.one_axis import along
from harness import launch
from tools.oracle.numerics import round_to

MANY = 1 << 15
UNIT = 2.0**-23
VALUES = {
    "sum": np.sum, "mean": np.mean, "norm2": lambda x, axis: np.sqrt(np.square(x).sum(axis)),
    "var": lambda x, axis: x.var(axis, ddof=1), "logsumexp": lambda x, axis: np.log(np.exp(x).sum(axis)),
}  # fmt: skip


def check(outcome, name, want):
    assert outcome.status == 0, outcome.text
    assert np.max(np.abs(outcome.values(name).ravel() / want - 1)) <= tolerances.LONG_SUM * UNIT


@pytest.mark.parametrize("function", VALUES)
@pytest.mark.parametrize(("shape", "axis"), [((32 * MANY,), 0), ((MANY, 80), 0), ((3, 8 * MANY), 1)])
def test_reductions(library, function, shape, axis):
    draw = Draw({"T": "f32", "F": function}, "long")
    problem = along(draw, shape, axis, **({"correction": 1} if function == "var" else {}))
    x = round_to(draw.rng.uniform(1, 2, shape), "f32")
    problem.arrays["x"].values = x
    for workspace in (None, "full"):
        got = launch(library, f"reduce_{function}_f32", problem, workspace=workspace)
        check(got, "y", VALUES[function](x, axis=axis).ravel())


@pytest.mark.parametrize("last", [0, 1])
def test_statistics(library, last):
    draw = Draw({"T": "f32"}, "long")
    problem = training(draw, (1, 80, MANY), last, eps=0.0)
    x = round_to(draw.rng.uniform(1, 2, problem.arrays["x"].shape), "f32")
    problem.arrays["x"].values = x
    for workspace in (None, "full"):
        got = launch(library, "batch_norm_training_f32", problem, workspace=workspace)
        axis = (0, 1 if last else 2)
        check(got, "saved_mean", x.mean(axis))
        check(got, "saved_rstd", 1 / x.std(axis))
