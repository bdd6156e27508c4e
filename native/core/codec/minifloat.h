// SPDX-License-Identifier: Apache-2.0
// Floats of 4, 6 and 8 bits by run-time format: widening is exact, narrowing rounds to nearest, ties to even, and saturates,
// infinities included.
//
// e2m1, e2m3 and e3m2 have neither infinities nor NaN, and NaN narrows to the largest value, as in PTX; e4m3 and e5m2 are
// those of core/types/fp8.h, where NaN narrows to 0x7f (OCP Microscaling Formats (MX) v1.0, OCP OFP8). The fnuz formats of
// AMD's CDNA 3 have a larger bias, no infinities and no negative zero, whose code 0x80 is NaN. e8m0 is 2^(code - 127) and
// NaN 0xff: it narrows the magnitude to the nearest power of two, ties to the even code; zero and what is smaller is code 0.
#pragma once

#include <cstdint>

#include "core/platform.h"
#include "core/types/dtype.h"
#include "core/types/fp8.h"

namespace bk::codec {

enum class FloatFormat : int32_t { kE2m1, kE2m3, kE3m2, kE4m3, kE5m2, kE4m3Fnuz, kE5m2Fnuz, kE8m0 };
constexpr int kFloatFormats = 8;

struct Minifloat {
    int32_t mantissa, bias, sign_bit;  // sign_bit: its mask
    uint32_t largest;                  // code of the largest finite magnitude
    uint32_t nan;                      // code that NaN narrows to
    int32_t largest_exponent;          // of the largest finite magnitude
    bool has_nan, has_infinity, is_unsigned_zero;

    // Narrows x.
    BK_HD uint32_t encode(float x) const {
        const int shift = 23 - mantissa;
        const uint32_t rebias = static_cast<uint32_t>(127 - bias) << 23, least_normal = rebias + 0x800000u;
        // Added to a subnormal, this aligns its last mantissa bit with that of the sum, so that the addition rounds.
        const uint32_t magic = static_cast<uint32_t>(127 + 24 - bias - mantissa) << 23;
        const uint32_t u = bit_cast<uint32_t>(x) & 0x7fffffffu;
        const uint32_t normal = (u - rebias + ((1u << (shift - 1)) - 1) + ((u >> shift) & 1u)) >> shift;
        const uint32_t subnormal = bit_cast<uint32_t>(bit_cast<float>(u) + bit_cast<float>(magic)) - magic;
        const uint32_t rounded = u < least_normal ? subnormal : normal;
        const uint32_t finite = rounded < largest ? rounded : largest;
        const bool is_negative = bit_cast<uint32_t>(x) >> 31 != 0 && !(is_unsigned_zero && finite == 0);
        if (u > 0x7f800000u) return nan;
        return finite | (is_negative ? static_cast<uint32_t>(sign_bit) : 0u);
    }

    // Widens a code of a format without NaN, infinities and unsigned zero: rescaling keeps the sign.
    BK_HD float decode_finite(uint32_t code) const {
        const uint32_t sign = static_cast<uint32_t>(sign_bit), magnitude = code & (sign - 1u);
        const uint32_t bits = magnitude << (23 - mantissa) | ((code & sign) != 0 ? 0x80000000u : 0u);
        return bit_cast<float>(bits) * bit_cast<float>(static_cast<uint32_t>(254 - bias) << 23);
    }

    // Widens a code; bits above the format's do not matter.
    BK_HD float decode(uint32_t code) const {
        const uint32_t magnitude = code & (static_cast<uint32_t>(sign_bit) - 1u);
        const bool is_negative = (code & static_cast<uint32_t>(sign_bit)) != 0;
        if (is_unsigned_zero && is_negative && magnitude == 0) return bit_cast<float>(0x7fc00000u);
        const float scale = bit_cast<float>(static_cast<uint32_t>(254 - bias) << 23);
        uint32_t value = bit_cast<uint32_t>(bit_cast<float>(magnitude << (23 - mantissa)) * scale);
        if (has_infinity && magnitude == largest + 1)
            value = 0x7f800000u;
        else if (has_nan && magnitude > largest)
            value = 0x7fc00000u;
        return bit_cast<float>(value | (is_negative ? 0x80000000u : 0u));
    }
};

BK_HD Minifloat minifloat(FloatFormat format) {
    switch (format) {
        case FloatFormat::kE2m1: return {1, 1, 0x08, 0x07, 0x07, 2, false, false, false};
        case FloatFormat::kE2m3: return {3, 1, 0x20, 0x1f, 0x1f, 2, false, false, false};
        case FloatFormat::kE3m2: return {2, 3, 0x20, 0x1f, 0x1f, 4, false, false, false};
        case FloatFormat::kE4m3: return {3, 7, 0x80, 0x7e, 0x7f, 8, true, false, false};
        case FloatFormat::kE5m2: return {2, 15, 0x80, 0x7b, 0x7f, 15, true, true, false};
        case FloatFormat::kE4m3Fnuz: return {3, 8, 0x80, 0x7f, 0x80, 7, false, false, true};
        case FloatFormat::kE5m2Fnuz: return {2, 16, 0x80, 0x7f, 0x80, 15, false, false, true};
        case FloatFormat::kE8m0: break;  // has functions of its own
    }
    return {3, 7, 0x80, 0x7e, 0x7f, 8, true, false, false};
}

// Minifloat::encode() of e2m1 for x that is no NaN. A power of two 2^22 times that of |x|, at least 1, has codes as the last
// bits of its mantissa, so that adding it rounds; 6 is the largest magnitude.
BK_HD uint32_t e2m1_code(float x) {
    const uint32_t sign = bit_cast<uint32_t>(x) >> 31 << 3, u = bit_cast<uint32_t>(x) & 0x7fffffffu;
    const uint32_t most = u < 0x40c00000u ? u : 0x40c00000u, exponent = most & 0x7f800000u;
    const uint32_t power = exponent > 0x3f800000u ? exponent : 0x3f800000u, magic = power + (22u << 23);
    const uint32_t rounded = bit_cast<uint32_t>(bit_cast<float>(most) + bit_cast<float>(magic)) - magic;
    return (rounded + ((power - 0x3f800000u) >> 22)) | sign;
}

BK_HD float e8m0_value(uint32_t code) {
    if (code == 0xff) return bit_cast<float>(0x7fc00000u);
    return bit_cast<float>(code == 0 ? 0x00400000u : code << 23);
}

BK_HD uint32_t e8m0_code(float x) {
    const uint32_t u = bit_cast<uint32_t>(x) & 0x7fffffffu;
    if (u > 0x7f800000u) return 0xff;
    if (u < 0x00800000u) return u > 0x00600000u ? 1u : 0u;  // subnormal: 2^-127 or 2^-126; their midpoint goes to 0
    const uint32_t code = (u + 0x3fffffu + ((u >> 23) & 1u)) >> 23;
    return code < 0xfe ? code : 0xfeu;
}

// A format with its constants at hand. A GPU converts e4m3 and e5m2 by core/types/fp8.h, which has instructions for them.
struct FloatCodec {
    FloatFormat format;
    Minifloat floats;

    BK_HD static FloatCodec of(FloatFormat format) { return {format, minifloat(format)}; }
    BK_HD uint32_t encode(float x) const {
#if BK_CUDA
        if (format == FloatFormat::kE4m3) return float_to_fp8<e4m3>(x).bits;
        if (format == FloatFormat::kE5m2) return float_to_fp8<e5m2>(x).bits;
#endif
        return format == FloatFormat::kE8m0 ? e8m0_code(x) : floats.encode(x);
    }
    BK_HD float decode(uint32_t code) const {
#if BK_CUDA
        if (format == FloatFormat::kE4m3 && (code & 0x7fu) != 0x7fu) return fp8_to_float(e4m3{static_cast<uint8_t>(code)});
#endif
        return format == FloatFormat::kE8m0 ? e8m0_value(code) : floats.decode(code);
    }
};

}  // namespace bk::codec
