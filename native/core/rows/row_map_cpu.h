// Rows on the CPU: chunks of a constant length, which become vector code. Short rows are held on the stack between passes,
// long ones read again; one that is longer than a segment is summed up segment by segment, by several threads where there are
// fewer rows than threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/abi/launch.h"
#include "core/pointwise/layout.h"
#include "core/rows/row_map.h"

namespace bk {

constexpr int kRowChunk = 64;
constexpr int kHeldBytes = 6144;  // of a row that is held: a call takes at most 16 KiB of stack
constexpr int64_t kRowSegment = 32768;
constexpr int kMostSegments = 128;

// Elements first, first + 1, ... of a row, of which `exist` are some.
struct RowChunk {
    int64_t first;
    int exist;
    BK_HD bool has(int i) const { return i < exist; }
    BK_HD int count() const { return exist; }
    BK_HD int64_t at(int i) const { return first + i; }
};

struct WholeRowChunk {
    int64_t first;
    BK_HD bool has(int) const { return true; }
    BK_HD int count() const { return kRowChunk; }
    BK_HD int64_t at(int i) const { return first + i; }
};

template <class T>
BK_HD void load_run(compute_t<T>* BK_RESTRICT to, const T* BK_RESTRICT from, int64_t step, int64_t count) {
    if constexpr (std::is_same_v<T, f16>) {
        if (step == 1) return widen_span(to, from, count);
    }
    if (step == 1) {
        if (count == kRowChunk)
            for (int i = 0; i < kRowChunk; ++i) to[i] = widen(from[i]);
        else
            for (int64_t i = 0; i < count; ++i) to[i] = widen(from[i]);
    } else {
        for (int64_t i = 0; i < count; ++i) to[i] = widen(from[i * step]);
    }
}

template <class T>
BK_HD void store_run(T* BK_RESTRICT to, const compute_t<T>* BK_RESTRICT from, int64_t step, int64_t count) {
    if constexpr (std::is_same_v<T, f16>) {
        if (step == 1) return narrow_span(to, from, count);
    }
    if (step == 1) {
        if (count == kRowChunk)
            for (int i = 0; i < kRowChunk; ++i) to[i] = narrow<T>(from[i]);
        else
            for (int64_t i = 0; i < count; ++i) to[i] = narrow<T>(from[i]);
    } else {
        for (int64_t i = 0; i < count; ++i) to[i * step] = narrow<T>(from[i]);
    }
}

// The inner axes as lines along the last one.
template <int Full>
struct RowLines {
    Walk<Full, uint64_t> walk;
    int64_t length = 1, step[Full] = {};
    bool is_single = true;

    explicit RowLines(const Layout<Full>& inner) {
        const int last = inner.rank - 1;
        Layout<Full> outer = inner;
        outer.rank = std::max(last, 0);
        walk = Walk<Full, uint64_t>(outer);
        is_single = last <= 0;
        if (last < 0) return;
        length = inner.extent[last];
        for (int k = 0; k < Full; ++k) step[k] = inner.stride[k][last];
    }

    // body(offset of operand k, position from `first` on, count) for each run of positions [first, first + count).
    template <class Body>
    BK_HD void runs(int k, int64_t first, int64_t count, const Body& body) const {
        if (is_single) return body(first * step[k], int64_t{0}, count);
        for (int64_t done = 0; done < count;) {
            const int64_t line = (first + done) / length, at = first + done - line * length;
            const int64_t run = std::min(length - at, count - done);
            body(signed_offset(walk(static_cast<uint64_t>(line)).of[k]) + at * step[k], done, run);
            done += run;
        }
    }
};

template <class F, int Full, int Single, class X, class K, class P, class Y, class S>
struct RowJob;

template <class F, int Full, int Single, class... In, class... Column, class... RowIn, class... Out, class... Saved>
struct RowJob<F, Full, Single, Inputs<In...>, Inputs<Column...>, Inputs<RowIn...>, Outputs<Out...>, Outputs<Saved...>> {
    using Row = typename F::Row;
    using Acc = typename F::Acc;
    using Held = typename F::Held;
    using Group = Held[kRowChunk];
    static constexpr int kIn = sizeof...(In), kOut = sizeof...(Out), kRowIn = sizeof...(RowIn);
    static constexpr int kMostChunks = std::max<int>(1, kHeldBytes / static_cast<int>(sizeof(Group) + sizeof(Acc)));

    const F& f;
    Walk<Full + Single, uint64_t> outer;
    RowLines<Full> lines;
    int64_t n;
    Pack<const In*...> x;
    Pack<const Column*...> columns;
    Pack<const RowIn*...> row_inputs;
    Pack<Out*...> y;
    Pack<Saved*...> outputs_of_row;

    template <size_t... I>
    BK_HD void hold_chunk(const Offsets<Full + Single, uint64_t>& at, const Row& row, int64_t first, int count, Held* held,
                          std::index_sequence<I...>) const {
        Pack<Block<compute_t<In>, kRowChunk>...> cell;
        (lines.runs(I, first, count,
                    [&](int64_t offset, int64_t done, int64_t run) {
                        load_run(get<I>(cell).cell + done, get<I>(x) + signed_offset(at.of[I]) + offset, lines.step[I], run);
                    }),
         ...);
        if (count == kRowChunk) {
            BK_VECTOR_LOOP
            for (int i = 0; i < kRowChunk; ++i) held[i] = f.hold(row, first + i, get<I>(cell).cell[i]...);
        } else {
            for (int i = 0; i < count; ++i) held[i] = f.hold(row, first + i, get<I>(cell).cell[i]...);
            for (int i = count; i < kRowChunk; ++i) held[i] = f.pad();
        }
    }

    BK_HD void hold(const Offsets<Full + Single, uint64_t>& at, const Row& row, int64_t first, int count, Held* held) const {
        hold_chunk(at, row, first, count, held, std::index_sequence_for<In...>{});
    }

    BK_HD Acc sum_up(const Row& row, int64_t first, int count, Held* held) const {
        Group& group = *reinterpret_cast<Group*>(held);
        return count == kRowChunk ? f.sum_up(row, group, WholeRowChunk{first}) : f.sum_up(row, group, RowChunk{first, count});
    }

    template <class... C, size_t... I>
    static BK_HD void put_cells(Pack<Block<compute_t<Out>, kRowChunk>...>& cell, int i, const Pack<C...>& result,
                                std::index_sequence<I...>) {
        ((get<I>(cell).cell[i] = get<I>(result)), ...);
    }

    template <size_t... K, size_t... O>
    BK_HD void map_chunk(const Offsets<Full + Single, uint64_t>& at, const Row& row, const Acc& mine, int64_t first, int count,
                         const Held* held, std::index_sequence<K...>, std::index_sequence<O...> outs) const {
        [[maybe_unused]] Pack<Block<compute_t<Column>, kRowChunk>...> column;
        ((get<K>(columns) == nullptr ? (void)memset(get<K>(column).cell, 0, sizeof(get<K>(column).cell))
                                     : load_run(get<K>(column).cell, get<K>(columns) + first, 1, count)),
         ...);
        Pack<Block<compute_t<Out>, kRowChunk>...> cell;
        const typename F::Part part = f.part(row, mine);
        if (count == kRowChunk) {
            BK_VECTOR_LOOP
            for (int i = 0; i < kRowChunk; ++i)
                put_cells(cell, i, f.map(row, part, first + i, held[i], get<K>(column).cell[i]...), outs);
        } else {
            for (int i = 0; i < count; ++i)
                put_cells(cell, i, f.map(row, part, first + i, held[i], get<K>(column).cell[i]...), outs);
        }
        ((get<O>(y) == nullptr ? (void)0
                               : lines.runs(kIn + O, first, count,
                                            [&](int64_t offset, int64_t done, int64_t run) {
                                                store_run(get<O>(y) + signed_offset(at.of[kIn + O]) + offset,
                                                          get<O>(cell).cell + done, lines.step[kIn + O], run);
                                            })),
         ...);
    }

    BK_HD void map(const Offsets<Full + Single, uint64_t>& at, const Row& row, const Acc& mine, int64_t first, int count,
                   const Held* held) const {
        map_chunk(at, row, mine, first, count, held, std::index_sequence_for<Column...>{}, std::index_sequence_for<Out...>{});
    }

    template <size_t... I>
    BK_HD Row start_of(const Offsets<Full + Single, uint64_t>& at, std::index_sequence<I...>) const {
        return f.start(widen(get<I>(row_inputs)[signed_offset(at.of[Full + I])])...);
    }
    BK_HD Row start(const Offsets<Full + Single, uint64_t>& at) const { return start_of(at, std::index_sequence_for<RowIn...>{}); }

    template <class Result, size_t... I>
    BK_HD void save_all(const Offsets<Full + Single, uint64_t>& at, const Result& result, std::index_sequence<I...>) const {
        ((get<I>(outputs_of_row) == nullptr
              ? (void)0
              : (void)(get<I>(outputs_of_row)[signed_offset(at.of[Full + kRowIn + I])] = narrow<Saved>(get<I>(result)))),
         ...);
    }
    BK_HD void save(const Offsets<Full + Single, uint64_t>& at, const Row& row) const {
        save_all(at, f.saved(row), std::index_sequence_for<Saved...>{});
    }

    static BK_HD int exist(int64_t first, int64_t last) {
        return static_cast<int>(last - first < kRowChunk ? last - first : kRowChunk);
    }

    // A row that fits on the stack.
    BK_HD void held_row(const Offsets<Full + Single, uint64_t>& at) const {
        alignas(64) Held held[kMostChunks][kRowChunk];
        Acc mine[kMostChunks];
        const int chunks = static_cast<int>(ceil_div<int64_t>(n, kRowChunk));
        Row row = start(at);
        for (int c = 0; c < chunks; ++c) hold(at, row, c * kRowChunk, exist(c * kRowChunk, n), held[c]);
        Acc all;
        do {
            all = f.identity();
            for (int c = 0; c < chunks; ++c) {
                mine[c] = sum_up(row, c * kRowChunk, exist(c * kRowChunk, n), held[c]);
                all = f.combine(all, mine[c]);
            }
        } while (f.finish(row, all, n));
        for (int c = 0; c < chunks; ++c) map(at, row, mine[c], c * kRowChunk, exist(c * kRowChunk, n), held[c]);
        save(at, row);
    }

    BK_HD Acc sum_segment(const Offsets<Full + Single, uint64_t>& at, const Row& row, int64_t begin, int64_t end) const {
        alignas(64) Held held[kRowChunk];
        Acc acc = f.identity();
        for (int64_t first = begin; first < end; first += kRowChunk) {
            hold(at, row, first, exist(first, end), held);
            acc = f.combine(acc, sum_up(row, first, exist(first, end), held));
        }
        return acc;
    }

    BK_HD void map_segment(const Offsets<Full + Single, uint64_t>& at, const Row& row, int64_t begin, int64_t end) const {
        alignas(64) Held held[kRowChunk];
        for (int64_t first = begin; first < end; first += kRowChunk) {
            hold(at, row, first, exist(first, end), held);
            const Acc mine = sum_up(row, first, exist(first, end), held);
            map(at, row, mine, first, exist(first, end), held);
        }
    }

    // Segments of a long row: their length depends on its own alone.
    int64_t segment() const {
        return std::max(kRowSegment, ceil_div<int64_t>(ceil_div<int64_t>(n, kMostSegments), kRowChunk) * kRowChunk);
    }

    BK_HD void streamed_row(const Offsets<Full + Single, uint64_t>& at) const {
        Row row = start(at);
        Acc all;
        const int64_t length = segment();
        do {
            all = f.identity();
            for (int64_t first = 0; first < n; first += length)
                all = f.combine(all, sum_segment(at, row, first, std::min(first + length, n)));
        } while (f.finish(row, all, n));
        map_segment(at, row, 0, n);
        save(at, row);
    }

    // Threads share a row.
    void shared_row(const Offsets<Full + Single, uint64_t>& at) const {
        const int64_t length = segment(), segments = ceil_div<int64_t>(n, length);
        Row row = start(at);
        Acc part[kMostSegments], all;
        do {
            parallel_ranges(segments, 1, [&](int64_t begin, int64_t end) {
                for (int64_t s = begin; s < end; ++s) part[s] = sum_segment(at, row, s * length, std::min((s + 1) * length, n));
            });
            all = f.identity();
            for (int64_t s = 0; s < segments; ++s) all = f.combine(all, part[s]);
        } while (f.finish(row, all, n));
        parallel_ranges(segments, 1, [&](int64_t begin, int64_t end) {
            map_segment(at, row, begin * length, std::min(end * length, n));
        });
        save(at, row);
    }
};

template <class F, int Full, int Single>
size_t map_rows_workspace(const RowAxes<Full, Single>&) {
    return 0;
}

template <class F, int Full, int Single, class... In, class... Column, class... RowIn, class... Out, class... Saved>
Status map_rows(const Launch&, const RowAxes<Full, Single>& axes, const F& f, const Inputs<In...>& x,
                const Inputs<Column...>& columns, const Inputs<RowIn...>& row_inputs, const Outputs<Out...>& y,
                const Outputs<Saved...>& saved) {
    static_assert(Full == sizeof...(In) + sizeof...(Out) && Single == sizeof...(RowIn) + sizeof...(Saved), "an operand each");
    using Job = RowJob<F, Full, Single, Inputs<In...>, Inputs<Column...>, Inputs<RowIn...>, Outputs<Out...>, Outputs<Saved...>>;
    const Layout<Full> inner = merge_axes(axes.inner);
    const auto outer = merge_axes(axes.outer);
    const Job job{f,         Walk<Full + Single, uint64_t>(outer), RowLines<Full>(inner), inner.numel(), x.pointer, columns.pointer,
                  row_inputs.pointer, y.pointer, saved.pointer};
    const int64_t rows = outer.numel(), n = job.n;
    int64_t bytes = 0;
    ((bytes += sizeof(In)), ...);
    ((bytes += sizeof(Out)), ...);
    if (n > kRowSegment && rows < thread_count()) {
        for (int64_t r = 0; r < rows; ++r) job.shared_row(job.outer(static_cast<uint64_t>(r)));
        return Status::kOk;
    }
    const bool is_held = n <= int64_t{Job::kMostChunks} * kRowChunk;
    parallel_ranges(rows, grain_for(bytes * n), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
            const auto at = job.outer(static_cast<uint64_t>(r));
            if (is_held)
                job.held_row(at);
            else
                job.streamed_row(at);
        }
    });
    return Status::kOk;
}

}  // namespace bk
