// 16-bit cells whose updates lie in lines, each with indices of its own: what is combined for the targets of a tile of
// lines is collected in f32, in a part of the workspace that the second cache holds, and every cell is rounded once.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/rows/row_sums_cpu.h"
#include "core/rows/scatter_reduce.h"

namespace bk {

// A run of lines of the innermost axis of the cells: the operands' offsets where it begins, and their steps from line
// to line.
struct ScatterRun {
    int64_t offset[3], inner[3], count;
};

// body(run) for each run among the lines [first, last); the cells are collapsed.
template <class Body>
BK_HD void for_scatter_runs(const Layout<3>& cells, int64_t first, int64_t last, const Body& body) {
    const int inner = cells.rank - 1;
    const int64_t width = inner < 0 ? 1 : cells.extent[inner];
    for (int64_t line = first; line < last;) {
        const int64_t at = line % width;
        int64_t rest = line / width;
        ScatterRun run{{}, {}, std::min(width - at, last - line)};
        for (int k = 0; k < 3; ++k) {
            run.inner[k] = inner < 0 ? 0 : cells.stride[k][inner];
            run.offset[k] = at * run.inner[k];
        }
        for (int d = inner - 1; d >= 0; --d) {
            for (int k = 0; k < 3; ++k) run.offset[k] += rest % cells.extent[d] * cells.stride[k][d];
            rest /= cells.extent[d];
        }
        body(run);
        line += run.count;
    }
}

// A cell that `count` updates were combined for; of none, anything.
template <class Op, class C>
BK_HD C finish_collected(const Op& op, C cell, C all, int64_t count) {
    if constexpr (std::is_same_v<typename Op::Acc, C>)
        return op.finish(cell, all);
    else
        return op.finish(cell, {all, static_cast<uint32_t>(count)});
}

// What is collected for a cell.
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
        const T before = *y, after = narrow<T>(finish_collected(op, widen(before), all, count));
        y->bits = is_empty() ? before.bits : after.bits;
        count = 0;
    }
};

// A sum of -0 changes nothing, so that no count is needed.
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

// Lines at a time and parts of the workspace, each for one thread; they follow from the layout alone.
struct ScatterTiling {
    static constexpr int64_t kCells = 1 << 17, kLeastLines = 32, kMostLines = 1024, kMostParts = 16;
    static constexpr int64_t kMostCells = int64_t{1} << 23;  // of all parts together, where one does not need more
    int64_t lines, parts, cells;

    explicit ScatterTiling(const ScatterLayout& s) {
        const int64_t targets = std::max<int64_t>(1, s.targets), all = std::max<int64_t>(1, s.lines());
        const int64_t least = targets * kLeastLines <= kMostCells ? kLeastLines : 1;
        lines = std::min({all, kMostLines, std::max(least, kCells / targets)});
        cells = lines * targets;
        parts = std::max<int64_t>(1, std::min({kMostParts, ceil_div(all, lines), kMostCells / cells}));
    }
    template <class Cell>
    Cell* carve(Carver* carver) const {
        return carver->take<Cell>(parts * cells);
    }
    // At least the cells of all parts, of any layout of no more lines and targets: a number that never falls as these
    // grow.
    static int64_t most_cells(const ScatterLayout& s) {
        const int64_t targets = std::max<int64_t>(1, s.targets), all = std::max<int64_t>(1, s.lines()) * targets;
        const int64_t of_part =
            std::min(all, std::max({std::min(targets, kMostCells / kLeastLines) * kLeastLines, kCells, targets}));
        return std::min(all + of_part, std::max(of_part, std::min(kMostParts * of_part, kMostCells)));
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

// Of neighbouring lines, before step j along the axis: hardware does not foresee these. Without, a hot row took 7 times
// as long.
template <class T, class Ids>
BK_HD void prefetch_step(const ScatterLayout& s, const T* updates, const Ids& index, int64_t j, int64_t lines) {
    const int64_t next = j + 8;
    if (next >= s.n) return;
    prefetch_row(updates + next * s.step[ScatterLayout::kUpdates], lines);
    prefetch_ids(index, next * s.step[ScatterLayout::kIndex], lines);
}

// body(ids) with ids of their own type.
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

// Of neighbours, some pages before they are read.
template <class T, class I>
BK_HD void prefetch_line(const T* updates, const I* index, int64_t first, int64_t count) {
    constexpr int64_t kAhead = 1024;
    prefetch_row(updates + first + kAhead, count);
    prefetch_row(index + first + kAhead, count);
}

// Every cell of the tile is empty before and after. Which are is what no processor can foresee, so that hardly a branch
// asks.
template <class Op, class T, class Cell, class I, class Lines>
BK_HD void scatter_tile(const Op& op, const ScatterLayout& s, const T* updates, const I* index, T* out,
                        const int64_t (&inner)[3], Lines lines, Cell* tile) {
    using L = ScatterLayout;
    const ScatterLayout layout = s;
    const auto collect = [&](int64_t at, const T& x, int64_t line) {
        if (layout.keeps(at)) tile[at * lines + line].add(op, widen(x));
    };
    if (lines == 1 && s.step[L::kUpdates] == 1 && s.step[L::kIndex] == 1) {
        for (int64_t j = 0; j < layout.n; ++j) {
            if (j % 16 == 0) prefetch_line(updates, index, j, 16);
            collect(index[j], updates[j], 0);
        }
    } else {
        const int64_t x_step = inner[L::kUpdates], id_step = inner[L::kIndex];
        for (int64_t j = 0; j < layout.n; ++j) {
            if (lines > 1) prefetch_step(layout, updates, index, j, lines);
            const T* const x = updates + j * layout.step[L::kUpdates];
            const I* const id = index + j * layout.step[L::kIndex];
            for (int64_t line = 0; line < lines; ++line) collect(id[line * id_step], x[line * x_step], line);
        }
    }
    const int64_t y_step = inner[L::kOut];
    for (int64_t i = 0; i < layout.targets; ++i) {
        Cell* const cells = tile + i * lines;
        T* const y = out + i * layout.step[L::kOut];
        int used = lines == 1;  // of a single line every cell is written
        for (int64_t line = 0; line < lines; ++line) used |= !cells[line].is_empty();
        if (!used) continue;
        if (y_step == 1)
            for (int64_t line = 0; line < lines; ++line) cells[line].flush(op, y + line);
        else
            for (int64_t line = 0; line < lines; ++line) cells[line].flush(op, y + line * y_step);
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
    const int64_t lines = s.lines(), share = ceil_div(lines, tiling.parts);
    parallel_ranges(tiling.parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t part = begin; part < end; ++part) {
            Cell* const tile = all + part * tiling.cells;
            std::fill(tile, tile + tiling.cells, Cell{});
            for_scatter_runs(s.cells, part * share, std::min(lines, (part + 1) * share), [&](const ScatterRun& run) {
                const int64_t most = magnitude(s.step[0]) <= magnitude(run.inner[0]) ? 1 : tiling.lines;
                for (int64_t line = 0; line < run.count; line += most) {
                    const auto scatter = [&](auto count) {
                        with_ids(index, [&](const auto* ids) {
                            scatter_tile(op, s, updates + run.offset[0] + line * run.inner[0],
                                         ids + run.offset[1] + line * run.inner[1], out + run.offset[2] + line * run.inner[2],
                                         run.inner, count, tile);
                        });
                    };
                    if (most == 1)
                        scatter(std::integral_constant<int64_t, 1>{});
                    else
                        scatter(std::min(most, run.count - line));
                }
            });
        }
    });
    return Status::kOk;
}

}  // namespace bk
