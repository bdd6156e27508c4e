// Scatter along dense lines that are many and long: a warp takes a line, or the updates of a line that go to one tile of its
// targets, and collects them in shared memory, 32 at a time, equal ones first. What it does is done in one order, so results
// are the same from launch to launch; out is read and written once, where there are updates.
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
                          s.targets <= 4 * kMostTile<typename Op::Acc> && cells.extent[0] >= 512;
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

// kItems updates a lane, 32 apart.
template <int kItems, class T>
struct LineBatch {
    T x[kItems];
    int target[kItems];  // in the tile, or -1

    BK_DEVICE void load(const ScatterLines& s, int first_target, int first, const T* updates, const IdArray& index) {
#pragma unroll
        for (int u = 0; u < kItems; ++u) {
            const int at = first + u * 32 + static_cast<int>(threadIdx.x);
            target[u] = -1;
            if (at >= s.n) continue;
            const int64_t i = index[at], within = i - first_target;
            x[u] = updates[at];
            if (within >= 0 && within < s.tile && i < s.targets && i != s.dropped) target[u] = static_cast<int>(within);
        }
    }
};

// Cells of out that updates go to, `kCells` vectors a lane at once.
template <int N, class Op, class T>
BK_DEVICE void finish_targets(const Op& op, const typename Op::Acc* all, const uint8_t* is_met, int count, T* out) {
    constexpr int kCells = N >= 8 ? 4 : 8, kStep = 32 * N;
    for (int first = static_cast<int>(threadIdx.x) * N; first < count; first += kCells * kStep) {
        Vec<T, N> cell[kCells];
#pragma unroll
        for (int u = 0; u < kCells; ++u)
            if (first + u * kStep < count) cell[u] = load<N>(out + first + u * kStep);
#pragma unroll
        for (int u = 0; u < kCells; ++u) {
            const int at = first + u * kStep;
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
__global__ void __launch_bounds__(32)
    scatter_lines_kernel(ScatterLines s, const T* updates, IdArray index, T* out, Op op, bool has_vectors) {
    using C = compute_t<T>;
    using Acc = typename Op::Acc;
    constexpr int kItems = 8, N = kVectorLanes<T>;
    BK_LAUNCH_SHARED(uint4, scratch);
    Acc* const all = reinterpret_cast<Acc*>(scratch);
    uint8_t* const is_met = reinterpret_cast<uint8_t*>(all + s.tile);
    const int lane = static_cast<int>(threadIdx.x);
    const int64_t line = blockIdx.x / s.tiles;
    const int first_target = static_cast<int>(blockIdx.x % s.tiles) * s.tile;
    const int count = min(s.tile, s.targets - first_target);
    updates += line * s.updates;
    index = index + line * s.index;
    out += line * s.out + first_target;
    for (int t = lane; t < s.tile / 4; t += 32) reinterpret_cast<uint32_t*>(is_met)[t] = 0;
    LineBatch<kItems, T> next;
    next.load(s, first_target, 0, updates, index);
    __syncwarp();
    for (int first = 0; first < s.n; first += 32 * kItems) {
        const LineBatch<kItems, T> batch = next;
        if (first + 32 * kItems < s.n) next.load(s, first_target, first + 32 * kItems, updates, index);
#pragma unroll
        for (int u = 0; u < kItems; ++u) {
            const int target = batch.target[u];
            const bool is_there = target >= 0;
            if (!__any_sync(0xffffffffu, is_there)) continue;
            Acc value = collected(op, is_there ? widen(batch.x[u]) : C(0), is_there);
            // Lanes without a target have keys of their own.
            if (combine_equal(op, is_there ? target : -1 - lane, is_there, &value)) {
                all[target] = is_met[target] ? combine_collected(op, all[target], value) : value;
                is_met[target] = 1;
            }
            __syncwarp();
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
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(s.lines * s.tiles)), dim3(32), 1, shared},
                         scatter_lines_kernel<Op, T>, s, updates, index, out, op, has_vectors);
}

}  // namespace bk
