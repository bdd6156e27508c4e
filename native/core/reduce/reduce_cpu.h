// SPDX-License-Identifier: Apache-2.0
// CPU reduction engine. Each element of a span has an accumulator: adjacent results, or items of one result, whose
// accumulators are combined at the end.
//
// Items come from a type: from memory here, or from a loop (core/reduce/computed_items_cpu.h). It has
//
//   static constexpr int kOperands;                 the axes give their strides before those of the outputs
//   static constexpr int64_t kMost;                 elements of a span, at most
//   using Values = std::index_sequence<...>;        an index for each value of an item
//   int64_t bytes;                                  of an item
//   int64_t most() const;                           elements of a span with int64_t step[kOperands] between them
//   bool is_contiguous() const;                     whether spans are contiguous in memory; inputs from kVaryingInputs
//                                                   of the reducer on, if it has that, are one element for the span
//   struct Reader { static constexpr bool kInMemory; Reader(const Items&); void move_to(const int64_t* base);
//       Pack<const C*...> read(const int64_t* offset, int64_t index, int64_t count, int64_t left); };
//
// Each thread has a Reader. It reads `count` adjacent elements at `offset` from `base`, in elements of each operand;
// `left` is how many will be read in sequence.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/abi/launch.h"
#include "core/layout/layout.h"
#include "core/reduce/recompute_lost_cpu.h"
#include "core/reduce/reduce.h"
#include "core/reduce/reduce_accs_cpu.h"
#include "core/reduce/reduce_spans_cpu.h"

namespace bk {

// Splits of long reductions, and min. items of each. The items of a result alone decide, so that neither the number of
// results nor that of threads changes its bits.
constexpr int64_t kReduceSplits = 64;
constexpr int64_t kReduceSplitItems = 16384;

inline int64_t splits_of(int64_t items) {
    int64_t splits = 1;
    while (splits < kReduceSplits && 2 * splits * kReduceSplitItems <= items) splits *= 2;
    return splits;
}

template <class R, class... In, int I, int O>
size_t reduce_workspace(const ReduceAxes<I, O>&) {
    return 0;
}

// Items of a short result; bf16 is widened by whole vectors. In a loop GCC splits them through memory, which is slow.
template <class... In>
struct ShortSpans {
    template <class T>
    static constexpr bool kIsCopied = std::is_same_v<T, bf16>;
    template <class T>
    using Item = std::conditional_t<kIsCopied<T>, float, T>;
    template <class T>
    struct alignas(64) Buffer {
        Item<T> at[kIsCopied<T> ? kShortAccs : 1];
    };
    Pack<Buffer<In>...> copies;

    template <size_t I, class T>
    BK_HD const Item<T>* widened(const T* x) {
        if constexpr (kIsCopied<T>) {
            typedef uint16_t Halves __attribute__((vector_size(2 * kShortAccs)));
            typedef uint32_t Bits __attribute__((vector_size(4 * kShortAccs)));
            Halves halves;
            memcpy(&halves, x, sizeof(halves));
            const Bits bits = __builtin_convertvector(halves, Bits) << 16;
            memcpy(get<I>(copies).at, &bits, sizeof(bits));
            return get<I>(copies).at;
        } else {
            return x;
        }
    }
};

// collect() and combine_span() with loops of constant length, for kShortAccs items to a few settle intervals.
template <class R, class... In, size_t... I>
BK_HD typename R::Acc reduce_short(const R& reducer, int64_t items, int64_t index_step, const Pack<const In*...>& x,
                                   std::index_sequence<I...> each) {
    AccArrays<typename R::Acc, kShortAccs> accs;
    BK_VECTOR_LOOP
    for (int64_t i = 0; i < kShortAccs; ++i) accs.store(i, reducer.identity());
    start_span(reducer, accs, 0, kShortAccs, x, each);
    const int64_t whole = items / kShortAccs, tail = items % kShortAccs;
    int64_t k = 0;
    if constexpr (kHasOne<void, R, compute_t<In>...> && (!ShortSpans<In...>::template kIsCopied<In> && ...)) {
        const int64_t next[] = {((void)I, kShortAccs)..., kShortAccs * index_step};
        for (; k + kRowsAtOnce <= whole; k += kRowsAtOnce)
            add_pitched_rows(reducer, accs, kShortAccs, k * kShortAccs * index_step, index_step,
                             pack((get<I>(x) + k * kShortAccs)...), next, each, std::make_index_sequence<kRowsAtOnce>{});
        for (; k + 2 <= whole; k += 2)
            add_pitched_rows(reducer, accs, kShortAccs, k * kShortAccs * index_step, index_step,
                             pack((get<I>(x) + k * kShortAccs)...), next, each, std::make_index_sequence<2>{});
    }
    for (; k < whole; ++k) {
        ShortSpans<In...> spans;
        const auto from = pack(spans.template widened<I>(get<I>(x) + k * kShortAccs)...);
        add_span(reducer, accs, kShortAccs, k * kShortAccs * index_step, index_step, from, each);
    }
    settle_span(reducer, accs, kShortAccs, whole);
    if (tail > 0) {
        const int64_t at = whole * kShortAccs;
        add_span(reducer, accs, tail, at * index_step, index_step, pack((get<I>(x) + at)...), each);
        settle_span(reducer, accs, tail, 1);
    }
    return combine_span(reducer, accs, kShortAccs);
}

// Reduces contiguous rows of few items.
template <class R, class... Out, class... In, int kOperands>
void reduce_short_rows(const R& reducer, const ReduceSpans<sizeof...(In)>& spans, const Outputs<Out...>& out,
                       const ItemsInMemory<In...>& items, const Walk<kOperands, uint64_t>& walk, int64_t results) {
    constexpr int kIn = sizeof...(In);
    parallel_ranges(results, grain_for(items.bytes * spans.inner_items), [&](int64_t begin, int64_t end) {
        typename ItemsInMemory<In...>::Reader reader(items);
        for (int64_t result = begin; result < end; ++result) {
            const auto at = walk(static_cast<uint64_t>(result));
            int64_t base[kOperands];
            for (int k = 0; k < kOperands; ++k) base[k] = signed_offset(at.of[k]);
            reader.move_to(base);
            typename R::Acc acc;
            int pass = 0;
            for (bool again = true; again;) {
                const R known = in_pass(reducer, pass);
                acc = reduce_short(known, spans.inner_items, spans.index_step, reader.from, std::index_sequence_for<In...>{});
                stamp(known, acc);
                again = pass == 0 && (pass = pass_of(reducer, acc)) > 0;
            }
            if constexpr (kMayBeLost<R>)
                if (reducer.is_lost(acc))
                    acc = recompute_lost(reducer, spans, acc, reader, spans.inner_items, std::index_sequence_for<In...>{});
            store_result(reducer, out.pointer, base + kIn, acc, spans.inner_items, 0);
        }
    });
}

// The pass that has the result of each accumulator (kRepeats in core/reduce/reducer.h).
template <class R, int64_t kAccs>
struct SpanPasses {
    int8_t of[kRepeats<R> ? kAccs : 1] = {};

    // Takes what the first pass gave; returns a bit for each pass that any accumulator requires.
    template <class Accs>
    BK_HD int find([[maybe_unused]] const R& reducer, [[maybe_unused]] const Accs& accs, [[maybe_unused]] int64_t count,
                   [[maybe_unused]] int64_t unsettled) {
        int wanted = 1;
        if constexpr (kRepeats<R>) {
            int any = 0;
            BK_VECTOR_LOOP
            for (int64_t i = 0; i < count; ++i) {
                typename R::Acc acc = accs.load(i);
                if (unsettled > 0) settle(reducer, acc, unsettled, 0);
                of[i] = static_cast<int8_t>(pass_of(reducer, acc));
                any |= of[i];
            }
            wanted |= any << 1;
        }
        return wanted;
    }
};

// Whether spans run along items or along results, which the items of a result alone decide.
template <int In, int Out>
bool vectorize_along_items(const ReducePlan<In, Out>& plan, bool is_dense) {
    const int64_t inner_items = plan.reduced.rank == 0 ? 1 : plan.reduced.extent[plan.reduced.rank - 1];
    return plan.along_items && inner_items >= (is_dense ? kShortAccs : plan.reduced.rank > 1 ? 32 : 128);
}

// Accumulators of one result with `inner_items` adjacent items.
inline int64_t accs_along(int64_t most, int64_t inner_items, bool is_dense) {
    most = std::min(kItemAccs, most);
    while (most > kShortAccs && most * (is_dense ? 16 : 32) > inner_items) most /= 2;
    while (most > 1 && most > inner_items) most /= 2;
    while (most & (most - 1)) most &= most - 1;
    return most;
}

// Reduces `n` contiguous items; inputs from kVaryingInputs on are broadcast. For loops that do more with each row.
template <class R, class... In>
BK_HD typename R::Acc reduce_contiguous(const R& reducer, int64_t n, const In*... in) {
    constexpr int kIn = sizeof...(In);
    constexpr int64_t kAccs = kMaxAccs<typename R::Acc> < kItemAccs ? kMaxAccs<typename R::Acc> : kItemAccs;
    ItemsInMemory<In...> items{{pack(in...)}, kVaryingInputsOf<R>};
    Layout<kIn + 1> axis;
    int64_t step[kIn + 1] = {};
    for (int k = 0; k < kIn; ++k) step[k] = items.step[k] = k < kVaryingInputsOf<R> ? 1 : 0;
    axis.append(n, step);
    ReduceSpans<kIn> spans{
        true, true, accs_along(std::min(kAccs, items.kMaxAlong), n, true), n, 0, {}, Walk<kIn + 1, uint64_t>(axis)};
    for (int k = 0; k < kIn; ++k) spans.stride[k] = step[k];
    AccArrays<typename R::Acc, kAccs> accs, all;
    typename ItemsInMemory<In...>::Reader reader(items);
    const int64_t start[kIn] = {};
    reader.move_to(start);
    settle_span(reducer, accs, spans.accs,
                collect_segments(reducer, spans, accs, all, spans.accs, reader, 0, n, std::index_sequence_for<In...>{}));
    return combine_span(reducer, accs, spans.accs);
}

// Partials of split results; their accumulators take little of the stack.
template <class Acc>
constexpr int64_t kMaxPartials = std::max<int64_t>(1024 / sizeof(Acc), kReduceSplits);

template <class R, class... Out, class Items>
Status reduce_spans(const ReduceAxes<Items::kOperands, sizeof...(Out)>& axes, const R& reducer, const Outputs<Out...>& out,
                    Items items, int inputs) {
    using Acc = typename R::Acc;
    constexpr int kIn = Items::kOperands, kOut = sizeof...(Out);
    // Computed items have buffers of their own, so they get half the accumulators.
    constexpr int64_t kAccs = std::min(kMaxAccs<Acc> / (Items::Reader::kInMemory ? 1 : 2), Items::kMost);
    ReducePlan<kIn, kOut> plan = plan_reduce<R>(axes, inputs);
    if (plan.kept.rank == 0) {  // spans along results have an axis even for one result
        constexpr int64_t kNoStep[kIn + kOut] = {};
        plan.kept.append(1, kNoStep);
    }
    const int last = plan.reduced.rank - 1, inner = plan.kept.rank - 1;
    ReduceSpans<kIn> spans{};
    for (int k = 0; k < kIn; ++k) items.step[k] = last < 0 ? 0 : plan.reduced.stride[k][last];
    spans.along_items = vectorize_along_items(plan, items.is_contiguous() && plan.reduced.rank == 1);
    spans.inner_items = last < 0 ? 1 : plan.reduced.extent[last];
    spans.items = Walk<kIn + 1, uint64_t>(plan.reduced);
    for (int k = 0; k <= kIn; ++k) spans.stride[k] = last < 0 ? 0 : plan.reduced.stride[k][last];
    for (int k = 0; k < kIn; ++k)
        items.step[k] = spans.along_items ? spans.stride[k] : inner < 0 ? 0 : plan.kept.stride[k][inner];
    spans.index_step = spans.along_items ? spans.stride[kIn] : 0;
    spans.are_dense = items.is_contiguous();
    // A task is a split of one result, or of a block of results along the last kept axis.
    Layout<kIn + kOut> outer = plan.kept;
    int64_t width = 1, block = 1, blocks = 1;
    if (spans.along_items) {
        int64_t most = kAccs;
        if constexpr (Items::Reader::kInMemory) most = std::min(most, Items::kMaxAlong);
        spans.accs = accs_along(most, spans.inner_items, spans.are_dense);
    } else {
        width = plan.kept.extent[inner];
        outer.rank = inner;
        const int64_t fair = thread_count() == 1 ? plan.results : ceil_div(plan.results, 2 * thread_count());
        block = std::min({width, items.most(), kAccs, std::max<int64_t>(64, fair)});
        blocks = ceil_div(width, block);
        block = std::min(block, ceil_div(ceil_div(width, blocks), int64_t{kBlock}) * kBlock);  // even blocks
    }
    const int64_t splits = splits_of(plan.items);
    // Splits of few results are tasks of their own; else a task takes those of its results one after the other.
    const bool are_shared = splits > 1 && splits * plan.results <= (spans.along_items ? kReduceSplits : kMaxPartials<Acc>);
    const Walk<kIn + kOut, uint64_t> walk(outer);
    if constexpr (Items::Reader::kInMemory && kVaryingInputsOf<R> >= kIn) {
        const bool is_short = spans.inner_items >= kShortAccs && spans.inner_items < kShortAccs * kSettleInterval;
        if (spans.along_items && spans.are_dense && is_short && plan.reduced.rank == 1) {
            reduce_short_rows(reducer, spans, out, items, walk, plan.results);
            return Status::kOk;
        }
    }
    // Splits begin at whole cache lines of a row.
    const int64_t split_items = ceil_div(ceil_div(plan.items, splits), kItemAccs) * kItemAccs,
                  task_splits = are_shared ? splits : 1;
    Acc partial[kMaxPartials<Acc>];
    int64_t step[kIn + kOut] = {};  // from result to result of a task
    for (int k = 0; !spans.along_items && k < kIn + kOut; ++k) step[k] = plan.kept.stride[k][inner];
    const auto combiner = combiner_of(reducer, 0);
    // Stores result i behind `base`, combined from its splits.
    const auto finish_splits = [&](Acc acc, typename Items::Reader& reader, int64_t i, const int64_t (&base)[kIn + kOut]) {
        int64_t at[kIn + kOut];
        for (int k = 0; k < kIn + kOut; ++k) at[k] = base[k] + i * step[k];
        if constexpr (kMayBeLost<R>) {
            if (reducer.is_lost(acc)) {
                reader.move_to(at);
                acc = recompute_lost(reducer, spans, acc, reader, plan.items, typename Items::Values{});
            }
        }
        store_result(combiner, out.pointer, at + kIn, acc, plan.items, 0);
    };
    const int64_t tasks = outer.numel() * blocks * task_splits, task_items = are_shared ? split_items : plan.items;
    parallel_ranges(tasks, 2 * grain_for(items.bytes * block * task_items), [&](int64_t begin, int64_t end) {
        AccArrays<Acc, kAccs> accs, all, combined;
        SpanPasses<R, kAccs> passes;
        typename Items::Reader reader(items);
        for (int64_t task = begin; task < end; ++task) {
            const int64_t row = task / task_splits / blocks, first = task / task_splits % blocks * block;
            const auto at = walk(static_cast<uint64_t>(row));
            int64_t base[kIn + kOut];
            for (int k = 0; k < kIn + kOut; ++k) base[k] = signed_offset(at.of[k]) + first * step[k];
            const int64_t used = spans.along_items ? spans.accs : std::min(block, width - first);
            const int64_t results = spans.along_items ? 1 : used;
            reader.move_to(base);
            const int64_t first_split = are_shared ? task % splits : 0, last_split = are_shared ? first_split + 1 : splits;
            for (int64_t split = first_split; split < last_split; ++split) {
                for (int pass = 0, wanted = 1; wanted >> pass != 0; ++pass) {
                    if ((wanted >> pass & 1) == 0) continue;
                    const R known = in_pass(reducer, pass);
                    int64_t unsettled =
                        collect_segments(known, spans, accs, all, used, reader, split * split_items,
                                         std::min(plan.items, (split + 1) * split_items), typename Items::Values{});
                    if (spans.along_items || splits > 1) settle_span(known, accs, used, std::exchange(unsettled, 0));
                    if (spans.along_items) accs.store(0, combine_span(known, accs, used));
                    if constexpr (kMayBeLost<R>) {
                        if (splits == 1) {
                            settle_span(reducer, accs, results, std::exchange(unsettled, 0));
                            if (are_lost(reducer, accs, results))
                                recompute_lost(reducer, spans, accs, all, results, reader, plan.items,
                                               typename Items::Values{});
                        }
                    }
                    if (pass == 0) wanted = passes.find(known, accs, results, unsettled);
                    if (wanted == 1 && splits == 1) {
                        store_span(reducer, accs, results, unsettled, out.pointer, base + kIn, step + kIn, plan.items,
                                   std::index_sequence_for<Out...>{});
                        break;
                    }
                    for (int64_t i = 0; i < results; ++i) {
                        if (wanted > 1 && passes.of[i] != pass) continue;
                        Acc acc = accs.load(i);
                        if (unsettled > 0) settle(known, acc, unsettled, 0);
                        stamp(known, acc);
                        if (are_shared) {
                            partial[(row * width + first + i) * splits + split] = acc;
                            continue;
                        }
                        if (splits > 1) {
                            combined.store(i, split == 0 ? acc : combiner.combine(combined.load(i), acc));
                            continue;
                        }
                        int64_t offset[kOut];
                        for (int o = 0; o < kOut; ++o) offset[o] = base[kIn + o] + i * step[kIn + o];
                        store_result(reducer, out.pointer, offset, acc, plan.items, 0);
                    }
                }
            }
            for (int64_t i = 0; splits > 1 && !are_shared && i < results; ++i) finish_splits(combined.load(i), reader, i, base);
        }
    });
    for (int64_t result = 0; are_shared && result < plan.results; ++result) {
        Acc acc = partial[result * splits];
        for (int64_t split = 1; split < splits; ++split) acc = combiner.combine(acc, partial[result * splits + split]);
        const auto at = walk(static_cast<uint64_t>(result / width));
        int64_t base[kIn + kOut];
        for (int k = 0; k < kIn + kOut; ++k) base[k] = signed_offset(at.of[k]);
        typename Items::Reader reader(items);
        finish_splits(acc, reader, result % width, base);
    }
    return Status::kOk;
}

template <class R, class... Out, class... In>
Status reduce(const Launch&, const ReduceAxes<sizeof...(In), sizeof...(Out)>& axes, const R& reducer,
              const Outputs<Out...>& out, const Inputs<In...>& in) {
    static_assert(sizeof(typename R::Acc) <= 40 && std::is_trivially_copyable_v<R>, "see reduce.h");
    if (axes.kept.is_empty()) return Status::kOk;
    return reduce_spans(axes, reducer, out, ItemsInMemory<In...>{in.pointer, kVaryingInputsOf<R>}, sizeof...(In));
}

}  // namespace bk
