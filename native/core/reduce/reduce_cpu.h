// Spans of neighbours, each with an Acc of its own: results, or terms of one result whose Accs are combined at the end.
//
// Where terms come from is a type of its own: memory here, or what a loop makes (core/reduce/made_terms_cpu.h). It has
//
//   static constexpr int kOperands;                 whose strides the axes give before those of the outputs
//   static constexpr int64_t kMost;                 neighbours at a time, at most
//   using Values = std::index_sequence<...>;        a number for each value of a term
//   int64_t bytes;                                  that a term takes
//   int64_t most() const;                           neighbours at a time of such int64_t step[kOperands] from one to the next
//   bool lie_dense() const;                         whether all neighbours are in memory, side by side; of inputs from number
//                                                   kMoving of the reducer on, if it has that: one element for all of them
//   struct Reader { static constexpr bool kInMemory; Reader(const Terms&); void move_to(const int64_t* base);
//       Pack<const C*...> read(const int64_t* offset, int64_t index, int64_t count, int64_t left); };
//
// A Reader is a thread's. It reads `count` neighbours at `offset` from `base`, in elements of each operand; `left` of them will
// be read one after another.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/abi/launch.h"
#include "core/pointwise/layout.h"
#include "core/reduce/find_lost_cpu.h"
#include "core/reduce/reduce.h"
#include "core/reduce/reduce_accs_cpu.h"

namespace bk {

// Accs of a task, which has two arrays of them: enough to read results in order of memory, few enough for a small stack.
template <class Acc>
constexpr int64_t kMostAccs =
    2560 / static_cast<int64_t>(sizeof(Acc)) < 1024 ? 2560 / static_cast<int64_t>(sizeof(Acc)) / 16 * 16 : 1024;
constexpr int64_t kTermAccs = 128;      // at most, of one result
constexpr int64_t kGatherSpan = 128;    // neighbours that do not lie side by side are copied
constexpr int64_t kShortAccs = 16;      // of a result of few terms
constexpr int64_t kLinesAtOnce = 8;     // that are added to Accs in registers
constexpr int64_t kBytesAtOnce = 1024;  // of lines of one result, read here and there: of 4096 memory gives half as much
// A long reduction with few results is split into as many parts, whatever the number of threads.
constexpr int64_t kReduceParts = 64;
constexpr int64_t kReducePartTerms = 4096;
constexpr int64_t kReduceStretch = 256;  // terms of an Acc, at least, before another takes its place

template <class R, class... In, int I, int O>
size_t reduce_workspace(const ReduceAxes<I, O>&) {
    return 0;
}

// `count` neighbours at `step`, where they lie or in `copy`.
template <class T>
BK_HD const T* side_by_side(const T* x, int64_t count, int64_t step, T* copy) {
    if (step == 1) return x;
    for (int64_t i = 0; i < count; ++i) copy[i] = x[i * step];
    return copy;
}

template <class... In>
struct TermsInMemory {
    static constexpr int kOperands = sizeof...(In);
    static constexpr int64_t kMost = 1024;
    static constexpr int64_t kMostAlong =  // Accs of one result
        std::max(kShortAccs, kBytesAtOnce / kLinesAtOnce / std::max({static_cast<int64_t>(sizeof(In))...}));
    using Values = std::index_sequence_for<In...>;
    template <class T>
    struct alignas(64) Buffer {
        T at[kGatherSpan];
    };
    Pack<const In*...> pointer;
    int moving;
    int64_t step[kOperands] = {};
    int64_t bytes = (static_cast<int64_t>(sizeof(In)) + ...);

    int64_t most() const { return lie_dense() ? kMost : kGatherSpan; }

    bool lie_dense() const {
        for (int k = 0; k < kOperands; ++k)
            if (step[k] != (k < moving ? 1 : 0)) return false;
        return true;
    }

    struct Reader {
        static constexpr bool kInMemory = true;
        const TermsInMemory& terms;
        bool is_dense;
        Pack<const In*...> from;
        Pack<Buffer<In>...> copies;

        BK_HD explicit Reader(const TermsInMemory& all) : terms(all), is_dense(all.lie_dense()) {}
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
                                  : side_by_side(get<I>(from) + offset[I], count, terms.step[I], get<I>(copies).at))...);
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

// Lines of neighbours, which lie `line` apart in each input, and one element of each input that stands still along them.
template <class R, class Accs, class... In, size_t... Moving, size_t... Still, size_t... Line>
BK_HD void add_lines_beside(const R& reducer, Accs& accs, int64_t count, const Pack<const In*...>& x, const int64_t* line,
                            std::index_sequence<Moving...>, std::index_sequence<Still...>, std::index_sequence<Line...>) {
    constexpr int kMoving = sizeof...(Moving);
    const auto still_at = [&](int64_t k) {
        return reducer.still(widen(get<kMoving + Still>(x)[k * line[kMoving + Still]])...);
    };
    const typename R::Still still[] = {still_at(int64_t{Line})...};
    const int64_t next[] = {line[Moving]...};
    BK_VECTOR_LOOP
    for (int64_t i = 0; i < count; ++i) {
        typename R::Acc acc = accs.load(i);
        const auto add = [&](int64_t k) { reducer.add_beside(acc, still[k], widen(get<Moving>(x)[i + k * next[Moving]])...); };
        (add(int64_t{Line}), ...);
        accs.store(i, acc);
    }
}
template <class R, class Accs, class... In, class Lines>
BK_HD void add_lines_beside(const R& reducer, Accs& accs, int64_t count, const Pack<const In*...>& x, const int64_t* line,
                            Lines lines) {
    constexpr int kIn = sizeof...(In);
    add_lines_beside(reducer, accs, count, x, line, std::make_index_sequence<kMovingOf<R>>{},
                     std::make_index_sequence<kIn - kMovingOf<R>>{}, lines);
}

template <class R, class Accs, class... In, class Each>
BK_HD void add_span(const R& reducer, Accs& accs, int64_t count, int64_t index, int64_t step, [[maybe_unused]] bool is_dense,
                    const Pack<const In*...>& x, Each each) {
    if constexpr (kMovingOf<R> < static_cast<int>(sizeof...(In))) {
        constexpr int64_t kAlone[sizeof...(In)] = {};
        if (is_dense) return add_lines_beside(reducer, accs, count, x, kAlone, std::index_sequence<0>{});
    }
    add_span(reducer, accs, count, index, step, x, each);
}

// What kCount elements give together, in their order.
template <int kCount, class R, class One>
BK_HD typename R::Acc joined(const R& reducer, const One& one, int64_t first) {
    if constexpr (kCount == 1)
        return one(first);
    else
        return reducer.combine(joined<kCount / 2>(reducer, one, first),
                               joined<kCount - kCount / 2>(reducer, one, first + kCount / 2));
}

// add_span of kLinesAtOnce lines, which lie `line` apart in each input and whose indices do in its last entry. Each Acc is
// loaded and stored once.
template <class R, class Accs, class... In, size_t... I, size_t... Line>
BK_HD void add_lines(const R& reducer, Accs& accs, int64_t count, int64_t index, int64_t step, const Pack<const In*...>& x,
                     const int64_t* line, std::index_sequence<I...>, std::index_sequence<Line...>) {
    const int64_t next[] = {line[I]..., line[sizeof...(I)]};
    if constexpr (kMovingOf<R> < static_cast<int>(sizeof...(In))) {
        add_lines_beside(reducer, accs, count, x, line, std::index_sequence<Line...>{});
    } else if constexpr (kHasOne<void, R, compute_t<In>...>) {
        BK_VECTOR_LOOP
        for (int64_t i = 0; i < count; ++i) {
            const auto one = [&](int64_t k) BK_INLINED { return reducer.one(widen(get<I>(x)[i + k * next[I]])...); };
            accs.store(i, reducer.combine(accs.load(i), joined<sizeof...(Line)>(reducer, one, 0)));
        }
    } else {
        BK_VECTOR_LOOP
        for (int64_t i = 0; i < count; ++i) {
            typename R::Acc acc = accs.load(i);
            const auto add = [&](int64_t k) {
                reducer.add(acc, index + i * step + k * next[sizeof...(I)], widen(get<I>(x)[i + k * next[I]])...);
            };
            (add(int64_t{Line}), ...);
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

// Combines the Accs of one result; their number is a power of two.
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

// The results of `count` Accs, which lie `step` apart in each output from `base` on; `unsettled` terms of each are to be
// settled.
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

// How a task's Accs and terms lie.
template <int In>
struct ReduceSpans {
    static constexpr int kOperands = In;
    bool along_terms, are_dense;
    int64_t accs;  // along terms, of one result: a power of two
    int64_t line;  // terms of the last reduced axis
    int64_t index_step;
    int64_t stride[In + 1];  // from term to term along it
    Walk<In + 1, uint64_t> terms;
};

// Terms [begin, end), which the reader finds from the first Acc's result on, in `used` Accs. Returns how many of each Acc are
// not settled.
template <class R, class Accs, class Reader, int kIn, class Values>
BK_HD int64_t collect(const R& reducer, const ReduceSpans<kIn>& spans, Accs& accs, int64_t used, Reader& reader, int64_t begin,
                      int64_t end, Values each) {
    int64_t next[kIn + 1];  // from line to line: of neighbours along the results, or of `used` terms
    for (int k = 0; k <= kIn; ++k) next[k] = spans.along_terms ? used * spans.stride[k] : spans.stride[k];
    const int64_t whole = kLinesAtOnce * (spans.along_terms ? used : 1);
    BK_VECTOR_LOOP
    for (int64_t i = 0; i < used; ++i) accs.store(i, reducer.identity());
    int64_t started = 0, run = 0;
    for (int64_t t = begin; t < end;) {
        const auto at = spans.terms(static_cast<uint64_t>(t));
        int64_t offset[kIn + 1];
        for (int k = 0; k <= kIn; ++k) offset[k] = signed_offset(at.of[k]);
        const int64_t stop = std::min(end, t + spans.line - t % spans.line);
        while (t < stop) {
            if constexpr (Reader::kInMemory) {
                if (spans.are_dense && stop - t >= whole && run + kLinesAtOnce <= kReduceRun) {
                    const auto from = reader.read(offset, offset[kIn], used, stop - t);
                    if (used > started) start_span(reducer, accs, std::exchange(started, used), used, from, each);
                    add_lines(reducer, accs, used, offset[kIn], spans.index_step, from, next, each,
                              std::make_index_sequence<kLinesAtOnce>{});
                    if ((run += kLinesAtOnce) == kReduceRun) settle_span(reducer, accs, used, std::exchange(run, 0));
                    for (int k = 0; k <= kIn; ++k) offset[k] += kLinesAtOnce * next[k];
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
            else if (++run == kReduceRun)
                settle_span(reducer, accs, used, std::exchange(run, 0));
            for (int k = 0; k <= kIn; ++k) offset[k] += terms * spans.stride[k];
            t += terms;
        }
    }
    return run;
}

// Terms of an Acc before another takes its place: of `terms` near the root, so that neither the terms of a stretch nor the
// stretches are many and the rounding errors of sums stay few.
inline int64_t stretch_of(int64_t terms) {
    int64_t stretch = kReduceStretch;
    while (stretch * stretch < 8 * terms) stretch *= 2;
    return stretch;
}

// collect() in stretches; `all` takes the Accs of those before.
template <class R, class Accs, class Reader, int kIn, class Values>
BK_HD int64_t collect_stretches(const R& reducer, const ReduceSpans<kIn>& spans, Accs& accs, Accs& all, int64_t used,
                                Reader& reader, int64_t begin, int64_t end, Values each) {
    const int64_t lanes = spans.along_terms ? used : 1, stretch = lanes * stretch_of((end - begin) / lanes);
    if (end - begin < 2 * stretch) return collect(reducer, spans, accs, used, reader, begin, end, each);
    for (int64_t t = begin; t < end; t += stretch) {
        settle_span(reducer, accs, used, collect(reducer, spans, accs, used, reader, t, std::min(end, t + stretch), each));
        BK_VECTOR_LOOP
        for (int64_t i = 0; i < used; ++i) all.store(i, t == begin ? accs.load(i) : reducer.combine(all.load(i), accs.load(i)));
    }
    for (int64_t i = 0; i < used; ++i) accs.store(i, all.load(i));
    return 0;
}

// Terms of the Accs of a short result: bf16 widened by whole vectors. GCC takes vectors of as many bytes of bf16 and f32 in a
// loop, and memory is slow to give what it got by halves.
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

// A result of at least kShortAccs terms, fewer than of several runs: collect() and combine_span() with loops of constant
// length.
template <class R, class... In, size_t... I>
BK_HD typename R::Acc reduce_short(const R& reducer, int64_t terms, int64_t index_step, const Pack<const In*...>& x,
                                   std::index_sequence<I...> each) {
    AccArrays<typename R::Acc, kShortAccs> accs;
    BK_VECTOR_LOOP
    for (int64_t i = 0; i < kShortAccs; ++i) accs.store(i, reducer.identity());
    start_span(reducer, accs, 0, kShortAccs, x, each);
    const int64_t whole = terms / kShortAccs, rest = terms % kShortAccs;
    int64_t k = 0;
    if constexpr (kHasOne<void, R, compute_t<In>...> && (!ShortSpans<In...>::template kIsCopied<In> && ...)) {
        const int64_t next[] = {((void)I, kShortAccs)..., kShortAccs * index_step};
        for (; k + kLinesAtOnce <= whole; k += kLinesAtOnce)
            add_lines(reducer, accs, kShortAccs, k * kShortAccs * index_step, index_step, pack((get<I>(x) + k * kShortAccs)...),
                      next, each, std::make_index_sequence<kLinesAtOnce>{});
        for (; k + 2 <= whole; k += 2)
            add_lines(reducer, accs, kShortAccs, k * kShortAccs * index_step, index_step, pack((get<I>(x) + k * kShortAccs)...),
                      next, each, std::make_index_sequence<2>{});
    }
    for (; k < whole; ++k) {
        ShortSpans<In...> spans;
        const auto from = pack(spans.template widened<I>(get<I>(x) + k * kShortAccs)...);
        add_span(reducer, accs, kShortAccs, k * kShortAccs * index_step, index_step, from, each);
    }
    settle_span(reducer, accs, kShortAccs, whole);
    if (rest > 0) {
        const int64_t at = whole * kShortAccs;
        add_span(reducer, accs, rest, at * index_step, index_step, pack((get<I>(x) + at)...), each);
        settle_span(reducer, accs, rest, 1);
    }
    return combine_span(reducer, accs, kShortAccs);
}

// Rows of few terms that lie side by side.
template <class R, class... Out, class... In, int kOperands>
void reduce_short_rows(const R& reducer, const ReduceSpans<sizeof...(In)>& spans, const Outputs<Out...>& out,
                       const TermsInMemory<In...>& terms, const Walk<kOperands, uint64_t>& walk, int64_t results) {
    constexpr int kIn = sizeof...(In);
    parallel_ranges(results, grain_for(terms.bytes * spans.line), [&](int64_t begin, int64_t end) {
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
                acc = reduce_short(known, spans.line, spans.index_step, reader.from, std::index_sequence_for<In...>{});
                stamp(known, acc);
                again = pass == 0 && (pass = pass_of(reducer, acc)) > 0;
            }
            if constexpr (kMayBeLost<R>)
                if (reducer.is_lost(acc))
                    acc = find_lost(reducer, spans, acc, reader, spans.line, std::index_sequence_for<In...>{});
            store_result(reducer, out.pointer, base + kIn, acc, spans.line, 0);
        }
    });
}

// Which pass has the result of each Acc (kRepeats in core/reduce/reducer.h).
template <class R, int64_t kAccs>
struct SpanPasses {
    int8_t of[kRepeats<R> ? kAccs : 1] = {};

    // Of what the first pass gave. Returns a bit for each pass that any of them wants.
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

// Along terms or along results, whichever keeps vectors busy: short lines of either are poor vectors.
template <int In, int Out>
bool goes_along_terms(const ReducePlan<In, Out>& plan, bool is_dense_line) {
    const int64_t width = plan.kept.rank == 0 ? 1 : plan.kept.extent[plan.kept.rank - 1];
    const int64_t line = plan.reduced.rank == 0 ? 1 : plan.reduced.extent[plan.reduced.rank - 1];
    if (plan.along_terms) return line >= (is_dense_line ? kShortAccs : 128) || width < 16;
    return width < 16 && line >= 64;
}

// Accs of one result, of whose terms `line` are neighbours.
inline int64_t accs_along(int64_t most, int64_t line, bool is_dense) {
    most = std::min(kTermAccs, most);
    while (most > kShortAccs && most * (is_dense ? 16 : 32) > line) most /= 2;
    while (most > 1 && most > line) most /= 2;
    while (most & (most - 1)) most &= most - 1;
    return most;
}

// What `n` terms give that lie side by side, and inputs from number kMoving of the reducer on that stand still along them. For
// loops over lines that do more with each of them.
template <class R, class... In>
BK_HD typename R::Acc reduce_line(const R& reducer, int64_t n, const In*... in) {
    constexpr int kIn = sizeof...(In);
    constexpr int64_t kAccs = kMostAccs<typename R::Acc> < kTermAccs ? kMostAccs<typename R::Acc> : kTermAccs;
    TermsInMemory<In...> terms{{pack(in...)}, kMovingOf<R>};
    Layout<kIn + 1> line;
    int64_t step[kIn + 1] = {};
    for (int k = 0; k < kIn; ++k) step[k] = terms.step[k] = k < kMovingOf<R> ? 1 : 0;
    line.append(n, step);
    ReduceSpans<kIn> spans{
        true, true, accs_along(std::min(kAccs, terms.kMostAlong), n, true), n, 0, {}, Walk<kIn + 1, uint64_t>(line)};
    for (int k = 0; k < kIn; ++k) spans.stride[k] = step[k];
    AccArrays<typename R::Acc, kAccs> accs, all;
    typename TermsInMemory<In...>::Reader reader(terms);
    const int64_t start[kIn] = {};
    reader.move_to(start);
    settle_span(reducer, accs, spans.accs,
                collect_stretches(reducer, spans, accs, all, spans.accs, reader, 0, n, std::index_sequence_for<In...>{}));
    return combine_span(reducer, accs, spans.accs);
}

// Parts of few results: their Accs are a small part of the stack.
template <class Acc>
constexpr int64_t kMostParts = std::max<int64_t>(1024 / sizeof(Acc), kReduceParts);

template <class R, class... Out, class Terms>
Status reduce_spans(const ReduceAxes<Terms::kOperands, sizeof...(Out)>& axes, const R& reducer, const Outputs<Out...>& out,
                    Terms terms, int inputs) {
    using Acc = typename R::Acc;
    constexpr int kIn = Terms::kOperands, kOut = sizeof...(Out);
    // Terms that a loop makes have arrays of their own beside these.
    constexpr int64_t kAccs = std::min(kMostAccs<Acc> / (Terms::Reader::kInMemory ? 1 : 2), Terms::kMost);
    const ReducePlan<kIn, kOut> plan = plan_reduce<R>(axes, inputs);
    const int last = plan.reduced.rank - 1, inner = plan.kept.rank - 1;
    ReduceSpans<kIn> spans{};
    for (int k = 0; k < kIn; ++k) terms.step[k] = last < 0 ? 0 : plan.reduced.stride[k][last];
    spans.along_terms = goes_along_terms(plan, terms.lie_dense() && plan.reduced.rank == 1);
    spans.line = last < 0 ? 1 : plan.reduced.extent[last];
    spans.terms = Walk<kIn + 1, uint64_t>(plan.reduced);
    for (int k = 0; k <= kIn; ++k) spans.stride[k] = last < 0 ? 0 : plan.reduced.stride[k][last];
    for (int k = 0; k < kIn; ++k)
        terms.step[k] = spans.along_terms ? spans.stride[k] : inner < 0 ? 0 : plan.kept.stride[k][inner];
    spans.index_step = spans.along_terms ? spans.stride[kIn] : 0;
    spans.are_dense = terms.lie_dense();
    // Tasks: a part of a result, or of a block of results along the last kept axis.
    Layout<kIn + kOut> outer = plan.kept;
    int64_t width = 1, block = 1, blocks = 1, parts = 1;
    if (spans.along_terms) {
        int64_t most = kAccs;
        if constexpr (Terms::Reader::kInMemory) most = std::min(most, Terms::kMostAlong);
        spans.accs = accs_along(most, spans.line, spans.are_dense);
    } else {
        width = plan.kept.extent[inner];
        outer.rank = inner;
        const int64_t fair = thread_count() == 1 ? plan.results : ceil_div(plan.results, 2 * thread_count());
        block = std::min({width, terms.most(), kAccs, std::max<int64_t>(64, fair)});
        blocks = ceil_div(width, block);
        block = std::min(block, ceil_div(ceil_div(width, blocks), int64_t{kBlock}) * kBlock);  // of about one size
    }
    const int64_t few = spans.along_terms ? kReduceParts : kMostParts<Acc>;
    while (parts < kReduceParts && 2 * parts * plan.results <= few && 2 * parts * kReducePartTerms <= plan.terms) parts *= 2;
    const Walk<kIn + kOut, uint64_t> walk(outer);
    if constexpr (Terms::Reader::kInMemory && kMovingOf<R> >= kIn) {
        const bool is_short = spans.line >= kShortAccs && spans.line < kShortAccs * kReduceRun;
        if (spans.along_terms && spans.are_dense && is_short && plan.reduced.rank == 1) {
            reduce_short_rows(reducer, spans, out, terms, walk, plan.results);
            return Status::kOk;
        }
    }
    const int64_t part = ceil_div(plan.terms, parts), tasks = outer.numel() * blocks * parts;
    Acc partial[kMostParts<Acc>];
    int64_t step[kIn + kOut] = {};  // from result to result of a task
    for (int k = 0; !spans.along_terms && k < kIn + kOut; ++k) step[k] = plan.kept.stride[k][inner];
    parallel_ranges(tasks, 2 * grain_for(terms.bytes * block * part), [&](int64_t begin, int64_t end) {  // bytes are but read
        AccArrays<Acc, kAccs> accs, all;
        SpanPasses<R, kAccs> passes;
        typename Terms::Reader reader(terms);
        for (int64_t task = begin; task < end; ++task) {
            const int64_t line = task / parts / blocks, first = task / parts % blocks * block, split = task % parts;
            const auto at = walk(static_cast<uint64_t>(line));
            int64_t base[kIn + kOut];
            for (int k = 0; k < kIn + kOut; ++k) base[k] = signed_offset(at.of[k]) + first * step[k];
            const int64_t used = spans.along_terms ? spans.accs : std::min(block, width - first);
            reader.move_to(base);
            const int64_t results = spans.along_terms ? 1 : used;
            for (int pass = 0, wanted = 1; wanted >> pass != 0; ++pass) {
                if ((wanted >> pass & 1) == 0) continue;
                const R known = in_pass(reducer, pass);
                int64_t unsettled = collect_stretches(known, spans, accs, all, used, reader, split * part,
                                                      std::min(plan.terms, (split + 1) * part), typename Terms::Values{});
                if (spans.along_terms || parts > 1) settle_span(known, accs, used, std::exchange(unsettled, 0));
                if (spans.along_terms) accs.store(0, combine_span(known, accs, used));
                if constexpr (kMayBeLost<R>) {
                    if (parts == 1) {
                        settle_span(reducer, accs, results, std::exchange(unsettled, 0));
                        if (are_lost(reducer, accs, results))
                            find_lost(reducer, spans, accs, all, results, reader, plan.terms, typename Terms::Values{});
                    }
                }
                if (pass == 0) wanted = passes.find(known, accs, results, unsettled);
                if (wanted == 1 && parts == 1) {
                    store_span(reducer, accs, results, unsettled, out.pointer, base + kIn, step + kIn, plan.terms,
                               std::index_sequence_for<Out...>{});
                    break;
                }
                for (int64_t i = 0; i < results; ++i) {
                    if (wanted > 1 && passes.of[i] != pass) continue;
                    Acc acc = accs.load(i);
                    if (unsettled > 0) settle(known, acc, unsettled, 0);
                    stamp(known, acc);
                    if (parts > 1) {
                        partial[(line * width + first + i) * parts + split] = acc;
                        continue;
                    }
                    int64_t offset[kOut];
                    for (int o = 0; o < kOut; ++o) offset[o] = base[kIn + o] + i * step[kIn + o];
                    store_result(reducer, out.pointer, offset, acc, plan.terms, 0);
                }
            }
        }
    });
    const auto joined = parts_of(reducer, 0);
    for (int64_t result = 0; parts > 1 && result < plan.results; ++result) {
        Acc acc = partial[result * parts];
        for (int64_t split = 1; split < parts; ++split) acc = joined.combine(acc, partial[result * parts + split]);
        const auto at = walk(static_cast<uint64_t>(result / width));
        if constexpr (kMayBeLost<R>) {
            if (reducer.is_lost(acc)) {
                int64_t base[kIn];
                for (int k = 0; k < kIn; ++k) base[k] = signed_offset(at.of[k]) + result % width * step[k];
                typename Terms::Reader reader(terms);
                reader.move_to(base);
                acc = find_lost(reducer, spans, acc, reader, plan.terms, typename Terms::Values{});
            }
        }
        int64_t offset[kOut];
        for (int o = 0; o < kOut; ++o) offset[o] = signed_offset(at.of[kIn + o]) + result % width * step[kIn + o];
        store_result(joined, out.pointer, offset, acc, plan.terms, 0);
    }
    return Status::kOk;
}

template <class R, class... Out, class... In>
Status reduce(const Launch&, const ReduceAxes<sizeof...(In), sizeof...(Out)>& axes, const R& reducer,
              const Outputs<Out...>& out, const Inputs<In...>& in) {
    static_assert(sizeof(typename R::Acc) <= 40 && std::is_trivially_copyable_v<R>, "see reduce.h");
    if (axes.kept.is_empty()) return Status::kOk;
    return reduce_spans(axes, reducer, out, TermsInMemory<In...>{in.pointer, kMovingOf<R>}, sizeof...(In));
}

}  // namespace bk
