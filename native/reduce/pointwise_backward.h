// SPDX-License-Identifier: Apache-2.0
// Gradients of reductions that are functions of an element, its result and that result's gradient.
#pragma once

#include <cmath>

#include "core/math/half_power.h"
#include "core/math/math.h"
#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk::op {

template <class T>
struct ReduceSumBackward {
    static constexpr bool takes_bits = true;
    template <class Bits>
    BK_HD Bits operator()(Bits dy) const {
        return dy;
    }
};

template <class T>
struct ReduceMeanBackward {
    using C = compute_t<T>;
    C inv_extent;
    BK_HD C operator()(C dy) const { return dy * inv_extent; }
};

// The gradient of a norm of 0 is 0.
template <class T>
struct ReduceNorm2Backward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x, C y) const { return math::select(y == C(0), C(0), dy * (x / y)); }
};

// dy sign(x) (|x| / y)^(p - 1), and 0 for an element of 0, for finite p.
template <class T>
struct ReduceNormPBackward {
    using C = compute_t<T>;
    C p, less;
    BK_HD C operator()(C dy, C x, C y) const {
        if (p == C(0)) return C(0);
        const C ratio = x / y, size = math::fabs<C>(ratio);
        const C sign = math::select(x < C(0), -dy, math::select(x > C(0), dy, x));
        const C slope = p == C(1)   ? sign
                        : p == C(2) ? dy * ratio
                        : p == C(3) ? sign * (size * size)
                                    : sign * math::pow<T>(size, less);
        return math::select(x == C(0), C(0), slope);
    }
};

// A row whose elements are all -inf has y = -inf, and no element moves it: its gradient is 0.
template <class T>
struct ReduceLogsumexpBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x, C y) const { return math::select(y == -C(INFINITY), C(0), dy * math::exp<T>(x - y)); }
};

}  // namespace bk::op
