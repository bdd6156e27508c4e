// The reduction engine: y[c] = finish(combination over r of the terms x[c, r]), where c walks the kept axes and r the reduced
// ones; any number of inputs and outputs, any strides.
//
// A reducer R is a trivially copyable struct, parameters are its members:
//
//   using Acc = ...;                              what terms are collected in: a struct of up to 5 numbers, at most 40 bytes
//   Acc identity() const;                         of no terms
//   void add(Acc&, int64_t index, C... x) const;  one term, the inputs widened; `index` is its position along the reduced
//                                                 axes, row-major
//   Acc combine(const Acc& a, const Acc& b) const;
//   Pack<...> or one value finish(const Acc&, int64_t count) const;   a value an output, in compute types; count of terms
//
// and, where it wants them,
//
//   Acc start(C... x) const;                      instead of identity(), for terms of which x is the first; x is added, too
//   void settle(Acc&, int64_t terms) const;       after every kReduceRun terms at most, and before combine: how many were
//                                                 added since the last time. Sums move what they have to a second number
//   static constexpr bool ignores_index = true;   add() does not look at the index: axes merge whatever their order
//   void store(const Pack<Out*...>&, const int64_t* offset, const Acc&, int64_t count) const;    instead of finish(): writes
//                                                 the outputs at their offsets, in elements
//
// Terms of one result are collected in several Accs, interleaved, in an order that depends on the layout and the alignment
// alone, so results are reproducible. A stride of 0 broadcasts an input; the first input decides the order of the walk. An
// output may be null. Long reductions with few results need parts in a workspace to fill a large chip.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/pointwise/layout.h"
#include "core/pointwise/pointwise.h"
#include "core/types/vec.h"

namespace bk {

// Operands of the kept axes are the inputs, then the outputs; of the reduced ones the inputs.
template <int In, int Out>
struct ReduceAxes {
    Layout<In + Out> kept;
    Layout<In> reduced;
};

// Terms between two calls of settle().
constexpr int kReduceRun = 32;

template <class R, class... Out, class... In>
Status reduce(const Launch& launch, const ReduceAxes<sizeof...(In), sizeof...(Out)>& axes, const R& reducer,
              const Outputs<Out...>& out, const Inputs<In...>& in);

// Bytes of workspace that reduce() can use; In are the types of the inputs' elements.
template <class R, class... In, int I, int O>
size_t reduce_workspace(const ReduceAxes<I, O>& axes);

// --- what a reducer has -------------------------------------------------------------------------------------------------

template <class R, class = void>
constexpr bool kIgnoresIndex = false;
template <class R>
constexpr bool kIgnoresIndex<R, std::enable_if_t<R::ignores_index>> = true;

template <class R, class... C>
BK_HD auto start_of(const R& reducer, int, C... x) -> decltype(reducer.start(x...)) {
    return reducer.start(x...);
}
template <class R, class... C>
BK_HD typename R::Acc start_of(const R& reducer, long, C...) {
    return reducer.identity();
}

template <class R>
BK_HD auto settle(const R& reducer, typename R::Acc& acc, int64_t terms, int) -> decltype(reducer.settle(acc, terms)) {
    reducer.settle(acc, terms);
}
template <class R>
BK_HD void settle(const R&, typename R::Acc&, int64_t, long) {}

template <class... Out, class... C, size_t... O>
BK_HD void store_each(const Pack<Out*...>& out, const int64_t* offset, const Pack<C...>& values, std::index_sequence<O...>) {
    ((get<O>(out) != nullptr ? void(get<O>(out)[offset[O]] = narrow<Out>(get<O>(values))) : void()), ...);
}
template <class Out, class C, size_t... O>
BK_HD void store_each(const Pack<Out*>& out, const int64_t* offset, const C& value, std::index_sequence<O...>) {
    get<0>(out)[offset[0]] = narrow<Out>(value);
}
template <class Out, class C, size_t... O>
BK_HD void store_each(const Pack<Out*>& out, const int64_t* offset, const Pack<C>& value, std::index_sequence<O...>) {
    get<0>(out)[offset[0]] = narrow<Out>(get<0>(value));
}

template <class R, class... Out>
BK_HD auto store_result(const R& reducer, const Pack<Out*...>& out, const int64_t* offset, const typename R::Acc& acc,
                        int64_t count, int) -> decltype(reducer.store(out, offset, acc, count)) {
    reducer.store(out, offset, acc, count);
}
template <class R, class... Out>
BK_HD void store_result(const R& reducer, const Pack<Out*...>& out, const int64_t* offset, const typename R::Acc& acc,
                        int64_t count, long) {
    store_each(out, offset, reducer.finish(acc, count), std::index_sequence_for<Out...>{});
}

// --- the walk -----------------------------------------------------------------------------------------------------------

// Collapsed axes. The reduced ones have the position along the axes as given as one more operand, the last.
template <int In, int Out>
struct ReducePlan {
    Layout<In + Out> kept;
    Layout<In + 1> reduced;
    bool along_terms = false;  // neighbours in memory are terms of one result, not different results
    int64_t results = 0, terms = 0;
};

template <class R, int In, int Out>
BK_COLD ReducePlan<In, Out> plan_reduce(const ReduceAxes<In, Out>& axes) {
    ReducePlan<In, Out> plan;
    plan.kept = collapse(axes.kept);
    plan.results = axes.kept.numel();
    plan.terms = axes.reduced.numel();
    Layout<In + 1> reduced;
    int64_t index = kIgnoresIndex<R> ? 0 : plan.terms;
    for (int d = 0; d < axes.reduced.rank; ++d) {
        int64_t stride[In + 1];
        for (int k = 0; k < In; ++k) stride[k] = axes.reduced.stride[k][d];
        stride[In] = index = axes.reduced.extent[d] == 0 ? 0 : index / axes.reduced.extent[d];
        reduced.append(axes.reduced.extent[d], stride);
    }
    plan.reduced = collapse(reduced);
    const auto step = [](const auto& layout) {
        return layout.rank > 0 ? magnitude(layout.stride[0][layout.rank - 1]) : INT64_MAX;
    };
    plan.along_terms = plan.kept.rank == 0 || step(plan.reduced) < step(plan.kept);
    return plan;
}

}  // namespace bk

#if BK_CUDA
#include "core/reduce/reduce_cuda.cuh"
#else
#include "core/reduce/reduce_cpu.h"
#endif
