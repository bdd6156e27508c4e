// Functions of the CPU that others are made of and that libmvec has with more than 2 ulp, exp (2.5 ulp there in f32, 3 in
// f64) and log (4 in f32), or with more digits than 16-bit types need, 2^x.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/dtype.h"

namespace bk::math::cpu {

inline __attribute__((always_inline)) float pick(bool condition, float a, float b) {
    const uint32_t mask = condition ? 0xffffffffu : 0u;
    return bit_cast<float>((bit_cast<uint32_t>(a) & mask) | (bit_cast<uint32_t>(b) & ~mask));
}

// x within bounds; a NaN stays.
inline __attribute__((always_inline)) float bounded(float x, float least, float most) {
    return pick(x > most, most, pick(x < least, least, x));
}

// 2^n with -126 <= n <= 127.
inline __attribute__((always_inline)) float power_of_two(int32_t n) {
    return bit_cast<float>(static_cast<uint32_t>(n + 127) << 23);
}

// e^x = 2^n e^r with |r| <= ln(2) / 2 and a minimax polynomial for (e^r - 1 - r) / r^2; within 1 ulp. 2^n is applied in two
// steps, the second of which rounds to a subnormal number or to infinity.
inline __attribute__((always_inline)) float exp(float x) {
    constexpr float kShift = 0x1.8p23f;  // added, it leaves the nearest integer in the low bits
    x = bounded(x, -104.0f, 89.0f);
    const float shifted = x * 1.44269504f + kShift;
    const float n = shifted - kShift;
    const float r = (x - n * 0x1.62e4p-1f) - n * 1.42860682e-6f;  // ln 2 in two parts, the product by the first is exact
    float q = 0.0001989198131f;
    q = q * r + 0.001393454193f;
    q = q * r + 0.008333310024f;
    q = q * r + 0.04166645681f;
    q = q * r + 0.1666666668f;
    q = q * r + 0.5000000014f;
    const int32_t whole = static_cast<int32_t>(bit_cast<uint32_t>(shifted) - bit_cast<uint32_t>(kShift));
    const int32_t half = whole >> 1;
    return ((1.0f + (r + r * r * q)) * power_of_two(half)) * power_of_two(whole - half);
}

// 2^x for f16 and bf16, within 2^-18: a minimax polynomial for the fraction of x. The numbers of f16 are too coarse for
// subnormal powers of two; 2^-127 is 0 and 2^128 infinity here.
template <class T>
inline __attribute__((always_inline)) float rough_exp2(float x) {
    constexpr float kLeast = std::is_same_v<T, f16> ? -127.0f : -152.0f, kMost = std::is_same_v<T, f16> ? 128.0f : 129.0f;
    constexpr float kShift = 0x1.8p23f + 127;  // added, it leaves the integer and the exponent's bias in the low bits
    const float t = bounded(x, kLeast, kMost);
    const float shifted = t + kShift;
    const float f = t - (shifted - kShift);
    const float power = 1.0f + f * (0.693124175f + f * (0.240240991f + f * (0.0559064262f + f * 0.00958285294f)));
    const uint32_t exponent = bit_cast<uint32_t>(shifted);
    if constexpr (std::is_same_v<T, f16>) return power * bit_cast<float>(exponent << 23);
    const int32_t whole = static_cast<int32_t>(exponent - bit_cast<uint32_t>(kShift));
    const int32_t half = whole >> 1;
    return (power * power_of_two(half)) * power_of_two(whole - half);
}

inline __attribute__((always_inline)) double exp(double x) {
    constexpr double kShift = 0x1.8p52;
    const auto choose = [](bool condition, double a, double b) {
        const uint64_t mask = condition ? ~uint64_t{0} : uint64_t{0};
        return bit_cast<double>((bit_cast<uint64_t>(a) & mask) | (bit_cast<uint64_t>(b) & ~mask));
    };
    const auto power_of_two = [](double shifted) { return bit_cast<double>((bit_cast<uint64_t>(shifted) + 1023) << 52); };
    x = choose(x > 710.0, 710.0, choose(x < -746.0, -746.0, x));
    const double n = (x * 1.4426950408889634 + kShift) - kShift;
    const double r = (x - n * 0x1.62e42fefa4p-1) + n * 1.7239444525614835e-13;
    double q = 2.5100472505694996e-08;
    q = q * r + 2.7620201591031547e-07;
    q = q * r + 2.7557268276905696e-06;
    q = q * r + 2.4801521057868204e-05;
    q = q * r + 0.00019841269863171557;
    q = q * r + 0.0013888888917367081;
    q = q * r + 0.008333333333330039;
    q = q * r + 0.041666666666623824;
    q = q * r + 0.16666666666666669;
    q = q * r + 0.5;
    const double half = n * 0.5 + kShift, rest = (n - (half - kShift)) + kShift;
    return ((1.0 + (r + r * r * q)) * power_of_two(half)) * power_of_two(rest);
}

// ln x = k ln 2 + ln m with sqrt(1/2) <= m < sqrt(2), ln m = 2 artanh(s) with s = f / (2 + f), f = m - 1, arranged so that f
// is added last: f - f^2 / 2 + s (f^2 / 2 + s^2 (2/3 + 2/5 s^2 + ...)); within 1 ulp.
inline __attribute__((always_inline)) float log(float x) {
    constexpr uint32_t kRootHalf = 0x3f3504f3u;
    const bool tiny = x < 0x1p-126f;
    const uint32_t above = bit_cast<uint32_t>(x * pick(tiny, 0x1p25f, 1.0f)) - kRootHalf;
    const float k = static_cast<float>(static_cast<int32_t>(above) >> 23) - pick(tiny, 25.0f, 0.0f);
    const float f = bit_cast<float>((above & 0x007fffffu) + kRootHalf) - 1.0f;
    const float s = f / (2.0f + f);
    const float z = s * s;
    const float series = z * (0.666666667f + z * (0.4f + z * (0.285714286f + z * 0.222222222f)));
    const float half_square = 0.5f * f * f;
    const float y = ((s * (half_square + series) + k * 1.42860682e-6f) - half_square + f) + k * 0x1.62e4p-1f;
    const float outside = pick(x == 0.0f, -INFINITY, pick(x < 0.0f, NAN, x));
    return pick(x > 0.0f && x < INFINITY, y, outside);
}

}  // namespace bk::math::cpu
