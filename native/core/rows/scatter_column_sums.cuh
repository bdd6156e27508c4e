// Sums along many lines that lie side by side, in no fixed order: a block takes eight neighbouring lines, or the
// updates of these that go to one tile of their targets, and adds them in shared memory by atomics. A thread combines
// equal targets that follow on one another in its line before; updates of the next batch are on their way while one is
// added. Where most updates go to few targets, the blocks wait for none of the others, as they would for cells in
// memory; out is read and written once, where there are updates, and rounded once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/rows/scatter_atomic.cuh"
#include "core/rows/scatter_columns.cuh"

namespace bk {

constexpr int kColumnSumThreads = 1024;
constexpr int kColumnSumRows = kColumnSumThreads / kColumnLines;  // updates of a line at once
constexpr int kColumnSumItems = 4;                                // of a thread in a batch
constexpr int kColumnSumBatch = kColumnSumRows * kColumnSumItems;

// A block has a multiprocessor to itself.
template <class T>
ScatterColumns column_sums_of(const ScatterLayout& s) {
    if (s.n < kColumnSumBatch) return {};  // where half of the threads are idle atomics in memory are as fast
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
    const int begin = block.begin, count = block.count, line = block.line, place = block.place;
    block.move(s, &updates, &index, &out);

    for (int t = thread; t < kColumnLines * s.pitch(); t += kColumnSumThreads) all[t] = C(0);
    __syncthreads();
    C* const own = all + line * s.pitch();
    Batch batch;
    const auto load_batch = [&](int first) {
        batch.load(updates + first * s.next_update, s.next_update, index + first * s.next_index, s.next_index,
                   block.has_line ? s.n - first - place : 0);
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
    if (block.has_line) finish_column<kColumnSumRows>(ScatterSum<C>{}, own, place, count, out, s.next_out);
}

template <class T>
Status scatter_column_sums(const Launch& launch, const ScatterColumns& s, const T* updates, IdArray index, T* out) {
    const unsigned shared = static_cast<unsigned>(kColumnLines * s.pitch() * static_cast<int>(sizeof(compute_t<T>)));
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(s.blocks())), dim3(kColumnSumThreads), 1, shared},
                         scatter_column_sums_kernel<T>, s, updates, index, out);
}

}  // namespace bk
