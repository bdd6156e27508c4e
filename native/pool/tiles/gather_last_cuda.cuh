// SPDX-License-Identifier: Apache-2.0
// Gradient of max pooling, channels last, on a GPU. A block has a tile of cells in some vectors of channels; it first finds the
// greatest cell of each window that meets the tile, once, then a thread gathers for a vector of a cell at a time.
#pragma once

#include <algorithm>

#include "pool/gather_windows.h"
#include "pool/tiles/reduce_tiles_cuda.cuh"

namespace bk::pool {

constexpr int32_t kTileSide = 16;    // cells along the last two axes
constexpr int32_t kTileVectors = 8;  // of channels: 128 bytes
constexpr int64_t kMostTaps = 255;   // cells of a window, numbered in a byte
constexpr uint8_t kNoTap = 255;

struct LastTiles {
    int32_t rows = 1, columns = 1, vectors = 1;           // of a tile
    int32_t row_tiles = 1, column_tiles = 1, chunks = 1;  // tiles along these axes
    int32_t all_vectors = 0;
    FastDiv<uint32_t> by_vectors, by_columns;
    int64_t blocks = 0;
    unsigned bytes = 0;  // of shared memory

    static LastTiles of(const Problem& p, int lanes) {
        LastTiles tiles;
        for (const Axis& axis : p.axis)
            if (axis.is_adaptive) return tiles;
        if (is_dilated(p) || p.window_cells() > kMostTaps || p.channels / lanes > INT32_MAX) return tiles;
        tiles.all_vectors = static_cast<int32_t>(p.channels / lanes);
        const auto split = [](int32_t extent, int32_t most, int32_t* count) {
            *count = ceil_div(extent, most);
            return ceil_div(extent, *count);
        };
        tiles.rows = split(p.axis[1].in, kTileSide, &tiles.row_tiles);
        tiles.columns = split(p.axis[2].in, kTileSide, &tiles.column_tiles);
        tiles.vectors = split(tiles.all_vectors, kTileVectors, &tiles.chunks);
        const int64_t windows =
            most_windows(p.axis[0], 1) * most_windows(p.axis[1], tiles.rows) * most_windows(p.axis[2], tiles.columns);
        const int64_t bytes = windows * tiles.vectors * lanes;
        // Otherwise the tile has far more windows than cells.
        if (windows > 2 * tiles.rows * tiles.columns || bytes > kTileBytes) return tiles;
        tiles.bytes = static_cast<unsigned>(bytes);
        tiles.by_vectors = FastDiv<uint32_t>(tiles.vectors), tiles.by_columns = FastDiv<uint32_t>(tiles.columns);
        tiles.blocks = p.batch * p.axis[0].in * tiles.row_tiles * tiles.column_tiles * tiles.chunks;
        return tiles;
    }
    bool is_possible() const { return blocks > 0 && blocks <= kMaxGridX; }
};

template <class T, int V>
__global__ void __launch_bounds__(kTileThreads)
    gather_last_kernel(const __grid_constant__ Problem p, const __grid_constant__ LastTiles tiles, const T* x, const T* y,
                       const T* dy, T* dx) {
    using C = compute_t<T>;
    using Taken = Vec<uint8_t, V>;
    BK_LAUNCH_SHARED(uint4, pool_shared);
    Taken* const taken = reinterpret_cast<Taken*>(pool_shared);
    uint32_t rest = blockIdx.x;
    const auto next = [&](int32_t extent) {
        const uint32_t before = rest;
        rest /= static_cast<uint32_t>(extent);
        return static_cast<int32_t>(before - rest * static_cast<uint32_t>(extent));
    };
    const int32_t chunk = next(tiles.chunks), column_tile = next(tiles.column_tiles), row_tile = next(tiles.row_tiles),
                  a = next(p.axis[0].in);
    const int64_t n = rest;
    const auto range = [](int32_t begin, int32_t size, int32_t end) { return TileRange{begin, min(begin + size, end)}; };
    const TileRange cells[kAxes] = {{a, a + 1},
                                    range(row_tile * tiles.rows, tiles.rows, p.axis[1].in),
                                    range(column_tile * tiles.columns, tiles.columns, p.axis[2].in)};
    TileRange windows[kAxes];
#pragma unroll
    for (int d = 0; d < kAxes; ++d) windows[d] = windows_of(p.axis[d], cells[d]);
    const int32_t vector = chunk * tiles.vectors, rows = windows[1].size(), columns = windows[2].size();
    const int32_t kernel_b = p.axis[1].kernel, kernel_c = p.axis[2].kernel;
    const int thread = static_cast<int>(threadIdx.x);

    const int32_t searches = windows[0].size() * rows * columns * tiles.vectors;
    for (int32_t i = thread; i < searches; i += kTileThreads) {
        const auto split = tiles.by_vectors(static_cast<uint32_t>(i));
        const int32_t own = vector + static_cast<int32_t>(split.remainder), window = static_cast<int32_t>(split.quotient);
        if (own >= tiles.all_vectors) continue;
        const int32_t flat_row = window / columns, slab = flat_row / rows;
        const int32_t o[kAxes] = {windows[0].begin + slab, windows[1].begin + flat_row - slab * rows,
                                  windows[2].begin + window - flat_row * columns};
        const Taps ta = p.axis[0].taps(o[0]), tb = p.axis[1].taps(o[1]), tc = p.axis[2].taps(o[2]);
        const auto wanted = bk::load<V>(y + p.y.plane(n, int64_t{own} * V) + p.y.at(o[0], o[1], o[2]));
        const T* const first = x + p.x.plane(n, int64_t{own} * V) + p.x.at(ta.first, tb.first, tc.first);
        const auto skipped = [&](int d, const Taps& taps) { return taps.first - (o[d] * p.axis[d].step - p.axis[d].pad_low); };
        const int32_t begin = (skipped(0, ta) * kernel_b + skipped(1, tb)) * kernel_c + skipped(2, tc);
        int32_t found[V];
#pragma unroll
        for (int v = 0; v < V; ++v) found[v] = kNoTap;
        for (int32_t u = 0; u < ta.count; ++u)
            for (int32_t s = 0; s < tb.count; ++s) {
                const T* const row = first + u * p.x.axis[0] + s * p.x.axis[1];
                const int32_t number = begin + (u * kernel_b + s) * kernel_c;
                each_of_row(kernel_c <= kMostNarrow, tc.count, [&](int32_t c) {
                    const auto cell = bk::load<V>(row + c * p.x.axis[2]);
#pragma unroll
                    for (int v = 0; v < V; ++v) {
                        const bool is_first = (found[v] == kNoTap) & equals(widen_lane(cell, v), widen_lane(wanted, v));
                        found[v] = is_first ? number + c : found[v];
                    }
                });
            }
        Taken bytes;
#pragma unroll
        for (int v = 0; v < V; ++v) bytes.lane[v] = static_cast<uint8_t>(found[v]);
        taken[i] = bytes;
    }
    __syncthreads();

    const int32_t items = cells[1].size() * tiles.columns * tiles.vectors;
    const Cover ca = p.axis[0].cover(a);
    for (int32_t i = thread; i < items; i += kTileThreads) {
        const auto split = tiles.by_vectors(static_cast<uint32_t>(i));
        const auto at = tiles.by_columns(split.quotient);
        const int32_t own = vector + static_cast<int32_t>(split.remainder);
        const int32_t b = cells[1].begin + static_cast<int32_t>(at.quotient),
                      c = cells[2].begin + static_cast<int32_t>(at.remainder);
        if (own >= tiles.all_vectors || c >= cells[2].end) continue;
        const Cover cb = p.axis[1].cover(b), cc = p.axis[2].cover(c);
        const T* const gradients = dy + p.dy.plane(n, int64_t{own} * V);
        C sum[V] = {};
        for (int32_t u = ca.low; u <= ca.high; ++u)
            for (int32_t s = cb.low; s <= cb.high; ++s) {
                const int32_t tap_a = a + p.axis[0].pad_low - u * p.axis[0].step,
                              tap_b = b + p.axis[1].pad_low - s * p.axis[1].step;
                const int32_t flat_row = ((u - windows[0].begin) * rows + s - windows[1].begin) * columns - windows[2].begin;
                for (int32_t w = cc.low; w <= cc.high; ++w) {
                    const int32_t tap = (tap_a * kernel_b + tap_b) * kernel_c + c + p.axis[2].pad_low - w * p.axis[2].step;
                    const Taken bytes = taken[(flat_row + w) * tiles.vectors + static_cast<int32_t>(split.remainder)];
                    bool any = false;
#pragma unroll
                    for (int v = 0; v < V; ++v) any = any || bytes.lane[v] == tap;
                    if (!any) continue;
                    const auto gradient = bk::load<V>(gradients + p.dy.at(u, s, w));
#pragma unroll
                    for (int v = 0; v < V; ++v) sum[v] += bytes.lane[v] == tap ? widen_lane(gradient, v) : C(0);
                }
            }
        Vec<T, V> result;
#pragma unroll
        for (int v = 0; v < V; ++v) result.lane[v] = narrow<T>(sum[v]);
        bk::store(dx + p.dx.plane(n, int64_t{own} * V) + p.dx.at(a, b, c), result);
    }
}

template <int V, class T>
Status launch_gather_last(const Launch& launch, const Problem& p, const LastTiles& tiles, const GradientArrays<T>& arrays) {
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(tiles.blocks)), dim3(kTileThreads), 1, tiles.bytes},
                         gather_last_kernel<T, V>, p, tiles, arrays.x, arrays.y, arrays.dy, arrays.dx);
}

}  // namespace bk::pool
