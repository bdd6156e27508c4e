// What a functor's GPU kernels want in place of the usual numbers (core/pointwise/pointwise_cuda.cuh), with 0 for the usual
// one. The tune.h of a family specialises it for the functors that were measured to be faster so.
#pragma once

namespace bk {

struct Tuning {
    int vectors = 0;    // that a thread of the dense kernel takes
    int registers = 0;  // that a thread may use
};

template <class Fn>
constexpr Tuning kTuning{};

}  // namespace bk
