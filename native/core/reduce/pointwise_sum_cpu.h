// Sums of pointwise results by spans of the inner axis: of one result's terms, or of one term of neighbouring results.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/abi/launch.h"
#include "core/pointwise/layout.h"
#include "core/reduce/pointwise_sum.h"

namespace bk {

// Bytes for the terms, the sums and the buffered spans of one task; fewer where many operands take much of the stack
// themselves.
template <int Operands>
constexpr int64_t kSumBytes = Operands <= 5 ? 7680 : 6656;

// Terms of one sum that are added up at a time, whatever else is wanted: their number is part of the order of additions.
template <class C>
constexpr int64_t kSumTerms = 2048 / static_cast<int64_t>(sizeof(C));

// Results of a functor with number `output` alone, for the dense loops.
template <class C, class Fn>
struct PickFunctor {
    Fn fn;
    int output;
    template <class... X>
    BK_HD auto operator()(X... x) const {
        const auto values = as_pack(fn(x...));
        return with_pick(values);
    }
    template <class... V>
    BK_HD Pack<C, V...> with_pick(const Pack<V...>& values) const {
        return append(values, std::index_sequence_for<V...>{});
    }
    template <class... V, size_t... I>
    BK_HD Pack<C, V...> append(const Pack<V...>& values, std::index_sequence<I...> each) const {
        return pack(C(pick(values, output, each)), get<I>(values)...);
    }
};

// Adds `count` neighbours in interleaved lanes, whose number fixes the order.
template <class C>
C add_up(const C* x, int64_t count) {
    constexpr int kLanes = 32;
    C lane[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes)
        for (int l = 0; l < kLanes; ++l) lane[l] += x[i + l];
    for (; i < count; ++i) lane[i % kLanes] += x[i];
    for (int width = kLanes / 2; width > 0; width /= 2)
        for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
    return lane[0];
}

// Memory of a task: terms, sums, and what compute_buffered_span takes.
template <class C>
struct SumBuffers {
    C* value;
    C* sum;
    char* spans;
    int64_t span_bytes;
};

// Part `split` of results [first, first + count) of the last kept axis, into buffers.sum. `base` is where the operands' first
// result lies. The loop's operands: the term, the outputs, the inputs; a layout has the inputs, then the outputs.
template <class C, int Operands>
BK_COLD void sum_part(const SumLayout<Operands>& plan, int inputs, int64_t split, const DenseLoop& loop, char* const* pointers,
                      const int64_t* base, int64_t count, const SumBuffers<C>& buffers) {
    C *const sum = buffers.sum, *const value = buffers.value;
    const auto& along = plan.along_terms ? plan.summed : plan.kept;  // the axis of the inner loop
    const int last = along.rank - 1, outputs = Operands - inputs;
    const Walk<Operands, uint64_t> walk(plan.summed);
    const int64_t stop = std::min(plan.summed.numel(), (split + 1) * plan.terms);
    char* start[1 + Operands] = {reinterpret_cast<char*>(value)};
    int64_t step[1 + Operands] = {1};
    for (int64_t i = 0; i < count; ++i) sum[i] = 0;
    for (int64_t t = split * plan.terms; t < stop;) {
        // A run of terms along the last summed axis, or one term of every result.
        int64_t run = 1;
        if (plan.along_terms) run = std::min({plan.summed.extent[last] - t % plan.summed.extent[last], stop - t, kSumTerms<C>});
        const int64_t n = plan.along_terms ? run : count;
        const auto offset = walk(static_cast<uint64_t>(t));
        for (int k = 0; k < Operands; ++k) {
            const int place = 1 + (k < inputs ? outputs + k : k - inputs);
            char* const origin = pointers[place - 1];
            start[place] = origin == nullptr ? nullptr : origin + (base[k] + signed_offset(offset.of[k])) * loop.size[place];
            step[place] = last < 0 ? 1 : along.stride[k][last];
        }
        compute_buffered_span(loop, 1 + Operands, 0, n, start, step, buffers.spans, buffers.span_bytes);
        if (plan.along_terms)
            sum[0] += add_up(value, n);
        else
            for (int64_t i = 0; i < n; ++i) sum[i] += value[i];
        t += run;
    }
}

// Adds the parts of each sum, which lie one after another, in order.
template <class C, class T, int Operands>
BK_COLD void add_splits(const SumLayout<Operands>& plan, int target, const C* partial, T* sums) {
    const Walk<Operands, uint64_t> walk(plan.kept);
    const int64_t results = plan.kept.numel();
    split_ranges(results, grain_for(sizeof(C) * plan.splits), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            C sum = 0;
            for (int64_t split = 0; split < plan.splits; ++split) sum += partial[split * results + i];
            sums[signed_offset(walk(static_cast<uint64_t>(i)).of[target])] = narrow<T>(sum);
        }
    });
}

// The parts of all sums: into `partial`, or, where a sum has one part, into `sums`. A task is one result where the
// plan goes along the terms, else a run of `block` results along the last kept axis.
template <class C, class T, int Operands>
struct SumTasks {
    const SumLayout<Operands>& plan;
    int inputs, target;  // the latter counts from the first operand
    const DenseLoop& loop;
    char* const* pointers;
    C* partial;
    T* sums;
    int last = -1;  // the axis that tasks cut
    int64_t width = 1, block = 1, blocks = 1, count = 1;
    Walk<Operands, uint64_t> walk = {};

    void divide() {
        Layout<Operands> outer = plan.kept;
        last = plan.along_terms ? -1 : outer.rank - 1;
        if (last >= 0) width = outer.extent[last], outer.rank = last;
        walk = Walk<Operands, uint64_t>(outer);
        const int64_t fair = ceil_div(outer.numel() * plan.splits * width, 2 * thread_count());
        const int64_t most = kSumBytes<Operands> / (span_bytes() + 2 * static_cast<int64_t>(sizeof(C))) / kBlock * kBlock;
        block = std::min({width, most, std::max<int64_t>(kBlock, fair)});
        blocks = ceil_div(width, block);
        count = outer.numel() * blocks;
    }

    // For an element of spans along the last kept axis: what buffers take.
    int64_t span_bytes() const {
        const int outputs = Operands - inputs;
        int64_t step[1 + Operands] = {1};
        C term;
        char* start[1 + Operands] = {reinterpret_cast<char*>(&term)};
        for (int k = 0; k < Operands; ++k) {
            const int place = 1 + (k < inputs ? outputs + k : k - inputs);
            start[place] = pointers[place - 1];
            step[place] = last < 0 ? 1 : plan.kept.stride[k][last];
        }
        return buffered_bytes(loop, 1 + Operands, start, step);
    }

    // Apart from the code that starts threads, which would have a second buffer on the stack.
    BK_COLD void run(int64_t begin, int64_t end) const {
        alignas(64) char memory[kSumBytes<Operands>];
        C one[1];
        C* const value = reinterpret_cast<C*>(memory);
        const int64_t terms = plan.along_terms ? kSumTerms<C> : ceil_div<int64_t>(block, kBlock) * kBlock;
        const int64_t taken = (plan.along_terms ? 1 : 2) * terms * static_cast<int64_t>(sizeof(C));
        const SumBuffers<C> buffers{value, plan.along_terms ? one : value + terms, memory + taken, kSumBytes<Operands> - taken};
        for (int64_t task = begin; task < end; ++task) {
            const int64_t split = task / count, line = task % count / blocks, first = task % blocks * block;
            const int64_t results = std::min(block, width - first);
            const auto offset = walk(static_cast<uint64_t>(line));
            int64_t base[Operands];
            for (int k = 0; k < Operands; ++k)
                base[k] = signed_offset(offset.of[k]) + (last < 0 ? 0 : first * plan.kept.stride[k][last]);
            sum_part(plan, inputs, split, loop, pointers, base, results, buffers);
            if (partial != nullptr) {
                std::copy_n(buffers.sum, results, partial + split * plan.kept.numel() + line * width + first);
                continue;
            }
            for (int64_t i = 0; i < results; ++i)
                sums[base[target] + (last < 0 ? 0 : i * plan.kept.stride[target][last])] = narrow<T>(buffers.sum[i]);
        }
    }
};

template <class C, class Fn, class T, class... Out, class... In>
Status sum_pass(const Launch& launch, const SumLayout<1 + sizeof...(Out) + sizeof...(In)>& plan, int output, const Fn& fn,
                T* sums, const Outputs<T, Out...>& out, const Inputs<In...>& in) {
    constexpr int kInputs = static_cast<int>(sizeof...(In)), kOperands = 1 + sizeof...(Out) + kInputs;
    C* const partial = plan.splits > 1 ? Carver(launch.workspace).take<C>(plan.splits * plan.kept.numel()) : nullptr;
    const PickFunctor<C, Fn> picked{fn, output};
    constexpr std::make_index_sequence<1 + sizeof...(Out)> outs{};
    constexpr std::index_sequence_for<In...> ins{};
    char* pointers[kOperands];
    const DenseLoop loop =
        erase(dense_loop(picked, Pack<C*, T*, Out*...>{}, in.pointer, std::make_index_sequence<2 + sizeof...(Out)>{}, ins),
              pointers, out.pointer, in.pointer, outs, ins);
    SumTasks<C, T, kOperands> tasks{plan, kInputs, kInputs + output, loop, pointers, partial, sums};
    tasks.divide();
    split_ranges(tasks.count * plan.splits, grain_for(sizeof(T) * tasks.block * plan.terms),
                 [&](int64_t begin, int64_t end) { tasks.run(begin, end); });
    if (partial != nullptr) add_splits(plan, kInputs + output, partial, sums);
    return Status::kOk;
}

}  // namespace bk
