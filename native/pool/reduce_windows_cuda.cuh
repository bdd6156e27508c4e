// SPDX-License-Identifier: Apache-2.0
// Forward pooling on GPUs. Small windows: a thread a window of a vector of channels, or tiles of dense planes
// (tiles/reduce_tiles_cuda.cuh). Threads share large windows, and lanes are a stride apart or parts of narrower vectors, in
// reduce_teams_cuda.cuh. Windows that overlap share their reads in the L1 cache, since adjacent threads have adjacent windows.
#pragma once

#include "pool/reduce_teams_cuda.cuh"
#include "pool/reduce_windows.h"
#include "pool/tiles/reduce_tiles_cuda.cuh"

namespace bk::pool {

template <class Op, class T, int V>
__global__ void __launch_bounds__(kPoolThreads)
    reduce_windows_kernel(const __grid_constant__ Problem p, const __grid_constant__ ItemGrid grid, Op op, const T* x, T* y,
                          int64_t* indices) {
    const int64_t at = int64_t{blockIdx.x} * kPoolThreads + threadIdx.x;
    if (at >= grid.items) return;
    const ItemAt<V, true> item(grid, at);
    const Window window(p, item.at);
    const LanePointers<const T, V, true> from(x, p.x, item, window.begin);
    typename Op::Lane lane[V];
#pragma unroll
    for (int v = 0; v < V; ++v) lane[v] = op.start();
    window.cells.each([&](int64_t offset, int32_t t) {
        const auto values = from.read(offset);
#pragma unroll
        for (int v = 0; v < V; ++v) op.add(lane[v], widen_lane(values, v), t);
    });
    store_windows(p, op, window, item, lane, from, y, indices);
}

template <class T, class Op>
Status launch_reduce_windows(const Launch& launch, const Problem& p, const Op& op, const T* x, T* y, int64_t* indices) {
    constexpr int V = kVectorLanes<T>;
    const int32_t extent[] = {p.axis[0].out, p.axis[1].out, p.axis[2].out};
    const ItemGrid grid = ItemGrid::of(p, extent, V, V);
    const int64_t blocks = ceil_div<int64_t>(grid.items, kPoolThreads);
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld windows are too many for one launch", (long long)grid.items);
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kPoolThreads)}, reduce_windows_kernel<Op, T, V>,
                         p, grid, op, x, y, indices);
}

template <class Op, class T>
Status reduce_windows(const Launch& launch, const Problem& p, const Op& op, const T* x, T* y, int64_t* indices) {
    constexpr int kLanes = kVectorLanes<T>;
    const int width = std::min(
        {channel_width(p, x, p.x, kLanes), channel_width(p, y, p.y, kLanes), channel_width(p, indices, p.indices, kLanes)});
    const bool is_large = p.window_cells() > kCellsAlone;
    if (is_large && width == 0) return reduce_runs(launch, p, op, x, y, indices);
    if (is_large && width == kLanes) return reduce_columns<true>(launch, p, width, op, x, y, indices);
    if (is_large) return reduce_columns<false>(launch, p, width, op, x, y, indices);
    if (width == kLanes) return launch_reduce_windows(launch, p, op, x, y, indices);
    const TileGrid tiles = tiles_of_windows<T>(p, kCellsAlone, indices != nullptr);
    if (tiles.is_possible()) return launch_reduce_tiles(launch, p, tiles, op, x, y, indices);
    return reduce_columns<false>(launch, width > 0 ? p : with_merged_planes(p), width, op, x, y, indices);
}

}  // namespace bk::pool
