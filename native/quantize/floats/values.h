// SPDX-License-Identifier: Apache-2.0
// Arithmetic of quantisers, each operation rounded on its own, and checks of enumerations.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk::floats {

BK_HD float quotient(float a, float b) {
#if BK_ON_GPU
    return __fdiv_rn(a, b);
#else
    return a / b;
#endif
}

BK_HD float reciprocal(float x) { return quotient(1.0f, x); }

BK_HD float difference(float a, float b) {
#if BK_ON_GPU
    return __fsub_rn(a, b);
#else
    return a - b;
#endif
}

// The larger of two magnitudes, where NaN and infinities exceed every number: the bits of magnitudes are ordered so.
BK_HD float larger_magnitude(float a, float b) {
    const uint32_t first = bit_cast<uint32_t>(a) & 0x7fffffffu, second = bit_cast<uint32_t>(b) & 0x7fffffffu;
    return bit_cast<float>(first > second ? first : second);
}

template <int N>
BK_HD float largest_magnitude(const float (&values)[N]) {
    float largest = 0.0f;
    for (int i = 0; i < N; ++i) largest = larger_magnitude(largest, values[i]);
    return largest;
}

BK_HD bool is_finite_magnitude(float largest) { return bit_cast<uint32_t>(largest) < 0x7f800000u; }

inline Status require_member(const char* name, int32_t value, int32_t members) {
    if (value >= 0 && value < members) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is %d, must be 0 to %d", name, value, members - 1);
}

}  // namespace bk::floats
