// Losses of logits of independent classes: binary cross entropy with weights, and the focal loss.
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

// The sigmoid of x and of -x, and the logarithms of 1 + exp(-x) and 1 + exp(x): all without overflow or cancellation.
template <class T>
struct Logit {
    using C = compute_t<T>;
    C yes, no, cost_of_yes, cost_of_no;

    static BK_HD Logit of(C x) {
        const C e = math::exp<T>(-math::fabs<C>(x)), likely = C(1) / (C(1) + e), unlikely = e * likely;
        const C rest = math::log1p<T>(e), far = math::fabs<C>(x) + rest;
        const bool positive = x > C(0);
        return {math::select(positive, likely, unlikely), math::select(positive, unlikely, likely),
                math::select(positive, rest, far), math::select(positive, far, rest)};
    }
};

// Weights that repeat: element i has the one at i mod extent; null: 1.
template <class C>
struct RepeatedWeight {
    const C* weight;
    FastDiv<uint64_t> extent;

    static RepeatedWeight of(const C* weight, int64_t extent) {
        return {weight, FastDiv<uint64_t>(static_cast<uint64_t>(std::max<int64_t>(extent, 1)))};
    }
    int64_t BK_HD length() const { return static_cast<int64_t>(extent.divisor()); }

    // From element `first` on: the first `stored` of `count` elements have their weights at `from`, any other has `value`.
    // Vectors look those up by a mask, so that none is read behind the last.
    struct Run {
        const C* from;
        uint32_t stored;
        C value;
        int64_t count;
        BK_HD C operator()(int64_t k) const {
            C w = value;
            if (static_cast<uint32_t>(k) < stored) w = from[k];
            return w;
        }
    };
    BK_HD Run at(int64_t first) const {
        if (weight == nullptr) return {nullptr, 0, C(1), kMostOfRun};
        if (length() == 1) return {weight, 0, *weight, kMostOfRun};
        const int64_t place = static_cast<int64_t>(extent(static_cast<uint64_t>(first)).remainder), rest = length() - place;
        const int64_t count = rest < kMostOfRun ? rest : kMostOfRun;
        return {weight + place, static_cast<uint32_t>(count), C(1), count};
    }
    static constexpr int64_t kMostOfRun = int64_t{1} << 30;
};

template <class T>
struct WeightedBceTerm {
    using C = compute_t<T>;
    RepeatedWeight<C> weight, positive;

    struct Piece {
        static constexpr bool has_rare = false;
        typename RepeatedWeight<C>::Run weight, positive;
        int64_t count;
        BK_HD C operator()(int64_t k, C x, C target) const {
            const auto logit = Logit<T>::of(x);
            const C costs = share(target, positive(k) * logit.cost_of_yes) + share(C(1) - target, logit.cost_of_no);
            return weight(k) * costs;
        }
    };
    BK_HD Piece at(int64_t i) const {
        const auto w = weight.at(i), p = positive.at(i);
        return {w, p, w.count < p.count ? w.count : p.count};
    }
};

template <class T>
struct WeightedBceGradient {
    using C = compute_t<T>;
    RepeatedWeight<C> weight, positive;
    C factor;

    struct Piece {
        static constexpr bool has_rare = false;
        typename RepeatedWeight<C>::Run weight, positive;
        int64_t count;
        C factor;
        BK_HD C operator()(int64_t k, C x, C target, C dy) const {
            const auto logit = Logit<T>::of(x);
            const C slope = (C(1) - target) * logit.yes - positive(k) * target * logit.no;
            return weight(k) * slope * (dy * factor);
        }
    };
    BK_HD Piece at(int64_t i) const {
        const auto w = weight.at(i), p = positive.at(i);
        return {w, p, w.count < p.count ? w.count : p.count, factor};
    }
};

// Of probabilities.
template <class T>
struct WeightedProbabilityTerm {
    using C = compute_t<T>;
    RepeatedWeight<C> weight;

    struct Piece {
        static constexpr bool has_rare = false;
        typename RepeatedWeight<C>::Run weight;
        int64_t count;
        BK_HD C operator()(int64_t k, C pred, C target) const { return weight(k) * Bce::Term<T>()(pred, target); }
    };
    BK_HD Piece at(int64_t i) const {
        const auto w = weight.at(i);
        return {w, w.count};
    }
};

template <class T>
struct WeightedProbabilityGradient {
    using C = compute_t<T>;
    RepeatedWeight<C> weight;
    C factor;

    struct Piece {
        static constexpr bool has_rare = false;
        typename RepeatedWeight<C>::Run weight;
        int64_t count;
        C factor;
        BK_HD C operator()(int64_t k, C pred, C target, C dy) const {
            return weight(k) * Bce::Gradient<T>{factor}(pred, target, dy);
        }
    };
    BK_HD Piece at(int64_t i) const {
        const auto w = weight.at(i);
        return {w, w.count, factor};
    }
};

// What the loss of an element is multiplied by: of the side that its target is on.
template <class C>
BK_HD C side_of(C alpha, C target) {
    return alpha < C(0) ? C(1) : alpha * target + (C(1) - alpha) * (C(1) - target);
}

template <class T>
struct FocalTerm {
    using C = compute_t<T>;
    C alpha, gamma;
    template <class F, class Body>
    static BK_HD void each_case(const F& f, const Body& body) {
        each_power(f, &F::gamma, body);
    }
    BK_HD C operator()(C x, C target) const {
        const auto logit = Logit<T>::of(x);
        const C missed = logit.yes * (C(1) - target) + logit.no * target;
        const C cost = share(target, logit.cost_of_yes) + share(C(1) - target, logit.cost_of_no);
        return side_of(alpha, target) * share(power_of<T>(missed, gamma), cost);
    }
};

template <class T>
struct FocalGradient {
    using C = compute_t<T>;
    C alpha, gamma, factor;
    template <class F, class Body>
    static BK_HD void each_case(const F& f, const Body& body) {
        each_power(f, &F::gamma, body);
    }
    BK_HD C operator()(C x, C target, C dy) const {
        const auto logit = Logit<T>::of(x);
        const C missed = logit.yes * (C(1) - target) + logit.no * target, power = power_of<T>(missed, gamma);
        const C cost = share(target, logit.cost_of_yes) + share(C(1) - target, logit.cost_of_no);
        const C slope = (C(1) - target) * logit.yes - target * logit.no;
        const C turn = gamma * (C(1) - C(2) * target) * (logit.yes * logit.no);
        const C of_power = math::select(missed > C(0), power * (turn / missed), C(0));
        return side_of(alpha, target) * (power * slope + share(of_power, cost)) * (dy * factor);
    }
};

BK_COLD inline Status check_repeated(int64_t numel, int64_t weight_extent, int64_t pos_weight_extent, int32_t reduction_mode) {
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

    Status check() const { return check_repeated(numel, weight_extent, pos_weight_extent, reduction_mode); }
    Work work() const { return work_of_loss(numel, reduction_mode); }
    int64_t results() const { return loss_numel(numel, reduction_mode); }
    size_t workspace_size() const { return loss_workspace<WeightedBceTerm<T>, T, T, T>(numel, reduction_mode); }
    Status run(const T* logits, const T* target, const C* weight, const C* pos_weight, T* out, const Launch& launch) const {
        const WeightedBceTerm<T> term{RepeatedWeight<C>::of(weight, weight_extent),
                                      RepeatedWeight<C>::of(pos_weight, pos_weight_extent)};
        return reduce_loss(launch, numel, reduction_mode, term, inputs(logits, target), out);
    }
};

template <class T>
struct WeightedBceBackward {
    using C = compute_t<T>;
    int64_t numel;
    int64_t weight_extent;
    int64_t pos_weight_extent;
    int32_t reduction_mode;

    Status check() const { return check_repeated(numel, weight_extent, pos_weight_extent, reduction_mode); }
    Work work() const { return all_or_none(numel); }
    int64_t results() const { return loss_numel(numel, reduction_mode); }
    Status run(const T* logits, const T* target, const C* weight, const C* pos_weight, const T* dy, T* dlogits,
               const Launch& launch) const {
        const WeightedBceGradient<T> gradient{RepeatedWeight<C>::of(weight, weight_extent),
                                              RepeatedWeight<C>::of(pos_weight, pos_weight_extent),
                                              reduction_scale<C>(numel, reduction_mode)};
        return loss_gradients(launch, numel, reduction_mode, gradient, outputs(dlogits), inputs(logits, target, dy));
    }
};

BK_COLD inline Status check_weight(int64_t numel, int64_t weight_extent, int32_t reduction_mode) {
    return check_repeated(numel, weight_extent, 1, reduction_mode);
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
    size_t workspace_size() const { return loss_workspace<WeightedProbabilityTerm<T>, T, T, T>(numel, reduction_mode); }
    Status run(const T* pred, const T* target, const C* weight, T* out, const Launch& launch) const {
        const WeightedProbabilityTerm<T> term{RepeatedWeight<C>::of(weight, weight_extent)};
        return reduce_loss(launch, numel, reduction_mode, term, inputs(pred, target), out);
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
        const WeightedProbabilityGradient<T> gradient{RepeatedWeight<C>::of(weight, weight_extent),
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
    size_t workspace_size() const { return loss_workspace<FocalTerm<T>, T, T, T>(numel, reduction_mode); }
    Status run(const T* logits, const T* target, T* out, const Launch& launch) const {
        const FocalTerm<T> term{static_cast<C>(alpha), static_cast<C>(gamma)};
        return reduce_loss(launch, numel, reduction_mode, term, inputs(logits, target), out);
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
