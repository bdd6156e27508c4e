// Gradients of losses for what is not their prediction: targets that are shares or rates, and variances.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/math/math.h"
#include "core/pointwise/cases.h"
#include "core/pointwise/layout.h"
#include "core/pointwise/pointwise.h"
#include "loss/elementwise_loss.h"
#include "loss/likelihood.h"
#include "loss/logits.h"
#include "loss/reduction.h"

namespace bk {

// log(1 - pred) - log(pred), each bounded as the loss bounds it.
template <class T>
struct BceTargetGradient {
    using C = compute_t<T>;
    C factor;
    BK_HD C operator()(C pred, C dy) const {
        using Term = Bce::Term<T>;
        return (Term::bounded(math::log1p<T>(-pred)) - Term::bounded(math::log<T>(pred))) * (dy * factor);
    }
};

// Gradients of a target with a weight of its own.
template <class T>
struct WeightedProbabilityTargetGradient {
    using C = compute_t<T>;
    RepeatedWeight<C> weight;
    C factor;

    struct Piece {
        static constexpr bool has_rare = false;
        typename RepeatedWeight<C>::Run weight;
        int64_t count;
        C factor;
        BK_HD C operator()(int64_t k, C pred, C dy) const { return weight(k) * BceTargetGradient<T>{factor}(pred, dy); }
    };
    BK_HD Piece at(int64_t i) const {
        const auto w = weight.at(i);
        return {w, w.count, factor};
    }
};

// w (p log(1 + exp(-x)) - log(1 + exp(x))), which is -x where both weights are 1.
template <class T>
struct WeightedBceTargetGradient {
    using C = compute_t<T>;
    RepeatedWeight<C> weight, positive;
    C factor;

    struct Piece {
        static constexpr bool has_rare = false;
        typename RepeatedWeight<C>::Run weight, positive;
        int64_t count;
        C factor;
        BK_HD C operator()(int64_t k, C x, C dy) const {
            const C excess = share(positive(k) - C(1), Logit<T>::of(x).cost_of_yes);
            return weight(k) * (excess - x) * (dy * factor);
        }
    };
    BK_HD Piece at(int64_t i) const {
        const auto w = weight.at(i), p = positive.at(i);
        return {w, p, w.count < p.count ? w.count : p.count, factor};
    }
};

// log(target) + 1 - pred of a target that has a probability; exp(target) (target + 1 - pred) of a logarithm.
template <class T>
struct KlDivTargetGradient {
    using C = compute_t<T>;
    C factor;
    int32_t is_log;
    template <class F, class Body>
    static BK_HD void each_case(const F& f, const Body& body) {
        each_value(f, &F::is_log, body);
    }
    BK_HD C operator()(C pred, C target, C dy) const {
        if (is_log) return share(math::exp<T>(target), target - pred + C(1)) * (dy * factor);
        return math::select(target <= C(0), C(0), (math::log<T>(target) - pred + C(1)) * (dy * factor));
    }
};

template <class T>
struct PoissonTargetGradient {
    using C = compute_t<T>;
    C factor;
    int32_t is_log;
    template <class F, class Body>
    static BK_HD void each_case(const F& f, const Body& body) {
        each_value(f, &F::is_log, body);
    }
    BK_HD C operator()(C x, C dy) const { return -(is_log ? x : math::log<T>(x)) * (dy * factor); }
};

// That of a rate to which eps is added, and log(t) + 1 / (2 t) of the constant of targets t > 1.
template <class T>
struct FullPoissonTargetGradient {
    using C = compute_t<T>;
    C factor, eps;
    int32_t is_log, is_full;
    template <class F, class Body>
    static BK_HD void each_case(const F& f, const Body& body) {
        each_value(f, &F::is_log, [&](const F& known) { each_value(known, &F::is_full, body); });
    }
    BK_HD C operator()(C x, C target, C dy) const {
        const C slope = -(is_log ? x : math::log<T>(x + eps));
        const C of_constant = math::select(target <= C(1), C(0), math::log<T>(target) + C(0.5) / target);
        return (is_full ? slope + of_constant : slope) * (dy * factor);
    }
};

// (1 - (x - target)^2 / v) / (2 v) with v = max(var, eps): as if the bound were not there.
template <class T>
struct GaussianVarianceGradient {
    using C = compute_t<T>;
    C factor, least;
    BK_HD C operator()(C x, C target, C var, C dy) const {
        const C v = bounded_variance(var, least), d = x - target;
        return C(0.5) * (C(1) - d * (d / v)) / v * (dy * factor);
    }
};

// x2 - x1 where the loss is above 0.
template <class T>
struct RankingTargetGradient {
    using C = compute_t<T>;
    C factor, margin;
    BK_HD C operator()(C x1, C x2, C target, C dy) const {
        const C d = x2 - x1;
        return math::select(margin + target * d > C(0), d * (dy * factor), C(0));
    }
};

// -x: of targets of the mean over independent classes.
template <class T>
struct SoftMarginTargetGradient {
    using C = compute_t<T>;
    C factor;
    BK_HD C operator()(C x, C dy) const { return -x * (dy * factor); }
};

template <class T>
struct WeightedSoftMarginTargetGradient {
    using C = compute_t<T>;
    C factor;
    BK_HD C operator()(C x, C weight, C dy) const { return -x * weight * (dy * factor); }
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
        const WeightedProbabilityTargetGradient<T> gradient{RepeatedWeight<C>::of(weight, weight_extent),
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

    Status check() const { return check_repeated(numel, weight_extent, pos_weight_extent, reduction_mode); }
    Work work() const { return all_or_none(numel); }
    int64_t results() const { return loss_numel(numel, reduction_mode); }
    Status run(const T* logits, const C* weight, const C* pos_weight, const T* dy, T* dtarget, const Launch& launch) const {
        const WeightedBceTargetGradient<T> gradient{RepeatedWeight<C>::of(weight, weight_extent),
                                                    RepeatedWeight<C>::of(pos_weight, pos_weight_extent),
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
        const C factor = reduction_scale<C>(n_rows, reduction_mode) / static_cast<C>(class_extent);
        return pointwise_strided(launch, layout, SoftMarginTargetGradient<T>{factor}, outputs(dtarget), inputs(input, dy));
    }
};

// NULL: every weight is 1.
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
        const C factor = reduction_scale<C>(rows, this->reduction_mode) / static_cast<C>(this->class_extent);
        return pointwise_strided(launch, layout, WeightedSoftMarginTargetGradient<T>{factor}, outputs(dtarget),
                                 inputs(input, weight, dy));
    }
};

}  // namespace bk
