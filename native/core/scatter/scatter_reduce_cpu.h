// SPDX-License-Identifier: Apache-2.0
// CPU scatter-reduce. In place: each thread owns fibers, or a class of targets, so that updates are combined in order.
// 16-bit results accumulate in f32 if there is a workspace: equal rows are grouped, other fibers go through tiles of
// targets (core/scatter/scatter_tiles_cpu.h). Without one every step is rounded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/row/row_sums_cpu.h"
#include "core/scatter/scatter_reduce.h"
#include "core/scatter/scatter_tiles_cpu.h"
#include "core/select/compact_indices_cpu.h"

namespace bk {

// --- In place --------------------------------------------------------------------------------------------------------

// Fibers and targets, split in tasks that each write their own.
struct FiberPartition {
    int64_t fibers, slices, target_classes;  // target_classes: a power of two
    int shift = 0;                           // log2 of the adjacent targets of one class

    explicit FiberPartition(const ScatterLayout& s) : fibers(s.fibers()) {
        constexpr int64_t kMinFibers = 32;  // two cache lines, if fibers are adjacent
        const int64_t threads = fibers * s.n < 4096 ? 1 : thread_count();
        slices = std::max<int64_t>(1, std::min(threads, fibers / kMinFibers));
        target_classes = 1;
        while (target_classes * slices < threads) target_classes *= 2;
        if (magnitude(s.step[ScatterLayout::kOut]) < 64) shift = 6;  // avoids false sharing
    }
    int64_t count() const { return slices * target_classes; }
    bool owns(int64_t task, int64_t index) const { return ((index >> shift) & (target_classes - 1)) == task / slices; }
    ColumnRange fiber_range(int64_t task) const {
        const int64_t slice = task % slices;
        return {fibers * slice / slices, fibers * (slice + 1) / slices};
    }
};

// A fiber whose updates, indices and targets are contiguous. Prefetches some pages ahead; a block of indices that are
// all kept needs no branches.
template <class Op, class T, class I>
BK_HD void combine_fiber(const Op& op, const ScatterLayout& s, const FiberPartition& partition, int64_t task, const T* updates,
                         const I* index, T* out) {
    const FiberPartition own = partition;
    const ScatterLayout layout = s;
    const auto combine = [=](int64_t j) {
        T& cell = out[index[j]];
        cell = narrow<T>(op.combine(widen(cell), widen(updates[j])));
    };
    const auto by_blocks = [&](auto block, const auto& body) {
        for (int64_t first = 0; first < layout.n; first += block) {
            prefetch_fiber(updates, index, first, block);
            body(first, std::min<int64_t>(block, layout.n - first));
        }
    };
    if (partition.target_classes > 1) {
        by_blocks(std::integral_constant<int64_t, 64>{}, [=](int64_t first, int64_t count) {
            const auto keeps = [=](int64_t k) { return layout.keeps(index[first + k]) & own.owns(task, index[first + k]); };
            for_selected(count, keeps, [=](int64_t k) { combine(first + k); });
        });
        return;
    }
    constexpr std::integral_constant<int64_t, 16> kBlock{};
    by_blocks(kBlock, [=](int64_t first, int64_t count) {
        int kept = 0;
        for (int64_t j = first; j < first + count; ++j) kept += layout.keeps(index[j]);
        if (kept == kBlock) {
            for (int64_t j = first; j < first + kBlock; ++j) combine(j);
        } else {
            for (int64_t j = first; j < first + count; ++j)
                if (layout.keeps(index[j])) combine(j);
        }
    });
}

// `count` fibers along the innermost axis of the cells, whose strides are `inner`.
template <class Op, class T, class Ids>
BK_HD void scatter_fiber_range(const Op& op, const ScatterLayout& s, const FiberPartition& partition, int64_t task,
                               const T* updates, Ids index, T* out, const int64_t (&inner)[3], int64_t count) {
    using L = ScatterLayout;
    const bool is_row = inner[L::kIndex] == 0 && inner[L::kUpdates] == 1 && inner[L::kOut] == 1 && count > 1;
    const auto owned = [&](int64_t i) { return s.keeps(i) && partition.owns(task, i); };
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
    const auto combine = [&](int64_t fiber, int64_t j) {
        const int64_t i = index[fiber * inner[L::kIndex] + j * s.step[L::kIndex]];
        if (!owned(i)) return;
        T* const y = out + fiber * inner[L::kOut] + i * s.step[L::kOut];
        *y = narrow<T>(op.combine(widen(*y), widen(updates[fiber * inner[L::kUpdates] + j * s.step[L::kUpdates]])));
    };
    if (s.step[L::kUpdates] == 1 && s.step[L::kIndex] == 1 && s.step[L::kOut] == 1) {
        with_ids(index, [&](const auto* ids) {
            for (int64_t fiber = 0; fiber < count; ++fiber)
                combine_fiber(op, s, partition, task, updates + fiber * inner[L::kUpdates], ids + fiber * inner[L::kIndex],
                              out + fiber * inner[L::kOut]);
        });
        return;
    }
    if (magnitude(s.step[L::kUpdates]) <= magnitude(inner[L::kUpdates])) {
        for (int64_t fiber = 0; fiber < count; ++fiber)
            for (int64_t j = 0; j < s.n; ++j) combine(fiber, j);
    } else {
        constexpr int64_t kFiberBlock = 1024;
        for (int64_t begin = 0; begin < count; begin += kFiberBlock) {
            const int64_t fibers = std::min(kFiberBlock, count - begin);
            const bool is_adjacent = inner[L::kUpdates] == 1 && inner[L::kIndex] == 1;
            for (int64_t j = 0; j < s.n; ++j) {
                if (is_adjacent) prefetch_step(s, updates + begin, index + begin, j, fibers);
                for (int64_t fiber = begin; fiber < begin + fibers; ++fiber) combine(fiber, j);
            }
        }
    }
}

template <class Op, class T, class Ids>
Status scatter_in_place(const Op& op, const ScatterLayout& given, const T* updates, Ids index, T* out) {
    ScatterLayout s = given;
    s.cells = collapse(given.cells);
    const FiberPartition partition(s);
    parallel_ranges(partition.count(), 1, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
            const ColumnRange slice = partition.fiber_range(task);
            for_fiber_ranges(s.cells, slice.first, slice.last, [&](const FiberRange& range) {
                scatter_fiber_range(op, s, partition, task, updates + range.offset[0], index + range.offset[1],
                                    out + range.offset[2], range.inner, range.count);
            });
        }
    });
    return Status::kOk;
}

// --- Grouped ---------------------------------------------------------------------------------------------------------

// Updates and targets as rows of several columns, if the layout allows, with 32-bit positions.
struct GroupedRows {
    Grouping by_target;
    int64_t rows, targets, columns;

    explicit GroupedRows(const ScatterLayout& s) {
        const ScatterRows r = ScatterRows::of(s);
        rows = r.blocks * s.n;
        targets = r.blocks * s.targets;
        columns = r.columns;
    }
    bool applies() const { return columns > 1 && rows < int64_t{1} << 31; }
    void carve(Carver* carver) {
        by_target.values = carver->take<int32_t>(rows);
        by_target.start = carver->take<int64_t>(targets + 1);
    }
};

template <class Op, class T>
size_t scatter_reduce_workspace(const ScatterLayout& s) {
    if (std::is_same<T, compute_t<T>>::value) return 0;
    GroupedRows grouped_rows(s);
    Carver carver;
    if (grouped_rows.applies())
        grouped_rows.carve(&carver);
    else
        carver.take<TileCell<Op, compute_t<T>>>(ScatterTiling::max_cells(s));
    return carver.bytes();
}

template <class Op, class T, class Ids>
Status scatter_grouped(const Op& op, const Launch& launch, const ScatterLayout& s, const T* updates, Ids index, T* out) {
    using C = compute_t<T>;
    GroupedRows grouped_rows(s);
    if (!grouped_rows.applies()) return scatter_tiled(op, launch, s, updates, index, out);
    Carver carver(launch.workspace);
    grouped_rows.carve(&carver);
    const int64_t n = s.n, columns = grouped_rows.columns;
    const Grouping& by = grouped_rows.by_target;
    const auto group = [&](const auto& target) {
        return group_by_key(by, grouped_rows.rows, grouped_rows.targets, target, [](int64_t k) { return k; });
    };
    const int64_t largest = grouped_rows.rows == n ? group([&](int64_t k) {  // one block needs no quotients
        const int64_t i = index[k];
        return s.keeps(i) ? i : int64_t{-1};
    })
                                                   : group([&](int64_t k) {
                                                         const int64_t i = index[k % n];
                                                         return s.keeps(i) ? k / n * s.targets + i : int64_t{-1};
                                                     });
    const int64_t grouped = by.start[grouped_rows.targets];
    for_each_group(by, grouped_rows.targets, largest, columns, sizeof(T), [&](int64_t t, ColumnRange range) {
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
                y[c + i] = narrow<T>(finish_accumulated(op, widen(y[c + i]), sum[i], last - first));
        });
    });
    return Status::kOk;
}

template <class Op, class T, class Ids>
Status scatter_reduce(const Launch& launch, const ScatterLayout& layout, const T* updates, Ids index, T* out, const Op& op) {
    const bool has_workspace = workspace_holds(launch, scatter_reduce_workspace<Op, T>(layout));
    if constexpr (!std::is_same_v<T, compute_t<T>>)
        if (has_workspace) return scatter_grouped(op, launch, layout, updates, index, out);
    return scatter_in_place(op, layout, updates, index, out);
}

}  // namespace bk
