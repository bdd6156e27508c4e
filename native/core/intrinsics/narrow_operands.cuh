// SPDX-License-Identifier: Apache-2.0
// mma steps for operands narrower than the tensor cores take: s4, u4 and b1 are widened to bytes in registers, fp8 to
// f16.
//
// A dot product does not depend on the order along k if A and B agree on it. So a packed word becomes several words of
// wider elements in sequence, and each goes through an mma of its own.
#pragma once

#include <cstdint>

#include "core/platform.h"
#include "core/types/dtype.h"
#include "core/types/nibbles.h"

namespace bk {

// Factor that widening leaves in an element.
template <class E>
constexpr int kWidenScale = 1;
template <>
constexpr int kWidenScale<s4x2> = 16;

// Word `i` of the widened elements, four bytes each. s4 comes out times 16; a bit becomes 1 for 0 and -1 for 1, so that
// the product of equal bits is 1 and of different bits -1.
template <class E>
BK_DEVICE uint32_t widened(uint32_t word, int i);

template <>
BK_DEVICE uint32_t widened<s4x2>(uint32_t word, int i) {
    return (i == 0 ? word << 4 : word) & 0xf0f0f0f0u;
}

template <>
BK_DEVICE uint32_t widened<u4x2>(uint32_t word, int i) {
    return (i == 0 ? word : word >> 4) & 0x0f0f0f0fu;
}

template <>
BK_DEVICE uint32_t widened<b1x8>(uint32_t word, int i) {
    return ((word >> i) & 0x01010101u) * 0xfeu | 0x01010101u;
}

#if !BK_ON_GPU
template <class F>
uint32_t map_f16x2(uint32_t a, uint32_t b, const F& function) {
    uint32_t result = 0;
    for (int shift = 0; shift < 32; shift += 16) {
        const f16 x{static_cast<uint16_t>(a >> shift)}, y{static_cast<uint16_t>(b >> shift)};
        result |= uint32_t{narrow<f16>(function(widen(x), widen(y))).bits} << shift;
    }
    return result;
}
#endif

// Packed f16 arithmetic, each lane rounded to nearest even.
BK_DEVICE uint32_t mul_f16x2(uint32_t a, uint32_t b) {
#if BK_ON_GPU
    uint32_t result;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
    return result;
#else
    return map_f16x2(a, b, [](float x, float y) { return x * y; });
#endif
}

BK_DEVICE uint32_t sub_f16x2(uint32_t a, uint32_t b) {
#if BK_ON_GPU
    uint32_t result;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
    return result;
#else
    return map_f16x2(a, b, [](float x, float y) { return x - y; });
#endif
}

// Converts two fp8 elements, the lower or upper half of a word, to f16x2: exact, NaN stays NaN.
template <class E>
BK_DEVICE uint32_t fp8_to_f16x2(uint32_t word, int half);

template <>
BK_DEVICE uint32_t fp8_to_f16x2<e5m2>(uint32_t word, int half) {
    const uint32_t two = half == 0 ? word : word >> 16;
    return (two & 0xffu) << 8 | (two & 0xff00u) << 16;
}

// Shifting exponent and mantissa of e4m3 into f16 gives 2^-8 of the value, subnormals included. f16's fields reach 480.
template <>
BK_DEVICE uint32_t fp8_to_f16x2<e4m3>(uint32_t word, int half) {
    const uint32_t two = half == 0 ? word : word >> 16;
    const uint32_t spread = (two & 0xffu) | (two & 0xff00u) << 8;
    const uint32_t magnitude = spread & 0x007f007fu, sign = (spread & 0x00800080u) << 8;
    const uint32_t nan = ((magnitude + 0x00010001u) & 0x00800080u) * 0xffu;  // 0x7f80 where the magnitude is 0x7f
    return mul_f16x2(magnitude << 7, 0x5c005c00u) | sign | nan;              // times 256
}

// Two 8-bit integers, the lower or upper half of a word: 1024 + 128 + x has x + 128 as the low bits of its mantissa.
BK_DEVICE uint32_t int8_to_f16x2(uint32_t word, int half) {
    const uint32_t shifted = word ^ 0x80808080u, two = half == 0 ? shifted : shifted >> 16;
    return sub_f16x2((two & 0xffu) | (two & 0xff00u) << 8 | 0x64006400u, 0x64806480u);
}

// mma over 32 bytes along k of sub-byte elements, by byte mmas.
template <class Bytes, class E>
struct WidenedMma {
    using Sum = typename Bytes::Sum;
    static BK_DEVICE void run(Sum (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#pragma unroll
        for (int i = 0; i < kElementsPerByte<E>; ++i) {
            const uint32_t a_words[4] = {widened<E>(a[0], i), widened<E>(a[1], i), widened<E>(a[2], i), widened<E>(a[3], i)};
            const uint32_t b_words[2] = {widened<E>(b[0], i), widened<E>(b[1], i)};
            Bytes::run(d, a_words, b_words);
        }
    }
};

// mma over 32 fp8 elements, by two f16 mmas.
template <class Halves, class E>
struct Fp8Mma {
    using Sum = typename Halves::Sum;
    static BK_DEVICE void run(Sum (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const uint32_t a_words[4] = {fp8_to_f16x2<E>(a[2 * i], 0), fp8_to_f16x2<E>(a[2 * i + 1], 0),
                                         fp8_to_f16x2<E>(a[2 * i], 1), fp8_to_f16x2<E>(a[2 * i + 1], 1)};
            const uint32_t b_words[2] = {fp8_to_f16x2<E>(b[i], 0), fp8_to_f16x2<E>(b[i], 1)};
            Halves::run(d, a_words, b_words);
        }
    }
};

}  // namespace bk
