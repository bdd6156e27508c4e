# SPDX-License-Identifier: Apache-2.0
"""Batch norm in training with running statistics, in inference, and its gradient."""

import numpy as np

from tools.oracle.numerics import COMPUTE

from ..model import Bad, Case, Expected, Idle, Problem
from .rows import EPS, floats, gradient, of_columns, statistics, with_scalars

MOMENTUM = 0.25
EXTENTS = ("n_extent", "c_extent", "spatial_extent")


def scalars_of(shape, last):
    return dict(zip(EXTENTS, shape)) | {"channels_last": last}


def stored(shape, last):
    """The shape of the arrays in memory."""
    n, c, s = shape
    return (n, s, c) if last else (n, c, s)


def in_front(problem, name):
    """[N, C, S], whatever the layout."""
    values = problem.arrays[name].values
    return np.moveaxis(values, 2, 1) if problem.scalars["channels_last"] else values


def behind(problem, values):
    return np.moveaxis(values, 1, 2) if problem.scalars["channels_last"] else values


def of_channels(problem, name, default=None):
    if name in problem.null:
        return np.full((1, problem.scalars["c_extent"], 1), float(default))
    return problem.arrays[name].values.reshape(1, -1, 1)


def affine(problem, x, mean, rstd, size, lost):
    """Returns (y, its magnitude)."""
    gamma, beta = of_channels(problem, "gamma", 1), of_channels(problem, "beta", 0)
    with np.errstate(all="ignore"):
        scaled = (x - mean) * rstd
        magnitude = np.abs(gamma) * (np.abs(scaled) * lost + rstd * (np.abs(x) + size)) + np.abs(beta)
        return scaled * gamma + beta, np.nan_to_num(magnitude, posinf=0, nan=0)


def parameters(draw, channels):
    wide = COMPUTE[draw.dtype]
    return {name: draw.floats((channels,), dtype=wide) for name in ("gamma", "beta", "running_mean")} | {
        "running_var": draw.floats((channels,), "positive", dtype=wide)
    }


def training(draw, shape, last, kind="normal", null=(), eps=EPS):
    wide, saved = COMPUTE[draw.dtype], (0 if 0 in shape else shape[1],)
    arrays = {
        "x": floats(draw, stored(shape, last), kind),
        **parameters(draw, shape[1]),
        "y": draw.output(stored(shape, last)),
    }
    outputs = ("saved_mean", "saved_rstd", "new_running_mean", "new_running_var")
    arrays |= {name: draw.output(saved, dtype=wide) for name in outputs}
    return Problem(scalars_of(shape, last) | {"eps": eps, "momentum": MOMENTUM}, arrays, null=null)


def training_reference(problem):
    x, momentum = in_front(problem, "x"), problem.scalars["momentum"]
    elements_per_channel = x.shape[0] * x.shape[2]
    eps = problem.scalars["eps"]
    mean, square, size, lost = statistics(x, (0, 2), eps, True)
    with np.errstate(all="ignore"):
        rstd = 1 / np.sqrt(square)
        y, magnitude = affine(problem, x, mean, rstd, size, lost)
        old_mean, old_var = of_channels(problem, "running_mean", 0), of_channels(problem, "running_var", 1)
        var = np.square(x - mean).sum((0, 2), keepdims=True) / np.float64(elements_per_channel - 1)
        keeps = 1 - momentum
        moved = {
            "saved_mean": (mean, size), "saved_rstd": (rstd, rstd * lost),
            "new_running_mean": (keeps * old_mean + momentum * mean, np.abs(old_mean) + size),
            "new_running_var": (keeps * old_var + momentum * var, np.abs(old_var) + np.abs(var) * 2 * lost),
        }  # fmt: skip
    expected = {"y": Expected(behind(problem, y), elements_per_channel, behind(problem, magnitude))}
    for name, (value, of) in moved.items():
        expected[name] = Expected(value.ravel(), elements_per_channel, np.nan_to_num(of.ravel(), posinf=0, nan=0))
    return {name: e for name, e in expected.items() if name not in problem.null}


def inference(draw, shape, last, kind="normal", null=(), eps=EPS):
    arrays = {
        "x": floats(draw, stored(shape, last), kind),
        **parameters(draw, shape[1]),
        "y": draw.output(stored(shape, last)),
    }
    return Problem(scalars_of(shape, last) | {"eps": eps}, arrays, null=null)


def inference_reference(problem):
    x, mean = in_front(problem, "x"), of_channels(problem, "running_mean")
    eps = problem.scalars["eps"]
    rstd = 1 / np.sqrt(of_channels(problem, "running_var") + eps)
    y, magnitude = affine(problem, x, mean, rstd, np.abs(mean), 1)
    return {"y": Expected(behind(problem, y), 1, behind(problem, magnitude))}


def backward(draw, shape, last, kind="normal", null=()):
    """The given statistics are not those of x, so that a kernel which recomputes them fails."""
    wide, (_, c, _) = COMPUTE[draw.dtype], shape
    saved = (0 if 0 in shape else c,)
    arrays = {name: floats(draw, stored(shape, last), kind) for name in ("dy", "x")}
    arrays |= {
        "gamma": draw.floats((c,), dtype=wide), "saved_mean": draw.floats(saved, dtype=wide),
        "saved_rstd": draw.floats(saved, "positive", dtype=wide), "dx": draw.output(stored(shape, last)),
        "dgamma": draw.output((c,), dtype=wide), "dbeta": draw.output((c,), dtype=wide),
    }  # fmt: skip
    return Problem(scalars_of(shape, last), arrays, null=null)


def backward_reference(problem):
    dy, x = in_front(problem, "dy"), in_front(problem, "x")
    if 0 in dy.shape:
        return dict.fromkeys(("dgamma", "dbeta"), Expected(np.zeros(dy.shape[1])))
    mean, rstd, gamma = (of_channels(problem, name, 1) for name in ("saved_mean", "saved_rstd", "gamma"))
    with np.errstate(all="ignore"):
        dx, magnitude, xh, size = gradient(dy, x, mean, rstd, gamma, (0, 2), True)
        magnitude = np.nan_to_num(magnitude, posinf=0, nan=0)
        count = dy.shape[0] * dy.shape[2]
        expected = {"dx": Expected(behind(problem, dx), count, behind(problem, magnitude))}
        return expected | of_columns(dy, xh, size, (0, 2))


SHAPES = {
    "plain": (3, 4, 6), "one_channel": (5, 1, 7), "item": (1, 1, 37), "items": (29, 3, 1), "no_spatial": (33, 12, 1),
    "short_spatial": (9, 8, 3), "spatial_49": (4, 6, 49), "spatial_64": (4, 8, 64), "square": (8, 16, 196),
    "long_spatial": (2, 4, 3001), "many_channels": (3, 300, 5), "many_items": (301, 4, 9), "long": (2, 4, 40000),
    "blocks": (7, 24, 512), "wide_channels": (5, 1030, 4),
}  # fmt: skip


def problems(make, optional):
    table = {}

    def add(name, *args, **options):
        table[name] = lambda d: make(d, *args, **options)

    for name, shape in SHAPES.items():
        add(name, shape, 0)
        add(f"{name}_last", shape, 1)
    for last in (0, 1):
        for name in optional:
            add(f"without_{name}_{last}", (3, 4, 35), last, null=(name,))
        add(f"without_any_{last}", (3, 4, 35), last, null=optional)
        add(f"offset_{last}", (5, 4, 130), last, kind="offset")
        add(f"edges_{last}", (5, 4, 13), last, kind="edges")
    return table


def bad_calls(operands, required):
    return (
        *(Bad(f"negative_{e}", 2, rf"{e} is -4", {e: -4}, can=2) for e in EXTENTS),
        *(Bad(f"negative_{e}_beside_0", 2, rf"{e} is -4", {"n_extent": 0, e: -4}, can=2) for e in EXTENTS[1:]),
        Bad("layout", 2, r"channels_last is 2, must be 0 or 1", {"channels_last": 2}, can=2),
        Bad("negative_layout", 2, r"channels_last is -1", {"channels_last": -1}, can=2),
        Bad("huge", 2, rf"n_extent is {2**31 - 1}: {operands[0]} would", dict.fromkeys(EXTENTS, 2**31 - 1), can=2),
        *(Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in required),
        *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in operands),
    )  # fmt: skip


IDLE = (
    Idle("no_items", {"n_extent": 0}), Idle("no_space", {"spatial_extent": 0}), Idle("no_channels", {"c_extent": 0}),
)  # fmt: skip
PARAMETERS = ("gamma", "beta", "running_mean", "running_var")
TRAINED = ("y", "saved_mean", "saved_rstd", "new_running_mean", "new_running_var")


def cases():
    table = problems(training, (*PARAMETERS, *TRAINED[3:]))
    table |= {
        "no_eps": lambda d: training(d, (3, 4, 35), 0, eps=0.0),
        "one_element": lambda d: training(d, (1, 5, 1), 0),  # it has no unbiased variance
    }
    yield Case(
        row="batch_norm_training_{T}", problems=table, reference=training_reference,
        tolerance=dict.fromkeys(TRAINED, "norm"), plain="plain", large="blocks",
        bad=bad_calls(("x", *PARAMETERS, *TRAINED), ("x", *TRAINED[:3])), idle=IDLE,
    )  # fmt: skip
    yield Case(
        row="batch_norm_inference_{T}", problems=problems(inference, PARAMETERS[:2]), reference=inference_reference,
        tolerance={"y": "norm"}, plain="plain", large="blocks",
        bad=bad_calls(("x", *PARAMETERS, "y"), ("x", *PARAMETERS[2:], "y")), idle=IDLE,
    )  # fmt: skip
    unread = ("dy", "x", "gamma", "saved_mean", "saved_rstd", "dx")
    table = problems(backward, ("gamma",))
    table |= {
        "no_items": lambda d: backward(d, (0, 4, 6), 0, null=unread),
        "empty_spatial": lambda d: backward(d, (3, 4, 0), 1, null=unread),
    }
    gradients = ("dx", "dgamma", "dbeta")
    yield Case(
        row="batch_norm_training_backward_{T}", problems=table, reference=backward_reference,
        tolerance=dict.fromkeys(gradients, "norm"), plain="plain", large="blocks",
        bad=bad_calls(("dy", "x", "gamma", "saved_mean", "saved_rstd", *gradients),
                      ("dy", "x", "saved_mean", "saved_rstd", *gradients)),
        idle=IDLE[2:],  # without elements the sums are 0
    )  # fmt: skip


def param_cases(of):
    for case in of:
        name = case.row.removesuffix("_{T}")
        scalars = {"batch_norm_training": {"eps": 0.1, "momentum": 0.3}, "batch_norm_inference": {"eps": 0.1}}.get(name)
        if scalars is not None:
            yield with_scalars(
                case,
                f"{name}_param_{{T}}",
                ("short_spatial", "square", "square_last", "spatial_49", "spatial_49_last"),
                **scalars,
            )


OF_FLOATS = tuple(cases())
CASES = (*OF_FLOATS, *param_cases(OF_FLOATS))
