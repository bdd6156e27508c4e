// SPDX-License-Identifier: Apache-2.0
// Parts that the steps of all optimisers share: scalars by value or from the device, the multiplier of gradients, and
// whether the step is skipped.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/status.h"
#include "core/math/math.h"
#include "core/platform.h"

namespace bk::optim {

enum Rounding : int32_t { kNearest = 0, kErrorWord = 1, kStochastic = 2 };

// Pointers may be NULL; a value from the device replaces the one by value.
struct Common {
    double lr;
    int64_t step;       // number of this step, from 1
    double grad_scale;  // gradients are multiplied by it; negative to maximise
    double max_norm;
    double ema_decay;
    int32_t rounding, state_bits, zeroes_grads;
    uint64_t seed;
    const void* lr_at;       // of the compute type
    const int64_t* step_at;  // steps done so far: this is number *step_at + 1
    const float* scale_at;   // gradients are divided by it
    const float* found_inf_at;
    const void* norm_at;  // of the compute type: norm of the gradients after the division
    void* stream;

    BK_HD bool reads_device() const {
        return lr_at != nullptr || step_at != nullptr || scale_at != nullptr || found_inf_at != nullptr || norm_at != nullptr;
    }
};

// A rule of an optimiser (rules.h) with all that a step needs.
template <class Rule, class C>
struct Prepared {
    Rule rule;
    C multiplier, ema_weight;
    int64_t step;
    int32_t is_skipped, is_frozen;  // frozen: lr is 0, so that parameters keep their bits
};

// grad_scale / scale, times min(1, max_norm / (norm + 1e-6)) as torch.nn.utils.clip_grad_norm_ has it. NaN stays.
template <class C>
BK_HD C multiplier_of(const Common& common) {
    C multiplier = static_cast<C>(common.grad_scale);
    if (common.scale_at != nullptr) multiplier /= static_cast<C>(*common.scale_at);
    if (common.norm_at == nullptr) return multiplier;
    const C ratio = static_cast<C>(common.max_norm) / (*static_cast<const C*>(common.norm_at) + C(1e-6));
    return ratio >= C(1) ? multiplier : multiplier * ratio;
}

template <class Rule, class C>
BK_HD Prepared<Rule, C> prepare(const typename Rule::Settings& settings, const Common& common) {
    const C lr = common.lr_at != nullptr ? *static_cast<const C*>(common.lr_at) : static_cast<C>(common.lr);
    Prepared<Rule, C> made;
    made.step = common.step_at != nullptr ? *common.step_at + 1 : common.step;
    made.rule = Rule::make(settings, lr, static_cast<C>(made.step));
    made.multiplier = multiplier_of<C>(common);
    made.ema_weight = static_cast<C>(1 - common.ema_decay);
    made.is_skipped = common.found_inf_at != nullptr && *common.found_inf_at != 0.0f;
    made.is_frozen = lr == C(0);
    return made;
}

// The arguments that every step function ends with, in C's order.
inline Common common_of(double lr, int64_t step, double grad_scale, double max_norm, double ema_decay, int32_t maximize,
                        int32_t rounding, int32_t state_bits, int32_t zero_grads, uint64_t seed, const void* lr_at,
                        const void* step_at, const void* scale_at, const void* found_inf_at, const void* norm_at,
                        void* stream) {
    return {lr,
            step,
            maximize != 0 ? -grad_scale : grad_scale,
            max_norm,
            ema_decay,
            rounding,
            state_bits,
            zero_grads,
            seed,
            lr_at,
            static_cast<const int64_t*>(step_at),
            static_cast<const float*>(scale_at),
            static_cast<const float*>(found_inf_at),
            norm_at,
            stream};
}

inline Status require_common(const Common& common, bool has_error_words, bool has_short_weights, bool quantises) {
    if (common.step_at == nullptr && common.step < 1)
        return fail(Status::kInvalidProblem, "step is %lld, must be >= 1", static_cast<long long>(common.step));
    if (!(common.ema_decay >= 0 && common.ema_decay <= 1))
        return fail(Status::kInvalidProblem, "ema_decay is %g, must be in [0, 1]", common.ema_decay);
    if (common.norm_at != nullptr && !(common.max_norm >= 0))
        return fail(Status::kInvalidProblem, "max_norm is %g, must be >= 0", common.max_norm);
    if (common.rounding < kNearest || common.rounding > kStochastic)
        return fail(Status::kInvalidProblem, "rounding is %d, must be 0, 1 or 2", common.rounding);
    if (common.rounding == kErrorWord && !has_error_words)
        return fail(Status::kUnsupported, "rounding is 1, error words, which are of bf16 parameters alone");
    if (common.rounding == kStochastic && !has_short_weights)
        return fail(Status::kUnsupported, "rounding is 2, stochastic, which is of 16-bit parameters alone");
    if (common.state_bits != 8 && common.state_bits != 32)
        return fail(Status::kInvalidProblem, "state_bits is %d, must be 32 or 8", common.state_bits);
    if (common.state_bits == 8 && !quantises)
        return fail(Status::kUnsupported, "state_bits is 8, which this optimiser or dtype has not");
    return Status::kOk;
}

// 1 - beta^step without cancellation, from ln beta: in f64, so that f32 has the same bits of a step that the host counts
// and of one that the device counts.
template <class C>
BK_HD C one_minus_power(double log_beta, C step) {
    return static_cast<C>(-math::expm1<double>(static_cast<double>(step) * log_beta));
}

}  // namespace bk::optim
