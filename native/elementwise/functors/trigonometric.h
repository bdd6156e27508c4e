// SPDX-License-Identifier: Apache-2.0
// Circular and hyperbolic functions and their inverses, with gradients.
#pragma once

#include "core/math/math.h"
#include "core/math/sinh_ratio.h"
#include "core/platform.h"
#include "core/types/dtype.h"
#include "elementwise/tune.h"

namespace bk::op {

// Rare-input hooks of angle functions for the CPU's pointwise loops.
template <class T>
struct OfAngle {
    static constexpr bool has_rare = math::kHasRareAngles<T>;
    static BK_HD bool is_rare(compute_t<T> x) { return math::is_rare_angle<T>(x); }
    static BK_HD bool is_rare(compute_t<T>, compute_t<T> x) { return math::is_rare_angle<T>(x); }
};

template <class T>
struct Sin : OfAngle<T> {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::sin<T>(x); }
    BK_HD C of_rare(C x) const { return math::sin_of_any<T>(x); }
};

template <class T>
struct SinBackward : OfAngle<T> {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const { return dy * math::cos<T>(x); }
    BK_HD C of_rare(C dy, C x) const { return dy * math::cos_of_any<T>(x); }
};

template <class T>
struct Cos : OfAngle<T> {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::cos<T>(x); }
    BK_HD C of_rare(C x) const { return math::cos_of_any<T>(x); }
};

template <class T>
struct CosBackward : OfAngle<T> {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const { return -dy * math::sin<T>(x); }
    BK_HD C of_rare(C dy, C x) const { return -dy * math::sin_of_any<T>(x); }
};

template <class T>
struct Tan : OfAngle<T> {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::tan<T>(x); }
    BK_HD C of_rare(C x) const { return math::tan_of_any<T>(x); }
};

template <class T>
struct TanBackward : OfAngle<T> {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const { return dy * math::secant_square<T>(x); }
    BK_HD C of_rare(C dy, C x) const { return dy * math::secant_square_of_any<T>(x); }
};

template <class T>
struct Asin {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::asin<T>(x); }
};

// 1 - x^2 as a product, which does not cancel near 1.
template <class T>
struct AsinBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const { return dy / math::sqrt<T>((C(1) - x) * (C(1) + x)); }
};

template <class T>
struct Acos {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::acos<T>(x); }
};

template <class T>
struct AcosBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const { return -AsinBackward<T>()(dy, x); }
};

template <class T>
struct Atan {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::atan<T>(x); }
};

// Power of two s that keeps (s x)^2 finite for large x; otherwise 1.
template <class C>
BK_HD C scale_of_large(C x) {
    const bool large = math::fabs<C>(x) > (sizeof(C) == 8 ? C(0x1p500) : C(0x1p60));
    return math::select(large, sizeof(C) == 8 ? C(0x1p-600) : C(0x1p-90), C(1));
}

// dy / (1 + x^2) = ((dy s) / (s^2 + (s x)^2)) s
template <class T>
struct AtanBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        const C s = scale_of_large(x), z = x * s;
        return dy * s / math::fma(z, z, s * s) * s;
    }
};

template <class T>
struct Sinh {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::sinh<T>(x); }
};

template <class T>
struct Cosh {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::cosh<T>(x); }
};

// sinh or cosh of x times dy if the function may overflow but not the product: the function of argument = |x| - k ln 2
// with the sign of x, times 2^k e^excess. k ln 2 is subtracted exactly without its last bits, which form the excess.
template <class T>
struct HyperbolicShift {
    using C = compute_t<T>;
    C argument, excess, first, second;  // first * second = 2^k
    BK_HD explicit HyperbolicShift(C x) {
        constexpr bool kDouble = sizeof(C) == 8;
        constexpr C kShift = kDouble ? C(0x1.0a2b23f3bab74p+9) : C(0x1.0a2b24p+6);  // 768 ln 2 and 96 ln 2 in few bits
        constexpr C kExcess = kDouble ? C(6.745484876087244e-14) : C(1.8284681279594572e-07);
        constexpr C kPower = kDouble ? C(0x1p768) : C(0x1p96);
        const C size = math::fabs<T>(x);
        const bool large = size > (kDouble ? C(705) : C(88)), larger = size > (kDouble ? C(1230) : C(155));
        const C times = math::select(larger, C(2), math::select(large, C(1), C(0)));
        argument = math::copysign<T>(size - times * kShift, x);
        excess = times * kExcess;
        first = math::select(large, kPower, C(1));
        second = math::select(larger, kPower, C(1));
    }
    BK_HD C product(C dy, C value) const { return dy * first * math::fma(value, excess, value) * second; }
};

// Gradients of 16-bit types: cosh(x) / 2^(2 k) and sinh(x) / 2^(2 k), k = 96 for large x, else 0.
template <class T>
struct HalfHyperbolic {
    float cosh, sinh, scale;  // scale = 2^k
    BK_HD explicit HalfHyperbolic(float x) {
        const float size = math::fabs<T>(x), z = x * x;
        const bool large = size > 80.0f;
        const float e = math::exp2<T>(math::fma(size, 1.44269504f, math::select(large, -193.0f, -1.0f)));
        const float inverse = math::select(large, 0.0f, 0.25f * math::reciprocal<T>(e));
        const float series = x * math::sinh_ratio(z);
        cosh = e + inverse;
        sinh = math::select(size < 0.5f, series, math::copysign<T>(e - inverse, x));
        scale = math::select(large, 0x1p96f, 1.0f);
    }
    BK_HD float product(float dy, float value) const { return dy * scale * value * scale; }
};

template <class T>
struct SinhBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        if constexpr (math::kIsHalf<T>) {
            const HalfHyperbolic<T> h(x);
            return h.product(dy, h.cosh);
        } else {
            const HyperbolicShift<T> shift(x);
            return shift.product(dy, math::cosh<T>(shift.argument));
        }
    }
};

template <class T>
struct CoshBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        if constexpr (math::kIsHalf<T>) {
            const HalfHyperbolic<T> h(x);
            return h.product(dy, h.sinh);
        } else {
            const HyperbolicShift<T> shift(x);
            return shift.product(dy, math::sinh<T>(shift.argument));
        }
    }
};

template <class T>
struct Tanh {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::tanh<T>(x); }
};

template <class T>
struct TanhBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C y) const { return dy * math::fma(-y, y, C(1)); }
};

template <class T>
struct Asinh {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::asinh<T>(x); }
};

// Above 2^30 the 1 is below half an ulp of x^2, whose root is |x|.
template <class T>
struct AsinhBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        const C size = math::fabs<T>(x);
        return dy / math::select(size > C(0x1p30), size, math::sqrt<T>(math::fma(x, x, C(1))));
    }
};

template <class T>
struct Acosh {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::acosh<T>(x); }
};

template <class T>
struct AcoshBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        const C size = math::fabs<T>(x);
        return dy / math::select(size > C(0x1p30), size, math::sqrt<T>((size - C(1)) * (size + C(1))));
    }
};

template <class T>
struct Atanh {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::atanh<T>(x); }
};

// dy / (1 - x^2) = ((dy s) / ((s - s x) (s + s x))) s
template <class T>
struct AtanhBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        const C s = scale_of_large(x), z = x * s;
        return dy * s / ((s - z) * (s + z)) * s;
    }
};

}  // namespace bk::op
