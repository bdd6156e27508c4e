// SPDX-License-Identifier: Apache-2.0
// Pointwise ops some of whose outputs are summed: gradients of broadcast operands.
//
// An output with stride 0 along an axis is summed over it in the compute type, in an order that depends on the layout
// alone, and rounded once. One sum shares its pass with the outputs that are not summed; each other costs a pass.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/layout/layout.h"
#include "core/pointwise/pointwise.h"
#include "core/reduce/reduce.h"
#include "core/reduce/sums.h"

namespace bk {

template <int Operands>
bool is_summed(const Layout<Operands>& layout, int operand) {
    for (int d = 0; d < layout.rank; ++d)
        if (layout.stride[operand][d] == 0 && layout.extent[d] > 1) return true;
    return false;
}

// Axes of the reduction that sums operand `output` of a layout of inputs, then outputs; it may store all outputs.
template <int Operands>
BK_COLD ReduceAxes<Operands, 1> axes_of_sum(const Layout<Operands>& layout, int output) {
    ReduceAxes<Operands, 1> axes;
    for (int d = 0; d < layout.rank; ++d) {
        int64_t item[Operands], kept[Operands + 1];
        for (int k = 0; k < Operands; ++k) item[k] = kept[k] = layout.stride[k][d];
        kept[Operands] = layout.stride[output][d];
        if (kept[Operands] == 0)
            axes.reduced.append(layout.extent[d], item);
        else
            axes.kept.append(layout.extent[d], kept);
    }
    return axes;
}

// Bytes of workspace that the sum of one output can use, for operands of such types.
template <class... In, class T, class... Out>
size_t sum_pass_workspace(const ReduceAxes<sizeof...(In) + 1 + sizeof...(Out), 1>& axes, Inputs<In...>, Outputs<T, Out...>);

// Sums output number `output` of the functor, and stores those of `each` that are not null.
template <class Fn, class T, class... Each, class... In>
Status sum_pass(const Launch& launch, const ReduceAxes<sizeof...(In) + sizeof...(Each), 1>& axes, const Fn& fn, int output,
                T* sums, const Inputs<In...>& in, const Outputs<Each...>& each);

// Bytes of workspace that pointwise_sums can use, for operands of such types.
template <class In, class Out>
size_t pointwise_sums_workspace(const Layout<In::count + Out::count>& layout, In in, Out out) {
    size_t bytes = 0;
    for (int k = In::count; k < In::count + Out::count; ++k)
        if (is_summed(layout, k)) bytes = std::max(bytes, sum_pass_workspace(axes_of_sum(layout, k), in, out));
    return bytes;
}

template <class... T, size_t... I>
bool any_of(const Pack<T*...>& pointers, std::index_sequence<I...>) {
    return (false || ... || (get<I>(pointers) != nullptr));
}

template <class... T, size_t... I>
void* pointer_at(const Pack<T*...>& pointers, int index, std::index_sequence<I...>) {
    void* result = nullptr;
    ((result = index == static_cast<int>(I) ? get<I>(pointers) : result), ...);
    return result;
}

template <class... T, size_t... I>
void drop(Pack<T*...>* pointers, int index, std::index_sequence<I...>) {
    ((index == static_cast<int>(I) ? void(get<I>(*pointers) = nullptr) : void()), ...);
}

// Work left for gradients with these strides: a gradient broadcast along an empty axis is an empty sum.
inline Work work_of_sums(int64_t numel, int32_t rank, const int32_t* shape, std::initializer_list<const int64_t*> outputs) {
    if (numel != 0) return Work::kAll;
    for (const int64_t* const strides : outputs) {
        bool has_elements = true;
        for (int32_t d = 0; d < rank; ++d) has_elements = has_elements && (shape[d] != 0 || strides[d] == 0);
        if (has_elements) return Work::kZeros;
    }
    return Work::kNone;
}

// Reorders the operands as pointwise_strided() takes them.
template <int Inputs, int Operands>
BK_COLD Layout<Operands> outputs_first(const Layout<Operands>& layout) {
    constexpr int kOutputs = Operands - Inputs;
    Layout<Operands> permuted = layout;
    for (int d = 0; d < layout.rank; ++d)
        for (int k = 0; k < Operands; ++k) permuted.stride[k < Inputs ? kOutputs + k : k - Inputs][d] = layout.stride[k][d];
    return permuted;
}

// The layout's operands are the inputs, then the outputs, all of one dtype, any of which may be null. A summed output shares
// no memory with an input; each of the others may be one.
template <class Fn, class T, class... Out, class... In>
Status pointwise_sums(const Launch& launch, const Layout<1 + sizeof...(Out) + sizeof...(In)>& layout, const Fn& fn,
                      const Outputs<T, Out...>& out, const Inputs<In...>& in) {
    constexpr int kIn = sizeof...(In), kOut = 1 + sizeof...(Out);
    constexpr std::make_index_sequence<kOut> each{};
    Outputs<T, Out...> whole = out, none = out;
    int summed[kOut], sums = 0;
    for (int o = 0; o < kOut; ++o) {
        drop(&none.pointer, o, each);
        if (!is_summed(layout, kIn + o) && !layout.is_empty()) continue;  // no elements: empty sums
        drop(&whole.pointer, o, each);
        if (pointer_at(out.pointer, o, each) != nullptr) summed[sums++] = o;
    }
    for (int i = 0; i < sums; ++i) {
        // Outputs may alias inputs, so the last pass stores them.
        BK_TRY(sum_pass(launch, axes_of_sum(layout, kIn + summed[i]), fn, summed[i],
                        static_cast<T*>(pointer_at(out.pointer, summed[i], each)), in, i + 1 < sums ? none : whole));
    }
    if (sums > 0 || !any_of(whole.pointer, each)) return Status::kOk;
    return pointwise_strided(launch, outputs_first<kIn>(layout), fn, whole, in);
}

}  // namespace bk

#if BK_CUDA
#include "core/reduce/pointwise_sum_cuda.cuh"
#else
#include "core/reduce/pointwise_sum_cpu.h"
#endif
