// a f(b) for the gates f of gated linear units, and the gradients: da = f(b) dy, db = a f'(b) dy.
//
// Where b is so far below 0 that f(b) may leave the range before its products do, f and f' are factors of e^b, or of
// e^(-b^2 / 2), next to which nothing counts; the products are then made of mantissas and exponents. f16 has no need of it:
// f32 holds its products.
#pragma once

#include <type_traits>

#include "core/dtype.h"
#include "core/math.h"
#include "core/pack.h"
#include "elementwise/activations.h"
#include "elementwise/normal_distribution.h"
#include "elementwise/rectifiers.h"
#include "elementwise/scaling.h"

namespace bk::op {

template <class T>
constexpr bool kHasFarGates = !std::is_same_v<T, f16>;

// Powers of two: the smallest that is left to the plain products, and one that vanishes from every product.
template <class C>
constexpr double kLeastNear = std::is_same_v<C, double> ? -900 : -100;
template <class C>
constexpr double kLeastFar = std::is_same_v<C, double> ? -3200 : -450;

// 2^(k (x + rest)) as a mantissa about 1 and an exponent.
template <class T, class... Rest>
BK_HD Split<compute_t<T>> far_power(Pair<T> k, compute_t<T> x, Rest... rest) {
    using C = compute_t<T>;
    using Int = typename FloatFormat<C>::Int;
    constexpr C kShift = std::is_same_v<C, double> ? C(0x1.8p52) : C(0x1.8p23);  // added, it leaves the nearest integer
    const C shifted = math::fma(x, k.high, kShift), n = shifted - kShift;
    const Int exponent = bit_cast<Int>(shifted) - bit_cast<Int>(kShift);
    if constexpr (math::kIsHalf<T>)
        return {math::exp2<T>(math::fma(x, k.high, -n)), exponent};
    else
        return {C(1) + shifted_power<T>(k, PowerRange<C>::shift, C(1), x, rest...).t, exponent};
}

// power factor u v, for a factor within [2^-8, 2^12]; the power is 0 if `vanishes`.
template <class T>
BK_HD compute_t<T> far_product(Split<compute_t<T>> power, bool vanishes, compute_t<T> factor, compute_t<T> u,
                               compute_t<T> v = 1) {
    using C = compute_t<T>;
    const Split<C> f = split(u), g = split(v);
    const C mantissa = math::select(vanishes, C(0), power.mantissa * factor) * f.mantissa * g.mantissa;
    return scale(mantissa, power.exponent + f.exponent + g.exponent);
}

template <class C>
BK_HD Pack<C, C> select_pack(bool condition, const Pack<C, C>& a, const Pack<C, C>& b) {
    return pack(math::select(condition, get<0>(a), get<0>(b)), math::select(condition, get<1>(a), get<1>(b)));
}

// a dy f is first second f for any |f| below 1 or near it, without a step out of the range that the result is in.
template <class T>
struct TwoFactors {
    using C = compute_t<T>;
    C first, second;

    static BK_HD TwoFactors of(C a, C dy) {
        if constexpr (!kHasFarGates<T>) return {a, dy};
        const C x = math::fabs<T>(a), y = math::fabs<T>(dy);
        const bool apart = (x > C(1)) != (y > C(1)), larger = x > y;
        return {math::select(apart, a * dy, math::select(larger, a, dy)),
                math::select(apart, C(1), math::select(larger, dy, a))};
    }
};

// e^b where b is far below 0. Conditions are functions, since GCC does not vectorise loops with a struct of several.
template <class T>
struct FarDecay {
    using C = compute_t<T>;
    C b, z;

    BK_HD explicit FarDecay(C b_) : b(b_), z(math::min(C(kLeastFar<C> * -0.6931471805599453), -b_)) {}
    BK_HD bool far() const { return kHasFarGates<T> && b < C(kLeastNear<C> * 0.6931471805599453); }
    BK_HD C product(C factor, C u, C v = 1) const {
        return far_product<T>(far_power<T>(kLog2E<T>, -z), b == -C(INFINITY), factor, u, v);
    }
};

template <class T>
struct Glu {
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b) const {
        const auto d = FarDecay<T>(b);
        if (BK_ON_GPU && !d.far()) return near(a, b);
        const C far = d.product(C(1), a);
        return BK_ON_GPU ? far : math::select(d.far(), far, near(a, b));
    }

private:
    static BK_HD C near(C a, C b) {
        const ScaledExp<T> e = scaled_exp<T>(-math::fabs<T>(b));
        return a * logistic<T>(b < C(0), e.value) * scale_if<T>(b < C(0), e.scale);
    }
};

// sigmoid' = s (1 - s) = e / (1 + e)^2 with e = exp(-|b|)
template <class T>
struct GluBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C a, C b, C dy) const {
        const auto d = FarDecay<T>(b);
        if (BK_ON_GPU && !d.far()) return near(a, b, dy);
        const auto far = pack(d.product(C(1), dy), d.product(C(1), a, dy));
        return BK_ON_GPU ? far : select_pack(d.far(), far, near(a, b, dy));
    }

private:
    static BK_HD Pack<C, C> near(C a, C b, C dy) {
        const ScaledExp<T> e = scaled_exp<T>(-math::fabs<T>(b));
        const bool negative = b < C(0);
        const C slope = carried_quotient<T>(e.value, carried_square<T>(one_plus<T>(e.value)));
        const auto f = TwoFactors<T>::of(a, dy);
        return pack(logistic<T>(negative, e.value) * dy * scale_if<T>(negative, e.scale), slope * f.first * f.second * e.scale);
    }
};

template <class T>
struct Reglu {
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b) const { return a * math::max(C(0), b); }
};

template <class T>
struct RegluBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C a, C b, C dy) const {
        return pack(math::select(b > C(0), b * dy, C(0)), math::select(b > C(0), a * dy, C(0)));
    }
};

// factor silu(b), the larger of b and the factor that silu shrinks to meeting the other last.
template <class T>
BK_HD compute_t<T> silu_times(compute_t<T> factor, compute_t<T> b, const Decay<T>& d) {
    using C = compute_t<T>;
    const bool negative = b < C(0);
    const C x = math::select(negative, -d.z, b), gate = logistic<T>(negative, d.e.value);
    const C scale = scale_if<T>(negative, d.e.scale);
    if constexpr (!kHasFarGates<T>) return factor * x * gate * scale;
    const bool small = d.z < C(1);
    return math::select(small, factor, x) * gate * math::select(small, x, factor) * scale;
}

template <class T>
struct Swiglu {
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b) const {
        const auto d = FarDecay<T>(b);
        if (BK_ON_GPU && !d.far()) return silu_times<T>(a, b, Decay<T>::of(b));
        const C far = d.product(-d.z, a);
        return BK_ON_GPU ? far : math::select(d.far(), far, silu_times<T>(a, b, Decay<T>::of(b)));
    }
};

template <class T>
struct SwigluBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C a, C b, C dy) const {
        const auto d = FarDecay<T>(b);
        if (BK_ON_GPU && !d.far()) return near(a, b, dy);
        const auto far = pack(d.product(-d.z, dy), d.product(C(1) - d.z, a, dy));
        return BK_ON_GPU ? far : select_pack(d.far(), far, near(a, b, dy));
    }

private:
    static BK_HD Pack<C, C> near(C a, C b, C dy) {
        const auto d = Decay<T>::of(b);
        const bool negative = b < C(0);
        const auto f = TwoFactors<T>::of(a, dy);
        return pack(silu_times<T>(dy, b, d), silu_slope<T>(negative, d, f.first) * f.second * scale_if<T>(negative, d.e.scale));
    }
};

// exp(-z^2 / 2) for z = -b, and the asymptotic series that holds where b is far below 0 (Abramowitz and Stegun 26.2.12):
// Phi(-z) = phi(z) s / z with s = 1 - w + 3 w^2 - 15 w^3 + ... and w = 1 / z^2.
template <class T>
struct FarNormal {
    using C = compute_t<T>;
    static constexpr bool f64 = std::is_same_v<C, double>;  // bounds are sqrt(-2 ln 2 kLeastNear) and so on
    C b, z;

    BK_HD explicit FarNormal(C b_) : b(b_), z(math::min(C(f64 ? 66.60436889261582 : 24.976638334730932), -b_)) {}
    BK_HD bool far() const { return kHasFarGates<T> && b < C(f64 ? -35.32230067546424 : -11.774100225154747); }
    BK_HD C series() const {
        const C inverse = math::reciprocal<T>(z), w = inverse * inverse;
        if constexpr (std::is_same_v<C, double>)
            return polynomial(w, 1, -1, 3, -15, 105, -945, 10395, -135135, 2027025);
        else
            return polynomial(w, 1, -1, 3, -15, 105, -945);
    }
    // The power times phi(0) gelu(b) / phi(b) or phi(0) gelu'(b) / phi(b), and u, v.
    BK_HD C product(C u) const { return far_product<T>(power(), b == -C(INFINITY), -kDensity * series(), u); }
    BK_HD C slope_product(C u, C v) const {
        return far_product<T>(power(), b == -C(INFINITY), -kDensity * (z - series() * math::reciprocal<T>(z)), u, v);
    }

private:
    static constexpr C kDensity = C(0.3989422804014327);  // phi(0)
    BK_HD Split<C> power() const {
        const C square = math::product(z, z);
        return far_power<T>(constant<T>(-0.7213475204444817, -1.0177636870465517e-17), square, math::fma(z, z, -square));
    }
};

template <class T>
struct Geglu {
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b) const {
        const auto d = FarNormal<T>(b);
        if (BK_ON_GPU && !d.far()) return near(a, b);
        const C far = d.product(a);
        return BK_ON_GPU ? far : math::select(d.far(), far, near(a, b));
    }

private:
    static BK_HD C near(C a, C b) {
        const auto normal = NormalTail<T>::of(b);
        return gelu_times<T>(a, b, normal, normal.density());
    }
};

template <class T>
struct GegluBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C a, C b, C dy) const {
        const auto d = FarNormal<T>(b);
        if (BK_ON_GPU && !d.far()) return near(a, b, dy);
        const auto far = pack(d.product(dy), d.slope_product(a, dy));
        return BK_ON_GPU ? far : select_pack(d.far(), far, near(a, b, dy));
    }

private:
    static BK_HD Pack<C, C> near(C a, C b, C dy) {
        const auto normal = NormalTail<T>::of(b);
        const ScaledExp<T> e = normal.density();
        const auto f = TwoFactors<T>::of(a, dy);
        return pack(gelu_times<T>(dy, b, normal, e),
                    gelu_slope<T>(b, normal, e) * f.first * f.second * scale_if<T>(b < C(0), e.scale));
    }
};

}  // namespace bk::op
