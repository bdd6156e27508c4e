// SPDX-License-Identifier: Apache-2.0
// a f(b) for the gates f of gated linear units, with gradients da = f(b) dy, db = a f'(b) dy.
//
// For b so far below 0 that f(b) may leave the range before its products do, f and f' are multiples of e^b, or of
// e^(-b^2 / 2), beside which nothing else counts; products are then formed from mantissas and exponents. f16 does not
// need this: f32 holds its products.
#pragma once

#include <type_traits>

#include "core/math/math.h"
#include "core/types/dtype.h"
#include "core/types/pack.h"
#include "elementwise/functors/activations.h"
#include "elementwise/functors/normal_distribution.h"
#include "elementwise/functors/rectifiers.h"
#include "elementwise/scaling.h"

namespace bk::op {

template <class T>
constexpr bool kHasFarGates = !std::is_same_v<T, f16>;

// Exponents: the smallest for which plain products serve, and one at which every product vanishes.
template <class C>
constexpr double kLeastNear = std::is_same_v<C, double> ? -900 : -100;
template <class C>
constexpr double kLeastFar = std::is_same_v<C, double> ? -3200 : -450;

// e^x, or another power of 2: `value` if the exponent is above kLeastNear, and always (1 + t) 2^n with value's t.
template <class T>
struct GatePower {
    using C = compute_t<T>;
    using Int = typename FloatFormat<C>::Int;
    ScaledExp<T> value;
    Int n;

    // 2^(k (x + low)).
    template <class... Low>
    static BK_HD GatePower of(Pair<T> k, C x, Low... low) {
        constexpr C kShift = PowerRange<C>::shift;
        const C shifted = math::fma(x, k.high, kShift);
        const Int n = bit_cast<Int>(shifted) - bit_cast<Int>(kShift);
        if constexpr (std::is_same_v<T, f16>) {
            return {{single<T>(math::exp2<T>(x * k.high)), C(1)}, n};
        } else if constexpr (std::is_same_v<T, bf16>) {
            const C mantissa = math::exp2<T>(math::fma(x, k.high, kShift - shifted));
            const C power = bit_cast<float>(bit_cast<uint32_t>(shifted) << 23);
            const C near = kRareIsBranch ? math::exp2<T>(x * k.high) : mantissa * power;  // enough in a rare branch
            return {{single<T>(near), C(1), power, mantissa - C(1)}, n};
        } else {
            return {shifted_power<T>(k, kShift, C(1), x, low...), n};
        }
    }

    // power * factor * u for n <= kLeastNear and factor in [2^-8, 2^12]. The power is applied as normal factors; if one
    // makes u subnormal, the others take it to 0.
    BK_HD C product(C factor, C u) const {
        constexpr Int kVanishing = 7 * FloatFormat<C>::bias / 3;
        const Int bounded = n < -kVanishing ? -kVanishing : n, quarter = bounded >> 2;
        const C quarter_power = integral_power_of_two<C>(quarter);
        return u * quarter_power * quarter_power * ((C(1) + value.t) * factor) * quarter_power *
               integral_power_of_two<C>(bounded - 3 * quarter);
    }
    // power * factor * u * v.
    BK_HD C product(C factor, C u, C v) const {
        const Split<C> f = split(u), g = split(v);
        return scale((C(1) + value.t) * factor * f.mantissa * g.mantissa, n + f.exponent + g.exponent);
    }
};

template <class C>
BK_HD Pack<C, C> select_pack(bool condition, const Pack<C, C>& a, const Pack<C, C>& b) {
    return pack(math::select(condition, get<0>(a), get<0>(b)), math::select(condition, get<1>(a), get<1>(b)));
}

// a dy f = first * second * f for |f| up to about 1; no intermediate leaves the range that holds the result.
template <class T>
struct TwoFactors {
    using C = compute_t<T>;
    C first, second;

    static BK_HD TwoFactors of(C a, C dy) {
        if constexpr (!kHasFarGates<T>) return {a, dy};
        const C x = math::fabs<T>(a), y = math::fabs<T>(dy);
        const bool are_opposite = (x > C(1)) != (y > C(1)), larger = x > y;
        return {math::select(are_opposite, a * dy, math::select(larger, a, dy)),
                math::select(are_opposite, C(1), math::select(larger, dy, a))};
    }
};

// e^-|b|; GatePower form if b is far below 0.
template <class T>
struct GateDecay {
    using C = compute_t<T>;
    static constexpr C kNear = C(kLeastNear<C> * -0.6931471805599453), kFar = C(kLeastFar<C> * -0.6931471805599453);
    C b, z;
    GatePower<T> power;

    BK_HD explicit GateDecay(C b_, bool both = false)
        : b(b_), z(math::min(bound(b_, both), math::fabs<T>(b_))), power(GatePower<T>::of(kLog2E<T>, -z)) {}
    BK_HD bool far() const { return kHasFarGates<T> && b < -kNear; }
    // Bound below which the power is needed for negative b, and for positive b if `both`.
    static BK_HD C bound(C b, bool both) {
        return kHasFarGates<T> ? math::select((b < C(0)) | both, kFar, kNear) : C(-kLeastExponent<T>);
    }
    // f, but 0 for an infinite b.
    BK_HD C open(C f) const { return math::select(math::fabs<T>(b) == C(INFINITY), C(0), f); }
    BK_HD C logistic() const { return op::logistic<T>(b < C(0), power.value.value); }
};

template <class T>
struct Glu {
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b) const {
        const GateDecay<T> d(b);
        if (kRareIsBranch && !d.far()) return a * d.logistic();
        const C far = d.power.product(d.open(C(1)), a);
        return kRareIsBranch ? far : math::select(d.far(), far, a * d.logistic());
    }
};

// sigmoid' = s (1 - s) = e / (1 + e)^2 with e = exp(-|b|), which vanishes on both sides of 0.
template <class T>
struct GluBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C a, C b, C dy) const {
        const GateDecay<T> d(b, true);
        const bool is_far = kHasFarGates<T> && math::fabs<T>(b) > d.kNear;
        if (kRareIsBranch && !is_far) return near(d, a, dy);
        const C da = math::select(b > C(0), dy, d.power.product(d.open(C(1)), dy));
        const auto far = pack(da, d.power.product(d.open(C(1)), a, dy));
        return kRareIsBranch ? far : select_pack(is_far, far, near(d, a, dy));
    }

private:
    static BK_HD Pack<C, C> near(const GateDecay<T>& d, C a, C dy) {
        const Pair<T> e = d.power.value.value;
        const auto f = TwoFactors<T>::of(a, dy);
        return pack(d.logistic() * dy, carried_quotient<T>(e, carried_square<T>(one_plus<T>(e))) * f.first * f.second);
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

// factor * silu(b): whichever of b and factor silu does not shrink comes last.
template <class T>
BK_HD compute_t<T> silu_times(compute_t<T> factor, const GateDecay<T>& d) {
    using C = compute_t<T>;
    const C x = math::select(d.b < C(0), -d.z, d.b), gate = d.logistic();
    if constexpr (!kHasFarGates<T>) return factor * x * gate;
    const bool small = d.z < C(1);
    return math::select(small, factor, x) * gate * math::select(small, x, factor);
}

template <class T>
struct Swiglu {
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b) const {
        const GateDecay<T> d(b);
        if (kRareIsBranch && !d.far()) return silu_times<T>(a, d);
        const C far = d.power.product(d.open(-d.z), a);
        return kRareIsBranch ? far : math::select(d.far(), far, silu_times<T>(a, d));
    }
};

template <class T>
struct SwigluBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C a, C b, C dy) const {
        const GateDecay<T> d(b);
        if (kRareIsBranch && !d.far()) return near(d, a, dy);
        const auto far = pack(d.power.product(d.open(-d.z), dy), d.power.product(d.open(C(1) - d.z), a, dy));
        return kRareIsBranch ? far : select_pack(d.far(), far, near(d, a, dy));
    }

private:
    static BK_HD Pack<C, C> near(const GateDecay<T>& d, C a, C dy) {
        const auto f = TwoFactors<T>::of(a, dy);
        return pack(silu_times<T>(dy, d), silu_slope<T>(d.b < C(0), Decay<T>{d.z, d.power.value}, f.first) * f.second);
    }
};

// exp(-b^2 / 2) and the asymptotic series for b far below 0 (Abramowitz and Stegun 26.2.12): Phi(-z) = phi(z) s / z, s
// = 1 - w + 3 w^2 - 15 w^3 + ..., w = 1 / z^2.
template <class T>
struct GateNormal {
    using C = compute_t<T>;
    static constexpr bool f64 = std::is_same_v<C, double>;  // bounds are sqrt(-2 ln 2 kLeastNear) and so on
    static constexpr C kNear = C(f64 ? 35.32230067546424 : 11.774100225154747);
    static constexpr C kFar = C(f64 ? 66.60436889261582 : 24.976638334730932);
    C b;
    NormalTail<T> normal;
    GatePower<T> power;

    BK_HD explicit GateNormal(C b_)
        : b(b_), normal(NormalTail<T>::of(math::min(math::select(b_ < C(0), kFar, kNear), math::fabs<T>(b_)), kFar)) {
        const C square = math::product(normal.z, normal.z);
        power = GatePower<T>::of(NormalTail<T>::kExponent, square, math::fma(normal.z, normal.z, -square));
    }
    BK_HD bool far() const { return kHasFarGates<T> && b < -kNear; }
    // gelu(b) and its derivative divided by exp(-b^2 / 2); 0 for b = -infinity.
    BK_HD Pack<C, C> far_factors() const {
        constexpr C kDensity = C(0.3989422804014327);  // phi(0)
        const C inverse = math::reciprocal<T>(normal.z), w = inverse * inverse;
        C s;
        if constexpr (f64)
            s = polynomial(w, 1, -1, 3, -15, 105, -945, 10395, -135135, 2027025);
        else
            s = polynomial(w, 1, -1, 3, -15, 105, -945);
        const C density = math::select(b == -C(INFINITY), C(0), -kDensity);
        return pack(density * s, density * math::fma(-s, inverse, normal.z));
    }
};

template <class T>
struct Geglu {
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b) const {
        const GateNormal<T> d(b);
        if (kRareIsBranch && !d.far()) return gelu_times<T>(a, b, d.normal, d.power.value);
        const C far = d.power.product(get<0>(d.far_factors()), a);
        return kRareIsBranch ? far : math::select(d.far(), far, gelu_times<T>(a, b, d.normal, d.power.value));
    }
};

template <class T>
struct GegluBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C a, C b, C dy) const {
        const GateNormal<T> d(b);
        if (kRareIsBranch && !d.far()) return near(d, a, dy);
        const auto factors = d.far_factors();
        const auto far = pack(d.power.product(get<0>(factors), dy), d.power.product(get<1>(factors), a, dy));
        return kRareIsBranch ? far : select_pack(d.far(), far, near(d, a, dy));
    }

private:
    static BK_HD Pack<C, C> near(const GateNormal<T>& d, C a, C dy) {
        const auto f = TwoFactors<T>::of(a, dy);
        return pack(gelu_times<T>(dy, d.b, d.normal, d.power.value),
                    gelu_slope<T>(d.b, d.normal, d.power.value) * f.first * f.second);
    }
};

}  // namespace bk::op
