// SPDX-License-Identifier: Apache-2.0
// Products of few rows of x with quantised weights on the GPU, at the rate of the memory: codes of weights, signed bytes,
// are the rows of an mma of 8-bit integers, digits of x its columns (columns.cuh). Sums over a group of codes are exact, and
// are scaled and added in f32.
//
// A block stays on its SM and takes every gridDim.x-th tile of 16 rows of weights. Its warps split K in slices, each with a
// ring of cp.async stages that continues from tile to tile, so that loads are in flight while sums are added. Partial sums of
// the warps are added in order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/codec/block_format.h"
#include "core/intrinsics/tensor_core.cuh"
#include "quantize/products/block_product.h"
#include "quantize/products/digits/columns.cuh"
#include "quantize/products/weight_stages.cuh"

namespace bk {

constexpr int kDigitWarps = 16, kStaticBytesOfDigits = 1024;

// How a launch divides its shared memory: the rings of the warps, the digits of x, and partial sums, twice.
struct DigitShape {
    static constexpr int kSumPitch = 20;  // of 16 rows of a column of partial sums: columns are in different banks
    int warps, stages, ring_bytes;
    DigitColumns x;
    int sum_columns;   // of a warp: those of digits, and one of offsets for each row of x
    int partial_size;  // of all warps

    static DigitShape of(int warps, int stages, int stage_bytes, const DigitColumns& x) {
        const int columns = x.columns + (x.group > 0 ? x.rows : 0);
        return {warps, stages, warps * stages * stage_bytes, x, columns, warps * columns * kSumPitch};
    }
    int bytes() const { return ring_bytes + x.bytes + 2 * partial_size * static_cast<int>(sizeof(float)); }
};

// A warp's slices of K of the block's tiles, on their way through its ring of stages.
template <class Format>
struct TileRing {
    using Stage = WeightStage<Format, 1>;
    static constexpr int kEach = ceil_div(16 * Stage::kVectors, 32);  // vectors of a lane
    static_assert(Stage::kBytes % 2 == 0, "eight slices are whole vectors, so that rows keep their address modulo 16");

    const uint8_t *weights, *end;
    uint8_t* stages;
    int64_t row_bytes, tiles, tile;
    int slices, slice, warps, stage_count, filled = 0, taken = 0;
    int from[kEach], to[kEach];  // the lane's vectors, in bytes from the tile's slice and from the stage
    int own[2];                  // where rows g and g + 8 begin in a stage

    BK_DEVICE TileRing(const BlockProduct& p, uint8_t* ring, int warp_count, int stages_of_ring)
        : weights(p.weights), stages(ring), warps(warp_count), stage_count(stages_of_ring) {
        const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
        row_bytes = p.k / Format::kBlock * Format::kBytes;
        end = weights + p.n * row_bytes;
        tiles = (p.n + 15) / 16;
        slices = static_cast<int>((p.k + Stage::kK - 1) / Stage::kK);
        stages += warp * stage_count * Stage::kSize;
        tile = blockIdx.x;
        slice = warp;
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const int v = lane + 32 * i, r = v / Stage::kVectors, at = v % Stage::kVectors * 16;
            from[i] = static_cast<int>(r * row_bytes) + at - skipped(r);
            to[i] = r * Stage::kPitch + at;
        }
        for (int half = 0; half < 2; ++half) {
            const int r = lane / 4 + 8 * half;
            own[half] = r * Stage::kPitch + skipped(r);
        }
        for (int s = 0; s < stage_count - 1; ++s) fill();
    }

    // Bytes from the vector that has the first byte of a row's slice to that byte: of every slice of the warp.
    BK_DEVICE int skipped(int r) const {
        const uint8_t* const first = weights + r * row_bytes + static_cast<int>(threadIdx.x) / 32 * Stage::kBytes;
        return static_cast<int>(reinterpret_cast<uintptr_t>(first) % 16);
    }

    // Copies what there is of a slice of a tile at an end of the weights.
    BK_DEVICE void fill_edge(uint8_t* stage, const uint8_t* first) const {
#pragma unroll 1
        for (int v = static_cast<int>(threadIdx.x) % 32; v < 16 * Stage::kVectors; v += 32) {
            const int r = v / Stage::kVectors, at = v % Stage::kVectors * 16;
            copy_vector(stage + r * Stage::kPitch + at, first + r * row_bytes + at - skipped(r), weights, end);
        }
    }

    // Issues the loads of the next slice.
    BK_DEVICE void fill() {
        if (slice < slices && tile < tiles) {
            const uint8_t* const tile_bytes = weights + tile * 16 * row_bytes;
            const uint8_t* const first = tile_bytes + slice * Stage::kBytes;
            uint8_t* const stage = stages + filled * Stage::kSize;
            constexpr int kCount = 16 * Stage::kVectors;
            if (tile > 0 && tile_bytes + 16 * row_bytes + kCount <= end) {
#pragma unroll
                for (int i = 0; i < kEach; ++i)
                    if (kCount % 32 == 0 || i + 1 < kEach || static_cast<int>(threadIdx.x) % 32 + 32 * i < kCount)
                        start_copy_16(stage + to[i], first + from[i], 16);
            } else {
                fill_edge(stage, first);
            }
            slice += warps;
            if (slice >= slices) {
                slice = static_cast<int>(threadIdx.x) / 32;
                tile += gridDim.x;
            }
            filled = filled + 1 == stage_count ? 0 : filled + 1;
        }
        end_copy_group();
    }

    // Waits for the oldest stage and issues another; rows[half] is where the bytes of row lane / 4 + 8 half begin.
    BK_DEVICE void advance(const uint8_t* (&rows)[2]) {
        if (stage_count == 4)
            wait_for_copies<2>();
        else if (stage_count == 3)
            wait_for_copies<1>();
        else
            wait_for_copies<0>();
        __syncwarp();  // all lanes' copies have arrived, and all have read the stage before
        fill();
        for (int half = 0; half < 2; ++half) rows[half] = stages + taken * Stage::kSize + own[half];
        taken = taken + 1 == stage_count ? 0 : taken + 1;
    }
};

// Sums of a lane: rows g and g + 8 of the tile and columns 2 t and 2 t + 1 of each eight digits; offsets times the sums of x
// over the lane's groups.
template <int kColumnBlocks, int kRows>
struct DigitSums {
    float total[kColumnBlocks][4] = {};
    float offsets[2][kRows] = {};
};

// Adds the products of a slice of `depth` K elements from k on. Codes behind them, whatever they are, have the scale 0.
template <class Format, int kColumnBlocks, int kRows>
BK_DEVICE void add_slice(DigitSums<kColumnBlocks, kRows>& sums, const uint8_t* const (&rows)[2], const DigitColumns& x,
                         const uint8_t* shared, int k, int depth) {
    using Stage = WeightStage<Format, 1>;
    constexpr bool kIsWide = Format::kGroup >= 32, kIsWhole = Stage::kK == Format::kBlock;
    constexpr int kParts = kIsWide ? 1 : 2;  // groups of 32 K elements
    constexpr int kScaledK = kIsWide ? 128 : 64;
    static_assert(!Format::kHasOffset || Format::kGroup <= 32, "a lane's group of four has an offset");
    const unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const uint8_t* column[kColumnBlocks];
#pragma unroll
    for (int c = 0; c < kColumnBlocks; ++c)  // a column that is not there is the last, and not stored
        column[c] = shared + min(static_cast<int>(8 * c + g), x.columns - 1) * x.pitch + k + 8 * t;
    const float* const of_slice = reinterpret_cast<const float*>(shared + x.sums_at) + k / Format::kGroup;
#pragma unroll
    for (unsigned base = 0; base < Stage::kK; base += kScaledK) {
        codec::Affine scales[2];
        const unsigned own_k = base | (Format::kGroup < 256 ? t * Format::kGroup : 0u);
        const bool is_there = kIsWhole || static_cast<int>(own_k) < depth;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            scales[half] =
                Format::affine(rows[half] + own_k / Format::kBlock * Format::kBytes, own_k % Format::kBlock / Format::kGroup);
            if (!is_there) scales[half].scale = 0;
        }
        if constexpr (Format::kHasOffset) {
#pragma unroll
            for (int i = 0; i < kRows; ++i) {
                if (i >= x.rows) break;
                const float sum = of_slice[i * x.sum_count + own_k / Format::kGroup];
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    if (is_there) sums.offsets[half][i] = math::fma(scales[half].offset, sum, sums.offsets[half][i]);
            }
        }
#pragma unroll
        for (unsigned s = base; s < base + kScaledK; s += 32) {
            uint32_t digits[kColumnBlocks][2];
#pragma unroll
            for (int c = 0; c < kColumnBlocks; ++c) {
                const auto pair = load<2>(reinterpret_cast<const uint32_t*>(column[c] + s));
                digits[c][0] = pair.lane[0];
                digits[c][1] = pair.lane[1];
            }
            uint32_t codes[4];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const uint8_t* const block = rows[half] + s / Format::kBlock * Format::kBytes;
                codes[half] = Format::codes4(block, s % Format::kBlock | 4 * t);
                codes[2 + half] = Format::codes4(block, s % Format::kBlock | 16 | 4 * t);
            }
#pragma unroll
            for (int part = 0; part < kParts; ++part) {
                const uint32_t own[4] = {part == 0 ? codes[0] : 0, part == 0 ? codes[1] : 0,
                                         kIsWide || part == 1 ? codes[2] : 0, kIsWide || part == 1 ? codes[3] : 0};
                const int group = (s - base + 16 * part) / (Format::kGroup < 256 ? Format::kGroup : kScaledK);
                float scale[2];
#pragma unroll
                for (int half = 0; half < 2; ++half) scale[half] = __shfl_sync(~0u, scales[half].scale, group, 4);
#pragma unroll
                for (int c = 0; c < kColumnBlocks; ++c) {
                    // Sums that begin with the bits of 1.5 * 2^23 are that float plus the sum, which is below 2^20.
                    constexpr float kMagic = 12582912.f;
                    int32_t dots[4];
#pragma unroll
                    for (int v = 0; v < 4; ++v) dots[v] = 0x4b400000;
                    Mma<int8_t>::run(dots, own, digits[c]);
#pragma unroll
                    for (int v = 0; v < 4; ++v)
                        sums.total[c][v] = math::fma(scale[v / 2], bit_cast<float>(dots[v]) - kMagic, sums.total[c][v]);
                }
            }
        }
    }
}

// Stores a warp's sums of a tile: columns of digits, then the offsets' of each row of x.
template <int kColumnBlocks, int kRows>
BK_DEVICE void store_partials(float* partial, const DigitSums<kColumnBlocks, kRows>& sums, const DigitShape& shape) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32, g = lane / 4, t = lane % 4;
    float* const own = partial + warp * shape.sum_columns * DigitShape::kSumPitch;
#pragma unroll
    for (int c = 0; c < kColumnBlocks; ++c)
#pragma unroll
        for (int v = 0; v < 4; ++v) {
            const int column = 8 * c + 2 * t + v % 2;
            if (column < shape.x.columns) own[column * DigitShape::kSumPitch + g + v / 2 * 8] = sums.total[c][v];
        }
    if (shape.x.group == 0) return;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
        if (i >= shape.x.rows) break;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float sum = sums.offsets[half][i];
            sum += __shfl_xor_sync(~0u, sum, 1);
            sum += __shfl_xor_sync(~0u, sum, 2);
            if (t == 0) own[(shape.x.columns + i) * DigitShape::kSumPitch + g + half * 8] = sum;
        }
    }
}

// Element j of the product of a row of x that is not finite: its terms one after another.
template <class Format>
BK_DEVICE_COLD float plain_dot(const BlockProduct& p, int64_t row, int64_t j) {
    const uint8_t* const weights = p.weights + j * (p.k / Format::kBlock * Format::kBytes);
    const char* const x = static_cast<const char*>(p.x) + row * p.x_row * bytes_of(p.dtype);
    float sum = 0;
    for (int64_t k = 0; k < p.k; k += 4) {
        float w[4];
        codec::values4<Format>(weights + k / Format::kBlock * Format::kBytes, static_cast<int>(k % Format::kBlock), w);
        for (int e = 0; e < 4; ++e) sum += load_float(x, (k + e) * p.x_step, p.dtype) * w[e];
    }
    return sum;
}

// Adds the partial sums of a tile in the order of warps and digits, and stores the results.
template <class Format>
BK_DEVICE void store_tile(const float* partial, const RowScale* scales, const DigitShape& shape, const BlockProduct& p,
                          int64_t first_row, int64_t first_of_x) {
    const int pitch = shape.sum_columns * DigitShape::kSumPitch;
    for (int index = static_cast<int>(threadIdx.x); index < 16 * shape.x.rows; index += static_cast<int>(blockDim.x)) {
        const int i = index / 16, r = index % 16;
        const int64_t j = first_row + r, row = first_of_x + i;
        if (j >= p.n) continue;
        const auto column_sum = [&](int column) {
            const float* const of_column = partial + column * DigitShape::kSumPitch + r;
            float sum = of_column[0];
            for (int w = 1; w < shape.warps; ++w) sum += of_column[w * pitch];
            return sum;
        };
        float value = 0;
        for (int d = shape.x.digits - 1; d >= 0; --d) value = value * 0x1p-8f + column_sum(i * shape.x.digits + d);
        if (shape.x.group > 0) value += column_sum(shape.x.columns + i);
        value = scales[i].is_finite() ? scales[i].value(value) : plain_dot<Format>(p, row, j);
        if (p.bias != nullptr) value += load_float(p.bias, j, p.dtype);
        store_float(p.y, row * p.y_row + j, p.dtype, value);
    }
}

template <class Format, int kColumnBlocks>
__global__ void __launch_bounds__(32 * kDigitWarps, 1)
    digit_product_kernel(const __grid_constant__ BlockProduct p, const __grid_constant__ DigitShape shape, bool is_vector) {
    using Stage = WeightStage<Format, 1>;
    constexpr int kRows = kColumnBlocks == 1 ? 2 : DigitColumns::kMostRows;
    BK_LAUNCH_SHARED(uint4, shared_words);
    __shared__ RowScale scales[DigitColumns::kMostRows];
    uint8_t* const ring_bytes = reinterpret_cast<uint8_t*>(shared_words);
    uint8_t* const digits = ring_bytes + shape.ring_bytes;
    float* const partials = reinterpret_cast<float*>(digits + shape.x.bytes);
    TileRing<Format> ring(p, ring_bytes, shape.warps, shape.stages);
    store_digits(digits, scales, shape.x, p, 0, is_vector);
    int odd = 0;
    for (int64_t tile = blockIdx.x; tile < ring.tiles; tile += gridDim.x) {
        DigitSums<kColumnBlocks, kRows> sums;
#pragma unroll 1
        for (int k = static_cast<int>(threadIdx.x) / 32 * Stage::kK; k < shape.x.k; k += shape.warps * Stage::kK) {
            const uint8_t* rows[2];
            ring.advance(rows);
            add_slice<Format>(sums, rows, shape.x, digits, k, shape.x.k - k);
        }
        float* const partial = partials + odd * shape.partial_size;
        store_partials(partial, sums, shape);
        __syncthreads();  // two buffers: the sums of the tile before have been read when these are written again
        store_tile<Format>(partial, scales, shape, p, tile * 16, 0);
        odd ^= 1;
    }
    wait_for_copies<0>();
}

// The shape of a launch, whose `warps` are 0 if none fits this device's shared memory.
template <class Format>
DigitShape digit_shape(const BlockProduct& p) {
    const DigitColumns x = DigitColumns::of(static_cast<int>(p.m), digits_of(p.m, p.dtype), static_cast<int>(p.k),
                                            Format::kHasOffset ? Format::kGroup : 0);
    constexpr int kChoices[][2] = {{16, 4}, {16, 3}, {8, 4}, {16, 2}, {8, 2}};  // warps and stages
    for (const auto& choice : kChoices) {
        const DigitShape shape = DigitShape::of(choice[0], choice[1], WeightStage<Format, 1>::kSize, x);
        if (has_shared(shape.bytes() + kStaticBytesOfDigits)) return shape;
    }
    return {};
}

// Whether digits of x multiply: few rows that fit shared memory, of weights whose rows cp.async can copy.
template <class Format>
bool uses_digits(const BlockProduct& p) {
    if (p.backend != 0 || p.dispatches.experts > 0 || p.m * digits_of(p.m, p.dtype) > 24 || p.k == 0 || p.k > 1 << 17)
        return false;
    if (reinterpret_cast<uintptr_t>(p.weights) % Format::kAlign != 0) return false;
    return digit_shape<Format>(p).warps > 0;
}

template <class Format>
Status digit_product(const Launch& launch, const BlockProduct& p) {
    const DigitShape shape = digit_shape<Format>(p);
    const bool is_vector = p.x_step == 1 && is_aligned(p.x, 16) && p.x_row * bytes_of(p.dtype) % 16 == 0;
    const int64_t blocks = std::min(ceil_div<int64_t>(p.n, 16), std::max<int64_t>(device_sms(), 1));
    Grid grid{dim3(static_cast<unsigned>(blocks)), dim3(32 * static_cast<unsigned>(shape.warps))};
    grid.shared = static_cast<unsigned>(shape.bytes());
    if (shape.x.columns <= 8) return launch_kernel(launch, grid, digit_product_kernel<Format, 1>, p, shape, is_vector);
    return launch_kernel(launch, grid, digit_product_kernel<Format, 3>, p, shape, is_vector);
}

}  // namespace bk
