// SPDX-License-Identifier: Apache-2.0
// Building blocks of functors that approximate a function themselves. All coefficients of this family were computed for
// it: minimax fits by the Remez exchange in 40 digits, rounded.
//
// f64 carries the rounding errors of critical steps in double-double pairs; f32 and 16-bit types, computed in f32, do
// not, and the pairs compile away.
#pragma once

#include <type_traits>

#include "core/math/math.h"
#include "core/types/dtype.h"

namespace bk::op {

// c0 + x (c1 + x (c2 + ...)).
template <class C>
BK_HD C polynomial(C, double c0) {
    return C(c0);
}

template <class C, class... Rest>
BK_HD C polynomial(C x, double c0, double c1, Rest... rest) {
    return math::fma(x, polynomial(x, c1, rest...), C(c0));
}

template <class T>
constexpr bool kPaired = std::is_same_v<T, double>;

// high + low with |low| about a rounding error of high; types other than f64 ignore low.
template <class T>
struct Pair {
    compute_t<T> high;
    compute_t<T> low;
};

// A constant from its rounding to f64 and the residual.
template <class T>
BK_HD constexpr Pair<T> constant(double high, double low) {
    using C = compute_t<T>;
    if constexpr (std::is_same_v<C, double>) {
        return Pair<T>{high, low};
    } else {
        const C rounded = static_cast<C>(high);
        return Pair<T>{rounded, static_cast<C>((high - static_cast<double>(rounded)) + low)};
    }
}

template <class T>
BK_HD Pair<T> select(bool condition, Pair<T> a, Pair<T> b) {
    return Pair<T>{math::select(condition, a.high, b.high), math::select(condition, a.low, b.low)};
}

// a + b for |a| >= |b|.
template <class T>
BK_HD Pair<T> sum(Pair<T> a, Pair<T> b) {
    using C = compute_t<T>;
    const C high = a.high + b.high;
    if constexpr (!kPaired<T>)
        return Pair<T>{high, C(0)};
    else
        return Pair<T>{high, (b.high - (high - a.high)) + (a.low + b.low)};
}

template <class T>
BK_HD Pair<T> product(Pair<T> a, Pair<T> b) {
    using C = compute_t<T>;
    if constexpr (!kPaired<T>) {
        return Pair<T>{a.high * b.high, C(0)};
    } else {
        const C high = math::product(a.high, b.high);
        return Pair<T>{high, math::fma(a.high, b.low, math::fma(a.low, b.high, math::fma(a.high, b.high, -high)))};
    }
}

template <class T>
BK_HD Pair<T> single(compute_t<T> x) {
    return Pair<T>{x, compute_t<T>(0)};
}

template <class T>
BK_HD compute_t<T> rounded(Pair<T> x) {
    if constexpr (!kPaired<T>)
        return x.high;
    else
        return x.high + x.low;
}

// c0 + x (c1 + ...) for |c0| at least the other summand's magnitude.
template <class T, class... Rest>
BK_HD Pair<T> compensated_polynomial(compute_t<T> x, Pair<T> c0, Rest... rest) {
    if constexpr (!kPaired<T>)
        return single<T>(math::fma(x, polynomial(x, rest...), c0.high));
    else
        return sum<T>(c0, single<T>(x * polynomial(x, rest...)));
}

// root - z, accurate for z near the root.
template <class T>
BK_HD Pair<T> distance_to(Pair<T> root, compute_t<T> z) {
    if constexpr (!kPaired<T>)
        return Pair<T>{root.high - z, root.low};
    else
        return sum<T>(single<T>(root.high - z), single<T>(root.low));
}

// distance * factor, for a distance from `distance_to`.
template <class T>
BK_HD Pair<T> from_root(Pair<T> distance, Pair<T> factor) {
    if constexpr (!kPaired<T>)
        return single<T>(math::fma(distance.high, factor.high, distance.low * factor.high));
    else
        return product<T>(distance, factor);
}

// (root - z) (c0 + t (c1 + ...)), t = root - z, accurate for z near the root.
template <class T, class... Rest>
BK_HD Pair<T> near_root(Pair<T> root, Pair<T> distance, Pair<T> c0, Rest... rest) {
    using C = compute_t<T>;
    const C t = distance.high;
    if constexpr (std::is_same_v<T, float>) {
        // The errors of the rounded root and c0 that matter are linear in t.
        const C low = math::fma(t, c0.low, root.low * c0.high);
        return single<T>(math::fma(t, math::fma(t, polynomial(t, rest...), c0.high), low));
    } else {
        return from_root<T>(distance, compensated_polynomial<T>(t, c0, rest...));
    }
}

// n / d for finite n and d within [2^-126, 2^126].
template <class T>
BK_HD compute_t<T> quotient(Pair<T> n, Pair<T> d) {
    using C = compute_t<T>;
    const C reciprocal = math::reciprocal<T>(d.high);
    const C q = n.high * reciprocal;
    if constexpr (math::kIsHalf<T>)
        return q;
    else if constexpr (!kPaired<T>)
        return math::fma(math::fma(-q, d.high, n.high), reciprocal, q);
    else
        return math::fma(math::fma(-q, d.high, n.high) + math::fma(-q, d.low, n.low), reciprocal, q);
}

// a + b for |a| >= |b|, with the rounding error in f32 too.
template <class T>
BK_HD Pair<T> carried_sum(Pair<T> a, Pair<T> b) {
    using C = compute_t<T>;
    const C high = a.high + b.high;
    if constexpr (math::kIsHalf<T>)
        return Pair<T>{high, C(0)};
    else
        return Pair<T>{high, (b.high - (high - a.high)) + (a.low + b.low)};
}

// 1 + e for e in [0, 1], with the rounding error in f32 too.
template <class T>
BK_HD Pair<T> one_plus(Pair<T> e) {
    using C = compute_t<T>;
    if constexpr (std::is_same_v<T, float>) {
        const C high = C(1) + e.high;
        return Pair<T>{high, e.high - (high - C(1))};
    } else {
        return carried_sum<T>(single<T>(C(1)), e);
    }
}

template <class T>
BK_HD Pair<T> carried_product(compute_t<T> a, compute_t<T> b) {
    const compute_t<T> high = math::product(a, b);
    return Pair<T>{high, math::fma(a, b, -high)};
}

template <class T>
BK_HD Pair<T> carried_square(Pair<T> a) {
    using C = compute_t<T>;
    const C high = math::product(a.high, a.high);
    if constexpr (math::kIsHalf<T>)
        return Pair<T>{high, C(0)};
    else
        return Pair<T>{high, math::fma(C(2) * a.high, a.low, math::fma(a.high, a.high, -high))};
}

// a + b^2 for a >= b^2
template <class T>
BK_HD Pair<T> carried_sum_of_square(compute_t<T> a, compute_t<T> b) {
    using C = compute_t<T>;
    const C high = math::fma(b, b, a);
    if constexpr (math::kIsHalf<T>)
        return Pair<T>{high, C(0)};
    else
        return Pair<T>{high, math::fma(b, b, a - high)};
}

template <class T>
BK_HD compute_t<T> carried_quotient(Pair<T> n, Pair<T> d) {
    if constexpr (std::is_same_v<T, float>) {
        const float reciprocal = math::reciprocal<T>(d.high);
        const float q = math::product(n.high, reciprocal);
        return math::fma(math::fma(-q, d.low, math::fma(-q, d.high, n.high)), reciprocal, q);
    } else {
        return quotient<T>(n, d);
    }
}

// n / d * factor; f32 does not round before the product.
template <class T>
BK_HD compute_t<T> carried_quotient(Pair<T> n, Pair<T> d, compute_t<T> factor) {
    if constexpr (std::is_same_v<T, float>) {
        const float reciprocal = math::reciprocal<T>(d.high);
        const float q = math::product(n.high, reciprocal);
        const float residual = math::fma(-q, d.low, math::fma(-q, d.high, n.high)) * reciprocal;
        return math::fma(q, factor, math::select(math::fabs<T>(factor) < INFINITY, residual * factor, 0.0f));
    } else {
        return quotient<T>(n, d) * factor;
    }
}

// n / (1 + e) for e in [0, 1].
template <class T>
BK_HD compute_t<T> over_one_plus(Pair<T> n, Pair<T> e) {
    return carried_quotient<T>(n, one_plus<T>(e));
}

// 2^n for an integer n with a normal result.
template <class C>
BK_HD C power_of_two(C n) {
    // Adding this leaves n plus the exponent bias in the low bits.
    if constexpr (std::is_same_v<C, double>)
        return bit_cast<double>(bit_cast<uint64_t>(n + (0x1.8p52 + 1023)) << 52);
    else
        return bit_cast<float>(bit_cast<uint32_t>(n + (0x1.8p23f + 127)) << 23);
}

// e^x = (1 + t) 2^n with |x - n ln 2| <= ln(2) / 2.
template <class C>
struct ReducedExp {
    C t;
    C n;
};

template <class C>
BK_HD ReducedExp<C> reduced_exp(C x) {
    // ln 2 is split into two constants (Cody-Waite), the product by the first is exact; adding the shift rounds to
    // nearest.
    if constexpr (std::is_same_v<C, double>) {
        const C n = math::fma(x, 1.4426950408889634, 0x1.8p52) - 0x1.8p52;
        const C r = math::fma(-n, 7.371002565167799e-13, math::fma(-n, 0x1.62e42fefa2p-1, x));
        const C q =
            polynomial(r, 0.4999999999999999997, 0.1666666666666668391, 0.04166666666666672449, 0.008333333333316684824,
                       0.001388888888885841084, 0.0001984126989719417510, 0.00002480158737380625637, 2.755723409986385048e-6,
                       2.755723331380439453e-7, 2.511228817972077257e-8, 2.092695384472497564e-9);
        return ReducedExp<C>{math::fma(r * r, q, r), n};
    } else {
        const C n = math::fma(x, 1.44269504f, 0x1.8p23f) - 0x1.8p23f;
        const C r = math::fma(-n, 1.4286068203e-6f, math::fma(-n, 0x1.62e4p-1f, x));
        const C q = polynomial(r, 0.50000000954, 0.16666518605, 0.041666205164, 0.0083689176722, 0.0013950534059);
        return ReducedExp<C>{math::fma(r * r, q, r), n};
    }
}

// e^x = value * scale. The value is normal, so that a product loses no bits if the scale comes last; 1 + value is 1 +
// e^x rounded.
template <class T>
struct ScaledExp {
    Pair<T> value;
    compute_t<T> scale;
    compute_t<T> power = 0, t = 0;  // value = (1 + t) power, rounded; unset for 16-bit types
};

// a e^x / scale.
template <class T>
BK_HD Pair<T> times_exp(Pair<T> a, const ScaledExp<T>& e) {
    if constexpr (std::is_same_v<T, float>)
        return single<T>(math::fma(a.high * e.power, e.t, a.high * e.power));
    else
        return product<T>(a, e.value);
}

// a e^x / scale, rounded; in f32 too a has an error term far below it.
template <class T>
BK_HD compute_t<T> carried_times_exp(Pair<T> a, const ScaledExp<T>& e) {
    if constexpr (math::kIsHalf<T>)
        return a.high * e.value.high;
    else
        return (a.high + math::fma(a.high, e.t, a.low)) * e.power;
}

// Powers of two that are or would produce subnormals are lifted: multiplied by 2^lift.
template <class C>
struct PowerRange {
    static constexpr bool f64 = std::is_same_v<C, double>;
    static constexpr int lift = f64 ? 700 : 64;
    static constexpr C unlift = f64 ? 0x1p-700 : 0x1p-64;
    static constexpr C deep = f64 ? 900 : 100;       // |exponent| above which powers are lifted
    static constexpr C zero = f64 ? 1529.5 : 188.5;  // |exponent| above which they are 0
    // Adding this leaves the nearest integer plus the exponent bias in the low bits.
    static constexpr C shift = f64 ? 0x1.8p52 + 1023 : 0x1.8p23 + 127;
    static constexpr C lifting_shift = shift + lift;
};

// 2^(k (x + low)) 2^(shift - PowerRange::shift), which must be normal; `low` is optional.
template <class T, class... Low>
BK_HD ScaledExp<T> shifted_power(Pair<T> k, compute_t<T> shift, compute_t<T> scale, compute_t<T> x, Low... low) {
    using C = compute_t<T>;
    const C shifted = math::fma(x, k.high, shift);
    C fraction = math::fma(x, k.low, math::fma(x, k.high, shift - shifted));
    ((fraction = math::fma(low, k.high, fraction)), ...);
    if constexpr (std::is_same_v<C, double>) {
        const double series =
            polynomial(fraction, 0.69314718055994530816, 0.24022650695910131312, 0.055504108664821734166,
                       0.0096181291075939740407, 0.0013333558146380407634, 0.00015403530457374327595, 0.00001525273386647786468,
                       1.3215435131031154687e-6, 1.0178046832970908699e-7, 7.0738111257619764925e-9, 4.4573390545410456215e-10);
        const double power = bit_cast<double>(bit_cast<uint64_t>(shifted) << 52);
        const double t = fraction * series;
        const double high = 1.0 + t;
        return ScaledExp<T>{{high * power, (t - (high - 1.0)) * power}, scale, power, t};
    } else {
        const float series = polynomial(fraction, 0.693147205587, 0.240226468516, 0.055503289532, 0.00961849423903,
                                        0.00133998806567, 0.000153442756824);
        const float power = bit_cast<float>(bit_cast<uint32_t>(shifted) << 23);
        return ScaledExp<T>{single<T>(math::fma(fraction, series, 1.0f) * power), scale, power, fraction * series};
    }
}

// 2^(k (x + low)) for exponents from -1700 (f32: -189.5) to 0: lifted below `deep`, with scale 0 below `zero`.
template <class T, class... Low>
BK_HD ScaledExp<T> scaled_power(Pair<T> k, compute_t<T> x, Low... low) {
    using C = compute_t<T>;
    using Range = PowerRange<C>;
    const C size = math::fabs<C>(x * k.high);
    const bool deep = size > Range::deep;
    const C shift = math::select(deep, Range::lifting_shift, Range::shift);
    const C scale = math::select(deep, math::select(size > Range::zero, C(0), Range::unlift), C(1));
    return shifted_power<T>(k, shift, scale, x, low...);
}

// 2^(k (x + low)) for exponents from -1700 (f32: -189.5) to 0, always lifted.
template <class T, class... Low>
BK_HD ScaledExp<T> lifted_power(Pair<T> k, compute_t<T> x, Low... low) {
    using Range = PowerRange<compute_t<T>>;
    return shifted_power<T>(k, Range::lifting_shift, Range::unlift, x, low...);
}

// e^x below this is under the subnormals even times some thousands.
template <class T>
constexpr double kLeastExponent = std::is_same_v<T, double> ? -1100 : -131;

template <class T>
constexpr Pair<T> kLog2E = constant<T>(1.4426950408889634, 2.0355273740931033e-17);

// e^(x + low) for kLeastExponent <= x <= 0; 0 below the subnormals. 16-bit types round more coarsely than f32
// subnormals and need no scale.
template <class T, class... Low>
BK_HD ScaledExp<T> bounded_exp(compute_t<T> x, Low... low) {
    using C = compute_t<T>;
    if constexpr (math::kIsHalf<T>) {
        return ScaledExp<T>{single<T>(math::exp<T>(x)), C(1)};
    } else {
        return scaled_power<T>(kLog2E<T>, x, low...);
    }
}

// e^(x + low) for kLeastExponent <= x <= 0, always lifted, which is cheaper, for results below 2^64. 16-bit types need
// no lift.
template <class T, class... Low>
BK_HD ScaledExp<T> lifted_exp(compute_t<T> x, Low... low) {
    if constexpr (math::kIsHalf<T>)
        return bounded_exp<T>(x, low...);
    else
        return lifted_power<T>(kLog2E<T>, x, low...);
}

// Removes the lift from e^x, to add it to 1.
template <class T>
BK_HD Pair<T> unlifted(Pair<T> value) {
    using C = compute_t<T>;
    constexpr C unlift = PowerRange<C>::unlift;
    if constexpr (math::kIsHalf<T>)
        return value;
    else
        return Pair<T>{value.high * unlift, value.low * unlift};
}

// Template argument of `decay` for a value that is always lifted.
constexpr bool kLifted = true;

// e^(x + low) by lifted_exp or bounded_exp.
template <class T, bool kIsLifted, class... Low>
BK_HD ScaledExp<T> decay(compute_t<T> x, Low... low) {
    if constexpr (kIsLifted)
        return lifted_exp<T>(x, low...);
    else
        return bounded_exp<T>(x, low...);
}

// e^x for any x <= 0, by `decay`.
template <class T, bool kIsLifted = false>
BK_HD ScaledExp<T> scaled_exp(compute_t<T> x) {
    using C = compute_t<T>;
    return decay<T, kIsLifted>(math::kIsHalf<T> ? x : -math::min(C(-kLeastExponent<T>), -x));
}

// e^x - 1 for x <= 0.
template <class T>
BK_HD compute_t<T> expm1_of_negative(compute_t<T> x) {
    using C = compute_t<T>;
    if constexpr (math::kIsHalf<T>) {
        // f32 subnormals vanish beside 1, so f16's flushing exp serves.
        const C series = x * polynomial(x, 0.999999756238, 0.499969312906, 0.166055072826, 0.0377099514376);
        return math::select(x > C(-0.25), series, math::exp<f16>(x) - C(1));
    } else {
        const ReducedExp<C> e = reduced_exp(math::max(C(-64), x));
        const C power = power_of_two(e.n);
        return math::select(x == C(0), x, math::fma(power, e.t, power - C(1)));  // keeps -0
    }
}

// (2 artanh(s) - 2 s) / s, s^2 = z in [0, 1/9]; unused by f32.
template <class T>
BK_HD compute_t<T> artanh_series(compute_t<T> z) {
    if constexpr (math::kIsHalf<T>)
        return z * polynomial(z, 0.66673557402, 0.39633818912, 0.33997450469);
    else
        return z * polynomial(z, 0.6666666666666630384, 0.4000000000015722277, 0.2857142854785661168, 0.2222222396956026121,
                              0.1818174393082278189, 0.1538655980150688000, 0.1330097512289355362, 0.1210607456990910463,
                              0.08340150545666796170, 0.1701848803512172547);
}

// ln(1 + e) for e in [0, 1]; `value` is e, lifted as the result in f32 and f64. f64: 2 artanh(s), s = e / (2 + e), with
// e added last, since 2 s = e - s e.
template <class T>
BK_HD compute_t<T> log1p_of_fraction(Pair<T> value, Pair<T> e) {
    using C = compute_t<T>;
    if constexpr (math::kIsHalf<T>) {
        return value.high * polynomial(e.high, 0.999999806, -0.499974048, 0.332754700, -0.244954150, 0.177451323, -0.107680442,
                                       0.0440888981, -0.00853904224);
    } else if constexpr (std::is_same_v<T, float>) {
        return value.high * polynomial(e.high, 1, -0.499999007042, 0.333299215774, -0.249537520093, 0.196741254134,
                                       -0.153006947407, 0.105958171254, -0.0568859177876, 0.0198139600524, -0.00323602673222);
    } else {
        const C scaled_s = quotient<T>(value, single<T>(C(2) + e.high));
        const C s = scaled_s * PowerRange<C>::unlift;
        const C half_square = C(0.5) * value.high * e.high;
        const C tail = math::fma(scaled_s, artanh_series<T>(s * s), math::fma(s, half_square, -half_square));
        return value.high + (tail + math::fma(-s, C(2) * value.low, value.low));
    }
}

}  // namespace bk::op
