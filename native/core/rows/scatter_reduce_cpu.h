// In place, each thread its lines or its share of the targets, so that sums have the order of the updates. 16-bit
// results are kept in f32 where there is a workspace: equal rows are brought together, lines go through tiles of
// targets. Without one every step is rounded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/rows/kept_places_cpu.h"
#include "core/rows/row_sums_cpu.h"
#include "core/rows/scatter_reduce.h"
#include "core/rows/scatter_tiles_cpu.h"

namespace bk {

// --- In place --------------------------------------------------------------------------------------------------------

// Lines and targets in parts that one thread each may write.
struct ScatterParts {
    int64_t lines, slices, classes;  // classes: a power of two
    int shift = 0;                   // neighbouring targets of one class

    explicit ScatterParts(const ScatterLayout& s) : lines(s.lines()) {
        constexpr int64_t kLeastLines = 32;  // of two cache lines, where they are neighbours
        const int64_t threads = lines * s.n < 4096 ? 1 : thread_count();
        slices = std::max<int64_t>(1, std::min(threads, lines / kLeastLines));
        classes = 1;
        while (classes * slices < threads) classes *= 2;
        if (magnitude(s.step[ScatterLayout::kOut]) < 64) shift = 6;  // threads that write to one cache line wait for each other
    }
    int64_t count() const { return slices * classes; }
    bool owns(int64_t part, int64_t index) const { return ((index >> shift) & (classes - 1)) == part / slices; }
    ColumnRange line_range(int64_t part) const {
        const int64_t slice = part % slices;
        return {lines * slice / slices, lines * (slice + 1) / slices};
    }
};

// A line whose updates, indices and targets are neighbours. What comes some pages later is asked for; a run of indices
// that are all kept needs no branches.
template <class Op, class T, class I>
BK_HD void combine_line(const Op& op, const ScatterLayout& s, const ScatterParts& parts, int64_t part, const T* updates,
                        const I* index, T* out) {
    const ScatterParts own = parts;
    const ScatterLayout layout = s;
    const auto combine = [=](int64_t j) {
        T& cell = out[index[j]];
        cell = narrow<T>(op.combine(widen(cell), widen(updates[j])));
    };
    const auto in_runs = [&](auto run, const auto& body) {
        for (int64_t first = 0; first < layout.n; first += run) {
            prefetch_line(updates, index, first, run);
            body(first, std::min<int64_t>(run, layout.n - first));
        }
    };
    if (parts.classes > 1) {
        in_runs(std::integral_constant<int64_t, 64>{}, [=](int64_t first, int64_t count) {
            const auto keeps = [=](int64_t k) { return layout.keeps(index[first + k]) & own.owns(part, index[first + k]); };
            for_kept(count, keeps, [=](int64_t k) { combine(first + k); });
        });
        return;
    }
    constexpr std::integral_constant<int64_t, 16> kRun{};
    in_runs(kRun, [=](int64_t first, int64_t count) {
        int kept = 0;
        for (int64_t j = first; j < first + count; ++j) kept += layout.keeps(index[j]);
        if (kept == kRun) {
            for (int64_t j = first; j < first + kRun; ++j) combine(j);
        } else {
            for (int64_t j = first; j < first + count; ++j)
                if (layout.keeps(index[j])) combine(j);
        }
    });
}

// Lines [first, last) of the innermost axis of the cells, whose offsets at its begin are given.
template <class Op, class T, class Ids>
BK_HD void scatter_lines(const Op& op, const ScatterLayout& s, const ScatterParts& parts, int64_t part, const T* updates,
                         Ids index, T* out, const int64_t (&inner)[3], int64_t count) {
    using L = ScatterLayout;
    const bool is_row = inner[L::kIndex] == 0 && inner[L::kUpdates] == 1 && inner[L::kOut] == 1 && count > 1;
    const auto owned = [&](int64_t i) { return s.keeps(i) && parts.owns(part, i); };
    if (is_row) {
        for (int64_t j = 0; j < s.n; ++j) {
            if (j + kRowsAhead < s.n)
                if (const int64_t next = index[(j + kRowsAhead) * s.step[L::kIndex]]; owned(next))
                    prefetch_row(out + next * s.step[L::kOut], count);
            const int64_t i = index[j * s.step[L::kIndex]];
            if (!owned(i)) continue;
            const T* const x = updates + j * s.step[L::kUpdates];
            T* const y = out + i * s.step[L::kOut];
            for_column_blocks({0, count}, [&](int64_t c, auto most, int64_t width) {
                compute_t<T> sum[most()];
                for (int64_t k = 0; k < width; ++k) sum[k] = op.combine(widen(y[c + k]), widen(x[c + k]));
                for (int64_t k = 0; k < width; ++k) y[c + k] = narrow<T>(sum[k]);
            });
        }
        return;
    }
    const auto combine = [&](int64_t line, int64_t j) {
        const int64_t i = index[line * inner[L::kIndex] + j * s.step[L::kIndex]];
        if (!owned(i)) return;
        T* const y = out + line * inner[L::kOut] + i * s.step[L::kOut];
        *y = narrow<T>(op.combine(widen(*y), widen(updates[line * inner[L::kUpdates] + j * s.step[L::kUpdates]])));
    };
    if (s.step[L::kUpdates] == 1 && s.step[L::kIndex] == 1 && s.step[L::kOut] == 1) {
        with_ids(index, [&](const auto* ids) {
            for (int64_t line = 0; line < count; ++line)
                combine_line(op, s, parts, part, updates + line * inner[L::kUpdates], ids + line * inner[L::kIndex],
                             out + line * inner[L::kOut]);
        });
        return;
    }
    if (magnitude(s.step[L::kUpdates]) <= magnitude(inner[L::kUpdates])) {
        for (int64_t line = 0; line < count; ++line)
            for (int64_t j = 0; j < s.n; ++j) combine(line, j);
    } else {
        constexpr int64_t kLinesAtOnce = 1024;
        for (int64_t begin = 0; begin < count; begin += kLinesAtOnce) {
            const int64_t lines = std::min(kLinesAtOnce, count - begin);
            const bool beside = inner[L::kUpdates] == 1 && inner[L::kIndex] == 1;
            for (int64_t j = 0; j < s.n; ++j) {
                if (beside) prefetch_step(s, updates + begin, index + begin, j, lines);
                for (int64_t line = begin; line < begin + lines; ++line) combine(line, j);
            }
        }
    }
}

template <class Op, class T, class Ids>
Status scatter_in_place(const Op& op, const ScatterLayout& given, const T* updates, Ids index, T* out) {
    ScatterLayout s = given;
    s.cells = collapse(given.cells);
    const ScatterParts parts(s);
    parallel_ranges(parts.count(), 1, [&](int64_t begin, int64_t end) {
        for (int64_t part = begin; part < end; ++part) {
            const ColumnRange range = parts.line_range(part);
            for_scatter_runs(s.cells, range.first, range.last, [&](const ScatterRun& run) {
                scatter_lines(op, s, parts, part, updates + run.offset[0], index + run.offset[1], out + run.offset[2],
                              run.inner, run.count);
            });
        }
    });
    return Status::kOk;
}

// --- Brought together ------------------------------------------------------------------------------------------------

// Updates and targets as rows of more than one column, if they are, and few enough for positions of 32 bits.
struct ScatterGroups {
    Grouping by_target;
    int64_t rows, targets, columns;

    explicit ScatterGroups(const ScatterLayout& s) {
        const ScatterRows r = ScatterRows::of(s);
        rows = r.blocks * s.n;
        targets = r.blocks * s.targets;
        columns = r.columns;
    }
    bool exist() const { return columns > 1 && rows < int64_t{1} << 31; }
    void carve(Carver* carver) {
        by_target.values = carver->take<int32_t>(rows);
        by_target.start = carver->take<int64_t>(targets + 1);
    }
};

template <class Op, class T>
size_t scatter_reduce_workspace(const ScatterLayout& s) {
    if (std::is_same<T, compute_t<T>>::value) return 0;
    ScatterGroups groups(s);
    Carver carver;
    if (groups.exist())
        groups.carve(&carver);
    else
        carver.take<TileCell<Op, compute_t<T>>>(ScatterTiling::most_cells(s));
    return carver.bytes();
}

template <class Op, class T, class Ids>
Status scatter_grouped(const Op& op, const Launch& launch, const ScatterLayout& s, const T* updates, Ids index, T* out) {
    using C = compute_t<T>;
    ScatterGroups groups(s);
    if (!groups.exist()) return scatter_tiled(op, launch, s, updates, index, out);
    Carver carver(launch.workspace);
    groups.carve(&carver);
    const int64_t n = s.n, columns = groups.columns;
    const Grouping& by = groups.by_target;
    const auto group = [&](const auto& target) {
        return group_by_key(by, groups.rows, groups.targets, target, [](int64_t k) { return k; });
    };
    const int64_t largest = groups.rows == n ? group([&](int64_t k) {  // of one block, of which no quotients are needed
        const int64_t i = index[k];
        return s.keeps(i) ? i : int64_t{-1};
    })
                                             : group([&](int64_t k) {
                                                   const int64_t i = index[k % n];
                                                   return s.keeps(i) ? k / n * s.targets + i : int64_t{-1};
                                               });
    const int64_t grouped = by.start[groups.targets];
    for_each_group(by, groups.targets, largest, columns, sizeof(T), [&](int64_t t, ColumnRange range) {
        const int64_t first = by.start[t], last = by.start[t + 1];
        if (first == last) return;
        T* const y = out + t * columns;
        for_column_blocks(range, [&](int64_t c, auto most, int64_t width) {
            C sum[most()];
            const T* const head = updates + by.values[first] * columns + c;
            for (int64_t i = 0; i < width; ++i) sum[i] = widen(head[i]);
            if (first + kRowsAhead < grouped) prefetch_row(updates + by.values[first + kRowsAhead] * columns + c, width);
            for (int64_t at = first + 1; at < last; ++at) {
                if (at + kRowsAhead < grouped) prefetch_row(updates + by.values[at + kRowsAhead] * columns + c, width);
                const T* const x = updates + by.values[at] * columns + c;
                for (int64_t i = 0; i < width; ++i) sum[i] = op.combine(sum[i], widen(x[i]));
            }
            for (int64_t i = 0; i < width; ++i)
                y[c + i] = narrow<T>(finish_collected(op, widen(y[c + i]), sum[i], last - first));
        });
    });
    return Status::kOk;
}

template <class Op, class T, class Ids>
Status scatter_reduce(const Launch& launch, const ScatterLayout& layout, const T* updates, Ids index, T* out, const Op& op) {
    const bool grouped = workspace_holds(launch, scatter_reduce_workspace<Op, T>(layout));
    if constexpr (!std::is_same_v<T, compute_t<T>>)
        if (grouped) return scatter_grouped(op, launch, layout, updates, index, out);
    return scatter_in_place(op, layout, updates, index, out);
}

}  // namespace bk
