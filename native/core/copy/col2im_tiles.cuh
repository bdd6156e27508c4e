// SPDX-License-Identifier: Apache-2.0
// col2im for windows that tile the image, on the tiles of im2col_tiles.cuh: a block loads some window rows at one
// kernel row into shared memory, by vectors, and writes the image rows.
//
// Windows do not overlap, so the phase of a column is its tap, and the windows of one phase are adjacent.
#pragma once

#include <cstdint>

#include "core/copy/im2col_tiles.cuh"
#include "core/types/vec.h"

namespace bk {

constexpr int kToImageUnroll = 4;  // vectors of a thread in flight together

// Whether every element of the image is in exactly one window, at one tap.
inline bool windows_tile_image(const WindowCopy& copy) {
    for (const WindowAxis& a : copy.axis)
        if (a.is_padded() || a.step != a.taps || (a.taps > 1 && a.dilation != 1) || a.windows * a.step != a.extent)
            return false;
    return true;
}

template <int Bytes, class Bits>
struct CellsOf {
    using type = Vec<uint32_t, Bytes / 4>;
};
template <class Bits>
struct CellsOf<sizeof(Bits), Bits> {
    using type = Bits;
};

// Adjacent threads load adjacent vectors of windows at one tap.
template <int Bytes, class Bits>
BK_DEVICE void stage_cells(const WindowTiles& tiles, const WindowRow* row, int rows, int window, const Bits* y, char* staged) {
    using Cells = typename CellsOf<Bytes, Bits>::type;
    const WindowAxis& inner = tiles.copy.axis[2];
    const uint32_t vectors = static_cast<uint32_t>(rows) * tiles.vectors.divisor();
    const uint32_t count = tiles.block_vectors.divisor() * static_cast<uint32_t>(inner.taps);
#pragma unroll 1
    for (uint32_t first = threadIdx.x; first < count; first += kWindowTileThreads * kToImageUnroll) {
        Cells cells[kToImageUnroll];
        char* to[kToImageUnroll];
#pragma unroll
        for (int u = 0; u < kToImageUnroll; ++u) {
            const uint32_t i = first + u * kWindowTileThreads;
            const DivMod<uint32_t> tap = tiles.block_vectors(i), at = tiles.vectors(tap.remainder);
            const int begin = static_cast<int>(at.remainder) * Bytes;
            to[u] = nullptr;
            if (i >= count || tap.remainder >= vectors ||
                window + begin / static_cast<int>(sizeof(Bits)) >= static_cast<int>(inner.windows))
                continue;
            to[u] = staged + tap.quotient * tiles.phase_pitch + at.quotient * tiles.row_pitch + begin;
            const Bits* const from = y + row[at.quotient].y + tap.quotient * tiles.copy.tap_y;
            cells[u] = *reinterpret_cast<const Cells*>(reinterpret_cast<const char*>(from) + begin);
        }
#pragma unroll
        for (int u = 0; u < kToImageUnroll; ++u)
            if (to[u] != nullptr) *reinterpret_cast<Cells*>(to[u]) = cells[u];
    }
}

// A warp writes adjacent columns of one row.
template <class Bits>
BK_DEVICE void write_image_rows(const WindowTiles& tiles, const WindowRow* row, int rows, int window, const char* staged,
                                Bits* x) {
    const WindowAxis& inner = tiles.copy.axis[2];
    const uint32_t remaining = static_cast<uint32_t>(inner.extent - window * inner.step);
    const uint32_t span = min(static_cast<uint32_t>(tiles.span), remaining), lane = threadIdx.x % 32,
                   step = tiles.step.divisor();
    const uint32_t units = static_cast<uint32_t>(rows) * tiles.chunks.divisor();
#pragma unroll 1
    for (uint32_t unit = threadIdx.x / 32; unit < units; unit += kWindowTileThreads / 32) {
        const DivMod<uint32_t> chunk = tiles.chunks(unit);
        const uint32_t column = chunk.remainder * kColumnsOfWarp + lane;
        Bits* const to = x + row[chunk.quotient].x + column * inner.stride;
        const DivMod<uint32_t> in_phase = tiles.step(column);
        const char* from = staged + chunk.quotient * tiles.row_pitch + in_phase.remainder * tiles.phase_pitch +
                           in_phase.quotient * sizeof(Bits);
        uint32_t phase = in_phase.remainder;
#pragma unroll
        for (int u = 0; u < kColumnsOfLane; ++u) {
            if (column + 32 * u < span) to[32 * u * inner.stride] = *reinterpret_cast<const Bits*>(from);
            phase += tiles.next_columns.phases, from += tiles.next_columns.bytes;
            if (phase >= step) phase -= step, from += tiles.wrap;
        }
    }
}

template <class Bits>
__global__ void __launch_bounds__(kWindowTileThreads, 6)
    window_tiles_to_image_kernel(const __grid_constant__ WindowTiles tiles, const Bits* y, Bits* x) {
    BK_LAUNCH_SHARED(uint4, shared_memory);
    __shared__ WindowRow row[kMaxWindowRows];
    char* const staged = reinterpret_cast<char*>(shared_memory);
    const WindowTile tile = window_tile(tiles, row);
    constexpr int kElement = static_cast<int>(sizeof(Bits)), kWord = kElement < 4 ? 4 : kElement;
    if (tiles.vector_bytes == kVectorBytes)
        stage_cells<kVectorBytes>(tiles, row, tile.rows, tile.window, y, staged);
    else if (tiles.vector_bytes == kWord)
        stage_cells<kWord>(tiles, row, tile.rows, tile.window, y, staged);
    else
        stage_cells<kElement>(tiles, row, tile.rows, tile.window, y, staged);
    __syncthreads();
    write_image_rows(tiles, row, tile.rows, tile.window, staged, x);
}

}  // namespace bk
