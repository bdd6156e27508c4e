// SPDX-License-Identifier: Apache-2.0
// The formulas of the optimisers, as torch.optim defines them, in the compute type C. A rule has
//   Settings                      its hyperparameters, as C passes them
//   make(settings, lr, step)      the numbers of one step, in C
//   operator()(p, g, s)           the new parameter from parameter, gradient and kStates states, which it updates
// kSigned has a bit for each state that may be negative (for 8-bit states). An absent state reads 0 and is not written.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/abi/status.h"
#include "core/math/math.h"
#include "core/platform.h"
#include "optim/common.h"

namespace bk::optim {

BK_COLD inline Status require_rate(const char* name, double value) {
    if (value >= 0 && value < 1) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is %g, must be in [0, 1)", name, value);
}

BK_COLD inline Status require_positive(const char* name, double value) {
    if (value >= 0) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is %g, must be >= 0", name, value);
}

struct AdamSettings {
    double beta1, beta2, eps, weight_decay;
    int32_t is_decoupled, corrects_bias;
    double log_beta1, log_beta2;

    static AdamSettings of(double beta1, double beta2, double eps, double weight_decay, int32_t decoupled, int32_t corrects) {
        return {beta1, beta2, eps, weight_decay, decoupled, corrects, log(beta1), log(beta2)};
    }
    Status check() const {
        BK_TRY(require_rate("beta1", beta1));
        BK_TRY(require_rate("beta2", beta2));
        BK_TRY(require_positive("eps", eps));
        return require_positive("weight_decay", weight_decay);
    }
};

// Moments of Adam (Kingma and Ba 2015): m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2; the direction is
// (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps).
template <class C>
struct AdamMoments {
    C beta1, weight1, beta2, weight2, eps, scale1, scale2;

    static BK_HD AdamMoments make(const AdamSettings& s, C step) {
        const bool corrects = s.corrects_bias != 0;
        return {static_cast<C>(s.beta1),
                static_cast<C>(1 - s.beta1),
                static_cast<C>(s.beta2),
                static_cast<C>(1 - s.beta2),
                static_cast<C>(s.eps),
                corrects ? C(1) / one_minus_power<C>(s.log_beta1, step) : C(1),
                corrects ? C(1) / one_minus_power<C>(s.log_beta2, step) : C(1)};
    }
    BK_HD void add(C g, C& m, C& v) const {
        m = beta1 * m + weight1 * g;
        v = beta2 * v + weight2 * (g * g);
    }
    BK_HD C direction(C m, C v) const { return m * scale1 / (math::sqrt<C>(v * scale2) + eps); }
};

// Adam, and AdamW (Loshchilov and Hutter 2019) with decoupled decay, p -= lr (direction + wd p). The third state is the
// largest v so far (AMSGrad, Reddi et al. 2018).
template <class C>
struct Adam {
    using Settings = AdamSettings;
    static constexpr int kStates = 3;
    static constexpr unsigned kSigned = 1;
    static constexpr bool kQuantises = true;
    AdamMoments<C> moments;
    C lr, decay_of_gradient, decay_of_weight;

    static BK_HD Adam make(const Settings& s, C lr, C step) {
        const C decay = static_cast<C>(s.weight_decay);
        return {AdamMoments<C>::make(s, step), lr, s.is_decoupled ? C(0) : decay, s.is_decoupled ? decay : C(0)};
    }
    BK_HD C operator()(C p, C g, C* s) const {
        moments.add(g + decay_of_gradient * p, s[0], s[1]);
        s[2] = s[1] <= s[2] ? s[2] : s[1];
        return p - lr * (moments.direction(s[0], s[2]) + decay_of_weight * p);
    }
};

struct SgdSettings {
    double momentum, dampening, weight_decay;
    int32_t is_nesterov, decays_after_momentum, is_first;

    Status check() const {
        BK_TRY(require_positive("momentum", momentum));
        return require_positive("weight_decay", weight_decay);
    }
};

// v = mu v + (1 - dampening) g, or g at the first step; p -= lr v, or lr (g + mu v) with Nesterov's momentum. Decay adds
// wd p to g, or to v as it is used. Without momentum g is the update, and decay after momentum is none.
template <class C>
struct Sgd {
    using Settings = SgdSettings;
    static constexpr int kStates = 1;
    static constexpr unsigned kSigned = 1;
    static constexpr bool kQuantises = true;
    C lr, momentum, weight, decay_before, decay_after;
    int32_t has_momentum, is_nesterov;

    static BK_HD Sgd make(const Settings& s, C lr, C step) {
        const bool is_first = s.is_first < 0 ? step == C(1) : s.is_first != 0, is_after = s.decays_after_momentum != 0;
        const C decay = static_cast<C>(s.weight_decay);
        return {lr,
                static_cast<C>(s.momentum),
                is_first ? C(1) : static_cast<C>(1 - s.dampening),
                is_after ? C(0) : decay,
                is_after ? decay : C(0),
                is_first ? 2 : s.momentum != 0,
                s.is_nesterov};
    }
    BK_HD C operator()(C p, C g, C* s) const {
        g = g + decay_before * p;
        const C mean = has_momentum == 2 ? weight * g : momentum * s[0] + weight * g;
        const C update = momentum != C(0) ? mean + decay_after * p : g;
        s[0] = momentum != C(0) ? mean : s[0];
        return p - lr * (is_nesterov && momentum != C(0) ? g + momentum * update : update);
    }
};

struct AdagradSettings {
    double lr_decay, eps, weight_decay;

    Status check() const {
        BK_TRY(require_positive("lr_decay", lr_decay));
        BK_TRY(require_positive("eps", eps));
        return require_positive("weight_decay", weight_decay);
    }
};

// Duchi et al. 2011: s += g^2; p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps).
template <class C>
struct Adagrad {
    using Settings = AdagradSettings;
    static constexpr int kStates = 1;
    static constexpr unsigned kSigned = 0;
    static constexpr bool kQuantises = false;
    C rate, eps, decay;

    static BK_HD Adagrad make(const Settings& s, C lr, C step) {
        return {lr / (C(1) + (step - C(1)) * static_cast<C>(s.lr_decay)), static_cast<C>(s.eps),
                static_cast<C>(s.weight_decay)};
    }
    BK_HD C operator()(C p, C g, C* s) const {
        g = g + decay * p;
        s[0] = s[0] + g * g;
        return p - rate * (g / (math::sqrt<C>(s[0]) + eps));
    }
};

struct RmspropSettings {
    double alpha, eps, weight_decay, momentum;
    int32_t is_centered;

    Status check() const {
        BK_TRY(require_rate("alpha", alpha));
        BK_TRY(require_positive("eps", eps));
        BK_TRY(require_positive("weight_decay", weight_decay));
        return require_positive("momentum", momentum);
    }
};

// Tieleman and Hinton 2012: s = alpha s + (1 - alpha) g^2, less the square of the mean gradient if centred (Graves 2013).
// The states are s, the momentum and the mean gradient. A variance that rounding makes negative is 0.
template <class C>
struct Rmsprop {
    using Settings = RmspropSettings;
    static constexpr int kStates = 3;
    static constexpr unsigned kSigned = 6;
    static constexpr bool kQuantises = false;
    C lr, alpha, weight, eps, decay, momentum;
    int32_t is_centered;

    static BK_HD Rmsprop make(const Settings& s, C lr, C) {
        return {lr,
                static_cast<C>(s.alpha),
                static_cast<C>(1 - s.alpha),
                static_cast<C>(s.eps),
                static_cast<C>(s.weight_decay),
                static_cast<C>(s.momentum),
                s.is_centered};
    }
    BK_HD C operator()(C p, C g, C* s) const {
        g = g + decay * p;
        s[0] = alpha * s[0] + weight * (g * g);
        s[2] = is_centered ? alpha * s[2] + weight * g : s[2];
        const C variance = is_centered ? s[0] - s[2] * s[2] : s[0];
        const C update = g / (math::sqrt<C>(variance < C(0) ? C(0) : variance) + eps);
        s[1] = momentum != C(0) ? momentum * s[1] + update : s[1];
        return p - lr * (momentum != C(0) ? s[1] : update);
    }
};

struct AdadeltaSettings {
    double rho, eps, weight_decay;

    Status check() const {
        if (!(rho >= 0 && rho <= 1)) return fail(Status::kInvalidProblem, "rho is %g, must be in [0, 1]", rho);
        BK_TRY(require_positive("eps", eps));
        return require_positive("weight_decay", weight_decay);
    }
};

// Zeiler 2012. The states are the mean squares of gradients and of updates.
template <class C>
struct Adadelta {
    using Settings = AdadeltaSettings;
    static constexpr int kStates = 2;
    static constexpr unsigned kSigned = 0;
    static constexpr bool kQuantises = false;
    C lr, rho, weight, eps, decay;

    static BK_HD Adadelta make(const Settings& s, C lr, C) {
        return {lr, static_cast<C>(s.rho), static_cast<C>(1 - s.rho), static_cast<C>(s.eps), static_cast<C>(s.weight_decay)};
    }
    BK_HD C operator()(C p, C g, C* s) const {
        g = g + decay * p;
        s[0] = rho * s[0] + weight * (g * g);
        const C update = math::sqrt<C>(s[1] + eps) / math::sqrt<C>(s[0] + eps) * g;
        s[1] = rho * s[1] + weight * (update * update);
        return p - lr * update;
    }
};

struct LionSettings {
    double beta1, beta2, weight_decay;

    Status check() const {
        BK_TRY(require_rate("beta1", beta1));
        BK_TRY(require_rate("beta2", beta2));
        return require_positive("weight_decay", weight_decay);
    }
};

// Chen et al. 2023: p -= lr (sign(b1 m + (1 - b1) g) + wd p), then m = b2 m + (1 - b2) g.
template <class C>
struct Lion {
    using Settings = LionSettings;
    static constexpr int kStates = 1;
    static constexpr unsigned kSigned = 1;
    static constexpr bool kQuantises = true;
    C lr, beta1, weight1, beta2, weight2, decay;

    static BK_HD Lion make(const Settings& s, C lr, C) {
        return {lr,
                static_cast<C>(s.beta1),
                static_cast<C>(1 - s.beta1),
                static_cast<C>(s.beta2),
                static_cast<C>(1 - s.beta2),
                static_cast<C>(s.weight_decay)};
    }
    BK_HD C operator()(C p, C g, C* s) const {
        const C mean = beta1 * s[0] + weight1 * g;
        const C sign = mean > C(0) ? C(1) : mean < C(0) ? C(-1) : mean;  // NaN stays
        s[0] = beta2 * s[0] + weight2 * g;
        return p - lr * (sign + decay * p);
    }
};

struct ClipSettings {
    double clip_value;

    Status check() const { return require_positive("clip_value", clip_value); }
};

// Gradients after the multiplier, limited to [-clip_value, clip_value]; the parameters are the gradients themselves.
template <class C>
struct Clip {
    using Settings = ClipSettings;
    static constexpr int kStates = 1;
    static constexpr unsigned kSigned = 0;
    static constexpr bool kQuantises = false;
    C most;

    static BK_HD Clip make(const Settings& s, C, C) { return {static_cast<C>(s.clip_value)}; }
    BK_HD C operator()(C, C g, C*) const { return g > most ? most : g < -most ? -most : g; }
};

}  // namespace bk::optim
