# SPDX-License-Identifier: Apache-2.0
"""Merges of partial results of attention, ring attention, and hyper connections."""

import numpy as np

from ...model import Bad, Case, Expected, Idle, Problem
from ..oracle import Rules, Scores
from .pages import pointer_bad

# --- merges ----------------------------------------------------------------------------------------------------------


def merged(v, s, base2=True):
    """(y, its bound's magnitude, lse) of states along the first axis; infinite s have no keys."""
    s, v = np.asarray(s, np.float64), np.asarray(v, np.float64)
    has_keys = ~np.isinf(s)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        largest = np.where(has_keys, s, -np.inf).max(axis=0, initial=-np.inf)
        shift = np.where(np.isinf(largest), 0, largest)
        power, logarithm = (np.exp2, np.log2) if base2 else (np.exp, np.log)
        weights = np.where(has_keys, power(s - shift), 0)
        total = weights.sum(axis=0)
        weights = weights / np.where(total == 0, 1, total)
        parts = np.where((weights > 0)[..., None], weights[..., None] * v, 0)
        return parts.sum(axis=0), np.abs(parts).sum(axis=0), shift + logarithm(total)


def expected(v, s, names, base2=True):
    y, magnitude, lse = merged(v, s, base2)
    span = np.where(np.isinf(s) | np.isnan(s), 0, np.abs(s)).max(axis=0, initial=0)
    size = 4 * (span + 1) + np.where(np.isfinite(lse), np.abs(lse), 0) + len(s)
    return {
        names[0]: Expected(y, len(s), magnitude, 4 * span[..., None] * magnitude),
        names[1]: Expected(lse, 0, size),
    }


def states(draw, shape, kind):
    """Values, and logarithms: near each other, far apart, or with infinite ones, whose values are NaN."""
    v = draw.floats(shape)
    s = draw.rng.standard_normal(shape[:-1]) * (60 if kind == "far" else 2)
    if kind == "empty":
        s = np.where(draw.rng.random(s.shape) < 0.5, draw.rng.choice([-np.inf, np.inf], s.shape), s)
        v.values = np.where(np.isinf(s)[..., None], np.nan, v.values)
    if kind == "none":
        s = np.full(s.shape, -np.inf)
    return v, draw.array(s.astype(np.float32).astype(np.float64), "f32")


MERGES = {
    "small": ((5, 3, 8), "near"),
    "one": ((1, 1, 1), "near"),
    "odd": ((7, 5, 37), "far"),
    "empty": ((17, 4, 40), "empty"),
    "none": ((3, 2, 16), "none"),
    "wide": ((2, 3, 2100), "near"),
    "heads": ((2, 150, 64), "empty"),
    "large": ((33, 16, 128), "far"),
}


def in_place(draw, shape, kind):
    v, s = states(draw, shape, kind)
    v_other, s_other = states(draw, shape, kind)
    if kind == "far":
        s_other.values = s.values + np.float64(0.5) * draw.rng.integers(-9, 9, s.values.shape)
        s_other.values = s_other.values.astype(np.float32).astype(np.float64)
    return Problem(dict(zip(("seq_len", "num_heads", "head_dim"), shape)),
                   {"v": v, "s": s, "v_other": v_other, "s_other": s_other})  # fmt: skip


def in_place_reference(problem):
    value = {name: array.values for name, array in problem.arrays.items()}
    return expected(np.stack([value["v"], value["v_other"]]), np.stack([value["s"], value["s_other"]]), ("v", "s"))


def sets(draw, shape, kind, count):
    v, s = states(draw, (shape[0], count, *shape[1:]), kind)
    arrays = {"v": v, "s": s, "v_merged": draw.output(shape), "s_merged": draw.output(shape[:-1], dtype="f32")}
    return Problem(dict(zip(("num_index_sets", "seq_len", "num_heads", "head_dim"), (count, *shape))), arrays)


def sets_reference(problem):
    v, s = problem.arrays["v"].values, problem.arrays["s"].values
    return expected(np.moveaxis(v, 1, 0), np.moveaxis(s, 1, 0), ("v_merged", "s_merged"))


def stacked(draw, shape, kind, count, base2=0, null=()):
    rows, d = shape[0] * shape[1], shape[2]
    values, lse = states(draw, (count, rows, d), kind)
    arrays = {"values": values, "lse": lse, "y": draw.output((rows, d)), "y_lse": draw.output((rows,), dtype="f32")}
    return Problem({"num_states": count, "num_rows": rows, "head_dim": d, "is_base2": base2}, arrays, null=null)


def stacked_reference(problem):
    values, lse = problem.arrays["values"].values, problem.arrays["lse"].values
    found = expected(values, lse, ("y", "y_lse"), problem.scalars["is_base2"] != 0)
    return {name: e for name, e in found.items() if name not in problem.null}


def merge_problems(make, *counts):
    """Every shape with some number of states."""
    given = [counts[i % max(len(counts), 1) :][:1] for i in range(len(MERGES))]
    return {name: lambda d, s=shape, k=kind, n=n: make(d, s, k, *n)
            for n, (name, (shape, kind)) in zip(given, MERGES.items())}  # fmt: skip


def not_positive(*names):
    return [Bad(f"no_{e}", 2, rf"{e} is 0, must be > 0", {e: 0}, can=2) for e in names] + [
        Bad(f"negative_{e}", 2, rf"{e} is -2, must be > 0", {e: -2}, can=2) for e in names
    ]


# --- ring attention --------------------------------------------------------------------------------------------------


def ring_init(draw, o_len, ml_len):
    arrays = {"o_acc": draw.output((o_len,), dtype="f32"), "m_acc": draw.output((ml_len,), dtype="f32"),
              "l_acc": draw.output((ml_len,), dtype="f32")}  # fmt: skip
    return Problem({"o_len": o_len, "ml_len": ml_len}, arrays)


def ring_init_reference(problem):
    o_len, ml_len = problem.scalars["o_len"], problem.scalars["ml_len"]
    return {"o_acc": Expected(np.zeros(o_len)), "m_acc": Expected(np.full(ml_len, -np.inf)),
            "l_acc": Expected(np.zeros(ml_len))}  # fmt: skip


def ring_step(draw, shape=(2, 3, 5, 9, 40), bases=(0, 0), is_causal=0, fresh=False):
    batch, heads, q_len, k_len, d = shape
    rows = (batch, heads, q_len)
    m = draw.rng.standard_normal(rows)
    length = draw.rng.random(rows) * 9 + 1
    o = draw.rng.standard_normal((*rows, d))
    if fresh:
        m, length, o = np.full(rows, -np.inf), np.zeros(rows), np.zeros((*rows, d))
    f32 = [draw.array(x.astype(np.float32).astype(np.float64), "f32") for x in (o, m, length)]
    arrays = {
        "q": draw.floats((*rows, d)), "k_local": draw.floats((batch, heads, k_len, d)),
        "v_local": draw.floats((batch, heads, k_len, d)), "o_acc": f32[0], "m_acc": f32[1], "l_acc": f32[2],
    }  # fmt: skip
    scalars = dict(
        zip(("batch", "heads", "q_local", "k_chunk", "d", "q_global_base", "k_global_base"), (*shape, *bases))
    )
    return Problem(scalars | {"scale": 0.125, "is_causal": is_causal}, arrays)


def ring_step_reference(problem):
    value, s = {name: array.values for name, array in problem.arrays.items()}, problem.scalars
    last = {"right": s["q_global_base"] - s["k_global_base"]} if s["is_causal"] else {}
    scores = Scores(value["q"], value["k_local"], Rules(scale=s["scale"], **last))
    m = np.maximum(value["m_acc"], scores.value.max(axis=-1, initial=-np.inf))
    shift = np.where(np.isfinite(m), m, 0)
    factor, p = np.exp(value["m_acc"] - shift), np.exp(scores.value - shift[..., None])
    length = factor * value["l_acc"] + p.sum(axis=-1)
    o = factor[..., None] * value["o_acc"] + p @ value["v_local"]
    size = factor[..., None] * np.abs(value["o_acc"]) + p @ np.abs(value["v_local"])
    error, count = scores.roughness[..., 0] + np.abs(shift), s["k_chunk"] + 1
    return {
        "o_acc": Expected(o, count, size, size * error[..., None]),
        "l_acc": Expected(length, count, length, length * error),
        "m_acc": Expected(m, 0, error),
    }


def finalize(draw, shape=(2, 3, 5, 40), null=(), empty=False):
    rows = shape[:3]
    m, length, o = draw.rng.standard_normal(rows), draw.rng.random(rows) * 9 + 1, draw.rng.standard_normal(shape)
    if empty:
        gone = draw.rng.random(rows) < 0.5
        m, length, o = np.where(gone, -np.inf, m), np.where(gone, 0, length), np.where(gone[..., None], 0, o)
    o, m, length = (draw.array(x.astype(np.float32).astype(np.float64), "f32") for x in (o, m, length))
    arrays = {"o_acc": o, "m_acc": m, "l_acc": length, "y": draw.output(shape), "lse": draw.output(rows)}
    return Problem(dict(zip(("batch", "heads", "q_local", "d"), shape)), arrays, null=null)


def finalize_reference(problem):
    o, m, length = (problem.arrays[name].values for name in ("o_acc", "m_acc", "l_acc"))
    with np.errstate(divide="ignore", invalid="ignore"):
        y = np.where(length[..., None] > 0, o / length[..., None], 0)
        lse = np.where(length > 0, m + np.log(length), -np.inf)
    found = {"y": Expected(y, 1, np.abs(y)), "lse": Expected(lse, 1, np.where(np.isfinite(lse), np.abs(m) + 3, 0))}
    return {name: e for name, e in found.items() if name not in problem.null}


# --- hyper connections -----------------------------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def sinkhorn(matrix, iterations, eps):
    matrix = np.exp(matrix)
    for _ in range(iterations):
        for axis in (1, 0):
            total = matrix.sum(axis=axis, keepdims=True)
            matrix = np.where(total > eps, matrix / np.where(total > eps, total, 1), matrix)
    return matrix


def hyper(draw, gamma, shape=(3, 40, 4), iterations=20, eps=1e-5, scale=1.0):
    batch, hidden, n = shape
    arrays = {
        "x": draw.floats((batch, n, hidden)), "gamma": draw.floats((hidden,), dtype=gamma),
        "h_pre": draw.floats((n,), dtype="f32"), "h_post": draw.floats((n,), dtype="f32"),
        "h_res": draw.array((draw.rng.standard_normal((n, n)) * scale).astype(np.float32).astype(np.float64), "f32"),
        "out": draw.output((batch, n, hidden)),
    }  # fmt: skip
    scalars = {"batch": batch, "hidden_dim": hidden, "n_streams": n, "sinkhorn_iters": iterations, "eps": eps}
    return Problem(scalars, arrays)


def hyper_reference(problem):
    value, s = {name: array.values for name, array in problem.arrays.items()}, problem.scalars
    eps = float(np.float32(s["eps"]))
    pre, post = sigmoid(value["h_pre"]), 2 * sigmoid(value["h_post"])
    g = np.einsum("i,bic->bc", pre, value["x"])
    size = np.einsum("i,bic->bc", pre, np.abs(value["x"]))
    inverse = 1 / np.sqrt((g**2).mean(axis=1, keepdims=True) + eps)
    matrix = sinkhorn(value["h_res"], s["sinkhorn_iters"], eps)
    mixed = np.einsum("ij,bjc->bic", matrix, value["x"])
    added = post[None, :, None] * (g * inverse * value["gamma"])[:, None]
    magnitude = np.einsum("ij,bjc->bic", matrix, np.abs(value["x"]))
    magnitude += post[None, :, None] * (size * inverse * np.abs(value["gamma"]))[:, None]
    steps = 4 * s["n_streams"] + 2 * np.sqrt(s["hidden_dim"]) + 20 + 4 * s["sinkhorn_iters"]
    return {"out": Expected(mixed + added, steps, magnitude)}


HYPER = {
    "small": {},
    "one": {"shape": (1, 1, 1)},
    "odd": {"shape": (5, 37, 3)},
    "most": {"shape": (2, 64, 31)},
    "seventeen": {"shape": (2, 100, 17), "scale": 3.0},
    "no_iterations": {"iterations": 0},
    "many_iterations": {"iterations": 200, "scale": 2.0},
    "large_eps": {"eps": 0.5, "scale": 0.1},
    "large": {"shape": (9, 1300, 4)},
}


def hyper_case(row, gamma):
    return Case(
        row=row, problems={name: lambda d, o=options: hyper(d, gamma, **o) for name, options in HYPER.items()},
        reference=hyper_reference, tolerance={"out": "pointwise"}, plain="small", large="large",
        bad=(
            *(Bad(f"negative_{e}", 2, rf"{e} is -3", {e: -3}, can=2)
              for e in ("batch", "hidden_dim", "n_streams", "sinkhorn_iters")),
            Bad("many_streams", 3, r"n_streams is 32, must be <= 31", {"n_streams": 32}, can=3),
            *(Bad(f"eps_{eps}", 2, r"eps is -?[\w.]+, must be in \(0, 1\)", {"eps": eps}, can=2)
              for eps in (0.0, 1.0, float("nan"))),
            *pointer_bad(("x", "gamma", "h_pre", "h_post", "h_res", "out")),
        ),
        idle=tuple(Idle(f"no_{e}", {e: 0}) for e in ("batch", "hidden_dim", "n_streams")),
    )  # fmt: skip


RING_EXTENTS = ("batch", "heads", "q_local", "k_chunk", "d")
CASES = (
    Case(
        row="flashinfer_merge_state_in_place_{T}", problems=merge_problems(in_place), reference=in_place_reference,
        tolerance={"v": "attention", "s": "log_sum"}, plain="small", large="large",
        bad=(*not_positive("seq_len", "num_heads", "head_dim"), *pointer_bad(("v", "s", "v_other", "s_other"))),
        idle=(),
    ),
    Case(
        row="flashinfer_merge_states_{T}", problems=merge_problems(sets, 2, 1, 5, 3, 4, 64), reference=sets_reference,
        tolerance={"v_merged": "attention", "s_merged": "log_sum"}, plain="small", large="large",
        bad=(*not_positive("num_index_sets", "seq_len", "num_heads", "head_dim"),
             *pointer_bad(("v", "s", "v_merged", "s_merged"))),
        idle=(),
    ),
    Case(
        row="merge_attention_states_{T}",
        problems=merge_problems(stacked, 2, 1, 5, 3, 4, 64)
        | {"base2": lambda d: stacked(d, (3, 2, 8), "far", 3, 1),
           "no_lse": lambda d: stacked(d, (3, 2, 8), "near", 3, null=("y_lse",)),
           "no_states": lambda d: stacked(d, (3, 2, 8), "near", 0)},
        reference=stacked_reference, tolerance={"y": "attention", "y_lse": "log_sum"}, plain="small",
        large="large",
        bad=(*(Bad(f"negative_{e}", 2, rf"{e} is -3", {e: -3}, can=2) for e in ("num_states", "num_rows", "head_dim")),
             *pointer_bad(("values", "lse", "y"), ("y_lse",))),
        idle=(Idle("no_rows", {"num_rows": 0}),),
    ),
    Case(
        row="ring_attention_init",
        problems={"small": lambda d: ring_init(d, 40, 5), "o_alone": lambda d: ring_init(d, 7, 0),
                  "ml_alone": lambda d: ring_init(d, 0, 9), "large": lambda d: ring_init(d, 5000, 1100)},
        reference=ring_init_reference, tolerance=dict.fromkeys(("o_acc", "m_acc", "l_acc"), "exact"), plain="small",
        large="large",
        bad=(*(Bad(f"negative_{e}", 2, rf"{e} is -3", {e: -3}, can=2) for e in ("o_len", "ml_len")),
             *pointer_bad(("o_acc", "m_acc", "l_acc"))),
        idle=(Idle("nothing", {"o_len": 0, "ml_len": 0}),),
    ),
    Case(
        row="ring_attention_{T}_step",
        problems={
            "small": ring_step,
            "one": lambda d: ring_step(d, (1, 1, 1, 1, 8)),
            "first": lambda d: ring_step(d, fresh=True),
            "wide": lambda d: ring_step(d, (1, 2, 7, 150, 300)),
            "odd": lambda d: ring_step(d, (2, 1, 3, 5, 37)),
            "diagonal": lambda d: ring_step(d, (1, 2, 9, 9, 128), (18, 18), 1),
            "before": lambda d: ring_step(d, (1, 2, 9, 7, 64), (18, 0), 1),
            "behind": lambda d: ring_step(d, (1, 2, 9, 7, 64), (0, 20), 1, fresh=True),
            "crossing": lambda d: ring_step(d, (2, 1, 9, 300, 16), (280, 9), 1, fresh=True),
            "large": lambda d: ring_step(d, (2, 3, 33, 200, 128)),
        },
        reference=ring_step_reference,
        tolerance={"o_acc": "attention", "m_acc": "log_sum", "l_acc": "attention"}, plain="small",
        large="large",
        bad=(*(Bad(f"negative_{e}", 2, rf"{e} is -3", {e: -3}, can=2) for e in RING_EXTENTS),
             *pointer_bad(("q", "k_local", "v_local", "o_acc", "m_acc", "l_acc"))),
        idle=tuple(Idle(f"no_{e}", {e: 0}) for e in RING_EXTENTS[:4]),
    ),
    Case(
        row="ring_attention_{T}_finalize",
        problems={
            "small": finalize, "one": lambda d: finalize(d, (1, 1, 1, 1)), "empty": lambda d: finalize(d, empty=True),
            "no_lse": lambda d: finalize(d, null=("lse",)), "large": lambda d: finalize(d, (2, 3, 33, 128)),
        },
        reference=finalize_reference, tolerance={"y": "pointwise", "lse": "pointwise"}, plain="small", large="large",
        bad=(*(Bad(f"negative_{e}", 2, rf"{e} is -3", {e: -3}, can=2) for e in ("batch", "heads", "q_local", "d")),
             *pointer_bad(("o_acc", "m_acc", "l_acc", "y"), ("lse",))),
        idle=tuple(Idle(f"no_{e}", {e: 0}) for e in ("batch", "heads", "q_local")),
    ),
    hyper_case("hyper_connection_{T}_bf16", "bf16"),
    hyper_case("hyper_connection_{T}_f32", "f32"),
)  # fmt: skip
