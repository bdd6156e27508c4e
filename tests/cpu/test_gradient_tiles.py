# SPDX-License-Identifier: Apache-2.0
"""Gradients that the CPU computes tile by tile: whole tiles, partial ones, and tiles that threads share."""

import functools

import pytest

from cases import segment
from cases.indexing import reduce as indexing_reduce
from cases.indexing.sums import added
from harness.on_threads import check_on_threads

# Shape and axis of the updates, extent of the output: one fiber, whose elements fill tiles or are divided among
# threads; strided fibers side by side, in blocks of 16 and a tail; contiguous fibers.
SHAPES = [((9001,), 0, 4099), ((300,), 0, 2), ((90, 37), 0, 4100), ((3, 40, 18), 1, 33), ((5, 2500), 1, 2049)]


def gradients(draw, shape, axis, extent, reduce, own):
    make = functools.partial(added, row=indexing_reduce.ROW, shape=shape, axis=axis, extent=extent, spread="mixed")
    return indexing_reduce.backward(make, reduce, own, "ties")(draw)


@pytest.mark.parametrize("own", [0, 1])
@pytest.mark.parametrize("reduce", range(5))
@pytest.mark.parametrize(("shape", "axis", "extent"), SHAPES, ids=str)
@pytest.mark.parametrize("op", ["scatter_reduce_backward_f32", "scatter_reduce_backward_i64idx_bf16"])
def test_scattered(library, set_threads, op, shape, axis, extent, reduce, own):
    check_on_threads(library, set_threads, op, gradients, shape, axis, extent, reduce, own)


# Rows, columns and segments: tiles of 1024 segments and of a few, blocks of columns, runs of equal ids that end early.
ROWS = [(3001, 1, 2500), (15, 3, 4), (403, 130, 40), (61, 600, 5)]


@pytest.mark.parametrize("ids", ["uniform", "mixed"])
@pytest.mark.parametrize("kind", ["ties", "holes"])
@pytest.mark.parametrize("shape", ROWS, ids=str)
@pytest.mark.parametrize("of", ["max_backward_f32", "min_backward_i64idx_bf16", "prod_backward_f32"])
def test_segments(library, set_threads, of, shape, kind, ids):
    op, saves = f"unsorted_segment_{of}", "prod" in of
    check_on_threads(library, set_threads, op, segment.of_input, *shape, ids, kind, ordered=False, saves=saves)
