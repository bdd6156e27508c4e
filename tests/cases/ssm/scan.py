# SPDX-License-Identifier: Apache-2.0
"""Selective scans of Mamba-1 and Mamba-2 and their gradients."""

import math

import numpy as np

from tools.oracle.numerics import round_to

from ..model import Bad, Case, Expected, Idle, Problem, strides_for
from .recurrence import Scan, grouped, headed, solve, spans_of

GAPS = 99  # tokens of a row that has sequences of its own lengths


def expected(values, magnitudes, count):
    return {name: Expected(v, count=count, magnitude=magnitudes[name]) for name, v in values.items()}


def normal(draw, shape, scale=1.0, dtype="", strides=None):
    dtype = dtype or draw.dtype
    return draw.array(round_to(draw.rng.standard_normal(shape) * scale, dtype), dtype, strides)


def rates(draw, shape, dtype=""):
    """Negative rates: states decay."""
    return draw.array(
        round_to(-np.exp(draw.rng.standard_normal(shape) * 0.7), dtype or draw.dtype), dtype or draw.dtype
    )


def steps(draw, shape, softplus, strides=None):
    """Steps about 0.1, before softplus about -2."""
    x = draw.rng.standard_normal(shape) - 2 if softplus else draw.rng.random(shape) * 0.2
    return draw.array(round_to(x, draw.dtype), draw.dtype, strides)


def absent(problem_null, names):
    return tuple(dict.fromkeys((*problem_null, *names)))


def values_of(problem, name):
    return None if name in problem.null or name not in problem.arrays else problem.arrays[name].values


# --- Mamba-1 ---------------------------------------------------------------------------------------------------------

# batch, seqlen, dim, dstate
SHAPES = {
    "one": (1, 1, 1, 1), "plain": (2, 19, 5, 4), "tile": (1, 32, 16, 16), "odd": (2, 33, 17, 3), "long": (1, 530, 3, 2),
    "states": (1, 9, 3, 256), "wide": (1, 40, 70, 9), "stateless": (2, 3, 4, 0),
}  # fmt: skip
OPTIONAL = ("d_skip", "z", "delta_bias")


def mamba(draw, shape, softplus=1, null=(), backward=False, nan=False):
    batch, seqlen, dim, dstate = shape
    tokens = (batch, seqlen, dim)
    arrays = {
        "u": normal(draw, tokens), "delta": steps(draw, tokens, softplus), "a": rates(draw, (dim, dstate)),
        "b": normal(draw, (batch, seqlen, dstate)), "c": normal(draw, (batch, seqlen, dstate)),
        "d_skip": normal(draw, (dim,)), "z": normal(draw, tokens), "delta_bias": normal(draw, (dim,), 0.1),
    }  # fmt: skip
    if nan:
        values = arrays["u"].values.copy()
        values[0, seqlen // 2, 0] = np.nan
        arrays["u"] = draw.array(values)
    if backward:
        arrays |= {"dy": normal(draw, tokens)}
        arrays |= {name: draw.output(tokens) for name in ("du", "d_delta", "dz")}
        sums = {"d_b": arrays["b"], "d_c": arrays["c"], "d_a": arrays["a"], "d_d": arrays["d_skip"]}
        sums["d_delta_bias"] = arrays["delta_bias"]
        arrays |= {name: normal(draw, like.shape) for name, like in sums.items()}
    else:
        arrays |= {"y": draw.output(tokens), "last_state": draw.output((batch, dim, dstate))}
    scalars = {"batch": batch, "seqlen": seqlen, "dim": dim, "dstate": dstate, "delta_softplus": softplus}
    return Problem(scalars, arrays, null=tuple(null))


def mamba_scan(problem, groups=1):
    s = problem.scalars
    of = {name: values_of(problem, name) for name in problem.arrays}
    channels = s["dim"] // groups if groups else 0
    b, c = (np.repeat(of[n].reshape(*of["u"].shape[:2], groups, s["dstate"]), channels, 2) for n in "bc")
    return Scan(
        u=of["u"], delta=of["delta"], a=of["a"], b=b, c=c, softplus=bool(s["delta_softplus"]), d=of["d_skip"],
        z=of["z"], bias=of["delta_bias"], initial=of.get("initial_state"), dy=of.get("dy"),
        d_last=of.get("d_last_state"),
        spans=spans_of(*of["u"].shape[:2], of.get("cu_seqlens")),
    )  # fmt: skip


def renamed(solved, names, groups=None, heads=None):
    """Results by the row's names: sums over groups and heads where an op has them."""
    found = []
    for each in solved:
        each = dict(each)
        for name in ("db", "dc"):
            if name in each:
                each[name] = grouped(each[name], groups)
        for name in ("ddelta", "dbias", "dd"):
            if heads is not None and name in each:
                each[name] = headed(each[name], heads)
        if heads is not None and "da" in each:
            each["da"] = headed(each["da"].sum(-1), heads)
        found.append({own: each[name] for own, name in names.items() if name in each})
    return found


def count_of(scan):
    return scan.u.shape[1] + scan.b.shape[-1] + scan.b.shape[0] * scan.b.shape[2]


def wanted(problem, found):
    """The results that are not NULL; the gradient of an absent gate is 0."""
    if "dz" in problem.arrays and "z" in problem.null:
        found = found | {"dz": Expected(np.zeros(problem.arrays["dz"].shape))}
    return {name: each for name, each in found.items() if name not in problem.null}


def mamba_reference(problem):
    scan = mamba_scan(problem)
    return wanted(problem, expected(*renamed(solve(scan), {"y": "y", "last_state": "last"}), count_of(scan)))


REFERENCE_GRADIENTS = {"du": "du", "d_b": "db", "d_c": "dc", "d_delta": "ddelta", "d_a": "da", "d_d": "dd", "dz": "dz",
                       "d_delta_bias": "dbias"}  # fmt: skip


def mamba_backward_reference(problem):
    scan = mamba_scan(problem)
    found = renamed(solve(scan), REFERENCE_GRADIENTS, groups=1)
    for name in ("d_b", "d_c", "d_a", "d_d", "d_delta_bias"):  # they are added to
        old = problem.arrays[name].values
        b = name in ("d_b", "d_c")
        found = [each | {name: (np.squeeze(each[name], 2) if b else each[name]) + add(old)}
                 for each, add in zip(found, (np.asarray, np.abs))]  # fmt: skip
    return wanted(problem, expected(*found, count_of(scan)))


def selective(make, **more):
    return {name: lambda d, s=s: make(d, s, **more) for name, s in SHAPES.items()} | {
        "linear": lambda d: make(d, SHAPES["odd"], softplus=0, **more),
        "bare": lambda d: make(d, SHAPES["plain"], null=OPTIONAL, **more),
        "nan": lambda d: make(d, SHAPES["odd"], nan=True, **more),
        **{f"no_{name}": lambda d, name=name: make(d, SHAPES["plain"], null=(name,), **more) for name in OPTIONAL},
    }


def negative(*names):
    return tuple(Bad(f"negative_{n}", 2, rf"{n} is -1, must be >= 0", {n: -1}, can=2) for n in names)


def too_many(*names):
    return tuple(Bad(f"large_{n}", 3, rf"{n} is 257, at most 256 are supported", {n: 257}, can=3) for n in names)


EXTENTS = ("batch", "seqlen", "dim", "dstate")
SHORT = Bad("short_workspace", 4, r"workspace has \d+ bytes, must have \d+", short=True)
IN_STATES = "state_space"

# --- Mamba-1, general -------------------------------------------------------------------------------------------------

# batch, seqlen, dim, groups, dstate
GENERAL = {
    "one": (1, 1, 1, 1, 1), "plain": (2, 19, 6, 3, 4), "tile": (2, 32, 16, 1, 16), "odd": (2, 35, 18, 2, 5),
    "long": (1, 530, 4, 2, 2), "wide": (1, 40, 70, 1, 2), "large": (3, 300, 40, 2, 8),
}  # fmt: skip
OPTIONS = ("d_skip", "z", "delta_bias", "initial_state")
TOKENS_OF = ("u", "delta", "z", "y", "dy", "du", "d_delta", "dz")
CUTS = {"lengths": [0, 5, 5, 40, GAPS], "gaps": [3, 4, 60, 90], "beyond": [-4, 50, 1000]}


def laid_out(shape, how, strided=None):
    """Strides of a layout: contiguous, channels before tokens, or reversed with gaps."""
    rank = len(shape)
    if how == "turned":
        return strides_for(shape, order=(0, *range(2, rank), 1))
    if how == "gaps":
        return strides_for(shape, flip=(1,), gap=2, pad=3)
    return strides_for(shape)


def cut(draw, problem, cuts):
    """The problem with sequences at offsets."""
    if cuts is None:
        return draw.array(np.zeros(problem["sequences"] + 1, np.int64), "i32"), ("cu_seqlens",)
    return draw.array(np.array(CUTS[cuts]), "i32"), ()


def general(draw, shape, softplus=1, null=(), backward=False, how="", cuts=None, positive=False, nan=False):
    batch, seqlen, dim, groups, dstate = shape
    if cuts:
        batch, seqlen = 1, GAPS
    sequences = len(CUTS[cuts]) - 1 if cuts else batch
    tokens, of_groups, states = (batch, seqlen, dim), (batch, seqlen, groups, dstate), (sequences, dim, dstate)
    at, at_groups = laid_out(tokens, how), laid_out(of_groups, how)
    scalars = {"batch": batch, "seqlen": seqlen, "dim": dim, "groups": groups, "dstate": dstate}
    scalars |= {"sequences": sequences, "delta_softplus": softplus}
    offsets, unread = cut(draw, scalars, cuts)
    a = rates(draw, (dim, dstate), "f32")
    arrays = {
        "u": normal(draw, tokens, strides=at), "delta": steps(draw, tokens, softplus, at),
        "a": draw.array(-a.values * 0.1, "f32") if positive else a, "b": normal(draw, of_groups, strides=at_groups),
        "c": normal(draw, of_groups, strides=at_groups), "d_skip": normal(draw, (dim,), dtype="f32"),
        "z": normal(draw, tokens, strides=at), "delta_bias": normal(draw, (dim,), 0.1, "f32"),
        "initial_state": normal(draw, states, dtype="f32"), "cu_seqlens": offsets,
    }  # fmt: skip
    if positive:
        arrays["a"] = draw.array(round_to(arrays["a"].values, "f32"), "f32")
    if nan:
        values = arrays["u"].values.copy()
        values[0, seqlen // 2, 0] = np.nan
        arrays["u"] = draw.array(values, strides=at)
    names = ["u", "delta", "b", "c", "z"]
    if backward:
        arrays |= {"dy": normal(draw, tokens, strides=at), "d_last_state": normal(draw, states, dtype="f32")}
        arrays |= {name: draw.output(tokens, at) for name in ("du", "d_delta", "dz")}
        arrays |= {name: draw.output(of_groups, at_groups) for name in ("db", "dc")}
        arrays |= {"da": draw.output((dim, dstate), dtype="f32"), "d_initial_state": draw.output(states, dtype="f32")}
        arrays |= {name: draw.output((dim,), dtype="f32") for name in ("dd_skip", "d_delta_bias")}
        names += ["dy", "du", "d_delta", "db", "dc", "dz"]
    else:
        arrays |= {"y": draw.output(tokens, at), "last_state": draw.output(states, dtype="f32")}
        names.append("y")
    host = {f"stride_{n}": at_groups if n in ("b", "c", "db", "dc") else at for n in names}
    return Problem(scalars, arrays, host=host, null=absent(null, unread))


GENERAL_GRADIENTS = {"du": "du", "d_delta": "ddelta", "da": "da", "db": "db", "dc": "dc", "dd_skip": "dd", "dz": "dz",
                     "d_delta_bias": "dbias", "d_initial_state": "dinitial"}  # fmt: skip


def general_reference(problem):
    scan = mamba_scan(problem, problem.scalars["groups"])
    return wanted(problem, expected(*renamed(solve(scan), {"y": "y", "last_state": "last"}), count_of(scan)))


def general_backward_reference(problem):
    groups = problem.scalars["groups"]
    scan = mamba_scan(problem, groups)
    return wanted(problem, expected(*renamed(solve(scan), GENERAL_GRADIENTS, groups), count_of(scan)))


def without_strides(problem):
    """Operands without elements need none."""
    problem.host = dict.fromkeys(problem.host)
    return problem


def options(make, shapes, **more):
    plain = shapes["plain"]
    no_tokens = (plain[0], 0, *plain[2:])
    return {name: lambda d, s=s: make(d, s, **more) for name, s in shapes.items()} | {
        "linear": lambda d: make(d, shapes["odd"], softplus=0, **more),
        "bare": lambda d: make(d, plain, null=OPTIONS_OF[make], **more),
        "no_tokens": lambda d: without_strides(make(d, no_tokens, **more)),
        "growing": lambda d: make(d, plain, positive=True, **more),
        "nan": lambda d: make(d, shapes["odd"], nan=True, **more),
        **{how: lambda d, how=how: make(d, shapes["odd"], how=how, **more) for how in ("turned", "gaps")},
        **{f"cut_{cuts}": lambda d, cuts=cuts: make(d, shapes["odd"], cuts=cuts, **more) for cuts in CUTS},
        **{f"no_{name}": lambda d, name=name: make(d, plain, null=(name,), **more) for name in OPTIONS_OF[make]},
    }


def general_bad(extents, strided, outputs, groups_of):
    """Calls of a general form that must fail: counts, strides, sequences."""
    return (
        *negative(*extents, "groups", "sequences"),
        Bad("groups_4", 2, rf"groups is 4, must divide {groups_of}, 6", {"groups": 4}, can=2),
        Bad("no_groups", 2, rf"groups is 0, must divide {groups_of}, 6", {"groups": 0}, can=2),
        Bad("sequences_5", 2, r"sequences is 5, must be batch, 2", {"sequences": 5}, can=2),
        Bad("uncut", 2, r"cu_seqlens is NULL, but sequences is 3, not batch, 1", {"sequences": 3, "batch": 1}),
        Bad("no_sequence", 2, r"sequences is 0, must be >= 1 where there are", {"sequences": 0, "batch": 1}, can=2),
        *(Bad(f"no_stride_{n}", 2, rf"stride_{n} is NULL", host={f"stride_{n}": None}, can=2)
          for n in strided if n != "z"),
        *(Bad(f"no_stride_{n}", 2, rf"{n} is not NULL, but stride_{n} is", host={f"stride_{n}": None})
          for n in ("z", *outputs)),
        *(Bad(f"still_{n}", 2, rf"stride_{n}\[1\] is 0, but an output has 19", host={f"stride_{n}": still(n)}, can=2)
          for n in (outputs or ("y",))),
    )  # fmt: skip


def still(name):
    return (100, 0, 1, 1)[: 4 if name in ("db", "dc") else 3]


# --- Mamba-2 ---------------------------------------------------------------------------------------------------------

# batch, seqlen, heads, head_dim, state_dim, chunk_size
CHUNKS = {
    "one": (1, 1, 1, 1, 1, 1), "plain": (2, 19, 3, 5, 4, 8), "odd": (1, 131, 2, 17, 9, 64),
    "large": (2, 200, 3, 24, 16, 64),
    "square": (1, 5, 1, 64, 130, 64), "states": (1, 70, 1, 3, 256, 16), "dims": (1, 70, 1, 256, 3, 16),
    "stateless": (1, 3, 2, 4, 0, 1),
}  # fmt: skip


def chunked(draw, shape, backward=False):
    batch, seqlen, heads, head_dim, state_dim, _ = shape
    x, of_heads, of_states = (batch, seqlen, heads, head_dim), (batch, seqlen, heads), (batch, seqlen, heads, state_dim)
    arrays = {
        "x": normal(draw, x), "dt": steps(draw, of_heads, 0), "a": rates(draw, (heads,)), "b": normal(draw, of_states),
        "c": normal(draw, of_states),
    }  # fmt: skip
    if backward:
        arrays |= {"dy": normal(draw, x), "dx": draw.output(x), "d_b": draw.output(of_states)}
        arrays |= {"d_c": draw.output(of_states), "d_dt": draw.output(of_heads), "d_a": draw.output((heads,))}
    else:
        arrays["y"] = draw.output(x)
    names = ("batch", "seqlen", "heads", "head_dim", "state_dim", "chunk_size")
    return Problem(dict(zip(names, shape)), arrays)


def ssd(problem):
    """The scan of a head's channels; steps, rates, b and c are those of heads and groups."""
    s = problem.scalars
    of = {name: values_of(problem, name) for name in problem.arrays}
    rows, tokens, heads, width = *of["x"].shape[:2], s["heads"], s["head_dim"]
    groups = s.get("groups", heads)

    def by_channel(x):
        return None if x is None else np.repeat(x, width, -1)

    b, c = (np.repeat(of[n], heads // groups * width if groups else 0, 2) for n in "bc")
    flat = {n: None if of.get(n) is None else of[n].reshape(rows, tokens, heads * width) for n in ("x", "z", "dy")}
    states = {n: None if of.get(n) is None else of[n].reshape(-1, heads * width, s["state_dim"])
              for n in ("initial_state", "d_last_state")}  # fmt: skip
    return Scan(
        u=flat["x"], delta=by_channel(of["dt"]), a=np.repeat(by_channel(of["a"])[:, None], s["state_dim"], 1), b=b, c=c,
        softplus=bool(s.get("dt_softplus")), clamp=(s.get("dt_min", -np.inf), s.get("dt_max", np.inf)),
        d=by_channel(of.get("d_skip")), z=flat["z"], bias=by_channel(of.get("dt_bias")), dy=flat["dy"],
        initial=states["initial_state"], d_last=states["d_last_state"],
        spans=spans_of(rows, tokens, of.get("cu_seqlens")),
    )  # fmt: skip


def ssd_reference(names):
    def reference(problem):
        scan, s = ssd(problem), problem.scalars
        count = count_of(scan) + scan.u.shape[-1]
        found = renamed(solve(scan), names, s.get("groups", s["heads"]), s["heads"])
        shaped = [{n: v.reshape(problem.arrays[n].shape) for n, v in each.items()} for each in found]
        return wanted(problem, expected(*shaped, count))

    return reference


CHUNK_EXTENTS = ("batch", "seqlen", "heads", "head_dim", "state_dim")
CHUNK_BAD = (
    *negative(*CHUNK_EXTENTS), *too_many("head_dim", "state_dim"),
    *(Bad(f"chunk_size_{v}", 2, rf"chunk_size is {v}, must be > 0", {"chunk_size": v}, can=2) for v in (0, -1)),
)  # fmt: skip

# batch, seqlen, heads, head_dim, groups, state_dim
SSD = {
    "one": (1, 1, 1, 1, 1, 1), "plain": (2, 19, 6, 3, 3, 4), "odd": (2, 71, 4, 5, 2, 9), "long": (1, 530, 2, 2, 1, 3),
    "wide": (1, 40, 2, 70, 1, 17), "large": (2, 200, 4, 16, 2, 16),
}  # fmt: skip
SSD_OPTIONS = ("d_skip", "z", "dt_bias", "initial_state")
FIRST_TWO = ("x", "dt", "b", "c", "z", "y", "dy", "dx", "ddt", "db", "dc", "dz")


def outer_strides(shape, how):
    """Strides of batch and tokens, the other axes being contiguous."""
    inner = math.prod(shape[2:])
    if how == "turned":
        return (inner, shape[0] * inner)
    return (-(inner + 3) * (shape[1] + 1), inner + 3) if how == "gaps" else (shape[1] * inner, inner)


def full_strides(shape, how):
    return (*outer_strides(shape, how), *strides_for(shape[2:]))


def duality(
    draw, shape, softplus=1, null=(), backward=False, how="", cuts=None, positive=False, clamp=(0.05, 0.9), nan=False
):  # fmt: skip
    batch, seqlen, heads, head_dim, groups, state_dim = shape
    if cuts:
        batch, seqlen = 1, GAPS
    sequences = len(CUTS[cuts]) - 1 if cuts else batch
    scalars = {"batch": batch, "seqlen": seqlen, "heads": heads, "head_dim": head_dim, "groups": groups}
    scalars |= {"state_dim": state_dim, "sequences": sequences, "dt_softplus": softplus}
    scalars |= {"dt_min": float(np.float32(clamp[0])), "dt_max": float(np.float32(clamp[1]))}
    offsets, unread = cut(draw, scalars, cuts)
    of_x, of_dt, of_b = (batch, seqlen, heads, head_dim), (batch, seqlen, heads), (batch, seqlen, groups, state_dim)
    states = (sequences, heads, head_dim, state_dim)
    a = rates(draw, (heads,), "f32").values
    shapes = {"x": of_x, "dt": of_dt, "b": of_b, "c": of_b, "z": of_x, "y": of_x, "dy": of_x, "dx": of_x, "ddt": of_dt,
              "db": of_b, "dc": of_b, "dz": of_x}  # fmt: skip
    at = {name: full_strides(own, how) for name, own in shapes.items()}
    arrays = {
        "x": normal(draw, of_x, strides=at["x"]), "dt": steps(draw, of_dt, softplus, at["dt"]),
        "a": draw.array(round_to(-0.1 * a if positive else a, "f32"), "f32"),
        "b": normal(draw, of_b, strides=at["b"]), "c": normal(draw, of_b, strides=at["c"]),
        "d_skip": normal(draw, (heads,), dtype="f32"), "z": normal(draw, of_x, strides=at["z"]),
        "dt_bias": normal(draw, (heads,), 0.1, "f32"), "initial_state": normal(draw, states, dtype="f32"),
        "cu_seqlens": offsets,
    }  # fmt: skip
    if nan:  # of one channel, and of a whole token
        values = arrays["x"].values.copy()
        values[0, seqlen // 2, 0, 0] = np.nan
        arrays["x"] = draw.array(values, strides=at["x"])
        values = arrays["b"].values.copy()
        values[-1, seqlen // 2, -1] = np.nan
        arrays["b"] = draw.array(values, strides=at["b"])
    names = ["x", "dt", "b", "c", "z"]
    if backward:
        arrays |= {"dy": normal(draw, of_x, strides=at["dy"]), "d_last_state": normal(draw, states, dtype="f32")}
        more = ("dx", "ddt", "db", "dc", "dz")
        arrays |= {name: draw.output(shapes[name], at[name]) for name in more}
        arrays |= {name: draw.output((heads,), dtype="f32") for name in ("da", "dd_skip", "ddt_bias")}
        arrays["d_initial_state"] = draw.output(states, dtype="f32")
        names += ["dy", *more]
    else:
        arrays |= {"y": draw.output(of_x, at["y"]), "last_state": draw.output(states, dtype="f32")}
        names.append("y")
    host = {f"stride_{n}": outer_strides(shapes[n], how) for n in names}
    return Problem(scalars, arrays, host=host, null=absent(null, unread))


SSD_GRADIENTS = {"dx": "du", "ddt": "ddelta", "da": "da", "db": "db", "dc": "dc", "dd_skip": "dd", "dz": "dz",
                 "ddt_bias": "dbias", "d_initial_state": "dinitial"}  # fmt: skip
OPTIONS_OF = {general: OPTIONS, duality: SSD_OPTIONS}


def tolerances(names):
    return dict.fromkeys(names, IN_STATES)


def nothing(*names):
    return tuple(Idle(f"no_{name}", {name: 0}) for name in names)


CASES = (
    Case(
        row="selective_scan_{T}", problems=selective(mamba), reference=mamba_reference,
        tolerance=tolerances(("y", "last_state")), plain="plain", large="long",
        bad=(*negative(*EXTENTS), *too_many("dstate")), idle=nothing("batch", "dim"),
    ),
    Case(
        row="selective_scan_{T}_backward", problems=selective(mamba, backward=True), reference=mamba_backward_reference,
        tolerance=tolerances(REFERENCE_GRADIENTS), plain="plain", large="long",
        bad=(*negative(*EXTENTS), *too_many("dstate"), SHORT), idle=nothing("batch", "dim", "seqlen"),
    ),
    Case(
        row="selective_scan_general_{T}", problems=options(general, GENERAL), reference=general_reference,
        tolerance=tolerances(("y", "last_state")), plain="plain", large="large",
        bad=(*general_bad(EXTENTS, ("u", "delta", "b", "c", "z", "y"), (), "dim"), *too_many("dstate")),
        idle=nothing("dim"),
    ),
    Case(
        row="selective_scan_general_backward_{T}", problems=options(general, GENERAL, backward=True),
        reference=general_backward_reference, tolerance=tolerances(GENERAL_GRADIENTS), plain="plain", large="large",
        bad=(*general_bad(EXTENTS, ("u", "delta", "b", "c", "z", "dy"), ("du", "d_delta", "db", "dc", "dz"), "dim"),
             *too_many("dstate"), SHORT),
        idle=(Idle("nothing", {"dim": 0, "groups": 0}),),
    ),
    Case(
        row="ssd_chunk_scan_{T}", problems={n: lambda d, s=s: chunked(d, s) for n, s in CHUNKS.items()},
        reference=ssd_reference({"y": "y"}), tolerance={"y": "state_space_products"}, plain="plain", large="large",
        bad=CHUNK_BAD, idle=nothing("batch", "seqlen", "heads", "head_dim"),
    ),
    Case(
        row="ssd_chunk_scan_{T}_backward", problems={n: lambda d, s=s: chunked(d, s, True) for n, s in CHUNKS.items()},
        reference=ssd_reference({"dx": "du", "d_b": "db", "d_c": "dc", "d_dt": "ddelta", "d_a": "da"}),
        tolerance=tolerances(("dx", "d_b", "d_c", "d_dt", "d_a")), plain="plain", large="large",
        bad=(*CHUNK_BAD, SHORT), idle=nothing("heads"),
    ),
    Case(
        row="ssd_scan_{T}", problems=options(duality, SSD), reference=ssd_reference({"y": "y", "last_state": "last"}),
        tolerance=dict.fromkeys(("y", "last_state"), "state_space_products"), plain="plain", large="large",
        bad=(
            *general_bad(CHUNK_EXTENTS, ("x", "dt", "b", "c", "z", "y"), (), "heads"),
            *too_many("head_dim", "state_dim"),
            Bad("clamp", 2, r"dt_min is 0.5, must be <= dt_max, 0.25", {"dt_min": 0.5, "dt_max": 0.25}, can=2),
        ),
        idle=nothing("heads", "head_dim"),
    ),
    Case(
        row="ssd_scan_backward_{T}", problems=options(duality, SSD, backward=True),
        reference=ssd_reference(SSD_GRADIENTS), tolerance=tolerances(SSD_GRADIENTS), plain="plain", large="large",
        bad=(
            *general_bad(CHUNK_EXTENTS, ("x", "dt", "b", "c", "z", "dy"), ("dx", "ddt", "db", "dc", "dz"), "heads"),
            *too_many("head_dim", "state_dim"), SHORT,
            Bad("clamp", 2, r"dt_min is 0.5, must be <= dt_max, 0.25", {"dt_min": 0.5, "dt_max": 0.25}, can=2),
        ),
        idle=(Idle("nothing", {"heads": 0, "groups": 0}),),
    ),
)  # fmt: skip
