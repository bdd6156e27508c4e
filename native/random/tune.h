// SPDX-License-Identifier: Apache-2.0
// Registers of the pointwise kernels of random numbers, by which they do not spill on sm_90: a vector of words and the
// round of Philox, and the f64 of Poisson variables.
#pragma once

#include "core/pointwise/tuning.h"
#include "core/types/dtype.h"

namespace bk {

namespace op {
template <class T, bool kHasResidual>
struct Dropout;
template <class T>
struct BernoulliOf;
template <class T>
struct PoissonOf;
}  // namespace op

template <class T, bool kHasResidual>
inline constexpr Tuning kTuning<op::Dropout<T, kHasResidual>>{1, 56};
template <class T>
inline constexpr Tuning kTuning<op::BernoulliOf<T>>{1, 56};
template <class T>
inline constexpr Tuning kTuning<op::PoissonOf<T>>{1, 128};

}  // namespace bk
