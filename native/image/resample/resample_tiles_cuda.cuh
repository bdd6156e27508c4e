// SPDX-License-Identifier: Apache-2.0
// Linear and cubic interpolation of planes on a GPU, and its adjoint. A block has a tile of positions in some planes: it
// computes the windows and weights of the tile's columns and rows once, into shared memory. Then a thread has a position in
// several planes, which share the products of its weights. A column is one of x, or, channels last, of x and a channel.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch_cuda.h"
#include "image/resample/window_sum.h"

namespace bk::image {

constexpr int32_t kTileColumns = 64, kTileRows = 16, kTileEntries = kTileColumns + kTileRows;
constexpr int32_t kLeastTileRows = 4;
constexpr int32_t kMostWeights = 16;  // of an entry
constexpr int64_t kFewTiles = 512, kManyTiles = 2048;

struct ResampleTiles {
    struct Side {
        int64_t plane, y, x, inner;  // strides
    };
    Side from, to;
    SampleAxis axis[3];
    FastDiv<uint32_t> by_inner, by_columns, by_positions;
    int32_t columns = 0, rows = 0;  // of a plane
    int32_t tile_columns = 1, tile_rows = 1, tiles_x = 1, tiles_y = 1;
    int32_t lanes = kItemLanes, groups = 0, block_groups = 1;  // groups of planes, of lanes each
    int64_t planes = 0, blocks = 0;
    bool is_adjoint = false, accumulates = false;

    static bool has_weights(const SampleAxis& axis) {
        return axis.mode == ResampleMode::kLinear || axis.mode == ResampleMode::kCubic;
    }
    // Whether kMostWeights suffice: columns inside have the outputs nearer than the reach, those of the edges also all beyond.
    static bool fits(const SampleAxis& axis, bool is_adjoint) {
        if (!has_weights(axis)) return axis.in == 1 && axis.out == 1;
        if (!is_adjoint) return true;
        const double reach = axis.mode == ResampleMode::kCubic ? 2 : 1;
        if (!(2 * reach * axis.inverse <= kMostWeights - 1)) return false;
        const Window first = axis.column(0), last = axis.column(axis.in - 1);
        return std::max(first.end - first.first, last.end - last.first) <= kMostWeights;
    }
    // No blocks if the problem is none of planes.
    static ResampleTiles of(const SampleAxes& axes, bool is_adjoint, bool accumulates, const ImageLayout& x,
                            const ImageLayout& y) {
        ResampleTiles tiles;
        const int64_t (&e)[5] = y.extent;
        const bool is_last = y.is_channels_last();
        const auto are_planes = [&](const ImageLayout& each) {
            return each.extent[2] == 1 && (is_last || e[0] == 1 || e[1] == 1 || each.stride[0] == e[1] * each.stride[1]);
        };
        if (!has_weights(axes.of[2]) || !are_planes(x) || !are_planes(y)) return tiles;
        const int64_t inner = is_last ? e[1] : 1, columns = e[4] * inner, rows = e[3];
        if (columns > INT32_MAX || rows > INT32_MAX || y.elements() == 0) return tiles;
        if (!fits(axes.of[1], is_adjoint) || !fits(axes.of[2], is_adjoint)) return tiles;
        tiles.planes = is_last ? e[0] : e[0] * e[1];
        const auto side = [&](const ImageLayout& each) {
            return Side{is_last || e[1] == 1 ? each.stride[0] : each.stride[1], each.stride[3], each.stride[4],
                        is_last ? each.stride[1] : 0};
        };
        tiles.from = side(x), tiles.to = side(y);
        std::copy(axes.of, axes.of + 3, tiles.axis);
        tiles.is_adjoint = is_adjoint, tiles.accumulates = accumulates;
        tiles.columns = static_cast<int32_t>(columns), tiles.rows = static_cast<int32_t>(rows);
        tiles.by_inner = FastDiv<uint32_t>(inner);
        while (tiles.lanes > 1 && ceil_div<int64_t>(tiles.planes, tiles.lanes) * columns * rows < kFewestItems)
            tiles.lanes /= 2;
        const int64_t groups = ceil_div<int64_t>(tiles.planes, tiles.lanes);
        if (groups > INT32_MAX) return {};
        tiles.groups = static_cast<int32_t>(groups);
        tiles.tiles_x = ceil_div(tiles.columns, kTileColumns);
        tiles.tile_columns = ceil_div(tiles.columns, tiles.tiles_x);
        for (int32_t most = kTileRows; most >= kLeastTileRows; most /= 2) {
            tiles.tiles_y = ceil_div(tiles.rows, most);
            tiles.tile_rows = ceil_div(tiles.rows, tiles.tiles_y);
            if (tiles.all() * groups >= kFewTiles) break;
        }
        const int64_t positions = int64_t{tiles.tile_columns} * tiles.tile_rows;
        // A block of few positions has several groups, for its threads.
        const int64_t wanted = std::max(tiles.all() * groups / kManyTiles, int64_t{kItemThreads} / positions);
        const int64_t most = std::max<int64_t>(1, tiles.all() * groups / kFewTiles);
        tiles.block_groups = static_cast<int32_t>(std::min(std::max<int64_t>(1, std::min(wanted, most)), groups));
        tiles.block_groups = std::min(tiles.block_groups, 1 << 16);
        tiles.by_columns = FastDiv<uint32_t>(tiles.tile_columns);
        tiles.by_positions = FastDiv<uint32_t>(positions);
        tiles.blocks = tiles.all() * ceil_div<int64_t>(groups, tiles.block_groups);
        return tiles;
    }
    int64_t all() const { return int64_t{tiles_x} * tiles_y; }
    bool is_possible() const { return blocks > 0 && blocks <= kMaxGridX; }

    BK_HD Window window(int d, int64_t own) const { return is_adjoint ? axis[d].column(own) : axis[d].row(own); }
    template <class C>
    BK_HD C weight(int d, int64_t own, int64_t other) const {
        return is_adjoint ? axis[d].template weight<C>(other, own) : axis[d].template weight<C>(own, other);
    }
};

template <class T>
__global__ void __launch_bounds__(kItemThreads, 4)
    resample_tiles_kernel(const __grid_constant__ ResampleTiles tiles, const T* x, T* y) {
    using C = compute_t<T>;
    __shared__ C weights[kMostWeights][kTileEntries];
    __shared__ int32_t firsts[kTileEntries], counts[kTileEntries];
    const int thread = static_cast<int>(threadIdx.x);
    const uint32_t rest = blockIdx.x / static_cast<uint32_t>(tiles.tiles_x),
                   chunk = rest / static_cast<uint32_t>(tiles.tiles_y);
    const int32_t column = static_cast<int32_t>(blockIdx.x - rest * static_cast<uint32_t>(tiles.tiles_x)) * tiles.tile_columns;
    const int32_t row = static_cast<int32_t>(rest - chunk * static_cast<uint32_t>(tiles.tiles_y)) * tiles.tile_rows;
    const int32_t columns = min(tiles.tile_columns, tiles.columns - column), rows = min(tiles.tile_rows, tiles.rows - row);
    for (int32_t i = thread; i < columns + rows; i += kItemThreads) {
        const bool is_row = i >= columns;
        const int d = is_row ? 1 : 2;
        const int32_t entry = is_row ? kTileColumns + i - columns : i;
        const int64_t own = is_row ? row + i - columns : tiles.by_inner(static_cast<uint32_t>(column + i)).quotient;
        const Window window = tiles.window(d, own);
        firsts[entry] = static_cast<int32_t>(window.first);
        counts[entry] = static_cast<int32_t>(window.end - window.first);
        for (int32_t k = 0; k < counts[entry]; ++k) weights[k][entry] = tiles.weight<C>(d, own, window.first + k);
    }
    __syncthreads();

    const C of_z = tiles.weight<C>(0, 0, 0);
    const int32_t positions = tiles.tile_columns * tiles.tile_rows,
                  first_group = static_cast<int32_t>(chunk) * tiles.block_groups;
    const int32_t items = min(tiles.block_groups, tiles.groups - first_group) * positions;
    for (int32_t item = thread; item < items; item += kItemThreads) {
        const auto group = tiles.by_positions(static_cast<uint32_t>(item));
        const auto at = tiles.by_columns(group.remainder);
        const int32_t r = static_cast<int32_t>(at.quotient), c = static_cast<int32_t>(at.remainder);
        if (r >= rows || c >= columns) continue;
        const auto split = tiles.by_inner(static_cast<uint32_t>(column + c));
        const int64_t plane = (int64_t{first_group} + group.quotient) * tiles.lanes;
        const int lanes = static_cast<int>(min(int64_t{tiles.lanes}, tiles.planes - plane));
        const T* const image = x + plane * tiles.from.plane + split.remainder * tiles.from.inner;
        const int32_t of_row = kTileColumns + r, first_y = firsts[of_row], first_x = firsts[c];
        const int32_t count_y = counts[of_row], count_x = counts[c];
        C sum[kItemLanes] = {};
        for (int32_t j = 0; j < count_y; ++j) {
            const C above = of_z * weights[j][of_row];
            const T* from = image + (first_y + j) * tiles.from.y + first_x * tiles.from.x;
            for (int32_t i = 0; i < count_x; ++i, from += tiles.from.x) {
                const C w = above * weights[i][c];
                if (w != C(0))
                    for_lanes(lanes, [&](int lane) { sum[lane] += w * static_cast<C>(widen(from[lane * tiles.from.plane])); });
            }
        }
        T* const to = y + plane * tiles.to.plane + (row + r) * tiles.to.y + split.quotient * tiles.to.x +
                      split.remainder * tiles.to.inner;
        for_lanes(lanes, [&](int lane) {
            T* const result = to + lane * tiles.to.plane;
            *result = narrow<T>(tiles.accumulates ? widen(*result) + sum[lane] : sum[lane]);
        });
    }
}

template <class T>
Status launch_resample_tiles(const Launch& launch, const ResampleTiles& tiles, const T* x, T* y) {
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(tiles.blocks)), dim3(kItemThreads)}, resample_tiles_kernel<T>,
                         tiles, x, y);
}

}  // namespace bk::image
