// SPDX-License-Identifier: Apache-2.0
// 16-bit scatter-reduce over fibers with indices of their own: a tile of fibers accumulates in f32, in a slice of the
// workspace that fits L2, and every cell is rounded once.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/row/row_sums_cpu.h"
#include "core/scatter/scatter_reduce.h"

namespace bk {

// Fibers adjacent along the innermost axis of the cells: the operands' first offsets, and their strides between fibers.
struct FiberRange {
    int64_t offset[3], inner[3], count;
};

// body(range) for each range of fibers [first, last); the cells are collapsed.
template <class Body>
BK_HD void for_fiber_ranges(const Layout<3>& cells, int64_t first, int64_t last, const Body& body) {
    const int inner = cells.rank - 1;
    const int64_t width = inner < 0 ? 1 : cells.extent[inner];
    for (int64_t fiber = first; fiber < last;) {
        const int64_t at = fiber % width;
        int64_t outer = fiber / width;
        FiberRange range{{}, {}, std::min(width - at, last - fiber)};
        for (int k = 0; k < 3; ++k) {
            range.inner[k] = inner < 0 ? 0 : cells.stride[k][inner];
            range.offset[k] = at * range.inner[k];
        }
        for (int d = inner - 1; d >= 0; --d) {
            for (int k = 0; k < 3; ++k) range.offset[k] += outer % cells.extent[d] * cells.stride[k][d];
            outer /= cells.extent[d];
        }
        body(range);
        fiber += range.count;
    }
}

// The new value of a cell with `count` updates; unspecified for none.
template <class Op, class C>
BK_HD C finish_accumulated(const Op& op, C cell, C all, int64_t count) {
    if constexpr (std::is_same_v<typename Op::Acc, C>)
        return op.finish(cell, all);
    else
        return op.finish(cell, {all, static_cast<uint32_t>(count)});
}

// The accumulator of one cell.
template <class Op, class C>
struct TileCell {
    C all = C(0);
    uint32_t count = 0;

    BK_HD bool is_empty() const { return count == 0; }
    BK_HD void add(const Op& op, C x) {
        const C sum = op.combine(all, x);
        all = math::select(is_empty(), x, sum);
        ++count;
    }
    template <class T>
    BK_HD void flush(const Op& op, T* y) {
        const T before = *y, after = narrow<T>(finish_accumulated(op, widen(before), all, count));
        y->bits = is_empty() ? before.bits : after.bits;
        count = 0;
    }
};

// -0 is neutral in a sum, so that no count is needed.
template <class C>
struct TileCell<ScatterSum<C>, C> {
    C sum = -C(0);

    BK_HD bool is_empty() const { return (sum == C(0)) & bool(std::signbit(sum)); }
    BK_HD void add(const ScatterSum<C>&, C x) { sum += x; }
    template <class T>
    BK_HD void flush(const ScatterSum<C>&, T* y) {
        const T before = *y, after = narrow<T>(widen(before) + sum);
        y->bits = is_empty() ? before.bits : after.bits;
        sum = -C(0);
    }
};

// Fibers per tile and workspace slices, one a task; both follow from the layout alone.
struct ScatterTiling {
    static constexpr int64_t kCells = 1 << 17, kMinFibers = 32, kMaxFibers = 1024, kMaxTasks = 16;
    static constexpr int64_t kMaxCells = int64_t{1} << 23;  // over all tasks, unless one needs more
    int64_t fibers, tasks, cells;

    explicit ScatterTiling(const ScatterLayout& s) {
        const int64_t targets = std::max<int64_t>(1, s.targets), all = std::max<int64_t>(1, s.fibers());
        const int64_t min_fibers = targets * kMinFibers <= kMaxCells ? kMinFibers : 1;
        fibers = std::min({all, kMaxFibers, std::max(min_fibers, kCells / targets)});
        cells = fibers * targets;
        tasks = std::max<int64_t>(1, std::min({kMaxTasks, ceil_div(all, fibers), kMaxCells / cells}));
    }
    template <class Cell>
    Cell* carve(Carver* carver) const {
        return carver->take<Cell>(tasks * cells);
    }
    // An upper bound on the cells of all tasks that is monotonic in fibers and targets.
    static int64_t max_cells(const ScatterLayout& s) {
        const int64_t targets = std::max<int64_t>(1, s.targets), all = std::max<int64_t>(1, s.fibers()) * targets;
        const int64_t task_cells =
            std::min(all, std::max({std::min(targets, kMaxCells / kMinFibers) * kMinFibers, kCells, targets}));
        return std::min(all + task_cells, std::max(task_cells, std::min(kMaxTasks * task_cells, kMaxCells)));
    }
};

template <class I>
BK_HD void prefetch_ids(const I* ids, int64_t first, int64_t count) {
    prefetch_row(ids + first, count);
}
BK_HD void prefetch_ids(const IdArray& ids, int64_t first, int64_t count) {
    const IdArray at = ids + first;
    prefetch_row(static_cast<const int32_t*>(at.ids), count * (at.is_wide ? 2 : 1));
}

// Prefetches step j + 8 of adjacent fibers, which hardware does not predict: a hot row took 7 times as long without.
template <class T, class Ids>
BK_HD void prefetch_step(const ScatterLayout& s, const T* updates, const Ids& index, int64_t j, int64_t fibers) {
    const int64_t next = j + 8;
    if (next >= s.n) return;
    prefetch_row(updates + next * s.step[ScatterLayout::kUpdates], fibers);
    prefetch_ids(index, next * s.step[ScatterLayout::kIndex], fibers);
}

// body(ids) with a typed pointer.
template <class I, class Body>
BK_HD void with_ids(const I* ids, const Body& body) {
    body(ids);
}
template <class Body>
BK_HD void with_ids(const IdArray& ids, const Body& body) {
    if (ids.is_wide)
        body(static_cast<const int64_t*>(ids.ids));
    else
        body(static_cast<const int32_t*>(ids.ids));
}

// Prefetches 1024 elements ahead in a contiguous fiber.
template <class T, class I>
BK_HD void prefetch_fiber(const T* updates, const I* index, int64_t first, int64_t count) {
    constexpr int64_t kAhead = 1024;
    prefetch_row(updates + first + kAhead, count);
    prefetch_row(index + first + kAhead, count);
}

// Every cell of the tile is empty before and after. Which cells have updates is unpredictable, so that few branches
// depend on it.
template <class Op, class T, class Cell, class I, class Fibers>
BK_HD void scatter_tile(const Op& op, const ScatterLayout& s, const T* updates, const I* index, T* out,
                        const int64_t (&inner)[3], Fibers fibers, Cell* tile) {
    using L = ScatterLayout;
    const ScatterLayout layout = s;
    const auto accumulate = [&](int64_t at, const T& x, int64_t fiber) {
        if (layout.keeps(at)) tile[at * fibers + fiber].add(op, widen(x));
    };
    if (fibers == 1 && s.step[L::kUpdates] == 1 && s.step[L::kIndex] == 1) {
        for (int64_t j = 0; j < layout.n; ++j) {
            if (j % 16 == 0) prefetch_fiber(updates, index, j, 16);
            accumulate(index[j], updates[j], 0);
        }
    } else {
        const int64_t x_step = inner[L::kUpdates], id_step = inner[L::kIndex];
        for (int64_t j = 0; j < layout.n; ++j) {
            if (fibers > 1) prefetch_step(layout, updates, index, j, fibers);
            const T* const x = updates + j * layout.step[L::kUpdates];
            const I* const id = index + j * layout.step[L::kIndex];
            for (int64_t fiber = 0; fiber < fibers; ++fiber) accumulate(id[fiber * id_step], x[fiber * x_step], fiber);
        }
    }
    const int64_t y_step = inner[L::kOut];
    for (int64_t i = 0; i < layout.targets; ++i) {
        Cell* const cells = tile + i * fibers;
        T* const y = out + i * layout.step[L::kOut];
        int any_updates = fibers == 1;  // a single fiber writes every cell
        for (int64_t fiber = 0; fiber < fibers; ++fiber) any_updates |= !cells[fiber].is_empty();
        if (!any_updates) continue;
        if (y_step == 1)
            for (int64_t fiber = 0; fiber < fibers; ++fiber) cells[fiber].flush(op, y + fiber);
        else
            for (int64_t fiber = 0; fiber < fibers; ++fiber) cells[fiber].flush(op, y + fiber * y_step);
    }
}

template <class Op, class T, class Ids>
Status scatter_tiled(const Op& op, const Launch& launch, const ScatterLayout& given, const T* updates, Ids index, T* out) {
    using Cell = TileCell<Op, compute_t<T>>;
    ScatterLayout s = given;
    s.cells = collapse(given.cells);
    const ScatterTiling tiling(given);
    Carver carver(launch.workspace);
    Cell* const all = tiling.carve<Cell>(&carver);
    const int64_t fibers = s.fibers(), share = ceil_div(fibers, tiling.tasks);
    parallel_ranges(tiling.tasks, 1, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
            Cell* const tile = all + task * tiling.cells;
            std::fill(tile, tile + tiling.cells, Cell{});
            for_fiber_ranges(s.cells, task * share, std::min(fibers, (task + 1) * share), [&](const FiberRange& range) {
                const int64_t max_fibers = magnitude(s.step[0]) <= magnitude(range.inner[0]) ? 1 : tiling.fibers;
                for (int64_t fiber = 0; fiber < range.count; fiber += max_fibers) {
                    const auto scatter = [&](auto count) {
                        with_ids(index, [&](const auto* ids) {
                            scatter_tile(op, s, updates + range.offset[0] + fiber * range.inner[0],
                                         ids + range.offset[1] + fiber * range.inner[1],
                                         out + range.offset[2] + fiber * range.inner[2], range.inner, count, tile);
                        });
                    };
                    if (max_fibers == 1)
                        scatter(std::integral_constant<int64_t, 1>{});
                    else
                        scatter(std::min(max_fibers, range.count - fiber));
                }
            });
        }
    });
    return Status::kOk;
}

}  // namespace bk
