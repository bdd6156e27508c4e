// SPDX-License-Identifier: Apache-2.0
// Piecewise linear activations, and hardswish, with their gradients.
#pragma once

#include "core/math/math.h"
#include "core/types/dtype.h"

namespace bk::op {

// x for x > 0, else +0; NaN gives 0.
template <class T>
struct Relu {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::select(x > C(0), x, C(0)); }
};

template <class T>
struct ReluBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const { return math::select(x > C(0), dy, C(0)); }
};

// 0 for x < 0, else x; NaN passes.
template <class T>
struct ReluPropagating {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::select(x < C(0), C(0), x); }
};

template <class T>
struct ReluPropagatingBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const { return math::select(x > C(0), dy, math::select(x <= C(0), C(0), x)); }
};

template <class T>
struct Relu6 {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::min(C(6), math::max(C(0), x)); }
};

template <class T>
struct Relu6Backward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const { return math::select((x > C(0)) & (x < C(6)), dy, C(0)); }
};

template <class T>
struct Hardtanh {
    using C = compute_t<T>;
    C p0 = C(-1);
    C p1 = C(1);
    BK_HD C operator()(C x) const { return math::min(p1, math::max(p0, x)); }
};

template <class T>
struct HardtanhBackward {
    using C = compute_t<T>;
    C p0 = C(-1);
    C p1 = C(1);
    BK_HD C operator()(C dy, C x) const { return math::select((x > p0) & (x < p1), dy, C(0)); }
};

// x / 6, rounded once except for 16-bit types, whose own rounding hides the product's error.
template <class T>
BK_HD compute_t<T> sixth(compute_t<T> x) {
    using C = compute_t<T>;
    if constexpr (math::kIsHalf<T>)
        return x * C(1.0 / 6.0);
    else
        return x / C(6);
}

// min(max(x + 3, 0), 6) / 6
template <class T>
struct Hardsigmoid {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return sixth<T>(math::min(C(6), math::max(C(0), x + C(3)))); }
};

template <class T>
struct HardsigmoidBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const { return math::select((x > C(-3)) & (x < C(3)), sixth<T>(dy), C(0)); }
};

// x hardsigmoid(x); clamped to -3 from below, so that -inf gives 0.
template <class T>
struct Hardswish {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const {
        const C z = math::max(C(-3), x);
        return z * sixth<T>(math::min(C(6), z + C(3)));
    }
};

template <class T>
struct HardswishBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        const C inside = sixth<T>(math::fma(C(2), x, C(3))) * dy;
        return math::select(x <= C(-3), C(0), math::select(x >= C(3), dy, inside));
    }
};

template <class T>
struct LeakyRelu {
    using C = compute_t<T>;
    C p0 = C(0.01);
    BK_HD C operator()(C x) const { return math::select(x > C(0), x, p0 * x); }
};

template <class T>
struct LeakyReluBackward {
    using C = compute_t<T>;
    C p0 = C(0.01);
    BK_HD C operator()(C dy, C x) const { return math::select(x > C(0), dy, p0 * dy); }
};

// x for |x| > p0, else +0; NaN passes.
template <class T>
struct Hardshrink {
    using C = compute_t<T>;
    C p0 = C(0.5);
    BK_HD C operator()(C x) const { return math::select(math::fabs<T>(x) <= p0, C(0), x); }
};

template <class T>
struct HardshrinkBackward {
    using C = compute_t<T>;
    C p0 = C(0.5);
    BK_HD C operator()(C dy, C x) const { return math::select(math::fabs<T>(x) > p0, dy, C(0)); }
};

// x - p0 for x > p0, x + p0 for x < -p0, else +0; NaN passes.
template <class T>
struct Softshrink {
    using C = compute_t<T>;
    C p0 = C(0.5);
    BK_HD C operator()(C x) const {
        const C outside = math::select(x > p0, x - p0, x + p0);
        return math::select((x <= p0) & (x >= -p0), C(0), outside);
    }
};

template <class T>
struct SoftshrinkBackward {
    using C = compute_t<T>;
    C p0 = C(0.5);
    BK_HD C operator()(C dy, C x) const { return math::select(math::fabs<T>(x) > p0, dy, C(0)); }
};

// 1 for x > 0, else 0; NaN gives 0.
template <class T>
struct Step {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::select(x > C(0), C(1), C(0)); }
};

template <class T>
struct StepBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C, C) const { return C(0); }
};

// x for x > p0, else p1; NaN passes.
template <class T>
struct Threshold {
    using C = compute_t<T>;
    C p0 = C(0);
    C p1 = C(0);
    BK_HD C operator()(C x) const { return math::select((x > p0) | math::isnan(x), x, p1); }
};

template <class T>
struct ThresholdBackward {
    using C = compute_t<T>;
    C p0 = C(0);
    C p1 = C(0);
    BK_HD C operator()(C dy, C x) const { return math::select(x > p0, dy, C(0)); }
};

}  // namespace bk::op
