// SPDX-License-Identifier: Apache-2.0
// im2col by tiles. A block owns one kernel row and some window rows: it loads the image columns that these read into
// shared memory, each element once and coalesced, and writes windows by vectors.
//
// Columns `step` apart are adjacent in shared memory: a row is stored as `step` phases, so that a vector of adjacent
// windows is contiguous within a phase, at any alignment.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/copy/im2col.h"
#include "core/math/fastdiv.h"
#include "core/reference_chip.h"
#include "core/types/vec.h"

namespace bk {

constexpr int kWindowTileThreads = 256;
constexpr int kWindowTileBytes = 16384;  // target for all phases, so that six blocks fit an SM
constexpr int kMaxWindowRows = 64;
constexpr int kColumnsOfLane = 8, kColumnsOfWarp = 32 * kColumnsOfLane;

struct WindowTiles {
    WindowCopy copy;
    FastDiv<uint32_t> channels, image_rows, plane_rows;  // of an item; window rows of an image; of its last two axes
    FastDiv<uint32_t> kernel_rows, middle_taps;          // kernel rows; taps along the middle axis
    FastDiv<uint32_t> row_tiles;                         // tiles of a window row
    FastDiv<uint32_t> step, chunks, vectors;  // columns; warp-sized chunks of a row's columns; vectors of a tile's row
    FastDiv<uint32_t> block_vectors;          // vectors of all rows of a block
    int rows, rows_per_block, windows;        // windows of a tile's row
    int span;                                 // columns that these windows read
    int row_pitch, phase_pitch;               // bytes
    int vector_bytes;
    int64_t blocks;

    // Shared-memory advance to a warp's next columns and to the next tap; `wrap` corrects an advance past the last
    // phase.
    struct Advance {
        int phases, bytes;
    };
    Advance next_columns, next_tap;
    int wrap;

    unsigned shared_bytes() const { return static_cast<unsigned>(step.divisor()) * phase_pitch + kVectorBytes; }
    Advance advance(int64_t columns, int bytes) const {
        const int64_t step = this->step.divisor();
        return {static_cast<int>(columns % step), static_cast<int>(columns / step * bytes + columns % step * phase_pitch)};
    }

    // Returns false if one thread per window does better, or counts do not fit 32 bits.
    static bool of(const WindowCopy& copy, int bytes, const void* y, WindowTiles* tiles) {
        constexpr int64_t kMost = INT32_MAX - 4 * kWindowTileBytes, kMinBlocks = kReferenceSms * 16, kMinWindows = 8;
        const WindowAxis &outer = copy.axis[0], &middle = copy.axis[1], &inner = copy.axis[2];
        const int64_t reach = (inner.taps - 1) * inner.dilation + 1;
        for (const WindowAxis& a : copy.axis)
            if (a.span() > kMost) return false;
        if (bytes > 8 || copy.window_y != 1 || inner.windows < kMinWindows || inner.step > 2 * reach) return false;
        if (copy.items > kMost / copy.channels) return false;
        const int64_t image_rows = outer.windows * middle.windows, images = copy.items * copy.channels;
        const int64_t kernel_rows = outer.taps * middle.taps;
        if (image_rows > kMost || images > kMost / image_rows || kernel_rows > kMost) return false;
        const int64_t before = (reach - 1) / inner.step;  // phase elements from the first to the last tap
        const int64_t fit = kWindowTileBytes / inner.step / kVectorBytes * kVectorBytes / bytes - before;
        if (fit < std::min<int64_t>(inner.windows, kVectorBytes)) return false;
        const int64_t windows = fit < inner.windows ? fit / kVectorBytes * kVectorBytes : inner.windows;
        const int64_t row_tiles = ceil_div(inner.windows, windows), rows = images * image_rows;
        const int64_t row_pitch = ceil_div<int64_t>((windows + before) * bytes, kVectorBytes) * kVectorBytes;
        int64_t block_rows = std::min<int64_t>({rows, kMaxWindowRows, kWindowTileBytes / (inner.step * row_pitch)});
        const auto blocks_of = [&](int64_t count) { return ceil_div(rows, count) * row_tiles; };
        while (block_rows > 4 && blocks_of(block_rows) * kernel_rows < kMinBlocks) block_rows = (block_rows + 1) / 2;
        if (blocks_of(block_rows) > kMost / kernel_rows) return false;

        const auto has_vectors = [&](int wide) {
            const auto fits = [&](int64_t elements) { return elements * bytes % wide == 0; };
            return is_aligned(y, static_cast<size_t>(wide)) && fits(inner.windows) && fits(copy.tap_y) &&
                   fits(copy.channel_y) && fits(copy.item_y);
        };
        WindowTiles t{};
        t.copy = copy;
        t.channels = FastDiv<uint32_t>(copy.channels);
        t.image_rows = FastDiv<uint32_t>(image_rows);
        t.plane_rows = FastDiv<uint32_t>(middle.windows);
        t.kernel_rows = FastDiv<uint32_t>(kernel_rows);
        t.middle_taps = FastDiv<uint32_t>(middle.taps);
        t.row_tiles = FastDiv<uint32_t>(row_tiles);
        t.step = FastDiv<uint32_t>(inner.step);
        t.rows = static_cast<int>(rows);
        t.rows_per_block = static_cast<int>(block_rows);
        t.windows = static_cast<int>(windows);
        t.span = static_cast<int>((windows - 1) * inner.step + reach);
        t.chunks = FastDiv<uint32_t>(ceil_div(t.span, kColumnsOfWarp));
        t.vector_bytes = has_vectors(kVectorBytes) ? kVectorBytes : bytes < 4 && has_vectors(4) ? 4 : bytes;
        t.vectors = FastDiv<uint32_t>(ceil_div<int64_t>(windows * bytes, t.vector_bytes));
        t.block_vectors = FastDiv<uint32_t>(block_rows * t.vectors.divisor());
        t.row_pitch = static_cast<int>(row_pitch);
        t.phase_pitch = static_cast<int>(block_rows * row_pitch) | kVectorBytes;  // phases begin at different banks
        t.next_columns = t.advance(32, bytes);
        t.next_tap = t.advance(inner.dilation, bytes);
        t.wrap = bytes - static_cast<int>(inner.step) * t.phase_pitch;
        t.blocks = blocks_of(block_rows) * kernel_rows;
        *tiles = t;
        return true;
    }
};

// Loads unaligned bytes of shared memory as words, from the two aligned vectors around them.
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

// Offsets of a window row's first column in the image and first element in y.
struct WindowRow {
    int64_t x, y;
    bool is_inside;  // within the image along the outer axes
};

BK_DEVICE WindowRow window_row(const WindowTiles& tiles, uint32_t row, uint32_t kernel_row, int window) {
    const WindowCopy& copy = tiles.copy;
    const WindowAxis &outer = copy.axis[0], &middle = copy.axis[1], &inner = copy.axis[2];
    const DivMod<uint32_t> image = tiles.image_rows(row), item = tiles.channels(image.quotient);
    const DivMod<uint32_t> window_of = tiles.plane_rows(image.remainder), tap = tiles.middle_taps(kernel_row);
    const int64_t outer_at = window_of.quotient * outer.step + tap.quotient * outer.dilation - outer.padding;
    const int64_t middle_at = window_of.remainder * middle.step + tap.remainder * middle.dilation - middle.padding;
    const int64_t inner_at = window * inner.step - inner.padding;
    return {item.quotient * copy.item_x + item.remainder * copy.channel_x + outer_at * outer.stride +
                middle_at * middle.stride + inner_at * inner.stride,
            item.quotient * copy.item_y + item.remainder * copy.channel_y + kernel_row * inner.taps * copy.tap_y +
                image.remainder * inner.windows + window,
            outer_at >= 0 && outer_at < outer.extent && middle_at >= 0 && middle_at < middle.extent};
}

// The block's tile: `rows` window rows, windows from index `window` on.
struct WindowTile {
    int rows, window;
};

// Computes the block's rows; all threads call it.
BK_DEVICE WindowTile window_tile(const WindowTiles& tiles, WindowRow* row) {
    const DivMod<uint32_t> by_row = tiles.kernel_rows(blockIdx.x), by_tile = tiles.row_tiles(by_row.quotient);
    const int first = static_cast<int>(by_tile.quotient) * tiles.rows_per_block;
    const int rows = min(tiles.rows_per_block, tiles.rows - first);
    const int window = static_cast<int>(by_tile.remainder) * tiles.windows;
    if (static_cast<int>(threadIdx.x) < rows)
        row[threadIdx.x] = window_row(tiles, static_cast<uint32_t>(first) + threadIdx.x, by_row.remainder, window);
    __syncthreads();
    return {rows, window};
}

// A warp loads adjacent columns of one row.
template <class Bits>
BK_DEVICE void stage_windows(const WindowTiles& tiles, const WindowRow* row, int rows, int window, const Bits* x,
                             char* staged) {
    const WindowAxis& inner = tiles.copy.axis[2];
    const uint32_t first = static_cast<uint32_t>(window * inner.step - inner.padding);
    const uint32_t span = static_cast<uint32_t>(tiles.span), lane = threadIdx.x % 32, step = tiles.step.divisor();
    const uint32_t units = static_cast<uint32_t>(rows) * tiles.chunks.divisor();
    for (uint32_t unit = threadIdx.x / 32; unit < units; unit += kWindowTileThreads / 32) {
        const DivMod<uint32_t> chunk = tiles.chunks(unit);
        const uint32_t column = chunk.remainder * kColumnsOfWarp + lane;
        const WindowRow own = row[chunk.quotient];
        const uint32_t extent = own.is_inside ? static_cast<uint32_t>(inner.extent) : 0;
        const Bits* const from = x + own.x + column * inner.stride;
        Bits cell[kColumnsOfLane];
#pragma unroll
        for (int u = 0; u < kColumnsOfLane; ++u) {
            cell[u] = Bits{};
            if (column + 32 * u < span && first + column + 32 * u < extent) cell[u] = from[32 * u * inner.stride];
        }
        const DivMod<uint32_t> in_phase = tiles.step(column);
        char* to = staged + chunk.quotient * tiles.row_pitch + in_phase.remainder * tiles.phase_pitch +
                   in_phase.quotient * sizeof(Bits);
        uint32_t phase = in_phase.remainder;
#pragma unroll
        for (int u = 0; u < kColumnsOfLane; ++u) {
            if (column + 32 * u < span) *reinterpret_cast<Bits*>(to) = cell[u];
            phase += tiles.next_columns.phases, to += tiles.next_columns.bytes;
            if (phase >= step) phase -= step, to += tiles.wrap;
        }
    }
}

// A thread writes one vector of windows at every tap of the kernel row.
template <int Bytes, class Bits>
BK_DEVICE void write_windows(const WindowTiles& tiles, const WindowRow* row, int rows, int window, const char* staged,
                             Bits* y) {
    const WindowCopy& copy = tiles.copy;
    const uint32_t step = tiles.step.divisor();
    const uint32_t vectors = static_cast<uint32_t>(rows) * tiles.vectors.divisor();
    const int64_t next = copy.tap_y * static_cast<int>(sizeof(Bits));
    const int taps = static_cast<int>(copy.axis[2].taps);
    for (uint32_t i = threadIdx.x; i < vectors; i += kWindowTileThreads) {
        const DivMod<uint32_t> at = tiles.vectors(i);
        const int begin = static_cast<int>(at.remainder) * Bytes;
        if (window + begin / static_cast<int>(sizeof(Bits)) >= static_cast<int>(copy.axis[2].windows)) continue;
        const char* from = staged + at.quotient * tiles.row_pitch + begin;
        char* to = reinterpret_cast<char*>(y + row[at.quotient].y) + begin;
        uint32_t phase = 0;
        for (int tap = 0; tap < taps; ++tap, to += next) {
            if constexpr (Bytes == sizeof(Bits))
                *reinterpret_cast<Bits*>(to) = *reinterpret_cast<const Bits*>(from);
            else
                store<Bytes / 4>(reinterpret_cast<uint32_t*>(to), staged_words<Bytes>(from));
            phase += tiles.next_tap.phases, from += tiles.next_tap.bytes;
            if (phase >= step) phase -= step, from += tiles.wrap;
        }
    }
}

template <class Bits>
__global__ void __launch_bounds__(kWindowTileThreads, 6)
    copy_window_tiles_kernel(const __grid_constant__ WindowTiles tiles, const Bits* x, Bits* y) {
    BK_LAUNCH_SHARED(uint4, shared_memory);
    __shared__ WindowRow row[kMaxWindowRows];
    char* const staged = reinterpret_cast<char*>(shared_memory);
    const auto [rows, window] = window_tile(tiles, row);
    stage_windows(tiles, row, rows, window, x, staged);
    __syncthreads();
    if (tiles.vector_bytes == kVectorBytes) {
        write_windows<kVectorBytes>(tiles, row, rows, window, staged, y);
        return;
    }
    if constexpr (sizeof(Bits) < 4)
        if (tiles.vector_bytes == 4) {
            write_windows<4>(tiles, row, rows, window, staged, y);
            return;
        }
    write_windows<static_cast<int>(sizeof(Bits))>(tiles, row, rows, window, staged, y);
}

}  // namespace bk
