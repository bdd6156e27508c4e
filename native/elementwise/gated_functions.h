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
    BK_HD C operator()(C a, C b) const {
        const ScaledExp<T> e = scaled_exp<T>(-math::fabs<T>(b));
        return a * logistic<T>(b < C(0), e.value) * scale_if<T>(b < C(0), e.scale);
    }
};

// sigmoid' = s (1 - s) = e / (1 + e)^2 with e = exp(-|b|)
template <class T>
struct GluBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C a, C b, C dy) const {
        const ScaledExp<T> e = scaled_exp<T>(-math::fabs<T>(b));
        const bool negative = b < C(0);
        const C slope = carried_quotient<T>(e.value, carried_square<T>(one_plus<T>(e.value)));
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
    BK_HD C operator()(C a, C b) const {
        const auto d = Decay<T>::of(b);
        const bool negative = b < C(0);
        return a * math::select(negative, -d.z, b) * logistic<T>(negative, d.e.value) * scale_if<T>(negative, d.e.scale);
    }
};

template <class T>
struct SwigluBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C a, C b, C dy) const {
        const auto d = Decay<T>::of(b);
        const bool negative = b < C(0);
        const C scale = scale_if<T>(negative, d.e.scale);
        return pack(dy * math::select(negative, -d.z, b) * logistic<T>(negative, d.e.value) * scale,
                    silu_slope<T>(negative, d, a) * dy * scale);
    }
};

template <class T>
struct Geglu {
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b) const {
        const auto normal = NormalTail<T>::of(b);
        return gelu_times<T>(a, b, normal, normal.density());
    }
};

template <class T>
struct GegluBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C a, C b, C dy) const {
        const auto normal = NormalTail<T>::of(b);
        const ScaledExp<T> e = normal.density();
        return pack(gelu_times<T>(dy, b, normal, e), gelu_slope<T>(b, normal, e) * a * dy * scale_if<T>(b < C(0), e.scale));
    }
};

}  // namespace bk::op
