// SPDX-License-Identifier: Apache-2.0
// Functions of three operands and their gradients.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/math/math.h"
#include "core/types/convert.h"
#include "core/types/pack.h"
#include "elementwise/functors/extrema.h"
#include "elementwise/scaling.h"

namespace bk::op {

// min(max(a, b), c), hence c if b > c; NaN if any operand is.
template <class T>
struct Clamp {
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b, C c) const {
        if constexpr (std::is_integral_v<T>) {
            const T raised = a < b ? b : a;
            return raised > c ? c : raised;
        } else {
            return Minimum<T>()(Maximum<T>()(a, b), c);
        }
    }
};

// dy to the operand whose value was selected: the first NaN if any, c if b > c, a if it equals a bound.
template <class T>
struct ClampBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C, C> operator()(C dy, C a, C b, C c) const {
        const bool nan_a = math::isnan(a), nan_b = math::isnan(b), nan_c = math::isnan(c);
        const bool numbers = (a == a) & (b == b) & (c == c);
        const bool to_c = (numbers & ((b > c) | (a > c))) | (nan_c & (a == a) & (b == b));
        const bool to_b = (numbers & (a < b) & (b <= c)) | (nan_b & (a == a));
        const bool to_a = (numbers & (a >= b) & (a <= c)) | nan_a;
        return pack(math::select(to_a, dy, C(0)), math::select(to_b, dy, C(0)), math::select(to_c, dy, C(0)));
    }
};

// a b + c, rounded once. 16-bit types: the product is exact in f32 or f64, the sum is rounded to odd there, so that the
// rounding to 16 bits equals that of the exact sum (Boldo and Melquiond 2008).
template <class T>
struct Fma {
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b, C c) const {
        if constexpr (!math::kIsHalf<T>) {
            return math::fma(a, b, c);
        } else {
            using W = std::conditional_t<std::is_same_v<T, f16>, float, double>;  // also holds the range of products
            using Bits = bits_t<W>;
            const W product = W(a) * W(b), sum = product + W(c);
            const W addend = sum - product;
            const W error = (product - (sum - addend)) + (W(c) - addend);  // exact: TwoSum (Knuth, TAOCP 2, 4.2.2)
            const Bits bits = bit_cast<Bits>(sum);
            const Bits inwards = (bits ^ bit_cast<Bits>(error)) >> (8 * sizeof(W) - 1);
            const Bits step = ~bits & 1;  // 1 for an even sum
            const W odd = bit_cast<W>(bits + step - 2 * (step & inwards));
            return to_float_odd(math::select((error > W(0)) | (error < W(0)), odd, sum));
        }
    }
};

template <class T>
struct FmaBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C, C> operator()(C dy, C a, C b, C) const { return pack(b * dy, a * dy, dy); }
};

// Applies the scale to the smaller of x and y if it is above 1, else to the larger: that product leaves the range only
// if the whole product does.
template <class C>
BK_HD Pack<C, C> scaled_factors(C scale, C x, C y) {
    const bool with_y = (math::fabs<C>(x) > math::fabs<C>(y)) == (math::fabs<C>(scale) > C(1));
    return pack(scale * math::select(with_y, y, x), math::select(with_y, x, y));
}

template <class T>
struct Addcmul {
    using C = compute_t<T>;
    C scale = C(1);
    BK_HD C operator()(C a, C b, C c) const {
        const Pack<C, C> factors = scaled_factors(scale, b, c);
        return math::fma(get<0>(factors), get<1>(factors), a);
    }
};

template <class T>
struct AddcmulBackward {
    using C = compute_t<T>;
    C scale = C(1);
    BK_HD Pack<C, C, C> operator()(C dy, C, C b, C c) const {
        const Pack<C, C> db = scaled_factors(scale, c, dy), dc = scaled_factors(scale, b, dy);
        return pack(dy, get<0>(db) * get<1>(db), get<0>(dc) * get<1>(dc));
    }
};

template <class T>
struct Addcdiv {
    using C = compute_t<T>;
    C scale = C(1);
    BK_HD C operator()(C a, C b, C c) const {
        // Factors on different sides of 1 are multiplied first: no step leaves the range unless the result does.
        const bool mixed = (math::fabs<C>(scale) > C(1)) != (math::fabs<C>(b) > C(1));
        const C dividend = math::select(mixed, scale * b, b), factor = math::select(mixed, C(1), scale);
        const bool fixed = math::fabs<C>(scale) < C(INFINITY),
                   finite = fixed & (math::fabs<C>(b) < C(INFINITY)) & (c == c) & (c != C(0));
        const bool unmoved = (math::fabs<C>(a) == C(INFINITY)) & finite;  // by a summand too large for the type
        return math::select(unmoved, a, math::fma(factor, dividend / c, a));
    }
};

// db = scale dy / c, dc = -scale b dy / c^2.
template <class T>
struct AddcdivBackward {
    using C = compute_t<T>;
    C scale = C(1);
    BK_HD Pack<C, C, C> operator()(C dy, C, C b, C c) const {
        const Split<C> f = split(scale), g = split(dy), x = split(b), y = split(c);
        const C product = f.mantissa * g.mantissa;
        const C db = op::scale(product / y.mantissa, f.exponent + g.exponent - y.exponent);
        const C dc = op::scale(-(product * x.mantissa) / (y.mantissa * y.mantissa),
                               f.exponent + g.exponent + x.exponent - 2 * y.exponent);
        return pack(dy, db, dc);
    }
};

}  // namespace bk::op
