// SPDX-License-Identifier: Apache-2.0
// GPU: a thread group per bag; a block shares bags of more than kLongBag indices.
#pragma once

#include "core/math/wide_range.h"
#include "core/row/row_groups.cuh"
#include "embedding/embedding_bag.h"

namespace bk {

constexpr int kBagThreads = 256;
constexpr int kLongBag = 512;

// Adds the kept rows of positions [first, last), each times `common` and its scale if any, to `sum`; returns their
// number.
template <int N, class T, class I, class C>
BK_DEVICE int32_t add_bag_rows(const BagShape& shape, const T* weight, const I* indices, const T* scales, int32_t first,
                               int32_t last, int64_t column, C common, C (&sum)[N]) {
    constexpr int kUnroll = 8;
    const bool in_bounds = column < shape.embedding_dim;
    int32_t kept = 0;
    const uint32_t end = static_cast<uint32_t>(last);  // unsigned: the last step may exceed 2^31
    for (uint32_t k = static_cast<uint32_t>(first); k < end; k += kUnroll) {
        Vec<T, N> row[kUnroll];
        T scale[kUnroll];
        bool keep[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            const int64_t index = k + u < end ? static_cast<int64_t>(indices[k + u]) : -1;
            keep[u] = shape.keeps(index);
            row[u] = load_if<N>(keep[u] && in_bounds, weight + index * shape.embedding_dim + column);
            if (keep[u] && scales != nullptr) scale[u] = scales[k + u];
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            kept += keep[u];
            if (!keep[u] || !in_bounds) continue;
            const C row_scale = scales == nullptr ? common : widen(scale[u]) * common;
#pragma unroll
            for (int i = 0; i < N; ++i) sum[i] = fma(row_scale, widen_lane(row[u], i), sum[i]);
        }
    }
    return kept;
}

template <int N, class T, class C>
BK_DEVICE void store_bag(const BagShape& shape, T* out, int64_t bag, int64_t column, const C (&sum)[N], int32_t kept) {
    if (column >= shape.embedding_dim) return;
    const C divisor = shape.is_mean() && kept > 0 ? static_cast<C>(kept) : C(1);
    Vec<T, N> row;
#pragma unroll
    for (int i = 0; i < N; ++i) row.lane[i] = narrow<T>(shape.is_mean() ? sum[i] / divisor : sum[i]);
    store<N>(out + bag * shape.embedding_dim + column, row);
}

template <int N, class C>
BK_DEVICE bool has_nonfinite(const C (&sum)[N]) {
    bool has_nonfinite = false;
#pragma unroll
    for (int i = 0; i < N; ++i) has_nonfinite = has_nonfinite || !is_finite(sum[i]);
    return has_nonfinite;
}

// Replaces non-finite results by sums of scaled-down rows: a mean of finite rows is finite.
template <int N, class T, class C>
BK_DEVICE void store_rescaled(const BagShape& shape, T* out, int64_t bag, int64_t column, const C (&scaled)[N], int32_t kept) {
    if (column >= shape.embedding_dim) return;
    const C divisor = shape.is_mean() && kept > 0 ? static_cast<C>(kept) : C(1);
    T* const row = out + bag * shape.embedding_dim + column;
#pragma unroll
    for (int i = 0; i < N; ++i)
        if (!is_finite(widen(row[i]))) row[i] = narrow<T>(scaled[i] / divisor * (C(1) / kScale<C>));
}

template <int N, class T, class I>
__global__ void __launch_bounds__(kBagThreads) embedding_bag_kernel(BagShape shape, const T* weight, const I* indices,
                                                                    IdArray offsets, const T* scales, T* out, int group) {
    using C = compute_t<T>;
    const RowLane slot = RowLane::here<N>(group);
    BagShape::Range range{0, 0};
    if (slot.worker < shape.num_bags) range = shape.bag(offsets, slot.worker);
    const bool is_long = range.last - range.first > kLongBag;
    if (slot.worker < shape.num_bags && !is_long) {
        bool is_rescaled = false;
        do {
            C sum[N];
            clear_row(sum);
            const int32_t kept = add_bag_rows<N>(shape, weight, indices, scales, range.first, range.last, slot.column,
                                                 is_rescaled ? kScale<C> : C(1), sum);
            if (is_rescaled) {
                store_rescaled<N>(shape, out, slot.worker, slot.column, sum, kept);
                break;
            }
            store_bag<N>(shape, out, slot.worker, slot.column, sum, kept);
            is_rescaled = has_nonfinite(sum);
        } while (is_rescaled);
    }
    if (!__syncthreads_or(is_long)) return;

    // Each group of the block takes an equal slice of the long bag; slices are added in order.
    __shared__ C slice[kBagThreads][N];
    __shared__ int32_t slice_kept[kBagThreads];
    const int groups = kBagThreads / group, slice_index = threadIdx.x / group;
    for (int64_t bag = int64_t{blockIdx.x} * groups; bag < min(int64_t{blockIdx.x + 1} * groups, int64_t{shape.num_bags});
         ++bag) {
        range = shape.bag(offsets, bag);
        const int64_t length = range.last - range.first;
        if (length <= kLongBag) continue;
        C sum[N];
        clear_row(sum);
        const int32_t first = range.first + static_cast<int32_t>(length * slice_index / groups);
        const int32_t last = range.first + static_cast<int32_t>(length * (slice_index + 1) / groups);
        slice_kept[threadIdx.x] = add_bag_rows<N>(shape, weight, indices, scales, first, last, slot.column, C(1), sum);
#pragma unroll
        for (int i = 0; i < N; ++i) slice[threadIdx.x][i] = sum[i];
        __syncthreads();
        if (slice_index == 0) {
            int32_t kept = slice_kept[slot.lane];
            for (int source = 1; source < groups; ++source) {
                kept += slice_kept[source * group + slot.lane];
#pragma unroll
                for (int i = 0; i < N; ++i) sum[i] += slice[source * group + slot.lane][i];
            }
            store_bag<N>(shape, out, bag, slot.column, sum, kept);
            if (has_nonfinite(sum)) {
                clear_row(sum);
                add_bag_rows<N>(shape, weight, indices, scales, range.first, range.last, slot.column, kScale<C>, sum);
                store_rescaled<N>(shape, out, bag, slot.column, sum, kept);
            }
        }
        __syncthreads();
    }
}

template <class T, class I>
Status embedding_bag(const Launch& launch, const BagShape& shape, const T* weight, const I* indices, IdArray offsets,
                     const T* scales, T* out) {
    constexpr int N = kVectorLanes<T>;
    const RowGroups groups = RowGroups::choose<T>(
        shape.embedding_dim, is_aligned(weight, kVectorBytes) && is_aligned(out, kVectorBytes), kBagThreads);
    if (groups.tiles > kMaxGridY)
        return fail(Status::kUnsupported, "embedding_dim is %d, too long for one launch", shape.embedding_dim);
    const Grid grid{
        dim3(static_cast<unsigned>(ceil_div<int64_t>(shape.num_bags, groups.per_block)), static_cast<unsigned>(groups.tiles)),
        dim3(kBagThreads)};
    return launch_kernel(launch, grid, groups.lanes > 1 ? embedding_bag_kernel<N, T, I> : embedding_bag_kernel<1, T, I>, shape,
                         weight, indices, offsets, scales, out, groups.group);
}

}  // namespace bk
