// SPDX-License-Identifier: Apache-2.0
// CUDA transform and sum: the reduction engine's kernels with a functor that computes their summands.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/reduce/reduce.h"
#include "core/reduce/sums.h"
#include "core/reduce/transform_sum.h"

namespace bk {

// Combines and divides partial sums, whatever their functor.
template <class C>
struct DividedTotal {
    using Acc = SumAcc<C>;
    C divisor;

    BK_HD Acc identity() const { return {0, 0}; }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return a + b; }
    BK_HD C finish(const Acc& acc, int64_t) const { return acc.over(divisor); }
};

template <class Fn, class C>
struct DividedSum : FunctorSum<Fn, C> {
    static constexpr bool always_vectors = true, may_be_lost = true;
    using Acc = SumAcc<C>;
    C divisor;

    BK_HD DividedTotal<C> combiner() const { return {divisor}; }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return a + b; }
    BK_HD C finish(const Acc& acc, int64_t count) const { return combiner().finish(acc, count); }

    BK_HD bool is_lost(const Acc& acc) const { return !is_finite(acc.sum); }
    BK_HD Acc start_again() const { return {0, 0}; }
    BK_HD Acc end_again(const Acc& acc) const { return acc.sealed(); }
    template <class... X>
    BK_HD void add_again(Acc& acc, int64_t index, X... x) const {
        Acc summand{0, 0};
        this->add(summand, index, x...);
        acc.add_scaled(summand.recent);
    }
};

template <int In>
BK_COLD ReduceAxes<In, 1> axes_of_items(int64_t numel) {
    ReduceAxes<In, 1> axes;
    int64_t stride[In];
    for (int k = 0; k < In; ++k) stride[k] = 1;
    axes.reduced.append(numel, stride);
    return axes;
}

template <class T, class Fn, class... In>
size_t transform_sum_workspace(int64_t numel) {
    return reduce_workspace<DividedSum<Fn, compute_t<T>>, In...>(axes_of_items<sizeof...(In)>(numel));
}

template <class T, class Fn, class... In>
Status transform_sum(const Launch& launch, int64_t numel, const Fn& fn, int64_t divisor, const Inputs<In...>& in, T* out) {
    using C = compute_t<T>;
    return reduce(launch, axes_of_items<sizeof...(In)>(numel), DividedSum<Fn, C>{{fn, 0}, static_cast<C>(divisor)},
                  outputs(out), in);
}

}  // namespace bk
