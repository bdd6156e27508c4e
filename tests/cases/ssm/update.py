# SPDX-License-Identifier: Apache-2.0
"""Single steps of selective scans."""

import numpy as np

from ..model import Bad, Case, Problem
from .recurrence import Scan, solve
from .scan import expected, negative, normal, nothing, rates, steps, values_of, wanted

# batch, heads, head_dim, groups, dstate
SHAPES = {
    "one": (1, 1, 1, 1, 1), "plain": (3, 6, 5, 3, 4), "mamba": (2, 1, 70, 1, 16), "wide": (2, 4, 64, 2, 128),
    "odd": (2, 3, 7, 1, 37), "many": (1, 2, 3, 1, 600), "large": (4, 8, 32, 2, 64), "stateless": (2, 2, 3, 1, 0),
}  # fmt: skip
OPTIONAL = ("d_skip", "z", "dt_bias")


def update(draw, shape, softplus=1, per_head=0, null=()):
    batch, heads, head_dim, groups, dstate = shape
    count = heads if per_head else heads * head_dim
    x, state, of_groups = (batch, heads, head_dim), (batch, heads, head_dim, dstate), (batch, groups, dstate)
    arrays = {
        "state": normal(draw, state, dtype="f32"), "x": normal(draw, x), "dt": steps(draw, (batch, count), softplus),
        "a": rates(draw, (count, 1 if per_head else dstate), "f32"), "b": normal(draw, of_groups),
        "c": normal(draw, of_groups), "d_skip": normal(draw, (count,), dtype="f32"), "z": normal(draw, x),
        "dt_bias": normal(draw, (count,), 0.1, "f32"), "y": draw.output(x),
        "new_state": draw.output(state, dtype="f32"),
    }  # fmt: skip
    scalars = {"batch": batch, "heads": heads, "head_dim": head_dim, "groups": groups, "dstate": dstate}
    return Problem(scalars | {"dt_softplus": softplus, "is_per_head": per_head}, arrays, null=tuple(null))


def reference(problem):
    s = problem.scalars
    of = {name: values_of(problem, name) for name in problem.arrays}
    batch, channels, states = s["batch"], s["heads"] * s["head_dim"], s["dstate"]
    share = s["head_dim"] if s["is_per_head"] else 1

    def by_channel(x, axis):
        return None if x is None else np.repeat(x, share, axis)

    width = s["heads"] // s["groups"] * s["head_dim"] if s["groups"] else 0
    scan = Scan(
        u=of["x"].reshape(batch, 1, channels), delta=by_channel(of["dt"], 1)[:, None],
        a=np.broadcast_to(by_channel(of["a"], 0), (channels, states)), b=np.repeat(of["b"], width, 1)[:, None],
        c=np.repeat(of["c"], width, 1)[:, None], softplus=bool(s["dt_softplus"]), d=by_channel(of["d_skip"], 0),
        z=None if of["z"] is None else of["z"].reshape(batch, 1, channels), bias=by_channel(of["dt_bias"], 0),
        initial=of["state"].reshape(batch, channels, states), spans=[(r, r, 0, 1) for r in range(batch)],
    )  # fmt: skip
    shapes = {"y": of["x"].shape, "new_state": of["state"].shape}
    found = [{"y": each["y"].reshape(shapes["y"]), "new_state": each["last"].reshape(shapes["new_state"])}
             for each in solve(scan)]  # fmt: skip
    return wanted(problem, expected(*found, states + 4))


PROBLEMS = {name: lambda d, s=s: update(d, s) for name, s in SHAPES.items()} | {
    "heads": lambda d: update(d, SHAPES["plain"], per_head=1),
    "heads_wide": lambda d: update(d, SHAPES["wide"], per_head=1),
    "linear": lambda d: update(d, SHAPES["odd"], softplus=0),
    "bare": lambda d: update(d, SHAPES["plain"], null=OPTIONAL),
    **{f"no_{n}": lambda d, n=n: update(d, SHAPES["plain"], per_head=1, null=(n,)) for n in OPTIONAL},
}
EXTENTS = ("batch", "heads", "head_dim", "dstate")

CASES = (
    Case(
        row="selective_state_update_{T}", problems=PROBLEMS, reference=reference,
        tolerance={"y": "state_space", "new_state": "state_space"}, plain="plain", large="large",
        bad=(
            *negative(*EXTENTS, "groups"),
            Bad("groups_4", 2, r"groups is 4, must divide heads, 6", {"groups": 4}, can=2),
        ),
        idle=nothing("batch", "head_dim"),
    ),
)  # fmt: skip
