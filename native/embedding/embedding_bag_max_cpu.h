// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/row/row_sums_cpu.h"
#include "embedding/embedding_bag_max.h"

namespace bk {

template <class T, class I>
BK_HD void max_of_bag(const BagShape& shape, const T* weight, const I* indices, BagShape::Range bag, T* y, RowIndexOutput rows,
                      int64_t first_row) {
    using C = compute_t<T>;
    const int64_t d = shape.embedding_dim, total = shape.total_indices;
    const auto next_kept = [&](int64_t k) {
        while (k < bag.last && !shape.keeps(indices[k])) ++k;
        return k;
    };
    const int64_t first = next_kept(bag.first);
    for_column_blocks({0, d}, [&](int64_t c, auto most, int64_t width) BK_INLINED {
        C best[most()];
        int32_t at[most()];
        for (int64_t i = 0; i < width; ++i) at[i] = -1;
        if (first == bag.last) {
            for (int64_t i = 0; i < width; ++i) y[c + i] = narrow<T>(C(0));
        } else {
            const int32_t head = static_cast<int32_t>(indices[first]);
            for (int64_t i = 0; i < width; ++i) best[i] = widen(weight[head * d + c + i]), at[i] = head;
            for (int64_t k = next_kept(first + 1); k < bag.last; k = next_kept(k + 1)) {
                if (k + kRowsAhead < total)
                    if (const int64_t next = indices[k + kRowsAhead]; shape.keeps(next))
                        prefetch_row(weight + next * d + c, width);
                const int32_t index = static_cast<int32_t>(indices[k]);
                const T* const x = weight + index * d + c;
                for (int64_t i = 0; i < width; ++i) {
                    const C value = widen(x[i]);
                    at[i] = value > best[i] ? index : at[i];
                    best[i] = value > best[i] ? value : best[i];
                }
            }
            // Values are read from the table, so that a NaN keeps its payload.
            for (int64_t i = 0; i < width; ++i) y[c + i] = weight[at[i] * d + c + i];
        }
        for (int64_t i = 0; i < width; ++i) rows.put(first_row + c + i, at[i]);
    });
}

template <class T, class I>
Status embedding_bag_max(const Launch&, const BagShape& shape, const T* weight, const I* indices, IdArray offsets, T* out,
                         RowIndexOutput out_index) {
    const int64_t bags = shape.num_bags, d = shape.embedding_dim, per_bag = ceil_div<int64_t>(shape.total_indices, bags) + 1;
    const int64_t grain =
        std::max(grain_for(per_bag * d * static_cast<int64_t>(sizeof(T))), ceil_div<int64_t>(bags, 16 * thread_count()));
    parallel_chunks(bags, grain, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b)
            max_of_bag(shape, weight, indices, shape.bag(offsets, b), out + b * d, out_index, b * d);
    });
    return Status::kOk;
}

}  // namespace bk
