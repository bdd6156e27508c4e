// Spans of the CPU reduction engine (core/reduce/reduce_cpu.h): how the accumulators of a task collect items from memory,
// settle, combine and store their results.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/layout/layout.h"
#include "core/reduce/reduce.h"
#include "core/reduce/reduce_accs_cpu.h"

namespace bk {

// Accumulators of a task, which has two arrays of them: enough to read in memory order, yet a small stack.
template <class Acc>
constexpr int64_t kMaxAccs =
    2560 / static_cast<int64_t>(sizeof(Acc)) < 1024 ? 2560 / static_cast<int64_t>(sizeof(Acc)) / 16 * 16 : 1024;
constexpr int64_t kItemAccs = 128;          // of one result, at most
constexpr int64_t kGatherSpan = 128;        // strided elements copied at once
constexpr int64_t kShortAccs = 16;          // of a result with few items
constexpr int64_t kRowsAtOnce = 8;          // added to accumulators in registers
constexpr int64_t kStepBytes = 1024;        // of one result a step; 4096 halve the throughput
constexpr int64_t kReduceMinSegment = 256;  // items of a segment, at least

// `count` elements at `step`: in place if contiguous, else gathered into `copy`.
template <class T>
BK_HD const T* as_contiguous(const T* x, int64_t count, int64_t step, T* copy) {
    if (step == 1) return x;
    for (int64_t i = 0; i < count; ++i) copy[i] = x[i * step];
    return copy;
}

template <class... In>
struct ItemsInMemory {
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
        const ItemsInMemory& items;
        bool is_dense;
        Pack<const In*...> from;
        Pack<Buffer<In>...> copies;

        BK_HD explicit Reader(const ItemsInMemory& all) : items(all), is_dense(all.is_contiguous()) {}
        BK_HD void move_to(const int64_t* base) { move_to(base, Values{}); }
        BK_HD auto read(const int64_t* offset, int64_t, int64_t count, int64_t) { return read(offset, count, Values{}); }

    private:
        template <size_t... I>
        BK_HD void move_to(const int64_t* base, std::index_sequence<I...>) {
            from = pack((get<I>(items.pointer) + base[I])...);
        }
        template <size_t... I>
        BK_HD auto read(const int64_t* offset, int64_t count, std::index_sequence<I...>) {
            return pack((is_dense ? get<I>(from) + offset[I]
                                  : as_contiguous(get<I>(from) + offset[I], count, items.step[I], get<I>(copies).at))...);
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
BK_HD void settle_span(const R& reducer, Accs& accs, int64_t count, int64_t items) {
    if (items == 0) return;
    BK_VECTOR_LOOP
    for (int64_t i = 0; i < count; ++i) {
        typename R::Acc acc = accs.load(i);
        settle(reducer, acc, items, 0);
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

// Stores the results of `count` accumulators, `step` apart in each output, after settling `unsettled` items.
template <class R, class Accs, class... Out, size_t... O>
BK_HD void store_span(const R& reducer, const Accs& accs, int64_t count, int64_t unsettled, const Pack<Out*...>& out,
                      const int64_t* base, const int64_t* step, int64_t items, std::index_sequence<O...>) {
    const auto load = [&](int64_t i) {
        typename R::Acc acc = accs.load(i);
        if (unsettled > 0) settle(reducer, acc, unsettled, 0);
        return acc;
    };
    if constexpr (kFinishes<R>) {
        if ((true && ... && (get<O>(out) != nullptr && step[O] == 1))) {
            const auto to = pack((get<O>(out) + base[O])...);
            BK_VECTOR_LOOP
            for (int64_t i = 0; i < count; ++i) put_at(to, i, reducer.finish(load(i), items));
            return;
        }
    }
    for (int64_t i = 0; i < count; ++i) {
        const int64_t offset[] = {(base[O] + i * step[O])...};
        store_result(reducer, out, offset, load(i), items, 0);
    }
}

// Layout of a task's accumulators and items.
template <int In>
struct ReduceSpans {
    static constexpr int kOperands = In;
    bool along_items, are_dense;
    int64_t accs;         // of one result if along_items: a power of two
    int64_t inner_items;  // of the last reduced axis
    int64_t index_step;
    int64_t stride[In + 1];  // from item to item along it
    Walk<In + 1, uint64_t> items;
};

// Adds items [begin, end) to `used` accumulators; returns how many items of each are not settled.
template <class R, class Accs, class Reader, int kIn, class Values>
BK_HD int64_t collect(const R& reducer, const ReduceSpans<kIn>& spans, Accs& accs, int64_t used, Reader& reader, int64_t begin,
                      int64_t end, Values each) {
    int64_t next[kIn + 1];  // from row to row: of adjacent results, or of `used` items
    for (int k = 0; k <= kIn; ++k) next[k] = spans.along_items ? used * spans.stride[k] : spans.stride[k];
    const int64_t whole = kRowsAtOnce * (spans.along_items ? used : 1);
    BK_VECTOR_LOOP
    for (int64_t i = 0; i < used; ++i) accs.store(i, reducer.identity());
    int64_t started = 0, run = 0;
    for (int64_t t = begin; t < end;) {
        const auto at = spans.items(static_cast<uint64_t>(t));
        int64_t offset[kIn + 1];
        for (int k = 0; k <= kIn; ++k) offset[k] = signed_offset(at.of[k]);
        const int64_t stop = std::min(end, t + spans.inner_items - t % spans.inner_items);
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
            const int64_t items = spans.along_items ? std::min(used, stop - t) : 1;
            const int64_t count = spans.along_items ? items : used;
            const auto from = reader.read(offset, offset[kIn], count, spans.along_items ? stop - t : count);
            if (count < used) settle_span(reducer, accs, used, std::exchange(run, 0));
            if (count > started) start_span(reducer, accs, std::exchange(started, count), count, from, each);
            add_span(reducer, accs, count, offset[kIn], spans.index_step, spans.are_dense, from, each);
            if (count < used)
                settle_span(reducer, accs, count, 1);
            else if (++run == kSettleInterval)
                settle_span(reducer, accs, used, std::exchange(run, 0));
            for (int k = 0; k <= kIn; ++k) offset[k] += items * spans.stride[k];
            t += items;
        }
    }
    return run;
}

// Items of an accumulator before a fresh one replaces it: near the root of `items`, so that rounding errors of
// segments and of their sum stay small.
inline int64_t segment_length(int64_t items) {
    int64_t segment = kReduceMinSegment;
    while (segment * segment < 8 * items) segment *= 2;
    return segment;
}

// Runs collect() segment by segment; `all` combines the segments before.
template <class R, class Accs, class Reader, int kIn, class Values>
BK_HD int64_t collect_segments(const R& reducer, const ReduceSpans<kIn>& spans, Accs& accs, Accs& all, int64_t used,
                               Reader& reader, int64_t begin, int64_t end, Values each) {
    const int64_t lanes = spans.along_items ? used : 1, segment = lanes * segment_length((end - begin) / lanes);
    if (end - begin < 2 * segment) return collect(reducer, spans, accs, used, reader, begin, end, each);
    for (int64_t t = begin; t < end; t += segment) {
        settle_span(reducer, accs, used, collect(reducer, spans, accs, used, reader, t, std::min(end, t + segment), each));
        BK_VECTOR_LOOP
        for (int64_t i = 0; i < used; ++i) all.store(i, t == begin ? accs.load(i) : reducer.combine(all.load(i), accs.load(i)));
    }
    for (int64_t i = 0; i < used; ++i) accs.store(i, all.load(i));
    return 0;
}

}  // namespace bk
