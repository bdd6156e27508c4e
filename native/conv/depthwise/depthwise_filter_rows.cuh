// SPDX-License-Identifier: Apache-2.0
// Gradient of a depthwise filter of two axes with adjacent channels: rows of x and dy go through shared memory once for all
// taps.
//
// A block has 128 bytes of channels, and a slice of the rows of all images: kFilterRows rows of dy at a time, beside a ring
// of the rows of x that they meet, while copies bring the next ones. A warp has kRows rows of the filter, a lane 4 bytes of
// channels: it reads a pixel of dy and one of each of its rows of x, for kRows * kColumns products. Sums of the warps of a
// block, of slices and of tiles of the width are added in their order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "conv/problem.h"
#include "core/abi/workspace.h"
#include "core/intrinsics/async_copy.cuh"
#include "core/math/math.h"
#include "core/reference_chip.h"
#include "core/types/vec.h"
#include "gemm/matmul.h"

namespace bk {

constexpr int kFilterRows = 2, kFilterRowThreads = 256, kFilterRowWarps = kFilterRowThreads / 32, kFilterPixel = 128;
constexpr int kFilterMostSize = 4;               // bytes of an element
constexpr unsigned kFilterRowShared = 96 << 10;  // bytes of a block, so that two are on an SM

// Rows and columns of a warp's taps. With kSlides steps and dilation are 1: windows are shifted in registers.
template <int kRows_, int kColumns_, bool kSlides_>
struct FilterTile {
    static constexpr int kRows = kRows_, kColumns = kColumns_;
    static constexpr bool kSlides = kSlides_;
};
using FlatFilterTile = FilterTile<2, 7, true>;
using SquareFilterTile = FilterTile<3, 3, false>;

template <class T>
constexpr bool kHasFilterRows = sizeof(T) <= kFilterMostSize;

// Channels of a staged tap, padded: adjacent threads add adjacent taps.
template <class T>
constexpr int kFilterSumPitch = kFilterPixel / static_cast<int>(sizeof(T)) + 1;

struct FilterRowsShape {
    ConvAxis down, across;
    int tile_rows = 0, tile_columns = 0;                      // of the filter tile; 0 if the kernel does not serve the problem
    int groups = 1, segments = 1;                             // warps of filter rows; parts of a row of dy
    int width = 1, tiles = 1, reach = 1;                      // of dy in a tile, tiles of the width, pixels of x in one
    int window = 1, ring = 1;                                 // rows of x that a step reads, and that shared memory holds
    int64_t images = 1, pairs = 1, channels = 1, chunks = 1;  // pairs of rows of an image; chunks of channels
    int64_t slices = 1, slice = 1;                            // of the pairs of all images, and pairs of one
    unsigned shared = 0;

    bool is_valid() const { return tile_rows > 0; }
    int64_t taps() const { return down.taps * across.taps; }
    int64_t partials() const { return slices * tiles; }
};

template <class T>
struct FilterRows {
    const T *x, *dy;
    float* partials;  // [slice, tile of the width, channel, tap]
    FilterRowsShape s;
    int64_t x_image, x_row, x_pixel, dy_image, dy_row, dy_pixel;  // strides; images are those of depth, too
};

// Starts copies of `count` pixels of a row, of which the first is `first`; those outside [0, extent) are zeros, as are all
// without `has_row`.
template <class T>
BK_DEVICE void load_filter_row(char* to, const T* row, int64_t stride, bool has_row, int first, int count, int extent,
                               int64_t channels_left, const T* any, int thread) {
    constexpr int kVectors = kFilterPixel / kVectorBytes, kLanes = kVectorLanes<T>;
    for (int index = thread; index < count * kVectors; index += kFilterRowThreads) {
        const int vector = index % kVectors, pixel = first + index / kVectors;
        const bool is_there =
            has_row && static_cast<unsigned>(pixel) < static_cast<unsigned>(extent) && vector * kLanes < channels_left;
        start_copy_16(to + index * kVectorBytes, is_there ? row + pixel * stride + vector * kLanes : any,
                      is_there ? kVectorBytes : 0);
    }
}

template <class T, class Tile>
__global__ void __launch_bounds__(kFilterRowThreads, 2) depthwise_filter_rows_kernel(const __grid_constant__ FilterRows<T> p) {
    constexpr int kRows = Tile::kRows, kColumns = Tile::kColumns, kLanes = 4 / static_cast<int>(sizeof(T)),
                  kChannels = 32 * kLanes, kOwn = kRows * kColumns, kPitch = kFilterSumPitch<T>;
    BK_LAUNCH_SHARED(uint4, shared_words);
    const FilterRowsShape& s = p.s;
    char* const ring = reinterpret_cast<char*>(shared_words);
    const int x_bytes = s.reach * kFilterPixel, dy_bytes = s.width * kFilterPixel;
    char* const dy_rows = ring + s.ring * x_bytes;
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    int64_t block = blockIdx.x;
    const int64_t chunk = block % s.chunks;
    block /= s.chunks;
    const int tile = static_cast<int>(block % s.tiles);
    const int64_t slice = block / s.tiles, first_channel = chunk * kChannels, left = s.channels - first_channel;
    const int first_q = tile * s.width, step_y = static_cast<int>(s.down.step), step_x = static_cast<int>(s.across.step),
              dilation_y = static_cast<int>(s.down.dilation),
              dilation_x = Tile::kSlides ? 1 : static_cast<int>(s.across.dilation), height = static_cast<int>(s.down.out),
              out = static_cast<int>(s.across.out);
    const int width = s.width < out - first_q ? s.width : out - first_q;

    // This warp's part: rows of the filter, the row of a pair, a segment of it.
    const int group = warp % s.groups, part = warp / s.groups, own_row = part % kFilterRows, segment = part / kFilterRows;
    const int segment_width = (width + s.segments - 1) / s.segments, begin_q = segment * segment_width,
              end_q = begin_q + segment_width < width ? begin_q + segment_width : width;
    const bool slides = Tile::kSlides || step_x == dilation_x, is_active = part < kFilterRows * s.segments && begin_q < end_q;

    const int64_t begin = slice * s.slice, all = s.images * s.pairs, end = begin + s.slice < all ? begin + s.slice : all;
    const int advance = kFilterRows * step_y;
    const int64_t pixels = first_channel;
    // Row y of x is in slot y + pad mod ring, where y + pad is not negative.
    const auto load_x = [&](int64_t image, int first, int count) {
        for (int i = 0; i < count; ++i) {
            const int y = first + i - static_cast<int>(s.down.pad);
            const bool has_row = y >= 0 && y < static_cast<int>(s.down.in);
            load_filter_row(ring + (first + i) % s.ring * x_bytes, p.x + image * p.x_image + y * p.x_row + pixels, p.x_pixel,
                            has_row, first_q * step_x - static_cast<int>(s.across.pad), s.reach, static_cast<int>(s.across.in),
                            left, p.x, thread);
        }
    };
    const auto load_dy = [&](int64_t image, int pair, int slot) {
        for (int i = 0; i < kFilterRows; ++i) {
            const int q = pair * kFilterRows + i;
            load_filter_row(dy_rows + (slot * kFilterRows + i) * dy_bytes, p.dy + image * p.dy_image + q * p.dy_row + pixels,
                            p.dy_pixel, q < height, first_q, width, out, left, p.dy, thread);
        }
    };

    float sums[kRows][kColumns][kLanes] = {};
    bool has_rows = false;  // whether copies of the pair's rows have begun
    for (int64_t index = begin; index < end; ++index) {
        const int64_t image = index / s.pairs;
        const int pair = static_cast<int>(index % s.pairs), slot = static_cast<int>(index - begin) % 2;
        if (!has_rows) {
            load_x(image, pair * advance, s.window);
            load_dy(image, pair, slot);
            end_copy_group();
        }
        has_rows = pair + 1 < s.pairs && index + 1 < end;
        if (has_rows) {
            load_x(image, pair * advance + s.window, advance);
            load_dy(image, pair + 1, 1 - slot);
        }
        end_copy_group();
        wait_for_copies<1>();
        __syncthreads();
        const int q_y = pair * kFilterRows + own_row;
        if (is_active && q_y < height) {
            const char* x[kRows];
#pragma unroll
            for (int i = 0; i < kRows; ++i)
                x[i] = ring + (q_y * step_y + (group * kRows + i) * dilation_y) % s.ring * x_bytes + 4 * lane;
            const char* const dy = dy_rows + (slot * kFilterRows + own_row) * dy_bytes + 4 * lane;
            float inside[kRows][kColumns][kLanes];
            const auto read = [&](int at, int column) {
#pragma unroll
                for (int i = 0; i < kRows; ++i) {
                    const auto elements = load<kLanes>(reinterpret_cast<const T*>(x[i] + column * kFilterPixel));
#pragma unroll
                    for (int v = 0; v < kLanes; ++v) inside[i][at][v] = static_cast<float>(widen_lane(elements, v));
                }
            };
            if (slides) {
#pragma unroll
                for (int c = 0; c < kColumns - 1; ++c) read(c, (begin_q + c) * dilation_x);
            }
            const auto add = [&](int u, int q) {
                if (slides) {
                    read((u + kColumns - 1) % kColumns, (q + kColumns - 1) * dilation_x);
                } else {
#pragma unroll
                    for (int c = 0; c < kColumns; ++c) read((u + c) % kColumns, q * step_x + c * dilation_x);
                }
                const auto gradient = load<kLanes>(reinterpret_cast<const T*>(dy + q * kFilterPixel));
#pragma unroll
                for (int v = 0; v < kLanes; ++v) {
                    const float factor = static_cast<float>(widen_lane(gradient, v));
#pragma unroll
                    for (int i = 0; i < kRows; ++i)
#pragma unroll
                        for (int c = 0; c < kColumns; ++c)
                            sums[i][c][v] = math::fma(inside[i][(u + c) % kColumns][v], factor, sums[i][c][v]);
                }
            };
            int q = begin_q;
            for (; q + kColumns <= end_q; q += kColumns) {
#pragma unroll
                for (int u = 0; u < kColumns; ++u) add(u, q + u);
            }
#pragma unroll
            for (int u = 0; u < kColumns - 1; ++u) {
                if (q + u >= end_q) break;
                add(u, q + u);
            }
        }
        __syncthreads();  // all have read the rows that the next copies replace
    }
    wait_for_copies<0>();

    // Sums as [warp, tap of the tile, channel].
    float* const staged = reinterpret_cast<float*>(shared_words);
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
        for (int c = 0; c < kColumns; ++c)
#pragma unroll
            for (int v = 0; v < kLanes; ++v)
                staged[(warp * kOwn + i * kColumns + c) * kPitch + lane * kLanes + v] = sums[i][c][v];
    __syncthreads();
    const int taps_x = static_cast<int>(s.across.taps), taps = taps_x * static_cast<int>(s.down.taps);
    float* const to = p.partials + ((slice * s.tiles + tile) * s.channels + first_channel) * taps;
    for (int index = thread; index < kChannels * taps; index += kFilterRowThreads) {
        const int channel = index / taps, tap = index % taps, row = tap / taps_x;
        if (channel >= left) continue;
        float sum = 0;
        for (int other = 0; other < kFilterRows * s.segments; ++other)
            sum += staged[((other * s.groups + row / kRows) * kOwn + row % kRows * kColumns + tap % taps_x) * kPitch + channel];
        to[index] = sum;
    }
}

constexpr int kFilterSumColumns = 32, kFilterSumParts = 8;

// Adds `count` partials of `size` sums each: every kFilterSumParts-th by a thread, then those of the threads in order.
template <class T>
__global__ void __launch_bounds__(kFilterSumColumns* kFilterSumParts)
    add_filter_partials_kernel(const __grid_constant__ Epilogue<T> e, const float* partials, int64_t count, int64_t size,
                               int64_t taps) {
    __shared__ float staged[kFilterSumParts][kFilterSumColumns];
    const int column = static_cast<int>(threadIdx.x) % kFilterSumColumns,
              part = static_cast<int>(threadIdx.x) / kFilterSumColumns;
    const int64_t index = int64_t{blockIdx.x} * kFilterSumColumns + column;
    float sum = 0;
    if (index < size) {
#pragma unroll 4
        for (int64_t slice = part; slice < count; slice += kFilterSumParts) sum += partials[slice * size + index];
    }
    staged[part][column] = sum;
    __syncthreads();
    if (part != 0 || index >= size) return;
    for (int other = 1; other < kFilterSumParts; ++other) sum += staged[other][column];
    e.store_one(0, index / taps, index % taps, sum);
}

// --- host ------------------------------------------------------------------------------------------------------------

// The shape of a gradient whose operands have adjacent channels and aligned vectors; not valid where the kernel does not
// serve or suit it. `size` is that of an element.
inline FilterRowsShape filter_rows_shape(const ConvShape& s, int size) {
    FilterRowsShape p;
    const ConvAxis &deep = s.axis[0], &down = s.axis[1], &across = s.axis[2];
    constexpr int64_t kMostReach = 1 << 16, kLeastPairs = 64;
    // Images of depth are images: those of x and dy lie one distance apart.
    const bool is_flat =
        deep.taps == 1 && deep.step == 1 && deep.pad == 0 && deep.in == deep.out &&
        (deep.out == 1 || s.batch == 1 || (s.x.outer == deep.in * s.x.axis[0] && s.y.outer == deep.out * s.y.axis[0]));
    if (size > kFilterMostSize || !is_flat || down.taps < 2 || across.taps > FlatFilterTile::kColumns) return p;
    for (const ConvAxis* a : {&down, &across})
        if (a->in + a->pad + a->step + a->dilation > kMostReach) return p;
    const bool is_square = across.taps <= SquareFilterTile::kColumns;
    if (!is_square && (across.step != 1 || across.dilation != 1)) return p;
    const int rows = is_square ? SquareFilterTile::kRows : FlatFilterTile::kRows,
              columns = is_square ? SquareFilterTile::kColumns : FlatFilterTile::kColumns;
    const int64_t groups = ceil_div<int64_t>(down.taps, rows);
    if (groups > kFilterRowWarps / kFilterRows) return p;
    p.down = down;
    p.across = across;
    p.groups = static_cast<int>(groups);
    p.segments = kFilterRowWarps / p.groups / kFilterRows;
    p.images = s.batch * deep.out;
    p.pairs = ceil_div<int64_t>(down.out, kFilterRows);
    p.channels = s.c_out;
    const int64_t kept = kFilterPixel / size;
    p.chunks = ceil_div(p.channels, kept);
    if (p.images * p.pairs < kLeastPairs) return p;
    const int64_t window = (kFilterRows - 1) * down.step + (down.taps - 1) * down.dilation + 1,
                  ring = window + kFilterRows * down.step;
    for (int64_t tiles = 1; tiles <= across.out; ++tiles) {
        const int64_t width = ceil_div(across.out, tiles),
                      reach = (width - 1) * across.step + (columns - 1) * across.dilation + 1;
        const int64_t sums = kFilterRowWarps * rows * columns * (kept + 1) * static_cast<int64_t>(sizeof(float));
        const int64_t bytes = std::max((ring * reach + 2 * kFilterRows * width) * kFilterPixel, sums);
        if (ceil_div(across.out, width) != tiles || bytes > kFilterRowShared) continue;
        constexpr int64_t kLeastWidth = 8;
        if (tiles > 1 && width < kLeastWidth) return p;
        p.width = static_cast<int>(width);
        p.tiles = static_cast<int>(tiles);
        p.reach = static_cast<int>(reach);
        p.window = static_cast<int>(window);
        p.ring = static_cast<int>(ring);
        p.shared = static_cast<unsigned>(bytes);
        p.tile_rows = rows;
        p.tile_columns = columns;
        break;
    }
    if (!p.is_valid()) return p;
    // Slices that fill the reference chip with two blocks on each SM; a slice has some pairs.
    constexpr int64_t kMinPairs = 4;
    const int64_t all = p.images * p.pairs, wanted = 2 * kReferenceSms / (p.chunks * p.tiles);
    p.slice = std::max(ceil_div(all, std::max<int64_t>(wanted, 1)), kMinPairs);
    p.slices = ceil_div(all, p.slice);
    return p;
}

inline size_t filter_rows_workspace(const FilterRowsShape& p) {
    Carver carver;
    carver.take<float>(p.partials() * p.channels * p.taps());
    return carver.bytes();
}

template <class T>
Status filter_rows(const Launch& launch, const ConvShape& s, const FilterRowsShape& shape, const T* x, const T* dy,
                   const Epilogue<T>& e) {
    if constexpr (kHasFilterRows<T>) {
        FilterRows<T> p{};
        p.x = x;
        p.dy = dy;
        p.s = shape;
        const bool is_deep = s.axis[0].out > 1;
        p.x_image = is_deep ? s.x.axis[0] : s.x.outer;
        p.dy_image = is_deep ? s.y.axis[0] : s.y.outer;
        p.x_row = s.x.axis[1];
        p.dy_row = s.y.axis[1];
        p.x_pixel = s.x.axis[2];
        p.dy_pixel = s.y.axis[2];
        Carver carver(launch.workspace);
        const int64_t size = shape.channels * shape.taps();
        p.partials = carver.take<float>(shape.partials() * size);
        const int64_t blocks = shape.chunks * shape.partials();
        if (blocks > kMaxGridX) return fail(Status::kUnsupported, "a depthwise filter has too many channels for a grid");
        Grid grid{dim3(static_cast<unsigned>(blocks)), dim3(kFilterRowThreads)};
        grid.shared = shape.shared;
        BK_TRY(launch_kernel(launch, grid,
                             shape.tile_columns == SquareFilterTile::kColumns
                                 ? depthwise_filter_rows_kernel<T, SquareFilterTile>
                                 : depthwise_filter_rows_kernel<T, FlatFilterTile>,
                             p));
        const int64_t sum_blocks = ceil_div<int64_t>(size, kFilterSumColumns);
        if (sum_blocks > kMaxGridX) return fail(Status::kUnsupported, "a depthwise filter has too many taps for a grid");
        return launch_kernel(launch, {dim3(static_cast<unsigned>(sum_blocks)), dim3(kFilterSumColumns * kFilterSumParts)},
                             add_filter_partials_kernel<T>, e, p.partials, shape.partials(), size, shape.taps());
    }
    return Status::kInternal;
}

}  // namespace bk
