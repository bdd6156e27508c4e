// SPDX-License-Identifier: Apache-2.0
// Exponentials and logarithms, with gradients.
#pragma once

#include "core/math/math.h"
#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk::op {

template <class T>
struct Exp {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::exp<T>(x); }
};

template <class T>
struct ExpBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C y) const { return dy * y; }
};

template <class T>
struct Exp2 {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::exp2<T>(x); }
};

// ln 2 multiplies the factor that is not subnormal unless the result is.
template <class T>
struct Exp2Backward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C y) const {
        constexpr C kLn2 = C(0.6931471805599453);
        const bool small = math::fabs<T>(y) < C(1);
        return math::select(small, dy * kLn2, dy) * math::select(small, y, y * kLn2);
    }
};

template <class T>
struct Expm1 {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::expm1<T>(x); }
};

template <class T>
struct Expm1Backward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C y) const { return dy * (y + C(1)); }
};

template <class T>
struct Log {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::log<T>(x); }
};

template <class T>
struct LogBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const { return dy / x; }
};

template <class T>
struct Log2 {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::log2<T>(x); }
};

// 1 / ln 2 > 1 is applied last: x ln 2 would lose bits for subnormal x.
template <class T>
struct Log2Backward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const { return dy / x * C(1.4426950408889634); }
};

template <class T>
struct Log10 {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::log10<T>(x); }
};

// 1 / ln 10 < 1 is applied first, so that dy / x overflows only if the result does; last for small dy, whose product
// might be subnormal.
template <class T>
struct Log10Backward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        constexpr C kFactor = C(0.4342944819032518);
        const bool first = math::fabs<T>(dy) > (sizeof(C) == 8 ? C(0x1p-500) : C(0x1p-60));
        return math::select(first, dy * kFactor, dy) / x * math::select(first, C(1), kFactor);
    }
};

template <class T>
struct Log1p {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::log1p<T>(x); }
};

template <class T>
struct Log1pBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const { return dy / (C(1) + x); }
};

}  // namespace bk::op
