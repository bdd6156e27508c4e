// SPDX-License-Identifier: Apache-2.0
// Replaces native/core/intrinsics/tensor_core.cuh: warp-wide instructions by memory that all lanes see.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>

#include "core/abi/launch_cuda.h"
#include "core/intrinsics/async_copy.cuh"
#include "core/intrinsics/narrow_operands.cuh"
#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk {

inline const char* lane_row[32][32];
inline uint32_t lane_words[32][32][6];

inline void ldmatrix_x4(uint32_t (&words)[4], const void* row) {
    const unsigned int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    require(reinterpret_cast<uintptr_t>(row) % 16 == 0, "a row of a matrix is misaligned");
    lane_row[warp][lane] = static_cast<const char*>(row);
    __syncwarp();
    for (unsigned int i = 0; i < 4; ++i) memcpy(&words[i], lane_row[warp][8 * i + lane / 4] + 4 * (lane % 4), 4);
    __syncwarp();
}

inline void ldmatrix_x4_trans(uint32_t (&words)[4], const void* row) {
    const unsigned int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    require(reinterpret_cast<uintptr_t>(row) % 16 == 0, "a row of a matrix is misaligned");
    lane_row[warp][lane] = static_cast<const char*>(row);
    __syncwarp();
    for (unsigned int i = 0; i < 4; ++i) {
        uint16_t pair[2];
        for (unsigned int half = 0; half < 2; ++half)
            memcpy(&pair[half], lane_row[warp][8 * i + 2 * (lane % 4) + half] + 2 * (lane / 4), 2);
        memcpy(&words[i], pair, 4);
    }
    __syncwarp();
}

inline uint32_t round_to_tf32(uint32_t bits) {
    return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & 0xffffe000u;
}

struct u8_by_s8 {};

// 16 x 8 dot products of 32 bytes of a row of A, of type T, and a column of B, of type B.
template <class T, class B = T>
struct MmaOf {
    using Sum =
        std::conditional_t<std::is_integral_v<T>, int32_t, std::conditional_t<std::is_same_v<T, double>, double, float>>;

    static void run(Sum (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
        const unsigned int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        uint32_t (*words)[6] = lane_words[warp];
        memcpy(words[lane], a, sizeof(a));
        memcpy(words[lane] + 4, b, sizeof(b));
        __syncwarp();
        constexpr unsigned int kElements = 32 / sizeof(T), kWords = sizeof(T) / 4;
        for (unsigned int v = 0; v < 4; ++v) {
            const unsigned int row = lane / 4 + v / 2 * 8, column = lane % 4 * 2 + v % 2;
            T x[kElements];
            B y[kElements];
            char *to_x = reinterpret_cast<char*>(x), *to_y = reinterpret_cast<char*>(y);
            if constexpr (kWords == 2) {
                for (unsigned int t = 0; t < 4; ++t) {
                    memcpy(to_x + 8 * t, &words[row % 8 * 4 + t][row / 8 * 2], 8);
                    memcpy(to_y + 8 * t, &words[column * 4 + t][4], 8);
                }
            } else {
                for (unsigned int t = 0; t < 8; ++t) {
                    memcpy(to_x + 4 * t, &words[row % 8 * 4 + t % 4][row / 8 + t / 4 * 2], 4);
                    memcpy(to_y + 4 * t, &words[column * 4 + t % 4][4 + t / 4], 4);
                }
            }
            for (unsigned int t = 0; t < kElements; ++t) d[v] += static_cast<Sum>(widen(x[t])) * static_cast<Sum>(widen(y[t]));
        }
        __syncwarp();
    }
};

template <class T>
struct Mma : MmaOf<T> {};
template <>
struct Mma<u8_by_s8> : MmaOf<uint8_t, int8_t> {};
template <>
struct Mma<e4m3> : Fp8Mma<Mma<f16>, e4m3> {};
template <>
struct Mma<e5m2> : Fp8Mma<Mma<f16>, e5m2> {};
template <>
struct Mma<s4x2> : WidenedMma<Mma<int8_t>, s4x2> {};
template <>
struct Mma<u4x2> : WidenedMma<Mma<uint8_t>, u4x2> {};
template <>
struct Mma<b1x8> : WidenedMma<Mma<int8_t>, b1x8> {};

}  // namespace bk
