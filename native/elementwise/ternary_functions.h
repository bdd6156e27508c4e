// Functions of three operands and their gradients.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/convert.h"
#include "core/math.h"
#include "core/pack.h"
#include "elementwise/extrema.h"
#include "elementwise/scaling.h"

namespace bk::op {

// min(max(a, b), c), so c where b > c; NaN if any is.
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

// dy to the operand whose value was taken: the first NaN if there is one, c where b > c, a where it equals a bound.
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

// a b + c, rounded once. 16-bit types: the product is exact in f32 or f64, and the sum is rounded to odd there, so that
// the rounding to 16 bits is as of the exact sum (Boldo and Melquiond 2008).
template <class T>
struct Fma {
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b, C c) const {
        if constexpr (!math::kIsHalf<T>) {
            return math::fma(a, b, c);
        } else {
            using W = std::conditional_t<std::is_same_v<T, f16>, float, double>;  // holds the range of products, too
            using Bits = bits_t<W>;
            const W product = W(a) * W(b), sum = product + W(c);
            const W part = sum - product;
            const W error = (product - (sum - part)) + (W(c) - part);  // exact (Knuth, TAOCP 2, 4.2.2)
            const Bits bits = bit_cast<Bits>(sum);
            const Bits inwards = (bits ^ bit_cast<Bits>(error)) >> (8 * sizeof(W) - 1);
            const Bits step = ~bits & 1;  // of an even sum
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

template <class T>
struct Addcmul {
    using C = compute_t<T>;
    C scale = C(1);
    BK_HD C operator()(C a, C b, C c) const { return math::fma(scale * b, c, a); }
};

template <class T>
struct AddcmulBackward {
    using C = compute_t<T>;
    C scale = C(1);
    BK_HD Pack<C, C, C> operator()(C dy, C, C b, C c) const { return pack(dy, scale * c * dy, scale * b * dy); }
};

template <class T>
struct Addcdiv {
    using C = compute_t<T>;
    C scale = C(1);
    BK_HD C operator()(C a, C b, C c) const { return math::fma(scale, b / c, a); }
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
