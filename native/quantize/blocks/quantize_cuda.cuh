// SPDX-License-Identifier: Apache-2.0
// Quantisation on a GPU: a thread a sub-block. Values of a tile are staged in shared memory, padded against bank conflicts;
// sub-blocks of a block exchange ranges, fits and sums there, and bytes leave as whole words where they are aligned.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "quantize/blocks/quantize.h"

namespace bk {

constexpr int kEncodeThreads = 64;

template <class T>
BK_DEVICE float load_value(const T* x, int64_t at) {
    return widen(x[at]);
}
BK_DEVICE float load_value(const FloatArray& x, int64_t at) {
    switch (x.kind) {
        case FloatKind::kF32: return load_value(static_cast<const float*>(x.data), at);
        case FloatKind::kF16: return load_value(static_cast<const f16*>(x.data), at);
        default: return load_value(static_cast<const bf16*>(x.data), at);
    }
}

template <class Format>
__global__ void __launch_bounds__(kEncodeThreads) quantize_kernel(ValueRows values, uint8_t* y) {
    using Encoder = codec::Encoder<Format>;
    constexpr int kSubBlock = Encoder::kSubBlock, kSubBlocks = Format::kBlock / kSubBlock,
                  kBlocks = kEncodeThreads / kSubBlocks;
    constexpr int kValues = kBlocks * Format::kBlock, kBytes = kBlocks * Format::kBytes;
    __shared__ float staged[kEncodeThreads * (kSubBlock + 1)];
    __shared__ uint32_t largest[kEncodeThreads];
    __shared__ float squares[kEncodeThreads];
    __shared__ codec::Fit fits[kEncodeThreads];
    __shared__ codec::SubBlockSums sums[kEncodeThreads];
    __shared__ uint8_t codes[kValues];
    alignas(16) __shared__ uint8_t bytes[kBytes];
    const int thread = threadIdx.x, block = thread / kSubBlocks, p = thread % kSubBlocks;
    for (int64_t first = int64_t{blockIdx.x} * kBlocks; first < values.count; first += int64_t{gridDim.x} * kBlocks) {
        const int here = static_cast<int>(min(values.count - first, int64_t{kBlocks}));
        for (int i = thread; i < here * Format::kBlock; i += kEncodeThreads)
            staged[i / kSubBlock * (kSubBlock + 1) + i % kSubBlock] = load_value(values.x, first * Format::kBlock + i);
        for (int i = thread; i < kBytes; i += kEncodeThreads) bytes[i] = 0;
        __syncthreads();
        codec::SubBlock<kSubBlock> sub_block;
        const bool exists = block < here;
        largest[thread] = 0;
        if (exists) {
            uint32_t most = 0;
#pragma unroll
            for (int i = 0; i < kSubBlock; ++i) {
                sub_block.x[i] = staged[thread * (kSubBlock + 1) + i];
                const uint32_t magnitude = bit_cast<uint32_t>(sub_block.x[i]) & 0x7fffffffu;
                most = magnitude > most ? magnitude : most;
            }
            largest[thread] = most;
        }
        __syncthreads();
        uint32_t of_block = 0;
        for (int q = 0; q < kSubBlocks; ++q) of_block = math::max(of_block, largest[block * kSubBlocks + q]);
        const BlockRange range = BlockRange::of(of_block, Encoder::kScaled);
        const bool encodes = exists && range.is_finite;
        uint8_t* const to = bytes + block * Format::kBytes;
        if (encodes) {
            float square = 0.f;
#pragma unroll
            for (int i = 0; i < kSubBlock; ++i) {
                sub_block.x[i] = codec::mul(sub_block.x[i], range.unit);
                square += codec::mul(sub_block.x[i], sub_block.x[i]);
            }
            squares[thread] = square;
        }
        __syncthreads();
        if (encodes) {
            float square = 0.f;
            for (int q = 0; q < kSubBlocks; ++q) square += squares[block * kSubBlocks + q];
            const int64_t column = (first + block) % values.blocks_per_row * Format::kBlock + p * kSubBlock;
            Encoder::weights(&sub_block, values.importance == nullptr ? nullptr : values.importance + column,
                             2.f * square / Format::kBlock);
            fits[thread] = Encoder::fit(sub_block);
        }
        __syncthreads();
        if (encodes && p == 0) Encoder::head(to, fits + block * kSubBlocks, range.unit);
        if (exists && !encodes && p == 0) Encoder::poison(to);
        __syncthreads();
        uint8_t* const own = codes + thread * kSubBlock;
        if constexpr (Encoder::kRefits) {
            if (encodes) sums[thread] = Encoder::codes(to, fits + block * kSubBlocks, p, sub_block, range.unit, own);
            __syncthreads();
            if (encodes && p == 0) Encoder::refit(to, sums + block * kSubBlocks, range.unit);
            __syncthreads();
        }
        if (encodes) Encoder::codes(to, fits + block * kSubBlocks, p, sub_block, range.unit, own);
        __syncthreads();
        if (encodes) Encoder::pack(to, codes + block * Format::kBlock, p);
        __syncthreads();
        uint8_t* const target = y + first * Format::kBytes;
        const int count = here * Format::kBytes;
        int written = 0;
        if (reinterpret_cast<uintptr_t>(target) % 4 == 0) {
            for (int i = thread; i < count / 4; i += kEncodeThreads)
                reinterpret_cast<uint32_t*>(target)[i] = reinterpret_cast<const uint32_t*>(bytes)[i];
            written = count / 4 * 4;
        }
        for (int i = written + thread; i < count; i += kEncodeThreads) target[i] = bytes[i];
        __syncthreads();
    }
}

template <class Format>
Status quantize_rows(const Launch& launch, const ValueRows& values, uint8_t* y) {
    constexpr int kBlocks = kEncodeThreads / (Format::kBlock / codec::Encoder<Format>::kSubBlock);
    const int64_t tiles = ceil_div<int64_t>(values.count, kBlocks);
    const Grid grid{dim3(static_cast<unsigned>(std::min(tiles, kMaxGridX))), dim3(kEncodeThreads)};
    return launch_kernel(launch, grid, quantize_kernel<Format>, values, y);
}

}  // namespace bk
