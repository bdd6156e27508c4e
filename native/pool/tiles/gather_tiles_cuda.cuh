// SPDX-License-Identifier: Apache-2.0
// Gradients of pooling of dense planes on a GPU. A block has the cells of a tile; it first records each window that meets
// them, once: its gradient, and its greatest cell or its weight. Then a thread gathers for a cell at a time.
#pragma once

#include <algorithm>

#include "pool/gather_windows.h"
#include "pool/tiles/reduce_tiles_cuda.cuh"

namespace bk::pool {

constexpr int64_t kMostScanned = 64;  // cells of a window that one thread scans

// The note of a window, recorded beside its gradient.
template <class Rule, class T>
struct WindowNote {
    using type = compute_t<T>;  // weight
};
template <class T>
struct WindowNote<MaxGradient, T> {
    using type = int32_t;  // number of the greatest cell, or -1
};
template <class T>
struct WindowNote<NormGradient<T>, T> {
    using type = T;  // norm
};

// Shared memory of a tile; extents are those of the block, or upper bounds.
template <class Rule, class T>
struct GatherMemory {
    using Note = typename WindowNote<Rule, T>::type;
    int64_t covers, gradients, cells, bytes;  // offsets; notes are in front

    BK_HD GatherMemory(int64_t windows, int64_t covered, int64_t staged) {
        covers = aligned(windows * static_cast<int64_t>(sizeof(Note)));
        gradients = aligned(covers + covered * static_cast<int64_t>(sizeof(uint32_t)));
        cells = aligned(gradients + windows * static_cast<int64_t>(sizeof(T)));
        bytes = staged == 0 ? cells : cells + kVectorBytes + staged * static_cast<int64_t>(sizeof(T));
    }

private:
    static BK_HD int64_t aligned(int64_t at) { return (at + kVectorBytes - 1) / kVectorBytes * kVectorBytes; }
};

// The greatest cell of a window whose first cell is at `first`, from `cells` in shared memory: by its number, or -1.
template <class T>
struct WindowScan {
    using C = compute_t<T>;
    const Problem& p;
    Taps ta, tb, tc;
    const T* first;
    int32_t slab;
    bool is_narrow, is_absolute;

    template <class Use>
    BK_DEVICE void each(const Use& use) const {
        const int32_t row = p.axis[2].in;
        for (int32_t a = 0; a < ta.count; ++a)
            for (int32_t b = 0; b < tb.count; ++b) {
                const T* const from = first + a * slab + b * row;
                const int32_t number = ((ta.first + a) * p.axis[1].in + tb.first + b) * row + tc.first;
                each_of_row(is_narrow, tc.count, [&](int32_t c) {
                    const C value = widen(from[c]);
                    use(is_absolute ? math::fabs<C>(value) : value, number + c);
                });
            }
    }
    BK_DEVICE int32_t first_equal(C wanted) const {
        int32_t found = -1;
        each([&](C value, int32_t number) { found = (found < 0) & equals(value, wanted) ? number : found; });
        return found;
    }
    BK_DEVICE int32_t greatest() const {
        const MaxOp<T> op;
        auto lane = op.start();
        int32_t begin = -1;
        each([&](C value, int32_t number) {
            begin = begin < 0 ? number : begin;
            op.add(lane, value, number);
        });
        return lane.at < 0 ? begin : lane.at;
    }
};

template <class Rule, class T>
__global__ void __launch_bounds__(kTileThreads)
    gather_tiles_kernel(const __grid_constant__ Problem p, const __grid_constant__ TileGrid grid, Rule rule,
                        const __grid_constant__ GradientArrays<T> arrays, bool adds) {
    using C = compute_t<T>;
    using Note = typename WindowNote<Rule, T>::type;
    constexpr bool kIsMax = std::is_same_v<Rule, MaxGradient>, kIsNorm = std::is_same_v<Rule, NormGradient<T>>;
    BK_LAUNCH_SHARED(uint4, pool_shared);
    const Tile tile(grid, blockIdx.x);
    const bool is_whole = grid.rows == 0;
    Box windows, halo;
    bool has_windows = true;
#pragma unroll
    for (int d = 0; d < kAxes; ++d) {
        windows.of[d] = is_whole || d == 2 ? TileRange{0, p.axis[d].out} : windows_of(p.axis[d], tile.box.of[d]);
        has_windows = has_windows && windows.of[d].size() > 0;
    }
    bool stages = false;
    if constexpr (kIsMax) stages = has_windows && arrays.indices == nullptr;
#pragma unroll
    for (int d = 0; d < kAxes; ++d)
        halo.of[d] = is_whole || d == 2 ? TileRange{0, p.axis[d].in}
                     : stages           ? cells_of(p.axis[d], windows.of[d])
                                        : TileRange{0, 0};
    const int32_t covered = tile.box.of[0].size() + tile.box.of[1].size() + tile.box.of[2].size();
    const int32_t count = has_windows ? tile.planes * windows.size() : 0;
    const GatherMemory<Rule, T> memory(count, covered, 0);
    char* const shared = reinterpret_cast<char*>(pool_shared);
    Note* const notes = reinterpret_cast<Note*>(shared);
    uint32_t* const covers = reinterpret_cast<uint32_t*>(shared + memory.covers);
    T* const gradients = reinterpret_cast<T*>(shared + memory.gradients);
    const T* cells = nullptr;
    if (stages)
        cells = stage_box(reinterpret_cast<T*>(shared + memory.cells), arrays.x, tile.plane, tile.planes, halo, p.axis[0].in,
                          p.axis[1].in, p.axis[2].in);
    const int thread = static_cast<int>(threadIdx.x);
    // The windows of a coordinate, as first + (count << 16).
    int32_t covers_of[kAxes], before = 0;
#pragma unroll
    for (int d = 0; d < kAxes; ++d) {
        covers_of[d] = before - tile.box.of[d].begin;
        for (int32_t i = thread; i < tile.box.of[d].size(); i += kTileThreads) {
            const Cover own = p.axis[d].cover(tile.box.of[d].begin + i);
            const uint32_t size = static_cast<uint32_t>(max(own.high + 1 - own.low, 0));
            covers[before + i] = size == 0 ? 0u : static_cast<uint32_t>(own.low - windows.of[d].begin) | size << 16;
        }
        before += tile.box.of[d].size();
    }
    __syncthreads();

    const int32_t out_row = p.axis[2].out, rows = windows.of[1].size(), slabs = windows.of[0].size();
    const bool scans_narrow = p.axis[2].kernel <= kMostNarrow;
    const FastDiv<uint32_t> by_out_row = grid.by_window_row;
    const int64_t from = ((tile.plane * p.axis[0].out + windows.of[0].begin) * p.axis[1].out + windows.of[1].begin) * out_row;
    for (int32_t i = thread; i < count; i += kTileThreads) {
        const auto row = by_out_row(static_cast<uint32_t>(i));
        int32_t b = static_cast<int32_t>(row.quotient), a = 0, plane = 0;
        if (slabs > 1 || tile.planes > 1) {
            const int32_t slab = b / rows;
            b -= slab * rows;
            plane = slab / slabs, a = slab - plane * slabs;
        }
        const int32_t c = static_cast<int32_t>(row.remainder);
        const int64_t at = from + (is_whole ? i : (a * p.axis[1].out + b) * out_row + c);
        gradients[i] = arrays.dy[at];
        if constexpr (kIsNorm) {
            notes[i] = arrays.y[at];
        } else {
            a += windows.of[0].begin, b += windows.of[1].begin;
            if constexpr (kIsMax) {
                if (!stages) {
                    const int64_t winner = arrays.indices[at];
                    notes[i] = winner >= 0 && winner < p.cells() ? static_cast<int32_t>(winner) : -1;
                    continue;
                }
            }
            const Taps ta = p.axis[0].taps(a), tb = p.axis[1].taps(b), tc = p.axis[2].taps(c);
            if constexpr (kIsMax) {
                const WindowScan<T> scan{p,
                                         ta,
                                         tb,
                                         tc,
                                         cells + halo.at(plane, ta.first, tb.first, tc.first),
                                         halo.of[1].size() * p.axis[2].in,
                                         scans_narrow,
                                         rule.is_absolute};
                notes[i] = arrays.y == nullptr ? scan.greatest() : scan.first_equal(widen(arrays.y[at]));
            } else {
                notes[i] = C(1) / static_cast<C>(rule.divisor.of(ta, tb, tc));
            }
        }
    }
    __syncthreads();

    const bool is_narrow = grid.has_narrow_covers;
    for (int32_t i = thread; i < tile.items; i += kTileThreads) {
        const TileItem item(grid, tile, i);
        const uint32_t ca = covers[covers_of[0] + item.a], cb = covers[covers_of[1] + item.b],
                       cc = covers[covers_of[2] + item.c];
        const auto first = [](uint32_t cover) { return static_cast<int32_t>(cover & 0xffffu); };
        const auto size = [](uint32_t cover) { return static_cast<int32_t>(cover >> 16); };
        T* const dx = arrays.dx + tile.begin + i;
        [[maybe_unused]] const int32_t number = (item.a * p.axis[1].in + item.b) * p.axis[2].in + item.c;
        [[maybe_unused]] C own = 0, sign = 1;
        if constexpr (kIsNorm) own = widen(arrays.x[tile.begin + i]);
        if constexpr (kIsMax)
            if (rule.is_absolute) sign = widen(arrays.x[tile.begin + i]) < C(0) ? C(-1) : C(1);
        C sum = adds ? widen(*dx) : C(0);
        const int32_t base = ((item.plane * slabs + first(ca)) * rows + first(cb)) * out_row + first(cc);
        for (int32_t a = 0; a < size(ca); ++a)
            for (int32_t b = 0; b < size(cb); ++b) {
                const int32_t begin = base + (a * rows + b) * out_row;
                each_of_row(is_narrow, size(cc), [&](int32_t c) {
                    const C gradient = widen(gradients[begin + c]);
                    const Note note = notes[begin + c];
                    if constexpr (kIsMax)
                        sum += note == number ? gradient * sign : C(0);
                    else if constexpr (kIsNorm)
                        sum = math::fma(gradient, rule.op.slope(own, widen(note)), sum);
                    else
                        sum = math::fma(gradient, note, sum);
                });
            }
        *dx = narrow<T>(sum);
    }
}

// The tiles of a gradient, impossible ones if planes are not dense or windows are too large.
template <class Rule, class T>
TileGrid tiles_of_cells(const Problem& p, const GradientArrays<T>& arrays) {
    constexpr int64_t kMost = INT32_MAX;
    const bool stages = std::is_same_v<Rule, MaxGradient> && arrays.indices == nullptr;
    const bool is_dense =
        has_dense_cells(p, p.dx) && has_dense_windows(p, p.dy) && (arrays.x == nullptr || has_dense_cells(p, p.x)) &&
        (arrays.y == nullptr || has_dense_windows(p, p.y)) && (arrays.indices == nullptr || has_dense_windows(p, p.indices));
    if (!is_dense || is_dilated(p) || p.cells() > kMost || p.windows() > kMost || p.windows() == 0) return {};
    if (stages && p.window_cells() > kMostScanned) return {};
    const int32_t extent[] = {p.axis[0].in, p.axis[1].in, p.axis[2].in};
    TileGrid grid = TileGrid::of(p.planes(), extent, [&](int64_t planes, int32_t slabs, int32_t rows) {
        const int64_t a = most_windows(p.axis[0], slabs), b = most_windows(p.axis[1], rows);
        const int64_t staged = stages ? planes * most_cells(p.axis[0], a) * most_cells(p.axis[1], b) * p.axis[2].in : 0;
        return GatherMemory<Rule, T>(planes * a * b * p.axis[2].out, int64_t{slabs} + rows + p.axis[2].in, staged).bytes;
    });
    grid.by_window_row = FastDiv<uint32_t>(p.axis[2].out);
    grid.has_narrow_covers = most_windows(p.axis[2], 1) <= kMostNarrow;
    return grid;
}

template <class Rule, class T>
Status launch_gather_tiles(const Launch& launch, const Problem& p, const TileGrid& grid, const Rule& rule,
                           const GradientArrays<T>& arrays, bool adds) {
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(grid.blocks)), dim3(kTileThreads), 1, grid.bytes},
                         gather_tiles_kernel<Rule, T>, p, grid, rule, arrays, adds);
}

}  // namespace bk::pool
