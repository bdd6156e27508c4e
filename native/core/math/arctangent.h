// SPDX-License-Identifier: Apache-2.0
// atan on [0, 1] in f32, for both targets.
#pragma once

#include <cmath>

#include "core/platform.h"

namespace bk::math {

// atan t = t + t^3 P(t^2), P a minimax polynomial; relative error 2^-25, mostly from the rounding of its coefficients.
BK_HD float arctangent_of_fraction(float t) {
    const float s = t * t;
    float p = -0x1.d62e0cp-10f;
    p = ::fmaf(p, s, 0x1.65a54ep-7f);
    p = ::fmaf(p, s, -0x1.fed062p-6f);
    p = ::fmaf(p, s, 0x1.dac964p-5f);
    p = ::fmaf(p, s, -0x1.58346cp-4f);
    p = ::fmaf(p, s, 0x1.c099f2p-4f);
    p = ::fmaf(p, s, -0x1.2421b4p-3f);
    p = ::fmaf(p, s, 0x1.9991fep-3f);
    p = ::fmaf(p, s, -0x1.55553ep-2f);
    return ::fmaf(p * s, t, t);
}

}  // namespace bk::math
