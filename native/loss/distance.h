// SPDX-License-Identifier: Apache-2.0
// Losses of d = prediction - target: squared error, absolute error, smooth L1 and Huber, all quadratic up to a
// threshold and linear beyond it.
#pragma once

#include <limits>

#include "core/math/math.h"
#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk {

// square d^2 for |d| < threshold, else slope |d| - shift.
template <class T>
struct DistanceForward {
    using C = compute_t<T>;
    C threshold, square, slope, shift;
    BK_HD C operator()(C pred, C target) const {
        const C d = pred - target, abs_d = math::fabs<C>(d);
        return math::select(abs_d >= threshold, slope * abs_d - shift, square * d * d);
    }
};

// dpred = dy grad_scale times inner_scale d for |d| < threshold, else slope sign(d). inner_scale 0: 0 for NaN, too.
template <class T>
struct DistanceGradient {
    using C = compute_t<T>;
    C threshold, inner_scale, slope, grad_scale;
    BK_HD C operator()(C pred, C target, C dy) const {
        const C d = pred - target;
        const C sign = static_cast<C>(static_cast<int32_t>(d > C(0)) - static_cast<int32_t>(d < C(0)));
        const C inner_slope = math::select(inner_scale == C(0), C(0), inner_scale * d);
        return math::select(math::fabs<C>(d) >= threshold, slope * sign, inner_slope) * (dy * grad_scale);
    }
};

template <class T>
constexpr compute_t<T> kInfinite = std::numeric_limits<compute_t<T>>::infinity();

struct Mse {
    template <class T>
    static DistanceForward<T> forward() {
        return {kInfinite<T>, 1, 1, 0};
    }
    template <class T>
    static DistanceGradient<T> gradient(compute_t<T> grad_scale) {
        return {kInfinite<T>, 2, kInfinite<T>, grad_scale};
    }
};

struct L1 {
    template <class T>
    static DistanceForward<T> forward() {
        return {0, 1, 1, 0};
    }
    template <class T>
    static DistanceGradient<T> gradient(compute_t<T> grad_scale) {
        return {0, 0, 1, grad_scale};
    }
};

struct SmoothL1 {
    template <class T>
    static DistanceForward<T> forward(double beta) {
        const compute_t<T> b = beta;
        return {b, compute_t<T>(0.5) / b, 1, b / 2};
    }
    template <class T>
    static DistanceGradient<T> gradient(compute_t<T> grad_scale, double beta) {
        return {compute_t<T>(beta), 1 / compute_t<T>(beta), 1, grad_scale};
    }
};

struct Huber {
    template <class T>
    static DistanceForward<T> forward(double delta) {
        const compute_t<T> d = delta;
        return {d, compute_t<T>(0.5), d, d * d / 2};
    }
    template <class T>
    static DistanceGradient<T> gradient(compute_t<T> grad_scale, double delta) {
        return {compute_t<T>(delta), 1, compute_t<T>(delta), grad_scale};
    }
};

}  // namespace bk
