// SPDX-License-Identifier: Apache-2.0
// Minimum and maximum of two values; -0 orders before +0.
//
// minimum and maximum return NaN if either operand is NaN; fmin and fmax prefer a number.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/math/math.h"
#include "core/types/pack.h"

namespace bk::op {

// Equal values differ at most in the sign of a zero: the smaller ORs the sign bits, the larger ANDs them.
template <class C>
BK_HD C smaller_of_equals(C a, C b) {
    return bit_cast<C>(static_cast<bits_t<C>>(bit_cast<bits_t<C>>(a) | bit_cast<bits_t<C>>(b)));
}

template <class C>
BK_HD C larger_of_equals(C a, C b) {
    return bit_cast<C>(static_cast<bits_t<C>>(bit_cast<bits_t<C>>(a) & bit_cast<bits_t<C>>(b)));
}

template <class T>
struct Minimum {
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b) const {
        if constexpr (std::is_integral_v<T>) {
            return a < b ? a : b;
        } else {
            const C different = math::select(a < b, a, math::select(b < a, b, a + b));  // a + b: one is NaN
            return math::select(a == b, smaller_of_equals(a, b), different);
        }
    }
};

template <class T>
struct Maximum {
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b) const {
        if constexpr (std::is_integral_v<T>) {
            return a > b ? a : b;
        } else {
            const C different = math::select(a > b, a, math::select(b > a, b, a + b));
            return math::select(a == b, larger_of_equals(a, b), different);
        }
    }
};

template <class T>
struct Fmin {
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b) const {
        const C different = math::select((a < b) | math::isnan(b), a, b);
        return math::select(a == b, smaller_of_equals(a, b), different);
    }
};

template <class T>
struct Fmax {
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b) const {
        const C different = math::select((a > b) | math::isnan(b), a, b);
        return math::select(a == b, larger_of_equals(a, b), different);
    }
};

// dy to the operand that was selected; equal operands share it.
template <class C>
BK_HD Pack<C, C> give(C dy, bool to_a, bool to_b) {
    const C half = C(0.5) * dy;
    const C shared = math::select(to_a == to_b, half, C(0));
    return pack(math::select(to_a & !to_b, dy, shared), math::select(to_b & !to_a, dy, shared));
}

// Gradient of minimum and maximum: dy to both if either is NaN.
template <class C>
BK_HD Pack<C, C> give_ordered(C dy, C a, C b, bool to_a, bool to_b) {
    const Pack<C, C> given = give(dy, to_a, to_b);
    const bool unordered = math::unordered(a, b);
    return pack(math::select(unordered, dy, get<0>(given)), math::select(unordered, dy, get<1>(given)));
}

template <class T>
struct MinimumBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C dy, C a, C b) const { return give_ordered(dy, a, b, a < b, b < a); }
};

template <class T>
struct MaximumBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C dy, C a, C b) const { return give_ordered(dy, a, b, a > b, b > a); }
};

template <class T>
struct FminBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C dy, C a, C b) const { return give(dy, (a < b) | math::isnan(b), (b < a) | math::isnan(a)); }
};

template <class T>
struct FmaxBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C dy, C a, C b) const { return give(dy, (a > b) | math::isnan(b), (b > a) | math::isnan(a)); }
};

}  // namespace bk::op
