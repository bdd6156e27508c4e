// What the losses share: terms are kept as they are, or their mean or sum is.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <type_traits>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/pointwise/pointwise.h"

namespace bk {

constexpr int32_t kEachTerm = 0, kMeanOfTerms = 1, kSumOfTerms = 2;

BK_COLD inline Status check_loss(std::initializer_list<NamedExtent> extents, int32_t reduction_mode) {
    BK_TRY(require_non_negative(extents));
    if (reduction_mode < kEachTerm || reduction_mode > kSumOfTerms)
        return fail(Status::kInvalidProblem, "reduction_mode is %d, must be 0 (none), 1 (mean) or 2 (sum)", reduction_mode);
    return Status::kOk;
}

// A mean or a sum of no terms is written, too.
inline Work work_of_loss(int64_t terms, int32_t reduction_mode) {
    return terms > 0 ? Work::kAll : reduction_mode == kEachTerm ? Work::kNone : Work::kZeros;
}

inline int64_t results_of_loss(int64_t terms, int32_t reduction_mode) { return reduction_mode == kEachTerm ? terms : 1; }

// What the sum of the terms is divided by.
inline int64_t divisor_of_loss(int64_t terms, int32_t reduction_mode) { return reduction_mode == kMeanOfTerms ? terms : 1; }

// The share of a term in the mean, or in the sum.
template <class C>
C factor_of_loss(int64_t terms, int32_t reduction_mode) {
    return reduction_mode == kMeanOfTerms ? C(1) / static_cast<C>(terms) : C(1);
}

// What dy is multiplied by. For f32 and the 16-bit floats the caller says it, for f64 a float would be too short.
template <class C>
C factor_of_gradient(int64_t terms, int32_t reduction_mode, float scale_scalar) {
    if (reduction_mode == kEachTerm) return C(1);
    return std::is_same_v<C, double> ? factor_of_loss<C>(terms, reduction_mode) : static_cast<C>(scale_scalar);
}

template <class C>
struct ConstantFunctor {
    C value;
    BK_HD C operator()() const { return value; }
};

// The mean or sum of no terms: NaN or 0.
template <class T>
Status write_empty_loss(const Launch& launch, int32_t reduction_mode, T* out) {
    using C = compute_t<T>;
    const C value = reduction_mode == kMeanOfTerms ? std::numeric_limits<C>::quiet_NaN() : C(0);
    return pointwise(launch, 1, ConstantFunctor<C>{value}, outputs(out), inputs());
}

}  // namespace bk
