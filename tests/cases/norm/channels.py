# SPDX-License-Identifier: Apache-2.0
"""Batch, group and instance norm, and their gradients."""

import functools

import numpy as np

from tools.oracle.numerics import COMPUTE

from ..model import Bad, Case, Expected, Idle, Problem
from .rows import EPS, floats, gradient, gradient_of_x, of_columns, statistics, with_scalars

OF_BATCH, OF_ITEM = 0, 1


def scalars_of(shape, groups, kind):
    return dict(zip(("n_extent", "c_extent", "spatial_extent"), shape)) | {"num_groups": groups, "group_kind": kind}


def count_of(shape, groups, kind):
    return 0 if 0 in shape else shape[1] if kind == OF_BATCH else shape[0] * groups


class Grouped:
    """Views an operand as groups, [groups..., within...]; `axes` are those within a group."""

    def __init__(self, problem):
        scalars = problem.scalars
        n, c, s = (scalars[f"{axis}_extent"] for axis in ("n", "c", "spatial"))
        groups = scalars["num_groups"]
        if scalars["group_kind"] == OF_BATCH:
            self.shape, self.axes, self.stats_shape = (n, c, s), (0, 2), (1, c, 1)
            self.channel_shape = (1, c, 1)
        else:
            self.shape, self.axes, self.stats_shape = (n, groups, c // groups, s), (2, 3), (n, groups, 1, 1)
            self.channel_shape = (1, groups, c // groups, 1)
        self.whole, self.count = (n, c, s), int(np.prod([self.shape[a] for a in self.axes]))
        self._problem = problem

    def full(self, name):
        return self._problem.arrays[name].values.reshape(self.shape)

    def row(self, name):
        return self._problem.arrays[name].values.reshape(self.stats_shape)

    def channel(self, name, default):
        if name in self._problem.null:
            return np.float64(default)
        return self._problem.arrays[name].values.reshape(self.channel_shape)


def forward(draw, shape, groups, kind, values="normal", null=(), eps=EPS, is_wide=False):
    """`is_wide`: statistics are not rounded to the dtype of x."""
    saved, wide = (count_of(shape, groups, kind),), COMPUTE[draw.dtype] if is_wide else ""
    arrays = {
        "x": floats(draw, shape, values), "gamma": draw.floats((shape[1],)), "beta": draw.floats((shape[1],)),
        "y": draw.output(shape), "saved_mean": draw.output(saved, dtype=wide),
        "saved_rstd": draw.output(saved, dtype=wide),
    }  # fmt: skip
    return Problem(scalars_of(shape, groups, kind) | {"eps": eps}, arrays, null=null)


def forward_reference(problem):
    view = Grouped(problem)
    x = view.full("x")
    mean, square, size, lost = statistics(x, view.axes, problem.scalars["eps"], True)
    gamma, beta = view.channel("gamma", 1), view.channel("beta", 0)
    with np.errstate(all="ignore"):
        rstd = 1 / np.sqrt(square)
        scaled = (x - mean) * rstd
        magnitude = np.abs(gamma) * (np.abs(scaled) * lost + rstd * (np.abs(x) + size)) + np.abs(beta)
        value = scaled * gamma + beta
    found = {
        "y": (value, magnitude, view.whole),
        "saved_mean": (mean, size, (-1,)),
        "saved_rstd": (rstd, rstd * lost, (-1,)),
    }
    return {
        name: Expected(v.reshape(shape), view.count, np.nan_to_num(t, posinf=0, nan=0).reshape(shape))
        for name, (v, t, shape) in found.items() if name not in problem.null
    }  # fmt: skip


def backward(draw, shape, groups, kind, values="normal", null=(), is_wide=False):
    """The given statistics are not those of x, so that a kernel which recomputes them fails."""
    saved, wide = (count_of(shape, groups, kind),), COMPUTE[draw.dtype] if is_wide else ""
    arrays = {
        "dy": floats(draw, shape, values), "x": floats(draw, shape, values), "gamma": draw.floats((shape[1],)),
        "saved_mean": draw.floats(saved, dtype=wide), "saved_rstd": draw.floats(saved, "positive", dtype=wide),
        "dx": draw.output(shape), "dgamma": draw.output((shape[1],)), "dbeta": draw.output((shape[1],)),
    }  # fmt: skip
    return Problem(scalars_of(shape, groups, kind), arrays, null=null)


def backward_reference(problem):
    view = Grouped(problem)
    if 0 in view.shape:
        nothing = np.zeros(view.whole[1])
        expected = {"dgamma": Expected(nothing), "dbeta": Expected(nothing)}
        return {name: e for name, e in expected.items() if name not in problem.null}
    dy, x, mean, rstd = view.full("dy"), view.full("x"), view.row("saved_mean"), view.row("saved_rstd")
    with np.errstate(all="ignore"):
        dx, magnitude, xh, size = gradient(dy, x, mean, rstd, view.channel("gamma", 1), view.axes, True)
        magnitude = np.nan_to_num(magnitude, posinf=0, nan=0)
        expected = {"dx": Expected(dx.reshape(view.whole), view.count, magnitude.reshape(view.whole))}
        expected |= of_columns(*(a.reshape(view.whole) for a in (dy, xh, size)), (0, 2))
    return {name: e for name, e in expected.items() if name not in problem.null}


def recompute(draw, shape, groups, kind, values="normal", null=(), eps=0.1):
    """The statistics are outputs."""
    saved, wide = (count_of(shape, groups, kind),), COMPUTE[draw.dtype]
    arrays = {
        "dy": floats(draw, shape, values), "x": floats(draw, shape, values), "gamma": draw.floats((shape[1],)),
        "saved_mean": draw.output(saved, dtype=wide), "saved_rstd": draw.output(saved, dtype=wide),
        "dx": draw.output(shape), "dgamma": draw.output((shape[1],)), "dbeta": draw.output((shape[1],)),
    }  # fmt: skip
    return Problem(scalars_of(shape, groups, kind) | {"eps": eps}, arrays, null=null)


def recompute_reference(problem):
    view = Grouped(problem)
    if 0 in view.shape:
        return backward_reference(problem)
    dy, x, gamma = view.full("dy"), view.full("x"), view.channel("gamma", 1)
    with np.errstate(all="ignore"):
        mean, rstd, dx, magnitude, xh, of_xh = gradient_of_x(
            dy, x, gamma, np.abs(gamma), view.axes, problem.scalars["eps"], True
        )  # fmt: skip
        columns = of_columns(*(a.reshape(view.whole) for a in (dy, xh, of_xh)), (0, 2))
    found = {"saved_mean": (*mean, (-1,)), "saved_rstd": (*rstd, (-1,)), "dx": (dx, magnitude, view.whole)}
    expected = {
        name: Expected(v.reshape(shape), view.count, np.nan_to_num(t, posinf=0, nan=0).reshape(shape))
        for name, (v, t, shape) in found.items()
    }
    # Each summand of a channel's sum has the error of its group's statistics.
    for name, e in columns.items():
        expected[name] = Expected(e.value, e.count + view.count, e.magnitude)
    return {name: e for name, e in expected.items() if name not in problem.null}


SHAPES = {
    "plain": (3, 4, 6), "one": (1, 1, 1), "one_item": (1, 1, 37), "items": (29, 1, 1), "channels": (1, 12, 1),
    "no_spatial": (33, 12, 1), "short_spatial": (9, 8, 3), "spatial_7": (4, 6, 49), "spatial_8": (4, 6, 64),
    "spatial_31": (2, 4, 31), "spatial_33": (5, 4, 33), "square": (8, 16, 196), "long_spatial": (2, 4, 3001),
    "many_channels": (3, 300, 5), "many_items": (301, 4, 9), "long": (2, 4, 40000), "aligned": (16, 32, 256),
    "blocks": (7, 24, 512),
}  # fmt: skip
FEW = ("plain", "no_spatial", "square", "short_spatial", "long_spatial")


def divisors(c):
    return [g for g in (1, 2, 4, c) if c % g == 0 and g <= c]


def problems(make, optional):
    table = {}

    def add(name, *args, **options):
        table[name] = lambda d: make(d, *args, **options)

    for name, shape in SHAPES.items():
        add(name, shape, shape[1], OF_BATCH)
        for groups in dict.fromkeys(divisors(shape[1])):
            add(f"{name}_{groups}", shape, groups, OF_ITEM)
    for kind, groups in ((OF_BATCH, 4), (OF_ITEM, 1), (OF_ITEM, 2), (OF_ITEM, 4)):
        for name in optional:
            add(f"without_{name}_{kind}_{groups}", (3, 4, 35), groups, kind, null=(name,))
        add(f"without_any_{kind}_{groups}", (3, 4, 35), groups, kind, null=optional)
        add(f"offset_{kind}_{groups}", (5, 4, 130), groups, kind, values="offset")
        add(f"edges_{kind}_{groups}", (5, 4, 13), groups, kind, values="edges")
    add("other_num_groups", (3, 4, 6), 17, OF_BATCH)
    return table


def bad_calls(operands, required):
    extents = ("n_extent", "c_extent", "spatial_extent")
    return (
        *(Bad(f"negative_{e}", 2, rf"{e} is -4", {e: -4}, can=2) for e in extents),
        *(Bad(f"negative_{e}_beside_0", 2, rf"{e} is -4", {"n_extent": 0, e: -4}, can=2) for e in extents[1:]),
        Bad("no_groups", 2, r"num_groups is 0, must be >= 1", {"num_groups": 0}, can=2),
        Bad("negative_groups", 2, r"num_groups is -3, must be >= 1", {"num_groups": -3}, can=2),
        Bad("uneven_groups", 2, r"num_groups is 3, must divide c_extent, 4", {"num_groups": 3, "group_kind": 1}, can=2),
        Bad("kind", 2, r"group_kind is 2, must be 0 or 1", {"group_kind": 2}, can=2),
        Bad("negative_kind", 2, r"group_kind is -1", {"group_kind": -1}, can=2),
        Bad("huge", 2, rf"n_extent is {2**31 - 1}: {operands[0]} would", dict.fromkeys(extents, 2**31 - 1), can=2),
        *(Bad(f"null_{a}", 2, rf"{a} is NULL", null=(a,)) for a in required),
        *(Bad(f"odd_{a}", 1, rf"{a} is 0x[0-9a-f]+", shift={a: 1}) for a in operands),
    )  # fmt: skip


def idle_calls(stands):
    """`stands`: outputs that are written where there are no elements."""
    return (
        Idle("no_items", {"n_extent": 0}, null=stands),
        Idle("empty_spatial", {"spatial_extent": 0}, null=stands),
        Idle("no_channels", {"c_extent": 0}),
        Idle("no_channels_no_groups", {"c_extent": 0, "num_groups": 0}),
    )


FORWARD = ("x", "gamma", "beta", "y", "saved_mean", "saved_rstd")
BACKWARD = ("dy", "x", "gamma", "saved_mean", "saved_rstd", "dx", "dgamma", "dbeta")


def gradient_problems(make):
    unread = BACKWARD[:6]
    return problems(make, ("gamma", "dgamma", "dbeta")) | {
        "no_items": lambda d: make(d, (0, 4, 6), 4, OF_BATCH, null=unread),
        "no_items_of_groups": lambda d: make(d, (0, 4, 6), 2, OF_ITEM, null=unread),
        "empty_spatial": lambda d: make(d, (3, 4, 0), 2, OF_ITEM, null=(*unread, "dbeta")),
    }


def cases():
    table = problems(forward, ("gamma", "beta"))
    table["no_eps"] = lambda d: forward(d, (3, 4, 35), 4, OF_BATCH, eps=0.0)
    bad = bad_calls(FORWARD, ("x", "y", "saved_mean", "saved_rstd"))
    backwards = gradient_problems(backward)
    bad_backwards = bad_calls(BACKWARD, ("dy", "x", "saved_mean", "saved_rstd", "dx"))
    for name in ("batch_norm", "group_norm"):  # they share one code
        is_brief = name == "group_norm"
        for row, reference, outputs, made, refused, stands in (
            (f"{name}_{{T}}", forward_reference, FORWARD[3:], table, bad, ()),
            (f"{name}_backward_{{T}}", backward_reference, BACKWARD[5:], backwards, bad_backwards, ("dgamma", "dbeta")),
        ):
            chosen = {n: p for n, p in made.items() if n.rstrip("0123456789_") in FEW} if is_brief else made
            yield Case(
                row=row, problems=chosen, reference=reference, tolerance=dict.fromkeys(outputs, "norm"), plain="plain",
                large="square" if is_brief else "blocks", bad=refused, idle=idle_calls(stands),
            )  # fmt: skip


def wide_cases():
    """Rows whose statistics are not rounded and whose eps is f64."""
    table = problems(functools.partial(forward, is_wide=True, eps=0.1), ("gamma", "beta", "saved_mean", "saved_rstd"))
    table["no_eps"] = lambda d: forward(d, (3, 4, 35), 4, OF_BATCH, eps=0.0, is_wide=True)
    yield Case(
        row="group_norm_wide_{T}", problems=table, reference=forward_reference,
        tolerance=dict.fromkeys(FORWARD[3:], "norm"), plain="plain", large="blocks", bad=bad_calls(FORWARD, ("x", "y")),
        idle=idle_calls(()),
    )  # fmt: skip
    for row, make, reference, outputs in (
        ("group_norm_wide_backward_{T}", functools.partial(backward, is_wide=True), backward_reference, BACKWARD[5:]),
        ("group_norm_recompute_backward_{T}", recompute, recompute_reference, BACKWARD[3:]),
    ):
        yield Case(
            row=row, problems=gradient_problems(make), reference=reference, tolerance=dict.fromkeys(outputs, "norm"),
            plain="plain", large="blocks", bad=bad_calls(BACKWARD, ("dy", "x", "saved_mean", "saved_rstd", "dx")),
            idle=idle_calls(("dgamma", "dbeta")),
        )  # fmt: skip


PARAM = (*FEW, "plain_2", "plain_4", "square_2", "square_16", "no_spatial_12", "short_spatial_8")
ROUNDED = tuple(cases())
CASES = (
    *ROUNDED, *wide_cases(),
    *(with_scalars(case, case.row.replace("{T}", "param_{T}"), PARAM, eps=0.1)
      for case in ROUNDED if case.row in ("batch_norm_{T}", "group_norm_{T}")),
)  # fmt: skip
