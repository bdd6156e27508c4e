// SPDX-License-Identifier: Apache-2.0
// CPU, like unsorted_segment_sum: in place for f32 and f64, grouped by row for 16-bit gradients. For scaling by
// frequency a workspace counts each row; without one the indices are read for each index that is added.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/workspace.h"
#include "core/row/row_sums_cpu.h"
#include "embedding/embedding_bag_backward.h"

namespace bk {

struct BagGrouping {
    Grouping bags;    // positions by row
    int32_t* bag_of;  // [total_indices], -1 outside every bag
    int32_t* kept;    // [num_bags]
};

// Null unless scaling by frequency.
inline int32_t* carve_counts(Carver* carver, const BagShape& shape) {
    return shape.is_by_frequency ? carver->take<int32_t>(shape.num_embeddings) : nullptr;
}

template <class I>
void count_rows(const BagShape& shape, const I* indices, int32_t* counts) {
    std::fill(counts, counts + shape.num_embeddings, 0);
    for (int64_t k = 0; k < shape.total_indices; ++k)
        if (shape.keeps(indices[k])) ++counts[indices[k]];
}

inline BagGrouping carve_bag_grouping(Carver* carver, const BagShape& shape) {
    BagGrouping grouping;
    grouping.bags.values = carver->take<int32_t>(shape.total_indices);
    grouping.bags.start = carver->take<int64_t>(int64_t{shape.num_embeddings} + 1);
    grouping.bag_of = carver->take<int32_t>(shape.total_indices);
    grouping.kept = carver->take<int32_t>(shape.num_bags);
    return grouping;
}

template <class T, class I>
size_t embedding_bag_backward_workspace(const BagShape& shape, bool) {
    Carver carver;
    carve_counts(&carver, shape);
    if (!std::is_same<T, compute_t<T>>::value) carve_bag_grouping(&carver, shape);
    return carver.bytes();
}

template <class I>
BK_HD int32_t count_kept(const BagShape& shape, const I* indices, BagShape::Range bag) {
    int32_t kept = 0;
    for (int64_t k = bag.first; k < bag.last; ++k) kept += shape.keeps(indices[k]);
    return kept;
}

// x, or for a mean x / divisor rounded to T.
template <bool kMean, class T>
BK_HD compute_t<T> mean_summand(T x, compute_t<T> divisor) {
    return kMean ? widen(narrow<T>(widen(x) / divisor)) : widen(x);
}

// Fills the grouping; returns the size of its largest group.
template <class I>
int64_t group_bags(const BagShape& shape, const BagGrouping& grouping, const I* indices, IdArray offsets) {
    for (int64_t k = 0; k < shape.total_indices; ++k) grouping.bag_of[k] = -1;
    for (int64_t b = 0; b < shape.num_bags; ++b) {
        const auto bag = shape.bag(offsets, b);
        grouping.kept[b] = count_kept(shape, indices, bag);
        for (int64_t k = bag.first; k < bag.last; ++k) grouping.bag_of[k] = static_cast<int32_t>(b);
    }
    const auto row = [&](int64_t k) {
        return grouping.bag_of[k] >= 0 && shape.keeps(indices[k]) ? static_cast<int64_t>(indices[k]) : int64_t{-1};
    };
    return group_by_key(grouping.bags, shape.total_indices, shape.num_embeddings, row, [](int64_t k) { return k; });
}

// A position's summand for its row: row_scale * x / divisor.
template <class T>
struct BagSummand {
    const T* x;
    compute_t<T> divisor, row_scale;
};

// y += summand_at(first) + ... + summand_at(last - 1); positions below `total` may be prefetched.
template <bool kMean, class T, class SummandAt>
void add_bag_summands(ColumnRange columns, int64_t first, int64_t last, int64_t total, bool is_scaled,
                      const SummandAt& summand_at, T* y) {
    using C = compute_t<T>;
    for_column_blocks(columns, [&](int64_t c, auto most, int64_t width) BK_INLINED {
        C sum[most()];
        for (int64_t i = 0; i < width; ++i) sum[i] = widen(y[c + i]);
        for (int64_t at = first; at < last; ++at) {
            if (at + kRowsAhead < total) prefetch_row(summand_at(at + kRowsAhead).x + c, width);
            const BagSummand<T> summand = summand_at(at);
            const T* const x = summand.x + c;
            if (is_scaled)
                for (int64_t i = 0; i < width; ++i) sum[i] += summand.row_scale * mean_summand<kMean>(x[i], summand.divisor);
            else
                for (int64_t i = 0; i < width; ++i) sum[i] += mean_summand<kMean>(x[i], summand.divisor);
        }
        for (int64_t i = 0; i < width; ++i) y[c + i] = narrow<T>(sum[i]);
    });
}

// Adds the sum for row r to row_at(r).
template <bool kMean, class T, class RowAt>
void add_bags_grouped(const BagShape& shape, const BagGrouping& grouping, int64_t largest, const T* dout, const T* scales,
                      const int32_t* counts, const RowAt& row_at) {
    using C = compute_t<T>;
    const int64_t d = shape.embedding_dim, rows = shape.num_embeddings, total = grouping.bags.start[rows];
    const bool is_scaled = scales != nullptr || counts != nullptr;
    for_each_group(grouping.bags, rows, largest, d, sizeof(T), [&](int64_t r, ColumnRange columns) {
        const int64_t first = grouping.bags.start[r], last = grouping.bags.start[r + 1];
        if (first == last) return;
        const auto summand_at = [&](int64_t at) {
            const int32_t k = grouping.bags.values[at], b = grouping.bag_of[k];
            const C scale = scales != nullptr ? widen(scales[k]) : C(1);
            return BagSummand<T>{dout + b * d, kMean ? static_cast<C>(grouping.kept[b]) : C(1),
                                 counts != nullptr ? scale / static_cast<C>(counts[r]) : scale};
        };
        add_bag_summands<kMean>(columns, first, last, total, is_scaled, summand_at, row_at(r));
    });
}

template <class T, class I>
Status embedding_bag_backward(const Launch& launch, const BagShape& shape, const T* dout, const I* indices, IdArray offsets,
                              const T* scales, T* dweight) {
    using C = compute_t<T>;
    const bool has_workspace = workspace_holds(launch, embedding_bag_backward_workspace<T, I>(shape, scales != nullptr));
    int32_t* counts = nullptr;
    if (has_workspace) {
        Carver carver(launch.workspace);
        counts = carve_counts(&carver, shape);
        if (counts != nullptr) count_rows(shape, indices, counts);
        if (!std::is_same<T, C>::value) {
            const BagGrouping grouping = carve_bag_grouping(&carver, shape);
            const int64_t largest = group_bags(shape, grouping, indices, offsets);
            const auto row_at = [&](int64_t row) { return dweight + row * shape.embedding_dim; };
            if (shape.is_mean())
                add_bags_grouped<true>(shape, grouping, largest, dout, scales, counts, row_at);
            else
                add_bags_grouped<false>(shape, grouping, largest, dout, scales, counts, row_at);
            return Status::kOk;
        }
    }
    const bool is_scaled = scales != nullptr || shape.is_by_frequency;
    const auto row_scale_of = [&](int64_t k, int64_t index) {
        const C scale = scales != nullptr ? widen(scales[k]) : C(1);
        if (!shape.is_by_frequency) return scale;
        return scale / static_cast<C>(counts != nullptr ? counts[index] : frequency_of(shape, indices, index));
    };
    const int64_t d = shape.embedding_dim;
    const MatrixTiles partition(d, sizeof(T));
    parallel_ranges(partition.count(), shape.total_indices * d < 4096 ? partition.count() : 1, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
            const ColumnRange columns = partition.column_range(task);
            const auto owned = [&](int64_t index) { return shape.keeps(index) && partition.owns(task, index); };
            for (int64_t b = 0; b < shape.num_bags; ++b) {
                const auto bag = shape.bag(offsets, b);
                const C divisor = shape.is_mean() ? static_cast<C>(count_kept(shape, indices, bag)) : C(1);
                for_column_blocks(columns, [&](int64_t c, auto most, int64_t width) BK_INLINED {
                    const T* const x = dout + b * d + c;
                    C summand[most()];
                    for (int64_t i = 0; i < width; ++i) summand[i] = mean_summand<true>(x[i], divisor);
                    for (int64_t k = bag.first; k < bag.last; ++k) {
                        if (k + kRowsAhead < shape.total_indices)
                            if (const int64_t next = indices[k + kRowsAhead]; owned(next))
                                prefetch_row(dweight + next * d + c, width);
                        const int64_t index = indices[k];
                        if (!owned(index)) continue;
                        const C row_scale = is_scaled ? row_scale_of(k, index) : C(1);
                        add_to_row<most()>(dweight + index * d + c, width,
                                           [&](int64_t i) { return is_scaled ? row_scale * summand[i] : summand[i]; });
                    }
                });
            }
        }
    });
    return Status::kOk;
}

template <class T>
BK_HD T dot_rows(const T* x, const T* y, int64_t width) {
    using C = compute_t<T>;
    constexpr int64_t kLanes = 16;
    C sum[kLanes] = {};
    int64_t c = 0;
    for (; c + kLanes <= width; c += kLanes)
        for (int64_t i = 0; i < kLanes; ++i) sum[i] += widen(x[c + i]) * widen(y[c + i]);
    for (int64_t i = 0; c + i < width; ++i) sum[i] += widen(x[c + i]) * widen(y[c + i]);
    for (int64_t half = kLanes / 2; half > 0; half /= 2)
        for (int64_t i = 0; i < half; ++i) sum[i] += sum[i + half];
    return narrow<T>(sum[0]);
}

template <class T, class I>
Status embedding_bag_scales_backward(const Launch&, const BagShape& shape, const T* dout, const T* weight, const I* indices,
                                     IdArray offsets, T* dscales) {
    const int64_t d = shape.embedding_dim, end = shape.end(offsets);
    parallel_ranges(shape.total_indices, grain_for(2 * d * static_cast<int64_t>(sizeof(T))), [&](int64_t first, int64_t last) {
        for (int64_t k = first; k < last; ++k) {
            const int64_t b = shape.bags_until(offsets, k) - 1, index = indices[k];
            const bool keep = b >= 0 && k < end && shape.keeps(index);
            dscales[k] = keep ? dot_rows(dout + b * d, weight + index * d, d) : narrow<T>(compute_t<T>(0));
        }
    });
    return Status::kOk;
}

}  // namespace bk
