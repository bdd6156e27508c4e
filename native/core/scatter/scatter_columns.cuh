// SPDX-License-Identifier: Apache-2.0
// Scatter over many adjacent fibers (columns): a block takes eight adjacent columns, or their updates for one tile of
// targets, and accumulates them in shared memory. All warps load a batch of updates and transpose it; then each warp
// owns one column and adds 32 of its updates at once, equal targets combined first: no atomics and no ordering between
// warps. The next batch is in flight meanwhile. Results are bitwise reproducible for any tile size; out is read and
// written once, if it has updates.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/scatter/combine_duplicates.cuh"
#include "core/scatter/scatter_reduce.h"

namespace bk {

constexpr int kBlockColumns = 8;  // adjacent columns of a block: 32 bytes of indices
constexpr int kScatterColumnThreads = 32 * kBlockColumns;
constexpr int kColumnItems = 8;  // updates per thread, 32 apart in a column
constexpr int kColumnBatch = 32 * kColumnItems;
constexpr int kColumnPitch = kColumnBatch + 4;  // of the transposed batch; avoids bank conflicts

struct ScatterColumns {
    int64_t outer, inner;                       // non-adjacent and adjacent columns
    int column_blocks;                          // blocks of adjacent columns, the last may be narrower
    int n, targets, dropped;                    // per column
    int tile, tiles;                            // targets of a block, tiles of a column
    int64_t updates, index, out;                // strides between outer indices
    int64_t next_update, next_index, next_out;  // strides along a column

    // Shared memory apart from the accumulators.
    template <class T>
    static constexpr int kBatchBytes = kBlockColumns * (kColumnPitch * static_cast<int>(sizeof(T) + sizeof(int16_t)) +
                                                        static_cast<int>(sizeof(DuplicateFilter)));

    // Accumulators between adjacent columns, which start 4 banks apart.
    BK_HD int pitch() const { return tile + 4; }
    template <class Op, class T>
    unsigned shared_bytes() const {
        return static_cast<unsigned>(kBlockColumns * pitch() * static_cast<int>(sizeof(typename Op::Acc)) + kBatchBytes<T>);
    }

    template <class Op, class T>
    static ScatterColumns of(const ScatterLayout& s) {
        return with(s, sizeof(typename Op::Acc), kBatchBytes<T>, 2);
    }
    // The plan for `extra_bytes` of shared memory apart from the accumulators, and `blocks` blocks per SM.
    static ScatterColumns with(const ScatterLayout& s, int64_t cell_bytes, int64_t extra_bytes, int64_t blocks) {
        using L = ScatterLayout;
        const Layout<3> cells = collapse(s.cells);
        const int last = cells.rank - 1;
        if (last < 0 || last > 1) return {};
        for (int k = 0; k < 3; ++k)
            if (cells.stride[k][last] != 1) return {};
        if (cells.extent[last] < kBlockColumns) return {};
        // The driver reserves 1 KiB of shared memory per block.
        const int64_t shared = std::max<int64_t>(kDefaultSharedBytes, (max_shared_bytes(device_arch()) + 1024) / blocks - 1024);
        const int64_t most = (shared - extra_bytes) / (kBlockColumns * cell_bytes) / 32 * 32 - 32;
        ScatterColumns plan{};
        plan.inner = cells.extent[last];
        plan.outer = last == 1 ? cells.extent[0] : 1;
        const int64_t column_blocks = ceil_div<int64_t>(plan.inner, kBlockColumns), tiles = ceil_div(s.targets, most);
        // Shorter fibers leave lanes idle and fewer leave SMs idle; each tile reads all updates of its columns.
        const bool pays = s.n >= 32 && s.n <= INT32_MAX - 4096 && s.targets <= 8 * s.n && tiles <= 16 &&
                          plan.outer * column_blocks * tiles >= 128;
        if (!pays || plan.outer * column_blocks * tiles > INT32_MAX) return {};
        plan.column_blocks = static_cast<int>(column_blocks);
        plan.n = static_cast<int>(s.n);
        plan.targets = static_cast<int>(s.targets);
        plan.dropped = s.dropped >= 0 && s.dropped < s.targets ? static_cast<int>(s.dropped) : -1;
        plan.tiles = static_cast<int>(tiles);
        plan.tile = static_cast<int>(ceil_div<int64_t>(ceil_div(s.targets, tiles), 32)) * 32;
        if (last == 1) {
            plan.updates = cells.stride[L::kUpdates][0];
            plan.index = cells.stride[L::kIndex][0];
            plan.out = cells.stride[L::kOut][0];
        }
        plan.next_update = s.step[L::kUpdates];
        plan.next_index = s.step[L::kIndex];
        plan.next_out = s.step[L::kOut];
        return plan;
    }
    bool applies() const { return tiles > 0; }
    int64_t blocks() const { return outer * column_blocks * tiles; }
};

// A block's columns and targets [begin, begin + count), and a thread's position as it loads and stores: adjacent
// threads have adjacent columns.
struct ColumnBlock {
    unsigned outer;
    int64_t first_column;
    int begin, count, column, row;
    bool has_column;

    BK_DEVICE explicit ColumnBlock(const ScatterColumns& s) {
        const int thread = static_cast<int>(threadIdx.x);
        const unsigned column_block = blockIdx.x / s.tiles;
        outer = column_block / s.column_blocks;
        first_column = static_cast<int64_t>(column_block % s.column_blocks) * kBlockColumns;
        begin = static_cast<int>(blockIdx.x % s.tiles) * s.tile;
        count = min(s.tile, s.targets - begin);
        column = thread % kBlockColumns, row = thread / kBlockColumns;
        has_column = column < s.inner - first_column;
    }
    // Moves the pointers to the thread's first update and index, and the column's first target.
    template <class T>
    BK_DEVICE void move(const ScatterColumns& s, const T** updates, IdArray* index, T** out) const {
        *updates += outer * s.updates + first_column + column + row * s.next_update;
        *index = *index + (outer * s.index + first_column + column + row * s.next_index);
        *out += outer * s.out + first_column + column + begin * s.next_out;
    }
};

// A thread's batch in flight: kItems updates, kRows apart in its column, and their indices by 32-bit halves; `high` is
// 0 if indices are 32-bit.
template <class T, int kItems, int kRows>
struct ColumnBatch {
    T x[kItems];
    int32_t low[kItems], high[kItems];

    // `remaining` counts the updates from the thread's first on.
    BK_DEVICE void load(const T* updates, int64_t next_update, IdArray index, int64_t next_index, int remaining) {
        const int32_t* words = static_cast<const int32_t*>(index.ids);
        const int64_t update_step = kRows * next_update, word_step = (index.is_wide ? 2 * kRows : kRows) * next_index;
#pragma unroll
        for (int u = 0; u < kItems; ++u) {
            const bool is_valid = u * kRows < remaining;
            x[u] = load_if<1>(is_valid, updates).lane[0];
            low[u] = is_valid ? words[0] : -1;
            high[u] = is_valid && index.is_wide ? words[1] : 0;
            updates += update_step;
            words += word_step;
        }
    }

    // The update's cell in a tile of `count` targets from `begin` on; -1 if it is in none.
    BK_DEVICE int target(int u, int begin, int count, int dropped) const {
        const uint32_t at = static_cast<uint32_t>(low[u]) - static_cast<uint32_t>(begin);
        const bool is_valid = int(high[u] == 0) & int(at < static_cast<uint32_t>(count)) & int(low[u] != dropped);
        return is_valid ? static_cast<int>(at) : -1;
    }
};

// Writes the cells of a column of out that have updates; a thread takes every kRows-th cell from `row` on.
template <int kRows, class Op, class T>
BK_DEVICE void finish_column(const Op& op, const typename Op::Acc* accumulators, int row, int count, T* out, int64_t next_out) {
    constexpr int kCells = 4;
    for (int first = row; first < count; first += kRows * kCells) {
        T cell[kCells];
        bool has_update[kCells];
#pragma unroll
        for (int u = 0; u < kCells; ++u) {
            const int t = first + u * kRows;
            has_update[u] = t < count && has_updates(op, accumulators[t]);
            if (has_update[u]) cell[u] = out[t * next_out];
        }
#pragma unroll
        for (int u = 0; u < kCells; ++u) {
            const int t = first + u * kRows;
            if (has_update[u]) out[t * next_out] = narrow<T>(op.finish(widen(cell[u]), accumulators[t]));
        }
    }
}

template <class Op, class T>
__global__ void __launch_bounds__(kScatterColumnThreads, 2)
    scatter_columns_kernel(ScatterColumns s, const T* updates, IdArray index, T* out, Op op) {
    using C = compute_t<T>;
    using Acc = typename Op::Acc;
    BK_LAUNCH_SHARED(uint4, scratch);
    const int pitch = s.pitch();
    Acc* const accumulators = reinterpret_cast<Acc*>(scratch);
    DuplicateFilter* const filters = reinterpret_cast<DuplicateFilter*>(accumulators + kBlockColumns * pitch);
    T* const batch_x = reinterpret_cast<T*>(filters + kBlockColumns);
    int16_t* const batch_target = reinterpret_cast<int16_t*>(batch_x + kBlockColumns * kColumnPitch);
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const ColumnBlock block(s);
    const int begin = block.begin, count = block.count, column = block.column, row = block.row;
    const bool has_column = block.has_column;
    block.move(s, &updates, &index, &out);

    const Acc identity = to_accumulator(op, static_cast<C>(op.identity()), false);
    for (int t = thread; t < kBlockColumns * pitch; t += kScatterColumnThreads) accumulators[t] = identity;
    filters[warp].clear();
    ColumnBatch<T, kColumnItems, 32> batch;
    const auto load_batch = [&](int first) {
        batch.load(updates + first * s.next_update, s.next_update, index + first * s.next_index, s.next_index,
                   has_column ? s.n - first - row : 0);
    };
    load_batch(0);
    for (int first = 0; first < s.n; first += kColumnBatch) {
#pragma unroll
        for (int u = 0; u < kColumnItems; ++u) {
            const int at = column * kColumnPitch + row + u * 32;
            batch_x[at] = batch.x[u];
            batch_target[at] = static_cast<int16_t>(batch.target(u, begin, count, s.dropped));
        }
        __syncthreads();
        if (first + kColumnBatch < s.n) load_batch(first + kColumnBatch);
        Acc* const column_accumulators = accumulators + warp * pitch;
        int target[kColumnItems];
        bool may_repeat[kColumnItems];
#pragma unroll
        for (int u = 0; u < kColumnItems; ++u) target[u] = batch_target[warp * kColumnPitch + u * 32 + lane];
#pragma unroll
        for (int u = 0; u < kColumnItems; ++u)
            may_repeat[u] = filters[warp].may_repeat(static_cast<uint32_t>(target[u]), target[u] >= 0);
#pragma unroll
        for (int u = 0; u < kColumnItems; ++u) {
            bool adds = target[u] >= 0;
            Acc value = to_accumulator(op, widen(batch_x[warp * kColumnPitch + u * 32 + lane]), adds);
            adds = combine_repeated(op, target[u], adds, may_repeat[u], identity, &value);
            if (adds) column_accumulators[target[u]] = combine_accumulators(op, column_accumulators[target[u]], value);
            __syncwarp();
        }
        __syncthreads();
    }

    if (has_column) finish_column<32>(op, accumulators + column * pitch, row, count, out, s.next_out);
}

template <class Op, class T>
Status scatter_columns(const Launch& launch, const Op& op, const ScatterColumns& s, const T* updates, IdArray index, T* out) {
    return launch_kernel(launch,
                         Grid{dim3(static_cast<unsigned>(s.blocks())), dim3(kScatterColumnThreads), 1, s.shared_bytes<Op, T>()},
                         scatter_columns_kernel<Op, T>, s, updates, index, out, op);
}

}  // namespace bk
