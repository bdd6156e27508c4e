// SPDX-License-Identifier: Apache-2.0
// Powers and their gradients: a^b of two operands (Pow), x^p0 (Powf), x^n for an integer n (Powi).
#pragma once

#include <cmath>
#include <cstdint>

#include "core/math/half_power.h"
#include "core/math/math.h"
#include "core/target.h"
#include "core/types/dtype.h"
#include "core/types/pack.h"
#include "elementwise/scaling.h"
#include "elementwise/tune.h"

namespace bk::op {

// Whether f32 is computed in f64, whose range holds every product here.
template <class T>
constexpr bool kPowersInF64 = std::is_same_v<T, float> && kDoubleIsCheap;

// log2 |x| within 0.09, or within a fifth of it for subnormals: 2^k (1 + f) gives k + f.
template <class C>
BK_HD C linear_log2(C x) {
    const auto bits = bit_cast<bits_t<C>>(math::fabs<C>(x));
    if constexpr (std::is_same_v<C, double>)  // the digits that follow the integer 3/2 2^52
        return (bit_cast<double>((bits >> 11) + (0x4338000000000000u - (uint64_t{1023} << 41))) - 0x1.8p52) * 0x1p-41;
    else
        return static_cast<float>(static_cast<int32_t>(bits) - 0x3f800000) * 0x1p-23f;
}

// log2 x for x >= 0 within a twelfth, or a fifth: linear_log2 plus f (1 - f) / 3.
template <class C>
BK_HD C rough_log2(C x) {
    const C linear = linear_log2(x), f = linear - math::floor<C>(linear);
    const C log = math::fma(f * (C(1) - f), C(1.0 / 3.0), linear);
    if constexpr (std::is_same_v<C, double>) {  // next to 1 the digits are too few
        const C distance = x - C(1);
        return math::select(math::fabs<C>(distance) < C(0x1p-5), distance * C(1.4375), log);
    } else {
        return log;
    }
}

// A product stays in range, in any order, if the |log2| of its factors sum to at most this.
template <class C>
constexpr C kPlain = sizeof(C) == 8 ? C(940) : C(105);

// x^e, as the square root or fourth root of |x|^e if that might leave the range.
template <class T>
struct RootedPower {
    using C = compute_t<T>;
    C base;  // x or |x|
    C root;
    C size;  // |log2| of |x|^e, roughly
    bool far, farther;
    bool within;  // finite and nonzero except for rounding

    static BK_HD RootedPower of(C x, C e) {
        const C magnitude = math::fabs<C>(x), size = math::fabs<C>(e * rough_log2(magnitude));
        const bool far = !(size < kPlain<C>), farther = !(size < 2 * kPlain<C>);
        const C fraction_of_exponent = math::select(far, math::select(farther, C(0.25), C(0.5)), C(1));
        const C base = math::select(far, magnitude, x);
        const bool within = (magnitude > C(0)) & (magnitude < C(INFINITY)) & (math::fabs<C>(e) < C(INFINITY));
        return {base, math::pow<T>(base, e * fraction_of_exponent), size, far, farther, within};
    }
};

// y u v by mantissas and exponents, times w or divided by it.
template <class T>
BK_HD compute_t<T> ranged_product(const RootedPower<T>& y, compute_t<T> u, compute_t<T> v, compute_t<T> w, bool divide) {
    using C = compute_t<T>;
    using Int = typename FloatFormat<C>::Int;
    constexpr Int kFar = 8 * FloatFormat<C>::bias;  // out of range whatever the other factors
    const Split<C> root = split(y.root), f = split(u), g = split(v), h = split(w);
    const bool lost = y.far & y.within & ((y.root == C(0)) | (y.root == C(INFINITY)));
    const C square = math::select(y.far, root.mantissa * root.mantissa, root.mantissa);
    const C power = math::select(lost, C(1), math::select(y.farther, square * square, square));
    const Int twice = y.far ? 2 * root.exponent : root.exponent, all = y.farther ? 2 * twice : twice;
    const Int most = y.root == C(0) ? -kFar : kFar;
    const Int exponent = (lost ? most : all) + f.exponent + g.exponent + (divide ? -h.exponent : h.exponent);
    const C product = power * f.mantissa * g.mantissa;
    return scale(product * math::select(divide, C(1), h.mantissa) / math::select(divide, h.mantissa, C(1)), exponent);
}

// y u v, times w or divided by it: directly if in range. `sign` is x^e / |x|^e.
template <class T>
BK_HD compute_t<T> power_product(const RootedPower<T>& y, compute_t<T> sign, compute_t<T> u, compute_t<T> v, compute_t<T> w,
                                 bool divide) {
    using C = compute_t<T>;
    const C sizes = math::fabs<C>(linear_log2(u)) + math::fabs<C>(linear_log2(v)) + math::fabs<C>(linear_log2(w));
    const bool plain = y.size + sizes < kPlain<C>;
    const C product = y.root * (u * v) * math::select(divide, C(1), w) / math::select(divide, w, C(1));
    if (kRareIsBranch && plain) return product;
    const C ranged = ranged_product<T>(y, u * math::select(y.far, sign, C(1)), v, w, divide);
    return kRareIsBranch ? ranged : math::select(plain, product, ranged);
}

// Clamps the f64 power of a finite nonzero x, for a product with f32 numbers that is rounded to f32.
BK_HD double bounded_power(double y, bool within) {
    const double bounded = math::min(0x1p1000, math::max(0x1p-1000, y));
    return math::select(within, bounded, y);
}

template <class C>
BK_HD bool is_integer(C x) {
    return math::trunc<C>(x) == x;
}

// x is an integer.
template <class C>
BK_HD bool is_odd(C x) {
    return math::floor<C>(C(0.5) * x) != C(0.5) * x;
}

// x^(p - 1) / |x|^(p - 1): a sign, or NaN. For x = 0 or infinite the rounded p - 1 decides, otherwise the exact one.
template <class T>
BK_HD compute_t<T> slope_sign(compute_t<T> x, compute_t<T> p) {
    using C = compute_t<T>;
    const C magnitude = math::fabs<T>(x);
    const bool end = (magnitude == C(0)) | (magnitude == C(INFINITY)) | (math::fabs<T>(p) == C(INFINITY));
    const C e = math::select(end, p - C(1), p);
    const C odd_sign = math::select(is_odd(e) == end, math::copysign<T>(C(1), x), C(1));
    const C fraction = math::select(end | !(x < C(0)), C(1), C(NAN));
    return math::select(is_integer(e), odd_sign, fraction);
}

// p x^(p - 1) dy. The power is x^(p - 2) x for p >= 2 and x^(p - 1) for p >= 1/2; both differences are exact up to
// 2^23. Otherwise it is x^p / x, but always x^(p - 1) for x = 0 or infinite.
template <class T>
BK_HD compute_t<T> power_slope(compute_t<T> x, compute_t<T> p, compute_t<T> dy) {
    using C = compute_t<T>;
    const C magnitude = math::fabs<T>(x);
    const bool within = (magnitude > C(0)) & (magnitude < C(INFINITY)) & (math::fabs<T>(p) < C(INFINITY));
    C dx;
    if constexpr (kPowersInF64<T>) {
        const double y = bounded_power(math::pow<double>(magnitude, double{p} - 1), within);
        dx = static_cast<C>(double{p * slope_sign<T>(x, p)} * dy * y);
    } else {
        const bool exact = (p >= C(0.5)) & (p <= C(0x1p23)), twice = exact & within & (p >= C(2)), divide = !exact & within;
        const C e = math::select(divide, p, p - math::select(twice, C(2), C(1)));
        const auto y = RootedPower<T>::of(x, e);
        const C w = math::select(twice | divide, y.base, C(1));
        dx = power_product<T>(y, slope_sign<T>(x, p), p, dy, w, divide);
    }
    return math::select(p == C(0), C(0), dx);
}

// y u v for 16-bit types: f16 fits f32; bf16 adds exponents separately.
template <class T>
BK_HD float half_product(math::HalfPower y, float u, float v) {
    constexpr float kFar = std::is_same_v<T, f16> ? 100 : 1000;           // out of range for any finite factors
    const float bounded = math::min(math::max(y.exponent, -kFar), kFar);  // NaN becomes -kFar
    const float exponent = math::select(math::fabs<T>(y.exponent) < INFINITY, bounded, y.exponent);
    if constexpr (std::is_same_v<T, f16>) {
        return y.sign * math::exp2<T>(exponent) * u * v;
    } else {
        const Split<float> g = split(u), h = split(v);
        const float n = math::rint<T>(bounded);
        const float mantissa = y.sign * math::exp2<T>(exponent - n) * g.mantissa * h.mantissa;
        return scale(mantissa, g.exponent + h.exponent + static_cast<int32_t>(n));
    }
}

// power_slope for 16-bit types, given log2 |x|.
template <class T>
BK_HD float half_power_slope(float x, float log2_x, float p, float dy) {
    const float dx = half_product<T>(math::half_power<T, 1>(x, log2_x, p), p, dy);
    return math::select(p == 0.0f, 0.0f, dx);
}

template <class T>
struct Pow {
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
            return pack(power_slope<T>(a, b, dy), exponent_slope(a, b, dy));
        }
    }

private:
    // a < 0 has no logarithm; the power of -0 contributes its sign.
    static BK_HD C exponent_slope(C a, C b, C dy) {
        if constexpr (kPowersInF64<T>) {
            const bool within = (a > C(0)) & (a < C(INFINITY)) & (math::fabs<T>(b) < C(INFINITY));
            const double power = math::pow<double>(a, b), log = math::log<double>(a);
            const double db = bounded_power(power, within) * log * dy;
            return without_limit(a, b, static_cast<C>(log), power == 0, static_cast<C>(db));
        } else {
            const auto y = RootedPower<T>::of(a, b);
            const C log = math::log<T>(a);
            const bool b_is_integer = is_integer(b);
            const C sign = math::select(b_is_integer & is_odd(b), math::copysign<T>(C(1), a), C(1));
            return without_limit(a, b, log, y.root == C(0), power_product<T>(y, sign, dy, log, C(1), false));
        }
    }
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
            return power_slope<T>(x, p0, dy);
    }
};

// |n| rounded to C, and the residual r: x^n = |x|^exponent x^r. From `bound` on every power is 0, 1 or infinite.
template <class C>
struct IntegerExponent {
    C exponent, residual;
    BK_HD explicit IntegerExponent(int64_t n) {
        constexpr int64_t kBound = INT64_MAX - ((int64_t{1} << 39) - 1);
        const int64_t bounded = n > kBound ? kBound : n < -kBound ? -kBound : n;
        exponent = static_cast<C>(bounded);
        residual = static_cast<C>(bounded - static_cast<int64_t>(exponent));
    }
    // x^r for x >= 0: 1 + a + a^2 / 2 with a = r ln x; if r is not 0 and the power is in range, x is that near 1.
    BK_HD C correction(C x) const {
        const C u = x - C(1);
        const C log = residual * math::select(math::fabs<C>(u) < C(0x1p-10), u - C(0.5) * u * u, C(0));
        const C a = math::select(math::fabs<C>(log) < C(0.5), log, C(0));
        return C(1) + (a + C(0.5) * a * a);
    }
};

template <class T>
BK_HD compute_t<T> integer_power(compute_t<T> x, int64_t n, bool odd) {
    using C = compute_t<T>;
    if (kRareIsBranch && n == 3) return x * x * x;  // two products; neither leaves the range before the power does
    const IntegerExponent<C> e(n);
    const C magnitude = math::fabs<T>(x);
    const C y = math::pow<T>(magnitude, e.exponent) * e.correction(magnitude);
    // For odd n the bounds, 0 and infinity, take the sign of x.
    const C signed_y = math::select(odd, math::copysign<T>(y, x), y);
    const C square = math::select(n == 2, x * x, signed_y);
    return math::select(n == 0, C(1), math::select(n == 1, x, square));
}

// Integer part of p; clamped to int64_t's range, 0 for NaN.
inline int64_t integer_exponent(double p) {
    if (!(p > -0x1p63)) return p == p ? INT64_MIN : 0;
    return p < 0x1p63 ? static_cast<int64_t>(p) : INT64_MAX;
}

// x^p0; 1 for p0 = 0, whatever x.
template <class T>
struct Powi {
    using C = compute_t<T>;
    int64_t p0 = 1;

    static Powi from(int64_t exponent) { return {exponent}; }
    static Powi from(float p0, float) { return {integer_exponent(p0)}; }
    BK_HD C operator()(C x) const { return integer_power<T>(x, p0, (p0 & 1) != 0); }
};

// p0 x^(p0 - 1) dy; 0 for p0 = 0.
template <class T>
struct PowiBackward {
    using C = compute_t<T>;
    using power_t = std::conditional_t<kPowersInF64<T>, double, C>;
    int64_t p0 = 1;

    static PowiBackward from(int64_t exponent) { return {exponent}; }
    static PowiBackward from(float p0, float) { return {integer_exponent(p0)}; }
    BK_HD C operator()(C dy, C x) const {
        const C magnitude = math::fabs<T>(x), p = static_cast<C>(p0);
        const C sign = math::select((p0 & 1) != 0, C(1), math::copysign<T>(C(1), x));  // of x^(p0 - 1)
        C dx;
        if constexpr (math::kIsHalf<T>) {
            const math::HalfPower y = math::half_power<T, 1>(magnitude, math::half_log2<T>(magnitude), p);
            dx = half_product<T>(y, p * sign, dy);
        } else {
            // x^(p0 - 1) is x^(p0 - 2) x or x^p0 / x.
            const bool twice = p0 > 1, divide = p0 < 0;
            const IntegerExponent<power_t> e(twice ? p0 - 2 : divide ? p0 : 0);
            const C w = math::select(twice | divide, magnitude, C(1));
            if constexpr (kPowersInF64<T>) {
                const bool within = (magnitude > C(0)) & (magnitude < C(INFINITY));
                const double y = bounded_power(math::pow<double>(magnitude, e.exponent), within) * e.correction(magnitude);
                const double z = w, product = double{p * sign} * dy * y;
                dx = static_cast<C>(product * math::select(divide, 1.0, z) / math::select(divide, z, 1.0));
            } else {
                const auto y = RootedPower<T>::of(magnitude, e.exponent);
                dx = power_product<T>(y, C(1), p * sign * e.correction(magnitude), dy, w, divide);
            }
        }
        return math::select(p0 == 0, C(0), dx);
    }
};

}  // namespace bk::op
