// Scatter along lines that are many and long, and dense or side by side: a block takes a line, or eight neighbouring ones, or
// the updates of these that go to one tile of their targets, and collects them in shared memory. Its warps load batches of
// updates and combine equal ones of 32 at once; then they add them to the tile in turns, in the order of the batches. Results
// are the same from launch to launch, and for any number of warps; out is read and written once, where there are updates.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/rows/combine_equal.cuh"
#include "core/rows/scatter_reduce.h"

namespace bk {

struct ScatterLines {
    int64_t outer, inner;                       // bundles that lie apart; lines side by side
    int bundles, shift;                         // of the lines side by side, 2^shift each, of which the last may have fewer
    int n, targets, dropped;                    // of a line
    int tile, tiles;                            // targets of a block, blocks of a bundle
    int64_t updates, index, out;                // from outer to outer
    int64_t next_update, next_index, next_out;  // along a line

    // The tile is whole vectors; the shared memory of a block is at most 48 KiB.
    template <class Acc>
    static constexpr int kMostCells = 49152 / static_cast<int>(sizeof(Acc) + 1) / 256 * 256;
    static constexpr int kBundleShift = 3;  // 32 bytes of indices

    template <class Op>
    static ScatterLines of(const ScatterLayout& s) {
        using L = ScatterLayout;
        const Layout<3> cells = collapse(s.cells);
        const int last = cells.rank - 1;
        if (last < 0) return {};
        const auto is_dense = [](const int64_t (&step)[3]) { return step[0] == 1 && step[1] == 1 && step[2] == 1; };
        const int64_t beside[3] = {cells.stride[L::kUpdates][last], cells.stride[L::kIndex][last], cells.stride[L::kOut][last]};
        const bool is_along = cells.rank == 1 && is_dense(s.step) && beside[L::kOut] >= s.targets;
        const bool is_across = cells.rank <= 2 && is_dense(beside) && cells.extent[last] >= 1 << kBundleShift;
        if (!is_along && !is_across) return {};
        ScatterLines lines{};
        lines.shift = is_along ? 0 : kBundleShift;
        lines.inner = is_along ? 1 : cells.extent[last];
        const int64_t cell_count = s.targets << lines.shift, bundles = ceil_div(lines.inner, int64_t{1} << lines.shift);
        const int64_t tiles = ceil_div<int64_t>(cell_count, kMostCells<typename Op::Acc>);
        const bool has_outer = is_along || cells.rank == 2;
        lines.outer = has_outer ? cells.extent[0] : 1;
        // Shorter lines leave threads idle, fewer of them the chip; of many tiles each reads all updates of a line.
        const bool pays = s.n << lines.shift >= 256 && s.n <= (INT32_MAX >> lines.shift) - 4096 && s.targets <= 8 * s.n &&
                          tiles <= (is_along ? 4 : 16) && lines.outer * bundles * (is_along ? 1 : tiles) >= 128;
        if (!pays || lines.outer * bundles * tiles > INT32_MAX) return {};
        lines.bundles = static_cast<int>(bundles);
        lines.n = static_cast<int>(s.n);
        lines.targets = static_cast<int>(s.targets);
        lines.dropped = s.dropped >= 0 && s.dropped < s.targets ? static_cast<int>(s.dropped) : -1;
        lines.tiles = static_cast<int>(tiles);
        lines.tile = static_cast<int>(ceil_div<int64_t>(ceil_div(cell_count, tiles), 256)) * 256 >> lines.shift;
        if (has_outer) {
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
    // Whether N neighbouring cells are as many neighbours in memory, at whole vectors from its begin.
    template <int N>
    bool has_vectors() const {
        if (out % N != 0) return false;
        return shift == 0 ? targets % N == 0 : inner % N == 0 && next_out % N == 0 && N <= 1 << shift;
    }
};

constexpr int kLineWarps = 8;  // at most
constexpr int kLineItems = 8;  // updates of a lane at once, 32 apart
constexpr int kLineBatch = 32 * kLineItems;
// Blocks that share the registers of a multiprocessor.
template <class Acc>
constexpr int kLineBlocks = 6 - static_cast<int>(sizeof(Acc)) / 4;

// The cells of a tile that updates of one line go to: its targets are those from `begin` to `end`, and a cell of each of the
// 2^shift lines follows on another. find() looks at a lane's updates, 32 >> shift apart, of which `left` are to come: -1 is
// none of the tile's. All indices are on their way before one is looked at.
struct LineTargets {
    int begin, end, dropped, shift, line;

    template <class I>
    BK_DEVICE void find(const I* index, int64_t step, int left, int (&cell)[kLineItems]) const {
        I found[kLineItems];
#pragma unroll
        for (int u = 0; u < kLineItems; ++u) found[u] = (u * 32 >> shift) < left ? index[(u * 32 >> shift) * step] : I(-1);
#pragma unroll
        for (int u = 0; u < kLineItems; ++u) {
            const bool is_there = found[u] >= begin && found[u] < end && found[u] != dropped;
            cell[u] = is_there ? ((static_cast<int>(found[u]) - begin) << shift) + line : -1;
        }
    }
};

// Cells of out that updates go to, `kCells` vectors a thread at once. The last lines of a bundle may not be there.
template <int N, class Op, class T>
BK_DEVICE void finish_targets(const Op& op, const ScatterLines& s, const typename Op::Acc* all, const uint8_t* is_met,
                              int count, int lines, T* out) {
    constexpr int kCells = N >= 8 ? 2 : 4;
    const int step = static_cast<int>(blockDim.x) * N, line_of = (1 << s.shift) - 1;
    for (int first = static_cast<int>(threadIdx.x) * N; first < count; first += kCells * step) {
        Vec<T, N> cell[kCells];
        T* place[kCells];
        bool is_there[kCells];
#pragma unroll
        for (int u = 0; u < kCells; ++u) {
            const int at = first + u * step, line = at & line_of;
            place[u] = out + (at >> s.shift) * s.next_out + line;
            is_there[u] = at < count && line < lines;
            if (is_there[u]) cell[u] = load<N>(place[u]);
        }
#pragma unroll
        for (int u = 0; u < kCells; ++u) {
            if (!is_there[u]) continue;
            const int at = first + u * step;
            bool any = false;
#pragma unroll
            for (int lane = 0; lane < N; ++lane) {
                if (is_met[at + lane] == 0) continue;
                any = true;
                cell[u].lane[lane] = narrow<T>(op.finish(widen(cell[u].lane[lane]), all[at + lane]));
            }
            if (any) store<N>(place[u], cell[u]);
        }
    }
}

// Whether a lane with another update of one line has the same cell: which is rare, and asked for at less than what
// combine_equal takes.
BK_DEVICE bool meets_bundle(int cell) {
    bool meets = false;
#pragma unroll
    for (int distance = 1 << ScatterLines::kBundleShift; distance < 32; distance += 1 << ScatterLines::kBundleShift)
        meets |= __shfl_xor_sync(0xffffffffu, cell, distance) == cell;  // no lane may skip a shuffle
    return meets;
}

template <class Op, class T>
__global__ void __launch_bounds__(32 * kLineWarps, kLineBlocks<typename Op::Acc>)
    scatter_lines_kernel(ScatterLines s, const T* updates, IdArray index, T* out, Op op, bool has_vectors) {
    using C = compute_t<T>;
    using Acc = typename Op::Acc;
    constexpr int N = kVectorLanes<T>;
    BK_LAUNCH_SHARED(uint4, scratch);
    Acc* const all = reinterpret_cast<Acc*>(scratch);
    const int cells = s.tile << s.shift;
    uint8_t* const is_met = reinterpret_cast<uint8_t*>(all + cells);
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int warps = static_cast<int>(blockDim.x) / 32;
    const unsigned bundle = blockIdx.x / s.tiles, outer = bundle / s.bundles;
    const int64_t beside = static_cast<int64_t>(bundle % s.bundles) << s.shift;
    const int begin = static_cast<int>(blockIdx.x % s.tiles) * s.tile, end = min(begin + s.tile, s.targets);
    // A lane's own line, and those that are there.
    const int line = lane & ((1 << s.shift) - 1), lines = static_cast<int>(min(int64_t{1} << s.shift, s.inner - beside));
    const LineTargets targets{begin, end, s.dropped, s.shift, line};
    updates += outer * s.updates + beside + line;
    index = index + (outer * s.index + beside + line);
    out += outer * s.out + beside + begin * s.next_out;
    for (int t = static_cast<int>(threadIdx.x); t < cells / 4; t += static_cast<int>(blockDim.x))
        reinterpret_cast<uint32_t*>(is_met)[t] = 0;
    __syncthreads();
    const int batch = kLineBatch >> s.shift;  // updates of a line
    for (int first = 0; first < s.n; first += warps * batch) {
        const int mine = first + warp * batch + (lane >> s.shift);
        const int left = line < lines ? s.n - mine : 0;
        const T* const own = updates + mine * s.next_update;
        const IdArray ids = index + mine * s.next_index;
        T x[kLineItems];
        int target[kLineItems];
#pragma unroll
        for (int u = 0; u < kLineItems; ++u)
            x[u] = load_if<1>((u * 32 >> s.shift) < left, own + (u * 32 >> s.shift) * s.next_update).lane[0];
        if (ids.is_wide)
            targets.find(static_cast<const int64_t*>(ids.ids), s.next_index, left, target);
        else
            targets.find(static_cast<const int32_t*>(ids.ids), s.next_index, left, target);
        Acc value[kLineItems];
#pragma unroll
        for (int u = 0; u < kLineItems; ++u) {
            const bool is_there = target[u] >= 0;
            value[u] = collected(op, is_there ? widen(x[u]) : C(0), is_there);
            const bool may_meet = (s.shift == 0 || meets_bundle(target[u])) && is_there;
            if (!__any_sync(0xffffffffu, may_meet)) continue;
            // Lanes without a target have keys of their own.
            if (!combine_equal(op, is_there ? target[u] : -1 - lane, is_there, &value[u])) target[u] = -1;
        }
        for (int turn = 0; turn < warps; ++turn) {
            if (turn == warp) {
#pragma unroll
                for (int u = 0; u < kLineItems; ++u) {
                    const int at = target[u];
                    if (at >= 0) {
                        const Acc before = all[at];  // of no meaning where there is none
                        all[at] = is_met[at] != 0 ? combine_collected(op, before, value[u]) : value[u];
                        is_met[at] = 1;
                    }
                    __syncwarp();
                }
            }
            __syncthreads();
        }
    }
    if (has_vectors)
        finish_targets<N>(op, s, all, is_met, (end - begin) << s.shift, lines, out);
    else
        finish_targets<1>(op, s, all, is_met, (end - begin) << s.shift, lines, out);
}

template <class Op, class T>
Status scatter_lines(const Launch& launch, const Op& op, const ScatterLines& s, const T* updates, IdArray index, T* out) {
    constexpr int N = kVectorLanes<T>;
    const bool has_vectors = is_aligned(out, sizeof(T) * N) && s.has_vectors<N>();
    const unsigned shared = static_cast<unsigned>((s.tile << s.shift) * (sizeof(typename Op::Acc) + 1));
    const int warps = std::min(kLineWarps, static_cast<int>(ceil_div(s.n, kLineBatch >> s.shift)));
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(s.blocks())), dim3(32u * warps), 1, shared},
                         scatter_lines_kernel<Op, T>, s, updates, index, out, op, has_vectors);
}

}  // namespace bk
