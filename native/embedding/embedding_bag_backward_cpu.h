// As unsorted_segment_sum on the CPU: in place for f32 and f64, grouped by row for 16-bit gradients.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/row_sums_cpu.h"
#include "core/workspace.h"
#include "embedding/embedding_bag_backward.h"

namespace bk {

struct BagGrouping {
    Grouping positions;
    int32_t* bag_of;  // [total_indices], -1 outside every bag
    int32_t* kept;    // [num_bags]
};

inline BagGrouping carve_bag_grouping(Carver* carver, const BagShape& shape) {
    BagGrouping grouping;
    grouping.positions.order = carver->take<int32_t>(shape.total_indices);
    grouping.positions.start = carver->take<int64_t>(int64_t{shape.num_embeddings} + 1);
    grouping.bag_of = carver->take<int32_t>(shape.total_indices);
    grouping.kept = carver->take<int32_t>(shape.num_bags);
    return grouping;
}

template <class T, class I>
size_t embedding_bag_backward_workspace(const BagShape& shape) {
    if (std::is_same<T, compute_t<T>>::value) return 0;
    Carver carver;
    carve_bag_grouping(&carver, shape);
    return carver.bytes();
}

template <class I>
BK_HD int32_t count_kept(const BagShape& shape, const I* indices, BagShape::Range bag) {
    int32_t kept = 0;
    for (int64_t k = bag.first; k < bag.last; ++k) kept += shape.keeps(indices[k]);
    return kept;
}

template <class T, class I>
void add_bags_grouped(const BagShape& shape, const BagGrouping& grouping, const T* dout, const I* indices,
                      const int32_t* offsets, T* dweight) {
    using C = compute_t<T>;
    const int64_t d = shape.embedding_dim;
    for (int64_t k = 0; k < shape.total_indices; ++k) grouping.bag_of[k] = -1;
    for (int64_t b = 0; b < shape.num_bags; ++b) {
        const auto bag = shape.bag(offsets, b);
        grouping.kept[b] = count_kept(shape, indices, bag);
        for (int64_t k = bag.first; k < bag.last; ++k) grouping.bag_of[k] = static_cast<int32_t>(b);
    }
    group_by_key(grouping.positions, shape.total_indices, shape.num_embeddings, [&](int64_t k) {
        return grouping.bag_of[k] >= 0 && shape.keeps(indices[k]) ? static_cast<int64_t>(indices[k]) : int64_t{-1};
    });
    const int64_t rows = shape.num_embeddings;
    parallel_chunks(rows, ceil_div(rows, 16 * thread_count()), [&](int64_t begin, int64_t end) {
        constexpr int64_t kColumns = 256;
        C sum[kColumns];
        for (int64_t r = begin; r < end; ++r) {
            const int64_t first = grouping.positions.start[r], last = grouping.positions.start[r + 1];
            for (int64_t c = 0; c < d && first < last; c += kColumns) {
                const int64_t width = std::min(kColumns, d - c);
                for (int64_t i = 0; i < width; ++i) sum[i] = widen(dweight[r * d + c + i]);
                for (int64_t at = first; at < last; ++at) {
                    const int32_t b = grouping.bag_of[grouping.positions.order[at]];
                    const C divisor = shape.is_mean() ? static_cast<C>(grouping.kept[b]) : C(1);
                    const T* const x = dout + b * d + c;
                    for (int64_t i = 0; i < width; ++i) sum[i] += widen(narrow<T>(widen(x[i]) / divisor));
                }
                for (int64_t i = 0; i < width; ++i) dweight[r * d + c + i] = narrow<T>(sum[i]);
            }
        }
    });
}

template <class T, class I>
Status embedding_bag_backward(const Launch& launch, const BagShape& shape, const T* dout, const I* indices,
                              const int32_t* offsets, T* dweight) {
    using C = compute_t<T>;
    bool grouped = false;
    BK_TRY(find_workspace(launch, embedding_bag_backward_workspace<T, I>(shape), &grouped));
    if (grouped) {
        Carver carver(launch.workspace);
        add_bags_grouped(shape, carve_bag_grouping(&carver, shape), dout, indices, offsets, dweight);
        return Status::kOk;
    }
    const int64_t d = shape.embedding_dim;
    const MatrixParts parts(d, sizeof(T));
    parallel_ranges(parts.count(), shape.total_indices * d < 4096 ? parts.count() : 1, [&](int64_t begin, int64_t end) {
        for (int64_t part = begin; part < end; ++part) {
            const ColumnRange columns = parts.column_range(part);
            for (int64_t b = 0; b < shape.num_bags; ++b) {
                const auto bag = shape.bag(offsets, b);
                const C divisor = shape.is_mean() ? static_cast<C>(count_kept(shape, indices, bag)) : C(1);
                const T* BK_RESTRICT const x = dout + b * d;
                for (int64_t k = bag.first; k < bag.last; ++k) {
                    const int64_t index = indices[k];
                    if (!shape.keeps(index) || index % parts.row_classes != parts.row_class(part)) continue;
                    T* BK_RESTRICT const y = dweight + index * d;
                    for (int64_t c = columns.first; c < columns.last; ++c)
                        y[c] = narrow<T>(widen(y[c]) + widen(narrow<T>(widen(x[c]) / divisor)));
                }
            }
        }
    });
    return Status::kOk;
}

}  // namespace bk
