// SPDX-License-Identifier: Apache-2.0
// Top-k on a GPU: the choice between kernels.
#pragma once

#include "core/topk/row_selection.h"
#include "core/topk/top_k_rows.cuh"
#include "core/topk/top_k_stream.cuh"

namespace bk {

template <class Bits>
size_t top_k_workspace(const TopKRows<Bits>&) {
    return 0;
}

template <class Bits>
Status select_top_k(const Launch& launch, const TopKRows<Bits>& rows, const Bits* x, Bits* values, IndexArray indices) {
    const RowTable<Bits> table(rows, x, values, indices);
    return streams(table) ? top_k_by_streams(launch, table) : top_k_by_rows(launch, table);
}

#define BK_TOP_K(Bits)                                            \
    template size_t top_k_workspace<Bits>(const TopKRows<Bits>&); \
    template Status select_top_k<Bits>(const Launch&, const TopKRows<Bits>&, const Bits*, Bits*, IndexArray);

}  // namespace bk
