// SPDX-License-Identifier: Apache-2.0
// 8-bit floats to and from f32. Widening is exact; narrowing rounds to nearest even and saturates, infinities included;
// NaN becomes 0x7f.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk {

#if BK_ON_GPU && __CUDA_ARCH__ >= 890
#define BK_FP8_HARDWARE 1
#else
#define BK_FP8_HARDWARE 0
#endif

BK_HD float fp8_to_float(e5m2 x) { return widen(f16{static_cast<uint16_t>(x.bits << 8)}); }  // the upper half of an f16

BK_HD float fp8_to_float(e4m3 x) {
#if BK_FP8_HARDWARE
    uint32_t halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(x.bits)));
    return widen(f16{static_cast<uint16_t>(halves)});
#else
    // Shifts exponent and mantissa, then rescales by 2^120, which is exact for subnormals too.
    const uint32_t magnitude = x.bits & 0x7fu;
    const uint32_t scaled = bit_cast<uint32_t>(bit_cast<float>(magnitude << 20) * 0x1p120f);
    const uint32_t value = magnitude == 0x7f ? 0x7fc00000u : scaled;
    return bit_cast<float>(value | (static_cast<uint32_t>(x.bits & 0x80) << 24));
#endif
}

// Rounds f32 to a `kMantissa`-bit mantissa with exponent bias kBias; magnitudes saturate at `kLargest`.
template <int kMantissa, int kBias, uint32_t kLargest>
BK_HD uint8_t fp8_bits(float x) {
    constexpr int shift = 23 - kMantissa;
    constexpr uint32_t rebias = static_cast<uint32_t>(127 - kBias) << 23;
    constexpr uint32_t least_normal = rebias + 0x800000u;
    // Added to a subnormal, this aligns its last mantissa bit with that of the sum, so that the addition rounds.
    constexpr uint32_t magic = static_cast<uint32_t>(127 + 24 - kBias - kMantissa) << 23;
    const uint32_t sign = (bit_cast<uint32_t>(x) >> 24) & 0x80u;
    const uint32_t u = bit_cast<uint32_t>(x) & 0x7fffffffu;
    const uint32_t normal = (u - rebias + ((1u << (shift - 1)) - 1) + ((u >> shift) & 1u)) >> shift;
    const uint32_t subnormal = bit_cast<uint32_t>(bit_cast<float>(u) + bit_cast<float>(magic)) - magic;
    const uint32_t rounded = u < least_normal ? subnormal : normal;
    const uint32_t finite = (rounded < kLargest ? rounded : kLargest) | sign;
    return static_cast<uint8_t>(u > 0x7f800000u ? 0x7fu : finite);
}

template <class E>
BK_HD E float_to_fp8(float x);

template <>
BK_HD e4m3 float_to_fp8<e4m3>(float x) {
#if BK_FP8_HARDWARE
    uint16_t pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.f), "f"(x));
    return e4m3{static_cast<uint8_t>(pair)};
#else
    return e4m3{fp8_bits<3, 7, 0x7e>(x)};
#endif
}

template <>
BK_HD e5m2 float_to_fp8<e5m2>(float x) {
#if BK_FP8_HARDWARE
    uint16_t pair;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.f), "f"(x));
    return e5m2{static_cast<uint8_t>(pair)};
#else
    return e5m2{fp8_bits<2, 15, 0x7b>(x)};
#endif
}

// Two numbers, the first in the low byte.
template <class E>
BK_HD uint32_t floats_to_fp8(float first, float second) {
#if BK_FP8_HARDWARE
    uint16_t pair;
    if constexpr (std::is_same_v<E, e4m3>)
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
    else
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
    return pair;
#else
    return float_to_fp8<E>(first).bits | static_cast<uint32_t>(float_to_fp8<E>(second).bits) << 8;
#endif
}

#undef BK_FP8_HARDWARE

}  // namespace bk
