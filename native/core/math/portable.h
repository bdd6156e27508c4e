// SPDX-License-Identifier: Apache-2.0
// Functions that have the same bits on every target: polynomials of fused multiply-adds. No product is added outside of
// an fma, so that a compiler that contracts expressions changes nothing; division and square root are IEEE 754's.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/math/arithmetic_cpu.h"
#include "core/math/exp_log_cpu.h"
#include "core/math/f64_cpu.h"
#include "core/platform.h"

namespace bk::math::portable {

using cpu::fma;
using cpu::pick;
using cpu::series;

BK_HD float sqrt(float x) {
#if BK_ON_GPU
    return __fsqrt_rn(x);
#else
    return __builtin_sqrtf(x);
#endif
}

BK_HD double sqrt(double x) {
#if BK_ON_GPU
    return __dsqrt_rn(x);
#else
    return __builtin_sqrt(x);
#endif
}

BK_HD float ceil(float x) { return ::ceilf(x); }
BK_HD double ceil(double x) { return ::ceil(x); }

// a / b of numbers whose quotient and reciprocals are far from the limits of normal numbers: without a test of them on GPUs.
BK_HD float quotient(float a, float b) {
#if BK_ON_GPU
    float near;  // an approximation, then Newton's method for 1 / b and two corrections of a / b: rounded to nearest
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(b));
    const float inverse = fma(near, fma(-b, near, 1.0f), near), first = a * inverse;
    const float second = fma(fma(-b, first, a), inverse, first);
    return fma(fma(-b, second, a), inverse, second);
#else
    return a / b;
#endif
}
BK_HD double quotient(double a, double b) { return a / b; }

// A number 2^k (1 + f) -> its logarithm. `scaled` is k, in f32 2^23 k, which the bits of a number give without a shift. A
// number below 1 whose distance from 1 is known exactly has k = 0 and f = -distance. ln 2 is split into two constants.
BK_HD float log_of(float scaled, float f) {
    const float low = fma(scaled, 0x1p-23f * 1.42860677e-6f, f);
    return fma(scaled, 0x1p-23f * 0x1.62e4p-1f, fma(f * f, cpu::Logarithm::curvature(f), low));
}

// ln(1 + f) = 2 artanh(s), s = f / (2 + f).
BK_HD double log_of(double k, double f) {
    const double s = f / (2.0 + f), z = s * s;
    const double p = series(z, 0.66666666666666663, 0.40000000000006247, 0.28571428569085255, 0.22222222646869771,
                            0.18181775660960189, 0.15387090912961698, 0.13250115402552112, 0.13251348252304435);
    const double small = fma(k, 1.90821492927058770002e-10, s * z * p);
    return fma(k, 6.93147180369123816490e-01, fma(2.0, s, small));
}

// A positive normal number as 2^k (1 + f), sqrt(1/2) <= 1 + f < sqrt(2); `scaled` as for log_of.
template <class C>
struct Split {
    C scaled, f;
};

BK_HD Split<float> split(float x) {
    constexpr uint32_t kRootHalf = 0x3f3504f3u;
    const uint32_t bits = bit_cast<uint32_t>(x), exponent = (bits - kRootHalf) & 0xff800000u;
    return {static_cast<float>(static_cast<int32_t>(exponent)), bit_cast<float>(bits - exponent) - 1.0f};
}

BK_HD Split<double> split(double x) {
    const cpu::Binary64 b = cpu::Binary64::of(x);
    return {b.k, b.m - 1.0};
}

// ln x of a positive normal number.
template <class C>
BK_HD C log(C x) {
    const Split<C> s = split(x);
    return log_of(s.scaled, s.f);
}

// c - log2 x of a positive normal number, for a small multiple c of 2^-18: its absolute error is 2^-23 and a rounding.
BK_HD float below_log2(float c, float x) {
    const Split<float> s = split(x);
    const float slope = series(s.f, -1.44269478f, 0.721357167f, -0.480939448f, 0.360087216f, -0.286707073f, 0.250068426f,
                               -0.236893713f, 0.145750925f);
    return fma(s.f, slope, fma(s.scaled, -0x1p-23f, c));
}

BK_HD float exp(float x) { return cpu::exp(x); }

// e^x = 2^n e^r, |r| <= ln(2) / 2. 2^n is applied in two steps; the second one rounds to subnormals or infinity.
BK_HD double exp(double x) {
    const double t = cpu::bounded(x, -746.0, 710.0), shifted = fma(t, 1.4426950408889634, cpu::kShift64);
    const double n = shifted - cpu::kShift64;
    const double r = fma(n, 1.7239444525614835e-13, fma(n, -0x1.62e42fefa4p-1, t));
    const double q = series(r, 0.5, 0.16666666666666682, 0.041666666666666095, 0.0083333333333170511, 0.0013888888889115551,
                            0.00019841269896342544, 2.4801586926683363e-05, 2.7557234902615244e-06, 2.7557581874671858e-07,
                            2.5112022790779359e-08, 2.0826600755515772e-09);
    const double power = 1.0 + fma(r * r, q, r);
    const double half = fma(n, 0.5, cpu::kShift64), other_half = (n - (half - cpu::kShift64)) + cpu::kShift64;
    const double low = bit_cast<double>((bit_cast<uint64_t>(half) + 1023) << 52);
    const double high = bit_cast<double>((bit_cast<uint64_t>(other_half) + 1023) << 52);
    return power * low * high;
}

// sin(pi t) and cos(pi t) for 0 <= t <= 1/4.
BK_HD float sinpi(float t) { return t * series(t * t, 3.14159274f, -5.16773319f, 2.5508008f, -0.599804103f); }
BK_HD float cospi(float t) { return series(t * t, 1.0f, -4.93480206f, 4.05869675f, -1.33474553f, 0.228829399f); }
BK_HD double sinpi(double t) {
    return t * series(t * t, 3.1415926535897931, -5.1677127800499703, 2.5501640398773415, -0.59926452932028673,
                      0.082145886579545996, -0.0073704298727488909, 0.00046628259039012144, -2.1716765772928548e-05);
}
BK_HD double cospi(double t) {
    return series(t * t, 1.0, -4.934802200544679, 4.0587121264167685, -1.3352627688545864, 0.23533063035864962,
                  -0.025806891378935382, 0.0019295740126837925, -0.00010463346348509905, 4.2638306275542873e-06);
}

// cot(pi t) for 0 < t < 1/2.
template <class C>
BK_HD C cotpi(C t) {
    const bool above = t > C(0.25);
    const C near = pick(above, C(0.5) - t, t), sine = sinpi(near), cosine = cospi(near);
    return quotient(pick(above, sine, cosine), pick(above, cosine, sine));
}

}  // namespace bk::math::portable
