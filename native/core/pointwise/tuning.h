// SPDX-License-Identifier: Apache-2.0
// Per-functor overrides of the pointwise kernels' defaults (core/pointwise/pointwise_cuda.cuh); 0 keeps the default.
// The tune.h of a family specialises kTuning for functors that measured faster with other values.
#pragma once

namespace bk {

struct Tuning {
    int vectors = 0;    // per thread of the dense kernel
    int registers = 0;  // per thread, at most
};

template <class Fn>
constexpr Tuning kTuning{};

}  // namespace bk
