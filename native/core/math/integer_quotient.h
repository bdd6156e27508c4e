// SPDX-License-Identifier: Apache-2.0
// Integer division that never traps: x / 0 = 0, and the quotient that overflows wraps.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/platform.h"
#include "core/types/convert.h"
#include "core/types/dtype.h"

namespace bk {

// Type of a * b and a - b modulo 2^width. Narrower types would promote to int, whose overflow is undefined.
template <class T>
using wrapping_t = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class T>
BK_HD T wrapping_multiply(T a, T b) {
    return static_cast<T>(static_cast<wrapping_t<T>>(a) * static_cast<wrapping_t<T>>(b));
}

template <class T>
BK_HD T wrapping_add(T a, T b) {
    return static_cast<T>(static_cast<wrapping_t<T>>(a) + static_cast<wrapping_t<T>>(b));
}

template <class T>
BK_HD T wrapping_subtract(T a, T b) {
    return static_cast<T>(static_cast<wrapping_t<T>>(a) - static_cast<wrapping_t<T>>(b));
}

// a / b rounded towards zero; 0 for b = 0; the lowest number / -1 wraps.
//
// CPUs have no integer vector division, so operands are divided as floats that hold them exactly: a quotient that is
// not an integer is at least 1 / |b| from the next one, more than the rounding error.
template <class T>
BK_HD T integer_quotient(T a, T b) {
#if !BK_ON_GPU
    if constexpr (sizeof(T) <= 2) {
        const float q = static_cast<float>(a) / static_cast<float>(b == 0 ? T(1) : b);
        return b == 0 ? T(0) : static_cast<T>(static_cast<int32_t>(q));
    } else if constexpr (std::is_same_v<T, int32_t>) {
        const bool wraps = (a == INT32_MIN) & (b == -1);
        const double q = static_cast<double>(a) / static_cast<double>(((b == 0) | wraps) ? 1 : b);
        return b == 0 ? 0 : static_cast<int32_t>(q);
    } else if constexpr (std::is_same_v<T, uint32_t>) {
        const uint32_t q = truncate_to_u32(to_double(a) / to_double(b == 0 ? 1u : b));
        return b == 0 ? 0u : q;
    } else
#endif
    {
        const bool negates = std::is_signed_v<T> && b == static_cast<T>(-1);
        const T divisor = b == 0 || negates ? T(1) : b;
        const T q = static_cast<T>(a / divisor);
        return b == 0 ? T(0) : negates ? wrapping_subtract(T(0), a) : q;
    }
}

}  // namespace bk
