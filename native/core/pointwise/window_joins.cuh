// Images out of the windows that cut them, by the tiles of copies the other way (window_tiles.cuh): a block brings the cells of
// some lines of windows at one row of places into shared memory, by vectors, and writes the lines of the image.
//
// Windows lie one behind another, so that the phase of a column is its place in a window, and windows are neighbours in one.
#pragma once

#include <cstdint>

#include "core/pointwise/window_tiles.cuh"
#include "core/types/vec.h"

namespace bk {

constexpr int kJoinUnroll = 4;  // vectors of a thread that are in flight together

// Whether every element of the image is in one window, at one place.
inline bool cuts_image(const WindowCopy& copy) {
    for (const WindowAxis& a : copy.axis)
        if (a.is_padded() || a.step != a.places || (a.places > 1 && a.dilation != 1) || a.windows * a.step != a.extent)
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

// Neighbouring threads take neighbouring vectors of windows at a place.
template <int Bytes, class Bits>
BK_DEVICE void stage_cells(const WindowTiles& tiles, const WindowLine* line, int lines, int window, const Bits* y,
                           char* staged) {
    using Cells = typename CellsOf<Bytes, Bits>::type;
    const WindowAxis& inner = tiles.copy.axis[2];
    const uint32_t vectors = static_cast<uint32_t>(lines) * tiles.vectors.divisor();
    const uint32_t count = tiles.block_vectors.divisor() * static_cast<uint32_t>(inner.places);
#pragma unroll 1
    for (uint32_t first = threadIdx.x; first < count; first += kWindowTileThreads * kJoinUnroll) {
        Cells cells[kJoinUnroll];
        char* to[kJoinUnroll];
#pragma unroll
        for (int u = 0; u < kJoinUnroll; ++u) {
            const uint32_t i = first + u * kWindowTileThreads;
            const DivMod<uint32_t> place = tiles.block_vectors(i), at = tiles.vectors(place.remainder);
            const int begin = static_cast<int>(at.remainder) * Bytes;
            to[u] = nullptr;
            if (i >= count || place.remainder >= vectors ||
                window + begin / static_cast<int>(sizeof(Bits)) >= static_cast<int>(inner.windows))
                continue;
            to[u] = staged + place.quotient * tiles.phase_pitch + at.quotient * tiles.line_pitch + begin;
            const Bits* const from = y + line[at.quotient].y + place.quotient * tiles.copy.place_y;
            cells[u] = *reinterpret_cast<const Cells*>(reinterpret_cast<const char*>(from) + begin);
        }
#pragma unroll
        for (int u = 0; u < kJoinUnroll; ++u)
            if (to[u] != nullptr) *reinterpret_cast<Cells*>(to[u]) = cells[u];
    }
}

// A warp takes columns of one line at once.
template <class Bits>
BK_DEVICE void write_lines(const WindowTiles& tiles, const WindowLine* line, int lines, int window, const char* staged,
                           Bits* x) {
    const WindowAxis& inner = tiles.copy.axis[2];
    const uint32_t left = static_cast<uint32_t>(inner.extent - window * inner.step);
    const uint32_t span = min(static_cast<uint32_t>(tiles.span), left), lane = threadIdx.x % 32, step = tiles.step.divisor();
    const uint32_t units = static_cast<uint32_t>(lines) * tiles.chunks.divisor();
#pragma unroll 1
    for (uint32_t unit = threadIdx.x / 32; unit < units; unit += kWindowTileThreads / 32) {
        const DivMod<uint32_t> part = tiles.chunks(unit);
        const uint32_t column = part.remainder * kColumnsOfWarp + lane;
        Bits* const to = x + line[part.quotient].x + column * inner.stride;
        const DivMod<uint32_t> place = tiles.step(column);
        const char* from =
            staged + part.quotient * tiles.line_pitch + place.remainder * tiles.phase_pitch + place.quotient * sizeof(Bits);
        uint32_t phase = place.remainder;
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
    join_window_tiles_kernel(const __grid_constant__ WindowTiles tiles, const Bits* y, Bits* x) {
    BK_LAUNCH_SHARED(uint4, shared_memory);
    __shared__ WindowLine line[kMostWindowLines];
    char* const staged = reinterpret_cast<char*>(shared_memory);
    const WindowTile tile = window_tile(tiles, line);
    constexpr int kElement = static_cast<int>(sizeof(Bits)), kWord = kElement < 4 ? 4 : kElement;
    if (tiles.vector_bytes == kVectorBytes)
        stage_cells<kVectorBytes>(tiles, line, tile.lines, tile.window, y, staged);
    else if (tiles.vector_bytes == kWord)
        stage_cells<kWord>(tiles, line, tile.lines, tile.window, y, staged);
    else
        stage_cells<kElement>(tiles, line, tile.lines, tile.window, y, staged);
    __syncthreads();
    write_lines(tiles, line, tile.lines, tile.window, staged, x);
}

}  // namespace bk
