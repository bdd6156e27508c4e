// SPDX-License-Identifier: Apache-2.0
// Transform and sum: what a functor computes from dense inputs, added, over a divisor; summands are not rounded to T.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/pointwise/pointwise.h"

namespace bk {

// Requires numel and divisor not to be 0. A workspace lets it fill a large chip.
template <class T, class Fn, class... In>
Status transform_sum(const Launch& launch, int64_t numel, const Fn& fn, int64_t divisor, const Inputs<In...>& in, T* out);

// Bytes of workspace that transform_sum can use.
template <class T, class Fn, class... In>
size_t transform_sum_workspace(int64_t numel);

}  // namespace bk

#if BK_CUDA
#include "core/reduce/transform_sum_cuda.cuh"
#else
#include "core/reduce/transform_sum_cpu.h"
#endif
