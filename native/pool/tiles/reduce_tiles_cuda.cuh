// SPDX-License-Identifier: Apache-2.0
// Forward pooling of dense planes on a GPU: the cells of a tile's windows are staged, then a thread has a window at a time.
#pragma once

#include "pool/operators.h"
#include "pool/tiles/tiles_cuda.cuh"

namespace bk::pool {

template <class Op, class T>
__global__ void __launch_bounds__(kTileThreads)
    reduce_tiles_kernel(const __grid_constant__ Problem p, const __grid_constant__ TileGrid grid, Op op, const T* x, T* y,
                        int64_t* indices) {
    using C = typename Op::C;
    BK_LAUNCH_SHARED(uint4, pool_shared);
    const Tile tile(grid, blockIdx.x);
    Box halo;
#pragma unroll
    for (int d = 0; d < kAxes; ++d)
        halo.of[d] = grid.rows == 0 || d == 2 ? TileRange{0, p.axis[d].in} : cells_of(p.axis[d], tile.box.of[d]);
    const T* const cells = stage_box(reinterpret_cast<T*>(pool_shared), x, tile.plane, tile.planes, halo, p.axis[0].in,
                                     p.axis[1].in, p.axis[2].in);
    __syncthreads();
    const bool is_narrow = p.axis[2].kernel <= kMostNarrow;
    const int32_t row = p.axis[2].in, slab = halo.of[1].size() * row;
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < tile.items; i += kTileThreads) {
        const TileItem item(grid, tile, i);
        const Taps ta = p.axis[0].taps(item.a), tb = p.axis[1].taps(item.b), tc = p.axis[2].taps(item.c);
        const T* const first = cells + halo.at(item.plane, ta.first, tb.first, tc.first);
        const auto each = [&](const auto& use) {
            int32_t t = 0;
            for (int32_t a = 0; a < ta.count; ++a)
                for (int32_t b = 0; b < tb.count; ++b) {
                    const T* const from = first + a * slab + b * row;
                    each_of_row(is_narrow, tc.count, [&](int32_t c) { use(widen(from[c]), t + c); });
                    t += tc.count;
                }
        };
        typename Op::Lane lane = op.start();
        each([&](C value, int32_t t) { op.add(lane, value, t); });
        int64_t divisor = 1;
        if constexpr (std::is_same_v<Op, AverageOp<T>>) divisor = op.divisor.of(ta, tb, tc);
        C value = op.finish(lane, divisor);
        if (op.is_lost(lane)) value = op.recover([&](const auto& use) { each([&](C cell, int32_t) { use(cell); }); }, divisor);
        y[tile.begin + i] = narrow<T>(value);
        if constexpr (Op::kHasPosition) {
            if (indices == nullptr) continue;
            const bool has_cells = ta.count > 0 && tb.count > 0 && tc.count > 0;
            const int32_t t = max(lane.at, 0), c = has_cells ? t / tc.count : 0, b = has_cells ? c / tb.count : 0;
            const int64_t at = p.cell_number(ta.first + b, tb.first + (c - b * tb.count), tc.first + (t - c * tc.count));
            indices[tile.begin + i] = has_cells ? at : -1;
        }
    }
}

// Cells of at most this many windows along an axis, of n of its windows one behind the other.
inline int64_t most_cells(const Axis& axis, int64_t n) {
    if (n >= axis.out) return axis.in;
    const int64_t most = axis.is_adaptive ? ceil_div<int64_t>(n * axis.in, axis.out) + 1 : (n - 1) * axis.step + axis.kernel;
    return std::min<int64_t>(most, axis.in);
}

// Windows that meet n adjacent cells of an axis, at most.
inline int64_t most_windows(const Axis& axis, int64_t n) {
    if (n >= axis.in) return axis.out;
    const int64_t most =
        axis.is_adaptive ? ceil_div<int64_t>(n * axis.out, axis.in) + 1 : ceil_div<int64_t>(n + axis.kernel - 1, axis.step);
    return std::min<int64_t>(most, axis.out);
}

inline bool is_dilated(const Problem& p) {
    for (const Axis& axis : p.axis)
        if (axis.dilation != 1 && axis.kernel > 1) return true;
    return false;
}

// The tiles of a forward pass, impossible ones if planes are not dense, and for large windows, which threads share.
template <class T>
TileGrid tiles_of_windows(const Problem& p, int64_t most_window, bool has_indices) {
    const bool is_dense =
        has_dense_cells(p, p.x) && has_dense_windows(p, p.y) && (!has_indices || has_dense_windows(p, p.indices));
    if (!is_dense || is_dilated(p) || p.window_cells() > most_window) return {};
    const int32_t extent[] = {p.axis[0].out, p.axis[1].out, p.axis[2].out};
    return TileGrid::of(p.planes(), extent, [&](int64_t planes, int32_t slabs, int32_t rows) {
        const int64_t cells = planes * most_cells(p.axis[0], slabs) * most_cells(p.axis[1], rows) * p.axis[2].in;
        return cells * static_cast<int64_t>(sizeof(T)) + kVectorBytes;
    });
}

template <class Op, class T>
Status launch_reduce_tiles(const Launch& launch, const Problem& p, const TileGrid& grid, const Op& op, const T* x, T* y,
                           int64_t* indices) {
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(grid.blocks)), dim3(kTileThreads), 1, grid.bytes},
                         reduce_tiles_kernel<Op, T>, p, grid, op, x, y, indices);
}

}  // namespace bk::pool
