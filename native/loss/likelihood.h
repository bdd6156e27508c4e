// Losses that are negative logarithms of likelihoods.
#pragma once

#include <cstdint>

#include "core/math/math.h"
#include "core/platform.h"
#include "core/pointwise/cases.h"
#include "core/types/dtype.h"

namespace bk {

// 1 / (1 + exp(-x)), without overflow.
template <class T>
BK_HD compute_t<T> logistic(compute_t<T> x) {
    using C = compute_t<T>;
    const C e = math::exp<T>(-math::fabs<C>(x));
    return math::select(x < C(0), e, C(1)) / (C(1) + e);
}

// a b, and 0 where a is, whatever b.
template <class C>
BK_HD C share(C a, C b) {
    return math::select(a == C(0), C(0), a * b);
}

// Of x, a logit: -log of the likelihood of the share `target` of ones.
template <class T>
BK_HD compute_t<T> bce_of_logit(compute_t<T> x, compute_t<T> target) {
    using C = compute_t<T>;
    const C straight = x * math::select(x > C(0), C(1) - target, -target);
    return straight + math::log1p<T>(math::exp<T>(-math::fabs<C>(x)));
}

// Logarithms are bounded by -100 below, and the gradient's divisor by 1e-12: a probability of 0 or 1 has finite ones.
struct Bce {
    template <class T>
    struct Term {
        using C = compute_t<T>;
        static BK_HD C bounded(C x) { return math::select(x < C(-100), C(-100), x); }
        BK_HD C operator()(C pred, C target) const {
            return (target - C(1)) * bounded(math::log1p<T>(-pred)) - target * bounded(math::log<T>(pred));
        }
    };
    template <class T>
    struct Gradient {
        using C = compute_t<T>;
        C factor;
        BK_HD C operator()(C pred, C target, C dy) const {
            const C spread = (C(1) - pred) * pred;
            return (pred - target) / math::select(spread < C(1e-12), C(1e-12), spread) * (dy * factor);
        }
    };
    template <class T>
    static Term<T> term() {
        return {};
    }
    template <class T>
    static Gradient<T> gradient(compute_t<T> factor) {
        return {factor};
    }
};

struct BceWithLogits {
    template <class T>
    struct Term {
        using C = compute_t<T>;
        BK_HD C operator()(C x, C target) const { return bce_of_logit<T>(x, target); }
    };
    template <class T>
    struct Gradient {
        using C = compute_t<T>;
        C factor;
        BK_HD C operator()(C x, C target, C dy) const { return (logistic<T>(x) - target) * (dy * factor); }
    };
    template <class T>
    static Term<T> term() {
        return {};
    }
    template <class T>
    static Gradient<T> gradient(compute_t<T> factor) {
        return {factor};
    }
};

// Of logarithms of probabilities; so are the targets where the flag is set. A target of no probability adds nothing.
struct KlDiv {
    template <class T>
    struct Term {
        using C = compute_t<T>;
        int32_t is_log;
        template <class F, class Body>
        static BK_HD void each_case(const F& f, const Body& body) {
            each_value(f, &F::is_log, body);
        }
        BK_HD C operator()(C pred, C target) const {
            return is_log ? share(math::exp<T>(target), target - pred)
                          : math::select(target <= C(0), C(0), target * (math::log<T>(target) - pred));
        }
    };
    template <class T>
    struct Gradient {
        using C = compute_t<T>;
        C factor;
        int32_t is_log;
        template <class F, class Body>
        static BK_HD void each_case(const F& f, const Body& body) {
            each_value(f, &F::is_log, body);
        }
        BK_HD C operator()(C target, C dy) const {
            const C probability = is_log ? math::exp<T>(target) : target;
            return math::select(probability <= C(0), C(0), -probability * (dy * factor));
        }
    };
    template <class T>
    static Term<T> term(int32_t flag = 0) {
        return {flag};
    }
    template <class T>
    static Gradient<T> gradient(compute_t<T> factor, int32_t flag = 0) {
        return {factor, flag};
    }
};

// log(t!) of a count by Stirling's formula, t log(t) - t + log(2 pi t) / 2; 0 up to 1.
template <class T>
BK_HD compute_t<T> log_factorial(compute_t<T> t) {
    using C = compute_t<T>;
    const C value = (t + C(0.5)) * math::log<T>(t) - t + C(0.91893853320467274178);
    return math::select(t <= C(1), C(0), value);
}

// Of a rate, to which eps is added, or of its logarithm where the flag is set.
struct PoissonNll {
    template <class T>
    struct Term {
        using C = compute_t<T>;
        int32_t is_log, is_full;
        C eps;
        template <class F, class Body>
        static BK_HD void each_case(const F& f, const Body& body) {
            each_value(f, &F::is_log, [&](const F& known) { each_value(known, &F::is_full, body); });
        }
        BK_HD C operator()(C x, C target) const {
            const C cost = is_log ? math::exp<T>(x) - share(target, x) : x - share(target, math::log<T>(x + eps));
            return is_full ? cost + log_factorial<T>(target) : cost;
        }
    };
    template <class T>
    struct Gradient {
        using C = compute_t<T>;
        C factor, eps;
        int32_t is_log;
        template <class F, class Body>
        static BK_HD void each_case(const F& f, const Body& body) {
            each_value(f, &F::is_log, body);
        }
        BK_HD C operator()(C x, C target, C dy) const {
            return (is_log ? math::exp<T>(x) - target : C(1) - share(target, C(1) / (x + eps))) * (dy * factor);
        }
    };
    template <class T>
    static Term<T> term(int32_t is_log, int32_t is_full = 0, double eps = 0) {
        return {is_log, is_full, compute_t<T>(eps)};
    }
    template <class T>
    static Gradient<T> gradient(compute_t<T> factor, int32_t is_log, double eps = 0) {
        return {factor, compute_t<T>(eps), is_log};
    }
};

// A variance, bounded below; NaN stays.
template <class C>
BK_HD C bounded_variance(C var, C least) {
    return math::select(var < least, least, var);
}

struct GaussianNll {
    template <class T>
    struct Term {
        using C = compute_t<T>;
        C least, constant;
        BK_HD C operator()(C x, C target, C var) const {
            const C v = bounded_variance(var, least), d = x - target;
            return C(0.5) * (math::log<T>(v) + d * d / v) + constant;
        }
    };
    template <class T>
    struct Gradient {
        using C = compute_t<T>;
        C factor, least;
        BK_HD C operator()(C x, C target, C var, C dy) const {
            return (x - target) / bounded_variance(var, least) * (dy * factor);
        }
    };
    template <class T>
    static Term<T> term(double eps, int32_t is_full = 0) {
        return {compute_t<T>(eps), is_full ? compute_t<T>(0.91893853320467274178) : compute_t<T>(0)};  // log(2 pi) / 2
    }
    template <class T>
    static Gradient<T> gradient(compute_t<T> factor, double eps) {
        return {factor, compute_t<T>(eps)};
    }
};

}  // namespace bk
