// SPDX-License-Identifier: Apache-2.0
// Unordered scatter-sum over many adjacent fibers (columns): a block takes eight adjacent columns, or their updates for
// one tile of targets, and adds them by shared-memory atomics. A thread first combines consecutive equal targets of its
// column; the next batch of updates is in flight while one is added. Hot targets make blocks wait only for themselves,
// unlike global atomics. out is read and written once, if it has updates, and rounded once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/scatter/scatter_atomic.cuh"
#include "core/scatter/scatter_columns.cuh"

namespace bk {

constexpr int kColumnSumThreads = 1024;
constexpr int kColumnSumRows = kColumnSumThreads / kBlockColumns;  // updates of a column at once
constexpr int kColumnSumItems = 4;                                 // per thread in a batch
constexpr int kColumnSumBatch = kColumnSumRows * kColumnSumItems;

// One block per SM.
template <class T>
ScatterColumns column_sums_of(const ScatterLayout& s) {
    if (s.n < kColumnSumBatch) return {};  // with half of the threads idle, global atomics are as fast
    return ScatterColumns::with(s, sizeof(compute_t<T>), 0, 1);
}

template <class T>
__global__ void __launch_bounds__(kColumnSumThreads)
    scatter_column_sums_kernel(ScatterColumns s, const T* updates, IdArray index, T* out) {
    using C = compute_t<T>;
    using Batch = ColumnBatch<T, kColumnSumItems, kColumnSumRows>;
    BK_LAUNCH_SHARED(uint4, scratch);
    C* const all = reinterpret_cast<C*>(scratch);
    const int thread = static_cast<int>(threadIdx.x);
    const ColumnBlock block(s);
    const int begin = block.begin, count = block.count, column = block.column, row = block.row;
    block.move(s, &updates, &index, &out);

    for (int t = thread; t < kBlockColumns * s.pitch(); t += kColumnSumThreads) all[t] = C(0);
    __syncthreads();
    C* const own = all + column * s.pitch();
    Batch batch;
    const auto load_batch = [&](int first) {
        batch.load(updates + first * s.next_update, s.next_update, index + first * s.next_index, s.next_index,
                   block.has_column ? s.n - first - row : 0);
    };
    load_batch(0);
    int current = -1;
    C sum = C(0);
    for (int first = 0; first < s.n; first += kColumnSumBatch) {
        int target[kColumnSumItems];
        C value[kColumnSumItems];
#pragma unroll
        for (int u = 0; u < kColumnSumItems; ++u) {
            target[u] = batch.target(u, begin, count, s.dropped);
            value[u] = widen(batch.x[u]);
        }
        if (first + kColumnSumBatch < s.n) load_batch(first + kColumnSumBatch);
#pragma unroll
        for (int u = 0; u < kColumnSumItems; ++u) {
            if (target[u] < 0) continue;
            if (target[u] == current) {
                sum += value[u];
                continue;
            }
            if (current >= 0) atomic_add_one(own + current, sum);
            current = target[u];
            sum = value[u];
        }
    }
    if (current >= 0) atomic_add_one(own + current, sum);
    __syncthreads();
    if (block.has_column) finish_column<kColumnSumRows>(ScatterSum<C>{}, own, row, count, out, s.next_out);
}

template <class T>
Status scatter_column_sums(const Launch& launch, const ScatterColumns& s, const T* updates, IdArray index, T* out) {
    const unsigned shared = static_cast<unsigned>(kBlockColumns * s.pitch() * static_cast<int>(sizeof(compute_t<T>)));
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(s.blocks())), dim3(kColumnSumThreads), 1, shared},
                         scatter_column_sums_kernel<T>, s, updates, index, out);
}

}  // namespace bk
