// The error function of f32 on the CPU.
#pragma once

#include "core/math/exp_log_cpu.h"
#include "core/math/f64_cpu.h"

namespace bk::math::cpu {

// With z = |x|, below 1 z + z P(z^2), from 1 to 4 1 - 2^G(z) with G a polynomial for log2(erfc z).
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

// With z = |x|, erfc(z) = e^(-z^2) W(u) / (z + 3), u = (z - 3) / (z + 3), in f64; erfc(-z) = 2 - erfc(z).
inline __attribute__((always_inline)) float erfc(float x) {
    const double given = x, z = bounded(size_of(given), 0.0, 11.0);
    const double q = 1.0 / (z + 3.0), u = fma(-6.0, q, 1.0);
    const double w = series(u, 1.0740069095844742, -0.883394510700153, 0.5902281441515644, -0.3104653637899724,
                            0.11953133362238913, -0.026843409109000498, -0.0012380844132843674, 0.003082814764780543,
                            -0.0004635015597415688, -0.0003147167728584389);
    const double tail = rough_exp2(z * z * -1.4426950408889634) * (w * q);
    return static_cast<float>(pick(given < 0.0, 2.0 - tail, tail));
}

}  // namespace bk::math::cpu
