// Powers, with their gradients: a^b of two operands (Pow), x^p0 (Powf), and x^n for an integer n (Powi).
#pragma once

#include <cmath>
#include <cstdint>

#include "core/dtype.h"
#include "core/half_power.h"
#include "core/math.h"
#include "core/pack.h"
#include "elementwise/scaling.h"

namespace bk::op {

// p u v, where p u or u v may leave the range though the product does not: factors on different sides of 1 are paired.
template <class T>
BK_HD compute_t<T> product_of_three(compute_t<T> p, compute_t<T> u, compute_t<T> v) {
    using C = compute_t<T>;
    const bool same_side = (math::fabs<T>(p) > C(1)) == (math::fabs<T>(u) > C(1));
    return math::select(same_side, p, p * u) * math::select(same_side, u * v, v);
}

// p x^(p - 1) dy, given power(e) = x^e. The power is x^(p - 2) x from p = 2 on, so that it does not become subnormal before
// the result does, and x^(p - 1) from p = 1/2; both differences are exact up to 2^23. Elsewhere it is x^p / x, by which a large
// x divides first and a small one last.
template <class T, class Power>
BK_HD compute_t<T> power_slope(compute_t<T> x, compute_t<T> p, compute_t<T> dy, const Power& power) {
    using C = compute_t<T>;
    const bool exact = (p >= C(0.5)) & (p <= C(0x1p23));
    const bool twice = exact & (p >= C(2));
    const C magnitude = math::fabs<T>(x);
    const bool divide = !exact & (magnitude > C(0)) & (magnitude < C(INFINITY)) & (math::fabs<T>(p) < C(INFINITY));
    const bool large = magnitude > C(1);
    const C e = math::select(divide, p, p - math::select(twice, C(2), C(1)));
    const C y = power(e) / math::select(divide & large, x, C(1));
    // Beside a dy above 1 a small x comes before p, which else could lead beyond the range.
    const bool early = twice & !large & (math::fabs<T>(dy) > C(1));
    const C dx = product_of_three<T>(y, dy * math::select(early, x, C(1)), p) / math::select(divide & !large, x, C(1)) *
                 math::select(twice & !early, x, C(1));
    return math::select(p == C(0), C(0), dx);
}

// y u v of the 16-bit types. Of f16 it fits in f32; for bf16 exponents are added apart.
template <class T>
BK_HD float half_product(math::HalfPower y, float u, float v) {
    if constexpr (std::is_same_v<T, f16>) {
        return y.factor * math::exp2<T>(y.exponent) * u * v;
    } else {
        constexpr float kFar = 1000;  // beyond the range whatever the other factors
        const Split<float> g = split(u), h = split(v);
        const float far = math::select(y.exponent < 0, -kFar, kFar);
        const float n = math::select(math::fabs<T>(y.exponent) < kFar, math::rint<T>(y.exponent), far);
        const float mantissa = y.factor * math::exp2<T>(y.exponent - n) * g.mantissa * h.mantissa;
        return scale(mantissa, g.exponent + h.exponent + static_cast<int32_t>(n));
    }
}

// power_slope of the 16-bit types, given log2 |x|.
template <class T>
BK_HD float half_power_slope(float x, float log2_x, float p, float dy) {
    const float dx = half_product<T>(math::half_power<T, 1>(x, log2_x, p), p, dy);
    return math::select(p == 0.0f, 0.0f, dx);
}

template <class T>
struct Pow {
    static constexpr int registers = sizeof(T) == 2 ? 48 : 0;
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b) const { return math::pow<T>(a, b); }
};

// da = b a^(b - 1) dy, 0 for b = 0; db = a^b ln(a) dy, 0 where a^b is 0 and for a = 0, b = 0.
template <class T>
struct PowBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C dy, C a, C b) const {
        if constexpr (math::kIsHalf<T>) {
            const C log2 = math::half_log2<T>(math::fabs<T>(a));
            const C log = math::select(a < C(0), C(NAN), log2 * C(0.693147181));
            const math::HalfPower y = math::half_power<T>(a, log2, b);
            const C db = half_product<T>(y, log, dy);
            return pack(half_power_slope<T>(a, log2, b, dy), without_limit(a, b, log, y.exponent == C(-INFINITY), db));
        } else {
            const C y = math::pow<T>(a, b), log = math::log<T>(a);
            const C da = power_slope<T>(a, b, dy, [a](C e) { return math::pow<T>(a, e); });
            return pack(da, without_limit(a, b, log, y == C(0), product_of_three<T>(y, dy, log)));
        }
    }

private:
    static BK_HD C without_limit(C a, C b, C log, bool vanishes, C db) {
        const bool limit = (math::fabs<T>(log) == C(INFINITY)) & (vanishes | ((a == C(0)) & (b >= C(0))));
        return math::select(limit, C(0), db);
    }
};

template <class T>
struct Powf {
    using C = compute_t<T>;
    C p0 = C(1);
    BK_HD C operator()(C x) const { return math::pow<T>(x, p0); }
};

// p0 x^(p0 - 1) dy, 0 for p0 = 0.
template <class T>
struct PowfBackward {
    using C = compute_t<T>;
    C p0 = C(1);
    BK_HD C operator()(C dy, C x) const {
        if constexpr (math::kIsHalf<T>)
            return half_power_slope<T>(x, math::half_log2<T>(math::fabs<T>(x)), p0, dy);
        else
            return power_slope<T>(x, p0, dy, [x](C e) { return math::pow<T>(x, e); });
    }
};

// x^n with |n| split into its rounding to C and the rest r: x^r is 1 + a + a^2 / 2 with a = r ln|x|, since |x| is so near 1
// where r is not 0 and the power is not beyond the range. From the bound on every power is 0, 1 or infinite.
template <class T>
BK_HD compute_t<T> integer_power(compute_t<T> x, int64_t n, bool odd) {
    using C = compute_t<T>;
    constexpr int64_t kBound = INT64_MAX - ((int64_t{1} << 39) - 1);
    const int64_t bounded = n > kBound ? kBound : n < -kBound ? -kBound : n;
    const C exponent = static_cast<C>(bounded);
    const C rest = static_cast<C>(bounded - static_cast<int64_t>(exponent));
    const C magnitude = math::fabs<T>(x);
    const C power = math::pow<T>(magnitude, exponent);
    const C u = magnitude - C(1);
    const C a = rest * math::select(math::fabs<T>(u) < C(0x1p-10), u - C(0.5) * u * u, C(0));
    const C y = power * (C(1) + (a + C(0.5) * a * a));
    // For odd n the bounds, 0 and infinity, have the sign of x too.
    const C signed_y = math::select(odd, math::copysign<T>(y, x), y);
    const C square = math::select(n == 2, x * x, signed_y);
    return math::select(n == 0, C(1), math::select(n == 1, x, square));
}

// The integer part of p, the nearest bound where int64_t has no such number, 0 for NaN.
inline int64_t integer_exponent(double p) {
    if (!(p > -0x1p63)) return p == p ? INT64_MIN : 0;
    return p < 0x1p63 ? static_cast<int64_t>(p) : INT64_MAX;
}

// x^p0; 1 for p0 = 0, whatever x.
template <class T>
struct Powi {
    using C = compute_t<T>;
    int64_t p0 = 1;

    static Powi from(double p0, double) { return {integer_exponent(p0)}; }
    BK_HD C operator()(C x) const { return integer_power<T>(x, p0, (p0 & 1) != 0); }
};

// p0 x^(p0 - 1) dy; 0 for p0 = 0.
template <class T>
struct PowiBackward {
    using C = compute_t<T>;
    int64_t p0 = 1;

    static PowiBackward from(double p0, double) { return {integer_exponent(p0)}; }
    BK_HD C operator()(C dy, C x) const {
        // x^(p0 - 1) is x^(p0 - 2) x or x^p0 / x, so that it does not become subnormal before the result does.
        const int64_t e = p0 > 1 ? p0 - 2 : p0 < 0 ? p0 : 0;
        const C power = integer_power<T>(x, e, (p0 & 1) != 0);
        const bool early = (p0 > 1) & (math::fabs<T>(x) <= C(1)) & (math::fabs<T>(dy) > C(1));
        const C product = product_of_three<T>(power, dy * math::select(early, x, C(1)), static_cast<C>(p0));
        const C dx = product * math::select((p0 > 1) & !early, x, C(1)) / math::select(p0 < 0, x, C(1));
        return math::select(p0 == 0, C(0), dx);
    }
};

}  // namespace bk::op
