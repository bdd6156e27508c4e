# SPDX-License-Identifier: Apache-2.0
"""Properties over random shapes, strides, dtypes and index distributions; the case table holds the references."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cases import Draw, scan, segment
from cases.attention import alibi
from cases.elementwise import common, unary
from cases.embedding import bags
from cases.shape_layout import repeat
from harness import FLOATS, INTEGERS, OPS
from harness.strategies import (
    MOST_CELLS,
    NAMES,
    bags_of,
    bounded,
    dtypes,
    indices,
    kinds,
    layouts,
    offsets,
    run,
    seeds,
    segments_of,
    shapes,
    weights,
)

# row, dtypes, functions; one or two functions of each kind of loop: copies, cheap arithmetic, calls of libm
UNARY = {
    "unary_{F}_{T}_strided": (FLOATS, ("neg", "relu", "reciprocal", "exp", "gelu", "digamma")),
    "unary_{F}_backward_{T}_strided": (FLOATS, ("relu", "square", "tanh", "gelu")),
    "unary_{F}_{T}_strided integers": (INTEGERS, ("neg", "popcount")),
    "unary_logical_not_{T}_strided": (("bool",), ("",)),
}


@bounded
@given(st.data(), st.sampled_from(list(UNARY)), seeds, offsets)
def test_unary_strided(library, data, row, seed, offset):
    """Any rank, axes permuted, sliced, reversed and broadcast, gaps; also in place, where strides are equal."""
    dtypes, functions = UNARY[row]
    slots = {"T": data.draw(st.sampled_from(dtypes)), "F": data.draw(st.sampled_from(functions))}
    slots = {k: v for k, v in slots.items() if v}
    shape, kind = data.draw(shapes()), data.draw(st.sampled_from(["normal", "wide", "special"]))
    *inputs, output = (p.name for p in OPS[NAMES[row, frozenset(slots.items())]][0].pointers)
    views = {name: data.draw(layouts(len(shape), broadcast=name != output)) for name in (*inputs, output)}
    problem = unary.maker(row)(Draw(slots, seed), shape, kind, **views)
    run(library, row, slots, problem, offset)


def lerp(draw, row, *arguments, **options):
    """The weight is from -2 to 2; the largest values times 2 overflow."""
    kind = (
        "normal" if not 0 <= options["p"] <= 1 and options.get("kind") == "special" else options.get("kind", "normal")
    )
    maker = common.strided_maker if "_strided" in row else common.flat_maker
    return maker(row)(draw, *arguments, **options | {"kind": kind})


lerps = st.sampled_from(["binary_lerp", "binary_lerp_param"])


@bounded
@given(st.data(), lerps, dtypes, seeds, offsets)
def test_lerp_strided(library, data, name, dtype, seed, offset):
    row, slots = f"{name}_{{T}}_strided", {"T": dtype}
    shape, p, kind = data.draw(shapes()), data.draw(weights), data.draw(kinds)
    views = {name: data.draw(layouts(len(shape), broadcast=name != "y")) for name in ("a", "b", "y")}
    run(library, row, slots, lerp(Draw(slots, seed), row, shape, p=p, kind=kind, **views), offset)


@bounded
@given(st.data(), lerps, dtypes, seeds, offsets)
def test_lerp_backward_strided(library, data, name, dtype, seed, offset):
    """Gradients with stride 0 along an axis are summed over it; some are not wanted."""
    row, slots = f"{name}_backward_{{T}}_strided", {"T": dtype}
    shape, p, kind = data.draw(shapes()), data.draw(weights), data.draw(kinds)
    null = data.draw(st.sampled_from([(), (), (), ("da",), ("db",), ("da", "db")]))
    views = {name: data.draw(layouts(len(shape), broadcast=True)) for name in ("dy", "da", "db")}
    problem = lerp(Draw(slots, seed), row, shape, p=p, kind=kind, null=null, **views)
    run(library, row, slots, problem, offset, (None, "full"))


@bounded
@given(st.integers(1, 3000), lerps, weights, dtypes, seeds, offsets)
def test_lerp_flat(library, numel, name, p, dtype, seed, offset):
    slots = {"T": dtype}
    for row in (f"{name}_{{T}}", f"{name}_backward_{{T}}"):
        run(library, row, slots, lerp(Draw(slots, seed), row, numel, p=p), offset)


@bounded
@given(st.data(), dtypes, seeds, offsets)
def test_repeat(library, data, dtype, seed, offset):
    out_shape = data.draw(shapes())
    shape = tuple(data.draw(st.integers(1, max(1, min(20, o + 2)))) for o in out_shape)
    if math.prod(shape) > MOST_CELLS:
        shape = tuple(min(i, o) for i, o in zip(shape, out_shape))
    x, y = data.draw(layouts(len(shape), broadcast=True)), data.draw(layouts(len(shape)))
    problem = repeat.repeat(Draw({"T": dtype}, seed), shape, out_shape, x, y, data.draw(kinds))
    run(library, "repeat_{T}", {"T": dtype}, problem, offset)


@bounded
@given(st.data(), dtypes, seeds, offsets)
def test_repeat_backward(library, data, dtype, seed, offset):
    long_shape = data.draw(shapes())
    repeats = tuple(data.draw(st.sampled_from([r for r in range(1, e + 1) if e % r == 0])) for e in long_shape)
    shape = tuple(e // r for e, r in zip(long_shape, repeats))
    if repeats and data.draw(st.integers(0, 9)) == 0:
        repeats = (0, *repeats[1:])
    dy, dx = data.draw(layouts(len(shape), broadcast=True)), data.draw(layouts(len(shape)))
    problem = repeat.repeat_backward(Draw({"T": dtype}, seed), shape, repeats, dy, dx, data.draw(kinds))
    run(library, "repeat_backward_{T}", {"T": dtype}, problem, offset, (None, "full"))


@bounded
@given(st.data(), dtypes, indices, seeds, offsets)
def test_segment_sum(library, data, dtype, index, seed, offset):
    slots, (n, d, segments, ids, kind) = {"T": dtype, "I": index}, segments_of(data)
    problem = segment.segment_sum(Draw(slots, seed), n, d, segments, ids, kind)
    run(library, "segment_sum{I}_{T}", slots, problem, offset, (None, "full"))
    run(library, "unsorted_segment_sum{I}_{T}", slots, problem, offset, (None, "full"))


@bounded
@given(st.data(), dtypes, indices, seeds, offsets)
def test_unsorted_segment_sum(library, data, dtype, index, seed, offset):
    slots, (n, d, segments, ids, kind) = {"T": dtype, "I": index}, segments_of(data)
    problem = segment.segment_sum(Draw(slots, seed), n, d, segments, ids, kind, ordered=False)
    run(library, "unsorted_segment_sum{I}_{T}", slots, problem, offset, (None, "full"))


@bounded
@given(st.data(), dtypes, indices, seeds, offsets)
def test_segment_sum_backward(library, data, dtype, index, seed, offset):
    slots, (n, d, segments, ids, kind) = {"T": dtype, "I": index}, segments_of(data)
    problem = segment.backward(Draw(slots, seed), n, d, segments, ids, kind, ordered=False)
    run(library, "segment_sum_backward{I}_{T}", slots, problem, offset)
    run(library, "unsorted_segment_sum_backward{I}_{T}", slots, problem, offset)


@bounded
@given(st.data(), dtypes, indices, seeds, offsets)
def test_embedding_bag(library, data, dtype, index, seed, offset):
    slots, (extents, options) = {"T": dtype, "I": index, "O": data.draw(st.sampled_from(("i32", "i64")))}, bags_of(data)
    if data.draw(st.booleans()):  # any offsets are safe
        wild = np.array(data.draw(st.lists(st.integers(-5, 1500), min_size=extents[0], max_size=extents[0])))
        options["move"] = lambda starts, total: wild
    problem = bags.bag(Draw(slots, seed), *extents, **options)
    run(library, "embedding_bag{I}{O}_{T}", slots, problem, offset)


@bounded
@given(st.data(), dtypes, indices, seeds, offsets)
def test_embedding_bag_backward(library, data, dtype, index, seed, offset):
    slots, (extents, options) = {"T": dtype, "I": index, "O": data.draw(st.sampled_from(("i32", "i64")))}, bags_of(data)
    workspaces = (None, "full")
    if data.draw(st.booleans()):  # any offsets are safe; with a workspace they must be sorted
        wild = np.array(data.draw(st.lists(st.integers(-5, 1500), min_size=extents[0], max_size=extents[0])))
        in_order = data.draw(st.booleans())
        options["move"] = lambda starts, total: np.sort(wild) if in_order else wild
        workspaces = (None, "full") if in_order else (None,)
    problem = bags.bag_backward(Draw(slots, seed), *extents, **options)
    run(library, "embedding_bag_backward{I}{O}_{T}", slots, problem, offset, workspaces)


@bounded
@given(st.data(), dtypes, seeds, offsets)
def test_alibi(library, data, dtype, seed, offset):
    shape, kind = data.draw(shapes(st.just(4))), data.draw(kinds)
    slots = {"T": dtype}
    run(library, "alibi_{T}", slots, alibi.alibi(Draw(slots, seed), shape, kind), offset)
    null = data.draw(st.sampled_from([(), ("da",), ("dslope",)]))
    problem = alibi.alibi_backward(Draw(slots, seed), shape, kind, null)
    run(library, "alibi_backward_{T}", slots, problem, offset, (None, "full"))


SCANS = ("cumsum", "cumprod", "cummax", "cummin", "log_cumsum_exp")


@bounded
@given(st.data(), shapes(st.integers(1, 8)), dtypes, seeds, offsets, st.sampled_from(SCANS), st.booleans())
def test_scan(library, data, shape, dtype, seed, offset, function, reverse):
    """The scan along any axis in any layout, and its gradient for the results of the scan."""
    axis = data.draw(st.integers(0, len(shape) - 1))
    x, y = data.draw(layouts(len(shape), broadcast=True)), data.draw(layouts(len(shape)))
    slots = {"F": function, "T": dtype}
    problem = scan.forward(Draw(slots, seed), shape, axis, reverse, x=x, y=y)
    run(library, "scan_{F}_{T}", slots, problem, offset, (None, "full"))
    if function == "cumsum":
        return
    problem = scan.backward(Draw(slots, seed), shape, axis, reverse, dy=x, x=x, dx=y)
    row = "scan_{F}_backward_{T}" + " saved" * (function in scan.SAVES)
    run(library, row, slots, problem, offset, (None, "full"))
