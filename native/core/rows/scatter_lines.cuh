// Scatter along lines that are many and long, and dense: a block takes a line, or the updates of it that go to one tile
// of its targets, and collects them in shared memory. Its warps load batches of updates and combine equal ones of 32 at
// once, where there are any; then they add them to the tile in turns, in the order of the batches. Results are the same
// from launch to launch, and for any number of warps; out is read and written once, where there are updates. Lines side
// by side are scatter_columns.cuh's.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/rows/combine_equal.cuh"
#include "core/rows/scatter_reduce.h"

namespace bk {

constexpr int kLineWarps = 8;  // at most

struct ScatterLines {
    int64_t outer;                // lines
    int n, targets, dropped;      // of a line
    int tile, tiles;              // targets of a block, blocks of a line
    int64_t updates, index, out;  // from line to line

    // The tile is whole vectors; the shared memory of a block is at most 48 KiB.
    template <class Acc>
    static constexpr int kMostCells =
        (49152 - kLineWarps * static_cast<int>(sizeof(MeetingPlaces))) / static_cast<int>(sizeof(Acc)) / 256 * 256;

    template <class Op>
    static ScatterLines of(const ScatterLayout& s) {
        using L = ScatterLayout;
        const Layout<3> cells = collapse(s.cells);
        const bool is_dense = s.step[L::kUpdates] == 1 && s.step[L::kIndex] == 1 && s.step[L::kOut] == 1;
        if (cells.rank != 1 || !is_dense || cells.stride[L::kOut][0] < s.targets) return {};
        ScatterLines lines{};
        lines.outer = cells.extent[0];
        const int64_t tiles = ceil_div<int64_t>(s.targets, kMostCells<typename Op::Acc>);
        // Shorter lines leave threads idle, fewer of them the chip; of many tiles each reads all updates of a line.
        const bool pays = s.n >= 256 && s.n <= INT32_MAX - 4096 && s.targets <= 8 * s.n && tiles <= 4 && lines.outer >= 128;
        if (!pays || lines.outer * tiles > INT32_MAX) return {};
        lines.n = static_cast<int>(s.n);
        lines.targets = static_cast<int>(s.targets);
        lines.dropped = s.dropped >= 0 && s.dropped < s.targets ? static_cast<int>(s.dropped) : -1;
        lines.tiles = static_cast<int>(tiles);
        lines.tile = static_cast<int>(ceil_div<int64_t>(ceil_div(s.targets, tiles), 256)) * 256;
        lines.updates = cells.stride[L::kUpdates][0];
        lines.index = cells.stride[L::kIndex][0];
        lines.out = cells.stride[L::kOut][0];
        return lines;
    }
    bool are_there() const { return tiles > 0; }
    int64_t blocks() const { return outer * tiles; }
    // Whether N neighbouring cells are whole vectors of a line.
    template <int N>
    bool has_vectors() const {
        return out % N == 0 && targets % N == 0;
    }
};

constexpr int kLineItems = 8;  // updates of a lane at once, 32 apart
constexpr int kLineBatch = 32 * kLineItems;
// Blocks that share the registers of a multiprocessor.
template <class Acc>
constexpr int kLineBlocks = 6 - static_cast<int>(sizeof(Acc)) / 4;

// The cells of a tile, of targets from `begin` to `end`, that updates go to. find() looks at a lane's updates, 32
// apart, of which `left` are to come: -1 is none of the tile's. All indices are on their way before one is looked at.
struct LineTargets {
    int begin, end, dropped;

    template <class I>
    BK_DEVICE void find(const I* index, int left, int (&cell)[kLineItems]) const {
        I found[kLineItems];
#pragma unroll
        for (int u = 0; u < kLineItems; ++u) found[u] = u * 32 < left ? index[u * 32] : I(-1);
#pragma unroll
        for (int u = 0; u < kLineItems; ++u) {
            const bool is_there = found[u] >= begin && found[u] < end && found[u] != dropped;
            cell[u] = is_there ? static_cast<int>(found[u]) - begin : -1;
        }
    }
};

// Cells of out that updates go to, `kCells` vectors a thread at once.
template <int N, class Op, class T>
BK_DEVICE void finish_targets(const Op& op, const typename Op::Acc* all, int count, T* out) {
    constexpr int kCells = N >= 8 ? 2 : 4;
    const int step = static_cast<int>(blockDim.x) * N;
    for (int first = static_cast<int>(threadIdx.x) * N; first < count; first += kCells * step) {
        Vec<T, N> cell[kCells];
#pragma unroll
        for (int u = 0; u < kCells; ++u)
            if (first + u * step < count) cell[u] = load<N>(out + first + u * step);
#pragma unroll
        for (int u = 0; u < kCells; ++u) {
            const int at = first + u * step;
            if (at >= count) continue;
            bool any = false;
#pragma unroll
            for (int lane = 0; lane < N; ++lane) {
                if (!has_updates(op, all[at + lane])) continue;
                any = true;
                cell[u].lane[lane] = narrow<T>(op.finish(widen(cell[u].lane[lane]), all[at + lane]));
            }
            if (any) store<N>(out + at, cell[u]);
        }
    }
}

template <class Op, class T>
__global__ void __launch_bounds__(32 * kLineWarps, kLineBlocks<typename Op::Acc>)
    scatter_lines_kernel(ScatterLines s, const T* updates, IdArray index, T* out, Op op, bool has_vectors) {
    using C = compute_t<T>;
    using Acc = typename Op::Acc;
    constexpr int N = kVectorLanes<T>;
    BK_LAUNCH_SHARED(uint4, scratch);
    Acc* const all = reinterpret_cast<Acc*>(scratch);
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int warps = static_cast<int>(blockDim.x) / 32;
    MeetingPlaces* const places = reinterpret_cast<MeetingPlaces*>(all + s.tile) + warp;
    const unsigned line = blockIdx.x / s.tiles;
    const int begin = static_cast<int>(blockIdx.x % s.tiles) * s.tile, end = min(begin + s.tile, s.targets);
    const LineTargets targets{begin, end, s.dropped};
    updates += line * s.updates;
    index = index + line * s.index;
    out += line * s.out + begin;
    const Acc nothing = collected(op, static_cast<C>(op.identity()), false);
    for (int t = static_cast<int>(threadIdx.x); t < s.tile; t += static_cast<int>(blockDim.x)) all[t] = nothing;
    places->clear();
    __syncthreads();
    for (int first = 0; first < s.n; first += warps * kLineBatch) {
        const int mine = first + warp * kLineBatch + lane, left = s.n - mine;
        const IdArray ids = index + mine;
        T x[kLineItems];
        int target[kLineItems];
#pragma unroll
        for (int u = 0; u < kLineItems; ++u) x[u] = load_if<1>(u * 32 < left, updates + mine + u * 32).lane[0];
        if (ids.is_wide)
            targets.find(static_cast<const int64_t*>(ids.ids), left, target);
        else
            targets.find(static_cast<const int32_t*>(ids.ids), left, target);
        Acc value[kLineItems];
        bool may_meet[kLineItems];
#pragma unroll
        for (int u = 0; u < kLineItems; ++u) may_meet[u] = places->may_meet(static_cast<uint32_t>(target[u]), target[u] >= 0);
#pragma unroll
        for (int u = 0; u < kLineItems; ++u) {
            const bool is_there = target[u] >= 0;
            value[u] = collected(op, is_there ? widen(x[u]) : C(0), is_there);
            if (!combine_met(op, target[u], is_there, may_meet[u], nothing, &value[u])) target[u] = -1;
        }
        for (int turn = 0; turn < warps; ++turn) {
            if (turn == warp) {
#pragma unroll
                for (int u = 0; u < kLineItems; ++u) {
                    const int at = target[u];
                    if (at >= 0) all[at] = combine_collected(op, all[at], value[u]);
                    __syncwarp();
                }
            }
            __syncthreads();
        }
    }
    if (has_vectors)
        finish_targets<N>(op, all, end - begin, out);
    else
        finish_targets<1>(op, all, end - begin, out);
}

template <class Op, class T>
Status scatter_lines(const Launch& launch, const Op& op, const ScatterLines& s, const T* updates, IdArray index, T* out) {
    constexpr int N = kVectorLanes<T>;
    const bool has_vectors = is_aligned(out, sizeof(T) * N) && s.has_vectors<N>();
    const int warps = std::min(kLineWarps, static_cast<int>(ceil_div(s.n, kLineBatch)));
    const unsigned shared = static_cast<unsigned>(s.tile * sizeof(typename Op::Acc) + warps * sizeof(MeetingPlaces));
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(s.blocks())), dim3(32u * warps), 1, shared},
                         scatter_lines_kernel<Op, T>, s, updates, index, out, op, has_vectors);
}

}  // namespace bk
