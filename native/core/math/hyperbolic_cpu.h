// SPDX-License-Identifier: Apache-2.0
// Hyperbolic functions of f32 on the CPU, and their inverses.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/math/exp_log_cpu.h"

namespace bk::math::cpu {

// e^z / 2 for z >= 0; infinite from 90 on.
inline __attribute__((always_inline)) float half_exp(float z) {
    const Exponential e = Exponential::of(bounded(z, 0.0f, 91.0f));
    return scaled(1.0f + e.t, e.integer - 1);
}

inline __attribute__((always_inline)) float cosh(float x) {
    const float a = half_exp(size_of(x));
    return a + 0.25f / a;
}

// |x| < 1: minimax polynomial x + x^3 P(x^2).
inline __attribute__((always_inline)) float sinh(float x) {
    const float z = size_of(x), a = half_exp(z), s = x * x;
    const float p = series(s, 0.166666672f, 0.00833331142f, 0.000198426002f, 2.78414609e-06f);
    return pick(z < 1.0f, fma(x * s, p, x), with_sign(a - 0.25f / a, x));
}

// |x| < 5/8: minimax polynomial x + x^3 P(x^2); else 1 - 2 / (1 + e^(2 |x|)).
inline __attribute__((always_inline)) float tanh(float x) {
    const float z = size_of(x), s = x * x;
    const float p = series(s, -0.333333313f, 0.133332208f, -0.0539481789f, 0.0217068922f, -0.00819000043f, 0.00215266296f);
    const Exponential e = Exponential::of(bounded(2.0f * z, 0.0f, 20.0f));
    const float power = power_of_two(e.integer);
    const float far = 1.0f - 2.0f / (fma(power, e.t, power) + 1.0f);
    return with_sign(pick(z < 0.625f, fma(z * s, p, z), far), x);
}

// ln(1 + w), w = z + z^2 / (1 + sqrt(1 + z^2)), z = |x|; ln 2 z from 2^30 on.
inline __attribute__((always_inline)) float asinh(float x) {
    const float z = size_of(x);
    const bool large = z > 0x1p30f;
    const float s = pick(large, 0.0f, z * z);
    return with_sign(log1p_and(z + s / (1.0f + __builtin_sqrtf(1.0f + s)), pick(large, 1.0f, 0.0f)), x);
}

// ln(1 + w), w = t + sqrt(t (t + 2)), t = x - 1; ln 2 x from 2^30 on.
inline __attribute__((always_inline)) float acosh(float x) {
    const bool large = x > 0x1p30f;
    const float t = x - 1.0f, s = pick(large, 0.0f, fma(t, t, 2.0f * t));
    const float y = log1p_and(t + __builtin_sqrtf(s), pick(large, 1.0f, 0.0f));
    return pick(x < 1.0f, NAN, y);
}

// |x| < 1/2: minimax polynomial x + x^3 P(x^2); else ln(1 + 2 z / (1 - z)) / 2, z = |x|, where 1 - z is exact.
inline __attribute__((always_inline)) float atanh(float x) {
    const float z = size_of(x), s = x * x;
    const float p = series(s, 0.333333015f, 0.20002453f, 0.142237842f, 0.118164085f, 0.0516033135f, 0.176380143f);
    const float far = 0.5f * log1p_and(2.0f * z / (1.0f - z), 0.0f);
    return with_sign(pick(z < 0.5f, fma(z * s, p, z), far), x);
}

}  // namespace bk::math::cpu
