// SPDX-License-Identifier: Apache-2.0
// asin, acos and atan of f32 on the CPU.
#pragma once

#include "core/math/arctangent.h"
#include "core/math/arithmetic_cpu.h"

namespace bk::math::cpu {

constexpr float kHalfPi = 0x1.921fb6p0f, kHalfPiLow = -0x1.777a5cp-25f;  // pi / 2 as the sum of two floats

// asin z = z + z s P(s), s = z^2, for z = |x| <= 1/2. Above: s = (1 - z) / 2, r = sqrt(s), and r + r s P(s) is acos(z)
// / 2.
struct Arcsine {
    float root, tail;  // root + tail = asin(root)

    static inline __attribute__((always_inline)) Arcsine of(float z, bool large) {
        const float s = pick(large, fma(-0.5f, z, 0.5f), z * z);
        const float root = pick(large, __builtin_sqrtf(s), z);
        const float p = series(s, 0.166667536f, 0.074952513f, 0.0454761647f, 0.0241514053f, 0.0422130413f);
        return {root, root * s * p};
    }
};

inline __attribute__((always_inline)) float asin(float x) {
    const bool large = size_of(x) > 0.5f;
    const Arcsine a = Arcsine::of(size_of(x), large);
    const float high = fma(-2.0f, a.root, kHalfPi), low = fma(-2.0f, a.root, kHalfPi - high) + kHalfPiLow;
    const float far = high + fma(-2.0f, a.tail, low);
    return with_sign(pick(large, far, a.root + a.tail), x);
}

inline __attribute__((always_inline)) float acos(float x) {
    const bool large = size_of(x) > 0.5f;
    const Arcsine a = Arcsine::of(size_of(x), large);
    const float near = kHalfPi - (with_sign(a.root, x) + (with_sign(a.tail, x) - kHalfPiLow));
    const float twice = 2.0f * (a.root + a.tail);
    const float left = fma(-2.0f, a.root, 2.0f * kHalfPi) + fma(-2.0f, a.tail, 2.0f * kHalfPiLow);
    return pick(large, pick(x < 0.0f, left, twice), near);
}

// Angle to the nearer axis, whose tangent is z = |x| or 1 / z.
inline __attribute__((always_inline)) float atan(float x) {
    const float z = size_of(x);
    const bool steep = z > 1.0f;
    const float octant = arctangent_of_fraction(pick(steep, 1.0f, z) / pick(steep, z, 1.0f));
    return with_sign(pick(steep, kHalfPi - (octant - kHalfPiLow), octant), x);
}

}  // namespace bk::math::cpu
