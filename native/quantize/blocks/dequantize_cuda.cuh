// SPDX-License-Identifier: Apache-2.0
// Dequantisation on a GPU: a thread block stages the bytes of adjacent blocks in shared memory, so that blocks of any size
// and alignment are read in whole words, and writes 16 bytes a thread, coalesced.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/codec/block_format.h"
#include "core/types/vec.h"
#include "quantize/blocks/dequantize.h"

namespace bk {

constexpr int kDecodeThreads = 256;
constexpr int kDecodeValues = 8192;  // of a tile

// Copies `bytes` bytes to `to`, aligned to 16 bytes, by the widest words that `from` is aligned to.
BK_DEVICE void stage_bytes(uint8_t* to, const uint8_t* from, int bytes) {
    const unsigned address = static_cast<unsigned>(reinterpret_cast<uintptr_t>(from));
    int staged = 0;
    if (address % 16 == 0) {
        const int words = bytes / 16;
#pragma unroll 2
        for (int i = threadIdx.x; i < words; i += kDecodeThreads) store<16>(to + 16 * i, load_once<16>(from + 16 * i));
        staged = 16 * words;
    }
    if (address % 4 == 0) {
        const int words = (bytes - staged) / 4;
#pragma unroll 1
        for (int i = threadIdx.x; i < words; i += kDecodeThreads) store<4>(to + staged + 4 * i, load<4>(from + staged + 4 * i));
        staged += 4 * words;
    }
#pragma unroll 1
    for (int i = staged + threadIdx.x; i < bytes; i += kDecodeThreads) to[i] = from[i];
}

// Beginnings of the blocks of a tile of gathered rows, null for rows that do not exist.
struct BlockSources {
    const uint8_t* const* from;  // null if the blocks are adjacent
    BK_DEVICE bool has(int block) const { return from == nullptr || from[block] != nullptr; }
};

// Stages `count` blocks in words of the format's alignment or, of blocks that lie otherwise, in bytes.
template <int kBytes, int kAlign>
BK_DEVICE void stage_gathered(uint8_t* to, const uint8_t* const* from, int count, bool is_aligned) {
    constexpr int kWords = kBytes / kAlign;
    if (is_aligned) {
#pragma unroll 2
        for (int i = threadIdx.x; i < count * kWords; i += kDecodeThreads) {
            const int block = i / kWords, at = i % kWords * kAlign;
            if (from[block] != nullptr) store<kAlign>(to + i * kAlign, load<kAlign>(from[block] + at));
        }
    } else {
#pragma unroll 1
        for (int i = threadIdx.x; i < count * kBytes; i += kDecodeThreads)
            if (from[i / kBytes] != nullptr) to[i] = from[i / kBytes][i % kBytes];
    }
}

// The widest word that divides a block, up to 16 bytes.
template <int kBytes>
constexpr int kStagingWord = kBytes % 16 == 0  ? 16
                             : kBytes % 8 == 0 ? 8
                             : kBytes % 4 == 0 ? 4
                             : kBytes % 2 == 0 ? 2
                                               : 1;

template <int N, class T>
BK_DEVICE void store_values(T* y, bool is_vector, const float (&values)[N]) {
    Vec<T, N> rounded;
#pragma unroll
    for (int i = 0; i < N; ++i) rounded.lane[i] = narrow<T>(values[i]);
    if (is_vector) return store_once<N>(y, rounded);
#pragma unroll
    for (int i = 0; i < N; ++i) y[i] = rounded.lane[i];
}

// Decodes a tile, a vector of 16 bytes a thread and step. Groups have 16 values or more, so that a vector has one scale.
template <class Format, class T>
BK_DEVICE void decode_tile(const uint8_t* staged, const BlockSources& sources, T* y, bool is_vector, int here) {
    constexpr int kLanes = kVectorLanes<T>;
    static_assert(Format::kGroup % kLanes == 0, "a vector has one scale");
#pragma unroll
    for (int at = threadIdx.x * kLanes; at < kDecodeValues; at += kDecodeThreads * kLanes) {
        const int block = at / Format::kBlock, e = at % Format::kBlock;
        if (block >= here) break;
        float values[kLanes] = {};
        if (sources.has(block)) {
            const uint8_t* const bytes = staged + block * Format::kBytes;
            const codec::Affine affine = Format::affine(bytes, e / Format::kGroup);
#pragma unroll
            for (int part = 0; part < kLanes; part += 4) {
                const uint32_t codes = Format::codes4(bytes, e + part);
#pragma unroll
                for (int i = 0; i < 4; ++i) values[part + i] = codec::value_of<Format>(affine, codec::code_of(codes, i));
            }
        }
        store_values(y + at, is_vector, values);
    }
}

// `is_vector`: y is aligned to 16 bytes.
template <class Format>
__global__ void __launch_bounds__(kDecodeThreads)
    dequantize_kernel(EncodedRows blocks, FloatArray y, bool is_vector, int64_t count) {
    constexpr int kBlocks = kDecodeValues / Format::kBlock, kWord = kStagingWord<Format::kBytes>;
    static_assert(kBlocks * Format::kBlock == kDecodeValues, "a tile has whole blocks");
    alignas(16) __shared__ uint8_t staged[kBlocks * Format::kBytes];
    __shared__ const uint8_t* from[kBlocks];
    const BlockSources sources{blocks.index == nullptr ? nullptr : from};
    for (int64_t first = int64_t{blockIdx.x} * kBlocks; first < count; first += int64_t{gridDim.x} * kBlocks) {
        const int here = static_cast<int>(min(count - first, int64_t{kBlocks}));
        if (blocks.index == nullptr) {
            stage_bytes(staged, blocks.blocks + first * Format::kBytes, here * Format::kBytes);
        } else {
#pragma unroll 1
            for (int k = threadIdx.x; k < here; k += kDecodeThreads) {
                const int64_t row = (first + k) / blocks.blocks_per_row, source = blocks.source_row(row);
                const int64_t block = source * blocks.blocks_per_row + (first + k) - row * blocks.blocks_per_row;
                from[k] = blocks.has(source) ? blocks.blocks + block * Format::kBytes : nullptr;
            }
            __syncthreads();
            const bool fits = reinterpret_cast<uintptr_t>(blocks.blocks) % kWord == 0;
            stage_gathered<Format::kBytes, kWord>(staged, from, here, fits);
        }
        __syncthreads();
        const int64_t target = first * Format::kBlock;
        switch (y.kind) {
            case FloatKind::kF32:
                decode_tile<Format>(staged, sources, static_cast<float*>(y.data) + target, is_vector, here);
                break;
            case FloatKind::kF16:
                decode_tile<Format>(staged, sources, static_cast<f16*>(y.data) + target, is_vector, here);
                break;
            case FloatKind::kBf16:
                decode_tile<Format>(staged, sources, static_cast<bf16*>(y.data) + target, is_vector, here);
                break;
        }
        __syncthreads();
    }
}

template <class Format>
Status dequantize_rows(const Launch& launch, const EncodedRows& blocks, const FloatArray& y) {
    const int64_t count = blocks.count(), tiles = ceil_div<int64_t>(count, kDecodeValues / Format::kBlock);
    const Grid grid{dim3(static_cast<unsigned>(std::min(tiles, kMaxGridX))), dim3(kDecodeThreads)};
    const bool is_vector = is_aligned(y.data, kVectorBytes);
    return launch_kernel(launch, grid, dequantize_kernel<Format>, blocks, y, is_vector, count);
}

}  // namespace bk
