// SPDX-License-Identifier: Apache-2.0
// GPU: a thread group per bag; a block shares bags of more than kLongMaxBag indices.
#pragma once

#include "core/row/row_groups.cuh"
#include "embedding/embedding_bag_max.h"

namespace bk {

constexpr int kBagMaxThreads = 256;
constexpr int kLongMaxBag = 512;

// The greatest value so far, NaN excluded, and its row; and the row of a NaN that came first, which nothing replaces.
template <class C, int N>
struct BagMax {
    C best[N];
    int32_t row[N];
    int32_t nan_row[N];  // -1: the first value is no NaN
    int32_t first;       // the first row; -1: none yet
};

template <int N, class C>
BK_DEVICE void clear_max(BagMax<C, N>& max) {
    max.first = -1;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        max.best[i] = C(0);
        max.row[i] = max.nan_row[i] = -1;
    }
}

template <int N, class T, class C>
BK_DEVICE void update_max(BagMax<C, N>& max, int32_t index, const Vec<T, N>& x) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const C value = widen(x.lane[i]);
        if (max.first < 0 && value != value) max.nan_row[i] = index;
        const bool wins = value == value && (max.row[i] < 0 || value > max.best[i]);
        max.best[i] = wins ? value : max.best[i];
        max.row[i] = wins ? index : max.row[i];
    }
    if (max.first < 0) max.first = index;
}

template <int N, class T, class I, class C>
BK_DEVICE void update_max_by_rows(const BagShape& shape, const T* weight, const I* indices, int32_t first, int32_t last,
                                  int64_t column, BagMax<C, N>& max) {
    constexpr int kUnroll = 4;
    const bool in_bounds = column < shape.embedding_dim;
    const uint32_t end = static_cast<uint32_t>(last);  // unsigned: the last step may exceed 2^31
    for (uint32_t k = static_cast<uint32_t>(first); k < end; k += kUnroll) {
        Vec<T, N> x[kUnroll];
        int64_t index[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            index[u] = k + u < end ? static_cast<int64_t>(indices[k + u]) : -1;
            x[u] = load_if<N>(shape.keeps(index[u]) && in_bounds, weight + index[u] * shape.embedding_dim + column);
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u)
            if (shape.keeps(index[u]) && in_bounds) update_max(max, static_cast<int32_t>(index[u]), x[u]);
    }
}

// Combines the maximum of a later slice of the bag into that of an earlier one.
template <int N, class C>
BK_DEVICE void combine_max(BagMax<C, N>& max, const BagMax<C, N>& later) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
        if (max.first < 0) max.nan_row[i] = later.nan_row[i];
        const bool wins = later.row[i] >= 0 && (max.row[i] < 0 || later.best[i] > max.best[i]);
        max.best[i] = wins ? later.best[i] : max.best[i];
        max.row[i] = wins ? later.row[i] : max.row[i];
    }
    if (max.first < 0) max.first = later.first;
}

// Values are read from the table, so that a NaN keeps its payload.
template <int N, class T, class C>
BK_DEVICE void store_max(const BagShape& shape, const T* weight, T* out, RowIndexOutput out_index, int64_t bag, int64_t column,
                         const BagMax<C, N>& max) {
    if (column >= shape.embedding_dim) return;
    Vec<T, N> value;
    Vec<int32_t, N> rows;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        rows.lane[i] = max.nan_row[i] >= 0 ? max.nan_row[i] : max.row[i];
        value.lane[i] = max.nan_row[i] >= 0 ? weight[max.nan_row[i] * int64_t{shape.embedding_dim} + column + i]
                        : max.row[i] >= 0   ? narrow<T>(max.best[i])
                                            : narrow<T>(C(0));
    }
    const int64_t at = bag * shape.embedding_dim + column;
    store<N>(out + at, value);
#pragma unroll
    for (int i = 0; i < N; ++i) out_index.put(at + i, rows.lane[i]);
}

template <int N, class T, class I>
__global__ void __launch_bounds__(kBagMaxThreads) bag_max_kernel(BagShape shape, const T* weight, const I* indices,
                                                                 IdArray offsets, T* out, RowIndexOutput out_index, int group) {
    using C = compute_t<T>;
    const RowLane slot = RowLane::here<N>(group);
    BagShape::Range range{0, 0};
    if (slot.worker < shape.num_bags) range = shape.bag(offsets, slot.worker);
    const bool is_long = range.last - range.first > kLongMaxBag;
    BagMax<C, N> max;
    clear_max(max);
    if (slot.worker < shape.num_bags && !is_long) {
        update_max_by_rows(shape, weight, indices, range.first, range.last, slot.column, max);
        store_max(shape, weight, out, out_index, slot.worker, slot.column, max);
    }
    if (!__syncthreads_or(is_long)) return;

    // Each group of the block takes an equal slice of the long bag; slices are combined in order.
    __shared__ BagMax<C, N> slice[kBagMaxThreads];
    const int groups = kBagMaxThreads / group, slice_index = threadIdx.x / group;
    for (int64_t bag = int64_t{blockIdx.x} * groups; bag < min(int64_t{blockIdx.x + 1} * groups, int64_t{shape.num_bags});
         ++bag) {
        range = shape.bag(offsets, bag);
        const int64_t length = range.last - range.first;
        if (length <= kLongMaxBag) continue;
        clear_max(max);
        update_max_by_rows(shape, weight, indices, range.first + static_cast<int32_t>(length * slice_index / groups),
                           range.first + static_cast<int32_t>(length * (slice_index + 1) / groups), slot.column, max);
        slice[threadIdx.x] = max;
        __syncthreads();
        if (slice_index == 0) {
            for (int source = 1; source < groups; ++source) combine_max(max, slice[source * group + slot.lane]);
            store_max(shape, weight, out, out_index, bag, slot.column, max);
        }
        __syncthreads();
    }
}

template <class T, class I>
Status embedding_bag_max(const Launch& launch, const BagShape& shape, const T* weight, const I* indices, IdArray offsets,
                         T* out, RowIndexOutput out_index) {
    constexpr int N = kVectorLanes<T> > 4 ? 4 : kVectorLanes<T>;
    RowGroups groups = RowGroups::choose<T>(shape.embedding_dim, false, kBagMaxThreads);
    if (shape.embedding_dim % N == 0 && is_aligned(weight, sizeof(T) * N) && is_aligned(out, sizeof(T) * N)) {
        const int64_t vectors = shape.embedding_dim / N;
        groups.lanes = N;
        groups.group = 1;
        while (groups.group < 32 && groups.group < vectors) groups.group *= 2;
        groups.tiles = ceil_div<int64_t>(vectors, groups.group);
        groups.per_block = kBagMaxThreads / groups.group;
    }
    if (groups.tiles > kMaxGridY)
        return fail(Status::kUnsupported, "embedding_dim is %d, too long for one launch", shape.embedding_dim);
    const Grid grid{
        dim3(static_cast<unsigned>(ceil_div<int64_t>(shape.num_bags, groups.per_block)), static_cast<unsigned>(groups.tiles)),
        dim3(kBagMaxThreads)};
    return launch_kernel(launch, grid, groups.lanes > 1 ? bag_max_kernel<N, T, I> : bag_max_kernel<1, T, I>, shape, weight,
                         indices, offsets, out, out_index, groups.group);
}

}  // namespace bk
