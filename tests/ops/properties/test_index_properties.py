# SPDX-License-Identifier: Apache-2.0
"""Properties of sums and rows by index over random extents and distributions; the case table holds the references."""

from hypothesis import given, settings
from hypothesis import strategies as st

from cases import Draw, segment
from cases.embedding import bags, dense, renorm, weighted
from cases.embedding import rows as embedding_rows
from harness import ROWS
from harness.strategies import bags_of, bounded, dtypes, indices, kinds, offsets, run, seeds, segments_of

few = settings(bounded, max_examples=30)
widths = st.sampled_from(("i32", "i64"))
BY_ROW = {
    "embedding{I}_{T}": embedding_rows.embedding,
    "embedding_backward{I}_{T}": embedding_rows.embedding_backward,
    "embedding_dense_backward{I}_{T}": dense.rows_backward,
    "embedding_sparse_backward{I}_{T}": dense.sparse(dense.rows_backward),
}
BY_BAG = {  # sums and means
    "embedding_bag_last_offset{I}{O}_{T}": bags.with_last_offset(bags.bag),
    "embedding_bag_last_offset_backward{I}{O}_{T}": bags.with_last_offset(bags.bag_backward),
    "embedding_bag_weighted{I}{O}_{T}": weighted.forward,
    "embedding_bag_weighted_backward{I}{O}_{T}": weighted.backward,
    "embedding_bag_weights_backward{I}{O}_{T}": weighted.weights_backward,
    "embedding_bag_dense_backward{I}{O}_{T}": dense.bags_backward,
    "embedding_bag_sparse_backward{I}{O}_{T}": dense.sparse(dense.bags_backward),
    "embedding_bag_max{I}{O}_{T}": embedding_rows.without_end,
    "embedding_bag_max_last_offset{I}{O}_{T}": embedding_rows.with_end,
}
UFUNCS = ("mean", "max", "min", "prod")


def workspaces(row):
    return (None, "full") if ROWS[row].workspace else (None,)


@few
@given(st.data(), st.sampled_from(tuple(BY_ROW)), dtypes, indices, seeds, offsets)
def test_rows_of_a_table(library, data, row, dtype, index, seed, offset):
    slots = {"T": dtype, "I": index}
    n, rows, dim = data.draw(st.integers(1, 300)), data.draw(st.integers(1, 200)), data.draw(st.integers(1, 40))
    padding, spread = data.draw(st.integers(-2, rows)), data.draw(st.sampled_from(segment.DISTRIBUTIONS))
    problem = BY_ROW[row](Draw(slots, seed), n, rows, dim, padding, spread, data.draw(kinds))
    run(library, row, slots, problem, offset, workspaces(row))


@few
@given(st.data(), st.sampled_from(tuple(BY_BAG)), dtypes, indices, widths, seeds, offsets)
def test_bags(library, data, row, dtype, index, width, seed, offset):
    slots, (extents, options) = {"T": dtype, "I": index, "O": width}, bags_of(data)
    mode = options.pop("mode")
    run(library, row, slots, BY_BAG[row](Draw(slots, seed), *extents, mode, **options), offset, workspaces(row))


@few
@given(st.data(), dtypes, indices, seeds, offsets)
def test_rows_of_maxima(library, data, dtype, index, seed, offset):
    slots, (_, d, rows, spread, kind) = {"T": dtype, "I": index}, segments_of(data)
    problem = embedding_rows.bag_max_backward(Draw(slots, seed), data.draw(st.integers(1, 60)), rows, d, spread, kind)
    run(library, "embedding_bag_max_backward{I}_{T}", slots, problem, offset, (None, "full"))


@few
@given(st.data(), dtypes, indices, seeds, offsets, st.sampled_from([0.5, 1.0, 2.0, 3.0, float("inf")]))
def test_rows_cut_to_a_norm(library, data, dtype, index, seed, offset, p):
    slots, (n, d, rows, spread, kind) = {"T": dtype, "I": index}, segments_of(data)
    problem = renorm.renorm(Draw(slots, seed), n, rows, d, p, spread, kind)
    run(library, "embedding_renorm{I}_{T}", slots, problem, offset, (None, "full"))


@few
@given(st.data(), st.sampled_from(UFUNCS), st.booleans(), dtypes, indices, seeds, offsets)
def test_segments(library, data, reduction, ordered, dtype, index, seed, offset):
    slots, (n, d, segments, ids, _) = {"T": dtype, "I": index}, segments_of(data)
    kind = data.draw(st.sampled_from(segment.KINDS[reduction]))
    problem = segment.segment_sum(Draw(slots, seed), n, d, segments, ids, kind, ordered)
    row = f"{'' if ordered else 'unsorted_'}segment_{reduction}{{I}}_{{T}}"
    run(library, row, slots, problem, offset, workspaces(row))


@few
@given(st.data(), st.sampled_from(UFUNCS), st.booleans(), dtypes, indices, seeds, offsets)
def test_gradients_of_segments(library, data, reduction, ordered, dtype, index, seed, offset):
    slots, (n, d, segments, ids, _) = {"T": dtype, "I": index}, segments_of(data)
    row = f"{'' if ordered else 'unsorted_'}segment_{reduction}_backward{{I}}_{{T}}"
    if reduction == "mean":
        problem = segment.backward(Draw(slots, seed), n, d, segments, ids, "normal", ordered)
    else:
        kind = data.draw(
            st.sampled_from(("holes", "factors", "spiked") if reduction == "prod" else ("ties", "special"))
        )
        problem = segment.of_input(Draw(slots, seed), n, d, segments, ids, kind, ordered, saves=reduction == "prod")
    run(library, row, slots, problem, offset, workspaces(row))
