// SPDX-License-Identifier: Apache-2.0
// CPU: the reduction engine over items that the functor's dense loop computes.
#pragma once

#include <cstdint>
#include <utility>

#include "core/reduce/computed_items_cpu.h"
#include "core/reduce/pointwise_sum.h"
#include "core/reduce/reduce.h"
#include "core/reduce/sums.h"

namespace bk {

template <class... In, class T, class... Out>
size_t sum_pass_workspace(const ReduceAxes<sizeof...(In) + 1 + sizeof...(Out), 1>&, Inputs<In...>, Outputs<T, Out...>) {
    return 0;
}

// A functor that returns its result `output` in front of all results.
template <class Fn>
struct SelectOutput {
    Fn fn;
    int output;
    template <class... X>
    BK_HD auto operator()(X... x) const {
        return with_selected(as_pack(fn(x...)));
    }

private:
    template <class... V>
    BK_HD auto with_selected(const Pack<V...>& values) const {
        return append(values, std::index_sequence_for<V...>{});
    }
    template <class... V, size_t... I>
    BK_HD auto append(const Pack<V...>& values, std::index_sequence<I...> each) const {
        return pack(select_value(values, output, each), get<I>(values)...);
    }
};

template <class C, class T, int Operands>
BK_COLD Status sum_computed_items(const ReduceAxes<Operands, 1>& axes, const ComputedItems<C, Operands>& items, T* sums) {
    if (axes.kept.is_empty()) return Status::kOk;
    return reduce_spans(axes, PlainSum<C>{}, outputs(sums), items, items.inputs);
}

template <class Fn, class T, class... Each, class... In>
Status sum_pass(const Launch&, const ReduceAxes<sizeof...(In) + sizeof...(Each), 1>& given, const Fn& fn, int output, T* sums,
                const Inputs<In...>& in, const Outputs<Each...>& each) {
    using C = compute_t<T>;
    constexpr int kIn = sizeof...(In), kOperands = kIn + sizeof...(Each);
    constexpr std::index_sequence_for<Each...> outs{};
    constexpr std::index_sequence_for<In...> ins{};
    const SelectOutput<Fn> selected{fn, output};
    char* pointers[kOperands];
    const DenseLoop loop =
        erase(dense_loop(selected, Pack<C*, Each*...>{}, in.pointer, std::make_index_sequence<1 + sizeof...(Each)>{}, ins),
              pointers, each.pointer, in.pointer, outs, ins);
    const int64_t bytes = (static_cast<int64_t>(sizeof(In)) + ...) + (static_cast<int64_t>(sizeof(Each)) + ...);
    return sum_computed_items(given, ComputedItems<C, kOperands>{loop, pointers, kIn, bytes}, sums);
}

}  // namespace bk
