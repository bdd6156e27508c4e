// By tiles (window_tiles.cuh) where windows are neighbours in y. Else a thread has a window and copies its places, row by row
// of the kernel: neighbouring threads read what lies near in x.
#include "core/pointwise/window_copies.h"

#include <algorithm>
#include <cstdint>

#include "core/math/fastdiv.h"
#include "core/pointwise/window_joins.cuh"
#include "core/pointwise/window_tiles.cuh"

namespace bk {

namespace {

constexpr int kWindowThreads = 256;
constexpr int kPlacesAtOnce = 4;

struct WindowGrid {
    WindowCopy copy;
    FastDiv<uint32_t> channels, windows, row_windows, line_windows;  // of an image; of it, of its last two axes, of the last
    FastDiv<uint32_t> shares, tiles;                                 // blocks that share rows of places; blocks of an image
    int images, images_of_block;
    int rows, rows_of_block;  // of places along the last axis
    int64_t blocks;

    // Whether all numbers fit 32 bits.
    static bool of(const WindowCopy& copy, WindowGrid* grid) {
        constexpr int64_t kMost = INT32_MAX - kWindowThreads, kEnoughThreads = int64_t{1} << 18, kEnoughPlaces = 16;
        const int64_t windows = copy.windows();
        for (const WindowAxis& a : copy.axis)
            if (a.extent + 2 * a.padding > kMost) return false;
        if (copy.items > kMost / copy.channels || windows > kMost) return false;
        const int64_t images = copy.items * copy.channels, last = copy.axis[2].places;
        const int64_t rows = copy.places() / last;
        const int64_t together = std::max<int64_t>(1, kWindowThreads / windows);
        const int64_t tiles = ceil_div<int64_t>(windows, kWindowThreads);
        const int64_t of_block = images * windows < kEnoughThreads ? 1 : std::min(rows, ceil_div(kEnoughPlaces, last));
        const int64_t shares = ceil_div(rows, of_block);
        const int64_t blocks = ceil_div(images, together) * tiles;
        if (rows > kMost || blocks > kMaxGridX / shares) return false;
        *grid = {copy,
                 FastDiv<uint32_t>(copy.channels),
                 FastDiv<uint32_t>(windows),
                 FastDiv<uint32_t>(copy.axis[1].windows * copy.axis[2].windows),
                 FastDiv<uint32_t>(copy.axis[2].windows),
                 FastDiv<uint32_t>(shares),
                 FastDiv<uint32_t>(tiles),
                 static_cast<int>(images),
                 static_cast<int>(together),
                 static_cast<int>(rows),
                 static_cast<int>(of_block),
                 blocks * shares};
        return true;
    }
};

template <class Bits>
__global__ void __launch_bounds__(kWindowThreads)
    copy_windows_kernel(const __grid_constant__ WindowGrid grid, const Bits* x, Bits* y) {
    const WindowCopy& copy = grid.copy;
    const DivMod<uint32_t> share = grid.shares(blockIdx.x);
    uint32_t image, window;
    if (grid.images_of_block > 1) {
        const DivMod<uint32_t> split = grid.windows(threadIdx.x);
        image = share.quotient * grid.images_of_block + split.quotient;
        window = split.remainder;
        if (split.quotient >= static_cast<uint32_t>(grid.images_of_block)) return;
    } else {
        const DivMod<uint32_t> split = grid.tiles(share.quotient);
        image = split.quotient;
        window = split.remainder * kWindowThreads + threadIdx.x;
    }
    if (image >= static_cast<uint32_t>(grid.images) || window >= grid.windows.divisor()) return;
    const DivMod<uint32_t> item = grid.channels(image), plane = grid.row_windows(window),
                           line = grid.line_windows(plane.remainder);
    const int first[kMostWindowAxes] = {
        static_cast<int>(plane.quotient * static_cast<uint32_t>(copy.axis[0].step)) - static_cast<int>(copy.axis[0].padding),
        static_cast<int>(line.quotient * static_cast<uint32_t>(copy.axis[1].step)) - static_cast<int>(copy.axis[1].padding),
        static_cast<int>(line.remainder * static_cast<uint32_t>(copy.axis[2].step)) - static_cast<int>(copy.axis[2].padding)};
    x += item.quotient * copy.item_x + item.remainder * copy.channel_x;
    y += item.quotient * copy.item_y + item.remainder * copy.channel_y + window * copy.window_y;
    const WindowAxis &outer = copy.axis[0], &middle = copy.axis[1], &inner = copy.axis[2];
    const int places = static_cast<int>(inner.places);
    const uint32_t dilation = static_cast<uint32_t>(inner.dilation);
    const int begin = static_cast<int>(share.remainder) * grid.rows_of_block;
    const int end = min(begin + grid.rows_of_block, grid.rows);
    for (int row = begin; row < end; ++row) {
        const int of_outer = row / static_cast<int>(middle.places),
                  of_middle = row - of_outer * static_cast<int>(middle.places);
        const int at0 = first[0] + of_outer * static_cast<int>(outer.dilation);
        const int at1 = first[1] + of_middle * static_cast<int>(middle.dilation);
        const bool is_inside = static_cast<uint32_t>(at0) < static_cast<uint32_t>(outer.extent) &&
                               static_cast<uint32_t>(at1) < static_cast<uint32_t>(middle.extent);
        const uint32_t extent = is_inside ? static_cast<uint32_t>(inner.extent) : 0;
        const Bits* const from = x + at0 * outer.stride + at1 * middle.stride;
        Bits* to = y + int64_t{row} * places * copy.place_y;
        for (int place = 0; place < places; place += kPlacesAtOnce) {
            Bits cell[kPlacesAtOnce];
#pragma unroll
            for (int u = 0; u < kPlacesAtOnce; ++u) {
                const uint32_t at = static_cast<uint32_t>(first[2]) + static_cast<uint32_t>(place + u) * dilation;
                cell[u] = Bits{};
                if (place + u < places && at < extent) cell[u] = from[at * inner.stride];
            }
#pragma unroll
            for (int u = 0; u < kPlacesAtOnce; ++u, to += copy.place_y)
                if (place + u < places) *to = cell[u];
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

Status join_windows(const Launch& launch, const WindowCopy& copy, int bytes, const void* y, void* x, bool* is_done) {
    WindowTiles tiles;
    *is_done = bytes > 1 && cuts_image(copy) && WindowTiles::of(copy, bytes, y, &tiles);
    if (!*is_done) return Status::kOk;
    switch (bytes) {
        case 2: return launch_tiles<uint16_t>(launch, join_window_tiles_kernel<uint16_t>, tiles, y, x);
        case 4: return launch_tiles<uint32_t>(launch, join_window_tiles_kernel<uint32_t>, tiles, y, x);
        default: return launch_tiles<uint64_t>(launch, join_window_tiles_kernel<uint64_t>, tiles, y, x);
    }
}

}  // namespace bk
