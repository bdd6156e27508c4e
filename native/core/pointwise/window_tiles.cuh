// Windows of images by tiles. A block has one row of places of the kernel and some lines of windows: it brings what these read
// of the image into shared memory, each element once and in the order of memory, and writes their cells by vectors.
//
// Columns that are `step` apart are neighbours there, as the windows are that read them: a line lies as `step` phases, and a
// vector of windows is a run of a phase, wherever it begins.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/math/fastdiv.h"
#include "core/pointwise/window_copies.h"
#include "core/types/vec.h"

namespace bk {

constexpr int kWindowTileThreads = 256;
constexpr int kWindowTileBytes = 16384;  // of phases, about, so that six blocks fit every multiprocessor
constexpr int kMostWindowLines = 64;
constexpr int kColumnsOfLane = 8, kColumnsOfWarp = 32 * kColumnsOfLane;

struct WindowTiles {
    WindowCopy copy;
    FastDiv<uint32_t> channels, image_lines, plane_lines;  // of an item; of windows in an image; of its last two axes
    FastDiv<uint32_t> place_rows, middle_places;           // of the kernel; along its middle axis
    FastDiv<uint32_t> line_tiles;                          // of a line of windows
    FastDiv<uint32_t> step, chunks, vectors;               // columns; warps' shares of a line's columns; of a tile's line
    FastDiv<uint32_t> block_vectors;                       // of all lines of a block
    int lines, lines_of_block, windows;                    // windows of a tile's line
    int span;                                              // columns that these read
    int line_pitch, phase_pitch;                           // bytes
    int vector_bytes;
    int64_t blocks;

    // Where a warp's next columns and the next place of a row are, and what a step to the next phases is too far.
    struct Advance {
        int phases, bytes;
    };
    Advance next_columns, next_place;
    int wrap;

    unsigned shared_bytes() const { return static_cast<unsigned>(step.divisor()) * phase_pitch + kVectorBytes; }
    Advance advance(int64_t columns, int bytes) const {
        const int64_t step = this->step.divisor();
        return {static_cast<int>(columns % step), static_cast<int>(columns / step * bytes + columns % step * phase_pitch)};
    }

    // False where a thread a window does better, or numbers do not fit 32 bits.
    static bool of(const WindowCopy& copy, int bytes, const void* y, WindowTiles* tiles) {
        constexpr int64_t kMost = INT32_MAX - 4 * kWindowTileBytes, kEnoughBlocks = 132 * 16, kLeastWindows = 8;
        const WindowAxis &outer = copy.axis[0], &middle = copy.axis[1], &inner = copy.axis[2];
        const int64_t reach = (inner.places - 1) * inner.dilation + 1;
        for (const WindowAxis& a : copy.axis)
            if (a.extent + 2 * a.padding > kMost) return false;
        if (bytes > 8 || copy.window_y != 1 || inner.windows < kLeastWindows || inner.step > 2 * reach) return false;
        if (copy.items > kMost / copy.channels) return false;
        const int64_t image_lines = outer.windows * middle.windows, images = copy.items * copy.channels;
        const int64_t place_rows = outer.places * middle.places;
        if (image_lines > kMost || images > kMost / image_lines || place_rows > kMost) return false;
        const int64_t before = (reach - 1) / inner.step;  // of a phase, from the first place of a window to its last
        const int64_t fit = kWindowTileBytes / inner.step / kVectorBytes * kVectorBytes / bytes - before;
        if (fit < std::min<int64_t>(inner.windows, kVectorBytes)) return false;
        const int64_t windows = fit < inner.windows ? fit / kVectorBytes * kVectorBytes : inner.windows;
        const int64_t line_tiles = ceil_div(inner.windows, windows), lines = images * image_lines;
        const int64_t line_pitch = ceil_div<int64_t>((windows + before) * bytes, kVectorBytes) * kVectorBytes;
        int64_t of_block = std::min<int64_t>({lines, kMostWindowLines, kWindowTileBytes / (inner.step * line_pitch)});
        const auto blocks_of = [&](int64_t count) { return ceil_div(lines, count) * line_tiles; };
        while (of_block > 4 && blocks_of(of_block) * place_rows < kEnoughBlocks) of_block = (of_block + 1) / 2;
        if (blocks_of(of_block) > kMost / place_rows) return false;

        const auto has_vectors = [&](int wide) {
            const auto fits = [&](int64_t elements) { return elements * bytes % wide == 0; };
            return is_aligned(y, static_cast<size_t>(wide)) && fits(inner.windows) && fits(copy.place_y) &&
                   fits(copy.channel_y) && fits(copy.item_y);
        };
        WindowTiles t{};
        t.copy = copy;
        t.channels = FastDiv<uint32_t>(copy.channels);
        t.image_lines = FastDiv<uint32_t>(image_lines);
        t.plane_lines = FastDiv<uint32_t>(middle.windows);
        t.place_rows = FastDiv<uint32_t>(place_rows);
        t.middle_places = FastDiv<uint32_t>(middle.places);
        t.line_tiles = FastDiv<uint32_t>(line_tiles);
        t.step = FastDiv<uint32_t>(inner.step);
        t.lines = static_cast<int>(lines);
        t.lines_of_block = static_cast<int>(of_block);
        t.windows = static_cast<int>(windows);
        t.span = static_cast<int>((windows - 1) * inner.step + reach);
        t.chunks = FastDiv<uint32_t>(ceil_div(t.span, kColumnsOfWarp));
        t.vector_bytes = has_vectors(kVectorBytes) ? kVectorBytes : bytes < 4 && has_vectors(4) ? 4 : bytes;
        t.vectors = FastDiv<uint32_t>(ceil_div<int64_t>(windows * bytes, t.vector_bytes));
        t.block_vectors = FastDiv<uint32_t>(of_block * t.vectors.divisor());
        t.line_pitch = static_cast<int>(line_pitch);
        t.phase_pitch = static_cast<int>(of_block * line_pitch) | kVectorBytes;  // phases begin at different banks
        t.next_columns = t.advance(32, bytes);
        t.next_place = t.advance(inner.dilation, bytes);
        t.wrap = bytes - static_cast<int>(inner.step) * t.phase_pitch;
        t.blocks = blocks_of(of_block) * place_rows;
        *tiles = t;
        return true;
    }
};

// Bytes of shared memory as words, wherever they begin: out of the aligned ones around them.
template <int Bytes>
BK_DEVICE Vec<uint32_t, Bytes / 4> staged_words(const char* at) {
    constexpr int kWords = Bytes / 4;
    const uint32_t skipped = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(at) % Bytes);
    const uint32_t* const aligned = reinterpret_cast<const uint32_t*>(at - skipped);
    Vec<uint32_t, kWords> result = load<kWords>(aligned);
    if (skipped == 0) return result;
    const Vec<uint32_t, kWords> next = load<kWords>(aligned + kWords);
    uint32_t word[2 * kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) word[i] = result.lane[i], word[kWords + i] = next.lane[i];
    if constexpr (kWords == 4) {
#pragma unroll
        for (int i = 0; i < kWords + 2; ++i) word[i] = skipped & 8 ? word[i + 2] : word[i];
#pragma unroll
        for (int i = 0; i < kWords + 1; ++i) word[i] = skipped & 4 ? word[i + 1] : word[i];
    }
#pragma unroll
    for (int i = 0; i < kWords; ++i) result.lane[i] = __funnelshift_r(word[i], word[i + 1], 8 * (skipped & 3));
    return result;
}

// Where a line of windows has its first column in the image and its first cell in y, in elements.
struct WindowLine {
    int64_t x, y;
    bool is_inside;  // of the image along the outer axes
};

BK_DEVICE WindowLine window_line(const WindowTiles& tiles, uint32_t line, uint32_t place_row, int window) {
    const WindowCopy& copy = tiles.copy;
    const WindowAxis &outer = copy.axis[0], &middle = copy.axis[1], &inner = copy.axis[2];
    const DivMod<uint32_t> image = tiles.image_lines(line), item = tiles.channels(image.quotient);
    const DivMod<uint32_t> window_of = tiles.plane_lines(image.remainder), place = tiles.middle_places(place_row);
    const int64_t at0 = window_of.quotient * outer.step + place.quotient * outer.dilation - outer.padding;
    const int64_t at1 = window_of.remainder * middle.step + place.remainder * middle.dilation - middle.padding;
    const int64_t at2 = window * inner.step - inner.padding;
    return {item.quotient * copy.item_x + item.remainder * copy.channel_x + at0 * outer.stride + at1 * middle.stride +
                at2 * inner.stride,
            item.quotient * copy.item_y + item.remainder * copy.channel_y + place_row * inner.places * copy.place_y +
                image.remainder * inner.windows + window,
            at0 >= 0 && at0 < outer.extent && at1 >= 0 && at1 < middle.extent};
}

// What a block has: `lines` of windows, from number `window` of each on.
struct WindowTile {
    int lines, window;
};

// Finds the block's lines, all of its threads together.
BK_DEVICE WindowTile window_tile(const WindowTiles& tiles, WindowLine* line) {
    const DivMod<uint32_t> by_row = tiles.place_rows(blockIdx.x), by_tile = tiles.line_tiles(by_row.quotient);
    const int first = static_cast<int>(by_tile.quotient) * tiles.lines_of_block;
    const int lines = min(tiles.lines_of_block, tiles.lines - first);
    const int window = static_cast<int>(by_tile.remainder) * tiles.windows;
    if (static_cast<int>(threadIdx.x) < lines)
        line[threadIdx.x] = window_line(tiles, static_cast<uint32_t>(first) + threadIdx.x, by_row.remainder, window);
    __syncthreads();
    return {lines, window};
}

// A warp takes columns of one line at once.
template <class Bits>
BK_DEVICE void stage_windows(const WindowTiles& tiles, const WindowLine* line, int lines, int window, const Bits* x,
                             char* staged) {
    const WindowAxis& inner = tiles.copy.axis[2];
    const uint32_t first = static_cast<uint32_t>(window * inner.step - inner.padding);
    const uint32_t span = static_cast<uint32_t>(tiles.span), lane = threadIdx.x % 32, step = tiles.step.divisor();
    const uint32_t units = static_cast<uint32_t>(lines) * tiles.chunks.divisor();
    for (uint32_t unit = threadIdx.x / 32; unit < units; unit += kWindowTileThreads / 32) {
        const DivMod<uint32_t> part = tiles.chunks(unit);
        const uint32_t column = part.remainder * kColumnsOfWarp + lane;
        const WindowLine own = line[part.quotient];
        const uint32_t extent = own.is_inside ? static_cast<uint32_t>(inner.extent) : 0;
        const Bits* const from = x + own.x + column * inner.stride;
        Bits cell[kColumnsOfLane];
#pragma unroll
        for (int u = 0; u < kColumnsOfLane; ++u) {
            cell[u] = Bits{};
            if (column + 32 * u < span && first + column + 32 * u < extent) cell[u] = from[32 * u * inner.stride];
        }
        const DivMod<uint32_t> place = tiles.step(column);
        char* to =
            staged + part.quotient * tiles.line_pitch + place.remainder * tiles.phase_pitch + place.quotient * sizeof(Bits);
        uint32_t phase = place.remainder;
#pragma unroll
        for (int u = 0; u < kColumnsOfLane; ++u) {
            if (column + 32 * u < span) *reinterpret_cast<Bits*>(to) = cell[u];
            phase += tiles.next_columns.phases, to += tiles.next_columns.bytes;
            if (phase >= step) phase -= step, to += tiles.wrap;
        }
    }
}

// A thread has the windows of one vector of y at every place of the row.
template <int Bytes, class Bits>
BK_DEVICE void write_windows(const WindowTiles& tiles, const WindowLine* line, int lines, int window, const char* staged,
                             Bits* y) {
    const WindowCopy& copy = tiles.copy;
    const uint32_t step = tiles.step.divisor();
    const uint32_t vectors = static_cast<uint32_t>(lines) * tiles.vectors.divisor();
    const int64_t next = copy.place_y * static_cast<int>(sizeof(Bits));
    const int places = static_cast<int>(copy.axis[2].places);
    for (uint32_t i = threadIdx.x; i < vectors; i += kWindowTileThreads) {
        const DivMod<uint32_t> at = tiles.vectors(i);
        const int begin = static_cast<int>(at.remainder) * Bytes;
        if (window + begin / static_cast<int>(sizeof(Bits)) >= static_cast<int>(copy.axis[2].windows)) continue;
        const char* from = staged + at.quotient * tiles.line_pitch + begin;
        char* to = reinterpret_cast<char*>(y + line[at.quotient].y) + begin;
        uint32_t phase = 0;
        for (int place = 0; place < places; ++place, to += next) {
            if constexpr (Bytes == sizeof(Bits))
                *reinterpret_cast<Bits*>(to) = *reinterpret_cast<const Bits*>(from);
            else
                store<Bytes / 4>(reinterpret_cast<uint32_t*>(to), staged_words<Bytes>(from));
            phase += tiles.next_place.phases, from += tiles.next_place.bytes;
            if (phase >= step) phase -= step, from += tiles.wrap;
        }
    }
}

template <class Bits>
__global__ void __launch_bounds__(kWindowTileThreads, 6)
    copy_window_tiles_kernel(const __grid_constant__ WindowTiles tiles, const Bits* x, Bits* y) {
    BK_LAUNCH_SHARED(uint4, shared_memory);
    __shared__ WindowLine line[kMostWindowLines];
    char* const staged = reinterpret_cast<char*>(shared_memory);
    const auto [lines, window] = window_tile(tiles, line);
    stage_windows(tiles, line, lines, window, x, staged);
    __syncthreads();
    if (tiles.vector_bytes == kVectorBytes) {
        write_windows<kVectorBytes>(tiles, line, lines, window, staged, y);
        return;
    }
    if constexpr (sizeof(Bits) < 4)
        if (tiles.vector_bytes == 4) {
            write_windows<4>(tiles, line, lines, window, staged, y);
            return;
        }
    write_windows<static_cast<int>(sizeof(Bits))>(tiles, line, lines, window, staged, y);
}

}  // namespace bk
