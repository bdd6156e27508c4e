// SPDX-License-Identifier: Apache-2.0
// im2col on GPUs. Tiles (im2col_tiles.cuh) if windows are adjacent in y; otherwise a thread copies the taps of one
// window, kernel row by kernel row, so that adjacent threads read nearby elements of x.
#include "core/copy/im2col.h"

#include <algorithm>
#include <cstdint>

#include "core/copy/col2im_tiles.cuh"
#include "core/copy/im2col_tiles.cuh"
#include "core/math/fastdiv.h"

namespace bk {

namespace {

constexpr int kWindowThreads = 256;
constexpr int kTapsAtOnce = 4;

struct WindowGrid {
    WindowCopy copy;
    FastDiv<uint32_t> channels, windows, row_windows, last_windows;  // of an item; of an image, plane, row
    FastDiv<uint32_t> row_splits, tiles;  // blocks that share a window's kernel rows; blocks of an image
    int images, images_per_block;
    int rows, rows_per_block;  // kernel rows
    int64_t blocks;

    // Returns false if counts do not fit 32 bits.
    static bool of(const WindowCopy& copy, WindowGrid* grid) {
        constexpr int64_t kMost = INT32_MAX - kWindowThreads, kMinThreads = int64_t{1} << 18, kMinTaps = 16;
        const int64_t windows = copy.windows();
        for (const WindowAxis& a : copy.axis)
            if (a.span() > kMost) return false;
        if (copy.items > kMost / copy.channels || windows > kMost) return false;
        const int64_t images = copy.items * copy.channels, last = copy.axis[2].taps;
        const int64_t rows = copy.taps() / last;
        const int64_t images_together = std::max<int64_t>(1, kWindowThreads / windows);
        const int64_t tiles = ceil_div<int64_t>(windows, kWindowThreads);
        const int64_t block_rows = images * windows < kMinThreads ? 1 : std::min(rows, ceil_div(kMinTaps, last));
        const int64_t row_splits = ceil_div(rows, block_rows);
        const int64_t blocks = ceil_div(images, images_together) * tiles;
        if (rows > kMost || blocks > kMaxGridX / row_splits) return false;
        *grid = {copy,
                 FastDiv<uint32_t>(copy.channels),
                 FastDiv<uint32_t>(windows),
                 FastDiv<uint32_t>(copy.axis[1].windows * copy.axis[2].windows),
                 FastDiv<uint32_t>(copy.axis[2].windows),
                 FastDiv<uint32_t>(row_splits),
                 FastDiv<uint32_t>(tiles),
                 static_cast<int>(images),
                 static_cast<int>(images_together),
                 static_cast<int>(rows),
                 static_cast<int>(block_rows),
                 blocks * row_splits};
        return true;
    }
};

template <class Bits>
__global__ void __launch_bounds__(kWindowThreads)
    copy_windows_kernel(const __grid_constant__ WindowGrid grid, const Bits* x, Bits* y) {
    const WindowCopy& copy = grid.copy;
    const DivMod<uint32_t> block = grid.row_splits(blockIdx.x);
    uint32_t image, window;
    if (grid.images_per_block > 1) {
        const DivMod<uint32_t> split = grid.windows(threadIdx.x);
        image = block.quotient * grid.images_per_block + split.quotient;
        window = split.remainder;
        if (split.quotient >= static_cast<uint32_t>(grid.images_per_block)) return;
    } else {
        const DivMod<uint32_t> split = grid.tiles(block.quotient);
        image = split.quotient;
        window = split.remainder * kWindowThreads + threadIdx.x;
    }
    if (image >= static_cast<uint32_t>(grid.images) || window >= grid.windows.divisor()) return;
    const DivMod<uint32_t> item = grid.channels(image), plane = grid.row_windows(window),
                           last_row = grid.last_windows(plane.remainder);
    const int first[kMaxWindowAxes] = {
        static_cast<int>(plane.quotient * static_cast<uint32_t>(copy.axis[0].step)) - static_cast<int>(copy.axis[0].padding),
        static_cast<int>(last_row.quotient * static_cast<uint32_t>(copy.axis[1].step)) - static_cast<int>(copy.axis[1].padding),
        static_cast<int>(last_row.remainder * static_cast<uint32_t>(copy.axis[2].step)) -
            static_cast<int>(copy.axis[2].padding)};
    x += item.quotient * copy.item_x + item.remainder * copy.channel_x;
    y += item.quotient * copy.item_y + item.remainder * copy.channel_y + window * copy.window_y;
    const WindowAxis &outer = copy.axis[0], &middle = copy.axis[1], &inner = copy.axis[2];
    const int taps = static_cast<int>(inner.taps);
    const uint32_t dilation = static_cast<uint32_t>(inner.dilation);
    const int begin = static_cast<int>(block.remainder) * grid.rows_per_block;
    const int end = min(begin + grid.rows_per_block, grid.rows);
    for (int row = begin; row < end; ++row) {
        const int outer_tap = row / static_cast<int>(middle.taps), middle_tap = row - outer_tap * static_cast<int>(middle.taps);
        const int at0 = first[0] + outer_tap * static_cast<int>(outer.dilation);
        const int at1 = first[1] + middle_tap * static_cast<int>(middle.dilation);
        const bool is_inside = static_cast<uint32_t>(at0) < static_cast<uint32_t>(outer.extent) &&
                               static_cast<uint32_t>(at1) < static_cast<uint32_t>(middle.extent);
        const uint32_t extent = is_inside ? static_cast<uint32_t>(inner.extent) : 0;
        const Bits* const from = x + at0 * outer.stride + at1 * middle.stride;
        Bits* to = y + int64_t{row} * taps * copy.tap_y;
        for (int tap = 0; tap < taps; tap += kTapsAtOnce) {
            Bits cell[kTapsAtOnce];
#pragma unroll
            for (int u = 0; u < kTapsAtOnce; ++u) {
                const uint32_t at = static_cast<uint32_t>(first[2]) + static_cast<uint32_t>(tap + u) * dilation;
                cell[u] = Bits{};
                if (tap + u < taps && at < extent) cell[u] = from[at * inner.stride];
            }
#pragma unroll
            for (int u = 0; u < kTapsAtOnce; ++u, to += copy.tap_y)
                if (tap + u < taps) *to = cell[u];
        }
    }
}

template <class Bits>
Status launch_tiles(const Launch& launch, void (*kernel)(WindowTiles, const Bits*, Bits*), const WindowTiles& tiles,
                    const void* from, void* to) {
    const Grid grid{dim3(static_cast<unsigned>(tiles.blocks)), dim3(kWindowTileThreads), 1, tiles.shared_bytes()};
    return launch_kernel(launch, grid, kernel, tiles, static_cast<const Bits*>(from), static_cast<Bits*>(to));
}

template <class Bits>
Status launch_windows(const Launch& launch, const WindowGrid& grid, const void* x, void* y) {
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(grid.blocks)), dim3(kWindowThreads)},
                         copy_windows_kernel<Bits>, grid, static_cast<const Bits*>(x), static_cast<Bits*>(y));
}

struct TwoWords {
    uint64_t word[2];
};

}  // namespace

Status copy_windows(const Launch& launch, const WindowCopy& copy, int bytes, const void* x, void* y) {
    WindowTiles tiles;
    if (WindowTiles::of(copy, bytes, y, &tiles)) {
        switch (bytes) {
            case 1: return launch_tiles<uint8_t>(launch, copy_window_tiles_kernel<uint8_t>, tiles, x, y);
            case 2: return launch_tiles<uint16_t>(launch, copy_window_tiles_kernel<uint16_t>, tiles, x, y);
            case 4: return launch_tiles<uint32_t>(launch, copy_window_tiles_kernel<uint32_t>, tiles, x, y);
            default: return launch_tiles<uint64_t>(launch, copy_window_tiles_kernel<uint64_t>, tiles, x, y);
        }
    }
    WindowGrid grid;
    if (!WindowGrid::of(copy, &grid)) return copy_windows_by_axes(launch, copy, bytes, x, y);
    switch (bytes) {
        case 1: return launch_windows<uint8_t>(launch, grid, x, y);
        case 2: return launch_windows<uint16_t>(launch, grid, x, y);
        case 4: return launch_windows<uint32_t>(launch, grid, x, y);
        case 8: return launch_windows<uint64_t>(launch, grid, x, y);
        default: return launch_windows<TwoWords>(launch, grid, x, y);
    }
}

Status windows_to_image(const Launch& launch, const WindowCopy& copy, int bytes, const void* y, void* x, bool* is_done) {
    WindowTiles tiles;
    *is_done = bytes > 1 && windows_tile_image(copy) && WindowTiles::of(copy, bytes, y, &tiles);
    if (!*is_done) return Status::kOk;
    switch (bytes) {
        case 2: return launch_tiles<uint16_t>(launch, window_tiles_to_image_kernel<uint16_t>, tiles, y, x);
        case 4: return launch_tiles<uint32_t>(launch, window_tiles_to_image_kernel<uint32_t>, tiles, y, x);
        default: return launch_tiles<uint64_t>(launch, window_tiles_to_image_kernel<uint64_t>, tiles, y, x);
    }
}

}  // namespace bk
