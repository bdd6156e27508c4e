// SPDX-License-Identifier: Apache-2.0
// Quantisation of activations on a GPU: four lanes a block, eight values each; a warp's eight blocks are gathered in shared
// memory, so that they are written in whole words of 16 bytes.
//
// Eight values have two divisions: a scale that is neither tiny nor huge has a reciprocal, whose products two residuals make
// correctly rounded quotients (Markstein 1990). Bits are those of Q81Scale::code.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/math/fastdiv.h"
#include "core/types/vec.h"
#include "quantize/blocks/activations.h"

namespace bk {

constexpr int kQ81Threads = 256, kQ81Lanes = 4, kQ81Part = kQ81Values / kQ81Lanes;
constexpr int kQ81WarpBlocks = 32 / kQ81Lanes, kQ81Words = kQ81Bytes / 4;

BK_DEVICE void store_word(uint8_t* to, uint32_t word) {
    if (reinterpret_cast<uintptr_t>(to) % 4 == 0) {
        *reinterpret_cast<uint32_t*>(to) = word;
        return;
    }
    for (int i = 0; i < 4; ++i) to[i] = static_cast<uint8_t>(word >> (8 * i));
}

// The sum of two non-negative numbers, rounded towards zero.
BK_DEVICE float add_towards_zero(float a, float b) {
#if BK_ON_GPU
    return __fadd_rz(a, b);
#else
    const float nearest = a + b;
    return static_cast<double>(nearest) > static_cast<double>(a) + static_cast<double>(b)
               ? bit_cast<float>(bit_cast<uint32_t>(nearest) - 1u)
               : nearest;
#endif
}

// Codes of eight values, a byte each.
BK_DEVICE void q8_1_codes(const Q81Scale& scale, const float (&x)[kQ81Part], uint32_t (&words)[2]) {
    if (!(scale.divisor >= 0x1p-60f && scale.divisor <= 0x1p60f)) {
#pragma unroll
        for (int i = 0; i < kQ81Part; ++i) words[i / 4] |= scale.code(x[i]) << (8 * (i % 4));
        return;
    }
    const float s = scale.divisor, reciprocal = 1.0f / s;
#pragma unroll
    for (int i = 0; i < kQ81Part; ++i) {
        float q = x[i] * reciprocal;
        q = math::fma(math::fma(-q, s, x[i]), reciprocal, q);
        q = math::fma(math::fma(-q, s, x[i]), reciprocal, q);
        // Units of 1/2 behind 2^22: half a unit of codes added and cut off rounds halves away from zero.
        const uint32_t magnitude = bit_cast<uint32_t>(add_towards_zero(fabsf(q), 0x1p22f + 0.5f)) >> 1;
        const uint32_t sign = static_cast<uint32_t>(bit_cast<int32_t>(q) >> 31);
        words[i / 4] |= (((magnitude ^ sign) - sign) & 255u) << (8 * (i % 4));
    }
}

// `is_vector`: rows begin at and have multiples of eight elements; `is_whole`: dst is aligned to 16 bytes.
template <class T, bool kWide>
__global__ void __launch_bounds__(kQ81Threads)
    quantize_q8_1_kernel(const T* src, uint8_t* dst, int64_t kx, int64_t blocks_per_row, FastDiv<uint32_t> narrow_row,
                         int64_t blocks, bool is_vector, bool is_whole) {
    constexpr int kLanes = kVectorLanes<T> < kQ81Part ? kVectorLanes<T> : kQ81Part;
    __shared__ uint4 gathered[kQ81Threads / 32][kQ81WarpBlocks * kQ81Bytes / 16];
    const int lane = threadIdx.x % kQ81Lanes, in_warp = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t step = int64_t{gridDim.x} * (kQ81Threads / kQ81Lanes);
    for (int64_t first = (int64_t{blockIdx.x} * kQ81Threads + warp * 32) / kQ81Lanes; first < blocks; first += step) {
        const int64_t block = first + in_warp / kQ81Lanes;
        const bool exists = block < blocks;
        const int64_t row = !exists                     ? 0
                            : blocks < int64_t{1} << 31 ? narrow_row(static_cast<uint32_t>(block)).quotient
                                                        : block / blocks_per_row;
        const int64_t column = (block - row * blocks_per_row) * kQ81Values + lane * kQ81Part;
        const T* const from = src + row * kx + column;
        float x[kQ81Part] = {};
        if (exists && is_vector && column < kx) {
            Vec<T, kLanes> values[kQ81Part / kLanes];
#pragma unroll
            for (int i = 0; i < kQ81Part / kLanes; ++i) values[i] = load<kLanes>(from + i * kLanes);
#pragma unroll
            for (int i = 0; i < kQ81Part; ++i) x[i] = widen_lane(values[i / kLanes], i % kLanes);
        } else if (exists) {
#pragma unroll
            for (int i = 0; i < kQ81Part; ++i)
                if (column + i < kx) x[i] = widen(from[i]);
        }
        uint32_t largest = 0;
#pragma unroll
        for (int i = 0; i < kQ81Part; ++i) largest = math::max(largest, bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
        float sum = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
#pragma unroll
        for (int peer = 1; peer < kQ81Lanes; peer *= 2) {
            largest = math::max(largest, __shfl_xor_sync(~0u, largest, peer));
            sum += __shfl_xor_sync(~0u, sum, peer);
        }
        const Q81Scale scale = Q81Scale::of(largest);
        uint32_t words[2] = {};
        q8_1_codes(scale, x, words);
        const uint32_t header = scale.template header<kWide>(sum);
        if (is_whole && first + kQ81WarpBlocks <= blocks) {  // for all lanes of a warp alike
            uint32_t* const own = reinterpret_cast<uint32_t*>(gathered[warp]) + in_warp / kQ81Lanes * kQ81Words;
            if (lane == 0) own[0] = header;
            own[1 + 2 * lane] = words[0];
            own[2 + 2 * lane] = words[1];
            __syncwarp();
            if (in_warp < kQ81WarpBlocks * kQ81Bytes / 16)
                reinterpret_cast<uint4*>(dst + first * kQ81Bytes)[in_warp] = gathered[warp][in_warp];
            __syncwarp();
        } else if (exists) {
            uint8_t* const to = dst + block * kQ81Bytes;
            if (lane == 0) store_word(to, header);
            store_word(to + 4 + lane * 8, words[0]);
            store_word(to + 8 + lane * 8, words[1]);
        }
    }
}

template <class T, bool kWide>
Status quantize_rows_q8_1(const Launch& launch, int64_t kx, int64_t ny, const T* src, uint8_t* dst) {
    const int64_t per_row = ceil_div<int64_t>(kx, kQ81Values), blocks = per_row * ny;
    const int64_t tiles = ceil_div<int64_t>(blocks, kQ81Threads / kQ81Lanes);
    const Grid grid{dim3(static_cast<unsigned>(std::min(tiles, kMaxGridX))), dim3(kQ81Threads)};
    const bool is_vector = kx % kQ81Part == 0 && is_aligned(src, std::min<size_t>(kVectorBytes, kQ81Part * sizeof(T)));
    return launch_kernel(launch, grid, quantize_q8_1_kernel<T, kWide>, src, dst, kx, per_row,
                         FastDiv<uint32_t>(blocks < int64_t{1} << 31 ? per_row : 1), blocks, is_vector, is_aligned(dst, 16));
}

}  // namespace bk
