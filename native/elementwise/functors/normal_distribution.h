// SPDX-License-Identifier: Apache-2.0
// gelu(x) = x Phi(x) and its gradient; Phi and phi are the standard normal distribution and density.
//
// With z = |x| the tail is Phi(-z) = exp(-z^2 / 2) R(z), R(z) = erfcx(z / sqrt 2) / 2, and gelu'(-z) = Phi(-z) - z
// phi(z) = exp(-z^2 / 2) S(z), S(z) = (root - z) V(z): nothing cancels. 16-bit types use R = P / Q and V = M / Q with
// positive coefficients, others R = W(u) / (z + a) and V(u), u = (z - a) / (z + a), a about 3.
#pragma once

#include <type_traits>

#include "core/math/math.h"
#include "core/types/dtype.h"
#include "elementwise/approximation.h"
#include "elementwise/tune.h"

namespace bk::op {

template <class T>
struct NormalTail {
    using C = compute_t<T>;

    // exp(-z^2 / 2) is 0 above this z.
    static constexpr double kCap = std::is_same_v<C, double> ? 46.125 : 16.1875;

    // f32: chosen so that rounding the first coefficients of W and V to f32 costs next to nothing.
    static constexpr C kPole = std::is_same_v<C, double> ? C(3) : C(3.28857421875);

    static constexpr Pair<T> kExponent = constant<T>(-0.7213475204444817, -1.0177636870465517e-17);  // -log2(e) / 2

    C z;
    C factor;  // 1 / Q(z) for 16-bit types, else z / (z + a)
    C u;

    static BK_HD NormalTail of(C x, C cap = C(kCap)) {
        const C z = math::min(cap, math::fabs<T>(x));
        if constexpr (math::kIsHalf<T>) {
            const C q = polynomial(z, 1, 1.52532415, 0.958283863, 0.301973854, 0.0433407297);
            return NormalTail{z, math::reciprocal<T>(q), C(0)};
        } else {
            // z / (z + a): the error of z R(z) depends least on this form's, above all for large z, where the
            // residual's shows; z + a need not be exact.
            const C t = math::reciprocal<T>(z + kPole);
            const C q = z * t;
            const C ratio = math::fma(math::fma(-q, z, math::fma(-q, kPole, z)), t, q);
            return NormalTail{z, ratio, math::fma(C(2), ratio, C(-1))};
        }
    }

    // z R(z)
    BK_HD Pair<T> tail() const {
        if constexpr (math::kIsHalf<T>) {
            return single<T>(z * factor * polynomial(z, 0.499999791, 0.363730076, 0.120544915, 0.0172886676));
        } else if constexpr (std::is_same_v<T, float>) {
            return carried_product<T>(factor, polynomial(u, 0.73859703541, -0.54375904799, 0.28100322345, -0.086282561398,
                                                         0.0033301833253, 0.0082517765933, -0.0015144420818, -0.0010269521047,
                                                         0.00019654383142, 0.00015311953407, 1.0893043676e-5));
        } else {
            constexpr C c0_rest = -4.4735e-17;
            const Pair<T> tail = carried_product<T>(
                factor,
                polynomial(u, 0.7290836901333729966, -0.5093319819174895682, 0.2300177199746035511, -0.04726302514296105086,
                           -0.01046286702330325447, 0.006972621240119933539, 0.001027592258939815353, -0.001045828617195050847,
                           -0.0002565753446440819793, 0.0001543944111425932190, 0.00007881266631390421644,
                           -0.00001324569214804715720, -0.00002068917228302140807, -3.519163773633169829e-6,
                           3.640441854716503478e-6, 2.260485054932996421e-6, 6.366986430958906816e-9, -6.000310135162182488e-7,
                           -2.698535056216624063e-7, 5.020952334442600748e-8, 9.139185676333902840e-8, 1.996209952734960533e-8,
                           -1.116012641726205696e-8, -5.544727285321939154e-9, -4.814335807817324168e-10));
            return Pair<T>{tail.high, math::fma(factor, c0_rest, tail.low)};
        }
    }

    // S(z)
    BK_HD Pair<T> slope() const {
        // f32: the root's high constant has few bits, so that the distance to it is exact for z in [1/2, 8].
        constexpr Pair<T> root = std::is_same_v<T, float> ? Pair<T>{C(0x1.80eadp-1), C(4.74901953168329e-8)}
                                                          : constant<T>(0.7517915246935645, -1.4956759177009883e-17);
        const Pair<T> distance = distance_to<T>(root, z);
        if constexpr (math::kIsHalf<T>) {
            const C m = polynomial(z, 0.665077636, 0.837820651, 0.465352587, 0.133468338, 0.0172905032);
            return single<T>(from_root<T>(distance, single<T>(m)).high * factor);
        } else if constexpr (std::is_same_v<T, float>) {
            const C v = polynomial(u, 0.47290366888, -0.11490285397, 0.05671750702, -0.018889719561, 0.0027012471814,
                                   0.00077495450297, -0.00034964981704, -5.9953849425e-5, 3.8817360049e-5, 1.1167599321e-5);
            return from_root<T>(distance, single<T>(v));
        } else {
            return product<T>(
                distance,
                compensated_polynomial<T>(
                    u, constant<T>(0.4782976777552484068, 1.0762e-17), -0.1199754271354450569, 0.05359610983496918084,
                    -0.01407477249018160910, 0.0002040713480080376692, 0.001095010471185904890, -0.00009407407146781203812,
                    -0.0001300242881666908793, 4.764501435692427669e-6, 0.00002009233389777033795, 2.539863461171500436e-6,
                    -3.016792430245286135e-6, -1.239239032835018000e-6, 2.422958263123699817e-7, 3.401099204715674262e-7,
                    6.844520410971539950e-8, -5.353685803634968814e-8, -3.821771380052767984e-8, -1.045457949117477979e-9,
                    8.933900931979138764e-9, 2.701097407912169511e-9, -9.208275612245247060e-10, -4.546394218186214781e-10));
        }
    }

    // exp(-z^2 / 2), corrected for the rounding of z^2; as scaled_power or lifted_power.
    template <bool kIsLifted = false>
    BK_HD ScaledExp<T> density() const {
        const C square = math::product(z, z);
        constexpr Pair<T> k = kExponent;
        if constexpr (math::kIsHalf<T>)
            return ScaledExp<T>{single<T>(math::exp2<T>(square * k.high)), C(1)};
        else
            return kIsLifted ? lifted_power<T>(k, square, math::fma(z, z, -square))
                             : scaled_power<T>(k, square, math::fma(z, z, -square));
    }
};

// factor * gelu(x), for a normal power (scale 1).
template <class T>
BK_HD compute_t<T> gelu_times(compute_t<T> factor, compute_t<T> x, const NormalTail<T>& normal, const ScaledExp<T>& e) {
    using C = compute_t<T>;
    const bool negative = x < C(0);
    const C tail = carried_times_exp<T>(normal.tail(), e);
    const C y = factor * math::select(negative, -tail, x - tail);
    if constexpr (std::is_same_v<T, f16>) return y;
    // x / 2 for small x, since x itself may lose digits.
    return math::select(normal.z < C(0x1p-60), factor * C(0.5) * x, y);
}

// gelu'(x) without the scale for negative x; gelu'(z) = 1 - gelu'(-z).
template <class T>
BK_HD compute_t<T> gelu_slope(compute_t<T> x, const NormalTail<T>& normal, const ScaledExp<T>& e) {
    using C = compute_t<T>;
    const C g = rounded<T>(times_exp<T>(normal.slope(), e));
    return math::select(x < C(0), g, C(1) - g);
}

template <class T>
struct Gelu {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const {
        const auto normal = NormalTail<T>::of(x);
        const ScaledExp<T> e = normal.template density<kLifted>();
        const C tail = carried_times_exp<T>(normal.tail(), e);
        // The sign bit decides: clang 14 compiles x < 0 ? -0 : x as x <= 0 ? -0 : x.
        const bool negative = bit_cast<std::make_signed_t<bits_t<C>>>(x) < 0;
        return math::fma(-tail, e.scale, math::select(negative, C(-0.0), x));
    }
};

template <class T>
struct GeluBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        const auto normal = NormalTail<T>::of(x);
        const ScaledExp<T> e = normal.density();
        return gelu_slope<T>(x, normal, e) * dy * math::select(x < C(0), e.scale, C(1));
    }
};

template <class T>
using GeluErf = Gelu<T>;

template <class T>
using GeluErfBackward = GeluBackward<T>;

}  // namespace bk::op
