// SPDX-License-Identifier: Apache-2.0
// Top-k on a GPU: the choice between kernels.
#pragma once

#include "core/topk/row_selection.h"
#include "core/topk/sorted_results.h"
#include "core/topk/top_k_rows.cuh"
#include "core/topk/top_k_sort.cuh"
#include "core/topk/top_k_stream.cuh"

namespace bk {

template <class Bits>
size_t top_k_workspace(const TopKRows<Bits>& rows) {
    return sorts_in_workspace(rows, kStreamResults<Bits>) ? sorted_results_workspace(rows) : 0;
}

template <class Bits>
Status select_top_k(const Launch& launch, const TopKRows<Bits>& rows, const Bits* x, Bits* values, IndexArray indices) {
    if (sorts_rows(rows)) return top_k_by_sort(launch, rows, x, values, indices);
    const RowTable<Bits> table(rows, x, values, indices);
    if (streams(table)) return top_k_by_streams(launch, table);
    if (!workspace_holds(launch, top_k_workspace(rows))) return top_k_by_rows(launch, table);
    return select_and_sort(launch, rows, values, indices, [&](const TopKRows<Bits>& dense, Bits* to, IndexArray to_indices) {
        return top_k_by_rows(launch, RowTable<Bits>(dense, x, to, to_indices));
    });
}

#define BK_TOP_K(Bits)                                            \
    template size_t top_k_workspace<Bits>(const TopKRows<Bits>&); \
    template Status select_top_k<Bits>(const Launch&, const TopKRows<Bits>&, const Bits*, Bits*, IndexArray);

}  // namespace bk
