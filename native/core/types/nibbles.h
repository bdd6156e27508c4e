// SPDX-License-Identifier: Apache-2.0
// Sub-byte elements: two 4-bit integers or eight bits a byte.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/math/math.h"
#include "core/platform.h"
#include "core/types/convert.h"
#include "core/types/dtype.h"

namespace bk {

// Elements per byte of E.
template <class E>
constexpr int kElementsPerByte = 1;
template <>
inline constexpr int kElementsPerByte<s4x2> = 2;
template <>
inline constexpr int kElementsPerByte<u4x2> = 2;
template <>
inline constexpr int kElementsPerByte<b1x8> = 8;

// int8_t for two's complement, else uint8_t.
template <class P>
using nibble_t = std::conditional_t<std::is_same_v<P, s4x2>, int8_t, uint8_t>;

template <class P>
BK_HD nibble_t<P> low_nibble(P x) {
    if constexpr (std::is_same_v<P, s4x2>)
        return static_cast<int8_t>(((x.bits & 15) ^ 8) - 8);
    else
        return x.bits & 15;
}

template <class P>
BK_HD nibble_t<P> high_nibble(P x) {
    return low_nibble(P{static_cast<uint8_t>(x.bits >> 4)});
}

// Clamps x to the range of P's elements: floats round to nearest even, NaN gives 0.
template <class P, class X>
BK_HD uint32_t to_nibble(X x) {
    constexpr int lowest = std::is_same_v<P, s4x2> ? -8 : 0, highest = lowest + 15;
    if constexpr (kIsFp8<X>) {
        return to_nibble<P>(fp8_to_float(x));
    } else if constexpr (std::is_same_v<X, bool>) {
        return x;
    } else if constexpr (std::is_integral_v<X>) {
        const X raised = std::is_signed_v<X> && x < X(lowest) ? X(lowest) : x;
        return static_cast<uint32_t>(raised > X(highest) ? X(highest) : raised) & 15u;
    } else {
        // At this magnitude the last mantissa bit is 1, so the sum rounds to an integer, in its low bits.
        constexpr X magic = sizeof(X) == 8 ? X(0x1.8p52) : X(0x1.8p23);
        const X number = math::select(math::isnan(x), X(0), x);
        const X bounded = math::min(math::max(number, X(lowest)), X(highest));
        return static_cast<uint32_t>(bit_cast<bits_t<X>>(bounded + magic)) & 15u;
    }
}

template <class P, class X>
BK_HD P to_nibbles(X first, X second) {
    return P{static_cast<uint8_t>(to_nibble<P>(first) | to_nibble<P>(second) << 4)};
}

}  // namespace bk
