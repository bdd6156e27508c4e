// SPDX-License-Identifier: Apache-2.0
// Gradients of losses with respect to targets and variances. Each functor's formula is multiplied by dy grad_scale.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/layout/layout.h"
#include "core/math/math.h"
#include "core/pointwise/cases.h"
#include "core/pointwise/pointwise.h"
#include "loss/bce_focal.h"
#include "loss/elementwise_loss.h"
#include "loss/likelihood.h"
#include "loss/reduction.h"

namespace bk {

// log(1 - pred) - log(pred), each at least -100, as in the loss.
template <class T>
struct BceTargetGradient {
    using C = compute_t<T>;
    C grad_scale;
    BK_HD C operator()(C pred, C dy) const {
        using Forward = Bce::Forward<T>;
        return (Forward::clamp_log(math::log1p<T>(-pred)) - Forward::clamp_log(math::log<T>(pred))) * (dy * grad_scale);
    }
};

// weight times BceTargetGradient.
template <class T>
struct WeightedProbabilityTargetGradient {
    using C = compute_t<T>;
    BroadcastWeight<C> weight;
    C grad_scale;

    struct Span {
        static constexpr bool has_rare = false;
        typename BroadcastWeight<C>::WeightSpan weight;
        int64_t count;
        C grad_scale;
        BK_HD C operator()(int64_t k, C pred, C dy) const { return weight(k) * BceTargetGradient<T>{grad_scale}(pred, dy); }
    };
    BK_HD Span at(int64_t i) const {
        const auto w = weight.at(i);
        return {w, w.count, grad_scale};
    }
};

// w (p softplus(-x) - softplus(x)) = w ((p - 1) softplus(-x) - x).
template <class T>
struct WeightedBceTargetGradient {
    using C = compute_t<T>;
    BroadcastWeight<C> weight, positive;
    C grad_scale;

    struct Span {
        static constexpr bool has_rare = false;
        typename BroadcastWeight<C>::WeightSpan weight, positive;
        int64_t count;
        C grad_scale;
        BK_HD C operator()(int64_t k, C x, C dy) const {
            const C excess = multiply_no_nan(positive(k) - C(1), Logit<T>::of(x).softplus_neg);
            return weight(k) * (excess - x) * (dy * grad_scale);
        }
    };
    BK_HD Span at(int64_t i) const {
        const auto w = weight.at(i), p = positive.at(i);
        return {w, p, w.count < p.count ? w.count : p.count, grad_scale};
    }
};

// log(target) + 1 - pred if target > 0, else 0; exp(target) (target + 1 - pred) for log-probabilities (is_log).
template <class T>
struct KlDivTargetGradient {
    using C = compute_t<T>;
    C grad_scale;
    int32_t is_log;
    template <class F, class Body>
    static BK_HD void each_case(const F& f, const Body& body) {
        each_value(f, &F::is_log, body);
    }
    BK_HD C operator()(C pred, C target, C dy) const {
        if (is_log) return multiply_no_nan(math::exp<T>(target), target - pred + C(1)) * (dy * grad_scale);
        return math::select(target <= C(0), C(0), (math::log<T>(target) - pred + C(1)) * (dy * grad_scale));
    }
};

template <class T>
struct PoissonTargetGradient {
    using C = compute_t<T>;
    C grad_scale;
    int32_t is_log;
    template <class F, class Body>
    static BK_HD void each_case(const F& f, const Body& body) {
        each_value(f, &F::is_log, body);
    }
    BK_HD C operator()(C x, C dy) const { return -(is_log ? x : math::log<T>(x)) * (dy * grad_scale); }
};

// -log(x + eps), or -x if is_log; is_full adds the derivative of log(t!), log(t) + 1 / (2 t), for t > 1.
template <class T>
struct FullPoissonTargetGradient {
    using C = compute_t<T>;
    C grad_scale, eps;
    int32_t is_log, is_full;
    template <class F, class Body>
    static BK_HD void each_case(const F& f, const Body& body) {
        each_value(f, &F::is_log, [&](const F& f_log) { each_value(f_log, &F::is_full, body); });
    }
    BK_HD C operator()(C x, C target, C dy) const {
        const C slope = -(is_log ? x : math::log<T>(x + eps));
        const C stirling_slope = math::select(target <= C(1), C(0), math::log<T>(target) + C(0.5) / target);
        return (is_full ? slope + stirling_slope : slope) * (dy * grad_scale);
    }
};

// (1 - (x - target)^2 / v) / (2 v) with v = max(var, eps), also for var < eps, as in PyTorch.
template <class T>
struct GaussianVarianceGradient {
    using C = compute_t<T>;
    C grad_scale, eps;
    BK_HD C operator()(C x, C target, C var, C dy) const {
        const C v = clamp_variance(var, eps), d = x - target;
        return C(0.5) * (C(1) - d * (d / v)) / v * (dy * grad_scale);
    }
};

// x2 - x1 if the loss is positive, else 0.
template <class T>
struct RankingTargetGradient {
    using C = compute_t<T>;
    C grad_scale, margin;
    BK_HD C operator()(C x1, C x2, C target, C dy) const {
        const C d = x2 - x1;
        return math::select(margin + target * d > C(0), d * (dy * grad_scale), C(0));
    }
};

// -x; grad_scale has the 1 / classes of the mean.
template <class T>
struct SoftMarginTargetGradient {
    using C = compute_t<T>;
    C grad_scale;
    BK_HD C operator()(C x, C dy) const { return -x * (dy * grad_scale); }
};

template <class T>
struct WeightedSoftMarginTargetGradient {
    using C = compute_t<T>;
    C grad_scale;
    BK_HD C operator()(C x, C weight, C dy) const { return -x * weight * (dy * grad_scale); }
};

template <class T>
struct BceTargetBackward {
    int64_t numel;
    int32_t reduction_mode;

    Status check() const { return check_loss({{"numel", numel}}, reduction_mode); }
    Work work() const { return all_or_none(numel); }
    int64_t results() const { return loss_numel(numel, reduction_mode); }
    Status run(const T* pred, const T* dy, T* dtarget, const Launch& launch) const {
        const BceTargetGradient<T> gradient{reduction_scale<compute_t<T>>(numel, reduction_mode)};
        return loss_gradients(launch, numel, reduction_mode, gradient, outputs(dtarget), inputs(pred, dy));
    }
};

template <class T>
struct WeightedProbabilitiesTargetBackward {
    using C = compute_t<T>;
    int64_t numel;
    int64_t weight_extent;
    int32_t reduction_mode;

    Status check() const { return check_weight(numel, weight_extent, reduction_mode); }
    Work work() const { return all_or_none(numel); }
    int64_t results() const { return loss_numel(numel, reduction_mode); }
    Status run(const T* pred, const C* weight, const T* dy, T* dtarget, const Launch& launch) const {
        const WeightedProbabilityTargetGradient<T> gradient{BroadcastWeight<C>::of(weight, weight_extent),
                                                            reduction_scale<C>(numel, reduction_mode)};
        return loss_gradients(launch, numel, reduction_mode, gradient, outputs(dtarget), inputs(pred, dy));
    }
};

template <class T>
struct WeightedBceTargetBackward {
    using C = compute_t<T>;
    int64_t numel;
    int64_t weight_extent;
    int64_t pos_weight_extent;
    int32_t reduction_mode;

    Status check() const { return check_weight_extents(numel, weight_extent, pos_weight_extent, reduction_mode); }
    Work work() const { return all_or_none(numel); }
    int64_t results() const { return loss_numel(numel, reduction_mode); }
    Status run(const T* logits, const C* weight, const C* pos_weight, const T* dy, T* dtarget, const Launch& launch) const {
        const WeightedBceTargetGradient<T> gradient{BroadcastWeight<C>::of(weight, weight_extent),
                                                    BroadcastWeight<C>::of(pos_weight, pos_weight_extent),
                                                    reduction_scale<C>(numel, reduction_mode)};
        return loss_gradients(launch, numel, reduction_mode, gradient, outputs(dtarget), inputs(logits, dy));
    }
};

template <class T>
struct KlDivTargetBackward {
    int64_t numel;
    int32_t reduction_mode;
    int64_t batch;
    int32_t log_target_flag;

    Status check() const { return KlDivBatch<T>::check_batch(numel, reduction_mode, batch); }
    Work work() const { return all_or_none(numel); }
    int64_t results() const { return loss_numel(numel, reduction_mode); }
    Status run(const T* pred, const T* target, const T* dy, T* dtarget, const Launch& launch) const {
        const KlDivTargetGradient<T> gradient{reduction_scale<compute_t<T>>(batch, reduction_mode), log_target_flag};
        return loss_gradients(launch, numel, reduction_mode, gradient, outputs(dtarget), inputs(pred, target, dy));
    }
};

template <class T>
struct PoissonNllTargetBackward {
    int64_t numel;
    int32_t reduction_mode;
    int32_t log_input_flag;

    Status check() const { return check_loss({{"numel", numel}}, reduction_mode); }
    Work work() const { return all_or_none(numel); }
    int64_t results() const { return loss_numel(numel, reduction_mode); }
    Status run(const T* input, const T* dy, T* dtarget, const Launch& launch) const {
        const PoissonTargetGradient<T> gradient{reduction_scale<compute_t<T>>(numel, reduction_mode), log_input_flag};
        return loss_gradients(launch, numel, reduction_mode, gradient, outputs(dtarget), inputs(input, dy));
    }
};

template <class T>
struct FullPoissonNllTargetBackward {
    using C = compute_t<T>;
    int64_t numel;
    int32_t reduction_mode;
    int32_t log_input_flag;
    int32_t full_flag;
    double eps;

    Status check() const { return check_loss({{"numel", numel}}, reduction_mode); }
    Work work() const { return all_or_none(numel); }
    int64_t results() const { return loss_numel(numel, reduction_mode); }
    Status run(const T* input, const T* target, const T* dy, T* dtarget, const Launch& launch) const {
        const FullPoissonTargetGradient<T> gradient{reduction_scale<C>(numel, reduction_mode), static_cast<C>(eps),
                                                    log_input_flag, full_flag};
        return loss_gradients(launch, numel, reduction_mode, gradient, outputs(dtarget), inputs(input, target, dy));
    }
};

template <class T>
struct GaussianNllVarBackward {
    using C = compute_t<T>;
    int64_t numel;
    int32_t reduction_mode;
    double eps;

    Status check() const { return check_loss({{"numel", numel}}, reduction_mode); }
    Work work() const { return all_or_none(numel); }
    int64_t results() const { return loss_numel(numel, reduction_mode); }
    Status run(const T* input, const T* target, const T* var, const T* dy, T* dvar, const Launch& launch) const {
        const GaussianVarianceGradient<T> gradient{reduction_scale<C>(numel, reduction_mode), static_cast<C>(eps)};
        return loss_gradients(launch, numel, reduction_mode, gradient, outputs(dvar), inputs(input, target, var, dy));
    }
};

template <class T>
struct MarginRankingTargetBackward {
    using C = compute_t<T>;
    int64_t numel;
    int32_t reduction_mode;
    double margin;

    Status check() const { return check_loss({{"numel", numel}}, reduction_mode); }
    Work work() const { return all_or_none(numel); }
    int64_t results() const { return loss_numel(numel, reduction_mode); }
    Status run(const T* x1, const T* x2, const T* t, const T* dy, T* dt, const Launch& launch) const {
        const RankingTargetGradient<T> gradient{reduction_scale<C>(numel, reduction_mode), static_cast<C>(margin)};
        return loss_gradients(launch, numel, reduction_mode, gradient, outputs(dt), inputs(x1, x2, t, dy));
    }
};

template <class T>
struct MultilabelSoftMarginTargetBackward {
    using C = compute_t<T>;
    int64_t n_rows;
    int32_t class_extent;
    int64_t row_stride;
    int32_t reduction_mode;

    Status check() const {
        return check_loss({{"n_rows", n_rows}, {"class_extent", class_extent}, {"row_stride", row_stride}}, reduction_mode);
    }
    Work work() const { return n_rows == 0 || class_extent == 0 ? Work::kNone : Work::kAll; }
    int64_t results() const { return loss_numel(n_rows, reduction_mode); }
    Status run(const T* input, const T* dy, T* dtarget, const Launch& launch) const {
        Layout<3> layout;
        layout.append(n_rows, {row_stride, row_stride, reduction_mode == kReductionNone ? 1 : 0});
        layout.append(class_extent, {1, 1, 0});
        const C grad_scale = reduction_scale<C>(n_rows, reduction_mode) / static_cast<C>(class_extent);
        return pointwise_strided(launch, layout, SoftMarginTargetGradient<T>{grad_scale}, outputs(dtarget), inputs(input, dy));
    }
};

// A null weight means 1 for every class.
template <class T>
struct WeightedSoftMarginTargetBackward : MultilabelSoftMarginTargetBackward<T> {
    using Base = MultilabelSoftMarginTargetBackward<T>;
    using typename Base::C;

    Status run(const T* input, const C* weight, const T* dy, T* dtarget, const Launch& launch) const {
        if (weight == nullptr) return Base::run(input, dy, dtarget, launch);
        const int64_t rows = this->n_rows, stride = this->row_stride;
        Layout<4> layout;
        layout.append(rows, {stride, stride, 0, this->reduction_mode == kReductionNone ? 1 : 0});
        layout.append(this->class_extent, {1, 1, 1, 0});
        const C grad_scale = reduction_scale<C>(rows, this->reduction_mode) / static_cast<C>(this->class_extent);
        return pointwise_strided(launch, layout, WeightedSoftMarginTargetGradient<T>{grad_scale}, outputs(dtarget),
                                 inputs(input, weight, dy));
    }
};

}  // namespace bk
