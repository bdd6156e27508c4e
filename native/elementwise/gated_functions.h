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
        const ScaledExp<T> e = scaled_exp<T>(-math::fabs<T>(b));
        const bool negative = b < C(0);
        const Pair<T> one = sum<T>(single<T>(C(1)), e.value);
        const C slope = quotient<T>(e.value, product<T>(one, one));
        return pack(logistic<T>(negative, e.value) * dy * scale_if<T>(negative, e.scale), slope * a * dy * e.scale);
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
        const auto d = Decay<T>::of(b);
        const bool negative = b < C(0);
        const C scale = scale_if<T>(negative, d.e.scale);
        return pack(math::select(negative, -d.z, b) * logistic<T>(negative, d.e.value) * dy * scale,
                    silu_slope<T>(negative, d) * a * dy * scale);
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
        const ScaledExp<T> e = tail.density();
        const bool negative = b < C(0);
        const C g = quotient<T>(product<T>(tail.m(), e.value), tail.q());
        const C slope = math::select(negative, g, C(1) - g);
        const auto n = product<T>(product<T>(single<T>(tail.z), tail.p()), e.value);
        return pack(gelu_of_tail(b, quotient<T>(n, tail.q()) * e.scale) * dy, slope * a * dy * scale_if<T>(negative, e.scale));
    }
};

}  // namespace bk::op
