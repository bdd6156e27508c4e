// a f(b) for the gates f of gated linear units, and the gradients: da = f(b) dy, db = a f'(b) dy.
#pragma once

#include "core/dtype.h"
#include "core/math.h"
#include "core/pack.h"
#include "elementwise/activations.h"
#include "elementwise/normal_distribution.h"
#include "elementwise/rectifiers.h"

namespace bk::op {

template <class T>
struct Glu {
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b) const { return a * Sigmoid<T>{}(b); }
};

// sigmoid' = s (1 - s) = e / (1 + e)^2 with e = exp(-|b|)
template <class T>
struct GluBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C a, C b, C dy) const {
        const ScaledExp<C> e = scaled_exp<T>(-math::fabs<T>(b));
        const bool negative = b < C(0);
        const C one = C(1) + e.value;
        const C s = quotient<T>(math::select(negative, e.value, C(1)), one);
        const C slope = quotient<T>(e.value, one * one);
        return pack(s * dy * math::select(negative, e.scale, C(1)), slope * a * dy * e.scale);
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

template <class T>
struct Swiglu {
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b) const { return a * Silu<T>{}(b); }
};

template <class T>
struct SwigluBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C a, C b, C dy) const {
        const auto d = silu_derivative<T>(b);
        return pack(Silu<T>{}(b)*dy, d.value * a * dy * d.scale);
    }
};

template <class T>
struct Geglu {
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b) const { return a * Gelu<T>{}(b); }
};

template <class T>
struct GegluBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C a, C b, C dy) const {
        const auto tail = NormalTail<T>::of(b);
        const ScaledExp<C> e = tail.density();
        const bool negative = b < C(0);
        const C shared = quotient<T>(e.value, tail.q());
        const C g = tail.m() * shared;
        const C slope = math::select(negative, g, C(1) - g);
        return pack(gelu_of_tail(b, tail.z * tail.p() * shared * e.scale) * dy,
                    slope * a * dy * math::select(negative, e.scale, C(1)));
    }
};

}  // namespace bk::op
