// SPDX-License-Identifier: Apache-2.0
// Products of few rows of x with quantised weights on the GPU, at the rate of the memory: codes of weights, signed bytes,
// are the rows of an mma of 8-bit integers, digits of x its columns (columns.cuh). Sums over a group of codes are exact, and
// are scaled and added in f32.
//
// A block stays on its SM and has every gridDim.x-th tile of 16 rows of weights, whose slices of K its warps take in turn, each
// with a ring of cp.async stages that continues from tile to tile. Warps meet when a batch of tiles is done: then their partial
// sums are added in order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/codec/block_format.h"
#include "core/intrinsics/tensor_core.cuh"
#include "quantize/products/block_product.h"
#include "quantize/products/digits/columns.cuh"
#include "quantize/products/weight_stages.cuh"

namespace bk {

constexpr int kStaticBytesOfDigits = 1024;
// Warps of a block, as many as the registers of an SM serve: they hide each other's latency.
template <class Format, int kColumnBlocks>
constexpr int kDigitWarps = kColumnBlocks > 1      ? 16
                            : Format::kGroup == 32 ? 24
                                                   : 20;
constexpr int kMostBatch = 16;  // tiles of one row of x

// Shared memory of a launch: the rings of the warps, the digits of x, and the partial sums of a batch.
struct DigitShape {
    int warps, stages, ring_bytes;
    DigitColumns x;
    int batch;  // tiles

    BK_HD int sums_of_tile() const { return 16 * warps * x.rows; }
    int bytes() const { return ring_bytes + x.bytes + batch * sums_of_tile() * static_cast<int>(sizeof(float)); }
};

// Position of a warp among the slices of the block's tiles: those of a batch are numbered through, and warp w has w, w + warps
// and so on.
struct SliceWalk {
    int64_t tile = 0;                   // the first of the batch
    int own = 0, slice = 0, count = 0;  // the tile of the batch, its slice, and the tiles of the batch

    // The batch that begins with tile `first`.
    BK_DEVICE void enter(int64_t first, int64_t tiles, int batch, int warp, int slices) {
        tile = first;
        const int64_t left = first < tiles ? (tiles - first + gridDim.x - 1) / gridDim.x : 0;
        count = left < batch ? static_cast<int>(left) : batch;
        own = warp / slices;
        slice = warp % slices;
    }
    BK_DEVICE bool is_done() const { return own >= count; }
    BK_DEVICE int64_t own_tile() const { return tile + own * int64_t{gridDim.x}; }
    BK_DEVICE void step(int warps, int slices) {
        slice += warps;
        while (slice >= slices) {
            slice -= slices;
            ++own;
        }
    }
};

// A warp's slices on their way through its ring of stages.
template <class Format>
struct TileRing {
    using Stage = WeightStage<Format, 1>;
    static constexpr int kCount = 16 * Stage::kVectors, kEach = (kCount + 31) / 32;  // vectors of a slice, and of a lane

    const uint8_t *weights, *end;
    uint8_t* stages;
    int64_t row_bytes, tiles;
    int slices, warp, warps, stage_count, batch, filled = 0, taken = 0;
    SliceWalk walk;
    int from[kEach], to[kEach];  // the lane's vectors, in bytes from the tile's slice and from the stage

    BK_DEVICE TileRing(const BlockProduct& p, uint8_t* ring, const DigitShape& shape)
        : weights(p.weights), warps(shape.warps), stage_count(shape.stages), batch(shape.batch) {
        const int lane = static_cast<int>(threadIdx.x % 32);
        warp = static_cast<int>(threadIdx.x / 32);
        row_bytes = p.k / Format::kBlock * Format::kBytes;
        end = weights + p.n * row_bytes;
        tiles = (p.n + 15) / 16;
        slices = static_cast<int>((p.k + Stage::kK - 1) / Stage::kK);
        stages = ring + warp * stage_count * Stage::kSize;
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const int v = lane + 32 * i, r = v / Stage::kVectors, at = v % Stage::kVectors * 16;
            from[i] = static_cast<int>(r * row_bytes) + at;
            to[i] = r * Stage::kPitch + at;
        }
        walk.enter(blockIdx.x, tiles, batch, warp, slices);
        for (int s = 0; s < stage_count - 1; ++s) fill();
    }

    BK_DEVICE static const uint8_t* aligned(const uint8_t* from) {
        return reinterpret_cast<const uint8_t*>(reinterpret_cast<uintptr_t>(from) & ~uintptr_t{15});
    }

    // Copies what there is of a slice of a tile at an end of the weights.
    BK_DEVICE void fill_edge(uint8_t* stage, const uint8_t* first) const {
#pragma unroll 1
        for (int v = static_cast<int>(threadIdx.x % 32); v < kCount; v += 32) {
            const int r = v / Stage::kVectors, at = v % Stage::kVectors * 16;
            copy_vector(stage + r * Stage::kPitch + at, aligned(first + r * row_bytes + at), weights, end);
        }
    }

    // Issues the loads of the next slice.
    BK_DEVICE void fill() {
        if (!walk.is_done()) {
            const int64_t tile = walk.own_tile();
            const uint8_t* const tile_bytes = weights + tile * 16 * row_bytes;
            const uint8_t* const first = tile_bytes + walk.slice * Stage::kBytes;
            uint8_t* const stage = stages + filled * Stage::kSize;
            if (tile > 0 && tile_bytes + 16 * row_bytes + kCount <= end) {
#pragma unroll
                for (int i = 0; i < kEach; ++i)
                    if (kCount % 32 == 0 || i + 1 < kEach || static_cast<int>(threadIdx.x % 32) + 32 * i < kCount)
                        start_copy_16(stage + to[i], aligned(first + from[i]), 16);
            } else {
                fill_edge(stage, first);
            }
            filled = filled + 1 == stage_count ? 0 : filled + 1;
            walk.step(warps, slices);
            if (walk.is_done()) walk.enter(walk.tile + int64_t{batch} * gridDim.x, tiles, batch, warp, slices);
        }
        end_copy_group();
    }

    // Waits for the oldest stage, that of `slice` of `tile`, and issues another; rows[half] is where the bytes of row
    // lane / 4 + 8 half begin.
    BK_DEVICE void advance(int64_t tile, int slice, const uint8_t* (&rows)[2]) {
        if (stage_count == 3)
            wait_for_copies<1>();
        else
            wait_for_copies<0>();
        __syncwarp();  // all lanes' copies have arrived, and all have read the stage before
        fill();
        const uint8_t* const first = weights + tile * 16 * row_bytes + slice * Stage::kBytes;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int r = static_cast<int>(threadIdx.x % 32) / 4 + 8 * half;
            const uint32_t address = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(first)) +
                                     static_cast<uint32_t>(r) * static_cast<uint32_t>(row_bytes);
            rows[half] = stages + taken * Stage::kSize + r * Stage::kPitch + (address & 15u);
        }
        taken = taken + 1 == stage_count ? 0 : taken + 1;
    }
};

// Sums of a lane: rows g and g + 8 of the tile and columns 2 t and 2 t + 1 of each eight digits; offsets times the sums of x
// over the lane's groups.
template <int kColumnBlocks>
struct DigitSums {
    static constexpr int kRows = 8 * kColumnBlocks / kDigits;  // of x
    float total[kColumnBlocks][4] = {};
    float offsets[2][kRows] = {};

    // Stores the sums of rows of x, 16 rows of weights each.
    BK_DEVICE void store(float* partial, int rows) const {
        const unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        const float digit = t % 2 == 0 ? 1.f : 0x1p-16f;
#pragma unroll
        for (int c = 0; c < kColumnBlocks; ++c)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float sum = math::fma(total[c][2 * half + 1], 0x1p-8f, total[c][2 * half]) * digit;
                sum += __shfl_xor_sync(~0u, sum, 1);
                float offset[2];
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    offset[i] = offsets[half][2 * c + i];
                    offset[i] += __shfl_xor_sync(~0u, offset[i], 1);
                    offset[i] += __shfl_xor_sync(~0u, offset[i], 2);
                }
                const int row = 2 * c + static_cast<int>(t / 2);
                if (t % 2 == 0 && row < rows) partial[row * 16 + g + 8 * half] = sum + offset[t / 2];
            }
    }
};

// Adds the products of a slice of `depth` K elements from k on. Codes behind them, whatever they are, have the scale 0.
template <class Format, int kColumnBlocks>
BK_DEVICE void add_slice(DigitSums<kColumnBlocks>& sums, const uint8_t* const (&rows)[2], const DigitColumns& x,
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
        column[c] = shared + min(static_cast<int>(8 * c + g), kDigits * x.rows - 1) * x.pitch + k + 8 * t;
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
            for (int i = 0; i < DigitSums<kColumnBlocks>::kRows; ++i) {
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

// Element j of the product of a row of x that is not finite: its products one after another.
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

// Adds the partial sums of a batch, and stores the results. Slices that are equal modulo the number of warps are a warp's, and
// are added in the order of their residues, so that bits do not depend on where the tile is in the batch.
template <class Format>
BK_DEVICE void store_batch(const float* partials, const RowScale* scales, const DigitShape& shape, const BlockProduct& p,
                           const SliceWalk& walk, int slices) {
    const int of_tile = 16 * shape.x.rows, residues = min(slices, shape.warps);
    for (int index = static_cast<int>(threadIdx.x); index < walk.count * of_tile; index += static_cast<int>(blockDim.x)) {
        const int own = index / of_tile, at = index % of_tile, i = at / 16;
        const int64_t j = (walk.tile + own * int64_t{gridDim.x}) * 16 + at % 16;
        if (j >= p.n) continue;
        const float* const partial = partials + own * shape.sums_of_tile() + at;
        float value = 0;
        int warp = own * slices % shape.warps;
#pragma unroll 8
        for (int residue = 0; residue < residues; ++residue) {
            value += partial[warp * of_tile];
            warp = warp + 1 == shape.warps ? 0 : warp + 1;
        }
        value = scales[i].is_finite() ? scales[i].value(value) : plain_dot<Format>(p, i, j);
        if (p.bias != nullptr) value += load_float(p.bias, j, p.dtype);
        store_float(p.y, i * p.y_row + j, p.dtype, value);
    }
}

template <class Format, int kColumnBlocks>
__global__ void __launch_bounds__(32 * kDigitWarps<Format, kColumnBlocks>, 1)
    digit_product_kernel(const __grid_constant__ BlockProduct p, const __grid_constant__ DigitShape shape, bool is_vector) {
    using Stage = WeightStage<Format, 1>;
    BK_LAUNCH_SHARED(uint4, shared_words);
    __shared__ RowScale scales[DigitColumns::kMostRows];
    uint8_t* const ring_bytes = reinterpret_cast<uint8_t*>(shared_words);
    uint8_t* const digits = ring_bytes + shape.ring_bytes;
    float* const partials = reinterpret_cast<float*>(digits + shape.x.bytes);
    TileRing<Format> ring(p, ring_bytes, shape);
    store_digits(digits, scales, shape.x, p, is_vector);
    const int of_tile = 16 * shape.x.rows, warp = static_cast<int>(threadIdx.x / 32);
    SliceWalk walk;
    for (walk.enter(blockIdx.x, ring.tiles, shape.batch, warp, ring.slices); walk.count > 0;
         walk.enter(walk.tile + int64_t{shape.batch} * gridDim.x, ring.tiles, shape.batch, warp, ring.slices)) {
        float* const own = partials + warp * of_tile;
        while (!walk.is_done()) {
            DigitSums<kColumnBlocks> sums;
            const int tile = walk.own;
            do {
                const uint8_t* rows[2];
                ring.advance(walk.own_tile(), walk.slice, rows);
                const int k = walk.slice * Stage::kK;
                add_slice<Format>(sums, rows, shape.x, digits, k, shape.x.k - k);
                walk.step(shape.warps, ring.slices);
            } while (walk.own == tile);
            sums.store(own + tile * shape.sums_of_tile(), shape.x.rows);
        }
        __syncthreads();
        store_batch<Format>(partials, scales, shape, p, walk, ring.slices);
        __syncthreads();
    }
    wait_for_copies<0>();
}

// The shape of a launch, whose `warps` are 0 if none fits this device's shared memory.
template <class Format>
DigitShape digit_shape(const BlockProduct& p) {
    using Stage = WeightStage<Format, 1>;
    const int64_t blocks = std::max<int64_t>(device_sms(), 1), tiles = ceil_div<int64_t>(p.n, 16);
    DigitShape shape{};
    shape.x = DigitColumns::of(static_cast<int>(p.m), static_cast<int>(p.k), Format::kHasOffset ? Format::kGroup : 0);
    shape.batch = static_cast<int>(std::min<int64_t>(ceil_div(tiles, blocks), std::max<int64_t>(kMostBatch / p.m, 1)));
    constexpr int kFew = kDigitWarps<Format, 4>;
    const int most = p.m <= DigitSums<1>::kRows ? kDigitWarps<Format, 1> : kFew;
    for (const auto& [warps, stages] : {std::pair{most, 3}, {most, 2}, {kFew, 3}, {kFew, 2}}) {
        shape.warps = warps;
        shape.stages = stages;
        shape.ring_bytes = warps * stages * Stage::kSize;
        if (has_shared(shape.bytes() + kStaticBytesOfDigits)) return shape;
    }
    shape.warps = 0;
    return shape;
}

// Whether digits of x multiply: few rows that fit shared memory, of weights whose rows cp.async can copy.
template <class Format>
bool uses_digits(const BlockProduct& p) {
    if (p.backend != 0 || p.dispatches.experts > 0 || p.m > DigitColumns::kMostRows || p.k == 0 || p.k > 1 << 17) return false;
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
    if (p.m <= DigitSums<1>::kRows) return launch_kernel(launch, grid, digit_product_kernel<Format, 1>, p, shape, is_vector);
    return launch_kernel(launch, grid, digit_product_kernel<Format, 4>, p, shape, is_vector);
}

}  // namespace bk
