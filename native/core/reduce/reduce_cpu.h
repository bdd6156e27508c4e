// Spans of neighbours, each with an Acc of its own: results, or terms of one result whose Accs are combined at the end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/abi/launch.h"
#include "core/pointwise/layout.h"
#include "core/reduce/reduce.h"
#include "core/reduce/reduce_accs_cpu.h"

namespace bk {

// Accs of a task: enough to read results in order of memory, few enough for a small stack.
template <class Acc>
constexpr int64_t kMostAccs =
    6144 / static_cast<int64_t>(sizeof(Acc)) < 1024 ? 6144 / static_cast<int64_t>(sizeof(Acc)) / 16 * 16 : 1024;
constexpr int64_t kTermAccs = 128;    // at most, of one result
constexpr int64_t kGatherSpan = 128;  // neighbours that do not lie side by side are copied
// A long reduction with few results is split into as many parts, whatever the number of threads.
constexpr int64_t kReduceParts = 64;
constexpr int64_t kReducePartTerms = 4096;

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
struct GatherBuffers {
    template <class T>
    struct alignas(64) Buffer {
        T at[kGatherSpan];
    };
    Pack<Buffer<In>...> buffers;
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

template <class R, class Accs, class... In, size_t... I>
BK_HD void start_span(const R& reducer, Accs& accs, int64_t first, int64_t count, const Pack<const In*...>& x,
                      std::index_sequence<I...>) {
    for (int64_t i = first; i < count; ++i) accs.store(i, start_of(reducer, 0, widen(get<I>(x)[i])...));
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
BK_HD typename R::Acc combine_span(const R& reducer, Accs& accs, int64_t count) {
    for (int64_t half = count / 2; half > 0; half /= 2) {
        BK_VECTOR_LOOP
        for (int64_t i = 0; i < half; ++i) accs.store(i, reducer.combine(accs.load(i), accs.load(i + half)));
    }
    return accs.load(0);
}

// How a task's Accs and terms lie.
template <int In>
struct ReduceSpans {
    bool along_terms;
    int64_t accs;      // of one result, a power of two; or neighbouring results
    int64_t step[In];  // between neighbours
    int64_t line;      // terms of the last reduced axis
    int64_t index_step;
    int64_t stride[In + 1];  // from term to term along it
    Walk<In + 1, uint64_t> terms;
};

// Terms [begin, end), the inputs of the first Acc's result beginning at x.
template <class R, class Accs, class... In, size_t... I>
BK_HD void collect(const R& reducer, const ReduceSpans<sizeof...(In)>& spans, Accs& accs, const Pack<const In*...>& x,
                   int64_t begin, int64_t end, std::index_sequence<I...> each) {
    constexpr int kIn = sizeof...(In);
    GatherBuffers<In...> gather;
    for (int64_t i = 0; i < spans.accs; ++i) accs.store(i, reducer.identity());
    int64_t started = 0, run = 0;
    for (int64_t t = begin; t < end;) {
        const auto at = spans.terms(static_cast<uint64_t>(t));
        int64_t offset[kIn + 1];
        for (int k = 0; k <= kIn; ++k) offset[k] = signed_offset(at.of[k]);
        const int64_t stop = std::min(end, t + spans.line - t % spans.line);
        while (t < stop) {
            const int64_t terms = spans.along_terms ? std::min(spans.accs, stop - t) : 1;
            const int64_t count = spans.along_terms ? terms : spans.accs;
            const auto from = pack(side_by_side(get<I>(x) + offset[I], count, spans.step[I], get<I>(gather.buffers).at)...);
            if (count < spans.accs) settle_span(reducer, accs, spans.accs, std::exchange(run, 0));
            if (count > started) start_span(reducer, accs, std::exchange(started, count), count, from, each);
            add_span(reducer, accs, count, offset[kIn], spans.index_step, from, each);
            if (count < spans.accs)
                settle_span(reducer, accs, count, 1);
            else if (++run == kReduceRun)
                settle_span(reducer, accs, spans.accs, std::exchange(run, 0));
            for (int k = 0; k <= kIn; ++k) offset[k] += terms * spans.stride[k];
            t += terms;
        }
    }
    settle_span(reducer, accs, spans.accs, run);
}

// Along terms or along results, whichever keeps vectors busy: short lines of either are poor vectors.
template <int In, int Out>
bool goes_along_terms(const ReducePlan<In, Out>& plan) {
    const int64_t width = plan.kept.rank == 0 ? 1 : plan.kept.extent[plan.kept.rank - 1];
    const int64_t line = plan.reduced.rank == 0 ? 1 : plan.reduced.extent[plan.reduced.rank - 1];
    if (plan.along_terms) return line >= 128 || width < 16;
    return width < 16 && line >= 64;
}

template <class R, class... Out, class... In, size_t... I>
Status reduce_spans(const ReduceAxes<sizeof...(In), sizeof...(Out)>& axes, const R& reducer, const Outputs<Out...>& out,
                    const Inputs<In...>& in, std::index_sequence<I...> each) {
    using Acc = typename R::Acc;
    constexpr int kIn = sizeof...(In), kOut = sizeof...(Out);
    const ReducePlan<kIn, kOut> plan = plan_reduce<R>(axes);
    const int last = plan.reduced.rank - 1, inner = plan.kept.rank - 1;
    ReduceSpans<kIn> spans{};
    spans.along_terms = goes_along_terms(plan);
    spans.line = last < 0 ? 1 : plan.reduced.extent[last];
    spans.terms = Walk<kIn + 1, uint64_t>(plan.reduced);
    for (int k = 0; k <= kIn; ++k) spans.stride[k] = last < 0 ? 0 : plan.reduced.stride[k][last];
    bool dense = true;
    for (int k = 0; k < kIn; ++k) {
        spans.step[k] = spans.along_terms ? spans.stride[k] : inner < 0 ? 0 : plan.kept.stride[k][inner];
        dense = dense && spans.step[k] == 1;
    }
    spans.index_step = spans.along_terms ? spans.stride[kIn] : 0;
    // Tasks: a part of a result, or a block of results along the last kept axis.
    Layout<kIn + kOut> outer = plan.kept;
    int64_t width = 1, block = 1, blocks = 1, parts = 1;
    if (spans.along_terms) {
        int64_t most = std::min(kTermAccs, kMostAccs<Acc>);
        while (most > 16 && most * 32 > spans.line) most /= 2;
        while (most > 1 && most > spans.line) most /= 2;
        while (most & (most - 1)) most &= most - 1;
        spans.accs = most;
        while (parts < kReduceParts && 2 * parts * plan.results <= kReduceParts && 2 * parts * kReducePartTerms <= plan.terms)
            parts *= 2;
    } else {
        width = plan.kept.extent[inner];
        outer.rank = inner;
        const int64_t fair = ceil_div(plan.results, 2 * thread_count());
        block = std::min({width, dense ? kMostAccs<Acc> : kGatherSpan, std::max<int64_t>(64, fair)});
        blocks = ceil_div(width, block);
    }
    const Walk<kIn + kOut, uint64_t> walk(outer);
    const int64_t part = ceil_div(plan.terms, parts), tasks = outer.numel() * blocks * parts;
    Acc partial[kReduceParts];
    parallel_ranges(tasks, grain_for(static_cast<int64_t>((sizeof(In) + ...)) * block * part), [&](int64_t begin, int64_t end) {
        AccArrays<Acc, kMostAccs<Acc>> accs;
        ReduceSpans<kIn> own = spans;
        for (int64_t task = begin; task < end; ++task) {
            const int64_t line = task / parts / blocks, first = task / parts % blocks * block, split = task % parts;
            const auto at = walk(static_cast<uint64_t>(line));
            int64_t base[kIn + kOut], step[kIn + kOut];
            for (int k = 0; k < kIn + kOut; ++k) {
                step[k] = spans.along_terms ? 0 : plan.kept.stride[k][inner];
                base[k] = signed_offset(at.of[k]) + first * step[k];
            }
            if (!spans.along_terms) own.accs = std::min(block, width - first);
            collect(reducer, own, accs, pack((get<I>(in.pointer) + base[I])...), split * part,
                    std::min(plan.terms, (split + 1) * part), each);
            if (spans.along_terms) accs.store(0, combine_span(reducer, accs, own.accs));
            if (parts > 1) {
                partial[task] = accs.load(0);
                continue;
            }
            const int64_t results = spans.along_terms ? 1 : own.accs;
            for (int64_t i = 0; i < results; ++i) {
                int64_t offset[kOut];
                for (int o = 0; o < kOut; ++o) offset[o] = base[kIn + o] + i * step[kIn + o];
                store_result(reducer, out.pointer, offset, accs.load(i), plan.terms, 0);
            }
        }
    });
    for (int64_t result = 0; parts > 1 && result < plan.results; ++result) {
        Acc acc = partial[result * parts];
        for (int64_t split = 1; split < parts; ++split) acc = reducer.combine(acc, partial[result * parts + split]);
        const auto at = walk(static_cast<uint64_t>(result));
        int64_t offset[kOut];
        for (int o = 0; o < kOut; ++o) offset[o] = signed_offset(at.of[kIn + o]);
        store_result(reducer, out.pointer, offset, acc, plan.terms, 0);
    }
    return Status::kOk;
}

template <class R, class... Out, class... In>
Status reduce(const Launch&, const ReduceAxes<sizeof...(In), sizeof...(Out)>& axes, const R& reducer,
              const Outputs<Out...>& out, const Inputs<In...>& in) {
    static_assert(sizeof(typename R::Acc) <= 40 && std::is_trivially_copyable_v<R>, "see reduce.h");
    if (axes.kept.is_empty()) return Status::kOk;
    return reduce_spans(axes, reducer, out, in, std::index_sequence_for<In...>{});
}

}  // namespace bk
