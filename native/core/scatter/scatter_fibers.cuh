// SPDX-License-Identifier: Apache-2.0
// Scatter over many long dense fibers: a block takes a fiber, or its updates for one tile of targets, and accumulates
// them in shared memory. Its warps load batches of updates and combine equal targets among 32 at once; then the warps
// add them to the tile one after another, in batch order. Results are bitwise reproducible for any number of warps; out
// is read and written once, if it has updates. core/scatter/scatter_columns.cuh does the same for adjacent fibers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/scatter/combine_duplicates.cuh"
#include "core/scatter/scatter_reduce.h"

namespace bk {

constexpr int kFiberWarps = 8;

struct ScatterFibers {
    int64_t outer;                // fibers
    int n, targets, dropped;      // per fiber
    int tile, tiles;              // targets of a block, blocks of a fiber
    int64_t updates, index, out;  // strides between fibers

    // A tile is a multiple of 256 targets; a block's shared memory is at most 48 KiB.
    template <class Acc>
    static constexpr int kMaxTileTargets =
        (49152 - kFiberWarps * static_cast<int>(sizeof(DuplicateFilter))) / static_cast<int>(sizeof(Acc)) / 256 * 256;

    template <class Op>
    static ScatterFibers of(const ScatterLayout& s) {
        using L = ScatterLayout;
        const Layout<3> cells = collapse(s.cells);
        const bool is_dense = s.step[L::kUpdates] == 1 && s.step[L::kIndex] == 1 && s.step[L::kOut] == 1;
        if (cells.rank != 1 || !is_dense || cells.stride[L::kOut][0] < s.targets) return {};
        ScatterFibers plan{};
        plan.outer = cells.extent[0];
        const int64_t tiles = ceil_div<int64_t>(s.targets, kMaxTileTargets<typename Op::Acc>);
        // Shorter fibers leave threads idle and fewer leave SMs idle; each tile reads all updates of its fiber.
        const bool pays = s.n >= 256 && s.n <= INT32_MAX - 4096 && s.targets <= 8 * s.n && tiles <= 4 && plan.outer >= 128;
        if (!pays || plan.outer * tiles > INT32_MAX) return {};
        plan.n = static_cast<int>(s.n);
        plan.targets = static_cast<int>(s.targets);
        plan.dropped = s.dropped >= 0 && s.dropped < s.targets ? static_cast<int>(s.dropped) : -1;
        plan.tiles = static_cast<int>(tiles);
        plan.tile = static_cast<int>(ceil_div<int64_t>(ceil_div(s.targets, tiles), 256)) * 256;
        plan.updates = cells.stride[L::kUpdates][0];
        plan.index = cells.stride[L::kIndex][0];
        plan.out = cells.stride[L::kOut][0];
        return plan;
    }
    bool applies() const { return tiles > 0; }
    int64_t blocks() const { return outer * tiles; }
    // Whether every N adjacent cells of a fiber form a vector of out.
    template <int N>
    bool has_vectors() const {
        return out % N == 0 && targets % N == 0;
    }
};

constexpr int kFiberItems = 8;  // updates per lane, 32 apart
constexpr int kFiberBatch = 32 * kFiberItems;
// Minimum resident blocks per SM for __launch_bounds__.
template <class Acc>
constexpr int kFiberMinBlocks = 6 - static_cast<int>(sizeof(Acc)) / 4;

// Maps indices to cells of the tile [begin, end). find() looks at a lane's updates, 32 apart, with `remaining` left in
// the fiber; -1 is none of the tile's. All index loads are in flight before the first is used.
struct TileTargets {
    int begin, end, dropped;

    template <class I>
    BK_DEVICE void find(const I* index, int remaining, int (&cell)[kFiberItems]) const {
        I indices[kFiberItems];
#pragma unroll
        for (int u = 0; u < kFiberItems; ++u) indices[u] = u * 32 < remaining ? index[u * 32] : I(-1);
#pragma unroll
        for (int u = 0; u < kFiberItems; ++u) {
            const bool is_valid = indices[u] >= begin && indices[u] < end && indices[u] != dropped;
            cell[u] = is_valid ? static_cast<int>(indices[u]) - begin : -1;
        }
    }
};

// Writes the cells of out that have updates, kCells vectors a thread at once.
template <int N, class Op, class T>
BK_DEVICE void finish_targets(const Op& op, const typename Op::Acc* accumulators, int count, T* out) {
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
                if (!has_updates(op, accumulators[at + lane])) continue;
                any = true;
                cell[u].lane[lane] = narrow<T>(op.finish(widen(cell[u].lane[lane]), accumulators[at + lane]));
            }
            if (any) store<N>(out + at, cell[u]);
        }
    }
}

template <class Op, class T>
__global__ void __launch_bounds__(32 * kFiberWarps, kFiberMinBlocks<typename Op::Acc>)
    scatter_fibers_kernel(ScatterFibers s, const T* updates, IdArray index, T* out, Op op, bool has_vectors) {
    using C = compute_t<T>;
    using Acc = typename Op::Acc;
    constexpr int N = kVectorLanes<T>;
    BK_LAUNCH_SHARED(uint4, scratch);
    Acc* const accumulators = reinterpret_cast<Acc*>(scratch);
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int warps = static_cast<int>(blockDim.x) / 32;
    DuplicateFilter* const filter = reinterpret_cast<DuplicateFilter*>(accumulators + s.tile) + warp;
    const unsigned fiber = blockIdx.x / s.tiles;
    const int begin = static_cast<int>(blockIdx.x % s.tiles) * s.tile, end = min(begin + s.tile, s.targets);
    const TileTargets targets{begin, end, s.dropped};
    updates += fiber * s.updates;
    index = index + fiber * s.index;
    out += fiber * s.out + begin;
    const Acc identity = to_accumulator(op, static_cast<C>(op.identity()), false);
    for (int t = static_cast<int>(threadIdx.x); t < s.tile; t += static_cast<int>(blockDim.x)) accumulators[t] = identity;
    filter->clear();
    __syncthreads();
    for (int first = 0; first < s.n; first += warps * kFiberBatch) {
        const int first_update = first + warp * kFiberBatch + lane, remaining = s.n - first_update;
        const IdArray ids = index + first_update;
        T x[kFiberItems];
        int target[kFiberItems];
#pragma unroll
        for (int u = 0; u < kFiberItems; ++u) x[u] = load_if<1>(u * 32 < remaining, updates + first_update + u * 32).lane[0];
        if (ids.is_wide)
            targets.find(static_cast<const int64_t*>(ids.ids), remaining, target);
        else
            targets.find(static_cast<const int32_t*>(ids.ids), remaining, target);
        Acc value[kFiberItems];
        bool may_repeat[kFiberItems];
#pragma unroll
        for (int u = 0; u < kFiberItems; ++u)
            may_repeat[u] = filter->may_repeat(static_cast<uint32_t>(target[u]), target[u] >= 0);
#pragma unroll
        for (int u = 0; u < kFiberItems; ++u) {
            const bool is_valid = target[u] >= 0;
            value[u] = to_accumulator(op, is_valid ? widen(x[u]) : C(0), is_valid);
            if (!combine_repeated(op, target[u], is_valid, may_repeat[u], identity, &value[u])) target[u] = -1;
        }
        for (int active_warp = 0; active_warp < warps; ++active_warp) {
            if (active_warp == warp) {
#pragma unroll
                for (int u = 0; u < kFiberItems; ++u) {
                    const int at = target[u];
                    if (at >= 0) accumulators[at] = combine_accumulators(op, accumulators[at], value[u]);
                    __syncwarp();
                }
            }
            __syncthreads();
        }
    }
    if (has_vectors)
        finish_targets<N>(op, accumulators, end - begin, out);
    else
        finish_targets<1>(op, accumulators, end - begin, out);
}

template <class Op, class T>
Status scatter_fibers(const Launch& launch, const Op& op, const ScatterFibers& s, const T* updates, IdArray index, T* out) {
    constexpr int N = kVectorLanes<T>;
    const bool has_vectors = is_aligned(out, sizeof(T) * N) && s.has_vectors<N>();
    const int warps = std::min(kFiberWarps, static_cast<int>(ceil_div(s.n, kFiberBatch)));
    const unsigned shared = static_cast<unsigned>(s.tile * sizeof(typename Op::Acc) + warps * sizeof(DuplicateFilter));
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(s.blocks())), dim3(32u * warps), 1, shared},
                         scatter_fibers_kernel<Op, T>, s, updates, index, out, op, has_vectors);
}

}  // namespace bk
