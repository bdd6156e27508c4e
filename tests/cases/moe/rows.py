# SPDX-License-Identifier: Apache-2.0
"""Rows of tokens in the order of experts, weighted sums, and their gradients."""

import numpy as np

from tools.oracle.numerics import round_to

from ..model import Bad, Case, Expected, Idle, Problem
from .route import ids_of, negative, sorted_pairs

# tokens, top_k, experts, width, kind of ids
SHAPES = {
    "one": (1, 1, 1, 1), "plain": (11, 3, 5, 24), "odd": (9, 2, 4, 7), "wide": (3, 2, 4, 5000), "odd_wide": (3, 2, 4, 4099),
    "dropped": (20, 4, 6, 16, "dropped"), "all_dropped": (4, 2, 0, 8), "one_expert": (15, 3, 5, 9, "one"),
    "large": (200, 8, 16, 136, "skewed"), "many_slots": (5, 40, 40, 8),
}  # fmt: skip


def routing(draw, tokens, top_k, experts, width, kind="normal", extra=0):
    """(scalars, order, position); extra rows belong to no pair."""
    ids = ids_of(draw, (tokens, top_k), experts, kind)
    order, position = sorted_pairs(ids.reshape(-1), experts, 0)[:2]
    order = np.append(order, np.full(extra, -1)).astype(np.int64)
    return {"tokens": tokens, "rows": len(order), "width": width}, order, position.reshape(tokens, top_k)


def with_strays(draw, indices):
    """Indices of which some name no row."""
    strays = draw.rng.choice([-1, 10**6, 2**31 - 1, -(2**31)], indices.shape)
    return np.where(draw.rng.random(indices.shape) < 0.2, strays, indices)


def permute(draw, shape, values="normal", strays=False, **options):
    scalars, order, position = routing(draw, *shape, **options)
    order = with_strays(draw, order) if strays else order
    arrays = {
        "x": draw.floats((scalars["tokens"], scalars["width"]), values), "order": draw.array(order, "i32"),
        "y": draw.output((scalars["rows"], scalars["width"])),
    }  # fmt: skip
    return Problem(scalars | {"top_k": position.shape[1]}, arrays)


def permute_reference(problem):
    order, x, s = problem.arrays["order"].values, problem.arrays["x"].values, problem.scalars
    token = order // s["top_k"]
    has = (order >= 0) & (token < s["tokens"])
    return {"y": Expected(np.where(has[:, None], x[np.where(has, token, 0)], 0.0))}


def sums(draw, shape, source, result, values="normal", weights=None, strays=False, **options):
    scalars, _, position = routing(draw, *shape, **options)
    position = with_strays(draw, position) if strays else position
    arrays = {
        source: draw.floats((scalars["rows"], scalars["width"]), values), "position": draw.array(position, "i32"),
        result: draw.output((scalars["tokens"], scalars["width"])),
    }  # fmt: skip
    if weights is not None:
        arrays["weights"] = draw.array(round_to(draw.rng.random(position.shape) * 2 - 0.5, "f32"), "f32")
    return Problem(scalars | {"top_k": position.shape[1]}, arrays, null=() if weights in (None, True) else ("weights",))


def sums_reference(source, result):
    def reference(problem):
        position, y, s = problem.arrays["position"].values, problem.arrays[source].values, problem.scalars
        has = (position >= 0) & (position < s["rows"])
        rows = np.where(has[..., None], y[np.where(has, position, 0)], 0) if len(y) else np.zeros((*has.shape, s["width"]))
        given = "weights" in problem.arrays and "weights" not in problem.null
        weights = problem.arrays["weights"].values if given else np.ones(position.shape)
        products = np.where(has[..., None], weights[..., None] * rows, 0)
        return {result: Expected(products.sum(1), count=s["top_k"] + 1, magnitude=np.abs(products).sum(1))}

    return reference


def combine(draw, shape, weights=True, **options):
    return sums(draw, shape, "y", "out", weights=weights, **options)


def permute_backward(draw, shape, **options):
    return sums(draw, shape, "dy", "dx", **options)


def combine_backward(draw, shape, values="normal", weights=True, null=(), moved=False, **options):
    scalars, order, position = routing(draw, *shape, **options)
    if moved:  # pairs whose rows are of others
        position = with_strays(draw, position)
    arrays = {
        "dout": draw.floats((scalars["tokens"], scalars["width"]), values),
        "y": draw.floats((scalars["rows"], scalars["width"]), values), "order": draw.array(order, "i32"),
        "position": draw.array(position, "i32"),
        "weights": draw.array(round_to(draw.rng.random(position.shape) * 2 - 0.5, "f32"), "f32"),
        "dy": draw.output((scalars["rows"], scalars["width"])), "dweights": draw.output(position.shape, dtype="f32"),
    }  # fmt: skip
    unread = () if weights else ("weights",)
    return Problem(scalars | {"top_k": position.shape[1]}, arrays, null=(*null, *unread))


def combine_backward_reference(problem):
    arrays, s = {name: a.values for name, a in problem.arrays.items()}, problem.scalars
    flat = arrays["position"].reshape(-1)
    weights = np.ones(flat.size) if "weights" in problem.null else arrays["weights"].reshape(-1)
    dy, dweights, size = np.zeros((s["rows"], s["width"])), np.zeros(flat.size), np.zeros(flat.size)
    for p, pair in enumerate(arrays["order"]):
        if pair < 0 or flat[pair] != p:
            continue
        g = arrays["dout"][pair // s["top_k"]]
        dy[p] = weights[pair] * g
        if "dweights" not in problem.null:
            dweights[pair], size[pair] = (g * arrays["y"][p]).sum(), np.abs(g * arrays["y"][p]).sum()
    shape = arrays["position"].shape
    found = {
        "dy": Expected(dy, count=1, magnitude=np.abs(dy)),
        "dweights": Expected(dweights.reshape(shape), count=s["width"], magnitude=size.reshape(shape)),
    }
    return {name: each for name, each in found.items() if name not in problem.null}


def problems(make, moved="strays"):
    return {name: lambda d, s=s: make(d, s) for name, s in SHAPES.items()} | {
        moved: lambda d: make(d, (20, 3, 5, 16), **{moved: True}), "extra": lambda d: make(d, (6, 2, 3, 8), extra=3)
    }


EXTENTS = ("tokens", "rows", "width")

CASES = (
    Case(
        row="moe_permute_{T}",
        problems=problems(permute) | {"special": lambda d: permute(d, (9, 2, 4, 24), "special")},
        reference=permute_reference, tolerance={"y": "exact"}, plain="plain", large="large",
        bad=(
            *negative(*EXTENTS),
            *(Bad(f"top_k_{v}", 2, rf"top_k is {v}, must be > 0", {"top_k": v}, can=2) for v in (0, -3)),
        ),
        idle=(Idle("no_rows", {"rows": 0}), Idle("no_columns", {"width": 0})),
    ),
    Case(
        row="moe_permute_backward_{T}", problems=problems(permute_backward), reference=sums_reference("dy", "dx"),
        tolerance={"dx": "total_of_products"}, plain="plain", large="large",
        bad=negative(*EXTENTS, "top_k"),
        idle=(Idle("no_tokens", {"tokens": 0}), Idle("no_columns", {"width": 0})),
    ),
    Case(
        row="moe_combine_{T}",
        problems=problems(combine) | {"unweighted": lambda d: combine(d, (9, 3, 4, 16), weights=False)},
        reference=sums_reference("y", "out"), tolerance={"out": "total_of_products"}, plain="plain", large="large",
        bad=negative(*EXTENTS, "top_k"),
        idle=(Idle("no_tokens", {"tokens": 0}), Idle("no_columns", {"width": 0})),
    ),
    Case(
        row="moe_combine_backward_{T}",
        problems=problems(combine_backward, "moved")
        | {
            "unweighted": lambda d: combine_backward(d, (9, 3, 4, 16), weights=False),
            "dy_alone": lambda d: combine_backward(d, (9, 3, 4, 16), null=("y", "dweights")),
            "dweights_alone": lambda d: combine_backward(d, (9, 3, 4, 16), null=("dy",)),
        },
        reference=combine_backward_reference,
        tolerance={"dy": "total_of_products", "dweights": "total_of_products"}, plain="plain", large="large",
        bad=negative(*EXTENTS, "top_k"),
        idle=(Idle("nothing", {"rows": 0, "tokens": 0}),),
    ),
)  # fmt: skip
