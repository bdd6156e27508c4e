# SPDX-License-Identifier: Apache-2.0
"""Norms, variances and their gradients for values of any scale and with a large mean.

Finite values whose result is finite get it, though their squares or sums leave the range of the compute type. The
reference is computed on the values times a power of two that makes them about 1: statistics scale with it, and the
normalized values do not change.
"""

import dataclasses

import numpy as np
import pytest

import tolerances
from cases import CASES, Draw
from cases.norm import add as norm_add
from cases.norm import batch as norm_batch
from cases.norm import channels as norm_channels
from cases.norm import group as norm_group
from cases.norm import l2 as norm_l2
from cases.norm import rows as norm_rows
from cases.reduce.axes import over
from cases.reduce.backward import backward as reduction_backward
from cases.reduce.one_axis import along
from harness import OPS, launch
from naming import each_row
from tools.oracle.numerics import round_to

# Powers of two that values near 1 are scaled by: squares overflow, sums overflow, squares vanish, values are subnormal.
POWERS = {
    "f16": (10, -8), "bf16": (66, 90, 124, -50, -66, -100), "f32": (66, 90, 124, -50, -66, -100),
    "f64": (520, 700, 1020, -500, -520, -900),
}  # fmt: skip
SUBNORMAL = {"f16": -18, "bf16": -130, "f32": -140, "f64": -1060}  # quotients by a norm remain accurate
ROW, LONG = (5, 67), (2, 5003)


def of_rows(module, make, **options):
    def made(draw, shape):
        return getattr(module, make)(draw, shape, 2, **options)

    return made


def of_channels(make, kind, **options):
    def made(draw, shape):
        groups = 2 if kind == norm_channels.OF_ITEM else 1
        return getattr(norm_channels, make)(draw, (*shape[:1], 4, shape[1]), groups, kind, **options)

    return made


def of_groups(make, **options):
    return lambda draw, shape: getattr(norm_group, make)(draw, (*shape[:1], 4, shape[1]), 2, **options)


def of_batch(make, last, **options):
    return lambda draw, shape: getattr(norm_batch, make)(draw, (*shape[:1], 4, shape[1]), last, **options)


def of_axis(axis):
    def made(draw, shape):
        return along(draw, shape if axis else shape[::-1], axis, correction=1)

    return made


def of_moments(draw, shape):
    return over(draw, shape, (1,), outputs={"y": "", "mean": ""}, correction=1)


def of_lengths(make, gain):
    names = {"forward": ("x", "y"), "backward": ("dy", "x", "dx")}[make]
    if gain:
        names = {"forward": ("v", "w", "g"), "backward": ("dw", "v", "dv", "g", "dg")}[make]
    return lambda draw, shape: getattr(norm_l2, make)(names, 0.0)(draw, shape, 2)


# Problem variants of each row, with the power of the scale that each operand and output changes by (default 0).
CENTERED, PLAIN = {"centered": True}, {"centered": False}
NULL_RUNNING = {"null": ("running_mean", "running_var", "new_running_mean", "new_running_var")}
SAVED = {"saved_mean": 1, "saved_rstd": -1}
RECOMPUTED = {"null": ("dsum",), "eps": 0.0}
ROWS = {
    "rms_norm_{T}": ([of_rows(norm_rows, "forward", eps=0.0, **PLAIN)], {"x": 1, "rms_out": 1}),
    "layer_norm_{T}": (
        [of_rows(norm_rows, "forward", eps=0.0, **CENTERED)], {"x": 1, "mean_out": 1, "inv_std_out": -1},
    ),
    "add_rms_norm_{T}": (
        [of_rows(norm_add, "forward", eps=0.0, null=("residual",), **PLAIN)], {"x": 1, "sum": 1, "rms_out": 1},
    ),
    "add_layer_norm_{T}": (
        [of_rows(norm_add, "forward", eps=0.0, null=("residual",), **CENTERED)],
        {"x": 1, "sum": 1, "mean_out": 1, "inv_std_out": -1},
    ),
    "rms_norm_recompute_backward_{T}": (
        [of_rows(norm_add, "recompute", **RECOMPUTED, **PLAIN)], {"x": 1, "rms_out": 1, "dx": -1},
    ),
    "layer_norm_recompute_backward_{T}": (
        [of_rows(norm_add, "recompute", **RECOMPUTED, **CENTERED)],
        {"x": 1, "mean_out": 1, "inv_std_out": -1, "dx": -1},
    ),
    "batch_norm_{T}": ([of_channels("forward", norm_channels.OF_BATCH, eps=0.0)], {"x": 1, **SAVED}),
    "group_norm_{T}": ([of_channels("forward", norm_channels.OF_ITEM, eps=0.0)], {"x": 1, **SAVED}),
    "group_norm_wide_{T}": (
        [of_channels("forward", norm_channels.OF_ITEM, eps=0.0, is_wide=True)], {"x": 1, **SAVED},
    ),
    "group_norm_backward_{T}": ([of_channels("backward", norm_channels.OF_ITEM)], {"x": 1, **SAVED, "dx": -1}),
    "group_norm_recompute_backward_{T}": (
        [of_channels("recompute", norm_channels.OF_ITEM, eps=0.0)], {"x": 1, **SAVED, "dx": -1},
    ),
    "group_norm_channels_last_{T}": ([of_groups("forward", eps=0.0)], {"x": 1, **SAVED}),
    "group_norm_channels_last_backward_{T}": ([of_groups("backward")], {"x": 1, **SAVED, "dx": -1}),
    "batch_norm_training_{T}": (
        [of_batch("training", last, eps=0.0, **NULL_RUNNING) for last in (0, 1)], {"x": 1, **SAVED},
    ),
    "batch_norm_training_backward_{T}": (
        [of_batch("backward", last) for last in (0, 1)], {"x": 1, **SAVED, "dx": -1},
    ),
    "l2_normalize_{T}": ([of_lengths("forward", False)], {"x": 1, "norm_out": 1}),
    "l2_normalize_backward_{T}": ([of_lengths("backward", False)], {"x": 1, "dx": -1}),
    "weight_norm_{T}": ([of_lengths("forward", True)], {"v": 1, "norm_out": 1}),
    "weight_norm_backward_{T}": ([of_lengths("backward", True)], {"v": 1, "dv": -1}),
    "reduce_std_{T}": ([of_axis(0), of_axis(1)], {"x": 1, "y": 1}),
    "reduce_var_{T}": ([of_axis(0), of_axis(1)], {"x": 1, "y": 2}),
    "reduce_{F}_axes_{T}": ([of_moments], {"x": 1, "y": 1, "mean": 1}),
    "reduce_std_backward_{T}": (
        [lambda draw, shape: reduction_backward(draw, "std", shape, (1,))], {"x": 1},
    ),
}  # fmt: skip
OF_LENGTHS = ("l2_normalize_{T}", "weight_norm_{T}")


def rows_of_ops():
    """Yields (op, its row's entry of ROWS)."""
    for op, (row, slots) in OPS.items():
        entry = ROWS.get(row.name) or (
            slots.get("F") in ("var", "std") and ROWS.get(row.name.replace("{F}", slots["F"]))
        )
        if entry and (row.name != "reduce_{F}_axes_{T}" or slots.get("F") == "std"):
            yield op, entry


SCALED = dict(rows_of_ops())


def scaled(problem, powers, power):
    """The problem with its operands times the power of two, and the unscaled one."""
    larger, arrays = dict(problem.arrays), dict(problem.arrays)
    for name, of in powers.items():
        array = problem.arrays.get(name)
        if array is None or array.values is None:
            continue
        larger[name] = dataclasses.replace(array, values=round_to(np.ldexp(array.values, of * power), array.dtype))
        arrays[name] = dataclasses.replace(array, values=np.ldexp(larger[name].values, -of * power))
    return dataclasses.replace(problem, arrays=larger), dataclasses.replace(problem, arrays=arrays)


def expected_of(case, problem, powers, power):
    found = case.reference(problem)
    for name, want in found.items():
        factor = np.ldexp(1.0, powers.get(name, 0) * power) if name in powers else 1.0
        with np.errstate(all="ignore"):
            found[name] = dataclasses.replace(
                want, value=np.asarray(want.value, np.float64) * factor, magnitude=np.asarray(want.magnitude) * factor
            )
    return found


@each_row(SCALED)
def test_scales(library, op):
    row, slots = OPS[op]
    case, (makes, powers) = CASES[row.name], SCALED[op]
    dtype = slots["T"]
    for shape in (ROW, LONG):
        for make in makes:
            of_dtype = (*POWERS[dtype], SUBNORMAL[dtype]) if row.name in OF_LENGTHS else POWERS[dtype]
            for power in of_dtype:
                problem, near_one = scaled(make(Draw(slots, "scales"), shape), powers, power)
                expected = expected_of(case, near_one, powers, power)
                for workspace in (None, "full"):
                    outcome = launch(library, op, problem, workspace=workspace)
                    assert outcome.status == 0, outcome.text
                    for name, want in expected.items():
                        tolerances.check(
                            f"{op}: {name}, {shape}, 2^{power}", outcome.values(name), outcome.dtypes[name], want,
                            case.tolerance_of(name, workspace is not None),
                        )  # fmt: skip


UNIT = 2.0**-23


@pytest.mark.parametrize("mean", [1e4, 1e6])
@pytest.mark.parametrize("n", [33, 4096, 30011])
@each_row([op for op in SCALED if op.endswith("_f32")])
def test_large_means(library, op, n, mean):
    """The variance of exact values far from 0 is as accurate as that of small ones."""
    (makes, powers) = SCALED[op]
    if not set(powers) & {"saved_rstd", "inv_std_out"} and "reduce" not in op:
        return
    for make in makes:
        draw = Draw(OPS[op][1], "far")
        problem = make(draw, (2, n))
        x = problem.arrays["x"]
        x.values = round_to(mean + 0.5 * draw.rng.standard_normal(x.values.shape), "f32")
        exact = CASES[OPS[op][0].name].reference(problem)
        for workspace in (None, "full"):
            outcome = launch(library, op, problem, workspace=workspace)
            assert outcome.status == 0, outcome.text
            for name in exact.keys() & {"saved_rstd", "inv_std_out"} | (
                {"y"} & exact.keys() if "reduce" in op else set()
            ):
                error = np.max(np.abs(outcome.values(name) / np.asarray(exact[name].value, np.float64) - 1))
                assert error <= tolerances.LARGE_MEAN * UNIT, (name, n, error / UNIT)


@each_row([op for op in SCALED if op == "layer_norm_f32"])
def test_means_of_the_largest(library, op):
    """A mean lies between its values, also where their sum overflows."""
    for value in (3e38, float(np.finfo(np.float32).max)):
        for shape in ((2, 3), (2, 5003)):
            problem = norm_rows.forward(Draw({"T": "f32"}, "largest"), shape, 2, centered=True)
            x = problem.arrays["x"]
            x.values = round_to(np.full(shape, value), "f32")
            outcome = launch(library, op, problem)
            assert outcome.status == 0, outcome.text
            beta = problem.arrays["beta"].values
            assert np.array_equal(outcome.values("mean_out"), x.values[:, :1])
            assert np.array_equal(outcome.values("y"), np.broadcast_to(beta, shape))
