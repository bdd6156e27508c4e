// SPDX-License-Identifier: Apache-2.0
// Rows of x as integers of 31 bits below the largest magnitude of their row, each the sum of signed digits of 8 bits, which
// multiply the codes of weights exactly:
//
//   x[k] = integer[k] * 2^(exponent - 156),   integer = sum over d of digit[d] * 256^(3 - d)
//
// What is cut off is below 2^-29 of the largest magnitude.
#pragma once

#include <cstdint>

#include "core/platform.h"
#include "quantize/products/mma_operands.cuh"

namespace bk {

constexpr int kDigits = 4;

// Shared memory of the digits of rows of x, a column of bytes each, with the sums of groups of elements behind them.
struct DigitColumns {
    static constexpr int kMostRows = 8;
    int rows, k;
    int pitch;      // of columns, in bytes: 32 modulo 128, so that four columns are in different banks
    int group;      // elements of a sum, 16 or 32; 0 if there are none
    int sum_count;  // of a row
    int sums_at, bytes;

    static DigitColumns of(int rows, int k, int group) {
        const int pitch = k + (160 - k % 128) % 128, sum_count = group > 0 ? k / group : 0, sums_at = rows * kDigits * pitch;
        const int bytes = (sums_at + rows * sum_count * static_cast<int>(sizeof(float)) + 15) / 16 * 16;
        return {rows, k, pitch, group, sum_count, sums_at, bytes};
    }
};

// The exponent field of the largest magnitude of a row, 255 if it is not finite.
struct RowScale {
    int exponent;

    BK_DEVICE bool is_finite() const { return exponent < 255; }
    // 30 bits and the sign of x in units of 2^(exponent - 156), towards 0.
    BK_DEVICE int32_t integer(float x) const {
        const uint32_t bits = bit_cast<uint32_t>(x);
        const int own = static_cast<int>(bits >> 23 & 255u);
        const uint32_t significand = own > 0 ? (bits & 0x7fffffu) | 0x800000u : bits & 0x7fffffu;
        const int shift = exponent - (own > 0 ? own : 1);
        const int32_t magnitude = static_cast<int32_t>(shift < 32 ? significand << 6 >> shift : 0u);
        return (bits >> 31) != 0 ? -magnitude : magnitude;
    }
    // A sum in units of the highest digit, 2^24 of the integers'.
    BK_DEVICE float value(float sum) const {
        const int power = exponent - 132, half = power / 2;
        const auto two_to = [](int e) { return bit_cast<float>(static_cast<uint32_t>(e + 127) << 23); };
        return sum * two_to(half) * two_to(power - half);
    }
};

// Signed digits of four integers, as four words of which byte i is of integer i; the highest first.
BK_DEVICE void digits_of_four(int32_t (&rest)[4], uint32_t (&word)[kDigits]) {
#pragma unroll
    for (int d = kDigits - 1; d >= 0; --d) {
        word[d] = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int32_t digit = d == 0 ? rest[i] : static_cast<int8_t>(rest[i]);
            word[d] |= (static_cast<uint32_t>(digit) & 255u) << (8 * i);
            rest[i] = (rest[i] - digit) >> 8;
        }
    }
}

// Stores the digits of rows of x and the sums of its groups. All threads of the block call it; it ends with a barrier.
// Digits of elements 4 t to 4 t + 3 and 4 t + 16 to 4 t + 19 of 32 are adjacent, as a lane of the mma has them.
BK_DEVICE void store_digits(uint8_t* shared, RowScale* scales, const DigitColumns& of, const BlockProduct& p, bool is_vector) {
    const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x), lane = thread % 32;
    if (thread < of.rows) scales[thread].exponent = 1;
    __syncthreads();
    const auto row_of = [&](int i) { return static_cast<const char*>(p.x) + i * p.x_row * bytes_of(p.dtype); };
    for (int i = 0; i < of.rows; ++i) {
        int largest = 1;
        for (int k = 4 * thread; k < of.k; k += 4 * threads) {
            float x[4];
            load_four(x, row_of(i) + k * p.x_step * bytes_of(p.dtype), p.x_step, p.dtype, is_vector);
#pragma unroll
            for (int e = 0; e < 4; ++e) largest = max(largest, static_cast<int>(bit_cast<uint32_t>(x[e]) >> 23 & 255u));
        }
        for (int distance = 16; distance > 0; distance /= 2) largest = max(largest, __shfl_xor_sync(~0u, largest, distance));
        if (lane == 0) atomicMax(&scales[i].exponent, largest);
    }
    __syncthreads();
    for (int i = 0; i < of.rows; ++i) {
        const RowScale scale = scales[i];
        float* const sums = reinterpret_cast<float*>(shared + of.sums_at) + i * of.sum_count;
        for (int first = 4 * (thread - lane); first < of.k; first += 4 * threads) {
            const int k = first + 4 * lane;
            const bool is_there = k < of.k;
            float x[4] = {};
            if (is_there) load_four(x, row_of(i) + k * p.x_step * bytes_of(p.dtype), p.x_step, p.dtype, is_vector);
            int32_t integer[4];
            float sum = 0;
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                integer[e] = scale.is_finite() ? scale.integer(x[e]) : 0;
                sum += static_cast<float>(integer[e]);
            }
            uint32_t word[kDigits];
            digits_of_four(integer, word);
            const int at = k / 32 * 32 + k % 16 * 2 + k % 32 / 16 * 4;
#pragma unroll
            for (int d = 0; d < kDigits; ++d)
                if (is_there) *reinterpret_cast<uint32_t*>(shared + (i * kDigits + d) * of.pitch + at) = word[d];
            if (of.group > 0) {
                for (int distance = 1; distance < of.group / 4; distance *= 2) sum += __shfl_xor_sync(~0u, sum, distance);
                if (is_there && k % of.group == 0) sums[k / of.group] = sum * 0x1p-24f;
            }
        }
    }
    __syncthreads();
}

}  // namespace bk
