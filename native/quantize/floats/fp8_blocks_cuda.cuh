// SPDX-License-Identifier: Apache-2.0
// 8-bit floats with f32 scales on a GPU: a thread block reads a tile of 128 x 128 once, 8 x 8 elements a thread, which stay in
// registers from the maxima to the codes of both ways; whole rows are a block's if they fit, and have no tiles.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/collectives/shuffle.cuh"
#include "core/types/vec.h"
#include "quantize/floats/fp8_blocks.h"

namespace bk::floats {

constexpr int kFp8Threads = 256, kFp8Warps = kFp8Threads / 32, kFp8Block = kFp8Segment;  // rows of a thread
constexpr int kFp8RowParts = 8;                                                          // segments of a thread in a whole row
constexpr int64_t kFp8LongestRow = int64_t{kFp8RowParts} * kFp8Threads * kFp8Segment;
constexpr int64_t kFp8Maxima = 1024;  // of a tensor

BK_DEVICE bool is_infinite(float magnitude) { return bit_cast<uint32_t>(magnitude) == 0x7f800000u; }

// Adjacent elements of a row in words as they lie in memory, which the compiler does not widen; zeros behind the row's end.
template <class T>
struct Fp8Elements {
    static constexpr int kWords = kFp8Segment * static_cast<int>(sizeof(T)) / 4, kOfWord = kFp8Segment / kWords;
    uint32_t word[kWords];

    BK_DEVICE float at(int i) const { return widen_lane(bit_cast<Vec<T, kOfWord>>(word[i / kOfWord]), i % kOfWord); }
    BK_DEVICE void set(int i, T value) {
        Vec<T, kOfWord> lanes = bit_cast<Vec<T, kOfWord>>(word[i / kOfWord]);
        lanes.lane[i % kOfWord] = value;
        word[i / kOfWord] = bit_cast<uint32_t>(lanes);
    }
    BK_DEVICE void load_whole(const T* from) {
#pragma unroll
        for (int i = 0; i < kWords; i += 4) {
            const Vec<uint32_t, 4> four = load<4>(reinterpret_cast<const uint32_t*>(from) + i);
#pragma unroll
            for (int w = 0; w < 4; ++w) word[i + w] = four.lane[w];
        }
    }
    BK_DEVICE void load_from(const T* from, int64_t count) {
#pragma unroll
        for (int w = 0; w < kWords; ++w) word[w] = 0;
#pragma unroll
        for (int i = 0; i < kFp8Segment; ++i)
            if (i < count) set(i, from[i]);
    }
    // The largest magnitude of a number, infinite if one is; NaN does not count.
    BK_DEVICE float largest() const {
        float most = 0.0f;
#pragma unroll
        for (int i = 0; i < kFp8Segment; ++i) most = fmaxf(most, fabsf(at(i)));
        return most;
    }
    // Infinities become NaN.
    BK_DEVICE void drop_infinities() {
#pragma unroll
        for (int i = 0; i < kFp8Segment; ++i)
            if (is_infinite(fabsf(at(i)))) set(i, narrow<T>(bit_cast<float>(0x7fc00000u)));
    }
};

// Codes of four numbers times a factor. None is infinite.
template <class Number>
BK_DEVICE uint32_t fp8_word(bool is_e5m2, float factor, const Number& number) {
    float y[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) y[i] = math::product(number(i), factor);
    return is_e5m2 ? floats_to_fp8<e5m2>(y[0], y[1]) | floats_to_fp8<e5m2>(y[2], y[3]) << 16
                   : floats_to_fp8<e4m3>(y[0], y[1]) | floats_to_fp8<e4m3>(y[2], y[3]) << 16;
}

// Codes of a segment of a row.
template <class T>
BK_DEVICE void store_segment(uint8_t* to, const Fp8Elements<T>& elements, int64_t count, float factor, bool is_e5m2,
                             bool is_aligned) {
    uint32_t words[2];
#pragma unroll
    for (int w = 0; w < 2; ++w) words[w] = fp8_word(is_e5m2, factor, [&](int i) { return elements.at(4 * w + i); });
    if (is_aligned && count >= kFp8Segment) {
        store<2>(reinterpret_cast<uint32_t*>(to), Vec<uint32_t, 2>{{words[0], words[1]}});
    } else {
#pragma unroll
        for (int i = 0; i < kFp8Segment; ++i)
            if (i < count) to[i] = static_cast<uint8_t>(words[i / 4] >> (8 * (i % 4)));
    }
}

BK_DEVICE float largest_of_lanes(float mine, int lanes) {
    for (int distance = 1; distance < lanes; distance *= 2) mine = fmaxf(mine, shuffle_xor(mine, distance));
    return mine;
}

// The largest of all threads' numbers; `shared` has an entry for each warp, and no other use before the next barrier.
BK_DEVICE float largest_of_block(float mine, float* shared) {
    mine = largest_of_lanes(mine, 32);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = mine;
    __syncthreads();
    float most = shared[0];
    for (unsigned w = 1; w < blockDim.x / 32; ++w) most = fmaxf(most, shared[w]);
    return most;
}

// --- tiles ------------------------------------------------------------------------------------------------------------

struct Fp8Shared {
    // Maxima, then factors of rows and columns.
    float rows[kFp8Tile], columns[kFp8Tile];
    float of_warps[kFp8Warps];
    union {
        float column_maxima[kFp8Warps][kFp8Tile];
        // Codes of the transpose: chunk k of eight rows of column c is entry k ^ c / 8 of the column.
        uint2 stage[kFp8Tile][kFp8Tile / kFp8Block];
    };
};

template <class T>
struct Fp8TileWork {
    const Fp8QuantizeJob<T>& job;
    Fp8Shared& memory;
    int64_t item;
    int segment, group;  // of a thread: eight columns, eight rows
    Fp8Elements<T> x[kFp8Block];

    BK_DEVICE int64_t row() const { return job.first_row(item) + group * kFp8Block; }
    BK_DEVICE int64_t column() const { return job.first_column(item) + segment * kFp8Segment; }
    BK_DEVICE int64_t columns_left() const { return job.scales.columns - column(); }

    BK_DEVICE void load_tile() {
        const Fp8Scales& s = job.scales;
        const T* const from = job.x + row() * s.columns + column();
        if (job.is_aligned && job.first_row(item) + kFp8Tile <= s.rows && job.first_column(item) + kFp8Tile <= s.columns) {
#pragma unroll
            for (int r = 0; r < kFp8Block; ++r) x[r].load_whole(from + r * s.columns);
        } else {
#pragma unroll
            for (int r = 0; r < kFp8Block; ++r) x[r].load_from(from + r * s.columns, row() + r < s.rows ? columns_left() : 0);
        }
    }

    // Leaves maxima of rows, and of columns if wanted, in shared memory; returns that of the thread.
    BK_DEVICE float find_maxima(bool of_rows, bool of_columns) {
        float mine[kFp8Block], whole;
        for (;;) {  // once again if there are infinities
            whole = 0.0f;
#pragma unroll
            for (int r = 0; r < kFp8Block; ++r) {
                mine[r] = x[r].largest();
                whole = fmaxf(whole, mine[r]);
            }
            if (!is_infinite(whole)) break;
#pragma unroll
            for (int r = 0; r < kFp8Block; ++r) x[r].drop_infinities();
        }
        if (of_rows) {
#pragma unroll
            for (int r = 0; r < kFp8Block; ++r) {
                const float most = largest_of_lanes(mine[r], kFp8Segments);
                if (segment == 0) memory.rows[group * kFp8Block + r] = most;
            }
        }
        if (of_columns) {
#pragma unroll
            for (int c = 0; c < kFp8Segment; ++c) {
                float most = 0.0f;
#pragma unroll
                for (int r = 0; r < kFp8Block; ++r) most = fmaxf(most, fabsf(x[r].at(c)));
                most = fmaxf(most, shuffle_xor(most, kFp8Segments));
                if (group % 2 == 0) memory.column_maxima[threadIdx.x / 32][segment * kFp8Segment + c] = most;
            }
        }
        return whole;
    }

    // Largest magnitudes of a row or column of all tiles, by a warp.
    BK_DEVICE static void gather_maxima(float* to, const float* maxima, int64_t first, int64_t rows, int64_t count) {
        for (int i = threadIdx.x / 32; i < kFp8Tile; i += kFp8Warps) {
            float most = 0.0f;
            if (first + i < rows)
                for (int64_t at = threadIdx.x % 32; at < count; at += 32) most = fmaxf(most, maxima[(first + i) * count + at]);
            most = largest_of_lanes(most, 32);
            if (threadIdx.x % 32 == 0) to[i] = most;
        }
    }

    // Writes the tile's scales, and leaves factors in shared memory.
    BK_DEVICE void set_factors() {
        const Fp8Scales& s = job.scales;
        const int64_t first_row = job.first_row(item), first_column = job.first_column(item);
        const bool groups = s.scaling == Fp8Scaling::kGroups, rows = s.scaling == Fp8Scaling::kRows;
        float whole = find_maxima(groups && job.y != nullptr, groups && job.y_t != nullptr);
        if (s.scaling == Fp8Scaling::kTensor) {
            whole = 0.0f;
            for (int i = threadIdx.x; i < job.maxima; i += kFp8Threads) whole = fmaxf(whole, job.row_maxima[i]);
        } else if (rows) {
            if (job.y != nullptr) gather_maxima(memory.rows, job.row_maxima, first_row, s.rows, s.column_tiles());
            if (job.y_t != nullptr) gather_maxima(memory.columns, job.column_maxima, first_column, s.columns, s.row_tiles());
        }
        whole = largest_of_block(whole, memory.of_warps);
        const int i = threadIdx.x % kFp8Tile;
        const bool is_column = threadIdx.x >= kFp8Tile;
        if (is_column ? job.y_t != nullptr : job.y != nullptr) {
            float most = whole;
            if (groups && is_column) {
                most = 0.0f;
#pragma unroll
                for (int w = 0; w < kFp8Warps; ++w) most = fmaxf(most, memory.column_maxima[w][i]);
            } else if (groups || rows) {
                most = is_column ? memory.columns[i] : memory.rows[i];
            }
            const float scale = job.scale_of(most);
            (is_column ? memory.columns : memory.rows)[i] = reciprocal(scale);
            const Fp8Scales own = is_column ? s.transposed() : s;
            const int64_t at = is_column ? first_column : first_row, across = is_column ? first_row : first_column;
            if (at + i < own.rows && job.writes(own, at, across, i))
                (is_column ? job.scale_t : job.scale)[own.at(at + i, across)] = scale;
        }
        __syncthreads();
    }

    BK_DEVICE void write_rows() const {
#pragma unroll
        for (int r = 0; r < kFp8Block; ++r) {
            if (row() + r >= job.scales.rows) break;
            store_segment(job.y + (row() + r) * job.scales.columns + column(), x[r], columns_left(),
                          memory.rows[group * kFp8Block + r], job.is_e5m2, job.is_aligned_code);
        }
    }

    BK_DEVICE void write_transpose() {
#pragma unroll
        for (int c = 0; c < kFp8Segment; ++c) {
            const float factor = memory.columns[segment * kFp8Segment + c];
            uint32_t words[2];
#pragma unroll
            for (int w = 0; w < 2; ++w) words[w] = fp8_word(job.is_e5m2, factor, [&](int i) { return x[4 * w + i].at(c); });
            memory.stage[segment * kFp8Segment + c][group ^ segment] = uint2{words[0], words[1]};
        }
        __syncthreads();
        constexpr int kChunks = kFp8Tile / 16;
        const Fp8Scales& s = job.scales;
        for (int i = threadIdx.x; i < kFp8Tile * kChunks; i += kFp8Threads) {
            const int c = i / kChunks, chunk = i % kChunks, swap = c / kFp8Segment;
            const int64_t to_row = job.first_row(item) + chunk * 16, to_column = job.first_column(item) + c;
            if (to_column >= s.columns || to_row >= s.rows) continue;
            const uint2 first = memory.stage[c][(2 * chunk) ^ swap], second = memory.stage[c][(2 * chunk + 1) ^ swap];
            uint8_t* const to = job.y_t + to_column * s.rows + to_row;
            if (job.is_aligned_transpose) {
                *reinterpret_cast<uint4*>(to) = uint4{first.x, first.y, second.x, second.y};
            } else {
                const uint32_t words[4] = {first.x, first.y, second.x, second.y};
#pragma unroll
                for (int b = 0; b < 16; ++b)
                    if (to_row + b < s.rows) to[b] = static_cast<uint8_t>(words[b / 4] >> (8 * (b % 4)));
            }
        }
    }
};

// Tiles are walked from the last one on after a launch that read all of them: the last ones are in the L2 cache.
template <class T>
__global__ void __launch_bounds__(kFp8Threads, sizeof(T) == 4 ? 2 : 3) fp8_tile_kernel(const Fp8QuantizeJob<T> job) {
    __shared__ Fp8Shared memory;
    const int64_t item = job.scales.is_global() ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    Fp8TileWork<T> work{
        job, memory, item, static_cast<int>(threadIdx.x) % kFp8Segments, static_cast<int>(threadIdx.x) / kFp8Segments, {}};
    work.load_tile();
    work.set_factors();
    if (job.y != nullptr) work.write_rows();
    if (job.y_t != nullptr) work.write_transpose();
}

// --- whole rows, and the tensor's maximum -----------------------------------------------------------------------------

template <class T>
__global__ void __launch_bounds__(kFp8Threads, sizeof(T) == 4 ? 2 : 4) fp8_row_kernel(const Fp8QuantizeJob<T> job) {
    __shared__ float of_warps[kFp8Warps];
    const int64_t row = blockIdx.x, columns = job.scales.columns, step = int64_t{blockDim.x} * kFp8Segment;
    const int64_t first = int64_t{threadIdx.x} * kFp8Segment;
    Fp8Elements<T> x[kFp8RowParts];
    const T* const from = job.x + row * columns + first;
    if (job.is_aligned) {
#pragma unroll
        for (int i = 0; i < kFp8RowParts; ++i)
            if (first + i * step < columns) x[i].load_whole(from + i * step);
    } else {
#pragma unroll
        for (int i = 0; i < kFp8RowParts; ++i)
            if (first + i * step < columns) x[i].load_from(from + i * step, columns - first - i * step);
    }
    float most;
    for (;;) {  // once again if there are infinities
        most = 0.0f;
#pragma unroll
        for (int i = 0; i < kFp8RowParts; ++i)
            if (first + i * step < columns) most = fmaxf(most, x[i].largest());
        if (!is_infinite(most)) break;
#pragma unroll
        for (int i = 0; i < kFp8RowParts; ++i)
            if (first + i * step < columns) x[i].drop_infinities();
    }
    const float scale = job.scale_of(largest_of_block(most, of_warps)), factor = reciprocal(scale);
    if (threadIdx.x == 0) job.scale[row] = scale;
#pragma unroll
    for (int i = 0; i < kFp8RowParts; ++i)
        if (first + i * step < columns)
            store_segment(job.y + row * columns + first + i * step, x[i], columns - first - i * step, factor, job.is_e5m2,
                          job.is_aligned_code);
}

// Largest finite magnitudes of parts of an array.
template <class T>
__global__ void __launch_bounds__(kFp8Threads) fp8_largest_kernel(const T* x, int64_t numel, bool is_aligned, float* maxima) {
    constexpr int kParts = 4;
    __shared__ float of_warps[kFp8Warps];
    const int64_t step = int64_t{gridDim.x} * kFp8Threads * kFp8Segment;
    float most = 0.0f;
    for (int64_t first = (int64_t{blockIdx.x} * kFp8Threads + threadIdx.x) * kFp8Segment; first < numel;
         first += kParts * step) {
        Fp8Elements<T> part[kParts];
#pragma unroll
        for (int i = 0; i < kParts; ++i) {
            const int64_t e = first + i * step;
            if (is_aligned && e < numel)
                part[i].load_whole(x + e);
            else
                part[i].load_from(x + e, numel - e);
        }
#pragma unroll
        for (int i = 0; i < kParts; ++i) {
            float own = part[i].largest();
            if (is_infinite(own)) {
                part[i].drop_infinities();
                own = part[i].largest();
            }
            most = fmaxf(most, own);
        }
    }
    most = largest_of_block(most, of_warps);
    if (threadIdx.x == 0) maxima[blockIdx.x] = most;
}

template <class T>
Status run_fp8_quantize(const Launch& launch, const Fp8QuantizeJob<T>& job) {
    const Fp8Scales& s = job.scales;
    const int64_t tiles = s.row_tiles() * s.column_tiles();
    if (tiles > kMaxGridX || s.rows > kMaxGridX)
        return fail(Status::kUnsupported, "%lld tiles are too many for one launch", static_cast<long long>(tiles));
    Fp8QuantizeJob<T> own = job;
    if (s.scaling == Fp8Scaling::kTensor) {
        own.maxima = std::min(tiles, kFp8Maxima);
        const Grid grid{dim3(static_cast<unsigned>(own.maxima)), dim3(kFp8Threads)};
        BK_TRY(launch_kernel(launch, grid, fp8_largest_kernel<T>, job.x, s.rows * s.columns, job.is_aligned, job.row_maxima));
    } else if (s.scaling == Fp8Scaling::kRows) {
        if (job.y_t == nullptr && s.columns <= kFp8LongestRow) {
            constexpr int64_t kParts = 4;  // of a thread, in rows that need no more threads
            const int64_t wanted = ceil_div<int64_t>(s.columns, kParts * kFp8Segment),
                          threads = ceil_div<int64_t>(wanted, 32) * 32;
            const Grid grid{dim3(static_cast<unsigned>(s.rows)),
                            dim3(static_cast<unsigned>(std::min<int64_t>(threads, kFp8Threads)))};
            return launch_kernel(launch, grid, fp8_row_kernel<T>, job);
        }
        BK_TRY(run_fp8_maxima(launch, job));
    }
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(tiles)), dim3(kFp8Threads)}, fp8_tile_kernel<T>, own);
}

}  // namespace bk::floats
