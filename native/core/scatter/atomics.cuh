// SPDX-License-Identifier: Apache-2.0
// Atomic additions to global memory (red.global), N adjacent elements in as few instructions as the chip has; `pointer`
// is aligned to them. 16-bit floats are added in their own width, each addition rounded.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/platform.h"
#include "core/types/dtype.h"
#include "core/types/vec.h"

namespace bk {

// sm_90 has 16-byte vector red, and bf16 red.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
constexpr bool kHasVectorRed = true;
#else
constexpr bool kHasVectorRed = false;
#endif

template <int N>
BK_DEVICE void atomic_add(double* pointer, const double (&value)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) atomicAdd(pointer + i, value[i]);
}

template <int N>
BK_DEVICE void atomic_add(float* pointer, const float (&value)[N]) {
    if constexpr (N == 4 && kHasVectorRed) {
        asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(pointer)), "f"(value[0]),
                     "f"(value[1]), "f"(value[2]), "f"(value[3])
                     : "memory");
    } else {
#pragma unroll
        for (int i = 0; i < N; ++i) atomicAdd(pointer + i, value[i]);
    }
}

template <class T>
BK_DEVICE uint32_t pack_pair(float low, float high) {
    return narrow<T>(low).bits | static_cast<uint32_t>(narrow<T>(high).bits) << 16;
}

template <int N>
BK_DEVICE void atomic_add(f16* pointer, const float (&value)[N]) {
    const size_t address = __cvta_generic_to_global(pointer);
    if constexpr (N == 1) {
        asm volatile("red.global.add.noftz.f16 [%0], %1;" ::"l"(address), "h"(narrow<f16>(value[0]).bits) : "memory");
    } else {
        uint32_t pair[N / 2];
#pragma unroll
        for (int i = 0; i < N / 2; ++i) pair[i] = pack_pair<f16>(value[2 * i], value[2 * i + 1]);
        if constexpr (N == 8 && kHasVectorRed) {
            asm volatile("red.global.add.noftz.v4.f16x2 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(pair[0]), "r"(pair[1]),
                         "r"(pair[2]), "r"(pair[3])
                         : "memory");
        } else {
#pragma unroll
            for (int i = 0; i < N / 2; ++i)
                asm volatile("red.global.add.noftz.f16x2 [%0], %1;" ::"l"(address + 4 * i), "r"(pair[i]) : "memory");
        }
    }
}

template <int N>
BK_DEVICE void atomic_add(bf16* pointer, const float (&value)[N]) {
#if __CUDA_ARCH__ >= 900
    const size_t address = __cvta_generic_to_global(pointer);
    if constexpr (N == 1) {
        asm volatile("red.global.add.noftz.bf16 [%0], %1;" ::"l"(address), "h"(narrow<bf16>(value[0]).bits) : "memory");
    } else {
        uint32_t pair[N / 2];
#pragma unroll
        for (int i = 0; i < N / 2; ++i) pair[i] = pack_pair<bf16>(value[2 * i], value[2 * i + 1]);
        if constexpr (N == 8) {
            asm volatile("red.global.add.noftz.v4.bf16x2 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(pair[0]), "r"(pair[1]),
                         "r"(pair[2]), "r"(pair[3])
                         : "memory");
        } else {
#pragma unroll
            for (int i = 0; i < N / 2; ++i)
                asm volatile("red.global.add.noftz.bf16x2 [%0], %1;" ::"l"(address + 4 * i), "r"(pair[i]) : "memory");
        }
    }
#else
    // Before sm_90 there is no bf16 red: compare-and-swap of the 16 bits alone.
    for (int i = 0; i < N; ++i) {
        unsigned short* const cell = reinterpret_cast<unsigned short*>(pointer + i);
        unsigned short seen = *cell, expected;
        do {
            expected = seen;
            seen = atomicCAS(cell, expected, narrow<bf16>(widen(bf16{expected}) + value[i]).bits);
        } while (seen != expected);
    }
#endif
}

// Adds to one 16-bit float by a red on its pair, with -0 for the other one, which keeps its value (a NaN may change
// payload). Compare-and-swap of the word takes twice the time. The word must hold nothing but cells.
template <class T>
BK_DEVICE void atomic_add_in_pair(T* pointer, float value) {
    if constexpr (!std::is_same_v<T, f16> && !kHasVectorRed) {
        atomic_add<1>(pointer, {value});
    } else {
        const size_t address = __cvta_generic_to_global(pointer), word = address & ~size_t{3};
        const uint32_t bits = narrow<T>(value).bits;
        const uint32_t pair = address != word ? bits << 16 | 0x8000u : 0x80000000u | bits;
        if constexpr (std::is_same_v<T, f16>) {
            asm volatile("red.global.add.noftz.f16x2 [%0], %1;" ::"l"(word), "r"(pair) : "memory");
        } else {
#if __CUDA_ARCH__ >= 900
            asm volatile("red.global.add.noftz.bf16x2 [%0], %1;" ::"l"(word), "r"(pair) : "memory");
#endif
        }
    }
}

}  // namespace bk
