// Attention functors whose GPU kernels depart from the usual vectors and registers (core/pointwise/tuning.h), as measured on
// an H200.
#pragma once

#include "core/pointwise/tuning.h"

namespace bk {

template <class T, class Index>
struct AlibiFunctor;

// Each vector costs two divisions for its position, which a second one hides; without 40 registers they spill.
template <class T, class Index>
constexpr Tuning kTuning<AlibiFunctor<T, Index>> = {2, 40};

}  // namespace bk
