// SPDX-License-Identifier: Apache-2.0
// Exponentials and logarithms of f32 on the CPU.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/math/arithmetic_cpu.h"

namespace bk::math::cpu {

constexpr float kShift = 0x1.8p23f;  // adding it to |x| <= 2^22 leaves the nearest integer in the low bits

// e^x = 2^n (1 + t), |x - n ln 2| <= ln(2) / 2, for |x| <= 2^15; ln 2 is split into two constants (Cody-Waite).
struct Exponential {
    float t, n;
    int32_t integer;  // n

    static BK_HD Exponential of(float x) {
        const float shifted = fma(x, 1.44269504f, kShift), n = shifted - kShift;
        const float r = fma(-n, 1.42860677e-6f, fma(-n, 0x1.62e4p-1f, x));
        const float q = series(r, 0.49999994f, 0.166665226f, 0.0416682921f, 0.0083685331f, 0.00138182472f);
        return {fma(r * r, q, r), n, static_cast<int32_t>(bit_cast<uint32_t>(shifted) - bit_cast<uint32_t>(kShift))};
    }
};

// y 2^n for -252 <= n <= 254 in two steps; the second one rounds to subnormals or infinity.
BK_HD float scaled(float y, int32_t n) {
    const int32_t half = n >> 1;
    return y * power_of_two(half) * power_of_two(n - half);
}

BK_HD float exp(float x) {
    const Exponential e = Exponential::of(bounded(x, -104.0f, 89.0f));
    return scaled(1.0f + e.t, e.integer);
}

// ln x = k ln 2 + ln(1 + f); the caller multiplies k by ln 2 split into two constants.
struct Logarithm {
    float k, f, tail;  // x = 2^k (1 + f); ln(1 + f) = f + tail

    // (ln(1 + f) - f) / f^2
    static BK_HD float curvature(float f) {
        const float q = series(f, 0.333333313f, -0.250008196f, 0.200012416f, -0.166234091f, 0.14201583f, -0.131596163f,
                               0.127621815f, -0.0763634741f);
        return fma(f, q, -0.5f);
    }
    static BK_HD Logarithm of(float k, float f) { return {k, f, f * f * curvature(f)}; }
    static BK_HD Logarithm of(float x) {
        constexpr uint32_t kRootHalf = 0x3f3504f3u;
        const bool tiny = x < 0x1p-126f;
        const uint32_t above = bit_cast<uint32_t>(x * pick(tiny, 0x1p25f, 1.0f)) - kRootHalf;
        const float k = static_cast<float>(static_cast<int32_t>(above) >> 23) - pick(tiny, 25.0f, 0.0f);
        return of(k, bit_cast<float>((above & 0x007fffffu) + kRootHalf) - 1.0f);
    }
};

// y, or the limit of the logarithm if x is not positive and finite.
BK_HD float log_or_limit(float x, float y) {
    const float outside = pick(x == 0.0f, -INFINITY, pick(x < 0.0f, NAN, x));
    return pick((x > 0.0f) & (x < INFINITY), y, outside);
}

BK_HD float log(float x) {
    const Logarithm l = Logarithm::of(x);
    return log_or_limit(x, fma(l.k, 0x1.62e4p-1f, fma(l.k, 1.42860677e-6f, l.tail) + l.f));
}

// log_b x: c is log_b(e) rounded, c_low its residual; k_high, with few bits, plus k_low is log_b(2).
BK_HD float log_of_base(float x, float c, float c_low, float k_high, float k_low) {
    const Logarithm l = Logarithm::of(x);
    const float small = fma(l.k, k_low, fma(l.f, c_low, l.tail * c));
    return log_or_limit(x, fma(l.k, k_high, fma(l.f, c, small)));
}

BK_HD float log2(float x) { return log_of_base(x, 1.44269502f, 1.92596303e-8f, 1.0f, 0.0f); }

BK_HD float log10(float x) { return log_of_base(x, 0.434294492f, -1.010305e-8f, 0x1.344p-2f, 4.60503898e-6f); }

// ln(2^more (1 + x)) for x >= -1. With 1 + x = 2^k m, rounded, f = 2^-k x + (2^-k - 1) is rounded once; from 2^30 on,
// where the 1 vanishes, f = m - 1.
BK_HD float log1p_and(float x, float more) {
    constexpr uint32_t kRootHalf = 0x3f3504f3u;
    const float u = 1.0f + x;
    const uint32_t above = bit_cast<uint32_t>(u) - kRootHalf, exponent = above & 0xff800000u;
    const float inverse = bit_cast<float>(0x3f800000u - exponent);
    const float of_large = bit_cast<float>((above & 0x007fffffu) + kRootHalf) - 1.0f;
    const float f = pick(x > 0x1p30f, of_large, fma(x, inverse, inverse - 1.0f));
    const Logarithm l = Logarithm::of(static_cast<float>(static_cast<int32_t>(above) >> 23) + more, f);
    const float y = fma(l.k, 0x1.62e4p-1f, fma(l.k, 1.42860677e-6f, l.tail) + l.f);
    return pick((u > 0.0f) & (u < INFINITY), y, pick(u == 0.0f, -INFINITY, pick(u < 0.0f, NAN, u)));
}

BK_HD float log1p(float x) { return pick(x == 0.0f, x, log1p_and(x, 0.0f)); }

// e^x - 1 = 2^n t + (2^n - 1)
BK_HD float expm1(float x) {
    const Exponential e = Exponential::of(bounded(x, -25.0f, 89.0f));
    const bool last = e.n > 127.0f;
    const float power = power_of_two(e.integer - (last ? 1 : 0));
    return with_sign(fma(power, e.t, power - 1.0f) * pick(last, 2.0f, 1.0f), x);
}

// (2^x - 1) / x for |x| <= 1/2.
BK_HD float slope_of_exp2(float x) {
    return series(x, 0.693147182f, 0.240226477f, 0.0555035993f, 0.0096185049f, 0.00133908633f, 0.000153269284f);
}

BK_HD float exp2(float x) {
    const float t = bounded(x, -151.0f, 129.0f);
    const float shifted = t + kShift, f = t - (shifted - kShift);
    const int32_t n = static_cast<int32_t>(bit_cast<uint32_t>(shifted) - bit_cast<uint32_t>(kShift));
    return scaled(fma(f, slope_of_exp2(f), 1.0f), n);
}

// 2^x for f16 and bf16 within 2^-18: a minimax polynomial for the fraction of x. For f16 2^-127 flushes to 0 and 2^128
// is infinity: neither is visible after rounding.
template <class T>
BK_HD float rough_exp2(float x) {
    constexpr float kLeast = std::is_same_v<T, f16> ? -127.0f : -152.0f, kMost = std::is_same_v<T, f16> ? 128.0f : 129.0f;
    constexpr float kShift = 0x1.8p23f + 127;  // adding it leaves the integer plus the exponent bias in the low bits
    const float t = bounded(x, kLeast, kMost);
    const float shifted = t + kShift;
    const float f = t - (shifted - kShift);
    const float power = 1.0f + f * (0.693124175f + f * (0.240240991f + f * (0.0559064262f + f * 0.00958285294f)));
    const uint32_t exponent = bit_cast<uint32_t>(shifted);
    if constexpr (std::is_same_v<T, f16>) return power * bit_cast<float>(exponent << 23);
    const int32_t integer = static_cast<int32_t>(exponent - bit_cast<uint32_t>(kShift));
    const int32_t half = integer >> 1;
    return (power * power_of_two(half)) * power_of_two(integer - half);
}

// e^x for x <= 0, given 2^f for |f| <= 1/2; subnormal results flush to 0. x / ln 2 is rounded once, after the nearest
// integer was subtracted: equivalent to an error of 1/4 ulp in x.
template <class Power>
BK_HD float exp_of_negative(float x, const Power& power) {
    constexpr float kLeast = -88.0297f;        // ln 2^-127, whose biased exponent is 0
    constexpr float kShift = 0x1.8p23f + 127;  // adding it leaves the integer plus the exponent bias in the low bits
    const float t = x < kLeast ? kLeast : x;
    const float shifted = fma(t, 1.44269504f, kShift), f = fma(t, 1.44269504f, kShift - shifted);
    return power(f) * bit_cast<float>(bit_cast<uint32_t>(shifted) << 23);
}

BK_HD float exp_of_negative(float x) {
    return exp_of_negative(x, [](float f) { return fma(f, slope_of_exp2(f), 1.0f); });
}

// Relative error 2^-18, for f16 and bf16.
BK_HD float rough_exp_of_negative(float x) {
    return exp_of_negative(x,
                           [](float f) { return series(f, 1.0f, 0.693124175f, 0.240240991f, 0.0559064262f, 0.00958285294f); });
}

}  // namespace bk::math::cpu
