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

namespace bk {

// Accumulators of a task, which has two arrays of them: enough to read in memory order, yet a small stack.
template <class Acc>
constexpr int64_t kMaxAccs =
    2560 / static_cast<int64_t>(sizeof(Acc)) < 1024 ? 2560 / static_cast<int64_t>(sizeof(Acc)) / 16 * 16 : 1024;
constexpr int64_t kTermAccs = 128;    // of one result, at most
constexpr int64_t kGatherSpan = 128;  // strided elements copied at once
constexpr int64_t kShortAccs = 16;    // of a result with few terms
constexpr int64_t kRowsAtOnce = 8;    // added to accumulators in registers
constexpr int64_t kStepBytes = 1024;  // of one result a step; 4096 halve the throughput
// Splits of long reductions with few results, whatever the number of threads, and min. terms of each.
constexpr int64_t kReduceSplits = 64;
constexpr int64_t kReduceSplitTerms = 4096;
constexpr int64_t kReduceMinSegment = 256;  // terms of a segment, at least

template <class R, class... In, int I, int O>
size_t reduce_workspace(const ReduceAxes<I, O>&) {
    return 0;
}

// `count` elements at `step`: in place if contiguous, else gathered into `copy`.
template <class T>
BK_HD const T* as_contiguous(const T* x, int64_t count, int64_t step, T* copy) {
    if (step == 1) return x;
    for (int64_t i = 0; i < count; ++i) copy[i] = x[i * step];
    return copy;
}

template <class... In>
struct TermsInMemory {
    static constexpr int kOperands = sizeof...(In);
    static constexpr int64_t kMost = 1024;
    static constexpr int64_t kMaxAlong =  // Accs of one result
        std::max(kShortAccs, kStepBytes / kRowsAtOnce / std::max({static_cast<int64_t>(sizeof(In))...}));
    using Values = std::index_sequence_for<In...>;
    template <class T>
    struct alignas(64) Buffer {
        T at[kGatherSpan];
    };
    Pack<const In*...> pointer;
    int varying;
    int64_t step[kOperands] = {};
    int64_t bytes = (static_cast<int64_t>(sizeof(In)) + ...);

    int64_t most() const { return is_contiguous() ? kMost : kGatherSpan; }

    bool is_contiguous() const {
        for (int k = 0; k < kOperands; ++k)
            if (step[k] != (k < varying ? 1 : 0)) return false;
        return true;
    }

    struct Reader {
        static constexpr bool kInMemory = true;
        const TermsInMemory& terms;
        bool is_dense;
        Pack<const In*...> from;
        Pack<Buffer<In>...> copies;

        BK_HD explicit Reader(const TermsInMemory& all) : terms(all), is_dense(all.is_contiguous()) {}
        BK_HD void move_to(const int64_t* base) { move_to(base, Values{}); }
        BK_HD auto read(const int64_t* offset, int64_t, int64_t count, int64_t) { return read(offset, count, Values{}); }

    private:
        template <size_t... I>
        BK_HD void move_to(const int64_t* base, std::index_sequence<I...>) {
            from = pack((get<I>(terms.pointer) + base[I])...);
        }
        template <size_t... I>
        BK_HD auto read(const int64_t* offset, int64_t count, std::index_sequence<I...>) {
            return pack((is_dense ? get<I>(from) + offset[I]
                                  : as_contiguous(get<I>(from) + offset[I], count, terms.step[I], get<I>(copies).at))...);
        }
    };
};

template <class R, class Accs, class... In, size_t... I>
BK_HD void add_span(const R& reducer, Accs& accs, int64_t count, int64_t index, int64_t step, const Pack<const In*...>& x,
                    std::index_sequence<I...>) {
    BK_VECTOR_LOOP
    for (int64_t i = 0; i < count; ++i) {
        typename R::Acc acc = accs.load(i);
        reducer.add(acc, index + i * step, widen(get<I>(x)[i])...);
        accs.store(i, acc);
    }
}

// Adds rows of elements, `pitch` apart in each input; broadcast inputs have one element a row.
template <class R, class Accs, class... In, size_t... Varying, size_t... Broadcast, size_t... Row>
BK_HD void add_rows_broadcast(const R& reducer, Accs& accs, int64_t count, const Pack<const In*...>& x, const int64_t* pitch,
                              std::index_sequence<Varying...>, std::index_sequence<Broadcast...>, std::index_sequence<Row...>) {
    constexpr int kVarying = sizeof...(Varying);
    const auto broadcast_at = [&](int64_t k) {
        return reducer.broadcast_of(widen(get<kVarying + Broadcast>(x)[k * pitch[kVarying + Broadcast]])...);
    };
    const typename R::Broadcast broadcast[] = {broadcast_at(int64_t{Row})...};
    const int64_t next[] = {pitch[Varying]...};
    BK_VECTOR_LOOP
    for (int64_t i = 0; i < count; ++i) {
        typename R::Acc acc = accs.load(i);
        const auto add = [&](int64_t k) {
            reducer.add_with(acc, broadcast[k], widen(get<Varying>(x)[i + k * next[Varying]])...);
        };
        (add(int64_t{Row}), ...);
        accs.store(i, acc);
    }
}
template <class R, class Accs, class... In, class Rows>
BK_HD void add_rows_broadcast(const R& reducer, Accs& accs, int64_t count, const Pack<const In*...>& x, const int64_t* pitch,
                              Rows rows) {
    constexpr int kIn = sizeof...(In);
    add_rows_broadcast(reducer, accs, count, x, pitch, std::make_index_sequence<kVaryingInputsOf<R>>{},
                       std::make_index_sequence<kIn - kVaryingInputsOf<R>>{}, rows);
}

template <class R, class Accs, class... In, class Each>
BK_HD void add_span(const R& reducer, Accs& accs, int64_t count, int64_t index, int64_t step, [[maybe_unused]] bool is_dense,
                    const Pack<const In*...>& x, Each each) {
    if constexpr (kVaryingInputsOf<R> < static_cast<int>(sizeof...(In))) {
        constexpr int64_t kNoPitch[sizeof...(In)] = {};
        if (is_dense) return add_rows_broadcast(reducer, accs, count, x, kNoPitch, std::index_sequence<0>{});
    }
    add_span(reducer, accs, count, index, step, x, each);
}

// Combines kCount elements pairwise, in their order.
template <int kCount, class R, class One>
BK_HD typename R::Acc combine_tree(const R& reducer, const One& one, int64_t first) {
    if constexpr (kCount == 1)
        return one(first);
    else
        return reducer.combine(combine_tree<kCount / 2>(reducer, one, first),
                               combine_tree<kCount - kCount / 2>(reducer, one, first + kCount / 2));
}

// Adds rows, `pitch` apart in each input (its last entry: indices); loads and stores each accumulator once.
template <class R, class Accs, class... In, size_t... I, size_t... Row>
BK_HD void add_pitched_rows(const R& reducer, Accs& accs, int64_t count, int64_t index, int64_t step,
                            const Pack<const In*...>& x, const int64_t* pitch, std::index_sequence<I...>,
                            std::index_sequence<Row...>) {
    const int64_t next[] = {pitch[I]..., pitch[sizeof...(I)]};
    if constexpr (kVaryingInputsOf<R> < static_cast<int>(sizeof...(In))) {
        add_rows_broadcast(reducer, accs, count, x, pitch, std::index_sequence<Row...>{});
    } else if constexpr (kHasOne<void, R, compute_t<In>...>) {
        BK_VECTOR_LOOP
        for (int64_t i = 0; i < count; ++i) {
            const auto one = [&](int64_t k) BK_INLINED { return reducer.one(widen(get<I>(x)[i + k * next[I]])...); };
            accs.store(i, reducer.combine(accs.load(i), combine_tree<sizeof...(Row)>(reducer, one, 0)));
        }
    } else {
        BK_VECTOR_LOOP
        for (int64_t i = 0; i < count; ++i) {
            typename R::Acc acc = accs.load(i);
            const auto add = [&](int64_t k) {
                reducer.add(acc, index + i * step + k * next[sizeof...(I)], widen(get<I>(x)[i + k * next[I]])...);
            };
            (add(int64_t{Row}), ...);
            accs.store(i, acc);
        }
    }
}

template <class R, class Accs, class... In, size_t... I>
BK_HD void start_span(const R& reducer, Accs& accs, int64_t first, int64_t count, const Pack<const In*...>& x,
                      std::index_sequence<I...>) {
    if constexpr (kHasStart<void, R, compute_t<In>...>)
        for (int64_t i = first; i < count; ++i) accs.store(i, reducer.start(widen(get<I>(x)[i])...));
}

template <class R, class Accs>
BK_HD void settle_span(const R& reducer, Accs& accs, int64_t count, int64_t terms) {
    if (terms == 0) return;
    BK_VECTOR_LOOP
    for (int64_t i = 0; i < count; ++i) {
        typename R::Acc acc = accs.load(i);
        settle(reducer, acc, terms, 0);
        accs.store(i, acc);
    }
}

// Combines the accumulators of one result; their number is a power of two.
template <class R, class Accs>
BK_HD void combine_halves(const R& reducer, Accs& accs, int64_t half) {
    BK_VECTOR_LOOP
    for (int64_t i = 0; i < half; ++i) accs.store(i, reducer.combine(accs.load(i), accs.load(i + half)));
}
template <class R, class Accs>
BK_HD typename R::Acc combine_span(const R& reducer, Accs& accs, int64_t count) {
    int64_t half = count / 2;
    for (; half > kShortAccs / 2; half /= 2) combine_halves(reducer, accs, half);
    if (half == kShortAccs / 2) {
        combine_halves(reducer, accs, 8);
        combine_halves(reducer, accs, 4);
        combine_halves(reducer, accs, 2);
        combine_halves(reducer, accs, 1);
        half = 0;
    }
    for (; half > 0; half /= 2) combine_halves(reducer, accs, half);
    return accs.load(0);
}

// Stores the results of `count` accumulators, `step` apart in each output, after settling `unsettled` terms.
template <class R, class Accs, class... Out, size_t... O>
BK_HD void store_span(const R& reducer, const Accs& accs, int64_t count, int64_t unsettled, const Pack<Out*...>& out,
                      const int64_t* base, const int64_t* step, int64_t terms, std::index_sequence<O...>) {
    const auto load = [&](int64_t i) {
        typename R::Acc acc = accs.load(i);
        if (unsettled > 0) settle(reducer, acc, unsettled, 0);
        return acc;
    };
    if constexpr (kFinishes<R>) {
        if ((true && ... && (get<O>(out) != nullptr && step[O] == 1))) {
            const auto to = pack((get<O>(out) + base[O])...);
            BK_VECTOR_LOOP
            for (int64_t i = 0; i < count; ++i) put_at(to, i, reducer.finish(load(i), terms));
            return;
        }
    }
    for (int64_t i = 0; i < count; ++i) {
        const int64_t offset[] = {(base[O] + i * step[O])...};
        store_result(reducer, out, offset, load(i), terms, 0);
    }
}

// Layout of a task's accumulators and terms.
template <int In>
struct ReduceSpans {
    static constexpr int kOperands = In;
    bool along_terms, are_dense;
    int64_t accs;         // of one result if along_terms: a power of two
    int64_t inner_terms;  // of the last reduced axis
    int64_t index_step;
    int64_t stride[In + 1];  // from term to term along it
    Walk<In + 1, uint64_t> terms;
};

// Adds terms [begin, end) to `used` accumulators; returns how many terms of each are not settled.
template <class R, class Accs, class Reader, int kIn, class Values>
BK_HD int64_t collect(const R& reducer, const ReduceSpans<kIn>& spans, Accs& accs, int64_t used, Reader& reader, int64_t begin,
                      int64_t end, Values each) {
    int64_t next[kIn + 1];  // from row to row: of adjacent results, or of `used` terms
    for (int k = 0; k <= kIn; ++k) next[k] = spans.along_terms ? used * spans.stride[k] : spans.stride[k];
    const int64_t whole = kRowsAtOnce * (spans.along_terms ? used : 1);
    BK_VECTOR_LOOP
    for (int64_t i = 0; i < used; ++i) accs.store(i, reducer.identity());
    int64_t started = 0, run = 0;
    for (int64_t t = begin; t < end;) {
        const auto at = spans.terms(static_cast<uint64_t>(t));
        int64_t offset[kIn + 1];
        for (int k = 0; k <= kIn; ++k) offset[k] = signed_offset(at.of[k]);
        const int64_t stop = std::min(end, t + spans.inner_terms - t % spans.inner_terms);
        while (t < stop) {
            if constexpr (Reader::kInMemory) {
                if (spans.are_dense && stop - t >= whole && run + kRowsAtOnce <= kSettleInterval) {
                    const auto from = reader.read(offset, offset[kIn], used, stop - t);
                    if (used > started) start_span(reducer, accs, std::exchange(started, used), used, from, each);
                    add_pitched_rows(reducer, accs, used, offset[kIn], spans.index_step, from, next, each,
                                     std::make_index_sequence<kRowsAtOnce>{});
                    if ((run += kRowsAtOnce) == kSettleInterval) settle_span(reducer, accs, used, std::exchange(run, 0));
                    for (int k = 0; k <= kIn; ++k) offset[k] += kRowsAtOnce * next[k];
                    t += whole;
                    continue;
                }
            }
            const int64_t terms = spans.along_terms ? std::min(used, stop - t) : 1;
            const int64_t count = spans.along_terms ? terms : used;
            const auto from = reader.read(offset, offset[kIn], count, spans.along_terms ? stop - t : count);
            if (count < used) settle_span(reducer, accs, used, std::exchange(run, 0));
            if (count > started) start_span(reducer, accs, std::exchange(started, count), count, from, each);
            add_span(reducer, accs, count, offset[kIn], spans.index_step, spans.are_dense, from, each);
            if (count < used)
                settle_span(reducer, accs, count, 1);
            else if (++run == kSettleInterval)
                settle_span(reducer, accs, used, std::exchange(run, 0));
            for (int k = 0; k <= kIn; ++k) offset[k] += terms * spans.stride[k];
            t += terms;
        }
    }
    return run;
}

// Terms of an accumulator before a fresh one replaces it: near the root of `terms`, so that rounding errors of
// segments and of their sum stay small.
inline int64_t segment_length(int64_t terms) {
    int64_t segment = kReduceMinSegment;
    while (segment * segment < 8 * terms) segment *= 2;
    return segment;
}

// Runs collect() segment by segment; `all` combines the segments before.
template <class R, class Accs, class Reader, int kIn, class Values>
BK_HD int64_t collect_segments(const R& reducer, const ReduceSpans<kIn>& spans, Accs& accs, Accs& all, int64_t used,
                               Reader& reader, int64_t begin, int64_t end, Values each) {
    const int64_t lanes = spans.along_terms ? used : 1, segment = lanes * segment_length((end - begin) / lanes);
    if (end - begin < 2 * segment) return collect(reducer, spans, accs, used, reader, begin, end, each);
    for (int64_t t = begin; t < end; t += segment) {
        settle_span(reducer, accs, used, collect(reducer, spans, accs, used, reader, t, std::min(end, t + segment), each));
        BK_VECTOR_LOOP
        for (int64_t i = 0; i < used; ++i) all.store(i, t == begin ? accs.load(i) : reducer.combine(all.load(i), accs.load(i)));
    }
    for (int64_t i = 0; i < used; ++i) accs.store(i, all.load(i));
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
