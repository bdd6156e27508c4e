// SPDX-License-Identifier: Apache-2.0
// Storage types and their conversions: `widen` to the compute type, `narrow` back with round to nearest even.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/platform.h"

namespace bk {

struct f16 {
    uint16_t bits;
};

struct bf16 {
    uint16_t bits;
};

// One byte: 0 is false, any other value true; results are 0 or 1.
struct boolean {
    uint8_t bits;
};

// 8-bit floats of the OCP 8-bit Floating Point Specification: e4m3 without infinities (max 448), e5m2 (max 57344).
struct e4m3 {
    uint8_t bits;
};

struct e5m2 {
    uint8_t bits;
};

// Two 4-bit integers, the first in the low half: two's complement (s4x2) or unsigned (u4x2).
struct s4x2 {
    uint8_t bits;
};

struct u4x2 {
    uint8_t bits;
};

// Eight bits, the first in the lowest.
struct b1x8 {
    uint8_t bits;
};

template <class T>
struct ComputeType {
    using type = T;
};
template <>
struct ComputeType<f16> {
    using type = float;
};
template <>
struct ComputeType<bf16> {
    using type = float;
};
template <>
struct ComputeType<boolean> {
    using type = bool;
};

// f32 for 16-bit floats, bool for boolean, otherwise T.
template <class T>
using compute_t = typename ComputeType<T>::type;

// Unsigned integer of the size of T, for ops that only move elements.
template <int Bytes>
struct BitsOfSize;
template <>
struct BitsOfSize<1> {
    using type = uint8_t;
};
template <>
struct BitsOfSize<2> {
    using type = uint16_t;
};
template <>
struct BitsOfSize<4> {
    using type = uint32_t;
};
template <>
struct BitsOfSize<8> {
    using type = uint64_t;
};
template <class T>
using bits_t = typename BitsOfSize<sizeof(T)>::type;

template <class To, class From>
BK_HD To bit_cast(From from) {
    static_assert(sizeof(To) == sizeof(From), "bit_cast needs equal sizes");
    To to;
    memcpy(&to, &from, sizeof(To));
    return to;
}

template <class T>
BK_HD T widen(T x) {
    return x;
}

BK_HD bool widen(boolean x) { return x.bits != 0; }

BK_HD float widen(bf16 x) { return bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }

BK_HD float widen(f16 x) {
#if BK_ON_GPU
    return __half2float(__ushort_as_half(x.bits));
#else
    // Shifts exponent and mantissa, then rescales by 2^112, which is exact for subnormals too.
    const uint32_t shifted = static_cast<uint32_t>(x.bits & 0x7fff) << 13;
    const uint32_t scaled = bit_cast<uint32_t>(bit_cast<float>(shifted) * 0x1p112f);
    const uint32_t special = (x.bits & 0x7c00) == 0x7c00 ? 0x7f800000u : 0u;
    return bit_cast<float>(scaled | special | (static_cast<uint32_t>(x.bits & 0x8000) << 16));
#endif
}

template <class T>
struct Narrow {
    static BK_HD T from(T x) { return x; }
};

template <>
struct Narrow<boolean> {
    static BK_HD boolean from(bool x) { return boolean{static_cast<uint8_t>(x)}; }
};

template <>
struct Narrow<bf16> {
    static BK_HD bf16 from(float x) {
#if BK_ON_GPU
        return bf16{__bfloat16_as_ushort(__float2bfloat16_rn(x))};
#else
        const uint32_t u = bit_cast<uint32_t>(x);
        const uint32_t rounded = u + 0x7fffu + ((u >> 16) & 1u), quiet = u | 0x400000u;
        return bf16{static_cast<uint16_t>((x != x ? quiet : rounded) >> 16)};
#endif
    }
};

template <>
struct Narrow<f16> {
    static BK_HD f16 from(float x) {
#if BK_ON_GPU
        return f16{__half_as_ushort(__float2half_rn(x))};
#else
        const uint32_t sign = (bit_cast<uint32_t>(x) >> 16) & 0x8000u;
        const uint32_t u = bit_cast<uint32_t>(x) & 0x7fffffffu;
        const uint32_t normal = (u + 0xc8000fffu + ((u >> 13) & 1u)) >> 13;  // exponent rebiased by 15 - 127, half an ulp added
        const uint32_t subnormal = bit_cast<uint32_t>(bit_cast<float>(u) + 0.5f) - 0x3f000000u;  // the addition rounds
        const uint32_t special = u > 0x7f800000u ? 0x7e00u : 0x7c00u;
        const uint32_t finite = u < 0x38800000u ? subnormal : normal;
        return f16{static_cast<uint16_t>(sign | (u >= 0x47800000u ? special : finite))};
#endif
    }
};

template <class T>
BK_HD T narrow(compute_t<T> x) {
    return Narrow<T>::from(x);
}

}  // namespace bk
