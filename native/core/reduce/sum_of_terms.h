// Transform and sum: what a functor computes from dense inputs, added, over a divisor; terms are not rounded to T.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/pointwise/pointwise.h"

namespace bk {

// Requires numel and divisor not to be 0. A workspace lets it fill a large chip.
template <class T, class Fn, class... In>
Status sum_of_terms(const Launch& launch, int64_t numel, const Fn& fn, int64_t divisor, const Inputs<In...>& in, T* out);

// Bytes of workspace that sum_of_terms can use.
template <class T, class Fn, class... In>
size_t sum_of_terms_workspace(int64_t numel);

}  // namespace bk

#if BK_CUDA
#include "core/reduce/sum_of_terms_cuda.cuh"
#else
#include "core/reduce/sum_of_terms_cpu.h"
#endif
