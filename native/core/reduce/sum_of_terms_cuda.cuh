// A reducer whose terms are the functor's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/reduce/reduce.h"
#include "core/reduce/sum_of_terms.h"

namespace bk {

template <class C>
struct TermsAcc {
    C sum, recent;
};

// Of parts of a sum of terms, whatever they are of.
template <class C>
struct TermTotal {
    using Acc = TermsAcc<C>;
    C divisor;

    BK_HD Acc identity() const { return {0, 0}; }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {a.sum + b.sum, 0}; }
    BK_HD C finish(const Acc& acc, int64_t) const { return acc.sum / divisor; }
};

template <class Fn, class C>
struct TermSum {
    using Acc = TermsAcc<C>;
    using Total = TermTotal<C>;
    static constexpr bool ignores_index = !kIsPositional<Fn>;
    static constexpr bool always_vectors = true;
    Fn fn;
    C divisor;

    Total total() const { return {divisor}; }
    BK_HD Acc identity() const { return {0, 0}; }
    template <class... X>
    BK_HD void add(Acc& acc, int64_t index, X... x) const {
        acc.recent += piece_at(fn, index, 0)(0, x...);
    }
    BK_HD void settle(Acc& acc, int64_t) const { acc = {acc.sum + acc.recent, 0}; }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {a.sum + b.sum, 0}; }
    BK_HD C finish(const Acc& acc, int64_t count) const { return Total{divisor}.finish(acc, count); }
};

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
Status sum_of_terms(const Launch& launch, int64_t numel, const Fn& fn, int64_t divisor, const Inputs<In...>& in, T* out) {
    return reduce(launch, axes_of_terms<sizeof...(In)>(numel),
                  TermSum<Fn, compute_t<T>>{fn, static_cast<compute_t<T>>(divisor)}, outputs(out), in);
}

}  // namespace bk
