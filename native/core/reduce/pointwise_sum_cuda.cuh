// SPDX-License-Identifier: Apache-2.0
// CUDA: the reduction engine's kernels with a functor that computes their items.
#pragma once

#include "core/reduce/pointwise_sum.h"
#include "core/reduce/reduce.h"
#include "core/reduce/sums.h"

namespace bk {

template <class... In, class T, class... Out>
size_t sum_pass_workspace(const ReduceAxes<sizeof...(In) + 1 + sizeof...(Out), 1>& axes, Inputs<In...>, Outputs<T, Out...>) {
    return reduce_each_workspace<PlainSum<compute_t<T>>, Inputs<In...>, Outputs<T, Out...>>(axes);
}

template <class Fn, class T, class... Each, class... In>
Status sum_pass(const Launch& launch, const ReduceAxes<sizeof...(In) + sizeof...(Each), 1>& axes, const Fn& fn, int output,
                T* sums, const Inputs<In...>& in, const Outputs<Each...>& each) {
    return reduce_each(launch, axes, FunctorSum<Fn, compute_t<T>>{fn, output}, outputs(sums), in, each);
}

}  // namespace bk
