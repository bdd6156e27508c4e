// SPDX-License-Identifier: Apache-2.0
// Quantised weights on their way to the tensor cores: each warp of a block copies its slices of K, a stage of 128 or 256 K
// elements of the block's rows at a time, by cp.async.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/codec/block_format.h"
#include "core/intrinsics/async_copy.cuh"
#include "quantize/products/block_product.h"

namespace bk {

constexpr int kProductWarps = 8;

// A warp's stage in shared memory, 16 kTiles rows of kK elements: whole 16-byte vectors that contain the bytes of a row's
// blocks, with a pitch that keeps eight rows' words in different banks.
template <class Format, int kRowTiles>
struct WeightStage {
    static constexpr int kK = Format::kBlock <= 128 ? 128 : 256;
    static constexpr int kBytes = kK / Format::kBlock * Format::kBytes;
    static constexpr int kVectors = kBytes % 16 == 0 && Format::kBytes * 8 % 16 == 0 ? kBytes / 16 + 1 : (kBytes + 14) / 16 + 1;
    static constexpr int kPitch = 16 * (kVectors % 2 == 0 ? kVectors + 1 : kVectors);
    static constexpr int kTiles = kRowTiles, kRows = 16 * kTiles;
    static constexpr int kSize = kRows * kPitch;
    // Blocks of one tile are small, so that two of them share an SM.
    static constexpr int kStages = 4 * kProductWarps * kSize <= ((kTiles == 1 ? 100 : 160) << 10) ? 4 : 2;
    static_assert(kStages * kProductWarps * kSize <= 160 << 10, "the stages fit sm_80's shared memory");
};

// Tiles of 16 rows of blocks that multiply several columns: two, where a row's blocks are short.
template <class Format>
constexpr int kWideTiles = Format::kBytes * (256 / Format::kBlock) <= 192 ? 2 : 1;

// Copies 16 aligned bytes of which [low, high) may be read.
BK_DEVICE void copy_vector(uint8_t* to, const uint8_t* from, const uint8_t* low, const uint8_t* high) {
    if (from >= low && from + 16 <= high) return start_copy_16(to, from, 16);
    for (int b = 0; b < 16; ++b)
        if (from + b >= low && from + b < high) to[b] = from[b];
}

// The first byte of a row in its vectors: bytes keep their address modulo 16, so that the copies are aligned, unless
// the blocks are not.
template <class Format>
BK_DEVICE int skipped_bytes(const uint8_t* from) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(from);
    return address % Format::kAlign == 0 ? static_cast<int>(address % 16) : 0;
}

// Issues loads of K elements from k on of the block's rows, whose bytes are [low, high).
template <class Format, int kRowTiles>
BK_DEVICE void fill_stage(uint8_t* stage, int64_t row_bytes, int64_t rows, int64_t k, int64_t k_extent, const uint8_t* low,
                          const uint8_t* high) {
    using Stage = WeightStage<Format, kRowTiles>;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int64_t left = k_extent - k;
    if (left > 0) {
        const int bytes = left >= Stage::kK ? Stage::kBytes : static_cast<int>(left / Format::kBlock) * Format::kBytes;
        const bool is_aligned = reinterpret_cast<uintptr_t>(low) % Format::kAlign == 0;
        const uint8_t* const first = low + k / Format::kBlock * Format::kBytes;
        for (int v = lane; is_aligned && v < Stage::kRows * Stage::kVectors; v += 32) {
            const int r = v / Stage::kVectors, at = v % Stage::kVectors;
            if (r >= rows) break;
            const uint8_t* const from = first + r * row_bytes;
            const int skipped = skipped_bytes<Format>(from);
            if (16 * at < skipped + bytes)
                copy_vector(stage + r * Stage::kPitch + 16 * at, from - skipped + 16 * at, low, high);
        }
        for (int64_t r = 0; !is_aligned && r < rows; ++r)
            for (int b = lane; b < bytes; b += 32) stage[r * Stage::kPitch + b] = first[r * row_bytes + b];
    }
    end_copy_group();
}

// The warp's ring of stages. `low` and `high` bound the bytes of the block's rows.
template <class Format, int kRowTiles>
struct WeightRing {
    using Stage = WeightStage<Format, kRowTiles>;
    static constexpr int64_t kStride = kProductWarps * Stage::kK;  // K elements from a warp's stage to its next

    uint8_t* stages;
    const uint8_t *low, *high;
    int64_t row_bytes, rows, k_extent, next;
    int stage = 0;

    BK_DEVICE WeightRing(uint8_t* shared, const uint8_t* weights, int64_t first_row, int64_t count, int64_t k)
        : rows(count), k_extent(k) {
        const int warp = static_cast<int>(threadIdx.x) / 32;
        stages = shared + warp * Stage::kStages * Stage::kSize;
        row_bytes = k / Format::kBlock * Format::kBytes;
        low = weights + first_row * row_bytes;
        high = low + rows * row_bytes;
        next = int64_t{warp} * Stage::kK;
#pragma unroll 1
        for (int s = 0; s < Stage::kStages - 1; ++s) fill(s);
    }

    BK_DEVICE void fill(int at) {
        fill_stage<Format, kRowTiles>(stages + at * Stage::kSize, row_bytes, rows, next, k_extent, low, high);
        next += kStride;
    }

    // Waits for the oldest stage, that of K elements from k on, and issues another; own[q][half] is where the bytes of row
    // 16 q + 8 half + lane / 4 begin.
    BK_DEVICE void advance(int64_t k, const uint8_t* (&own)[Stage::kTiles][2]) {
        wait_for_copies<Stage::kStages - 2>();
        __syncwarp();  // all lanes' copies have arrived, and all have read the stage before
        fill(stage == 0 ? Stage::kStages - 1 : stage - 1);
        const uint8_t* const current = stages + stage * Stage::kSize;
        stage = stage + 1 == Stage::kStages ? 0 : stage + 1;
        const int g = static_cast<int>(threadIdx.x) % 32 / 4;
#pragma unroll
        for (int q = 0; q < Stage::kTiles; ++q)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int r = 16 * q + 8 * half + g;
                const uint8_t* const from = low + r * row_bytes + k / Format::kBlock * Format::kBytes;
                own[q][half] = current + r * Stage::kPitch + skipped_bytes<Format>(from);
            }
    }
};

// Partial sums of the warps, and their total in the order of the warps. `buffer` is the memory of the stages.
template <class Format, int kRowTiles, int kColumnBlocks>
struct WarpPartials {
    using Stage = WeightStage<Format, kRowTiles>;
    static constexpr int kPitch = Stage::kRows + 4, kColumns = 8 * kColumnBlocks;
    static constexpr int kShared = std::max(Stage::kStages * kProductWarps * Stage::kSize,
                                            kProductWarps * kColumns * kPitch * static_cast<int>(sizeof(float)));
    float (*sums)[kColumns][kPitch];

    BK_DEVICE WarpPartials(void* buffer, const float (&total)[Stage::kTiles][kColumnBlocks][4])
        : sums(static_cast<float (*)[kColumns][kPitch]>(buffer)) {
        const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32, g = lane / 4,
                  t = lane % 4;
        __syncthreads();  // every warp has read its stages
#pragma unroll
        for (int q = 0; q < Stage::kTiles; ++q)
#pragma unroll
            for (int c = 0; c < kColumnBlocks; ++c)
#pragma unroll
                for (int v = 0; v < 4; ++v) sums[warp][8 * c + 2 * t + v % 2][16 * q + g + v / 2 * 8] = total[q][c][v];
        __syncthreads();
    }
    BK_DEVICE float sum(int column, int row) const {
        float total = sums[0][column][row];
#pragma unroll
        for (int w = 1; w < kProductWarps; ++w) total += sums[w][column][row];
        return total;
    }
};

}  // namespace bk
