# SPDX-License-Identifier: Apache-2.0
"""bincount and histograms, and the bins of their elements."""

import numpy as np

from tools.oracle.numerics import LIMITS, is_float, round_to

from ..indexing.copies import pointers
from ..model import Bad, Case, Expected, Idle, Problem


def bincount(draw, n, bins, spread="some", null=()):
    """spread: "some" a third outside; "one" all equal; "anything"; "rising"."""
    low, high = LIMITS[draw.dtype]
    values = draw.rng.integers(max(low, -bins // 4), min(high, bins + bins // 4), n, endpoint=True)
    if spread == "one":
        values = np.full(n, min(bins // 2, high))
    elif spread == "anything":
        values = draw.integers((n,), "special").values
    elif spread == "rising":
        values = np.sort(values)
    whole = np.uint64 if draw.dtype == "u64" else np.int64
    arrays = {"x": draw.array(values.astype(whole)), "output": draw.output((bins,), dtype=draw.index)}
    return Problem({"n": n, "num_bins": bins}, arrays, null=null)


def counted(bins, num_bins):
    return np.bincount(bins[bins >= 0], minlength=num_bins).astype(np.int64)


def bincount_reference(problem):
    x, bins = problem.arrays["x"].values, problem.scalars["num_bins"]
    inside = (x >= 0) & (x < bins)
    return {} if "output" in problem.null else {"output": Expected(counted(x[inside].astype(np.int64), bins))}


def data(draw, n, low, high, spread, edges):
    """Elements around [low, high]; half of "edges" are edges, or their neighbours."""
    if spread == "special":
        return draw.values((n,), "special")
    span = high - low
    values = draw.rng.uniform(low - span / 8, high + span / 8, n)
    if spread == "normal":
        values = low + span / 2 + draw.rng.standard_normal(n) * span / 8
    if not is_float(draw.dtype):
        bounds = LIMITS[draw.dtype]
        whole = np.uint64 if draw.dtype == "u64" else np.int64
        return draw.array(np.clip(np.rint(values), max(bounds[0], -(2**40)), min(bounds[1], 2**40)).astype(whole))
    values = np.where(draw.rng.random(n) < 0.5, draw.rng.choice(edges, n), values) if spread == "edges" else values
    return draw.array(round_to(values, draw.dtype))


def uniform_edges(dtype, bins, low, high):
    """Edges as documented: computed in f64, rounded to a float dtype."""
    edges = np.arange(bins + 1) * ((high - low) / max(bins, 1)) + low
    edges[bins:] = high
    return round_to(edges, dtype) if is_float(dtype) else edges


def uniform(draw, n, bins, low=-3.0, high=7.7, spread="edges", output="counts", null=()):
    edges = uniform_edges(draw.dtype, bins, low, high)
    shape, dtype = ((bins,), draw.index) if output == "counts" else ((n,), "i32")
    arrays = {"x": data(draw, n, low, high, spread, edges), "output": draw.output(shape, dtype=dtype)}
    return Problem({"n": n, "num_bins": bins, "lo_d": low, "hi_d": high}, arrays, null=null)


def given(draw, n, bins, spread="edges", output="counts", null=()):
    low, high = (-3.0, 7.7) if is_float(draw.dtype) else (LIMITS[draw.dtype][0] and -90.0, 120.0)
    edges = np.sort(draw.rng.uniform(low, high, bins + 1))
    edges = round_to(edges, draw.dtype) if is_float(draw.dtype) else np.rint(edges)
    whole = np.float64 if is_float(draw.dtype) else np.uint64 if draw.dtype == "u64" else np.int64
    shape, dtype = ((bins,), draw.index) if output == "counts" else ((n,), "i32")
    arrays = {
        "x": data(draw, n, low, high, spread, edges), "edges": draw.array(edges.astype(whole)),
        "output": draw.output(shape, dtype=dtype),
    }  # fmt: skip
    return Problem({"n": n, "num_bins": bins}, arrays, null=null)


def bins_of(x, edges):
    """The bin of each element, -1 for none: by comparisons with the edges alone."""
    bins = len(edges) - 1
    found = np.searchsorted(edges, x, "right") - 1
    if bins:
        found = np.where((found == bins) & (x == edges[bins]), bins - 1, found)
    return np.where((found < 0) | (found >= bins) | (x != x), -1, found).astype(np.int64)


def uniform_bins(problem):
    s, x = problem.scalars, problem.arrays["x"]
    edges = uniform_edges(x.dtype, s["num_bins"], s["lo_d"], s["hi_d"])
    return bins_of(x.values.astype(np.float64), edges)


def given_bins(problem):
    return bins_of(problem.arrays["x"].values, problem.arrays["edges"].values)


def counts_of(bins):
    def reference(problem):
        found = counted(bins(problem), problem.scalars["num_bins"])
        return {} if "output" in problem.null else {"output": Expected(found)}

    return reference


def output_of(bins):
    return lambda problem: {"output": Expected(bins(problem))}


COUNTS = {  # n, bins, options
    "one": (1, 1, {}), "plain": (301, 10, {}), "few": (5003, 3, {}), "equal": (20001, 40, {"spread": "one"}),
    "anything": (3001, 100, {"spread": "anything"}), "n4097": (4097, 256, {}),
    "rising": (30011, 1000, {"spread": "rising"}),
    "copies": (20011, 2500, {}), "table": (70001, 9001, {}), "many": (30011, 60001, {}),
    "many_equal": (30011, 60001, {"spread": "one"}), "more_bins_than_elements": (33, 5001, {}), "nothing": (0, 7, {}),
    "large": (200003, 777, {}),
}  # fmt: skip
UNIFORM = {  # n, bins, options
    "one": (1, 1, {}), "plain": (301, 10, {}), "normal": (5003, 37, {"spread": "normal"}),
    "special": (3001, 20, {"spread": "special"}),
    "special_wide": (3001, 20, {"spread": "special", "low": -3e4, "high": 3e4}),
    "narrow": (3001, 11, {"low": 1.0, "high": 1.09375}), "far": (3001, 64, {"low": 1000.0, "high": 1100.0}),
    "halves": (9001, 4096, {"low": -4.0, "high": 4.0}),
    "halves_special": (3001, 64, {"spread": "special", "low": -4.0, "high": 4.0}),
    "fractions": (9001, 700, {"low": 0.1, "high": 0.9}), "table": (9001, 5000, {"low": 0.0, "high": 1.0}),
    "many": (9001, 70001, {"low": -20.0, "high": 20.0}), "nothing": (0, 7, {}), "large": (200003, 333, {}),
}  # fmt: skip
GIVEN = {  # n, bins, options
    "one": (1, 1, {}), "plain": (301, 10, {}), "normal": (5003, 37, {"spread": "normal"}),
    "special": (3001, 20, {"spread": "special"}), "levels": (9001, 20001, {}), "many": (9001, 70001, {}),
    "nothing": (0, 7, {}), "large": (200003, 333, {}),
}  # fmt: skip
LISTED = ("one", "plain", "normal", "special", "fractions", "levels", "large")  # of bins of elements


def made(make, table, **more):
    return {name: lambda d, n=n, b=b, k=k: make(d, n, b, **k, **more) for name, (n, b, k) in table.items()}


def listed(make, table):
    return made(make, {name: table[name] for name in LISTED if name in table}, output="bins")


def bad(arrays, *more):
    return (
        Bad("negative", 2, r"n is -2", {"n": -2}, can=2),
        Bad("negative_bins", 2, r"num_bins is -3", {"num_bins": -3}, can=2), *more, *pointers(arrays),
    )  # fmt: skip


RANGES = (
    Bad("empty_range", 2, r"hi_d is -3, must be > lo_d, -3", {"hi_d": -3.0}, can=2),
    Bad("reversed", 2, r"hi_d is -5, must be > lo_d, -3", {"hi_d": -5.0}, can=2),
    Bad("reversed_beside_0", 2, r"hi_d is -5, must be > lo_d, -3", {"n": 0, "hi_d": -5.0}, can=2),
    Bad("nan", 2, r"hi_d is nan, must be finite", {"hi_d": float("nan")}, can=2),
    Bad("infinite", 2, r"lo_d is -inf, must be finite", {"lo_d": float("-inf")}, can=2),
)
NO_BINS = Idle("no_bins", {"num_bins": 0})
NOTHING = Idle("nothing", {"n": 0})

CASES = (
    Case(
        row="bincount{I}_{T}", problems=made(bincount, COUNTS), reference=bincount_reference,
        tolerance={"output": "exact"}, plain="plain", large="large",
        bad=bad(("x", "output"), Bad("far", 2, rf"n is {2**60}", {"n": 2**60}, can=2)), idle=(NO_BINS,),
    ),
    Case(
        row="histogram{I}_{T}", problems=made(uniform, UNIFORM), reference=counts_of(uniform_bins),
        tolerance={"output": "exact"}, plain="plain", large="large", bad=bad(("x", "output"), *RANGES), idle=(NO_BINS,),
    ),
    Case(
        row="histogram_edges{I}_{T}", problems=made(given, GIVEN), reference=counts_of(given_bins),
        tolerance={"output": "exact"}, plain="plain", large="large", bad=bad(("x", "edges", "output")), idle=(NO_BINS,),
    ),
    Case(
        row="histogram_bins_{T}", problems=listed(uniform, UNIFORM), reference=output_of(uniform_bins),
        tolerance={"output": "exact"}, plain="plain", large="large", bad=bad(("x", "output"), *RANGES),
        idle=(NOTHING,),
    ),
    Case(
        row="histogram_edges_bins_{T}", problems=listed(given, GIVEN), reference=output_of(given_bins),
        tolerance={"output": "exact"}, plain="plain", large="large", bad=bad(("x", "edges", "output")),
        idle=(NOTHING,),
    ),
)  # fmt: skip
