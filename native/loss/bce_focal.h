// SPDX-License-Identifier: Apache-2.0
// Elementwise binary losses: weighted binary cross entropy, of logits (with pos_weight) or probabilities, and the
// sigmoid focal loss of Lin et al. 2017.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/math/fastdiv.h"
#include "core/math/math.h"
#include "core/pointwise/pointwise.h"
#include "loss/elementwise_loss.h"
#include "loss/likelihood.h"
#include "loss/power.h"
#include "loss/reduction.h"

namespace bk {

// sigmoid(x), sigmoid(-x), softplus(-x) = log(1 + exp(-x)) and softplus(x), all without overflow or cancellation.
template <class T>
struct Logit {
    using C = compute_t<T>;
    C sigmoid, sigmoid_neg, softplus_neg, softplus_pos;

    static BK_HD Logit of(C x) {
        const C e = math::exp<T>(-math::fabs<C>(x)), larger = C(1) / (C(1) + e), smaller = e * larger;
        const C softplus_small = math::log1p<T>(e), softplus_large = math::fabs<C>(x) + softplus_small;
        const bool positive = x > C(0);
        return {math::select(positive, larger, smaller), math::select(positive, smaller, larger),
                math::select(positive, softplus_small, softplus_large), math::select(positive, softplus_large, softplus_small)};
    }
};

// Weights broadcast over the leading axes: element i has weight[i mod extent]; null: 1.
template <class C>
struct BroadcastWeight {
    const C* weight;
    FastDiv<uint64_t> extent;

    static BroadcastWeight of(const C* weight, int64_t extent) {
        return {weight, FastDiv<uint64_t>(static_cast<uint64_t>(std::max<int64_t>(extent, 1)))};
    }
    int64_t BK_HD length() const { return static_cast<int64_t>(extent.divisor()); }

    // The weights of `count` elements from `first` on: the first num_weights lie at weights_at, any other is
    // `fallback`. The bounds check becomes the mask of a vector load, which reads none past the last.
    struct WeightSpan {
        const C* weights_at;
        uint32_t num_weights;
        C fallback;
        int64_t count;
        BK_HD C operator()(int64_t k) const {
            C w = fallback;
            if (static_cast<uint32_t>(k) < num_weights) w = weights_at[k];
            return w;
        }
    };
    BK_HD WeightSpan at(int64_t first) const {
        if (weight == nullptr) return {nullptr, 0, C(1), kMaxSpan};
        if (length() == 1) return {weight, 0, *weight, kMaxSpan};
        const int64_t index = static_cast<int64_t>(extent(static_cast<uint64_t>(first)).remainder),
                      remaining = length() - index;
        const int64_t count = remaining < kMaxSpan ? remaining : kMaxSpan;
        return {weight + index, static_cast<uint32_t>(count), C(1), count};
    }
    static constexpr int64_t kMaxSpan = int64_t{1} << 30;
};

template <class T>
struct WeightedBceForward {
    using C = compute_t<T>;
    BroadcastWeight<C> weight, positive;

    struct Span {
        static constexpr bool has_rare = false;
        typename BroadcastWeight<C>::WeightSpan weight, positive;
        int64_t count;
        BK_HD C operator()(int64_t k, C x, C target) const {
            const auto logit = Logit<T>::of(x);
            const C loss =
                multiply_no_nan(target, positive(k) * logit.softplus_neg) + multiply_no_nan(C(1) - target, logit.softplus_pos);
            return weight(k) * loss;
        }
    };
    BK_HD Span at(int64_t i) const {
        const auto w = weight.at(i), p = positive.at(i);
        return {w, p, w.count < p.count ? w.count : p.count};
    }
};

template <class T>
struct WeightedBceGradient {
    using C = compute_t<T>;
    BroadcastWeight<C> weight, positive;
    C grad_scale;

    struct Span {
        static constexpr bool has_rare = false;
        typename BroadcastWeight<C>::WeightSpan weight, positive;
        int64_t count;
        C grad_scale;
        BK_HD C operator()(int64_t k, C x, C target, C dy) const {
            const auto logit = Logit<T>::of(x);
            const C slope = (C(1) - target) * logit.sigmoid - positive(k) * target * logit.sigmoid_neg;
            return weight(k) * slope * (dy * grad_scale);
        }
    };
    BK_HD Span at(int64_t i) const {
        const auto w = weight.at(i), p = positive.at(i);
        return {w, p, w.count < p.count ? w.count : p.count, grad_scale};
    }
};

// Binary cross entropy of probabilities.
template <class T>
struct WeightedProbabilityForward {
    using C = compute_t<T>;
    BroadcastWeight<C> weight;

    struct Span {
        static constexpr bool has_rare = false;
        typename BroadcastWeight<C>::WeightSpan weight;
        int64_t count;
        BK_HD C operator()(int64_t k, C pred, C target) const { return weight(k) * Bce::Forward<T>()(pred, target); }
    };
    BK_HD Span at(int64_t i) const {
        const auto w = weight.at(i);
        return {w, w.count};
    }
};

template <class T>
struct WeightedProbabilityGradient {
    using C = compute_t<T>;
    BroadcastWeight<C> weight;
    C grad_scale;

    struct Span {
        static constexpr bool has_rare = false;
        typename BroadcastWeight<C>::WeightSpan weight;
        int64_t count;
        C grad_scale;
        BK_HD C operator()(int64_t k, C pred, C target, C dy) const {
            return weight(k) * Bce::Gradient<T>{grad_scale}(pred, target, dy);
        }
    };
    BK_HD Span at(int64_t i) const {
        const auto w = weight.at(i);
        return {w, w.count, grad_scale};
    }
};

// The class balance of the focal loss: alpha for target 1, 1 - alpha for target 0; a negative alpha means none.
template <class C>
BK_HD C alpha_t(C alpha, C target) {
    return alpha < C(0) ? C(1) : alpha * target + (C(1) - alpha) * (C(1) - target);
}

template <class T>
struct FocalForward {
    using C = compute_t<T>;
    C alpha, gamma;
    template <class F, class Body>
    static BK_HD void each_case(const F& f, const Body& body) {
        each_power(f, &F::gamma, body);
    }
    BK_HD C operator()(C x, C target) const {
        const auto logit = Logit<T>::of(x);
        const C one_minus_pt = logit.sigmoid * (C(1) - target) + logit.sigmoid_neg * target;
        const C bce = multiply_no_nan(target, logit.softplus_neg) + multiply_no_nan(C(1) - target, logit.softplus_pos);
        return alpha_t(alpha, target) * multiply_no_nan(power_of<T>(one_minus_pt, gamma), bce);
    }
};

template <class T>
struct FocalGradient {
    using C = compute_t<T>;
    C alpha, gamma, grad_scale;
    template <class F, class Body>
    static BK_HD void each_case(const F& f, const Body& body) {
        each_power(f, &F::gamma, body);
    }
    BK_HD C operator()(C x, C target, C dy) const {
        const auto logit = Logit<T>::of(x);
        const C one_minus_pt = logit.sigmoid * (C(1) - target) + logit.sigmoid_neg * target,
                power = power_of<T>(one_minus_pt, gamma);
        const C bce = multiply_no_nan(target, logit.softplus_neg) + multiply_no_nan(C(1) - target, logit.softplus_pos);
        const C slope = (C(1) - target) * logit.sigmoid - target * logit.sigmoid_neg;
        const C gamma_slope = gamma * (C(1) - C(2) * target) * (logit.sigmoid * logit.sigmoid_neg);
        const C power_slope = math::select(one_minus_pt > C(0), power * (gamma_slope / one_minus_pt), C(0));
        return alpha_t(alpha, target) * (power * slope + multiply_no_nan(power_slope, bce)) * (dy * grad_scale);
    }
};

BK_COLD inline Status check_weight_extents(int64_t numel, int64_t weight_extent, int64_t pos_weight_extent,
                                           int32_t reduction_mode) {
    BK_TRY(check_loss({{"numel", numel}, {"weight_extent", weight_extent}, {"pos_weight_extent", pos_weight_extent}},
                      reduction_mode));
    if (weight_extent == 0) return fail(Status::kInvalidProblem, "weight_extent is 0, must be >= 1");
    if (pos_weight_extent == 0) return fail(Status::kInvalidProblem, "pos_weight_extent is 0, must be >= 1");
    return Status::kOk;
}

template <class T>
struct WeightedBce {
    using C = compute_t<T>;
    int64_t numel;
    int64_t weight_extent;
    int64_t pos_weight_extent;
    int32_t reduction_mode;

    Status check() const { return check_weight_extents(numel, weight_extent, pos_weight_extent, reduction_mode); }
    Work work() const { return work_of_loss(numel, reduction_mode); }
    int64_t results() const { return loss_numel(numel, reduction_mode); }
    size_t workspace_size() const { return loss_workspace<WeightedBceForward<T>, T, T, T>(numel, reduction_mode); }
    Status run(const T* logits, const T* target, const C* weight, const C* pos_weight, T* out, const Launch& launch) const {
        const WeightedBceForward<T> forward{BroadcastWeight<C>::of(weight, weight_extent),
                                            BroadcastWeight<C>::of(pos_weight, pos_weight_extent)};
        return reduce_loss(launch, numel, reduction_mode, forward, inputs(logits, target), out);
    }
};

template <class T>
struct WeightedBceBackward {
    using C = compute_t<T>;
    int64_t numel;
    int64_t weight_extent;
    int64_t pos_weight_extent;
    int32_t reduction_mode;

    Status check() const { return check_weight_extents(numel, weight_extent, pos_weight_extent, reduction_mode); }
    Work work() const { return all_or_none(numel); }
    int64_t results() const { return loss_numel(numel, reduction_mode); }
    Status run(const T* logits, const T* target, const C* weight, const C* pos_weight, const T* dy, T* dlogits,
               const Launch& launch) const {
        const WeightedBceGradient<T> gradient{BroadcastWeight<C>::of(weight, weight_extent),
                                              BroadcastWeight<C>::of(pos_weight, pos_weight_extent),
                                              reduction_scale<C>(numel, reduction_mode)};
        return loss_gradients(launch, numel, reduction_mode, gradient, outputs(dlogits), inputs(logits, target, dy));
    }
};

BK_COLD inline Status check_weight(int64_t numel, int64_t weight_extent, int32_t reduction_mode) {
    return check_weight_extents(numel, weight_extent, 1, reduction_mode);
}

template <class T>
struct WeightedProbabilities {
    using C = compute_t<T>;
    int64_t numel;
    int64_t weight_extent;
    int32_t reduction_mode;

    Status check() const { return check_weight(numel, weight_extent, reduction_mode); }
    Work work() const { return work_of_loss(numel, reduction_mode); }
    int64_t results() const { return loss_numel(numel, reduction_mode); }
    size_t workspace_size() const { return loss_workspace<WeightedProbabilityForward<T>, T, T, T>(numel, reduction_mode); }
    Status run(const T* pred, const T* target, const C* weight, T* out, const Launch& launch) const {
        const WeightedProbabilityForward<T> forward{BroadcastWeight<C>::of(weight, weight_extent)};
        return reduce_loss(launch, numel, reduction_mode, forward, inputs(pred, target), out);
    }
};

template <class T>
struct WeightedProbabilitiesBackward {
    using C = compute_t<T>;
    int64_t numel;
    int64_t weight_extent;
    int32_t reduction_mode;

    Status check() const { return check_weight(numel, weight_extent, reduction_mode); }
    Work work() const { return all_or_none(numel); }
    int64_t results() const { return loss_numel(numel, reduction_mode); }
    Status run(const T* pred, const T* target, const C* weight, const T* dy, T* dpred, const Launch& launch) const {
        const WeightedProbabilityGradient<T> gradient{BroadcastWeight<C>::of(weight, weight_extent),
                                                      reduction_scale<C>(numel, reduction_mode)};
        return loss_gradients(launch, numel, reduction_mode, gradient, outputs(dpred), inputs(pred, target, dy));
    }
};

BK_COLD inline Status check_focal(int64_t numel, int32_t reduction_mode, double gamma) {
    BK_TRY(check_loss({{"numel", numel}}, reduction_mode));
    if (!(gamma >= 0)) return fail(Status::kInvalidProblem, "gamma is %g, must be >= 0", gamma);
    return Status::kOk;
}

template <class T>
struct SigmoidFocal {
    using C = compute_t<T>;
    int64_t numel;
    int32_t reduction_mode;
    double alpha;
    double gamma;

    Status check() const { return check_focal(numel, reduction_mode, gamma); }
    Work work() const { return work_of_loss(numel, reduction_mode); }
    int64_t results() const { return loss_numel(numel, reduction_mode); }
    size_t workspace_size() const { return loss_workspace<FocalForward<T>, T, T, T>(numel, reduction_mode); }
    Status run(const T* logits, const T* target, T* out, const Launch& launch) const {
        const FocalForward<T> forward{static_cast<C>(alpha), static_cast<C>(gamma)};
        return reduce_loss(launch, numel, reduction_mode, forward, inputs(logits, target), out);
    }
};

template <class T>
struct SigmoidFocalBackward {
    using C = compute_t<T>;
    int64_t numel;
    int32_t reduction_mode;
    double alpha;
    double gamma;

    Status check() const { return check_focal(numel, reduction_mode, gamma); }
    Work work() const { return all_or_none(numel); }
    int64_t results() const { return loss_numel(numel, reduction_mode); }
    Status run(const T* logits, const T* target, const T* dy, T* dlogits, const Launch& launch) const {
        const FocalGradient<T> gradient{static_cast<C>(alpha), static_cast<C>(gamma),
                                        reduction_scale<C>(numel, reduction_mode)};
        return loss_gradients(launch, numel, reduction_mode, gradient, outputs(dlogits), inputs(logits, target, dy));
    }
};

}  // namespace bk
