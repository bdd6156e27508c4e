// Positions are grouped by row, and the rows that have some numbered in order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "embedding/embedding_bag_backward_cpu.h"
#include "embedding/embedding_sparse.h"

namespace bk {

template <class T, class I>
size_t sparse_rows_workspace(const BagShape& shape, bool) {
    Carver carver;
    carve_counts(&carver, shape);
    carve_bag_grouping(&carver, shape);
    return carver.bytes();
}

template <class T, class I>
Status sparse_rows_of_bags(const Launch& launch, const BagShape& shape, const T* dout, const I* indices, IdArray offsets,
                           const T* scales, const SparseRows<T, I>& out) {
    Carver carver(launch.workspace);
    int32_t* const counts = carve_counts(&carver, shape);
    if (counts != nullptr) count_rows(shape, indices, counts);
    const BagGrouping grouping = carve_bag_grouping(&carver, shape);
    const int64_t largest = group_bags(shape, grouping, indices, offsets);
    int64_t found = 0;
    for (int64_t row = 0; row < shape.num_embeddings; ++row)
        if (grouping.bags.start[row] < grouping.bags.start[row + 1]) out.rows[found++] = static_cast<I>(row);
    *out.count = static_cast<I>(found);
    const auto row_of = [&](int64_t row) {
        return out.values +
               (std::lower_bound(out.rows, out.rows + found, static_cast<I>(row)) - out.rows) * shape.embedding_dim;
    };
    if (shape.is_mean())
        add_bags_grouped<true>(shape, grouping, largest, dout, scales, counts, row_of);
    else
        add_bags_grouped<false>(shape, grouping, largest, dout, scales, counts, row_of);
    return Status::kOk;
}

}  // namespace bk
