// SPDX-License-Identifier: Apache-2.0
// cbrt of f32 on the CPU.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/math/arithmetic_cpu.h"

namespace bk::math::cpu {

// y = z^(-1/3), from a third of the exponent, by two cubic steps y += y h (1/3 + 2/9 h), h = 1 - z y^3; then c = z y^2
// minus (c^3 - z) / (3 c^2), where 1 / c^2 is y^2 and c^3 includes the rounding error of c^2.
inline __attribute__((always_inline)) float cbrt(float x) {
    const float size = size_of(x);
    const bool tiny = size < 0x1p-126f;
    const float z = size * pick(tiny, 0x1p24f, 1.0f);
    const int32_t third = static_cast<int32_t>(static_cast<float>(bit_cast<int32_t>(z)) * 0.333333343f);
    float y = bit_cast<float>(0x54a2fa8c - third);
    for (int step = 0; step < 2; ++step) {
        const float h = fma(-z * y, y * y, 1.0f);
        y = fma(y * h, fma(h, 0.222222224f, 0.333333343f), y);
    }
    const float c = z * y * y, square = c * c;
    const float residual = fma(square, c, -z) + fma(c, c, -square) * c;
    const float root = fma(residual * -0.333333343f, y * y, c) * pick(tiny, 0x1p-8f, 1.0f);
    return pick((size > 0.0f) & (size < INFINITY), with_sign(root, x), x);
}

}  // namespace bk::math::cpu
