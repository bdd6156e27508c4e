// SPDX-License-Identifier: Apache-2.0
// Conversions between any two element types.
//
// Floats are rounded once: on the way to a narrower type, values too long for f32 are rounded to odd there, so that the
// second rounding is exact (Boldo and Melquiond 2008). Float to integer truncates and saturates, NaN gives 0. The CPU
// code has no branches and no conversions that lack vector instructions.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/math/math.h"
#include "core/platform.h"
#include "core/types/dtype.h"
#include "core/types/fp8.h"

namespace bk {

template <class T>
constexpr bool kIsFp8 = std::is_same_v<T, e4m3> || std::is_same_v<T, e5m2>;

// --- integers to floats ---

BK_HD float to_float(uint32_t x) {
#if BK_ON_GPU
    return static_cast<float>(x);
#else
    return static_cast<float>(static_cast<int32_t>(x >> 16)) * 0x1p16f + static_cast<float>(static_cast<int32_t>(x & 0xffff));
#endif
}

BK_HD double to_double(uint32_t x) {
#if BK_ON_GPU
    return static_cast<double>(x);
#else
    return static_cast<double>(static_cast<int32_t>(x ^ 0x80000000u)) + 0x1p31;
#endif
}

BK_HD double to_double(uint64_t x) {
#if BK_ON_GPU
    return static_cast<double>(x);
#else
    return to_double(static_cast<uint32_t>(x >> 32)) * 0x1p32 + to_double(static_cast<uint32_t>(x));
#endif
}

BK_HD double to_double(int64_t x) {
#if BK_ON_GPU
    return static_cast<double>(x);
#else
    return static_cast<double>(static_cast<int32_t>(x >> 32)) * 0x1p32 + to_double(static_cast<uint32_t>(x));
#endif
}

// Rounds to odd: ORs the last `kBits` bits into the bit above them if |x| >= 2^kFrom.
template <int kBits, int kFrom, class Int>
BK_HD Int fold_low_bits(Int x) {
    using Bits = std::make_unsigned_t<Int>;
    constexpr Bits low = (Bits(1) << kBits) - 1;
    const Bits u = static_cast<Bits>(x);
    const Bits folded = (u | ((u & low) + low)) & ~low;
    bool large = u >> kFrom != 0;
    if constexpr (std::is_signed_v<Int>) large = (u + (Bits(1) << kFrom)) >> (kFrom + 1) != 0;  // outside [-2^kFrom, 2^kFrom)
    return static_cast<Int>(large ? folded : u);
}

BK_HD float to_float_odd(double x) {
    const float nearest = static_cast<float>(x);
    const uint32_t above = math::fabs<double>(nearest) > math::fabs<double>(x);
    const uint32_t inexact = static_cast<double>(nearest) != x;
    return bit_cast<float>((bit_cast<uint32_t>(nearest) - above) | inexact);
}

// x in f32 rounded to odd: rounding it to 22 bits or fewer equals one rounding of x.
template <class C>
BK_HD float to_float_odd(C x) {
    if constexpr (kIsFp8<C>)
        return fp8_to_float(x);
    else if constexpr (std::is_same_v<C, float>)
        return x;
    else if constexpr (sizeof(C) <= 2)
        return static_cast<float>(static_cast<int32_t>(x));
    else if constexpr (std::is_same_v<C, int32_t>)
        return static_cast<float>(fold_low_bits<8, 24>(x));
    else if constexpr (std::is_same_v<C, uint32_t>)
        return to_float(fold_low_bits<8, 24>(x));
    else
        return to_float_odd(to_double(fold_low_bits<11, 53>(x)));
}

// x in f32 or f64, rounded once.
template <class C, class X>
BK_HD C to_real(X x) {
    if constexpr (kIsFp8<X>)
        return static_cast<C>(fp8_to_float(x));
    else if constexpr (std::is_same_v<X, bool>)
        return static_cast<C>(static_cast<int32_t>(x));
    else if constexpr (std::is_same_v<X, uint32_t> && std::is_same_v<C, float>)
        return to_float(x);
    else if constexpr (std::is_same_v<X, uint32_t> || (std::is_integral_v<X> && sizeof(X) == 8 && std::is_same_v<C, double>))
        return to_double(x);
    else if constexpr (std::is_integral_v<X> && sizeof(X) == 8)
#if BK_ON_GPU
        return static_cast<float>(x);
#else
        return static_cast<float>(to_double(fold_low_bits<11, 53>(x)));
#endif
    else
        return static_cast<C>(x);
}

// --- floats to integers ---

// x is in [0, 2^32).
template <class C>
BK_HD uint32_t truncate_to_u32(C x) {
#if BK_ON_GPU
    return static_cast<uint32_t>(x);
#else
    const bool high = x >= C(0x1p31);
    const uint32_t low = static_cast<uint32_t>(static_cast<int32_t>(x - math::select(high, C(0x1p31), C(0))));
    return low ^ (static_cast<uint32_t>(high) << 31);
#endif
}

template <class U>
constexpr U kLowest = std::numeric_limits<U>::min();
template <class U>
constexpr U kHighest = std::numeric_limits<U>::max();

// Truncated and saturated; 0 for NaN.
template <class U, class C>
BK_HD U to_integer(C x) {
    if constexpr (sizeof(U) <= 2 || (sizeof(U) == 4 && sizeof(C) == 8)) {  // the limits are exact
        const C lowest = static_cast<C>(kLowest<U>), highest = static_cast<C>(kHighest<U>);
        const C bounded = math::min(math::max(x, lowest), highest);
        const C number = math::select(math::isnan(x), C(0), bounded);
        if constexpr (std::is_same_v<U, uint32_t>)
            return truncate_to_u32(number);
        else
            return static_cast<U>(static_cast<int32_t>(number));
    } else {
#if BK_ON_GPU
        const U saturated = static_cast<U>(x);
        return math::isnan(x) ? U(0) : saturated;
#else
        constexpr C end = std::is_signed_v<U> ? C(sizeof(U) == 8 ? 0x1p63 : 0x1p31) : C(sizeof(U) == 8 ? 0x1p64 : 0x1p32);
        const C magnitude = std::is_signed_v<U> ? math::fabs<C>(x) : x;
        const C positive = math::select((magnitude > C(0)) & (magnitude < end), magnitude, C(0));
        std::make_unsigned_t<U> value;
        if constexpr (sizeof(U) == 8) {
            const double all = positive;
            const uint32_t high = truncate_to_u32(all * 0x1p-32);
            const uint32_t low = truncate_to_u32(all - to_double(high) * 0x1p32);
            value = static_cast<uint64_t>(high) << 32 | low;
        } else {
            value = truncate_to_u32(positive);
        }
        const U directed = static_cast<U>(std::is_signed_v<U> && x < C(0) ? 0 - value : value);
        const U saturated = x < C(0) ? kLowest<U> : kHighest<U>;
        return magnitude >= end ? saturated : directed;
#endif
    }
}

// Converts x, a result of `widen`, to the argument of `narrow<U>`.
template <class U, class X>
BK_HD auto convert(X x) {
    if constexpr (std::is_same_v<U, boolean>) {
        if constexpr (kIsFp8<X>)
            return (x.bits & 0x7f) != 0;
        else
            return x != X(0);
    } else if constexpr (std::is_integral_v<U>) {
        if constexpr (kIsFp8<X>)
            return to_integer<U>(fp8_to_float(x));
        else if constexpr (std::is_integral_v<X>)
            return static_cast<U>(x);
        else
            return to_integer<U>(x);
    } else if constexpr (std::is_same_v<U, float> || std::is_same_v<U, double>) {
        return to_real<U>(x);
    } else if constexpr (kIsFp8<U>) {
        return float_to_fp8<U>(to_float_odd(x));
    } else {
        return to_float_odd(x);
    }
}

}  // namespace bk
