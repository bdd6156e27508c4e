// SPDX-License-Identifier: Apache-2.0
// GPU functions for 16-bit types: f32 arithmetic with relative error 2^-17, hidden by the rounding to 16 bits, from
// approximate instructions and short minimax polynomials (Remez exchange, rounded).
#pragma once

#include <cmath>

#include "core/math/sinh_ratio.h"
#include "core/platform.h"

namespace bk::math::half {

constexpr float kLn2 = 0.69314718f, kLog2e = 1.44269504f;

BK_HD float exp2(float x) {
#if BK_ON_GPU
    float y;
    asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));  // 2 ulp
    return y;
#else
    return ::exp2f(x);
#endif
}

// Error 2^-22: absolute in (1/2, 2), relative elsewhere.
BK_HD float approximate_log2(float x) {
#if BK_ON_GPU
    float y;
    asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return ::log2f(x);
#endif
}

// Returns 0 for |x| > 2^126.
BK_HD float reciprocal(float x) {
#if BK_ON_GPU
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));  // 1 ulp
    return y;
#else
    return 1.0f / x;
#endif
}

BK_HD float sqrt(float x) {
#if BK_ON_GPU
    float y;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));  // 1 ulp
    return y;
#else
    return ::sqrtf(x);
#endif
}

// c0 + x (c1 + x (c2 + ...)).
BK_HD float polynomial(float, float c0) { return c0; }

template <class... Rest>
BK_HD float polynomial(float x, float c0, float c1, Rest... rest) {
    return ::fmaf(x, polynomial(x, c1, rest...), c0);
}

// Whether 1 + f is near 1, where log2 vanishes but the instruction's error does not.
BK_HD bool is_near_one(float f) { return ::fabsf(f) < 0.0625f; }

// ln(1 + f) / f if is_near_one(f).
BK_HD float log1p_ratio(float f) { return polynomial(f, 0.999999617f, -0.499999298f, 0.334116621f, -0.250783625f); }

BK_HD float log(float x) {
    const float f = x - 1.0f;
    return is_near_one(f) ? f * log1p_ratio(f) : approximate_log2(x) * kLn2;
}

BK_HD float log2(float x) {
    const float f = x - 1.0f;
    const float near = f * polynomial(f, 1.44269449f, -0.721346507f, 0.482028392f, -0.361804292f);
    return is_near_one(f) ? near : approximate_log2(x);
}

BK_HD float log10(float x) {
    const float f = x - 1.0f;
    const float near = f * polynomial(f, 0.434294316f, -0.217146936f, 0.145105005f, -0.108913944f);
    return is_near_one(f) ? near : approximate_log2(x) * 0.30103f;
}

BK_HD float log1p(float x) { return is_near_one(x) ? x * log1p_ratio(x) : approximate_log2(1.0f + x) * kLn2; }

BK_HD float expm1(float x) {
    const float near = x * polynomial(x, 1.0f, 0.500004484f, 0.167098249f, 0.0416370402f);
    return ::fabsf(x) < 0.25f ? near : exp2(x * kLog2e) - 1.0f;
}

BK_HD float sinh(float x) {
    const float e = exp2(::fmaf(::fabsf(x), kLog2e, -1.0f));
    return ::fabsf(x) < 0.5f ? x * sinh_ratio(x * x) : ::copysignf(::fmaf(-0.25f, reciprocal(e), e), x);
}

BK_HD float cosh(float x) {
    const float e = exp2(::fmaf(::fabsf(x), kLog2e, -1.0f));
    return ::fmaf(0.25f, reciprocal(e), e);
}

// ln(x + root); x + root is 2 x beyond 2^12.
BK_HD float log_of_sum(float x, float root) {
    const bool large = x > 0x1p12f;
    return ::fmaf(approximate_log2(large ? x : x + root), kLn2, large ? kLn2 : 0.0f);
}

BK_HD float asinh(float x) {
    const float z = x * x;
    const float near = x * polynomial(z, 0.999999678f, -0.16657352f, 0.0709858213f);
    return ::fabsf(x) < 0.25f ? near : ::copysignf(log_of_sum(::fabsf(x), sqrt(z + 1.0f)), x);
}

BK_HD float acosh(float x) {
    const float f = x - 1.0f;
    const bool small = f < 0.25f;
    const float root = sqrt(small ? f + f : f * (x + 1.0f));
    const float near = root * polynomial(f, 0.999997661f, -0.0831612568f, 0.0168494235f);
    return small ? near : log_of_sum(x, root);
}

BK_HD float atanh(float x) {
    const float near = x * polynomial(x * x, 1.00000002f, 0.333312683f, 0.203451798f);
    return ::fabsf(x) < 0.125f ? near : 0.5f * kLn2 * (approximate_log2(1.0f + x) - approximate_log2(1.0f - x));
}

// acos(x) for x >= 0; NaN beyond 1.
BK_HD float acos_of_positive(float x) {
    return sqrt(1.0f - x) * polynomial(x, 1.57078744f, -0.214110814f, 0.0845965673f, -0.0356434334f, 0.00859180629f);
}

BK_HD float acos(float x) {
    const float y = acos_of_positive(::fabsf(x));
    return x < 0.0f ? 3.14159265f - y : y;
}

BK_HD float asin(float x) {
    const float near = x * polynomial(x * x, 0.999998492f, 0.16685216f, 0.0714842901f, 0.0650669222f);
    return ::fabsf(x) < 0.5f ? near : ::copysignf(1.57079633f - acos_of_positive(::fabsf(x)), x);
}

// Above 1/2 the complement is 2^P(x).
BK_HD float erf(float x) {
    const float near = x * polynomial(x * x, 1.12837902f, -0.376107344f, 0.11245632f, -0.0243893744f);
    const float size = ::fabsf(x), z = size > 4.2f ? 4.2f : size;
    const float e = exp2(polynomial(z, -0.00244590711f, -1.61365401f, -0.949921767f, -0.115973874f, 0.0135893354f));
    return size < 0.5f ? near : ::copysignf(1.0f - e, x);
}

// exp(-x^2) P(|x|) / Q(|x|), all coefficients positive; erfc(-x) = 2 - erfc(x).
BK_HD float erfc(float x) {
    const float size = ::fabsf(x), z = size > 12.0f ? 12.0f : size;
    const float p = polynomial(z, 0.999999582f, 1.02878401f, 0.48217966f, 0.0977994728f);
    const float q = polynomial(z, 1.0f, 2.1571341f, 1.91656773f, 0.85411104f, 0.173362919f);
    const float tail = exp2(z * z * -kLog2e) * (p * reciprocal(q));
    return x < 0.0f ? 2.0f - tail : tail;
}

// x P(w), w = -ln(1 - x^2), which for 16-bit x is at most 7 or infinite.
BK_HD float erfinv(float x) {
    const float w = approximate_log2(::fmaf(-x, x, 1.0f)) * -kLn2;
    return x * polynomial(w, 0.886228472f, 0.231992656f, 0.0115859768f, -0.00233274397f, -0.000167628424f, 7.69870067e-05f,
                          -7.80708437e-06f, 2.78150143e-07f);
}

}  // namespace bk::math::half
