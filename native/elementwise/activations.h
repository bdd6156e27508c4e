// Smooth activations and their gradients; gelu itself is in normal_distribution.h.
//
// All of them are functions of e = exp(-|x|), which neither overflows nor cancels: sigmoid(|x|) = 1 / (1 + e),
// sigmoid(-|x|) = e / (1 + e). Where a derivative has a root, its numerator there is a polynomial in the distance to it.
#pragma once

#include <cmath>
#include <type_traits>

#include "core/dtype.h"
#include "core/math.h"
#include "elementwise/approximation.h"
#include "elementwise/normal_distribution.h"

namespace bk::op {

// e^-z with z = |x|, or a bound beyond which e^-z is 0, so that z e^-z has its limit.
template <class T>
struct Decay {
    using C = compute_t<T>;
    C z;
    C e;
    C scale;

    static BK_HD Decay of(C x) {
        const C z = math::min(C(std::is_same_v<C, double> ? 1000 : 200), math::fabs<T>(x));
        const ScaledExp<C> e = scaled_exp<T>(-z);
        return Decay{z, e.value, e.scale};
    }
};

template <class T>
struct Sigmoid {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const {
        const C e = math::exp<T>(-math::fabs<T>(x));
        return quotient<T>(math::select(x < C(0), e, C(1)), C(1) + e);
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
        const auto d = Decay<T>::of(x);
        const bool negative = x < C(0);
        return quotient<T>(math::select(negative, -d.z * d.e, x), C(1) + d.e) * math::select(negative, d.scale, C(1));
    }
};

// silu'(-z) = e (1 + e - z) / (1 + e)^2, silu'(z) = (1 + e + z e) / (1 + e)^2.
template <class T>
BK_HD ScaledExp<compute_t<T>> silu_derivative(compute_t<T> x) {
    using C = compute_t<T>;
    const auto d = Decay<T>::of(x);
    const bool negative = x < C(0);
    C difference = (C(1) - d.z) + d.e;
    if constexpr (!std::is_same_v<T, bf16>) {
        constexpr Split<C> root = split<C>(1.2784645427610737, 1.0946994183093437e-16);
        const C t = (root.high - d.z) + root.low;
        C near;
        if constexpr (std::is_same_v<C, double>)
            near = t * polynomial(t, 1.278464542761073795, 0.1392322713805368976, 0.04641075712684563402,
                                  0.01160268928171140806, 0.002320537856342001646, 0.0003867563093903757783,
                                  0.00005525090136059863952, 6.906362668483681888e-6, 7.673730398614605875e-7,
                                  7.673732991779515927e-8, 6.984512660690233130e-9, 5.818900066099315701e-10);
        else
            near = t * polynomial(t, 1.2784645432, 0.13923227147, 0.046410635617, 0.011602671966, 0.0023257220709,
                                  0.00038743155969);
        difference = math::select(math::fabs<T>(t) < C(0.25), near, difference);
    }
    const C one = C(1) + d.e;
    const C n = math::select(negative, d.e * difference, math::fma(d.z, d.e, one));
    return ScaledExp<C>{quotient<T>(n, one * one), math::select(negative, d.scale, C(1))};
}

template <class T>
struct SiluBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        const auto d = silu_derivative<T>(x);
        return d.value * dy * d.scale;
    }
};

// With w = e^x, tanh(ln(1 + w)) = w (w + 2) / (w (w + 2) + 2) = (1 + 2 e) / (1 + 2 e + 2 e^2) with e = 1 / w.
template <class T>
struct Mish {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const {
        const auto d = Decay<T>::of(x);
        const bool negative = x < C(0);
        const C n = math::select(negative, d.e * (d.e + C(2)), math::fma(C(2), d.e, C(1)));
        const C rest = math::select(negative, C(2), C(2) * d.e * d.e);
        return math::select(negative, -d.z, x) * quotient<T>(n, n + rest) * math::select(negative, d.scale, C(1));
    }
};

// mish'(x) = (n D + 4 x w (w + 1)) / D^2 with n / D the fraction above; over w^4 for x >= 0.
template <class T>
struct MishBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        const auto d = Decay<T>::of(x);
        const C e = d.e;
        const bool negative = x < C(0);
        // ((w + 2) (w^2 + 2 w + 2) - 4 z (w + 1)) for x < 0
        C difference = math::fma(C(4) * (C(1) - d.z), C(1) + e, e * polynomial(e, 2, 4, 1));
        if constexpr (!std::is_same_v<T, bf16>) {
            constexpr Split<C> root = split<C>(1.1924312145154952, 4.8484829848031044e-17);
            const C t = (root.high - d.z) + root.low;
            C near;
            if constexpr (std::is_same_v<C, double>)
                near =
                    t * polynomial(t, 6.407964080090054641, 2.263207433519213087, 1.286182291977346237, 0.5578184890232331653,
                                   0.2085348386108428094, 0.07168253538691764465, 0.02324529537340964873,
                                   0.007137525655679686321, 0.002067039359663306929, 0.0005622137148769899219,
                                   0.0001432870504611122452, 0.00003451968307842289679, 7.700139004281331973e-6);
            else
                near = t * polynomial(t, 6.4079640802, 2.2632076252, 1.2861823157, 0.55779393181, 0.20852909121, 0.072467583480,
                                      0.023457974592);
            difference = math::select(math::fabs<T>(t) < C(0.25), near, difference);
        }
        const C n = math::select(negative, e * (e + C(2)), math::fma(C(2), e, C(1)));
        const C whole = n + math::select(negative, C(2), C(2) * e * e);
        const C product = math::fma(C(4) * d.z * e, e * (C(1) + e), n * whole);
        const C slope = quotient<T>(math::select(negative, e * difference, product), whole * whole);
        return slope * dy * math::select(negative, d.scale, C(1));
    }
};

// gelu_tanh(x) = x sigmoid(v(x)), v = c1 x + c3 x^3, c1 = 2 sqrt(2 / pi), c3 = 0.044715 c1; here z = |x| and e^-v(z).
template <class T>
struct TanhDecay {
    using C = compute_t<T>;
    C z;
    C e;
    C scale;

    static BK_HD TanhDecay of(C x) {
        constexpr Split<C> c1 = split<C>(1.5957691216057308, -9.96930880911092e-17);
        constexpr Split<C> c3 = split<C>(0.07135481627260025, -6.175149918155315e-19);
        const C z = math::min(C(std::is_same_v<C, double> ? 24 : 12), math::fabs<T>(x));
        const C square = z * z;
        if constexpr (math::kIsHalf<T>) {
            // Both constants times log2 e.
            return TanhDecay{z, math::exp2<T>(z * math::fma(square, C(-0.1029432396), C(-2.302208199))), C(1)};
        } else {
            // v in two parts: c3 z^2 = m, c1 + m = p, z p = v, each with its rounding error.
            const C m = c3.high * square;
            const C m_rest = math::fma(c3.high, square, -m) + math::fma(c3.high, math::fma(z, z, -square), c3.low * square);
            const C p = c1.high + m;
            const C p_m = p - c1.high;
            const C p_rest = ((c1.high - (p - p_m)) + (m - p_m)) + (m_rest + c1.low);
            const C v = z * p;
            const C v_rest = math::fma(z, p_rest, math::fma(z, p, -v));
            const ScaledExp<C> e = scaled_exp<T>(-v);
            return TanhDecay{z, math::fma(-v_rest, e.value, e.value), e.scale};
        }
    }
};

template <class T>
struct GeluTanh {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const {
        const auto d = TanhDecay<T>::of(x);
        const bool negative = x < C(0);
        return quotient<T>(math::select(negative, -d.z * d.e, x), C(1) + d.e) * math::select(negative, d.scale, C(1));
    }
};

// As silu's, with z v'(z) in place of z.
template <class T>
struct GeluTanhBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        const auto d = TanhDecay<T>::of(x);
        const bool negative = x < C(0);
        const C one = C(1) + d.e;
        const C slope = d.z * math::fma(d.z * d.z, C(0.21406444881780073), C(1.5957691216057308));
        C difference = one - slope;
        if constexpr (!std::is_same_v<T, bf16>) {
            constexpr Split<C> root = split<C>(0.7524614220710163, -3.635560509207687e-17);
            const C t = (d.z - root.high) - root.low;
            C near;
            if constexpr (std::is_same_v<C, double>)
                near = t * polynomial(t, -2.460656764630239380, -0.09991152322555442616, -0.4004476935341127502,
                                      0.07595899090774044668, -0.03048599055947641497, 0.01129523236027074383,
                                      -0.003690378157912207373, 0.001152935015542522318, -0.0003564852443437624565,
                                      0.0001030583116078030642, -0.00002846213204184974651, 7.723728459819466955e-6);
            else
                near = t * polynomial(t, -2.4606567929, -0.099911464166, -0.40043952793, 0.075953228572, -0.030834100432,
                                      0.011445054429);
            difference = math::select(math::fabs<T>(t) < C(0.25), near, difference);
        }
        const C n = math::select(negative, d.e * difference, math::fma(slope, d.e, one));
        return quotient<T>(n, one * one) * dy * math::select(negative, d.scale, C(1));
    }
};

// ln(x / (1 - x)) of x, or for p0 > 0 of min(max(x, p0), 1 - p0). Between 1/3 and 2/3 it is 2 artanh(2 x - 1), whose argument
// is exact.
template <class T>
struct Logit {
    using C = compute_t<T>;
    C p0 = C(0);
    BK_HD C operator()(C given) const {
        const C clamped = math::min(C(1) - p0, math::max(p0, given));
        const C x = math::select(p0 > C(0), clamped, given);
        const C m = math::fma(C(2), x, C(-1));
        const C near = math::fma(m, artanh_series<T>(m * m), C(2) * m);
        const C far = math::log<T>(x / (C(1) - x));
        return math::select(math::fabs<T>(m) < C(1.0 / 3.0), near, far);
    }
};

// dy / (x (1 - x)), for p0 > 0 only inside [p0, 1 - p0], else 0.
template <class T>
struct LogitBackward {
    using C = compute_t<T>;
    C p0 = C(0);
    BK_HD C operator()(C dy, C x) const {
        const bool outside = (p0 > C(0)) & ((x < p0) | (x > C(1) - p0));
        return math::select(outside, C(0), dy / (x * (C(1) - x)));
    }
};

// e^-|p0 x|, with what the rounding of the product left out.
template <class T>
struct ProductDecay {
    using C = compute_t<T>;
    C product;
    C e;
    C scale;

    static BK_HD ProductDecay of(C p0, C x) {
        const C product = p0 * x;
        const ScaledExp<C> e = scaled_exp<T>(-math::fabs<T>(product));
        if constexpr (math::kIsHalf<T>) {
            return ProductDecay{product, e.value, e.scale};
        } else {
            const C rest = math::select(e.value > C(0), math::fma(p0, x, -product), C(0));
            return ProductDecay{product, math::fma(math::select(product < C(0), rest, -rest), e.value, e.value), e.scale};
        }
    }
};

// ln(1 + e^(p0 x)) / p0; x for p0 x > p1.
template <class T>
struct Softplus {
    using C = compute_t<T>;
    C p0 = C(1);
    C p1 = C(INFINITY);
    BK_HD C operator()(C x) const {
        const auto d = ProductDecay<T>::of(p0, x);
        const C log = log1p_of_fraction<T>(d.e) * d.scale / p0;
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
        const C slope = quotient<T>(math::select(negative, d.e, C(1)), C(1) + d.e);
        const C dx = slope * dy * math::select(negative, d.scale, C(1));
        return math::select(d.product > p1, dy, dx);
    }
};

// x / (1 + |x|)
template <class T>
struct Softsign {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const {
        const C z = math::min(C(0x1p100), math::fabs<T>(x));
        return math::copysign<T>(quotient<T>(z, C(1) + z), x);
    }
};

// dy / (1 + |x|)^2, the square never formed: it may overflow.
template <class T>
struct SoftsignBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        const C d = C(1) + math::fabs<T>(x);
        return dy / d / d;
    }
};

// x - tanh(x): x^3 P(x^2) / Q(x^2) up to |x| = 1, from there on (|x| - 1) + 2 e / (1 + e) with e = exp(-2 |x|).
template <class T>
struct Tanhshrink {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const {
        const C z = math::fabs<T>(x);
        const bool small = z < C(1);
        const C s = z * z;
        C p;
        C q;
        if constexpr (math::kIsHalf<T>) {
            p = polynomial(s, 0.333332728, 0.00149991607);
            q = polynomial(s, 1, 0.404462369);
        } else if constexpr (std::is_same_v<T, float>) {
            p = polynomial(s, 0.33333333267, 0.014708446403);
            q = polynomial(s, 1, 0.44412526944, 0.015745736675);
        } else {
            p = polynomial(s, 0.3333333333333333333, 0.02351312917755657879, 0.0003724816747014114394, 1.267146483130534078e-6);
            q = polynomial(s, 1, 0.4705393875326697359, 0.02742843813241023453, 0.0004010747955896185187,
                           1.295807647897548724e-6);
        }
        const C e = math::exp<T>(C(-2) * z);
        const C n = math::select(small, z * (s * p), C(2) * e);
        const C y = math::select(small, C(0), z - C(1)) + quotient<T>(n, math::select(small, q, C(1) + e));
        return math::copysign<T>(y, x);
    }
};

// tanh(x)^2 dy
template <class T>
struct TanhshrinkBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        const C t = math::tanh<T>(x);
        return t * dy * t;
    }
};

// p1 (x for x > 0, else p0 (e^x - 1))
template <class T>
struct Selu {
    using C = compute_t<T>;
    C p0 = C(1.6732632423543772);
    C p1 = C(1.0507009873554805);
    BK_HD C operator()(C x) const { return p1 * math::select(x > C(0), x, p0 * math::expm1<T>(math::min(C(0), x))); }
};

// p1 (dy for x > 0, else p0 e^x dy)
template <class T>
struct SeluBackward {
    using C = compute_t<T>;
    C p0 = C(1.6732632423543772);
    C p1 = C(1.0507009873554805);
    BK_HD C operator()(C dy, C x) const {
        const ScaledExp<C> e = scaled_exp<T>(math::min(C(0), x));
        return math::select(x > C(0), p1 * dy, p1 * (p0 * (e.value * dy)) * e.scale);
    }
};

// x for x > 0, else p0 (e^x - 1)
template <class T>
struct Elu {
    using C = compute_t<T>;
    C p0 = C(1);
    BK_HD C operator()(C x) const { return math::select(x > C(0), x, p0 * math::expm1<T>(math::min(C(0), x))); }
};

// dy for x > 0, else p0 e^x dy
template <class T>
struct EluBackward {
    using C = compute_t<T>;
    C p0 = C(1);
    BK_HD C operator()(C dy, C x) const {
        const ScaledExp<C> e = scaled_exp<T>(math::min(C(0), x));
        return math::select(x > C(0), dy, p0 * (e.value * dy) * e.scale);
    }
};

}  // namespace bk::op
