// SPDX-License-Identifier: Apache-2.0
// Smooth activations and their gradients; gelu itself is in normal_distribution.h.
//
// All are functions of e = exp(-|x|), which neither overflows nor cancels: sigmoid(|x|) = 1 / (1 + e), sigmoid(-|x|) =
// e / (1 + e). Near a root of a derivative its numerator is a polynomial in the distance to the root.
#pragma once

#include <cmath>
#include <type_traits>

#include "core/math/math.h"
#include "core/pointwise/pointwise.h"
#include "core/types/dtype.h"
#include "elementwise/approximation.h"
#include "elementwise/functors/normal_distribution.h"
#include "elementwise/tune.h"

namespace bk::op {

// e = e^-z, z = |x| clamped where e^-z is 0, so that z e^-z has its limit.
template <class T, bool kIsLifted = false>
struct Decay {
    using C = compute_t<T>;
    C z;
    ScaledExp<T> e;

    static BK_HD Decay of(C x) {
        const C z = math::min(C(-kLeastExponent<T>), math::fabs<T>(x));
        return Decay{z, decay<T, kIsLifted>(-z)};
    }
};

// 1 / (1 + e) or, if negative, e / (1 + e); the caller applies the scale.
template <class T>
BK_HD compute_t<T> logistic(bool negative, Pair<T> value, Pair<T> e) {
    return over_one_plus<T>(select<T>(negative, value, single<T>(compute_t<T>(1))), e);
}

template <class T>
BK_HD compute_t<T> logistic(bool negative, Pair<T> e) {
    return logistic<T>(negative, e, e);
}

template <class T>
BK_HD compute_t<T> lifted_logistic(bool negative, Pair<T> value) {
    return logistic<T>(negative, value, unlifted<T>(value));
}

template <class T>
BK_HD compute_t<T> scale_if(bool condition, compute_t<T> scale) {
    return math::select(condition, scale, compute_t<T>(1));
}

template <class T>
struct Sigmoid {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const {
        const ScaledExp<T> e = scaled_exp<T, kLifted>(-math::fabs<T>(x));
        return lifted_logistic<T>(x < C(0), e.value) * scale_if<T>(x < C(0), e.scale);
    }
};

// y (1 - y) dy
template <class T>
struct SigmoidBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C y) const { return y * (C(1) - y) * dy; }
};

template <class T>
struct Silu {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const {
        const auto d = Decay<T, kLifted>::of(x);
        const bool negative = x < C(0);
        return math::select(negative, -d.z, x) * lifted_logistic<T>(negative, d.e.value) * scale_if<T>(negative, d.e.scale);
    }
};

// silu'(-z) = e (1 + e - z) / (1 + e)^2, silu'(z) = (1 + e + z e) / (1 + e)^2.
template <class T>
BK_HD compute_t<T> silu_slope(bool negative, const Decay<T>& d, compute_t<T> dy) {
    using C = compute_t<T>;
    const Pair<T> e = d.e.value;
    const Pair<T> one = one_plus<T>(e);
    Pair<T> difference = single<T>((one.high - d.z) + one.low);
    if constexpr (std::is_same_v<T, float>) difference = single<T>((C(1) - d.z) + e.high);
    if constexpr (!std::is_same_v<T, bf16>) {
        constexpr Pair<T> root = constant<T>(1.2784645427610737, 1.0946994183093437e-16);
        const Pair<T> distance = distance_to<T>(root, d.z);
        Pair<T> near;
        if constexpr (std::is_same_v<C, double>)
            near =
                near_root<T>(root, distance, constant<T>(1.278464542761073795, 0), 0.1392322713805368976,
                             0.04641075712684563402, 0.01160268928171140806, 0.002320537856342001646, 0.0003867563093903757783,
                             0.00005525090136059863952, 6.906362668483681888e-6, 7.673730398614605875e-7,
                             7.673732991779515927e-8, 6.984512660690233130e-9, 5.818900066099315701e-10);
        else
            near = near_root<T>(root, distance, constant<T>(1.2784645432, 0), 0.13923227147, 0.046410635617, 0.011602671966,
                                0.0023257220709, 0.00038743155969);
        difference = select<T>(math::fabs<T>(distance.high) < C(0.25), near, difference);
    }
    const Pair<T> below = times_exp<T>(difference, d.e);
    const Pair<T> n = select<T>(negative, below, sum<T>(one, product<T>(single<T>(d.z), e)));
    return carried_quotient<T>(n, carried_square<T>(one), dy);
}

template <class T>
struct SiluBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        const auto d = Decay<T>::of(x);
        return silu_slope<T>(x < C(0), d, dy) * scale_if<T>(x < C(0), d.e.scale);
    }
};

// tanh(ln(1 + w)) = w (w + 2) / (w (w + 2) + 2) = (1 + 2 e) / (1 + 2 e + 2 e^2), w = e^x, e = 1 / w.
template <class T>
struct MishFraction {
    Pair<T> n;
    Pair<T> d;

    // Carried: n includes its rounding error in f32 too.
    template <bool Carried = false>
    static BK_HD MishFraction of(bool negative, Pair<T> e) {
        using C = compute_t<T>;
        const Pair<T> two = single<T>(C(2));
        const Pair<T> double_e = Pair<T>{C(2) * e.high, C(2) * e.low};
        Pair<T> below;
        if constexpr (kPaired<T>)
            below = product<T>(e, sum<T>(two, e));
        else
            below =
                Carried ? carried_sum_of_square<T>(double_e.high, e.high) : single<T>(math::fma(e.high, e.high, double_e.high));
        const Pair<T> n = select<T>(negative, below, sum<T>(single<T>(C(1)), double_e));
        // The larger summand first: n >= 1 and 2 e^2 <= n for x >= 0; for x < 0 n <= 3 and 2 have the same exponent.
        const Pair<T> square = product<T>(double_e, e);
        return MishFraction{n, carried_sum<T>(Carried && !kPaired<T> ? single<T>(math::select(negative, two.high, n.high))
                                                                     : select<T>(negative, two, n),
                                              select<T>(negative, n, square))};
    }
};

template <class T>
struct Mish {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const {
        const auto d = Decay<T>::of(x);
        const bool negative = x < C(0);
        const auto fraction = MishFraction<T>::of(negative, d.e.value);
        return math::select(negative, -d.z, x) * carried_quotient<T>(fraction.n, fraction.d) * scale_if<T>(negative, d.e.scale);
    }
};

// mish'(x) = (n D + 4 x w (w + 1)) / D^2 with the fraction n / D above; divided by w^4 for x >= 0.
template <class T>
struct MishBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        const auto d = Decay<T>::of(x);
        const Pair<T> e = d.e.value;
        const bool negative = x < C(0);
        // (w + 2) (w^2 + 2 w + 2) - 4 z (w + 1) for x < 0
        const C four = C(4) * (C(1) - d.z);
        const Pair<T> first = product<T>(single<T>(four), sum<T>(single<T>(C(1)), e));
        const Pair<T> second = product<T>(e, sum<T>(single<T>(C(2)), single<T>(e.high * (C(4) + e.high))));
        Pair<T> difference = single<T>((first.high + second.high) + (first.low + second.low));
        if constexpr (!kPaired<T>) {
            const C inner = math::fma(C(4) + e.high, e.high, math::fma(C(-4), d.z, C(6)));
            difference = single<T>(math::fma(inner, e.high, four));
        }
        if constexpr (!std::is_same_v<T, bf16>) {
            constexpr Pair<T> root = constant<T>(1.1924312145154952, 4.8484829848031044e-17);
            const Pair<T> distance = distance_to<T>(root, d.z);
            Pair<T> near;
            if constexpr (std::is_same_v<C, double>)
                near = near_root<T>(root, distance, constant<T>(6.407964080090054641, 0), 2.263207433519213087,
                                    1.286182291977346237, 0.5578184890232331653, 0.2085348386108428094, 0.07168253538691764465,
                                    0.02324529537340964873, 0.007137525655679686321, 0.002067039359663306929,
                                    0.0005622137148769899219, 0.0001432870504611122452, 0.00003451968307842289679,
                                    7.700139004281331973e-6);
            else
                near = near_root<T>(root, distance, constant<T>(6.4079640802, 0), 2.2632076252, 1.2861823157, 0.55779393181,
                                    0.20852909121, 0.072467583480, 0.023457974592);
            difference = select<T>(math::fabs<T>(distance.high) < C(0.25), near, difference);
        }
        const auto fraction = MishFraction<T>::template of<true>(negative, e);
        const C above = C(4) * d.z * (e.high * e.high * (C(1) + e.high));
        Pair<T> sum_above = sum<T>(product<T>(fraction.n, fraction.d), single<T>(above));
        if constexpr (std::is_same_v<T, float>)
            sum_above =
                single<T>(math::fma(fraction.n.high, fraction.d.high, math::fma(fraction.n.high, fraction.d.low, above)));
        const Pair<T> n = select<T>(negative, times_exp<T>(difference, d.e), sum_above);
        return carried_quotient<T>(n, carried_square<T>(fraction.d), dy) * scale_if<T>(negative, d.e.scale);
    }
};

// gelu_tanh(x) = x sigmoid(v(x)), v = c1 x + c3 x^3, c1 = 2 sqrt(2 / pi), c3 = 0.044715 c1; z = |x|, e = e^-v(z).
template <class T, bool kIsLifted = false>
struct TanhDecay {
    using C = compute_t<T>;
    C z;
    ScaledExp<T> e;
    Pair<T> slope;  // v'(z)

    static BK_HD TanhDecay of(C x) {
        constexpr Pair<T> c1 = constant<T>(1.5957691216057308, -9.96930880911092e-17);
        constexpr Pair<T> c3 = constant<T>(0.07135481627260025, -6.175149918155315e-19);
        const C z = math::min(C(std::is_same_v<C, double> ? 25 : 11.64), math::fabs<T>(x));
        const C square = z * z;
        if constexpr (math::kIsHalf<T>) {
            // c1 and c3 are multiplied by log2 e.
            const C e = math::exp2<T>(z * math::fma(square, C(-0.1029432396), C(-2.302208199)));
            const C slope = math::fma(square, C(0.21406444881780073), C(1.5957691216057308));
            return TanhDecay{z, {single<T>(e), C(1)}, single<T>(slope)};
        } else if constexpr (std::is_same_v<T, float>) {
            // v = z (p + p_low) + v_low; `a` has few bits, so that a - p is exact.
            constexpr C a = 0x1.988p0f, a_low = static_cast<C>(1.5957691216057308 - 0x1.988p0);
            const C square_low = math::fma(z, z, -square);
            const C p = math::fma(c3.high, square, a);
            const C low = math::fma(c3.high, square_low, math::fma(c3.low, square, a_low));
            const C p_low = math::fma(c3.high, square, a - p) + low;
            const C v = z * p;
            const C v_low = math::fma(z, p_low, math::fma(z, p, -v));
            // v' = p + 2 c3 z^2
            const C slope = math::fma(C(2) * c3.high, square, p);
            const C slope_low = math::fma(C(2) * c3.high, square, p - slope) + math::fma(C(2), low - a_low, p_low);
            return TanhDecay{z, decay<T, kIsLifted>(-v, -v_low), {slope, slope_low}};
        } else {
            // Double-double: c3 z^2 = m, c1 + m = p, z p = v, each with its rounding error.
            const C m = math::product(c3.high, square);
            const C m_low = math::fma(c3.high, square, -m) + math::fma(c3.high, math::fma(z, z, -square), c3.low * square);
            const C p = c1.high + m;
            const C p_m = p - c1.high;
            const C p_low = ((c1.high - (p - p_m)) + (m - p_m)) + (m_low + c1.low);
            const C v = z * p;
            const C v_low = math::fma(z, p_low, math::fma(z, p, -v));
            // v' = p + 2 m
            const Pair<T> slope = sum<T>({p, p_low}, {C(2) * m, C(2) * m_low});
            return TanhDecay{z, decay<T, kIsLifted>(-v, -v_low), slope};
        }
    }
};

template <class T>
struct GeluTanh {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const {
        const auto d = TanhDecay<T, kLifted>::of(x);
        const bool negative = x < C(0);
        return math::select(negative, -d.z, x) * lifted_logistic<T>(negative, d.e.value) * scale_if<T>(negative, d.e.scale);
    }
};

// gelu_tanh'(-z) = e (1 + e - z v'(z)) / (1 + e)^2, gelu_tanh'(z) = (1 + e + z v'(z) e) / (1 + e)^2, e = e^-v(z).
template <class T>
struct GeluTanhBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        const auto d = TanhDecay<T>::of(x);
        const bool negative = x < C(0);
        const Pair<T> e = d.e.value;
        const Pair<T> one = one_plus<T>(e);
        const Pair<T> zv = product<T>(single<T>(d.z), {kPaired<T> ? d.slope.high : d.slope.high + d.slope.low, d.slope.low});
        Pair<T> difference = single<T>((one.high - zv.high) + (one.low - zv.low));
        if constexpr (std::is_same_v<T, float>)
            difference = single<T>(math::fma(-d.z, d.slope.high, one.high) + math::fma(-d.z, d.slope.low, one.low));
        if constexpr (!std::is_same_v<T, bf16>) {
            constexpr Pair<T> root = constant<T>(0.7524614220710163, -3.635560509207687e-17);
            const Pair<T> distance = distance_to<T>(root, d.z);
            Pair<T> near;
            if constexpr (std::is_same_v<C, double>)
                near =
                    near_root<T>(root, distance, constant<T>(2.460656764630239380, 0), -0.09991152322555442616,
                                 0.4004476935341127502, 0.07595899090774044668, 0.03048599055947641497, 0.01129523236027074383,
                                 0.003690378157912207373, 0.001152935015542522318, 0.0003564852443437624565,
                                 0.0001030583116078030642, 0.00002846213204184974651, 7.723728459819466955e-6);
            else
                near = near_root<T>(root, distance, constant<T>(2.4606567929, 0), -0.099911464166, 0.40043952793,
                                    0.075953228572, 0.030834100432, 0.011445054429);
            difference = select<T>(math::fabs<T>(distance.high) < C(0.25), near, difference);
        }
        const Pair<T> below = times_exp<T>(difference, d.e);
        const Pair<T> n = select<T>(negative, below, sum<T>(one, product<T>(zv, e)));
        return carried_quotient<T>(n, carried_square<T>(one), dy) * scale_if<T>(negative, d.e.scale);
    }
};

// e^-|p0 x|, including the rounding error of the product.
template <class T, bool kIsLifted = false>
struct ProductDecay {
    using C = compute_t<T>;
    C product;
    ScaledExp<T> e;

    static BK_HD ProductDecay of(C p0, C x) {
        const C product = math::product(p0, x);
        if constexpr (math::kIsHalf<T>) {
            return ProductDecay{product, scaled_exp<T>(-math::fabs<T>(product))};
        } else {
            const C low = math::select(math::fabs<T>(product) < C(2000), math::fma(p0, x, -product), C(0));
            const C least = math::max(C(kLeastExponent<T>), -math::fabs<T>(product));
            const C signed_low = math::select(product < C(0), low, -low);
            return ProductDecay{product, decay<T, kIsLifted>(least, signed_low)};
        }
    }
};

// ln(1 + e^(p0 x)) / p0; x for p0 x > p1.
template <class T>
struct Softplus {
    using C = compute_t<T>;
    C p0 = C(1);
    C p1 = C(INFINITY);
    // 1 / p0 and the scale of lifted_exp, ordered so that no intermediate product overflows or underflows early.
    static constexpr C kScale = math::kIsHalf<T> ? C(1) : PowerRange<C>::unlift;
    C inverse = C(1) / p0;
    C first = math::fabs<T>(inverse) < C(1) ? inverse : inverse * kScale;
    C second = math::fabs<T>(inverse) < C(1) ? kScale : C(1);
    C error = math::fma(-p0, inverse, C(1));  // relative error of `inverse`
    C low = !math::kIsHalf<T> && math::fabs<T>(error) < C(1) ? error * first : C(0);
    BK_HD C operator()(C x) const {
        const auto d = ProductDecay<T, kLifted>::of(p0, x);
        const C unscaled = log1p_of_fraction<T>(d.e.value, unlifted<T>(d.e.value));
        C log = unscaled * first * second;
        if constexpr (!math::kIsHalf<T>) log = math::fma(unscaled, first, unscaled * low) * second;
        const C y = math::select(d.product > C(0), x + log, log);
        return math::select(d.product > p1, x, y);
    }
};

// sigmoid(p0 x) dy; dy for p0 x > p1.
template <class T>
struct SoftplusBackward {
    using C = compute_t<T>;
    C p0 = C(1);
    C p1 = C(INFINITY);
    BK_HD C operator()(C dy, C x) const {
        const auto d = ProductDecay<T>::of(p0, x);
        const bool negative = d.product < C(0);
        const C dx = logistic<T>(negative, d.e.value) * dy * scale_if<T>(negative, d.e.scale);
        return math::select(d.product > p1, dy, dx);
    }
};

// Softplus and its gradient for p0 = 1, where p0 x is exact.
template <class T>
struct SoftplusOfOne {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const {
        const ScaledExp<T> e = scaled_exp<T, kLifted>(-math::fabs<T>(x));
        const C log = log1p_of_fraction<T>(e.value, unlifted<T>(e.value)) * e.scale;
        return math::select(x > C(0), x + log, log);
    }
};

template <class T>
struct SoftplusOfOneBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        const ScaledExp<T> e = scaled_exp<T>(-math::fabs<T>(x));
        return logistic<T>(x < C(0), e.value) * dy * scale_if<T>(x < C(0), e.scale);
    }
};

// x / (1 + |x|)
template <class T>
struct Softsign {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const {
        const C z = math::min(C(0x1p100), math::fabs<T>(x));
        return math::copysign<T>(quotient<T>(single<T>(z), Pair<T>{C(1) + z, C(0)}), x);
    }
};

// dy / (1 + |x|)^2; the square is never formed, since it may overflow.
template <class T>
struct SoftsignBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        // From 2^60 on this is 1 / |x|, from |x| 2^-32, whose reciprocal is normal.
        constexpr C kCap = std::is_same_v<C, double> ? 0x1p1020 : 0x1p120f;
        const C z = math::fabs<T>(x);
        const bool large = z > C(0x1p60);
        const C scale = math::select(large, C(0x1p-32), C(1));
        const C bounded = math::min(kCap, z * scale);
        const C d = bounded + math::select(large, C(0), C(1));
        C r = math::reciprocal<T>(d);
        if constexpr (!math::kIsHalf<T>) {
            const bool small = bounded < C(1);
            const C most = math::select(small, C(1), bounded);
            const C low = math::select(large, C(0), math::select(small, bounded, C(1)) - (d - most));
            r = math::fma(math::fma(-r, low, math::fma(-r, d, C(1))), r, r);
        }
        return dy * r * r * (scale * scale);
    }
};

// z - tanh(z) = z^3 p / (1 + q) for z = |x| <= 1, with polynomials in z^2.
template <class T>
struct TanhFit {
    using C = compute_t<T>;
    Pair<T> square;
    Pair<T> p;
    C q;

    static BK_HD TanhFit of(C z) {
        const Pair<T> square = product<T>(single<T>(z), single<T>(z));
        const C s = square.high;
        if constexpr (math::kIsHalf<T>)
            return TanhFit{square, single<T>(polynomial(s, 0.333332728, 0.00149991607)), s * C(0.404462369)};
        else
            return TanhFit{square,
                           compensated_polynomial<T>(s, constant<T>(1.0 / 3.0, 1.0 / 3.0 * 0x1p-54), 0.02351312917755657879,
                                                     0.0003724816747014114394, 1.267146483130534078e-6),
                           s * polynomial(s, 0.4705393875326697359, 0.02742843813241023453, 0.0004010747955896185187,
                                          1.295807647897548724e-6)};
    }
};

// f32: tanh(z) = z - z s for z < 1, else 1 - s; returns s.
BK_HD float tanh_complement(float z) {
    const float square = math::product(z, z);
    const float p = polynomial(square, 0.333333331571, -0.133333106906, 0.0539634202421, -0.0218295812436, 0.00869793899743,
                               -0.00320693607402, 0.000923596527811, -0.000142820330396);
    const float series = math::fma(square, p, math::fma(z, z, -square) * p);
    const float power =
        shifted_power<float>(kLog2E<float>, PowerRange<float>::shift, 1, math::max(-80.0f, -2.0f * z)).value.high;
    const float fraction = over_one_plus<float>(single<float>(2.0f * power), single<float>(power));
    return math::select(z < 1.0f, series, fraction);
}

// x - tanh(x); for |x| > 1 it is (|x| - 1) + 2 e / (1 + e), e = exp(-2 |x|).
template <class T>
struct Tanhshrink {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const {
        const C z = math::fabs<T>(x);
        if constexpr (std::is_same_v<T, float>) {
            const float low = tanh_complement(z);
            return math::copysign<T>(math::select(z < 1.0f, z * low, (z - 1.0f) + low), x);
        }
        const bool small = z < C(1);
        const auto fit = TanhFit<T>::of(z);
        const ScaledExp<T> e = scaled_exp<T>(C(-2) * z);
        const Pair<T> n = select<T>(small, product<T>(product<T>(single<T>(z), fit.square), fit.p),
                                    Pair<T>{C(2) * e.value.high, C(2) * e.value.low});
        const C fraction = quotient<T>(n, sum<T>(single<T>(C(1)), select<T>(small, single<T>(fit.q), e.value)));
        return math::copysign<T>(math::select(small, fraction, (z - C(1)) + fraction * e.scale), x);
    }
};

// tanh(x)^2 dy, tanh = z (1 + q - z^2 p) / (1 + q) or (1 - e) / (1 + e).
template <class T>
struct TanhshrinkBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        const C z = math::fabs<T>(x);
        if constexpr (std::is_same_v<T, float>) {
            const float linear = math::select(z < 1.0f, z, 1.0f);
            const float tanh = math::fma(-linear, tanh_complement(z), linear);
            return tanh * dy * tanh;
        }
        const bool small = z < C(1);
        const auto fit = TanhFit<T>::of(z);
        const Pair<T> e = scaled_exp<T>(C(-2) * z).value;
        const Pair<T> one = single<T>(C(1));
        const C numerator = math::fma(-fit.square.high, fit.p.high, fit.q);
        const Pair<T> n = sum<T>(one, select<T>(small, single<T>(numerator), Pair<T>{-e.high, -e.low}));
        const Pair<T> d = sum<T>(one, select<T>(small, single<T>(fit.q), e));
        const C factor = math::select(small, z, C(1));
        return quotient<T>(product<T>(n, n), product<T>(d, d)) * factor * dy * factor;
    }
};

// p1 (x for x > 0, else p0 (e^x - 1))
template <class T>
struct Selu {
    using C = compute_t<T>;
    C p0 = C(1.6732632423543772);
    C p1 = C(1.0507009873554805);
    BK_HD C operator()(C x) const {
        const C m = expm1_of_negative<T>(math::min(C(0), x));
        const C factor = math::product(p0, p1);
        C y = factor * m;
        if constexpr (!math::kIsHalf<T>) y = math::fma(factor, m, math::fma(p0, p1, -factor) * m);
        return math::select(x >= C(0), p1 * x, y);
    }
};

// p1 (dy for x > 0, else p0 e^x dy)
template <class T>
struct SeluBackward {
    using C = compute_t<T>;
    C p0 = C(1.6732632423543772);
    C p1 = C(1.0507009873554805);
    BK_HD C operator()(C dy, C x) const {
        const ScaledExp<T> e = scaled_exp<T>(math::min(C(0), x));
        const C factor = math::product(p0, p1);
        C slope = factor * e.value.high;
        if constexpr (!math::kIsHalf<T>) {
            const C low = math::fma(p0, p1, -factor) * e.value.high;
            if constexpr (std::is_same_v<T, float>)
                slope = factor * e.power + math::fma(factor * e.power, e.t, low);
            else
                slope += math::fma(factor, e.value.low, low);
        }
        return math::select(x > C(0), p1 * dy, slope * dy * e.scale);
    }
};

// x for x > 0, else p0 (e^x - 1)
template <class T>
struct Elu {
    using C = compute_t<T>;
    C p0 = C(1);
    BK_HD C operator()(C x) const { return math::select(x > C(0), x, p0 * expm1_of_negative<T>(math::min(C(0), x))); }
};

// dy for x > 0, else p0 e^x dy
template <class T>
struct EluBackward {
    using C = compute_t<T>;
    C p0 = C(1);
    BK_HD C operator()(C dy, C x) const {
        const ScaledExp<T> e = scaled_exp<T>(math::min(C(0), x));
        return math::select(x > C(0), dy, p0 * (e.value.high * dy) * e.scale);
    }
};

}  // namespace bk::op

namespace bk {

template <class T>
struct WithDefaults<op::Softplus<T>> : op::SoftplusOfOne<T> {};

template <class T>
struct WithDefaults<op::SoftplusBackward<T>> : op::SoftplusOfOneBackward<T> {};

}  // namespace bk
