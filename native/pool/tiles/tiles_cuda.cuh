// SPDX-License-Identifier: Apache-2.0
// Tiles of dense planes on a GPU: a block has some rows of a plane, or some whole planes where these are small. Both are one
// run of memory in the result; the operand that its windows or cells meet comes as a few runs into shared memory, so that a
// thread's index arithmetic has 32 bits and elements that windows share are read once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch_cuda.h"
#include "core/types/vec.h"
#include "pool/windows.h"

namespace bk::pool {

constexpr int kTileThreads = 256;
constexpr int32_t kTileBytes = 16 << 10;      // of shared memory: eight blocks on an SM
constexpr int32_t kMostTileBytes = 44 << 10;  // if a row needs more
constexpr int32_t kTileItems = 2048;          // that a block is wanted to have
constexpr int32_t kFewestTiles = 512;         // two for each SM of a large chip
constexpr int32_t kMostNarrow = 3;            // elements along the last axis that are unrolled

// Indices [begin, end) of an axis.
struct TileRange {
    int32_t begin = 0, end = 1;
    BK_HD int32_t size() const { return end - begin; }
};

// Cells of the windows [of.begin, of.end), which are not none and not dilated.
BK_HD TileRange cells_of(const Axis& axis, const TileRange& of) {
    if (axis.is_adaptive) {
        const Taps last = axis.taps(of.end - 1);
        return {axis.taps(of.begin).first, last.first + last.count};
    }
    const auto clamped = [&](int32_t at) { return at < 0 ? 0 : at > axis.in ? axis.in : at; };
    return {clamped(of.begin * axis.step - axis.pad_low), clamped((of.end - 1) * axis.step - axis.pad_low + axis.kernel)};
}

// Windows of the cells [of.begin, of.end); maybe none.
BK_HD TileRange windows_of(const Axis& axis, const TileRange& of) {
    const int32_t begin = axis.cover(of.begin).low, end = axis.cover(of.end - 1).high + 1;
    return {begin, end < begin ? begin : end};
}

inline bool is_dense(const Problem& p, const Strides& s, int32_t a, int32_t b, int32_t c) {
    const int64_t row = c, plane = row * b, all = plane * a;
    return (c == 1 || s.axis[2] == 1) && (b == 1 || s.axis[1] == row) && (a == 1 || s.axis[0] == plane) &&
           (p.channels == 1 || s.channel == all) && (p.batch == 1 || s.batch == p.channels * all);
}
inline bool has_dense_cells(const Problem& p, const Strides& s) {
    return is_dense(p, s, p.axis[0].in, p.axis[1].in, p.axis[2].in);
}
inline bool has_dense_windows(const Problem& p, const Strides& s) {
    return is_dense(p, s, p.axis[0].out, p.axis[1].out, p.axis[2].out);
}

// The box of a plane that a block has.
struct Box {
    TileRange of[kAxes];
    BK_HD int32_t size() const { return of[0].size() * of[1].size() * of[2].size(); }
    BK_HD int32_t at(int32_t plane, int32_t a, int32_t b, int32_t c) const {
        return ((plane * of[0].size() + a - of[0].begin) * of[1].size() + b - of[1].begin) * of[2].size() + c - of[2].begin;
    }
};

// Tiles of results, items, of extents a, b and c.
struct TileGrid {
    int32_t extent[kAxes];
    int32_t planes = 1;     // of a block; those of several are whole
    int32_t rows = 0;       // of a block, along b; 0: whole planes
    int32_t row_tiles = 1;  // blocks of these rows
    FastDiv<uint32_t> by_row, by_rows, by_slabs;
    FastDiv<uint32_t> by_window_row;  // of a gradient, whose items are cells
    bool has_narrow_covers = false;   // likewise: a cell has at most kMostNarrow windows along c
    unsigned bytes = 0;               // of shared memory
    int64_t all_planes = 0, blocks = 0;

    // bytes(planes, slabs, rows): shared memory of a tile of so many slabs of a plane, along a, and rows of each.
    template <class Bytes>
    static TileGrid of(int64_t planes, const int32_t (&extent)[kAxes], const Bytes& bytes) {
        TileGrid grid;
        std::copy(extent, extent + kAxes, grid.extent);
        grid.all_planes = planes;
        const int64_t slab = int64_t{extent[1]} * extent[2], plane = slab * extent[0];
        const auto fits = [&](int64_t some, int32_t slabs, int32_t rows, int64_t most) {
            return bytes(some, slabs, rows) <= most;
        };
        const int64_t spread = planes / kFewestTiles;
        if (plane <= kTileItems && planes >= kFewestTiles && fits(1, extent[0], extent[1], kTileBytes)) {
            int64_t some = std::max<int64_t>(1, std::min(kTileItems / plane, spread));
            while (some > 1 && !fits(some, extent[0], extent[1], kTileBytes)) some /= 2;
            grid.planes = static_cast<int32_t>(some);
            grid.blocks = ceil_div(planes, some);
        } else {
            int32_t rows = 0;
            while (rows < extent[1] && fits(1, 1, rows + 1, rows == 0 ? kMostTileBytes : kTileBytes)) ++rows;
            if (rows == 0) return grid;
            const int64_t slabs = planes * extent[0],
                          wanted = std::min<int64_t>(extent[1], ceil_div<int64_t>(kFewestTiles, slabs));
            const int64_t items = std::max<int64_t>(1, 2 * kTileItems / std::max(extent[2], 1));
            rows = static_cast<int32_t>(std::min<int64_t>(rows, items));
            grid.row_tiles = static_cast<int32_t>(std::max<int64_t>(ceil_div<int64_t>(extent[1], rows), wanted));
            grid.rows = ceil_div(extent[1], grid.row_tiles);
            grid.row_tiles = ceil_div(extent[1], grid.rows);
            grid.blocks = slabs * grid.row_tiles;
        }
        grid.bytes =
            static_cast<unsigned>(bytes(grid.planes, grid.rows == 0 ? extent[0] : 1, grid.rows == 0 ? extent[1] : grid.rows));
        grid.by_row = FastDiv<uint32_t>(extent[2]);
        grid.by_rows = FastDiv<uint32_t>(grid.rows == 0 ? extent[1] : grid.rows);
        grid.by_slabs = FastDiv<uint32_t>(extent[0]);
        return grid;
    }
    bool is_possible() const { return blocks > 0 && blocks <= kMaxGridX; }
};

// The items of a block, and where they are in the result.
struct Tile {
    Box box;
    int64_t plane;  // the first one
    int32_t planes;
    int64_t begin;  // of the items in memory
    int32_t items;

    BK_DEVICE Tile(const TileGrid& grid, uint32_t block) {
        const int32_t slabs = grid.extent[0], rows = grid.extent[1], row = grid.extent[2];
        box.of[2] = {0, row};
        if (grid.rows == 0) {
            plane = int64_t{block} * grid.planes;
            planes = static_cast<int32_t>(min(int64_t{grid.planes}, grid.all_planes - plane));
            box.of[0] = {0, slabs}, box.of[1] = {0, rows};
        } else {
            const uint32_t slab = block / static_cast<uint32_t>(grid.row_tiles), whole = slab / static_cast<uint32_t>(slabs);
            const int32_t row_tile = static_cast<int32_t>(block - slab * static_cast<uint32_t>(grid.row_tiles));
            const int32_t a = static_cast<int32_t>(slab - whole * static_cast<uint32_t>(slabs));
            plane = whole, planes = 1;
            box.of[0] = {a, a + 1}, box.of[1] = {row_tile * grid.rows, min((row_tile + 1) * grid.rows, rows)};
        }
        begin = ((plane * slabs + box.of[0].begin) * rows + box.of[1].begin) * row;
        items = planes * box.size();
    }
};

struct TileItem {
    int32_t plane, a, b, c;

    BK_DEVICE TileItem(const TileGrid& grid, const Tile& tile, int32_t item) {
        const auto row = grid.by_row(static_cast<uint32_t>(item));
        const auto slab = grid.by_rows(row.quotient);
        const auto whole = grid.by_slabs(slab.quotient);
        plane = static_cast<int32_t>(grid.rows == 0 ? whole.quotient : 0);
        a = tile.box.of[0].begin + static_cast<int32_t>(grid.rows == 0 ? whole.remainder : 0);
        b = tile.box.of[1].begin + static_cast<int32_t>(slab.remainder);
        c = static_cast<int32_t>(row.remainder);
    }
};

// Copies a run of memory; by vectors where both sides are equally far from alignment.
template <class T>
BK_DEVICE void stage_run(T* to, const T* from, int32_t count) {
    constexpr int kLanes = kVectorLanes<T>;
    const auto behind = [](const T* at) {
        return static_cast<int>(reinterpret_cast<uintptr_t>(at) % kVectorBytes / sizeof(T));
    };
    const int thread = static_cast<int>(threadIdx.x), off = behind(from);
    int32_t head = count, vectors = 0;
    if (off == behind(to)) {
        head = min(count, off == 0 ? 0 : kLanes - off);
        vectors = (count - head) / kLanes;
    }
    for (int32_t i = thread; i < head; i += kTileThreads) to[i] = from[i];
#pragma unroll 4
    for (int32_t i = thread; i < vectors; i += kTileThreads)
        bk::store(to + head + i * kLanes, bk::load<kLanes>(from + head + i * kLanes));
    for (int32_t i = head + vectors * kLanes + thread; i < count; i += kTileThreads) to[i] = from[i];
}

// Copies the box of some planes of extents a, b and c to `memory`, which is aligned, and returns its begin there: at most
// kVectorBytes behind.
template <class T>
BK_DEVICE T* stage_box(T* memory, const T* from, int64_t plane, int32_t planes, const Box& box, int32_t a, int32_t b,
                       int32_t c) {
    if (planes * box.size() == 0) return memory;
    const int64_t slab = int64_t{b} * c;
    from += (plane * a + box.of[0].begin) * slab + int64_t{box.of[1].begin} * c;
    T* const to = memory + reinterpret_cast<uintptr_t>(from) % kVectorBytes / sizeof(T);
    const int32_t run = box.of[1].size() * c;
    const bool is_whole = run == slab && box.of[0].size() == a;
    const int32_t runs = is_whole ? 1 : box.of[0].size();
    for (int32_t i = 0; i < runs; ++i) stage_run(to + i * run, from + i * slab, is_whole ? planes * box.size() : run);
    return to;
}

// visit(i) for i below count; without a loop if count is at most kMostNarrow, as is_narrow says.
template <class Visit>
BK_DEVICE void each_of_row(bool is_narrow, int32_t count, const Visit& visit) {
    if (is_narrow) {
#pragma unroll
        for (int32_t i = 0; i < kMostNarrow; ++i)
            if (i < count) visit(i);
    } else {
#pragma unroll 4
        for (int32_t i = 0; i < count; ++i) visit(i);
    }
}

}  // namespace bk::pool
