// SPDX-License-Identifier: Apache-2.0
// Dequantisation on a GPU: a thread block stages the bytes of adjacent blocks in shared memory, so that blocks of any size
// and alignment are read in whole words, and writes four values a thread, coalesced.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/codec/block_format.h"
#include "core/types/vec.h"
#include "quantize/blocks/dequantize.h"

namespace bk {

constexpr int kDecodeThreads = 256;
constexpr int kDecodeValues = 4096;  // of a tile

// Copies `bytes` bytes to `to`, aligned to 16 bytes, by the widest words that `from` is aligned to.
BK_DEVICE void stage_bytes(uint8_t* to, const uint8_t* from, int bytes) {
    const unsigned address = static_cast<unsigned>(reinterpret_cast<uintptr_t>(from));
    int staged = 0;
    if (address % 16 == 0) {
        const int words = bytes / 16;
        for (int i = threadIdx.x; i < words; i += kDecodeThreads) store<16>(to + 16 * i, load_once<16>(from + 16 * i));
        staged = 16 * words;
    }
    if (address % 4 == 0) {
        const int words = (bytes - staged) / 4;
        for (int i = threadIdx.x; i < words; i += kDecodeThreads) store<4>(to + staged + 4 * i, load<4>(from + staged + 4 * i));
        staged += 4 * words;
    }
    for (int i = staged + threadIdx.x; i < bytes; i += kDecodeThreads) to[i] = from[i];
}

// Stages blocks [first, first + count) of gathered rows, a warp a block; has[k] says whether the row of block k exists.
template <int kBytes>
BK_DEVICE void stage_gathered(uint8_t* to, bool* has, const EncodedRows& blocks, int64_t first, int count) {
    const int lane = threadIdx.x % 32;
    for (int k = threadIdx.x / 32; k < count; k += kDecodeThreads / 32) {
        const int64_t row = (first + k) / blocks.blocks_per_row, source = blocks.source_row(row);
        if (lane == 0) has[k] = blocks.has(source);
        if (!blocks.has(source)) continue;
        const int64_t block = source * blocks.blocks_per_row + (first + k) % blocks.blocks_per_row;
        const uint8_t* const from = blocks.blocks + block * kBytes;
        if (kBytes % 2 == 0 && reinterpret_cast<uintptr_t>(from) % 2 == 0)
            for (int i = lane; i < kBytes / 2; i += 32) store<2>(to + k * kBytes + 2 * i, load<2>(from + 2 * i));
        else
            for (int i = lane; i < kBytes; i += 32) to[k * kBytes + i] = from[i];
    }
}

template <class T>
BK_DEVICE void store_values(T* y, bool is_vector, const float (&values)[4]) {
    Vec<T, 4> rounded;
#pragma unroll
    for (int i = 0; i < 4; ++i) rounded.lane[i] = narrow<T>(values[i]);
    if (is_vector) return store_once<4>(y, rounded);
#pragma unroll
    for (int i = 0; i < 4; ++i) y[i] = rounded.lane[i];
}

// `is_vector`: y is aligned to four elements.
template <class Format>
__global__ void __launch_bounds__(kDecodeThreads)
    dequantize_kernel(EncodedRows blocks, FloatArray y, bool is_vector, int64_t count) {
    constexpr int kBlocks = kDecodeValues / Format::kBlock;
    static_assert(kBlocks * Format::kBlock == kDecodeValues, "a tile has whole blocks");
    alignas(16) __shared__ uint8_t staged[kBlocks * Format::kBytes];
    __shared__ bool has[kBlocks];
    for (int64_t first = int64_t{blockIdx.x} * kBlocks; first < count; first += int64_t{gridDim.x} * kBlocks) {
        const int here = static_cast<int>(min(count - first, int64_t{kBlocks}));
        if (blocks.index == nullptr)
            stage_bytes(staged, blocks.blocks + first * Format::kBytes, here * Format::kBytes);
        else
            stage_gathered<Format::kBytes>(staged, has, blocks, first, here);
        __syncthreads();
#pragma unroll
        for (int at = threadIdx.x * 4; at < kDecodeValues; at += kDecodeThreads * 4) {
            const int block = at / Format::kBlock;
            if (block >= here) break;
            float values[4] = {};
            if (blocks.index == nullptr || has[block])
                codec::values4<Format>(staged + block * Format::kBytes, at % Format::kBlock, values);
            const int64_t target = first * Format::kBlock + at;
            switch (y.kind) {
                case FloatKind::kF32: store_values(static_cast<float*>(y.data) + target, is_vector, values); break;
                case FloatKind::kF16: store_values(static_cast<f16*>(y.data) + target, is_vector, values); break;
                case FloatKind::kBf16: store_values(static_cast<bf16*>(y.data) + target, is_vector, values); break;
            }
        }
        __syncthreads();
    }
}

template <class Format>
Status dequantize_rows(const Launch& launch, const EncodedRows& blocks, const FloatArray& y) {
    const int64_t count = blocks.count(), tiles = ceil_div<int64_t>(count, kDecodeValues / Format::kBlock);
    const Grid grid{dim3(static_cast<unsigned>(std::min(tiles, kMaxGridX))), dim3(kDecodeThreads)};
    const bool is_vector = is_aligned(y.data, y.kind == FloatKind::kF32 ? 16 : 8);
    return launch_kernel(launch, grid, dequantize_kernel<Format>, blocks, y, is_vector, count);
}

}  // namespace bk
