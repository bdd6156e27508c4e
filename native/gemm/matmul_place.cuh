// Tile scheduler: maps a block to its tile of a matrix, of a group of rows, of a group along k, or of a slice of K.
#pragma once

#include <cstdint>

#include "core/platform.h"
#include "gemm/matmul.h"

namespace bk {

// Split-K partials: `count` slices of `slice_k` K elements, the last one shorter. The m x n partial of slice s of
// matrix g is at (g * count + s) * m * n.
template <class S>
struct MatmulParts {
    S* sums = nullptr;
    int64_t span = 0, count = 1;
};

// A tile starts at [row, column] of matrix number `matrix` and ends at row_end and column_end; it sums K elements
// [k_begin, k_begin + k_extent). A block with nothing to do has row_end 0.
struct MatmulPlace {
    int64_t matrix = 0, row = 0, column = 0, end = 0, width = 0, first = 0, terms = 0, part = 0;
};

// Sets the tile number `index` of a matrix of tiles_m x tiles_n tiles. Concurrent tiles are close in both directions,
// so that they share operands in L2.
BK_DEVICE void place_tile(MatmulPlace& place, int64_t index, int64_t down, int64_t across, int side, int columns) {
    constexpr int64_t kTogether = 8;
    const int64_t band = index / (kTogether * across), left = down - band * kTogether;
    const int64_t height = left < kTogether ? left : kTogether, in_band = index % (kTogether * across);
    place.row = (band * kTogether + in_band % height) * side;
    place.column = in_band / height * columns;
}

// Finds tile number `index` of all groups of rows. Rows before the first group and behind the last become groups with
// k_extent 0. Every warp searches, 32 groups at a time.
template <class T>
BK_DEVICE MatmulPlace place_in_rows(const Matmul<T>& p, uint32_t index, uint32_t across, int side, int columns) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    MatmulPlace place;
    uint32_t before = 0;
    for (int64_t base = -1; base <= p.batch; base += 32) {
        const int64_t g = base + lane;
        int64_t begin = 0, end = 0;
        if (g <= p.batch) {
            begin = g < 0 ? 0 : group_offset(p.offsets, g, p.m);
            end = g == p.batch ? p.m : group_offset(p.offsets, g + 1, p.m);
        }
        const uint32_t down = end > begin ? static_cast<uint32_t>((end - begin + side - 1) / side) : 0, tiles = down * across;
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
            const bool has_terms = group >= 0 && group < p.batch;
            begin = __shfl_sync(~0u, static_cast<uint32_t>(begin), from, 32);  // 31-bit, as extents are
            place.end = __shfl_sync(~0u, static_cast<uint32_t>(end), from, 32);
            place_tile(place, __shfl_sync(~0u, own, from, 32), __shfl_sync(~0u, down, from, 32), across, side, columns);
            place.row += begin;
            place.matrix = has_terms ? group : 0;
            place.width = p.n;
            place.terms = has_terms ? p.k : 0;
            return place;
        }
        before += __shfl_sync(~0u, sum, 31, 32);
    }
    return place;
}

template <class T, class S>
BK_DEVICE MatmulPlace find_place(const Matmul<T>& p, const MatmulParts<S>& parts, int64_t down, int64_t across, int side,
                                 int columns) {
    const int64_t index = blockIdx.x;
    if (p.grouped == Grouped::kRows)
        return place_in_rows(p, static_cast<uint32_t>(index), static_cast<uint32_t>(across), side, columns);
    MatmulPlace place;
    place.matrix = index / (down * across);
    place_tile(place, index % (down * across), down, across, side, columns);
    place.end = p.m;
    place.width = p.n;
    place.terms = p.k;
    if (p.sizes != nullptr) {
        const MatmulExtents own = p.extents_of(place.matrix);
        place.end = place.row < own.m && place.column < own.n ? own.m : 0;
        place.width = own.n;
        place.terms = own.k;
    } else if (p.grouped == Grouped::kTerms) {
        place.first = group_offset(p.offsets, place.matrix, p.k);
        const int64_t terms = group_offset(p.offsets, place.matrix + 1, p.k) - place.first;
        place.terms = terms < 0 ? 0 : terms;
    } else if (parts.count > 1) {
        place.part = place.matrix % parts.count;
        place.matrix /= parts.count;
        place.first = place.part * parts.span;
        place.terms = p.k - place.first < parts.span ? p.k - place.first : parts.span;
    }
    return place;
}

// First K element of the tile in an operand, whose K elements are k_stride apart. The pointer array is not read if the
// tile has none: it may be empty.
template <class E>
BK_DEVICE const E* first_term(const E* base, const MatrixStrides& at, int64_t along, const MatmulPlace& place) {
    return place.terms > 0 ? at.matrix(base, place.matrix) + place.first * along : base;
}

// Row tiles of the grid: an upper bound if only the device knows the groups.
template <class T>
int64_t count_down(const Matmul<T>& p, int side) {
    if (p.grouped == Grouped::kRows) return p.m / side + p.batch + 2;
    return ceil_div<int64_t>(p.m, side);
}

// Stores two adjacent split-K partial sums.
template <class S>
BK_DEVICE void store_part(const MatmulParts<S>& parts, const MatmulPlace& place, int64_t m, int64_t n, int64_t row,
                          int64_t column, S first, S second) {
    S* const to = parts.sums + ((place.matrix * parts.count + place.part) * m + row) * n + column;
    to[0] = first;
    if (column + 1 < n) to[1] = second;
}

}  // namespace bk
