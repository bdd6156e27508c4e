// SPDX-License-Identifier: Apache-2.0
// sin, cos, tan and 1 + tan^2 of f32 on the CPU.
//
// Arguments up to 2^17, `kLargeAngle`, are reduced by multiples of pi in three constants (Cody-Waite), or in f64.
// Larger ones are rare: loops detect them first (core/pointwise/pointwise_cpu.h) and call the *_of_any functions, which
// reduce as Payne and Hanek, for a block that has one.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/math/arithmetic_cpu.h"
#include "core/math/exp_log_cpu.h"
#include "core/math/f64_cpu.h"

namespace bk::math::cpu {

constexpr float kLargeAngle = 0x1p17f;

inline __attribute__((always_inline)) bool is_large_angle(float x) { return size_of(x) > kLargeAngle; }

// x - n pi. The constants of pi are truncated, not rounded, so that -0 stays for n = 0; the first difference is exact.
inline __attribute__((always_inline)) float reduce_by_pi(float x, float n) {
    return fma(-n, 0x1.84698ap-47f, fma(-n, 0x1.4442dp-23f, fma(-n, 0x1.921fb4p1f, x)));
}

// sin r for |r| <= pi / 2 + 2^-7, negated if `odd` has its lowest bit set; sin of +-0 keeps the sign.
inline __attribute__((always_inline)) float sine_of_reduced(float r, uint32_t odd) {
    const float s = r * r;
    const float p = series(s, -0.166666597f, 0.00833306648f, -0.000198094422f, 2.60514753e-06f);
    const float size = size_of(fma(r * s, p, r));
    const float y = with_sign(pick(size > 1.0f, 1.0f, size), r);
    return bit_cast<float>(bit_cast<uint32_t>(y) ^ (odd << 31));
}

inline __attribute__((always_inline)) float sin(float x) {
    const float shifted = fma(x, 0.318309886f, kShift);
    return sine_of_reduced(reduce_by_pi(x, shifted - kShift), bit_cast<uint32_t>(shifted));
}

// -sin(x - (n + 1/2) pi) for even n
inline __attribute__((always_inline)) float cos(float x) {
    const float shifted = fma(x, 0.318309886f, -0.5f) + kShift;
    return sine_of_reduced(reduce_by_pi(x, shifted - kShift + 0.5f), bit_cast<uint32_t>(shifted) + 1u);
}

// t = tan(x - n pi / 2); the parity of n selects tan = t or -1 / t.
struct Tangent {
    double t;
    uint64_t odd;  // a mask

    static inline __attribute__((always_inline)) Tangent of(double r, uint64_t n) {
        const double s = r * r;
        const double p = series(s, 0.33333351159606933, 0.13332613325322776, 0.054065763950927964, 0.021251112706164126,
                                0.010918519280549007, -1.7902035848736105e-05, 0.004430486355091495);
        return {fma(r * s, p, r), uint64_t{0} - (n & 1)};
    }
    static inline __attribute__((always_inline)) Tangent of(float angle) {
        const double x = angle, shifted = fma(x, 0.6366197723675814, kShift64), n = shifted - kShift64;
        return of(fma(-n, 6.123233995736766e-17, fma(-n, 1.5707963267948966, x)), bit_cast<uint64_t>(shifted));
    }
    static inline __attribute__((always_inline)) double choose(uint64_t mask, double a, double b) {
        return bit_cast<double>((bit_cast<uint64_t>(a) & mask) | (bit_cast<uint64_t>(b) & ~mask));
    }
    inline __attribute__((always_inline)) float tangent() const {
        return static_cast<float>(choose(odd, -1.0, t) / choose(odd, t, 1.0));
    }
    // 1 + tan^2
    inline __attribute__((always_inline)) float secant_square() const {
        const double square = t * t;
        return static_cast<float>((1.0 + square) / choose(odd, square, 1.0));
    }
};

inline __attribute__((always_inline)) float tan(float x) { return Tangent::of(x).tangent(); }
inline __attribute__((always_inline)) float secant_square(float x) { return Tangent::of(x).secant_square(); }

// Payne-Hanek reduction: 2^64 frac(x / (2 pi)) for finite |x| >= 2^17, rounded down for |x|. With x = m 2^e it needs
// the bits of 1 / (2 pi) from 2^-e on: 24 + 64 and some guard bits.
inline uint64_t fraction_of_two_pi(float x) {
    // 1 / (2 pi), highest bits first
    constexpr uint64_t kBits[] = {0x28be60db9391054aull, 0x7f09d5f47d4d3770ull, 0x36d8a5664f10e410ull, 0x7f9458eaf7aef158ull};
    const uint32_t bits = bit_cast<uint32_t>(x);
    const uint64_t m = (bits & 0x7fffffu) | 0x800000u;
    const int e = static_cast<int>((bits >> 23) & 0xff) - 150;  // -6 to 104
    // 128 bits from 2^-e on; the first -e are zeros if e < 0.
    unsigned __int128 window;
    if (e <= 0) {
        window = ((static_cast<unsigned __int128>(kBits[0]) << 64) | kBits[1]) >> -e;
    } else {
        const int word = e / 64, shift = e % 64;
        window = (static_cast<unsigned __int128>(kBits[word]) << 64) | kBits[word + 1];
        if (shift) window = (window << shift) | (kBits[word + 2] >> (64 - shift));
    }
    const uint64_t fraction = static_cast<uint64_t>((window * m) >> 64);
    return bits >> 31 ? uint64_t{0} - fraction : fraction;
}

// Angle in radians of a signed fraction of 2 pi, in units of 2^-64.
inline double angle_of(uint64_t fraction) {
    return static_cast<double>(static_cast<int64_t>(fraction)) * 0x1.921fb54442d18p-62;
}

// sin x and cos x = sin(x + pi / 2) reduce by pi, tan x by pi / 2.
inline float sine_of_fraction(uint64_t fraction) {
    const uint64_t n = (fraction + (uint64_t{1} << 62)) >> 63;
    return sine_of_reduced(static_cast<float>(angle_of(fraction - (n << 63))), static_cast<uint32_t>(n));
}

inline Tangent tangent_of_fraction(uint64_t fraction) {
    const uint64_t n = (fraction + (uint64_t{1} << 61)) >> 62;
    return Tangent::of(angle_of(fraction - (n << 62)), n);
}

// Functions of any angle.
inline float sin_of_any(float x) {
    if (!is_large_angle(x)) return sin(x);
    return size_of(x) < INFINITY ? sine_of_fraction(fraction_of_two_pi(x)) : NAN;
}

inline float cos_of_any(float x) {
    if (!is_large_angle(x)) return cos(x);
    return size_of(x) < INFINITY ? sine_of_fraction(fraction_of_two_pi(x) + (uint64_t{1} << 62)) : NAN;
}

inline float tan_of_any(float x) {
    if (!is_large_angle(x)) return tan(x);
    return size_of(x) < INFINITY ? tangent_of_fraction(fraction_of_two_pi(x)).tangent() : NAN;
}

inline float secant_square_of_any(float x) {
    if (!is_large_angle(x)) return secant_square(x);
    return size_of(x) < INFINITY ? tangent_of_fraction(fraction_of_two_pi(x)).secant_square() : NAN;
}

}  // namespace bk::math::cpu
