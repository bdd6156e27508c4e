// The reduction engine's kernels, with a functor that makes their terms.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/reduce/reduce.h"
#include "core/reduce/sum_of_terms.h"
#include "core/reduce/sums.h"

namespace bk {

template <int In>
BK_COLD ReduceAxes<In, 1> axes_of_terms(int64_t numel) {
    ReduceAxes<In, 1> axes;
    int64_t stride[In];
    for (int k = 0; k < In; ++k) stride[k] = 1;
    axes.reduced.append(numel, stride);
    return axes;
}

template <class T, class Fn, class... In>
size_t sum_of_terms_workspace(int64_t numel) {
    return reduce_workspace<TermSum<Fn, compute_t<T>>, In...>(axes_of_terms<sizeof...(In)>(numel));
}

template <class T, class Fn, class... In>
Status sum_of_terms(const Launch& launch, int64_t numel, const Fn& fn, bool is_mean, const Inputs<In...>& in, T* out) {
    return reduce(launch, axes_of_terms<sizeof...(In)>(numel), TermSum<Fn, compute_t<T>>{fn, 0, is_mean}, outputs(out), in);
}

}  // namespace bk
