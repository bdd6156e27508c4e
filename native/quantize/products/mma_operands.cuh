// SPDX-License-Identifier: Apache-2.0
// Operands of products with quantised weights as mma.sync takes them: codes of weights in bf16 or f16, where they are exact,
// and rows of x as sums of bf16.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/codec/block_format.h"
#include "core/intrinsics/narrow_operands.cuh"
#include "core/types/vec.h"
#include "quantize/products/block_product.h"

namespace bk {

// Whether a format says that its codes are positive.
template <class Format, class = void>
constexpr bool kHasPositiveCodes = false;
template <class Format>
constexpr bool kHasPositiveCodes<Format, std::enable_if_t<Format::kHasPositiveCodes>> = true;

// Four signed bytes as bf16 pairs: 128 plus the low seven bits, less 128, or 256 if the sign bit is set.
template <bool kArePositive = false>
BK_DEVICE void codes_to_bf16(uint32_t codes, uint32_t& first, uint32_t& second) {
#if BK_ON_GPU
    const uint32_t low = __byte_perm(codes, 0x43u, 0x4140), high = __byte_perm(codes, 0x43u, 0x4342);
    const auto subtract = [](uint32_t minuend, uint32_t subtrahend) {  // sm_80 has the fused form alone
        uint32_t difference;
        asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(difference) : "r"(minuend), "r"(0x3f803f80u), "r"(subtrahend ^ 0x80008000u));
        return difference;
    };
    if constexpr (kArePositive) {
        first = subtract(low, 0x43004300u);
        second = subtract(high, 0x43004300u);
    } else {
        first = subtract(low & 0xff7fff7fu, low & 0xff80ff80u);
        second = subtract(high & 0xff7fff7fu, high & 0xff80ff80u);
    }
#else
    const auto pair = [&](int i) {
        const uint32_t low = narrow<bf16>(codec::code_of(codes, i)).bits,
                       high = narrow<bf16>(codec::code_of(codes, i + 1)).bits;
        return low | high << 16;
    };
    first = pair(0);
    second = pair(2);
#endif
}

// Part `part` of the exact sum of bf16 that an f32 is: truncation cannot overflow. Infinities and NaN have one part.
BK_DEVICE uint32_t bf16_part(float x, int part) {
    const auto truncated = [](float value) { return bit_cast<float>(bit_cast<uint32_t>(value) & 0xffff0000u); };
    const uint32_t bits = bit_cast<uint32_t>(x);
    if ((bits & 0x7f800000u) == 0x7f800000u) return part > 0 ? 0 : (bits >> 16) | ((bits & 0x7fffffu) != 0 ? 0x40u : 0u);
    const float second = x - truncated(x), third = second - truncated(second);
    return bit_cast<uint32_t>(part == 0 ? x : part == 1 ? second : third) >> 16;
}

BK_DEVICE int parts_of(FloatDtype dtype) { return dtype == FloatDtype::kF32 ? 3 : dtype == FloatDtype::kF16 ? 2 : 1; }

// Four elements of x.
BK_DEVICE void load_four(float (&values)[4], const void* from, int64_t step, FloatDtype dtype, bool is_vector) {
    if (is_vector && dtype == FloatDtype::kF32) {
        const auto v = load<4>(static_cast<const float*>(from));
        for (int i = 0; i < 4; ++i) values[i] = v.lane[i];
    } else if (is_vector) {
        const auto v = load<4>(static_cast<const bf16*>(from));
        for (int i = 0; i < 4; ++i) values[i] = dtype == FloatDtype::kF16 ? widen(f16{v.lane[i].bits}) : widen(v.lane[i]);
    } else {
        for (int i = 0; i < 4; ++i) values[i] = load_float(from, i * step, dtype);
    }
}

// Four signed bytes as pairs of E.
template <class E>
BK_DEVICE void codes_to_pairs(uint32_t codes, uint32_t (&pairs)[2]) {
    if constexpr (std::is_same_v<E, bf16>) {
        codes_to_bf16(codes, pairs[0], pairs[1]);
    } else {
        pairs[0] = int8_to_f16x2(codes, 0);
        pairs[1] = int8_to_f16x2(codes, 1);
    }
}

// Two numbers as a pair of E, in which both are exact.
template <class E>
BK_DEVICE uint32_t exact_pair(float first, float second) {
    if constexpr (std::is_same_v<E, bf16>) return bit_cast<uint32_t>(first) >> 16 | (bit_cast<uint32_t>(second) & 0xffff0000u);
    return narrow<E>(first).bits | static_cast<uint32_t>(narrow<E>(second).bits) << 16;
}

}  // namespace bk
