// Scatter along dense lines that are many and long: a block takes a line, or the updates of a line that go to one tile of its
// targets, and collects them in shared memory. Its warps load batches of updates and combine equal ones of 32 at once; then
// they add them to the tile in turns, in the order of the batches. Results are the same from launch to launch, and for any
// number of warps; out is read and written once, where there are updates.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/rows/combine_equal.cuh"
#include "core/rows/scatter_reduce.h"

namespace bk {

struct ScatterLines {
    int64_t lines;
    int n, targets, dropped;      // of a line
    int tile, tiles;              // targets of a block, blocks of a line
    int64_t updates, index, out;  // from line to line

    // The tile is whole vectors; the shared memory of a block is at most 48 KiB.
    template <class Acc>
    static constexpr int kMostTile = 49152 / static_cast<int>(sizeof(Acc) + 1) / 256 * 256;

    template <class Op>
    static ScatterLines of(const ScatterLayout& s) {
        using L = ScatterLayout;
        const Layout<3> cells = collapse(s.cells);
        const bool is_dense = cells.rank == 1 && s.step[L::kUpdates] == 1 && s.step[L::kIndex] == 1 && s.step[L::kOut] == 1 &&
                              cells.stride[L::kOut][0] >= s.targets;
        // Shorter lines leave lanes idle, fewer of them the chip; of many tiles each reads all updates of a line.
        const bool pays = is_dense && s.n >= 256 && s.n <= INT32_MAX - 4096 && s.targets <= 8 * s.n &&
                          s.targets <= 4 * kMostTile<typename Op::Acc> && cells.extent[0] >= 128;
        if (!pays) return {};
        const int targets = static_cast<int>(s.targets);
        const int tiles = static_cast<int>(ceil_div(targets, kMostTile<typename Op::Acc>));
        const int tile = static_cast<int>(ceil_div(ceil_div(targets, tiles), 256)) * 256;
        const int dropped = s.dropped >= 0 && s.dropped < s.targets ? static_cast<int>(s.dropped) : -1;
        return {cells.extent[0],
                static_cast<int>(s.n),
                targets,
                dropped,
                tile,
                tiles,
                cells.stride[L::kUpdates][0],
                cells.stride[L::kIndex][0],
                cells.stride[L::kOut][0]};
    }
    bool are_there() const { return lines > 0 && lines * tiles <= INT32_MAX; }
};

constexpr int kLineWarps = 8;  // at most
constexpr int kLineItems = 8;  // updates of a lane at once, 32 apart
constexpr int kLineBatch = 32 * kLineItems;

// Where the updates from `first` on go to in the tile; -1: nowhere. All indices are on their way before one is looked at.
template <class I>
BK_DEVICE void find_targets(const ScatterLines& s, int first_target, int first, const I* index, int (&target)[kLineItems]) {
    const int last_target = min(first_target + s.tile, s.targets);
    I found[kLineItems];
#pragma unroll
    for (int u = 0; u < kLineItems; ++u) found[u] = first + u * 32 < s.n ? index[first + u * 32] : I(-1);
#pragma unroll
    for (int u = 0; u < kLineItems; ++u) {
        const bool is_there = found[u] >= first_target && found[u] < last_target && found[u] != s.dropped;
        target[u] = is_there ? static_cast<int>(found[u]) - first_target : -1;
    }
}

// Cells of out that updates go to, `kCells` vectors a thread at once.
template <int N, class Op, class T>
BK_DEVICE void finish_targets(const Op& op, const typename Op::Acc* all, const uint8_t* is_met, int count, T* out) {
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
                if (is_met[at + lane] == 0) continue;
                any = true;
                cell[u].lane[lane] = narrow<T>(op.finish(widen(cell[u].lane[lane]), all[at + lane]));
            }
            if (any) store<N>(out + at, cell[u]);
        }
    }
}

template <class Op, class T>
__global__ void __launch_bounds__(32 * kLineWarps)
    scatter_lines_kernel(ScatterLines s, const T* updates, IdArray index, T* out, Op op, bool has_vectors) {
    using C = compute_t<T>;
    using Acc = typename Op::Acc;
    constexpr int N = kVectorLanes<T>;
    BK_LAUNCH_SHARED(uint4, scratch);
    Acc* const all = reinterpret_cast<Acc*>(scratch);
    uint8_t* const is_met = reinterpret_cast<uint8_t*>(all + s.tile);
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int warps = static_cast<int>(blockDim.x) / 32;
    const int64_t line = blockIdx.x / s.tiles;
    const int first_target = static_cast<int>(blockIdx.x % s.tiles) * s.tile;
    const int count = min(s.tile, s.targets - first_target);
    updates += line * s.updates;
    index = index + line * s.index;
    out += line * s.out + first_target;
    for (int t = static_cast<int>(threadIdx.x); t < s.tile / 4; t += static_cast<int>(blockDim.x))
        reinterpret_cast<uint32_t*>(is_met)[t] = 0;
    __syncthreads();
    for (int first = 0; first < s.n; first += warps * kLineBatch) {
        const int mine = first + warp * kLineBatch + lane;
        T x[kLineItems];
        int target[kLineItems];
#pragma unroll
        for (int u = 0; u < kLineItems; ++u)
            if (mine + u * 32 < s.n) x[u] = updates[mine + u * 32];
        if (index.is_wide)
            find_targets(s, first_target, mine, static_cast<const int64_t*>(index.ids), target);
        else
            find_targets(s, first_target, mine, static_cast<const int32_t*>(index.ids), target);
        Acc value[kLineItems];
#pragma unroll
        for (int u = 0; u < kLineItems; ++u) {
            const bool is_there = target[u] >= 0;
            value[u] = collected(op, is_there ? widen(x[u]) : C(0), is_there);
            if (!__any_sync(0xffffffffu, is_there)) continue;
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
        finish_targets<N>(op, all, is_met, count, out);
    else
        finish_targets<1>(op, all, is_met, count, out);
}

template <class Op, class T>
Status scatter_lines(const Launch& launch, const Op& op, const ScatterLines& s, const T* updates, IdArray index, T* out) {
    constexpr int N = kVectorLanes<T>;
    const bool has_vectors = is_aligned(out, sizeof(T) * N) && s.targets % N == 0 && s.out % N == 0;
    const unsigned shared = static_cast<unsigned>(s.tile * (sizeof(typename Op::Acc) + 1));
    const int warps = std::min(kLineWarps, static_cast<int>(ceil_div(s.n, kLineBatch)));
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(s.lines * s.tiles)), dim3(32u * warps), 1, shared},
                         scatter_lines_kernel<Op, T>, s, updates, index, out, op, has_vectors);
}

}  // namespace bk
