// Scatter along many lines that lie side by side: a block takes eight neighbouring lines, or the updates of these that
// go to one tile of their targets, and collects them in shared memory. All its warps load a batch of updates and turn
// it; then each warp has a line to itself, and adds 32 updates of it at once to the tile, equal ones combined before:
// no atomics and no turns. While a batch is added the next one is on its way. Results are the same from launch to
// launch, and for tiles of any size; out is read and written once, where there are updates.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/rows/combine_equal.cuh"
#include "core/rows/scatter_reduce.h"

namespace bk {

constexpr int kColumnLines = 8;  // side by side in a block: 32 bytes of indices
constexpr int kScatterColumnThreads = 32 * kColumnLines;
constexpr int kColumnItems = 8;  // updates of a thread at once, 32 apart along a line
constexpr int kColumnBatch = 32 * kColumnItems;
constexpr int kColumnPitch = kColumnBatch + 4;  // of the turned batch, whose lines stand in different banks

struct ScatterColumns {
    int64_t outer, inner;                       // bundles that lie apart; lines side by side
    int bundles;                                // of the lines side by side, of which the last may have fewer
    int n, targets, dropped;                    // of a line
    int tile, tiles;                            // targets of a block, blocks of a bundle
    int64_t updates, index, out;                // from outer to outer
    int64_t next_update, next_index, next_out;  // along a line

    // Bytes beside the cells.
    template <class T>
    static constexpr int kBatchBytes =
        kColumnLines * (kColumnPitch * static_cast<int>(sizeof(T) + sizeof(int16_t)) + static_cast<int>(sizeof(MeetingPlaces)));

    // Cells from line to line: neighbouring lines have theirs 4 banks apart.
    BK_HD int pitch() const { return tile + 4; }
    template <class Op, class T>
    unsigned shared_bytes() const {
        return static_cast<unsigned>(kColumnLines * pitch() * static_cast<int>(sizeof(typename Op::Acc)) + kBatchBytes<T>);
    }

    template <class Op, class T>
    static ScatterColumns of(const ScatterLayout& s) {
        return with(s, sizeof(typename Op::Acc), kBatchBytes<T>, 2);
    }
    // Of a block with `beside` bytes of shared memory beside its cells, of which `blocks` share a multiprocessor.
    static ScatterColumns with(const ScatterLayout& s, int64_t cell_bytes, int64_t beside, int64_t blocks) {
        using L = ScatterLayout;
        const Layout<3> cells = collapse(s.cells);
        const int last = cells.rank - 1;
        if (last < 0 || last > 1) return {};
        for (int k = 0; k < 3; ++k)
            if (cells.stride[k][last] != 1) return {};
        if (cells.extent[last] < kColumnLines) return {};
        // The multiprocessor keeps 1 KiB of each.
        const int64_t shared = std::max<int64_t>(kSharedForAll, (most_shared_bytes(device_arch()) + 1024) / blocks - 1024);
        const int64_t most = (shared - beside) / (kColumnLines * cell_bytes) / 32 * 32 - 32;
        ScatterColumns lines{};
        lines.inner = cells.extent[last];
        lines.outer = last == 1 ? cells.extent[0] : 1;
        const int64_t bundles = ceil_div<int64_t>(lines.inner, kColumnLines), tiles = ceil_div(s.targets, most);
        // Shorter lines leave lanes idle, fewer of them the chip; of many tiles each reads all updates of a line.
        const bool pays =
            s.n >= 32 && s.n <= INT32_MAX - 4096 && s.targets <= 8 * s.n && tiles <= 16 && lines.outer * bundles * tiles >= 128;
        if (!pays || lines.outer * bundles * tiles > INT32_MAX) return {};
        lines.bundles = static_cast<int>(bundles);
        lines.n = static_cast<int>(s.n);
        lines.targets = static_cast<int>(s.targets);
        lines.dropped = s.dropped >= 0 && s.dropped < s.targets ? static_cast<int>(s.dropped) : -1;
        lines.tiles = static_cast<int>(tiles);
        lines.tile = static_cast<int>(ceil_div<int64_t>(ceil_div(s.targets, tiles), 32)) * 32;
        if (last == 1) {
            lines.updates = cells.stride[L::kUpdates][0];
            lines.index = cells.stride[L::kIndex][0];
            lines.out = cells.stride[L::kOut][0];
        }
        lines.next_update = s.step[L::kUpdates];
        lines.next_index = s.step[L::kIndex];
        lines.next_out = s.step[L::kOut];
        return lines;
    }
    bool are_there() const { return tiles > 0; }
    int64_t blocks() const { return outer * bundles * tiles; }
};

// What a block has of the columns, targets [begin, begin + count), and a thread as it loads and stores: neighbours have
// neighbouring lines.
struct ColumnBlock {
    unsigned outer;
    int64_t beside;
    int begin, count, line, place;
    bool has_line;

    BK_DEVICE explicit ColumnBlock(const ScatterColumns& s) {
        const int thread = static_cast<int>(threadIdx.x);
        const unsigned bundle = blockIdx.x / s.tiles;
        outer = bundle / s.bundles;
        beside = static_cast<int64_t>(bundle % s.bundles) * kColumnLines;
        begin = static_cast<int>(blockIdx.x % s.tiles) * s.tile;
        count = min(s.tile, s.targets - begin);
        line = thread % kColumnLines, place = thread / kColumnLines;
        has_line = line < s.inner - beside;
    }
    // To the thread's first update, and the line's first target.
    template <class T>
    BK_DEVICE void move(const ScatterColumns& s, const T** updates, IdArray* index, T** out) const {
        *updates += outer * s.updates + beside + line + place * s.next_update;
        *index = *index + (outer * s.index + beside + line + place * s.next_index);
        *out += outer * s.out + beside + line + begin * s.next_out;
    }
};

// A thread's part of a batch on its way: kItems updates, kRows apart along its line, and their indices by words, of
// which the upper ones are 0 where there are none.
template <class T, int kItems, int kRows>
struct ColumnBatch {
    T x[kItems];
    int32_t low[kItems], high[kItems];

    // `left` are to come from the thread's first on.
    BK_DEVICE void load(const T* updates, int64_t next_update, IdArray index, int64_t next_index, int left) {
        const int32_t* words = static_cast<const int32_t*>(index.ids);
        const int64_t update_step = kRows * next_update, word_step = (index.is_wide ? 2 * kRows : kRows) * next_index;
#pragma unroll
        for (int u = 0; u < kItems; ++u) {
            const bool is_there = u * kRows < left;
            x[u] = load_if<1>(is_there, updates).lane[0];
            low[u] = is_there ? words[0] : -1;
            high[u] = is_there && index.is_wide ? words[1] : 0;
            updates += update_step;
            words += word_step;
        }
    }

    // The cell of a tile of `count` targets from `begin` on; -1: none of them.
    BK_DEVICE int target(int u, int begin, int count, int dropped) const {
        const uint32_t at = static_cast<uint32_t>(low[u]) - static_cast<uint32_t>(begin);
        const bool is_there = int(high[u] == 0) & int(at < static_cast<uint32_t>(count)) & int(low[u] != dropped);
        return is_there ? static_cast<int>(at) : -1;
    }
};

// Cells of a line of out that updates go to, of every kRows one from number `place` on.
template <int kRows, class Op, class T>
BK_DEVICE void finish_column(const Op& op, const typename Op::Acc* all, int place, int count, T* out, int64_t next_out) {
    constexpr int kCells = 4;
    for (int first = place; first < count; first += kRows * kCells) {
        T cell[kCells];
        bool is_met[kCells];
#pragma unroll
        for (int u = 0; u < kCells; ++u) {
            const int t = first + u * kRows;
            is_met[u] = t < count && has_updates(op, all[t]);
            if (is_met[u]) cell[u] = out[t * next_out];
        }
#pragma unroll
        for (int u = 0; u < kCells; ++u) {
            const int t = first + u * kRows;
            if (is_met[u]) out[t * next_out] = narrow<T>(op.finish(widen(cell[u]), all[t]));
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
    Acc* const all = reinterpret_cast<Acc*>(scratch);
    MeetingPlaces* const places = reinterpret_cast<MeetingPlaces*>(all + kColumnLines * pitch);
    T* const batch_x = reinterpret_cast<T*>(places + kColumnLines);
    int16_t* const batch_target = reinterpret_cast<int16_t*>(batch_x + kColumnLines * kColumnPitch);
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const ColumnBlock block(s);
    const int begin = block.begin, count = block.count, line = block.line, place = block.place;
    const bool has_line = block.has_line;
    block.move(s, &updates, &index, &out);

    const Acc nothing = collected(op, static_cast<C>(op.identity()), false);
    for (int t = thread; t < kColumnLines * pitch; t += kScatterColumnThreads) all[t] = nothing;
    places[warp].clear();
    ColumnBatch<T, kColumnItems, 32> batch;
    const auto load_batch = [&](int first) {
        batch.load(updates + first * s.next_update, s.next_update, index + first * s.next_index, s.next_index,
                   has_line ? s.n - first - place : 0);
    };
    load_batch(0);
    for (int first = 0; first < s.n; first += kColumnBatch) {
#pragma unroll
        for (int u = 0; u < kColumnItems; ++u) {
            const int at = line * kColumnPitch + place + u * 32;
            batch_x[at] = batch.x[u];
            batch_target[at] = static_cast<int16_t>(batch.target(u, begin, count, s.dropped));
        }
        __syncthreads();
        if (first + kColumnBatch < s.n) load_batch(first + kColumnBatch);
        Acc* const own = all + warp * pitch;
        int target[kColumnItems];
        bool may_meet[kColumnItems];
#pragma unroll
        for (int u = 0; u < kColumnItems; ++u) target[u] = batch_target[warp * kColumnPitch + u * 32 + lane];
#pragma unroll
        for (int u = 0; u < kColumnItems; ++u)
            may_meet[u] = places[warp].may_meet(static_cast<uint32_t>(target[u]), target[u] >= 0);
#pragma unroll
        for (int u = 0; u < kColumnItems; ++u) {
            bool adds = target[u] >= 0;
            Acc value = collected(op, widen(batch_x[warp * kColumnPitch + u * 32 + lane]), adds);
            adds = combine_met(op, target[u], adds, may_meet[u], nothing, &value);
            if (adds) own[target[u]] = combine_collected(op, own[target[u]], value);
            __syncwarp();
        }
        __syncthreads();
    }

    if (has_line) finish_column<32>(op, all + line * pitch, place, count, out, s.next_out);
}

template <class Op, class T>
Status scatter_columns(const Launch& launch, const Op& op, const ScatterColumns& s, const T* updates, IdArray index, T* out) {
    return launch_kernel(launch,
                         Grid{dim3(static_cast<unsigned>(s.blocks())), dim3(kScatterColumnThreads), 1, s.shared_bytes<Op, T>()},
                         scatter_columns_kernel<Op, T>, s, updates, index, out, op);
}

}  // namespace bk
