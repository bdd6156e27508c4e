// SPDX-License-Identifier: Apache-2.0
// Quantisation of activations on a GPU: eight lanes a block, four values each.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/types/vec.h"
#include "quantize/blocks/activations.h"

namespace bk {

constexpr int kQ81Threads = 256, kQ81Lanes = 8;

BK_DEVICE void store_word(uint8_t* to, uint32_t word) {
    if (reinterpret_cast<uintptr_t>(to) % 4 == 0) {
        *reinterpret_cast<uint32_t*>(to) = word;
        return;
    }
    for (int i = 0; i < 4; ++i) to[i] = static_cast<uint8_t>(word >> (8 * i));
}

// `is_vector`: rows begin at and have multiples of four elements.
template <class T, bool kWide>
__global__ void __launch_bounds__(kQ81Threads)
    quantize_q8_1_kernel(const T* src, uint8_t* dst, int64_t kx, int64_t blocks_per_row, int64_t blocks, bool is_vector) {
    const int lane = threadIdx.x % kQ81Lanes;
    const int64_t step = int64_t{gridDim.x} * (kQ81Threads / kQ81Lanes);
    const int64_t begin = (int64_t{blockIdx.x} * kQ81Threads + threadIdx.x) / kQ81Lanes;
    for (int64_t first = begin - threadIdx.x / kQ81Lanes; first < blocks; first += step) {
        const int64_t block = first + threadIdx.x / kQ81Lanes;
        const bool exists = block < blocks;
        const int64_t row = !exists ? 0
                            : blocks < int64_t{1} << 31
                                ? static_cast<uint32_t>(block) / static_cast<uint32_t>(blocks_per_row)
                                : block / blocks_per_row;
        const int64_t column = (block - row * blocks_per_row) * kQ81Values + lane * 4;
        const T* const from = src + row * kx + column;
        float x[4] = {};
        if (exists && is_vector && column < kx) {
            const Vec<T, 4> values = load<4>(from);
#pragma unroll
            for (int i = 0; i < 4; ++i) x[i] = widen(values.lane[i]);
        } else if (exists) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                if (column + i < kx) x[i] = widen(from[i]);
        }
        uint32_t largest = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) largest = math::max(largest, bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
        float sum = (x[0] + x[1]) + (x[2] + x[3]);
#pragma unroll
        for (int peer = 1; peer < kQ81Lanes; peer *= 2) {
            largest = math::max(largest, __shfl_xor_sync(~0u, largest, peer));
            sum += __shfl_xor_sync(~0u, sum, peer);
        }
        if (!exists) continue;
        const Q81Scale scale = Q81Scale::of(largest);
        uint32_t codes = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) codes |= scale.code(x[i]) << (8 * i);
        uint8_t* const to = dst + block * kQ81Bytes;
        if (lane == 0) store_word(to, scale.header<kWide>(sum));
        store_word(to + 4 + lane * 4, codes);
    }
}

template <class T, bool kWide>
Status quantize_rows_q8_1(const Launch& launch, int64_t kx, int64_t ny, const T* src, uint8_t* dst) {
    const int64_t per_row = ceil_div<int64_t>(kx, kQ81Values), blocks = per_row * ny;
    const int64_t tiles = ceil_div<int64_t>(blocks, kQ81Threads / kQ81Lanes);
    const Grid grid{dim3(static_cast<unsigned>(std::min(tiles, kMaxGridX))), dim3(kQ81Threads)};
    return launch_kernel(launch, grid, quantize_q8_1_kernel<T, kWide>, src, dst, kx, per_row, blocks,
                         kx % 4 == 0 && is_aligned(src, 4 * sizeof(T)));
}

}  // namespace bk
