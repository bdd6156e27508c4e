// SPDX-License-Identifier: Apache-2.0
// Quotients and remainders of floats and integers, and their gradients.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/math/math.h"
#include "core/types/pack.h"
#include "elementwise/functors/integer_division.h"
#include "elementwise/scaling.h"
#include "elementwise/tune.h"

namespace bk::op {

// Type whose rounded quotient of two T determines the floor: twice the digits of T if there is one.
template <class T>
using quotient_t = std::conditional_t<std::is_same_v<T, float>, double, compute_t<T>>;

// a - integer * b, where `integer` is the rounded quotient or its floor; exact unless it lies on the far side of 0.
template <class W>
BK_HD W remainder_of(W a, W b, W integer) {
    return math::select(integer == W(0), a, math::fma(-integer, b, a));  // 0 * infinity must be 0 here
}

// Whether the sign of `remainder` shows that the quotient was rounded up to the integer.
template <class W>
BK_HD bool is_high(W remainder, W b) {
    return (remainder != W(0)) & ((remainder < W(0)) != (b < W(0)));
}

// floor of the exact a / b, rounded to T at most once. With twice the digits of T the rounded quotient is wrong only if
// it is an integer. In f64 a quotient above 2^53 may also have been rounded up when its floor lies halfway between two
// numbers: the floor of the remainder's quotient tells. Above 2^106 no quotient is that near to halfway.
template <class T>
BK_HD quotient_t<T> floor_quotient(quotient_t<T> a, quotient_t<T> b) {
    using W = quotient_t<T>;
    constexpr W integers = W(int64_t{1} << std::numeric_limits<W>::digits);
    const W integer = math::floor<W>(a / b), remainder = remainder_of(a, b, integer);
    if constexpr (std::is_same_v<T, double>) {
        const W over = math::floor<W>(remainder / b);
        const W excess = over - math::select(is_high(remainder_of(remainder, b, over), b), W(1), W(0));
        const bool high = (excess < W(0)) & (math::fabs<W>(integer) <= integers * integers);
        return math::select(high, integer + excess, integer);
    } else {
        const bool is_exact = math::fabs<W>(integer) <= integers;
        return math::select(is_high(remainder, b) & is_exact, integer - W(1), integer);
    }
}

// trunc of the exact a / b.
template <class T>
BK_HD quotient_t<T> truncated_quotient(quotient_t<T> a, quotient_t<T> b) {
    using W = quotient_t<T>;
    const W sign = math::copysign<W>(W(1), a) * math::copysign<W>(W(1), b);
    return sign * floor_quotient<T>(math::fabs<W>(a), math::fabs<W>(b));
}

template <class T>
struct Div {
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b) const {
        if constexpr (std::is_integral_v<T>)
            return integer_quotient(a, b);
        else
            return a / b;
    }
};

template <class T>
struct FloorDivide {
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b) const {
        if constexpr (std::is_integral_v<T>)
            return integer_floor_quotient(a, b);
        else
            return static_cast<C>(floor_quotient<T>(a, b));
    }
};

template <class T>
struct Remainder {
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b) const {
        if constexpr (std::is_integral_v<T>)
            return integer_remainder(a, b);
        else
            return math::fmod<T>(a, b);
    }
};

// Python's %: remainder of the floored quotient, with the sign of b even if it is 0.
template <class T>
struct Mod {
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b) const {
        if constexpr (std::is_integral_v<T>) {
            return integer_modulus(a, b);
        } else {
            const C r = math::fmod<T>(a, b);
            const C shifted = math::select((r < C(0)) != (b < C(0)), r + b, r);
            return math::select(r == C(0), math::copysign<T>(C(0), b), shifted);
        }
    }
};

// da = dy / b, db = -a dy / b^2.
template <class T>
struct DivBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C dy, C a, C b) const {
        if constexpr (math::kIsHalf<T>) {
            using W = wide_t<T>;
            const W inverse = math::rough_reciprocal(W(b)), da = W(dy) * inverse;
            return pack(C(da), C(-(W(a) * inverse * da)));
        } else {
            const Split<C> g = split(dy), x = split(a), y = split(b);
            const C db = -(x.mantissa * g.mantissa) / (y.mantissa * y.mantissa);
            return pack(dy / b, scale(db, x.exponent + g.exponent - 2 * y.exponent));
        }
    }
};

// Type in which quotients of a gradient are computed, so that a large one may be multiplied by a small dy.
template <class T>
using long_quotient_t = std::conditional_t<std::is_same_v<T, bf16>, float, T>;

// da = dy, db = -floor(a / b) dy.
template <class T>
struct ModBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C dy, C a, C b) const {
        using L = long_quotient_t<T>;
        return pack(dy, static_cast<C>(-floor_quotient<L>(a, b) * quotient_t<L>(dy)));
    }
};

// da = dy, db = -trunc(a / b) dy.
template <class T>
struct RemainderBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C dy, C a, C b) const {
        using L = long_quotient_t<T>;
        return pack(dy, static_cast<C>(-truncated_quotient<L>(a, b) * quotient_t<L>(dy)));
    }
};

}  // namespace bk::op
