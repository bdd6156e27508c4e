// SPDX-License-Identifier: Apache-2.0
// The reduction of losses: none (one output per loss), mean or sum, and the scales that follow from it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <type_traits>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/pointwise/pointwise.h"

namespace bk {

constexpr int32_t kReductionNone = 0, kReductionMean = 1, kReductionSum = 2;

BK_COLD inline Status check_loss(std::initializer_list<NamedExtent> extents, int32_t reduction_mode) {
    BK_TRY(require_non_negative(extents));
    if (reduction_mode < kReductionNone || reduction_mode > kReductionSum)
        return fail(Status::kInvalidProblem, "reduction_mode is %d, must be 0 (none), 1 (mean) or 2 (sum)", reduction_mode);
    return Status::kOk;
}

// An empty mean or sum is written, too.
inline Work work_of_loss(int64_t num_losses, int32_t reduction_mode) {
    return num_losses > 0 ? Work::kAll : reduction_mode == kReductionNone ? Work::kNone : Work::kZeros;
}

inline int64_t loss_numel(int64_t num_losses, int32_t reduction_mode) {
    return reduction_mode == kReductionNone ? num_losses : 1;
}

inline int64_t reduction_divisor(int64_t num_losses, int32_t reduction_mode) {
    return reduction_mode == kReductionMean ? num_losses : 1;
}

// d reduction / d loss: 1 / num_losses for the mean, else 1.
template <class C>
C reduction_scale(int64_t num_losses, int32_t reduction_mode) {
    return reduction_mode == kReductionMean ? C(1) / static_cast<C>(num_losses) : C(1);
}

// The scale of dy: scale_scalar of the caller, but reduction_scale() for f64, for which a float lacks the precision.
template <class C>
C backward_scale(int64_t num_losses, int32_t reduction_mode, float scale_scalar) {
    if (reduction_mode == kReductionNone) return C(1);
    return std::is_same_v<C, double> ? reduction_scale<C>(num_losses, reduction_mode) : static_cast<C>(scale_scalar);
}

template <class C>
struct ConstantFunctor {
    C value;
    BK_HD C operator()() const { return value; }
};

// The mean of no losses is NaN, their sum 0.
template <class T>
Status write_empty_loss(const Launch& launch, int32_t reduction_mode, T* out) {
    using C = compute_t<T>;
    const C value = reduction_mode == kReductionMean ? std::numeric_limits<C>::quiet_NaN() : C(0);
    return pointwise(launch, 1, ConstantFunctor<C>{value}, outputs(out), inputs());
}

}  // namespace bk
