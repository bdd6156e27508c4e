// SPDX-License-Identifier: Apache-2.0
// Products and quotients by mantissa and exponent, for results in range whose intermediates would overflow or
// underflow.
//
// x = mantissa 2^exponent: mantissas are multiplied and divided, exponents added, and `scale` combines them with one
// rounding. Zeros, infinities and NaN are mantissas of their own, unchanged by powers of two.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/math/math.h"

namespace bk::op {

// A type that holds products of three numbers of a 16-bit type, and of their reciprocals.
template <class T>
using wide_t = std::conditional_t<std::is_same_v<T, f16>, float, double>;

template <class C>
struct FloatFormat {
    using Bits = bits_t<C>;
    using Int = std::make_signed_t<Bits>;  // of C's size, so that vectors of both have as many lanes
    static constexpr int digits = std::numeric_limits<C>::digits - 1;
    static constexpr Int bias = std::numeric_limits<C>::max_exponent - 1;
    static constexpr C least_normal = std::numeric_limits<C>::min();
    static constexpr Bits exponent_mask = 2 * static_cast<Bits>(bias) + 1;
};

// 2^k for the exponent k of a normal number.
template <class C>
BK_HD C integral_power_of_two(typename FloatFormat<C>::Int k) {
    using F = FloatFormat<C>;
    return bit_cast<C>(static_cast<typename F::Bits>(k + F::bias) << F::digits);
}

template <class C>
struct Split {
    C mantissa;  // signed, magnitude in [1, 2); or 0, infinity, NaN
    typename FloatFormat<C>::Int exponent;
};

template <class C>
BK_HD Split<C> split(C x) {
    using F = FloatFormat<C>;
    using Bits = typename F::Bits;
    using Int = typename F::Int;
    constexpr Int up = F::digits + 1;
    const bool subnormal = math::fabs<C>(x) < F::least_normal;
    const C normal = math::select(subnormal, x * integral_power_of_two<C>(up), x);
    const Bits bits = bit_cast<Bits>(normal);
    const Bits field = (bits >> F::digits) & F::exponent_mask;
    const bool special = (field == F::exponent_mask) | (normal == C(0));
    const C mantissa = bit_cast<C>((bits & ~(F::exponent_mask << F::digits)) | (static_cast<Bits>(F::bias) << F::digits));
    const Int exponent = static_cast<Int>(field) - F::bias - (subnormal ? up : Int(0));
    return {math::select(special, normal, mantissa), exponent};
}

// mantissa 2^exponent, rounded once; |mantissa| is in [2^-24, 2^16], or it is 0, infinity or NaN.
template <class C>
BK_HD C scale(C mantissa, typename FloatFormat<C>::Int exponent) {
    using Int = typename FloatFormat<C>::Int;
    constexpr Int limit = 3 * FloatFormat<C>::bias / 2;  // out of range; each half is in the normal range
    exponent = exponent < -limit ? -limit : exponent;
    exponent = exponent > limit ? limit : exponent;
    const Int half = exponent >> 1;
    return mantissa * integral_power_of_two<C>(half) * integral_power_of_two<C>(exponent - half);
}

}  // namespace bk::op
