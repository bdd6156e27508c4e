// SPDX-License-Identifier: Apache-2.0
// The reduction engine: y[c] = finish(combine of the items x[c, r] over r), where c runs over the kept axes and r over
// the reduced ones; an item is one element of each input. Any number of inputs and outputs, any strides.
// core/reduce/reducer.h has the reducer protocol.
//
// The items of a result go to several interleaved accumulators, in an order that depends on layout and alignment
// alone, so results are reproducible. Stride 0 broadcasts an input; the first input that is not broadcast decides the
// order of traversal. An output may be null. Long reductions with few results are split, by way of a workspace.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/layout/layout.h"
#include "core/pointwise/pointwise.h"
#include "core/reduce/reducer.h"
#include "core/types/vec.h"

namespace bk {

// Operands of the kept axes are the inputs, then the outputs; of the reduced ones the inputs.
template <int In, int Out>
struct ReduceAxes {
    Layout<In + Out> kept;
    Layout<In> reduced;
};

// Maximum of items between two calls of settle().
constexpr int kSettleInterval = 32;

template <class R, class... Out, class... In>
Status reduce(const Launch& launch, const ReduceAxes<sizeof...(In), sizeof...(Out)>& axes, const R& reducer,
              const Outputs<Out...>& out, const Inputs<In...>& in);

// Bytes of workspace that reduce() can use; In are the types of the inputs' elements.
template <class R, class... In, int I, int O>
size_t reduce_workspace(const ReduceAxes<I, O>& axes);

// Merged axes. The reduced ones have one more operand, the last: the position along the original axes.
template <int In, int Out>
struct ReducePlan {
    Layout<In + Out> kept;
    Layout<In + 1> reduced;
    bool along_items = false;  // adjacent elements are items of one result, not of several
    int64_t results = 0, items = 0;
};

// First of `inputs` operands that is broadcast along no axis: its adjacent elements are worth reading together.
template <int In, int Out>
int leading_input(const ReduceAxes<In, Out>& axes, int inputs) {
    const auto moves = [](const auto& layout, int k) {
        for (int d = 0; d < layout.rank; ++d)
            if (layout.extent[d] > 1 && layout.stride[k][d] == 0) return false;
        return true;
    };
    for (int k = 0; k < inputs; ++k)
        if (moves(axes.kept, k) && moves(axes.reduced, k)) return k;
    return 0;
}

// Merges axes in the memory order of operand `leader`.
template <int Operands>
Layout<Operands> collapse_by(Layout<Operands> layout, int leader) {
    std::swap(layout.stride[0], layout.stride[leader]);
    layout = collapse(layout);
    std::swap(layout.stride[0], layout.stride[leader]);
    return layout;
}

// Only the first `inputs` operands may lead.
template <class R, int In, int Out>
BK_COLD ReducePlan<In, Out> plan_reduce(const ReduceAxes<In, Out>& axes, int inputs = In) {
    const int leader = leading_input(axes, inputs);
    ReducePlan<In, Out> plan;
    plan.kept = collapse_by(axes.kept, leader);
    plan.results = axes.kept.numel();
    plan.items = axes.reduced.numel();
    Layout<In + 1> reduced;
    int64_t index = kIgnoresIndex<R> ? 0 : plan.items;
    for (int d = 0; d < axes.reduced.rank; ++d) {
        int64_t stride[In + 1];
        for (int k = 0; k < In; ++k) stride[k] = axes.reduced.stride[k][d];
        stride[In] = index = axes.reduced.extent[d] == 0 ? 0 : index / axes.reduced.extent[d];
        reduced.append(axes.reduced.extent[d], stride);
    }
    plan.reduced = collapse_by(reduced, kKeepsFirst<R> ? In : leader);  // In is the position
    const auto step = [leader](const auto& layout) {
        return layout.rank > 0 ? magnitude(layout.stride[leader][layout.rank - 1]) : INT64_MAX;
    };
    plan.along_items = plan.kept.rank == 0 || step(plan.reduced) < step(plan.kept);
    return plan;
}

}  // namespace bk

#if BK_CUDA
#include "core/reduce/reduce_cuda.cuh"
#else
#include "core/reduce/reduce_cpu.h"
#endif
