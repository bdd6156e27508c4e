// Pointwise results of which some are summed: gradients of operands that were broadcast.
//
// An output whose stride is 0 along an axis gets the sum over that axis, accumulated in the compute type, in an order that
// depends on the layout alone, and rounded once. The first output that is summed shares its pass over the inputs with those
// that are not; each further one costs a pass of its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/pointwise/layout.h"
#include "core/pointwise/pointwise.h"

namespace bk {

// Axes of one summed output: the inputs, then the outputs. `kept` are those along which it moves.
template <int Operands>
struct SumLayout {
    Layout<Operands> kept;
    Layout<Operands> summed;
    bool along_terms = false;  // neighbours in memory are terms of one sum, not different results
    int64_t splits = 1;        // parts of each sum, one after another in the workspace
    int64_t terms = 0;         // of a part
};

template <int Operands>
bool is_summed(const Layout<Operands>& layout, int operand) {
    for (int d = 0; d < layout.rank; ++d)
        if (layout.stride[operand][d] == 0 && layout.extent[d] > 1) return true;
    return false;
}

// Enough to fill a large chip or a machine of many cores; constants, so that the order of additions is the same everywhere.
constexpr int64_t kSumWorkers = int64_t{1} << 20;
constexpr int64_t kSumMostSplits = 8192;
constexpr int64_t kSumLeastTerms = 512;

// `layout` has the inputs, then the outputs; `output` counts from the first operand.
template <int Operands>
BK_COLD SumLayout<Operands> plan_sum_of(const Layout<Operands>& layout, int output) {
    SumLayout<Operands> plan;
    for (int d = 0; d < layout.rank; ++d) {
        int64_t stride[Operands];
        for (int k = 0; k < Operands; ++k) stride[k] = layout.stride[k][d];
        (stride[output] == 0 ? plan.summed : plan.kept).append(layout.extent[d], stride);
    }
    plan.kept = collapse(plan.kept);
    plan.summed = collapse(plan.summed);
    const auto step = [](const Layout<Operands>& axes) {
        return axes.rank > 0 ? magnitude(axes.stride[0][axes.rank - 1]) : INT64_MAX;
    };
    plan.along_terms = step(plan.summed) < step(plan.kept);
    const int64_t results = plan.kept.numel(), terms = plan.summed.numel();
    const int64_t wanted = kSumWorkers / std::max<int64_t>(plan.along_terms ? results * 256 : results, 1);
    plan.splits = std::max<int64_t>(1, std::min({wanted, terms / kSumLeastTerms, kSumMostSplits}));
    plan.terms = ceil_div(terms, plan.splits);
    // Whole vectors to every part, whatever their width.
    plan.terms = ceil_div<int64_t>(plan.terms, 16) * 16;
    plan.splits = ceil_div(terms, plan.terms);
    return plan;
}

// Bytes for the partial sums of one output.
template <class C, int Operands>
size_t sum_bytes(const SumLayout<Operands>& plan) {
    Carver carver;
    if (plan.splits > 1) carver.take<C>(plan.splits * plan.kept.numel());
    return carver.bytes();
}

// Bytes of workspace that pointwise_sums can use; `inputs` operands of the layout precede the outputs.
template <class C, int Operands>
size_t pointwise_sums_workspace(const Layout<Operands>& layout, int inputs) {
    size_t bytes = 0;
    for (int k = inputs; k < Operands; ++k)
        if (is_summed(layout, k)) bytes = std::max(bytes, sum_bytes<C>(plan_sum_of(layout, k)));
    return bytes;
}

// A functor's result as a Pack, whether it is one or a single value.
template <class C>
BK_HD Pack<C> as_pack(C value) {
    return pack(value);
}
template <class... C>
BK_HD Pack<C...> as_pack(const Pack<C...>& value) {
    return value;
}

// One of the values of a Pack of equal types.
template <class... C, size_t... O>
BK_HD auto pick(const Pack<C...>& values, int index, std::index_sequence<O...>) {
    auto value = get<0>(values);
    ((value = index == static_cast<int>(O) ? get<O>(values) : value), ...);
    return value;
}

// Sums output number `output`; the others are stored where their pointers are not null.
template <class C, class Fn, class T, class... Out, class... In>
Status sum_pass(const Launch& launch, const SumLayout<1 + sizeof...(Out) + sizeof...(In)>& plan, int output, const Fn& fn,
                T* sums, const Outputs<T, Out...>& out, const Inputs<In...>& in);

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

// What gradients leave to do, given the strides of each: of no elements, a gradient that stands still along the empty axes is
// a sum of nothing.
inline Work work_of_sums(int64_t numel, int32_t rank, const int32_t* shape, std::initializer_list<const int64_t*> outputs) {
    if (numel != 0) return Work::kAll;
    for (const int64_t* const strides : outputs) {
        bool has_cells = true;
        for (int32_t d = 0; d < rank; ++d) has_cells = has_cells && (shape[d] != 0 || strides[d] == 0);
        if (has_cells) return Work::kZeros;
    }
    return Work::kNone;
}

// Sums of nothing.
template <int Operands, class T>
BK_COLD Status zero_cells(const Launch& launch, const Layout<Operands>& layout, int operand, T* y) {
    Layout<1> cells;
    for (int d = 0; d < layout.rank; ++d) {
        const int64_t step[] = {layout.stride[operand][d]};
        if (step[0] != 0) cells.append(layout.extent[d], step);
    }
    if (y == nullptr || cells.is_empty()) return Status::kOk;
    return pointwise_strided(launch, cells, ZeroFunctor<compute_t<T>>{}, outputs(y), inputs());
}

// A pointwise layout.
template <int Inputs, int Operands>
BK_COLD Layout<Operands> outputs_first(const Layout<Operands>& layout) {
    constexpr int kOutputs = Operands - Inputs;
    Layout<Operands> turned = layout;
    for (int d = 0; d < layout.rank; ++d)
        for (int k = 0; k < Operands; ++k) turned.stride[k < Inputs ? kOutputs + k : k - Inputs][d] = layout.stride[k][d];
    return turned;
}

// The layout's operands are the inputs, then the outputs, all of one dtype, any of which may be null. A summed output shares
// no memory with an input; each of the others may be one.
template <class C, class Fn, class T, class... Out, class... In>
Status pointwise_sums(const Launch& launch, const Layout<1 + sizeof...(Out) + sizeof...(In)>& layout, const Fn& fn,
                      const Outputs<T, Out...>& out, const Inputs<In...>& in) {
    constexpr int kIn = sizeof...(In), kOut = 1 + sizeof...(Out);
    constexpr std::make_index_sequence<kOut> each{};
    if (layout.is_empty()) {
        for (int o = 0; o < kOut; ++o)
            BK_TRY(zero_cells(launch, layout, kIn + o, static_cast<T*>(pointer_at(out.pointer, o, each))));
        return Status::kOk;
    }
    bool found = false;
    BK_TRY(find_workspace(launch, pointwise_sums_workspace<C>(layout, kIn), &found));
    Outputs<T, Out...> whole = out, none = out;
    int summed[kOut], sums = 0;
    for (int o = 0; o < kOut; ++o) {
        drop(&none.pointer, o, each);
        if (!is_summed(layout, kIn + o)) continue;
        drop(&whole.pointer, o, each);
        if (pointer_at(out.pointer, o, each) != nullptr) summed[sums++] = o;
    }
    for (int i = 0; i < sums; ++i) {
        auto plan = plan_sum_of(layout, kIn + summed[i]);
        if (!found) plan.splits = 1, plan.terms = plan.summed.numel();
        // What is stored may be an input, so it is stored by the last pass.
        BK_TRY(sum_pass<C>(launch, plan, summed[i], fn, static_cast<T*>(pointer_at(out.pointer, summed[i], each)),
                           i + 1 < sums ? none : whole, in));
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
