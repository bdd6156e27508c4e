// SPDX-License-Identifier: Apache-2.0
// Tile scheduler: maps a block to its tile of a matrix, of a group of rows, of a group along k, or of a slice of K.
#pragma once

#include <cstdint>

#include "core/platform.h"
#include "gemm/matmul.h"

namespace bk {

// Split-K partials: `count` slices of `slice_k` K elements, the last one shorter. The m x n partial of slice s of
// matrix g is at (g * count + s) * m * n.
template <class S>
struct SplitK {
    S* partials = nullptr;
    int64_t slice_k = 0, count = 1;
};

// A tile starts at [row, column] of matrix number `matrix` and ends at row_end and column_end; it sums K elements
// [k_begin, k_begin + k_extent). A block with nothing to do has row_end 0.
struct TileCoord {
    int64_t matrix = 0, row = 0, column = 0, row_end = 0, column_end = 0, k_begin = 0, k_extent = 0, slice = 0;
};

// Sets the tile number `index` of a matrix of tiles_m x tiles_n tiles. Concurrent tiles are close in both directions,
// so that they share operands in L2.
BK_DEVICE void set_tile(TileCoord& coord, int64_t index, int64_t tiles_m, int64_t tiles_n, int side, int columns) {
    constexpr int64_t kGroupHeight = 8;
    const int64_t group = index / (kGroupHeight * tiles_n), rows_left = tiles_m - group * kGroupHeight;
    const int64_t height = rows_left < kGroupHeight ? rows_left : kGroupHeight, in_group = index % (kGroupHeight * tiles_n);
    coord.row = (group * kGroupHeight + in_group % height) * side;
    coord.column = in_group / height * columns;
}

// Finds tile number `index` of all groups of rows. Rows before the first group and behind the last become groups with
// k_extent 0. Every warp searches, 32 groups at a time.
template <class T>
BK_DEVICE TileCoord find_grouped_tile(const Matmul<T>& p, uint32_t index, uint32_t tiles_n, int side, int columns) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    TileCoord coord;
    uint32_t before = 0;
    for (int64_t base = -1; base <= p.batch; base += 32) {
        const int64_t g = base + lane;
        int64_t begin = 0, end = 0;
        if (g <= p.batch) {
            begin = g < 0 ? 0 : group_offset(p.offsets, g, p.m);
            end = g == p.batch ? p.m : group_offset(p.offsets, g + 1, p.m);
        }
        const uint32_t tiles_m = end > begin ? static_cast<uint32_t>((end - begin + side - 1) / side) : 0,
                       tiles = tiles_m * tiles_n;
        uint32_t sum = tiles;
        for (int distance = 1; distance < 32; distance *= 2) {
            const uint32_t other = __shfl_up_sync(~0u, sum, distance, 32);
            if (lane >= distance) sum += other;
        }
        const uint32_t own = index - (before + sum - tiles);  // large if the tile is not in this group
        uint32_t found = own < tiles ? static_cast<uint32_t>(lane) + 1 : 0;
        for (int distance = 1; distance < 32; distance *= 2) {
            const uint32_t other = __shfl_xor_sync(~0u, found, distance);
            found = found > other ? found : other;
        }
        if (found != 0) {
            const int from = static_cast<int>(found) - 1;
            const int64_t group = base + from;
            const bool has_k = group >= 0 && group < p.batch;
            begin = __shfl_sync(~0u, static_cast<uint32_t>(begin), from, 32);  // 31-bit, as extents are
            coord.row_end = __shfl_sync(~0u, static_cast<uint32_t>(end), from, 32);
            set_tile(coord, __shfl_sync(~0u, own, from, 32), __shfl_sync(~0u, tiles_m, from, 32), tiles_n, side, columns);
            coord.row += begin;
            coord.matrix = has_k ? group : 0;
            coord.column_end = p.n;
            coord.k_extent = has_k ? p.k : 0;
            return coord;
        }
        before += __shfl_sync(~0u, sum, 31, 32);
    }
    return coord;
}

template <class T, class S>
BK_DEVICE TileCoord coord_of_block(const Matmul<T>& p, const SplitK<S>& split, int64_t tiles_m, int64_t tiles_n, int side,
                                   int columns) {
    const int64_t index = blockIdx.x;
    if (p.grouped == Grouped::kRows)
        return find_grouped_tile(p, static_cast<uint32_t>(index), static_cast<uint32_t>(tiles_n), side, columns);
    TileCoord coord;
    coord.matrix = index / (tiles_m * tiles_n);
    set_tile(coord, index % (tiles_m * tiles_n), tiles_m, tiles_n, side, columns);
    coord.row_end = p.m;
    coord.column_end = p.n;
    coord.k_extent = p.k;
    if (p.sizes != nullptr) {
        const MatmulExtents own = p.extents_of(coord.matrix);
        coord.row_end = coord.row < own.m && coord.column < own.n ? own.m : 0;
        coord.column_end = own.n;
        coord.k_extent = own.k;
    } else if (p.grouped == Grouped::kK) {
        coord.k_begin = group_offset(p.offsets, coord.matrix, p.k);
        const int64_t extent = group_offset(p.offsets, coord.matrix + 1, p.k) - coord.k_begin;
        coord.k_extent = extent < 0 ? 0 : extent;
    } else if (split.count > 1) {
        coord.slice = coord.matrix % split.count;
        coord.matrix /= split.count;
        coord.k_begin = coord.slice * split.slice_k;
        coord.k_extent = p.k - coord.k_begin < split.slice_k ? p.k - coord.k_begin : split.slice_k;
    }
    return coord;
}

// First K element of the tile in an operand, whose K elements are k_stride apart. The pointer array is not read if the
// tile has none: it may be empty.
template <class E>
BK_DEVICE const E* first_k_element(const E* base, const MatrixStrides& at, int64_t k_stride, const TileCoord& coord) {
    return coord.k_extent > 0 ? at.matrix(base, coord.matrix) + coord.k_begin * k_stride : base;
}

// Row tiles of the grid: an upper bound if only the device knows the groups. P is a Matmul or its shape.
template <class P>
int64_t count_row_tiles(const P& p, int side) {
    if (p.grouped == Grouped::kRows) return p.m / side + p.batch + 2;
    return ceil_div<int64_t>(p.m, side);
}

// Stores two adjacent split-K partial sums.
template <class S>
BK_DEVICE void store_partial(const SplitK<S>& split, const TileCoord& coord, int64_t m, int64_t n, int64_t row, int64_t column,
                             S first, S second) {
    S* const to = split.partials + ((coord.matrix * split.count + coord.slice) * m + row) * n + column;
    to[0] = first;
    if (column + 1 < n) to[1] = second;
}

}  // namespace bk
