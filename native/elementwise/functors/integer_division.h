// SPDX-License-Identifier: Apache-2.0
// Integer division and powers. Division by 0 gives 0 (remainders included), overflow wraps.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/math/integer_quotient.h"

namespace bk::op {

// a - b trunc(a / b), with the sign of a.
template <class T>
BK_HD T integer_remainder(T a, T b) {
    return b == 0 ? T(0) : wrapping_subtract(a, wrapping_multiply(integer_quotient(a, b), b));
}

// Whether the remainder of truncating division has the opposite sign of the divisor.
template <class T>
BK_HD bool truncated_upwards(T remainder, T b) {
    if constexpr (std::is_signed_v<T>)
        return (remainder != 0) & ((remainder ^ b) < 0);
    else
        return false;
}

template <class T>
BK_HD T integer_floor_quotient(T a, T b) {
    const T q = integer_quotient(a, b);
    const T remainder = b == 0 ? T(0) : wrapping_subtract(a, wrapping_multiply(q, b));
    return static_cast<T>(q - (truncated_upwards(remainder, b) ? 1 : 0));
}

template <class T>
BK_HD T integer_modulus(T a, T b) {
    const T remainder = integer_remainder(a, b);
    return truncated_upwards(remainder, b) ? static_cast<T>(remainder + b) : remainder;
}

// a^b modulo 2^width by squaring; for b < 0 the power truncated towards zero, and 0 for a = 0.
template <class T>
struct IntegerPow {
    BK_HD T operator()(T a, T b) const {
        if constexpr (std::is_signed_v<T>) {
            if (b < 0) return a == 1 ? T(1) : a == -1 ? (b & 1 ? T(-1) : T(1)) : T(0);
        }
        T power = 1;
        for (std::make_unsigned_t<T> n = static_cast<std::make_unsigned_t<T>>(b); n != 0; n >>= 1) {
            if (n & 1) power = wrapping_multiply(power, a);
            a = wrapping_multiply(a, a);
        }
        return power;
    }
};

// The float version is in power.h.
template <class T>
struct Pow;
template <>
struct Pow<int8_t> : IntegerPow<int8_t> {};
template <>
struct Pow<uint8_t> : IntegerPow<uint8_t> {};
template <>
struct Pow<int16_t> : IntegerPow<int16_t> {};
template <>
struct Pow<uint16_t> : IntegerPow<uint16_t> {};
template <>
struct Pow<int32_t> : IntegerPow<int32_t> {};
template <>
struct Pow<uint32_t> : IntegerPow<uint32_t> {};
template <>
struct Pow<int64_t> : IntegerPow<int64_t> {};
template <>
struct Pow<uint64_t> : IntegerPow<uint64_t> {};

}  // namespace bk::op
