// gelu, x Phi(x), with Phi the distribution of the standard normal variable and phi its density, and its gradient.
//
// With z = |x| the tail is Phi(-z) = exp(-z^2 / 2) R(z), R(z) = erfcx(z / sqrt 2) / 2 = P(z) / Q(z), and the derivative of gelu
// at -z is Phi(-z) - z phi(z) = exp(-z^2 / 2) (root - z) M(z) / Q(z): nothing cancels anywhere. P, Q and M have positive
// coefficients; M / Q tends to 1 / sqrt(2 pi).
#pragma once

#include <type_traits>

#include "core/dtype.h"
#include "core/math.h"
#include "elementwise/approximation.h"

namespace bk::op {

template <class T>
struct NormalTail {
    using C = compute_t<T>;

    // Beyond this z exp(-z^2 / 2) is 0.
    static constexpr double kCap = std::is_same_v<C, double> ? 40 : 15;

    C z;

    static BK_HD NormalTail of(C x) { return NormalTail{math::min(C(kCap), math::fabs<T>(x))}; }

    BK_HD Pair<T> p() const {
        if constexpr (math::kIsHalf<T>)
            return single<T>(polynomial(z, 0.499999791, 0.363730076, 0.120544915, 0.0172886676));
        else if constexpr (std::is_same_v<T, float>)
            return single<T>(polynomial(z, 0.50000000315, 0.43928469190, 0.18397006815, 0.040881438714, 0.0041532747731));
        else
            return single<T>(polynomial(z, 0.5000000000000000005, 0.8279523653549888302, 0.6796531574103785408,
                                        0.3573797002920931258, 0.1320636107524104926, 0.03567384090949903285,
                                        0.007124367752548001073, 0.001039978121954802825, 0.0001066046336220419021,
                                        6.978426772814176810e-6, 2.242762695790134123e-7));
    }

    BK_HD Pair<T> q() const {
        if constexpr (math::kIsHalf<T>)
            return single<T>(polynomial(z, 1, 1.52532415, 0.958283863, 0.301973854, 0.0433407297));
        else if constexpr (std::is_same_v<T, float>)
            return single<T>(polynomial(z, 1, 1.6764543908, 1.2055521532, 0.47141114773, 0.10248068633, 0.010410604322));
        else
            return single<T>(polynomial(z, 1, 2.453789291512843228, 2.817146905982248266, 2.001584296892298358,
                                        0.9802005065358079896, 0.3483637005797348318, 0.09199291250236151096,
                                        0.01812423547274624812, 0.002624330887554863691, 0.0002677803660791813784,
                                        0.00001749232186120780144, 5.621772386553912538e-7));
    }

    // (root - z) M(z)
    BK_HD Pair<T> m() const {
        constexpr Pair<T> root = constant<T>(0.7517915246935645, -1.4956759177009883e-17);
        const Pair<T> distance = sum<T>(single<T>(root.high - z), single<T>(root.low));
        if constexpr (math::kIsHalf<T>)
            return product<T>(distance,
                              single<T>(polynomial(z, 0.665077636, 0.837820651, 0.465352587, 0.133468338, 0.0172905032)));
        else if constexpr (std::is_same_v<T, float>)
            return product<T>(distance, single<T>(polynomial(z, 0.66507800069, 0.93831914226, 0.60320020777, 0.21699604707,
                                                             0.044006243892, 0.0041532303015)));
        else
            return product<T>(
                distance, single<T>(polynomial(z, 0.6650779951314342593, 1.455307813600251017, 1.537714429410587269,
                                               1.025836410058806268, 0.4780360049147806545, 0.1631654740271869173,
                                               0.04165095193662329130, 0.007969054674510907277, 0.001124162018782307910,
                                               0.0001119777145404649623, 7.147035771485414423e-6, 2.242762695789623599e-7)));
    }

    // exp(-z^2 / 2), with what the rounding of z^2 left out where z^2 is not exact.
    BK_HD ScaledExp<T> density() const {
        const C square = z * z;
        if constexpr (math::kIsHalf<T>)
            return ScaledExp<T>{single<T>(math::exp2<T>(square * C(-0.72134752044448170))), C(1)};
        else
            return scaled_exp<T>(C(-0.5) * square, C(-0.5) * math::fma(z, z, -square));
    }
};

// x Phi(x), given z Phi(-z).
template <class C>
BK_HD C gelu_of_tail(C x, C tail) {
    return math::select(x < C(0), -tail, x - tail);
}

template <class T>
struct Gelu {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const {
        const auto tail = NormalTail<T>::of(x);
        const ScaledExp<T> e = tail.density();
        const auto n = product<T>(product<T>(single<T>(tail.z), tail.p()), e.value);
        return gelu_of_tail(x, quotient<T>(n, tail.q()) * e.scale);
    }
};

// The derivative g of gelu at -z gives it at z too, 1 - g.
template <class T>
struct GeluBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        const auto tail = NormalTail<T>::of(x);
        const ScaledExp<T> e = tail.density();
        const C g = quotient<T>(product<T>(tail.m(), e.value), tail.q());
        return math::select(x < C(0), g, C(1) - g) * dy * math::select(x < C(0), e.scale, C(1));
    }
};

template <class T>
using GeluErf = Gelu<T>;

template <class T>
using GeluErfBackward = GeluBackward<T>;

}  // namespace bk::op
