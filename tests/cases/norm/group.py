# SPDX-License-Identifier: Apache-2.0
"""Group and instance norm with channels last, and their gradients."""

import numpy as np

from tools.oracle.numerics import COMPUTE

from ..model import Bad, Case, Expected, Idle, Problem
from .rows import EPS, floats, gradient, of_columns, statistics, with_scalars

EXTENTS = ("n_extent", "c_extent", "spatial_extent")


def scalars_of(shape, groups):
    return dict(zip(EXTENTS, shape)) | {"num_groups": groups}


def stored(shape):
    """The shape of the arrays in memory: [N, S, C]."""
    n, c, s = shape
    return n, s, c


class Grouped:
    """Views an operand as [N, S, groups, channels of a group]."""

    axes = (1, 3)

    def __init__(self, problem):
        n, c, s = (problem.scalars[name] for name in EXTENTS)
        groups = max(problem.scalars["num_groups"], 1)
        self.shape, self.stats_shape = (n, s, groups, c // groups), (n, 1, groups, 1)
        self.channel_shape = (1, 1, groups, c // groups)
        self.whole, self.count = (n, s, c), s * (c // groups)
        self._problem = problem

    def full(self, name):
        return self._problem.arrays[name].values.reshape(self.shape)

    def row(self, name):
        return self._problem.arrays[name].values.reshape(self.stats_shape)

    def channel(self, name, default):
        if name in self._problem.null:
            return np.float64(default)
        return self._problem.arrays[name].values.reshape(self.channel_shape)


def forward(draw, shape, groups, values="normal", null=(), eps=EPS):
    wide, saved = COMPUTE[draw.dtype], (0 if 0 in shape else shape[0] * groups,)
    parameters = {name: draw.floats((shape[1],), dtype=wide) for name in ("gamma", "beta")}
    arrays = {"x": floats(draw, stored(shape), values), **parameters, "y": draw.output(stored(shape))}
    arrays |= {name: draw.output(saved, dtype=wide) for name in ("saved_mean", "saved_rstd")}
    return Problem(scalars_of(shape, groups) | {"eps": eps}, arrays, null=null)


def forward_reference(problem):
    view = Grouped(problem)
    x = view.full("x")
    mean, square, size, lost = statistics(x, view.axes, problem.scalars["eps"], True)
    gamma, beta = view.channel("gamma", 1), view.channel("beta", 0)
    with np.errstate(all="ignore"):
        rstd = 1 / np.sqrt(square)
        scaled = (x - mean) * rstd
        magnitude = np.abs(gamma) * (np.abs(scaled) * lost + rstd * (np.abs(x) + size)) + np.abs(beta)
        found = {"y": (scaled * gamma + beta, magnitude, view.whole), "saved_mean": (mean, size, (-1,)),
                 "saved_rstd": (rstd, rstd * lost, (-1,))}  # fmt: skip
    return {
        name: Expected(v.reshape(shape), view.count, np.nan_to_num(t, posinf=0, nan=0).reshape(shape))
        for name, (v, t, shape) in found.items()
    }


def backward(draw, shape, groups, values="normal", null=()):
    """The given statistics are not those of x, so that a kernel which recomputes them fails."""
    wide, (n, c, _) = COMPUTE[draw.dtype], shape
    saved = (0 if 0 in shape else n * groups,)
    arrays = {name: floats(draw, stored(shape), values) for name in ("dy", "x")}
    arrays |= {
        "gamma": draw.floats((c,), dtype=wide), "saved_mean": draw.floats(saved, dtype=wide),
        "saved_rstd": draw.floats(saved, "positive", dtype=wide), "dx": draw.output(stored(shape)),
        "dgamma": draw.output((c,), dtype=wide), "dbeta": draw.output((c,), dtype=wide),
    }  # fmt: skip
    return Problem(scalars_of(shape, groups), arrays, null=null)


def backward_reference(problem):
    view = Grouped(problem)
    if 0 in view.shape:
        expected = dict.fromkeys(("dgamma", "dbeta"), Expected(np.zeros(view.whole[2])))
        return {name: e for name, e in expected.items() if name not in problem.null}
    dy, x, mean, rstd = view.full("dy"), view.full("x"), view.row("saved_mean"), view.row("saved_rstd")
    with np.errstate(all="ignore"):
        dx, magnitude, xh, size = gradient(dy, x, mean, rstd, view.channel("gamma", 1), view.axes, True)
        magnitude = np.nan_to_num(magnitude, posinf=0, nan=0)
        expected = {"dx": Expected(dx.reshape(view.whole), view.count, magnitude.reshape(view.whole))}
        expected |= of_columns(*(a.reshape(view.whole) for a in (dy, xh, size)), (0, 1))
    return {name: e for name, e in expected.items() if name not in problem.null}


# [N, C, S], and numbers of groups
SHAPES = {
    "plain": ((3, 4, 6), (1, 2, 4)), "one": ((1, 1, 1), (1,)), "one_item": ((1, 1, 37), (1,)),
    "items": ((29, 2, 1), (1, 2)),
    "no_spatial": ((33, 12, 1), (1, 4)), "short": ((9, 8, 3), (1, 2, 4, 8)), "odd": ((4, 6, 49), (2, 3)),
    "tens": ((2, 40, 65), (4,)), "square": ((8, 16, 196), (1, 4, 16)), "few": ((2, 4, 3001), (1, 4)),
    "many_channels": ((3, 300, 5), (3, 300)), "many_items": ((301, 4, 9), (2,)), "wide": ((2, 1030, 4), (1, 2)),
    "wide_groups": ((2, 1040, 33), (2, 65)), "aligned": ((4, 32, 256), (1, 4)), "blocks": ((7, 24, 512), (3,)),
    "long": ((1, 8, 40000), (2,)), "many_vectors": ((2, 2080, 65), (65,)),
}  # fmt: skip


def problems(make, optional):
    table = {}

    def add(name, *args, **options):
        table[name] = lambda d: make(d, *args, **options)

    for name, (shape, group_counts) in SHAPES.items():
        for groups in group_counts:
            add(name if groups == group_counts[0] else f"{name}_{groups}", shape, groups)
    for groups in (1, 2, 4):
        for name in optional:
            add(f"without_{name}_{groups}", (3, 4, 35), groups, null=(name,))
        add(f"without_any_{groups}", (3, 4, 35), groups, null=optional)
        add(f"offset_{groups}", (5, 4, 130), groups, values="offset")
        add(f"edges_{groups}", (5, 4, 13), groups, values="edges")
    return table


def bad_calls(operands, required):
    return (
        *(Bad(f"negative_{e}", 2, rf"{e} is -4", {e: -4}, can=2) for e in EXTENTS),
        *(Bad(f"negative_{e}_beside_0", 2, rf"{e} is -4", {"n_extent": 0, e: -4}, can=2) for e in EXTENTS[1:]),
        Bad("no_groups", 2, r"num_groups is 0, must be >= 1", {"num_groups": 0}, can=2),
        Bad("negative_groups", 2, r"num_groups is -3, must be >= 1", {"num_groups": -3}, can=2),
        Bad("uneven_groups", 2, r"num_groups is 3, must divide c_extent, 4", {"num_groups": 3}, can=2),
        Bad("huge", 2, rf"n_extent is {2**31 - 1}: {operands[0]} would",
            dict.fromkeys(EXTENTS, 2**31 - 1) | {"num_groups": 1}, can=2),
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


def cases():
    table = problems(forward, ("gamma", "beta"))
    table["no_eps"] = lambda d: forward(d, (3, 4, 35), 2, eps=0.0)
    yield Case(
        row="group_norm_channels_last_{T}", problems=table, reference=forward_reference,
        tolerance=dict.fromkeys(FORWARD[3:], "norm"), plain="plain", large="blocks",
        bad=bad_calls(FORWARD, ("x", "y", "saved_mean", "saved_rstd")), idle=idle_calls(()),
    )  # fmt: skip
    table = problems(backward, ("gamma", "dgamma", "dbeta"))
    unread = BACKWARD[:6]
    table |= {
        "empty_items": lambda d: backward(d, (0, 4, 6), 2, null=unread),
        "empty_spatial": lambda d: backward(d, (3, 4, 0), 2, null=(*unread, "dbeta")),
    }
    yield Case(
        row="group_norm_channels_last_backward_{T}", problems=table, reference=backward_reference,
        tolerance=dict.fromkeys(BACKWARD[5:], "norm"), plain="plain", large="blocks",
        bad=bad_calls(BACKWARD, ("dy", "x", "saved_mean", "saved_rstd", "dx")), idle=idle_calls(("dgamma", "dbeta")),
    )  # fmt: skip


OF_FLOATS = tuple(cases())
CASES = (
    *OF_FLOATS,
    with_scalars(
        OF_FLOATS[0],
        "group_norm_channels_last_param_{T}",
        ("plain_4", "short", "short_8", "edges_4", "offset_4", "square", "square_4", "few"),
        eps=0.1,
    ),
)
