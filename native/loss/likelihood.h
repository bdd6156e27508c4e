// SPDX-License-Identifier: Apache-2.0
// Elementwise negative log-likelihoods: Bernoulli (binary cross entropy, of probabilities or logits), Poisson,
// Gaussian; and the Kullback-Leibler divergence.
#pragma once

#include <cstdint>

#include "core/math/math.h"
#include "core/platform.h"
#include "core/pointwise/cases.h"
#include "core/types/dtype.h"

namespace bk {

// sigmoid(x) = 1 / (1 + exp(-x)), without overflow.
template <class T>
BK_HD compute_t<T> logistic(compute_t<T> x) {
    using C = compute_t<T>;
    const C e = math::exp<T>(-math::fabs<C>(x));
    return math::select(x < C(0), e, C(1)) / (C(1) + e);
}

// a b, but 0 if a is 0, even if b is NaN or infinite.
template <class C>
BK_HD C multiply_no_nan(C a, C b) {
    return math::select(a == C(0), C(0), a * b);
}

// -target log(sigmoid(x)) - (1 - target) log(1 - sigmoid(x)), without overflow or cancellation.
template <class T>
BK_HD compute_t<T> bce_with_logit(compute_t<T> x, compute_t<T> target) {
    using C = compute_t<T>;
    const C linear = x * math::select(x > C(0), C(1) - target, -target);
    return linear + math::log1p<T>(math::exp<T>(-math::fabs<C>(x)));
}

// Logarithms are at least -100 and the gradient's divisor 1e-12, as in PyTorch: finite for probabilities 0 and 1.
struct Bce {
    template <class T>
    struct Forward {
        using C = compute_t<T>;
        static BK_HD C clamp_log(C x) { return math::select(x < C(-100), C(-100), x); }
        BK_HD C operator()(C pred, C target) const {
            return (target - C(1)) * clamp_log(math::log1p<T>(-pred)) - target * clamp_log(math::log<T>(pred));
        }
    };
    template <class T>
    struct Gradient {
        using C = compute_t<T>;
        C grad_scale;
        BK_HD C operator()(C pred, C target, C dy) const {
            const C variance = (C(1) - pred) * pred;
            return (pred - target) / math::select(variance < C(1e-12), C(1e-12), variance) * (dy * grad_scale);
        }
    };
    template <class T>
    static Forward<T> forward() {
        return {};
    }
    template <class T>
    static Gradient<T> gradient(compute_t<T> grad_scale) {
        return {grad_scale};
    }
};

struct BceWithLogits {
    template <class T>
    struct Forward {
        using C = compute_t<T>;
        BK_HD C operator()(C x, C target) const { return bce_with_logit<T>(x, target); }
    };
    template <class T>
    struct Gradient {
        using C = compute_t<T>;
        C grad_scale;
        BK_HD C operator()(C x, C target, C dy) const { return (logistic<T>(x) - target) * (dy * grad_scale); }
    };
    template <class T>
    static Forward<T> forward() {
        return {};
    }
    template <class T>
    static Gradient<T> gradient(compute_t<T> grad_scale) {
        return {grad_scale};
    }
};

// target (log(target) - pred), pred being log-probabilities, and the targets too if is_log. A target of 0 adds nothing.
struct KlDiv {
    template <class T>
    struct Forward {
        using C = compute_t<T>;
        int32_t is_log;
        template <class F, class Body>
        static BK_HD void each_case(const F& f, const Body& body) {
            each_value(f, &F::is_log, body);
        }
        BK_HD C operator()(C pred, C target) const {
            return is_log ? multiply_no_nan(math::exp<T>(target), target - pred)
                          : math::select(target <= C(0), C(0), target * (math::log<T>(target) - pred));
        }
    };
    template <class T>
    struct Gradient {
        using C = compute_t<T>;
        C grad_scale;
        int32_t is_log;
        template <class F, class Body>
        static BK_HD void each_case(const F& f, const Body& body) {
            each_value(f, &F::is_log, body);
        }
        BK_HD C operator()(C target, C dy) const {
            const C probability = is_log ? math::exp<T>(target) : target;
            return math::select(probability <= C(0), C(0), -probability * (dy * grad_scale));
        }
    };
    template <class T>
    static Forward<T> forward(int32_t flag = 0) {
        return {flag};
    }
    template <class T>
    static Gradient<T> gradient(compute_t<T> grad_scale, int32_t flag = 0) {
        return {grad_scale, flag};
    }
};

// log(t!) by Stirling's formula, t log(t) - t + log(2 pi t) / 2; 0 for t <= 1.
template <class T>
BK_HD compute_t<T> log_factorial(compute_t<T> t) {
    using C = compute_t<T>;
    const C value = (t + C(0.5)) * math::log<T>(t) - t + C(0.91893853320467274178);
    return math::select(t <= C(1), C(0), value);
}

// x - target log(x + eps) of a rate x, or exp(x) - target x if x is its logarithm (is_log); is_full adds log(target!).
struct PoissonNll {
    template <class T>
    struct Forward {
        using C = compute_t<T>;
        int32_t is_log, is_full;
        C eps;
        template <class F, class Body>
        static BK_HD void each_case(const F& f, const Body& body) {
            each_value(f, &F::is_log, [&](const F& f_log) { each_value(f_log, &F::is_full, body); });
        }
        BK_HD C operator()(C x, C target) const {
            const C loss =
                is_log ? math::exp<T>(x) - multiply_no_nan(target, x) : x - multiply_no_nan(target, math::log<T>(x + eps));
            return is_full ? loss + log_factorial<T>(target) : loss;
        }
    };
    template <class T>
    struct Gradient {
        using C = compute_t<T>;
        C grad_scale, eps;
        int32_t is_log;
        template <class F, class Body>
        static BK_HD void each_case(const F& f, const Body& body) {
            each_value(f, &F::is_log, body);
        }
        BK_HD C operator()(C x, C target, C dy) const {
            return (is_log ? math::exp<T>(x) - target : C(1) - multiply_no_nan(target, C(1) / (x + eps))) * (dy * grad_scale);
        }
    };
    template <class T>
    static Forward<T> forward(int32_t is_log, int32_t is_full = 0, double eps = 0) {
        return {is_log, is_full, compute_t<T>(eps)};
    }
    template <class T>
    static Gradient<T> gradient(compute_t<T> grad_scale, int32_t is_log, double eps = 0) {
        return {grad_scale, compute_t<T>(eps), is_log};
    }
};

// max(var, eps); NaN stays NaN.
template <class C>
BK_HD C clamp_variance(C var, C eps) {
    return math::select(var < eps, eps, var);
}

struct GaussianNll {
    template <class T>
    struct Forward {
        using C = compute_t<T>;
        C eps, constant;
        BK_HD C operator()(C x, C target, C var) const {
            const C v = clamp_variance(var, eps), d = x - target;
            return C(0.5) * (math::log<T>(v) + d * d / v) + constant;
        }
    };
    template <class T>
    struct Gradient {
        using C = compute_t<T>;
        C grad_scale, eps;
        BK_HD C operator()(C x, C target, C var, C dy) const {
            return (x - target) / clamp_variance(var, eps) * (dy * grad_scale);
        }
    };
    template <class T>
    static Forward<T> forward(double eps, int32_t is_full = 0) {
        return {compute_t<T>(eps), is_full ? compute_t<T>(0.91893853320467274178) : compute_t<T>(0)};  // log(2 pi) / 2
    }
    template <class T>
    static Gradient<T> gradient(compute_t<T> grad_scale, double eps) {
        return {grad_scale, compute_t<T>(eps)};
    }
};

}  // namespace bk
