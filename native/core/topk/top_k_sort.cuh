// SPDX-License-Identifier: Apache-2.0
// Top-k of short rows: the row is sorted on the chip (core/sort/sort_rows.h), and the first results are stored. A warp sorts
// several rows at once, and a block costs fewer barriers than a selection. On an H200, 2^25 elements of f32 in rows of 256
// take 5.2 ms by streams and 1.2 ms by a sort of a block.
#pragma once

#include <cstdint>

#include "core/sort/sort_rows.h"
#include "core/topk/row_selection.h"
#include "core/topk/sorted_results.h"

namespace bk {

// The longest row that a block sorts in less time than a stream takes.
template <class Bits>
constexpr int64_t kBlockTopKLength = sizeof(Bits) <= 2   ? 8191
                                     : sizeof(Bits) == 4 ? 1536
                                                         : 256;

template <class Bits>
SortProblem sort_of_rows(const TopKRows<Bits>& rows, int index_bytes) {
    SortProblem problem;
    for (int d = 0; d < rows.rows.rank; ++d) {
        const int64_t indices = rows.rows.stride[RowSelection::kIndices][d];
        problem.rows.append(rows.rows.extent[d], {rows.rows.stride[RowSelection::kInput][d],
                                                  rows.rows.stride[RowSelection::kValues][d], indices, indices});
    }
    problem.length = rows.length;
    problem.step[kSortX] = rows.step[RowSelection::kInput];
    problem.step[kSortValues] = rows.step[RowSelection::kValues];
    problem.step[kSortPayload] = problem.step[kSortIndices] = rows.step[RowSelection::kIndices];
    set_order(&problem, rows.order, index_bytes);
    return problem;
}

// Whether rows are sorted: always by warps; by blocks where streams would need more than a wave, since a sort has the longer
// latency.
template <class Bits>
bool sorts_rows(const TopKRows<Bits>& rows) {
    if (rows.has_offsets || rows.length > kBlockTopKLength<Bits>) return false;
    if (rows.length <= warp_sort_length(sizeof(Bits))) return true;
    return rows.is_sorted && rows.rows.numel() > int64_t{2} * device_sms() && sort_rows_workspace(sort_of_rows(rows, 4)) == 0;
}

template <class Bits>
Status top_k_by_sort(const Launch& launch, const TopKRows<Bits>& rows, const Bits* x, Bits* values, IndexArray indices) {
    return sort_first(launch, sort_of_rows(rows, indices.is_wide ? 8 : 4), {x, values, nullptr, indices.pointer}, rows.results,
                      rows.is_sorted);
}

}  // namespace bk
