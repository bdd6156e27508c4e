// SPDX-License-Identifier: Apache-2.0
// sinh near 0 for 16-bit types, on both targets.
#pragma once

#include <cmath>

#include "core/platform.h"

namespace bk::math {

// sinh(x) / x for |x| < 1/2 in z = x^2: minimax polynomial, relative error 2^-23.
BK_HD float sinh_ratio(float z) { return ::fmaf(z, ::fmaf(z, 0.00840778957f, 0.166659716f), 1.0000001f); }

}  // namespace bk::math
