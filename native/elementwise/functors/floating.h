// SPDX-License-Identifier: Apache-2.0
// Functions of the floating-point representation and of the plane: copysign, nextafter, ldexp, atan2, hypot.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/math/arctangent.h"
#include "core/math/math.h"
#include "core/types/pack.h"
#include "elementwise/scaling.h"
#include "elementwise/sign_bit.h"
#include "elementwise/tune.h"

namespace bk::op {

// Works on bits: a conversion from f16 or to 16 bits may drop the sign of a NaN.
template <class T>
struct Copysign {
    using Bits = bits_t<T>;
    static constexpr bool takes_bits = true;
    BK_HD Bits operator()(Bits a, Bits b) const { return static_cast<Bits>((a & ~kSignBit<T>) | (b & kSignBit<T>)); }
};

// da = dy, or -dy where the sign of a changed, 0 for a = 0; db = 0.
template <class T>
struct CopysignBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C dy, C a, C b) const {
        const C sign_product = math::copysign<T>(C(1), a) * math::copysign<T>(C(1), b);
        return pack(math::select(a == C(0), C(0), dy * sign_product), C(0));
    }
};

// Next value of T from a towards b: one step of the bit pattern. b if equal, NaN if either is.
template <class T>
struct Nextafter {
    using C = compute_t<T>;
    using Bits = bits_t<T>;
    BK_HD C operator()(C a, C b) const {
        constexpr Bits sign_bit = static_cast<Bits>(Bits(1) << (8 * sizeof(T) - 1));
        const Bits from = bit_cast<Bits>(narrow<T>(a));
        const bool away = (a < b) == (a > C(0));
        const Bits stepped = static_cast<Bits>(away ? from + 1 : from - 1);
        const Bits least = static_cast<Bits>((bit_cast<Bits>(narrow<T>(b)) & sign_bit) | 1);
        const C next = widen(bit_cast<T>(a == C(0) ? least : stepped));
        return math::select(a == b, b, math::select(math::unordered(a, b), a + b, next));
    }
};

// a 2^b, rounded once.
template <class T>
struct Ldexp {
    using C = compute_t<T>;
    BK_HD C operator()(C a, int32_t b) const {
        using Int = typename FloatFormat<C>::Int;
        constexpr int32_t limit = 3 * FloatFormat<C>::bias;  // moves any a out of the range
        b = b < -limit ? -limit : b;
        b = b > limit ? limit : b;
        if constexpr (std::is_same_v<T, f16>) {  // normal in f32, so that the first factor of `scale` is exact
            return scale(a, b);
        } else {
            const Split<C> x = split(a);
            return scale(x.mantissa, x.exponent + static_cast<Int>(b));
        }
    }
};

// Operands scaled by a power of two that maps the larger magnitude to [1, 2).
template <class C>
struct Direction {
    C a, b;
    typename FloatFormat<C>::Int exponent;
};

template <class C>
BK_HD Direction<C> direction(Split<C> x, Split<C> y) {
    const auto e = x.exponent > y.exponent ? x.exponent : y.exponent;
    return {scale(x.mantissa, x.exponent - e), scale(y.mantissa, y.exponent - e), e};
}

// Angle of the point (b, a) in f32 within 2 ulp, from the angle to the nearer axis.
BK_HD float atan2_f32(float a, float b) {
    const float x = math::fabs<float>(a), y = math::fabs<float>(b);
    const bool steep = x > y;
    const float larger = math::select(steep, x, y), smaller = math::select(steep, y, x);
    const float quotient = math::select(smaller == INFINITY, 1.f, smaller / larger);
    const float t = math::select(smaller == 0.f, 0.f, quotient);
    const float octant = math::arctangent_of_fraction(t);
    const float quadrant =
        math::select(steep, 0x1.921fb6p0f - (octant + 0x1.777a5cp-25f), octant);  // pi / 2 as the sum of two constants
    const bool left = math::copysign<float>(1.f, b) < 0.f;
    const float half = math::select(left, 0x1.921fb6p1f - (quadrant + 0x1.777a5cp-24f), quadrant);
    return math::select(math::unordered(a, b), a + b, math::copysign<float>(half, a));
}

template <class T>
struct Atan2 {
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b) const {
        if constexpr (std::is_same_v<C, float>)
            return atan2_f32(a, b);
        else
            return math::atan2<T>(a, b);
    }
};

// da = b dy / (a^2 + b^2), db = -a dy / (a^2 + b^2); 0 at the origin.
template <class T>
struct Atan2Backward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C dy, C a, C b) const {
        const bool origin = (a == C(0)) & (b == C(0));
        if constexpr (math::kIsHalf<T>) {
            using W = wide_t<T>;
            const W f = W(dy) * math::rough_reciprocal(math::fma(W(a), W(a), W(b) * W(b)));
            return pack(math::select(origin, C(0), C(W(b) * f)), math::select(origin, C(0), C(-W(a) * f)));
        } else {
            const Split<C> g = split(dy), x = split(a), y = split(b);
            const Direction<C> d = direction(x, y);
            const C square = math::fma(d.a, d.a, d.b * d.b);
            const C da = scale(y.mantissa * g.mantissa / square, y.exponent + g.exponent - 2 * d.exponent);
            const C db = scale(-(x.mantissa * g.mantissa) / square, x.exponent + g.exponent - 2 * d.exponent);
            return pack(math::select(origin, C(0), da), math::select(origin, C(0), db));
        }
    }
};

// sqrt(a^2 + b^2); operands are scaled if their squares would leave the range. Infinite if either operand is.
template <class T>
struct Hypot {
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b) const {
        if constexpr (std::is_same_v<T, f16>) {  // f32 holds the squares
            const C width = math::fabs<T>(a), height = math::fabs<T>(b);
            const bool infinite = (width == C(INFINITY)) | (height == C(INFINITY));
            return math::select(infinite, C(INFINITY), math::sqrt<T>(math::fma(a, a, b * b)));
        } else {
            constexpr int range = std::numeric_limits<C>::max_exponent;
            const C x = math::fabs<C>(a), y = math::fabs<C>(b);
            const C larger = math::select(x > y, x, y), smaller = math::select(x > y, y, x);  // both, if one is NaN
            const bool high = larger > integral_power_of_two<C>(range / 2 - 4),
                       low = larger < integral_power_of_two<C>(-range / 2 + 8);
            const C down = integral_power_of_two<C>(-range / 2 - 4), up = integral_power_of_two<C>(3 * range / 4);
            const C factor = math::select(high, down, math::select(low, up, C(1)));
            const C back = math::select(high, C(1) / down, math::select(low, C(1) / up, C(1)));
            const C p = larger * factor, q = smaller * factor;
            const C r = math::sqrt<T>(math::fma(p, p, q * q)) * back;
            return math::select((x == C(INFINITY)) | (y == C(INFINITY)), C(INFINITY), r);
        }
    }
};

// da = a dy / r, db = b dy / r, r = hypot(a, b); 0 at the origin.
template <class T>
struct HypotBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C dy, C a, C b) const {
        const bool origin = (a == C(0)) & (b == C(0));
        if constexpr (math::kIsHalf<T>) {
            using W = wide_t<T>;
            const W f = W(dy) * math::rough_rsqrt(math::fma(W(a), W(a), W(b) * W(b)));
            return pack(math::select(origin, C(0), C(W(a) * f)), math::select(origin, C(0), C(W(b) * f)));
        } else {
            const Split<C> g = split(dy), x = split(a), y = split(b);
            const Direction<C> d = direction(x, y);
            const C r = math::sqrt<T>(math::fma(d.a, d.a, d.b * d.b));
            const C da = scale(x.mantissa * g.mantissa / r, x.exponent + g.exponent - d.exponent);
            const C db = scale(y.mantissa * g.mantissa / r, y.exponent + g.exponent - d.exponent);
            return pack(math::select(origin, C(0), da), math::select(origin, C(0), db));
        }
    }
};

}  // namespace bk::op
