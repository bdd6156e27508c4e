# SPDX-License-Identifier: Apache-2.0
"""Properties of copy kernels and of indexing, over random shapes, layouts, dtypes and distributions of indices."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cases import Draw, segment
from cases.indexing import copies as indexing_copies
from cases.indexing import masked as indexing_masked
from cases.indexing import sums as indexing_sums
from cases.shape_layout import concat_many as shape_concat_many
from cases.shape_layout import image_windows as images
from cases.shape_layout import pad as shape_pad
from cases.shape_layout import reorder as shape_reorder
from cases.shape_layout import triangle as shape_triangle
from cases.shape_layout import windows as shape_windows
from harness import FLOATS
from harness.strategies import bounded, kinds, layouts, offsets, run, seeds, shapes

ELEMENTS = st.sampled_from(["f32", "bf16", "f64", "i64", "u8", "bool"])  # copy kernels are chosen by element width
SPREADS = st.sampled_from(["inside", "mixed", "outside", "one", "zipf", "rising", "falling"])
INDICES = st.sampled_from(["i32", "i64"])
SOME = st.integers(1, 5)


@bounded
@given(st.data(), shapes(st.integers(1, 8)), ELEMENTS, seeds, offsets, st.sampled_from(["flip", "roll", "permute"]))
def test_copies(library, data, shape, dtype, seed, offset, name):
    rank = len(shape)
    entry = {"flip": st.integers(0, 1), "roll": st.integers(-(2**31), 2**31 - 1)}.get(name)
    entries = data.draw(
        st.permutations(range(rank)) if entry is None else st.lists(entry, min_size=rank, max_size=rank)
    )
    count, names = {
        "flip": ("numel", ("shape", "flip_axes")),
        "roll": ("numel", ("shape", "shifts")),
        "permute": ("input_numel", ("input_shape", "dims")),
    }[name]
    strides = {"x": data.draw(layouts(rank, broadcast=True)), "y": data.draw(layouts(rank))}
    problem = shape_reorder.move(Draw({"T": dtype}, seed), count, names, shape, entries, **strides)
    run(library, f"{name}_{{T}}", {"T": dtype}, problem, offset)


@bounded
@given(st.data(), shapes(st.integers(1, 4)), ELEMENTS, seeds, offsets, st.sampled_from(list(shape_pad.NUMPY)))
def test_pads(library, data, shape, dtype, seed, offset, mode):
    """Pads may be wider than the tensor, and negative, which crops."""
    low, high = (data.draw(st.tuples(*[st.integers(-(e // 2), 9) for e in shape])) for _ in range(2))
    high = tuple(max(hi, 1 - e - lo) for e, lo, hi in zip(shape, low, high))
    strides = {"x": data.draw(layouts(len(shape))), "y": data.draw(layouts(len(shape)))}
    problem = shape_pad.pad(Draw({"T": dtype}, seed), shape, low, high, **strides)
    run(library, f"pad_{mode}_{{T}}", {"T": dtype}, problem, offset)


@bounded
@given(st.data(), shapes(st.integers(2, 6)), ELEMENTS, seeds, offsets, st.sampled_from(["triu", "tril"]))
def test_triangles(library, data, shape, dtype, seed, offset, name):
    strides = {"x": data.draw(layouts(len(shape), broadcast=True)), "y": data.draw(layouts(len(shape)))}
    diagonal = data.draw(st.integers(-45, 45))
    problem = shape_triangle.triangle(Draw({"T": dtype}, seed), shape, diagonal, **strides, strided=True)
    run(library, f"{name}_{{T}}_strided", {"T": dtype}, problem, offset)


@bounded
@given(st.data(), shapes(st.integers(1, 5)), ELEMENTS, seeds, offsets)
def test_concat_and_split(library, data, shape, dtype, seed, offset):
    axis = data.draw(st.integers(0, len(shape) - 1))
    extents = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=9))
    whole = (*shape[:axis], sum(extents), *shape[axis + 1 :])
    given_layouts = {"whole": data.draw(layouts(len(shape))), "parts": data.draw(layouts(len(shape)))}
    for row, names in (("concat_{T}", shape_concat_many.FORWARD), ("concat_backward_{T}", shape_concat_many.BACKWARD)):
        problem = shape_concat_many.problem_of(Draw({"T": dtype}, seed), *names, whole, axis, extents, given_layouts)
        run(library, row, {"T": dtype}, problem, offset)


@bounded
@given(st.data(), shapes(st.integers(1, 5)), ELEMENTS, seeds, offsets)
def test_windows(library, data, shape, dtype, seed, offset):
    axis = data.draw(st.integers(0, len(shape) - 1))
    size, step = data.draw(st.integers(1, shape[axis])), data.draw(st.integers(1, 9))
    x, y = data.draw(layouts(len(shape))), data.draw(layouts(len(shape) + 1))
    problem = shape_windows.UNFOLD.forward(Draw({"T": dtype}, seed), shape, axis, size, step, x=x, y=y)
    run(library, "unfold_{T}", {"T": dtype}, problem, offset)
    if dtype in FLOATS:
        problem = shape_windows.UNFOLD.backward(Draw({"T": dtype}, seed), shape, axis, size, step, dy=y, dx=x)
        run(library, "unfold_backward_{T}", {"T": dtype}, problem, offset)


@bounded
@given(st.data(), shapes(st.integers(1, 5)), ELEMENTS, seeds, offsets)
def test_repeated_elements(library, data, shape, dtype, seed, offset):
    axis, repeats = data.draw(st.integers(0, len(shape) - 1)), data.draw(SOME)
    x, y = (data.draw(layouts(len(shape))) for _ in range(2))
    problem = shape_windows.INTERLEAVE.forward(Draw({"T": dtype}, seed), shape, axis, repeats, x=x, y=y)
    run(library, "repeat_interleave_{T}", {"T": dtype}, problem, offset)
    if dtype in FLOATS:
        problem = shape_windows.INTERLEAVE.backward(Draw({"T": dtype}, seed), shape, axis, repeats, dy=y, dx=x)
        run(library, "repeat_interleave_backward_{T}", {"T": dtype}, problem, offset, (None, "full"))


@bounded
@given(st.data(), st.integers(1, 3), ELEMENTS, seeds, offsets)
def test_windows_of_images(library, data, spatial, dtype, seed, offset):
    """Kernels, dilations, paddings and strides for which windows fit."""
    kernel, dilation, steps = (data.draw(st.tuples(*[SOME] * spatial)) for _ in range(3))
    padding = data.draw(st.tuples(*[st.integers(0, 6)] * spatial))
    extents = [
        data.draw(st.integers(max(1, least := d * (k - 1) + 1 - 2 * p), max(1, least) + (20, 9, 3)[spatial - 1]))
        for k, d, p in zip(kernel, dilation, padding)
    ]
    shape = (data.draw(st.integers(1, 2)), data.draw(st.integers(1, 3)), *extents)
    x, y = data.draw(layouts(len(shape))), data.draw(layouts(3))
    entries = (kernel, dilation, padding, steps)
    run(library, "im2col_{T}", {"T": dtype}, images.im2col(Draw({"T": dtype}, seed), shape, *entries, x=x, y=y), offset)
    if dtype in FLOATS:
        problem = images.col2im(Draw({"T": dtype}, seed), shape, *entries, x=x, y=y)
        run(library, "col2im_{T}", {"T": dtype}, problem, offset)


@bounded
@given(st.data(), shapes(st.integers(1, 5)), ELEMENTS, INDICES, SPREADS, seeds, offsets)
def test_gather_and_scatter(library, data, shape, dtype, index, spread, seed, offset):
    """gather, index_select and scatter, to and from an axis of another extent."""
    slots, rank = {"T": dtype, "I": index}, len(shape)
    axis, extent = data.draw(st.integers(0, rank - 1)), data.draw(st.integers(1, 40))
    strides = [data.draw(layouts(rank)) for _ in range(3)]
    problem = indexing_copies.gather(
        Draw(slots, seed), shape, axis, extent, spread, src=strides[0], index=strides[1], out=strides[2]
    )
    run(library, "gather{I}_{T}", slots, problem, offset)
    problem = indexing_copies.select(Draw(slots, seed), shape, axis, extent, spread, src=strides[0], out=strides[2])
    run(library, "index_select{I}_{T}", slots, problem, offset)
    problem = indexing_copies.scatter(
        Draw(slots, seed), shape, axis, extent, spread, updates=strides[0], index=strides[1], out=strides[2]
    )
    run(library, "scatter{I}_{T}", slots, problem, offset)


@bounded
@given(
    st.data(), shapes(st.integers(1, 4)), st.sampled_from(FLOATS), INDICES, st.sampled_from(segment.DISTRIBUTIONS),
    seeds, offsets, st.sampled_from(["scatter_add", "gather_backward", "index_add", "index_select_backward"]),
)  # fmt: skip
def test_sums_by_indices(library, data, shape, dtype, index, spread, seed, offset, name):
    slots, row = {"T": dtype, "I": index}, f"{name}{{I}}_{{T}}"
    axis, extent = data.draw(st.integers(0, len(shape) - 1)), data.draw(st.integers(1, 40))
    problem = indexing_sums.added(Draw(slots, seed), row, shape, axis, extent, spread, data.draw(kinds))
    run(library, row, slots, problem, offset, (None, "full"))


@bounded
@given(st.data(), shapes(st.integers(0, 4)), ELEMENTS, seeds, offsets, st.floats(0, 1))
def test_choices(library, data, shape, dtype, seed, offset, share):
    """masked_select, masked_scatter and nonzero, also with capacity for fewer elements than there are."""
    numel, slots = math.prod(shape), {"T": dtype}
    most = data.draw(st.none() | st.integers(0, numel + 3))
    for row, make in (("masked_select", indexing_masked.select), ("masked_scatter", indexing_masked.masked_scatter)):
        run(library, f"{row}_{{T}}", slots, make(Draw(slots, seed), numel, most, share), offset, (None, "full"))


def test_distributions_are_what_they_say(rng):
    draw = Draw({"T": "f32", "I": "i32"}, 5)
    zipf = np.bincount(segment.distribution(draw, "zipf", 5000, 50))
    rising, falling = (segment.distribution(draw, name, 500, 50) for name in ("rising", "falling"))
    assert zipf[0] > 2 * zipf[3] > 4 * zipf[40] and (np.diff(rising) >= 0).all() and (np.diff(falling) <= 0).all()
