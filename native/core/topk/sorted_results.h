// SPDX-License-Identifier: Apache-2.0
// Many results: they are selected into the workspace in index order, and sorted from there by the row sort, which is stable.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/workspace.h"
#include "core/sort/sort_rows.h"
#include "core/topk/row_selection.h"

namespace bk {

// Segments are padded, so that their results are not rows of equal length.
template <class Bits>
bool sorts_in_workspace(const TopKRows<Bits>& rows, int64_t most) {
    return rows.is_sorted && !rows.has_offsets && rows.results > most;
}

template <class Bits>
void set_order(SortProblem* problem, const KeyOrder<Bits>& order, int index_bytes) {
    problem->key_bytes = static_cast<int>(sizeof(Bits));
    problem->kind = order.kind;
    problem->largest = order.largest;
    problem->is_descending = order.flip != 0;
    problem->index_bytes = index_bytes;
}

// The sort of the results, from dense rows.
template <class Bits>
SortProblem sort_of_results(const TopKRows<Bits>& rows, int index_bytes) {
    SortProblem problem;
    int64_t pitch = rows.results, pitches[8] = {};
    for (int d = rows.rows.rank; d-- > 0; pitch *= rows.rows.extent[d]) pitches[d] = pitch;
    for (int d = 0; d < rows.rows.rank; ++d)
        problem.rows.append(rows.rows.extent[d], {pitches[d], rows.rows.stride[RowSelection::kValues][d], pitches[d],
                                                  rows.rows.stride[RowSelection::kIndices][d]});
    problem.length = rows.results;
    problem.step[kSortX] = problem.step[kSortPayload] = 1;
    problem.step[kSortValues] = rows.step[RowSelection::kValues];
    problem.step[kSortIndices] = rows.step[RowSelection::kIndices];
    set_order(&problem, rows.order, index_bytes);
    return problem;
}

template <class Bits>
struct UnsortedResults {
    Bits* values;
    int64_t* indices;
    void* rest;

    UnsortedResults(Carver* carver, const TopKRows<Bits>& rows) {
        const int64_t cells = rows.rows.numel() * rows.results;
        values = carver->take<Bits>(cells);
        indices = carver->take<int64_t>(cells);
        rest = carver->take<char>(0);
    }
};

template <class Bits>
size_t sorted_results_workspace(const TopKRows<Bits>& rows) {
    Carver carver;
    UnsortedResults<Bits>(&carver, rows);
    const size_t narrow = sort_rows_workspace(sort_of_results(rows, 4)), wide = sort_rows_workspace(sort_of_results(rows, 8));
    carver.take<char>(static_cast<int64_t>(std::max(narrow, wide)));
    return carver.bytes();
}

// select(rows, values, indices) selects in index order.
template <class Bits, class Select>
Status select_and_sort(const Launch& launch, const TopKRows<Bits>& rows, Bits* values, IndexArray indices,
                       const Select& select) {
    Carver carver(launch.workspace);
    const UnsortedResults<Bits> unsorted(&carver, rows);
    const SortProblem problem = sort_of_results(rows, indices.is_wide ? 8 : 4);
    TopKRows<Bits> dense = rows;
    dense.is_sorted = false;
    for (int d = 0; d < rows.rows.rank; ++d)
        dense.rows.stride[RowSelection::kValues][d] = dense.rows.stride[RowSelection::kIndices][d] =
            problem.rows.stride[kSortX][d];
    dense.step[RowSelection::kValues] = dense.step[RowSelection::kIndices] = 1;
    const IndexArray unsorted_indices{unsorted.indices, indices.is_wide};
    BK_TRY(select(dense, unsorted.values, unsorted_indices));
    return sort_rows(launch_with_workspace_from(launch, unsorted.rest), problem,
                     {unsorted.values, values, unsorted.indices, indices.pointer});
}

}  // namespace bk
