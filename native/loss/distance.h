// Losses of the difference of prediction and target: a parabola about 0, straight beyond a bound.
#pragma once

#include <limits>

#include "core/math/math.h"
#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk {

// square d^2 for |d| < bound, else slope |d| - shift.
template <class T>
struct DistanceTerm {
    using C = compute_t<T>;
    C bound, square, slope, shift;
    BK_HD C operator()(C pred, C target) const {
        const C d = pred - target, size = math::fabs<C>(d);
        return math::select(size >= bound, slope * size - shift, square * d * d);
    }
};

// twice d for |d| < bound, else slope sign(d); times the factor dy. Where `twice` is 0 the gradient is, of NaN too.
template <class T>
struct DistanceGradient {
    using C = compute_t<T>;
    C bound, twice, slope, factor;
    BK_HD C operator()(C pred, C target, C dy) const {
        const C d = pred - target;
        const C sign = static_cast<C>(static_cast<int32_t>(d > C(0)) - static_cast<int32_t>(d < C(0)));
        const C near = math::select(twice == C(0), C(0), twice * d);
        return math::select(math::fabs<C>(d) >= bound, slope * sign, near) * (dy * factor);
    }
};

template <class T>
constexpr compute_t<T> kInfinite = std::numeric_limits<compute_t<T>>::infinity();

struct Mse {
    template <class T>
    static DistanceTerm<T> term() {
        return {kInfinite<T>, 1, 1, 0};
    }
    template <class T>
    static DistanceGradient<T> gradient(compute_t<T> factor) {
        return {kInfinite<T>, 2, kInfinite<T>, factor};
    }
};

struct L1 {
    template <class T>
    static DistanceTerm<T> term() {
        return {0, 1, 1, 0};
    }
    template <class T>
    static DistanceGradient<T> gradient(compute_t<T> factor) {
        return {0, 0, 1, factor};
    }
};

struct SmoothL1 {
    template <class T>
    static DistanceTerm<T> term(double beta) {
        const compute_t<T> b = beta;
        return {b, compute_t<T>(0.5) / b, 1, b / 2};
    }
    template <class T>
    static DistanceGradient<T> gradient(compute_t<T> factor, double beta) {
        return {compute_t<T>(beta), 1 / compute_t<T>(beta), 1, factor};
    }
};

struct Huber {
    template <class T>
    static DistanceTerm<T> term(double delta) {
        const compute_t<T> d = delta;
        return {d, compute_t<T>(0.5), d, d * d / 2};
    }
    template <class T>
    static DistanceGradient<T> gradient(compute_t<T> factor, double delta) {
        return {compute_t<T>(delta), 1, compute_t<T>(delta), factor};
    }
};

}  // namespace bk
