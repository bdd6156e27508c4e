// SPDX-License-Identifier: Apache-2.0
// Exponentials and logarithms of f64 on the CPU, also used by f32 functions, which need fewer digits.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/math/arithmetic_cpu.h"

namespace bk::math::cpu {

constexpr double kShift64 = 0x1.8p52;  // adding it to |x| <= 2^51 leaves the nearest integer in the low bits

// 2^x within 2^-28 for |x| <= 1000.
BK_HD double rough_exp2(double x) {
    const double shifted = x + (kShift64 + 1023.0), f = x - (shifted - (kShift64 + 1023.0));
    const double p = series(f, 0.6931472028541406, 0.2402264790578045, 0.05550332466580651, 0.009618438106562661,
                            0.0013398876812383746, 0.00015353190807456852);
    return fma(f, p, 1.0) * bit_cast<double>(bit_cast<uint64_t>(shifted) << 52);
}

// A positive normal number is 2^k m with sqrt(1/2) <= m < sqrt(2).
struct Binary64 {
    double k, m;

    static BK_HD Binary64 of(double x) {
        constexpr uint64_t kRootHalf = 0x3fe6a09e667f3bcdull, kOne = uint64_t{1023} << 52;
        const uint64_t above = bit_cast<uint64_t>(x) + (kOne - kRootHalf);
        // Converts an integer below 2^52 by placing it in the low bits of 2^52.
        const double k = bit_cast<double>((above >> 52) | (uint64_t{0x433} << 52)) - (0x1p52 + 1023.0);
        return {k, bit_cast<double>((above & ((uint64_t{1} << 52) - 1)) + kRootHalf)};
    }
};

// log2 of a positive normal number within 2^-37: k + 2 artanh(s) / ln 2, s = (m - 1) / (m + 1).
BK_HD double rough_log2(double x) {
    const Binary64 b = Binary64::of(x);
    const double s = (b.m - 1.0) / (b.m + 1.0), z = s * s;
    const double p = series(z, 0.6666666562250197, 0.4000034088593593, 0.28536919900320357, 0.23589985021753745);
    return fma(fma(z, p, 2.0) * s, 1.4426950408889634, b.k);
}

// log2 |x| of an f32, which is normal in f64.
BK_HD double rough_log2_of_size(float x) {
    const double z = size_of(static_cast<double>(x));
    return pick((z > 0.0) & (z < HUGE_VAL), rough_log2(z), pick(z == 0.0, -HUGE_VAL, z));
}

// ln(2^more x) of a positive normal number within 1 ulp: k ln 2 + ln m, ln m = 2 artanh(s), s = f / (2 + f), f = m - 1,
// arranged to add f last: f - f^2 / 2 + s (f^2 / 2 + s^2 P(s^2)).
BK_HD double log_of_normal(double x, double more) {
    const Binary64 b = Binary64::of(x);
    const double k = b.k + more, f = b.m - 1.0, s = f / (2.0 + f), z = s * s, half_square = 0.5 * f * f;
    const double p = series(z, 0.6666666666666734, 0.3999999999941437, 0.28571428742469207, 0.22222198563550452,
                            0.18183564885934317, 0.15314034880246757, 0.1479611859680951);
    const double small = fma(s, fma(z, p, half_square), k * 1.90821492927058770002e-10);
    return fma(k, 6.93147180369123816490e-01, small - half_square + f);
}

// ln x for any x.
BK_HD double log(double x) {
    const bool tiny = x < 0x1p-1022;
    const double y = log_of_normal(x * pick(tiny, 0x1p54, 1.0), pick(tiny, -54.0, 0.0));
    const double outside = pick(x == 0.0, -HUGE_VAL, pick(x < 0.0, __builtin_nan(""), x));
    return pick((x > 0.0) & (x < HUGE_VAL), y, outside);
}

// e^x = 2^n e^r, |r| <= ln(2) / 2, with a minimax polynomial for (e^r - 1 - r) / r^2; within 1 ulp. 2^n is applied in
// two steps; the second one rounds to subnormals or infinity.
BK_HD double exp(double x) {
    const auto power_of_two = [](double shifted) { return bit_cast<double>((bit_cast<uint64_t>(shifted) + 1023) << 52); };
    x = bounded(x, -746.0, 710.0);
    const double n = (x * 1.4426950408889634 + kShift64) - kShift64;
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
    const double half = n * 0.5 + kShift64, other_half = (n - (half - kShift64)) + kShift64;
    return ((1.0 + (r + r * r * q)) * power_of_two(half)) * power_of_two(other_half);
}

}  // namespace bk::math::cpu
