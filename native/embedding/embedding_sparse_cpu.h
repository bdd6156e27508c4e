// SPDX-License-Identifier: Apache-2.0
// CPU: positions are grouped by row, and nonempty rows are numbered in order. Without a workspace positions are sorted
// by row in the output `rows`, which has a slot for each.
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

// Counts the indices of a row outside every bag: they count towards its frequency, too.
template <class I>
int64_t count_outside_bags(const BagShape& shape, const I* indices, IdArray offsets, I row) {
    if (offsets.ids == nullptr) return 0;
    const int64_t first = std::clamp<int64_t>(offsets[0], 0, shape.total_indices);
    const int64_t last = std::clamp<int64_t>(shape.end(offsets), first, shape.total_indices);
    return std::count(indices, indices + first, row) + std::count(indices + last, indices + shape.total_indices, row);
}

template <bool kMean, class T, class I>
void add_bags_sorted(const BagShape& shape, const T* dout, const I* indices, IdArray offsets, const T* scales,
                     const I* positions, int64_t kept, T* values) {
    using C = compute_t<T>;
    const int64_t d = shape.embedding_dim;
    const MatrixTiles partition(d, sizeof(T));
    parallel_ranges(partition.count(), kept * d < 4096 ? partition.count() : 1, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
            int64_t row_rank = 0;
            for (int64_t first = 0, last; first < kept; first = last, ++row_rank) {
                const I row = indices[positions[first]];
                for (last = first + 1; last < kept && indices[positions[last]] == row;) ++last;
                if (!partition.owns(task, row)) continue;
                const C frequency = shape.is_by_frequency
                                        ? static_cast<C>(last - first + count_outside_bags(shape, indices, offsets, row))
                                        : C(1);
                const auto summand_at = [&](int64_t at) {
                    const int64_t k = positions[at], b = offsets.ids != nullptr ? shape.bags_until(offsets, k) - 1 : k;
                    const C divisor = kMean ? static_cast<C>(count_kept(shape, indices, shape.bag(offsets, b))) : C(1);
                    return BagSummand<T>{dout + b * d, divisor, (scales != nullptr ? widen(scales[k]) : C(1)) / frequency};
                };
                add_bag_summands<kMean>(partition.column_range(task), first, last, last,
                                        scales != nullptr || shape.is_by_frequency, summand_at, values + row_rank * d);
            }
        }
    });
}

template <class T, class I>
Status sparse_rows_in_place(const Launch&, const BagShape& shape, const T* dout, const I* indices, IdArray offsets,
                            const T* scales, const SparseRows<T, I>& out) {
    I* const positions = out.rows;
    int64_t kept = 0;
    for (int64_t k = 0; k < shape.total_indices; ++k)
        if (shape.is_in_bag(offsets, k) && shape.keeps(indices[k])) positions[kept++] = static_cast<I>(k);
    std::sort(positions, positions + kept,
              [&](I a, I b) { return indices[a] != indices[b] ? indices[a] < indices[b] : a < b; });
    if (shape.is_mean())
        add_bags_sorted<true>(shape, dout, indices, offsets, scales, positions, kept, out.values);
    else
        add_bags_sorted<false>(shape, dout, indices, offsets, scales, positions, kept, out.values);
    int64_t found = 0;
    for (int64_t at = 0; at < kept; ++at) {
        const I row = indices[positions[at]];
        if (found == 0 || out.rows[found - 1] != row) out.rows[found++] = row;
    }
    std::fill(out.rows + found, out.rows + kept, I(-1));
    *out.count = static_cast<I>(found);
    return Status::kOk;
}

}  // namespace bk
