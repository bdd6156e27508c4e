// SPDX-License-Identifier: Apache-2.0
// CPU reduction engine. Each element of a span has an accumulator: adjacent results, or terms of one result, whose
// accumulators are combined at the end.
//
// Terms come from a type: from memory here, or from a loop (core/reduce/computed_terms_cpu.h). It has
//
//   static constexpr int kOperands;                 the axes give their strides before those of the outputs
//   static constexpr int64_t kMost;                 elements of a span, at most
//   using Values = std::index_sequence<...>;        an index for each value of a term
//   int64_t bytes;                                  of a term
//   int64_t most() const;                           elements of a span with int64_t step[kOperands] between them
//   bool is_contiguous() const;                     whether spans are contiguous in memory; inputs from kVaryingInputs
//                                                   of the reducer on, if it has that, are one element for the span
//   struct Reader { static constexpr bool kInMemory; Reader(const Terms&); void move_to(const int64_t* base);
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

// Splits of long reductions with few results, whatever the number of threads, and min. terms of each.
constexpr int64_t kReduceSplits = 64;
constexpr int64_t kReduceSplitTerms = 4096;

template <class R, class... In, int I, int O>
size_t reduce_workspace(const ReduceAxes<I, O>&) {
    return 0;
}

// Terms of a short result; bf16 is widened by whole vectors. In a loop GCC splits them through memory, which is slow.
template <class... In>
struct ShortSpans {
    template <class T>
    static constexpr bool kIsCopied = std::is_same_v<T, bf16>;
    template <class T>
    using Term = std::conditional_t<kIsCopied<T>, float, T>;
    template <class T>
    struct alignas(64) Buffer {
        Term<T> at[kIsCopied<T> ? kShortAccs : 1];
    };
    Pack<Buffer<In>...> copies;

    template <size_t I, class T>
    BK_HD const Term<T>* widened(const T* x) {
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

// collect() and combine_span() with loops of constant length, for kShortAccs terms to a few settle intervals.
template <class R, class... In, size_t... I>
BK_HD typename R::Acc reduce_short(const R& reducer, int64_t terms, int64_t index_step, const Pack<const In*...>& x,
                                   std::index_sequence<I...> each) {
    AccArrays<typename R::Acc, kShortAccs> accs;
    BK_VECTOR_LOOP
    for (int64_t i = 0; i < kShortAccs; ++i) accs.store(i, reducer.identity());
    start_span(reducer, accs, 0, kShortAccs, x, each);
    const int64_t whole = terms / kShortAccs, tail = terms % kShortAccs;
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

// Reduces contiguous rows of few terms.
template <class R, class... Out, class... In, int kOperands>
void reduce_short_rows(const R& reducer, const ReduceSpans<sizeof...(In)>& spans, const Outputs<Out...>& out,
                       const TermsInMemory<In...>& terms, const Walk<kOperands, uint64_t>& walk, int64_t results) {
    constexpr int kIn = sizeof...(In);
    parallel_ranges(results, grain_for(terms.bytes * spans.inner_terms), [&](int64_t begin, int64_t end) {
        typename TermsInMemory<In...>::Reader reader(terms);
        for (int64_t result = begin; result < end; ++result) {
            const auto at = walk(static_cast<uint64_t>(result));
            int64_t base[kOperands];
            for (int k = 0; k < kOperands; ++k) base[k] = signed_offset(at.of[k]);
            reader.move_to(base);
            typename R::Acc acc;
            int pass = 0;
            for (bool again = true; again;) {
                const R known = in_pass(reducer, pass);
                acc = reduce_short(known, spans.inner_terms, spans.index_step, reader.from, std::index_sequence_for<In...>{});
                stamp(known, acc);
                again = pass == 0 && (pass = pass_of(reducer, acc)) > 0;
            }
            if constexpr (kMayBeLost<R>)
                if (reducer.is_lost(acc))
                    acc = recompute_lost(reducer, spans, acc, reader, spans.inner_terms, std::index_sequence_for<In...>{});
            store_result(reducer, out.pointer, base + kIn, acc, spans.inner_terms, 0);
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

// Whether spans run along terms or along results, whichever keeps vectors full.
template <int In, int Out>
bool vectorize_along_terms(const ReducePlan<In, Out>& plan, bool is_dense) {
    const int64_t width = plan.kept.rank == 0 ? 1 : plan.kept.extent[plan.kept.rank - 1];
    const int64_t inner_terms = plan.reduced.rank == 0 ? 1 : plan.reduced.extent[plan.reduced.rank - 1];
    if (plan.along_terms) return inner_terms >= (is_dense ? kShortAccs : 128) || width < 16;
    return width < 16 && inner_terms >= 64;
}

// Accumulators of one result with `inner_terms` adjacent terms.
inline int64_t accs_along(int64_t most, int64_t inner_terms, bool is_dense) {
    most = std::min(kTermAccs, most);
    while (most > kShortAccs && most * (is_dense ? 16 : 32) > inner_terms) most /= 2;
    while (most > 1 && most > inner_terms) most /= 2;
    while (most & (most - 1)) most &= most - 1;
    return most;
}

// Reduces `n` contiguous terms; inputs from kVaryingInputs on are broadcast. For loops that do more with each row.
template <class R, class... In>
BK_HD typename R::Acc reduce_contiguous(const R& reducer, int64_t n, const In*... in) {
    constexpr int kIn = sizeof...(In);
    constexpr int64_t kAccs = kMaxAccs<typename R::Acc> < kTermAccs ? kMaxAccs<typename R::Acc> : kTermAccs;
    TermsInMemory<In...> terms{{pack(in...)}, kVaryingInputsOf<R>};
    Layout<kIn + 1> axis;
    int64_t step[kIn + 1] = {};
    for (int k = 0; k < kIn; ++k) step[k] = terms.step[k] = k < kVaryingInputsOf<R> ? 1 : 0;
    axis.append(n, step);
    ReduceSpans<kIn> spans{
        true, true, accs_along(std::min(kAccs, terms.kMaxAlong), n, true), n, 0, {}, Walk<kIn + 1, uint64_t>(axis)};
    for (int k = 0; k < kIn; ++k) spans.stride[k] = step[k];
    AccArrays<typename R::Acc, kAccs> accs, all;
    typename TermsInMemory<In...>::Reader reader(terms);
    const int64_t start[kIn] = {};
    reader.move_to(start);
    settle_span(reducer, accs, spans.accs,
                collect_segments(reducer, spans, accs, all, spans.accs, reader, 0, n, std::index_sequence_for<In...>{}));
    return combine_span(reducer, accs, spans.accs);
}

// Partials of split results; their accumulators take little of the stack.
template <class Acc>
constexpr int64_t kMaxPartials = std::max<int64_t>(1024 / sizeof(Acc), kReduceSplits);

template <class R, class... Out, class Terms>
Status reduce_spans(const ReduceAxes<Terms::kOperands, sizeof...(Out)>& axes, const R& reducer, const Outputs<Out...>& out,
                    Terms terms, int inputs) {
    using Acc = typename R::Acc;
    constexpr int kIn = Terms::kOperands, kOut = sizeof...(Out);
    // Computed terms have buffers of their own, so they get half the accumulators.
    constexpr int64_t kAccs = std::min(kMaxAccs<Acc> / (Terms::Reader::kInMemory ? 1 : 2), Terms::kMost);
    const ReducePlan<kIn, kOut> plan = plan_reduce<R>(axes, inputs);
    const int last = plan.reduced.rank - 1, inner = plan.kept.rank - 1;
    ReduceSpans<kIn> spans{};
    for (int k = 0; k < kIn; ++k) terms.step[k] = last < 0 ? 0 : plan.reduced.stride[k][last];
    spans.along_terms = vectorize_along_terms(plan, terms.is_contiguous() && plan.reduced.rank == 1);
    spans.inner_terms = last < 0 ? 1 : plan.reduced.extent[last];
    spans.terms = Walk<kIn + 1, uint64_t>(plan.reduced);
    for (int k = 0; k <= kIn; ++k) spans.stride[k] = last < 0 ? 0 : plan.reduced.stride[k][last];
    for (int k = 0; k < kIn; ++k)
        terms.step[k] = spans.along_terms ? spans.stride[k] : inner < 0 ? 0 : plan.kept.stride[k][inner];
    spans.index_step = spans.along_terms ? spans.stride[kIn] : 0;
    spans.are_dense = terms.is_contiguous();
    // A task is a split of one result, or of a block of results along the last kept axis.
    Layout<kIn + kOut> outer = plan.kept;
    int64_t width = 1, block = 1, blocks = 1, splits = 1;
    if (spans.along_terms) {
        int64_t most = kAccs;
        if constexpr (Terms::Reader::kInMemory) most = std::min(most, Terms::kMaxAlong);
        spans.accs = accs_along(most, spans.inner_terms, spans.are_dense);
    } else {
        width = plan.kept.extent[inner];
        outer.rank = inner;
        const int64_t fair = thread_count() == 1 ? plan.results : ceil_div(plan.results, 2 * thread_count());
        block = std::min({width, terms.most(), kAccs, std::max<int64_t>(64, fair)});
        blocks = ceil_div(width, block);
        block = std::min(block, ceil_div(ceil_div(width, blocks), int64_t{kBlock}) * kBlock);  // even blocks
    }
    const int64_t few = spans.along_terms ? kReduceSplits : kMaxPartials<Acc>;
    while (splits < kReduceSplits && 2 * splits * plan.results <= few && 2 * splits * kReduceSplitTerms <= plan.terms)
        splits *= 2;
    const Walk<kIn + kOut, uint64_t> walk(outer);
    if constexpr (Terms::Reader::kInMemory && kVaryingInputsOf<R> >= kIn) {
        const bool is_short = spans.inner_terms >= kShortAccs && spans.inner_terms < kShortAccs * kSettleInterval;
        if (spans.along_terms && spans.are_dense && is_short && plan.reduced.rank == 1) {
            reduce_short_rows(reducer, spans, out, terms, walk, plan.results);
            return Status::kOk;
        }
    }
    const int64_t split_terms = ceil_div(plan.terms, splits), tasks = outer.numel() * blocks * splits;
    Acc partial[kMaxPartials<Acc>];
    int64_t step[kIn + kOut] = {};  // from result to result of a task
    for (int k = 0; !spans.along_terms && k < kIn + kOut; ++k) step[k] = plan.kept.stride[k][inner];
    parallel_ranges(tasks, 2 * grain_for(terms.bytes * block * split_terms), [&](int64_t begin, int64_t end) {
        AccArrays<Acc, kAccs> accs, all;
        SpanPasses<R, kAccs> passes;
        typename Terms::Reader reader(terms);
        for (int64_t task = begin; task < end; ++task) {
            const int64_t row = task / splits / blocks, first = task / splits % blocks * block, split = task % splits;
            const auto at = walk(static_cast<uint64_t>(row));
            int64_t base[kIn + kOut];
            for (int k = 0; k < kIn + kOut; ++k) base[k] = signed_offset(at.of[k]) + first * step[k];
            const int64_t used = spans.along_terms ? spans.accs : std::min(block, width - first);
            reader.move_to(base);
            const int64_t results = spans.along_terms ? 1 : used;
            for (int pass = 0, wanted = 1; wanted >> pass != 0; ++pass) {
                if ((wanted >> pass & 1) == 0) continue;
                const R known = in_pass(reducer, pass);
                int64_t unsettled = collect_segments(known, spans, accs, all, used, reader, split * split_terms,
                                                     std::min(plan.terms, (split + 1) * split_terms), typename Terms::Values{});
                if (spans.along_terms || splits > 1) settle_span(known, accs, used, std::exchange(unsettled, 0));
                if (spans.along_terms) accs.store(0, combine_span(known, accs, used));
                if constexpr (kMayBeLost<R>) {
                    if (splits == 1) {
                        settle_span(reducer, accs, results, std::exchange(unsettled, 0));
                        if (are_lost(reducer, accs, results))
                            recompute_lost(reducer, spans, accs, all, results, reader, plan.terms, typename Terms::Values{});
                    }
                }
                if (pass == 0) wanted = passes.find(known, accs, results, unsettled);
                if (wanted == 1 && splits == 1) {
                    store_span(reducer, accs, results, unsettled, out.pointer, base + kIn, step + kIn, plan.terms,
                               std::index_sequence_for<Out...>{});
                    break;
                }
                for (int64_t i = 0; i < results; ++i) {
                    if (wanted > 1 && passes.of[i] != pass) continue;
                    Acc acc = accs.load(i);
                    if (unsettled > 0) settle(known, acc, unsettled, 0);
                    stamp(known, acc);
                    if (splits > 1) {
                        partial[(row * width + first + i) * splits + split] = acc;
                        continue;
                    }
                    int64_t offset[kOut];
                    for (int o = 0; o < kOut; ++o) offset[o] = base[kIn + o] + i * step[kIn + o];
                    store_result(reducer, out.pointer, offset, acc, plan.terms, 0);
                }
            }
        }
    });
    const auto combiner = combiner_of(reducer, 0);
    for (int64_t result = 0; splits > 1 && result < plan.results; ++result) {
        Acc acc = partial[result * splits];
        for (int64_t split = 1; split < splits; ++split) acc = combiner.combine(acc, partial[result * splits + split]);
        const auto at = walk(static_cast<uint64_t>(result / width));
        if constexpr (kMayBeLost<R>) {
            if (reducer.is_lost(acc)) {
                int64_t base[kIn];
                for (int k = 0; k < kIn; ++k) base[k] = signed_offset(at.of[k]) + result % width * step[k];
                typename Terms::Reader reader(terms);
                reader.move_to(base);
                acc = recompute_lost(reducer, spans, acc, reader, plan.terms, typename Terms::Values{});
            }
        }
        int64_t offset[kOut];
        for (int o = 0; o < kOut; ++o) offset[o] = signed_offset(at.of[kIn + o]) + result % width * step[kIn + o];
        store_result(combiner, out.pointer, offset, acc, plan.terms, 0);
    }
    return Status::kOk;
}

template <class R, class... Out, class... In>
Status reduce(const Launch&, const ReduceAxes<sizeof...(In), sizeof...(Out)>& axes, const R& reducer,
              const Outputs<Out...>& out, const Inputs<In...>& in) {
    static_assert(sizeof(typename R::Acc) <= 40 && std::is_trivially_copyable_v<R>, "see reduce.h");
    if (axes.kept.is_empty()) return Status::kOk;
    return reduce_spans(axes, reducer, out, TermsInMemory<In...>{in.pointer, kVaryingInputsOf<R>}, sizeof...(In));
}

}  // namespace bk
