// SPDX-License-Identifier: Apache-2.0
// erf, erfc and erfinv of f32 on the CPU.
#pragma once

#include <cmath>

#include "core/math/exp_log_cpu.h"
#include "core/math/f64_cpu.h"

namespace bk::math::cpu {

// z = |x|: z + z P(z^2) below 1; 1 - 2^G(z) from 1 to 4, G a polynomial for log2(erfc z).
inline __attribute__((always_inline)) float erf(float x) {
    const float z = bounded(size_of(x), 0.0f, 4.0f), s = z * z;
    const float p =
        series(s, 0.128379166f, -0.37612626f, 0.112835787f, -0.0268533528f, 0.00518717663f, -0.000799801899f, 7.80756964e-05f);
    const float g =
        series(z, -0.00051045412f, -1.62597442f, -0.920766175f, -0.148650452f, 0.0314578936f, -0.00424081692f, 0.000267711817f);
    const float shifted = g + kShift, f = g - (shifted - kShift);
    const float power = power_of_two(static_cast<int32_t>(bit_cast<uint32_t>(shifted) - bit_cast<uint32_t>(kShift)));
    const float tail = fma(f * power, slope_of_exp2(f), power);
    return with_sign(pick(z < 1.0f, fma(z, p, z), 1.0f - tail), x);
}

// z = |x|: erfc(z) = e^(-z^2) W(u) / (z + 3), u = (z - 3) / (z + 3), in f64; erfc(-z) = 2 - erfc(z).
inline __attribute__((always_inline)) float erfc(float x) {
    const double given = x, z = bounded(size_of(given), 0.0, 11.0);
    const double q = 1.0 / (z + 3.0), u = fma(-6.0, q, 1.0);
    const double w = series(u, 1.0740069095844742, -0.883394510700153, 0.5902281441515644, -0.3104653637899724,
                            0.11953133362238913, -0.026843409109000498, -0.0012380844132843674, 0.003082814764780543,
                            -0.0004635015597415688, -0.0003147167728584389);
    const double tail = rough_exp2(z * z * -1.4426950408889634) * (w * q);
    return static_cast<float>(pick(given < 0.0, 2.0 - tail, tail));
}

// w = -ln(1 - x^2), |x| < 1: x (sqrt(pi) / 2 + w P(w - 5/2)) below w = 5, else x Q(sqrt(w) - 25/8) (form of Giles 2010,
// "Approximating the erfinv function"); minimax fits, relative error 2e-8.
inline __attribute__((always_inline)) float erfinv(float x) {
    const float w = -log((1.0f - x) * (1.0f + x)), root = __builtin_sqrtf(w);
    const float p = series(w - 2.5f, 0.24607297f, 0.000226917392f, -0.00176170556f, 0.000203607492f, 5.88219528e-06f,
                           -4.35201715e-06f, 3.58895055e-07f, 4.60252706e-08f, -9.36771716e-09f);
    const float q = series(root - 3.125f, 2.95832015f, 1.00371867f, 0.00704786189f, -0.00530032031f, 0.00379400175f,
                           -0.00252464394f, 0.0012658493f, -0.0003162615f, -0.000107496041f, 0.000124928436f, -3.4223371e-05f);
    const float inside = pick(w < 5.0f, fma(x * w, p, x * 0.886226952f), x * q), size = size_of(x);
    return with_sign(pick(size == 1.0f, INFINITY, pick(size > 1.0f, NAN, inside)), x);
}

}  // namespace bk::math::cpu
