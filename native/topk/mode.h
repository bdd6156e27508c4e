// SPDX-License-Identifier: Apache-2.0
// The mode along an axis: rows are sorted into the workspace, then the longest run of equal elements of each is found.
#pragma once

#include <cstdint>

#include "core/abi/workspace.h"
#include "core/collectives/team.h"
#include "core/sort/sort_rows.h"
#include "topk/order_statistics.h"

namespace bk {

// One row: a run ends where the next key differs, and begins where a binary search finds its first element.
template <class Bits, class I>
struct LongestRun {
    const Bits* sorted;
    const I* order;
    Bits* values;
    I* indices;
    Walk<3, uint64_t> walk;
    int64_t length;
    KeyOrder<Bits> key_of;

    BK_HD int64_t first_equal(const Bits* row, int64_t end, Bits key) const {
        int64_t low = 0, high = end;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (key_of(row[middle]) < key)
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    }
    BK_HD void operator()(const Team& team, int64_t r) const {
        const Bits* const row = sorted + r * length;
        int64_t best = 0, best_end = 0;
        for (int64_t i = team.rank; i < length; i += team.size) {
            const Bits key = key_of(row[i]);
            if (i + 1 < length && key_of(row[i + 1]) == key) continue;
            if (i < best || key_of(row[i - best]) != key) continue;  // not longer than the best
            const int64_t run = i + 1 - first_equal(row, i, key);
            if (run > best) {
                best = run;
                best_end = i;
            }
        }
        const int64_t longest = team.largest(best);
        // The first of equally long runs: the largest distance from the end.
        const int64_t ahead = team.largest(best == longest ? length - best_end : int64_t{0});
        if (team.rank != 0) return;
        const auto at = walk(static_cast<uint64_t>(r));
        values[static_cast<int64_t>(at.of[1])] = row[length - ahead];
        indices[static_cast<int64_t>(at.of[2])] = order[r * length + length - ahead];
    }
};

template <class T, class I>
struct Mode {
    int64_t rows_numel;
    int32_t rank;
    int32_t order_axis;
    int64_t axis_len;
    const int32_t* rows_shape;
    const int64_t* stride_x;
    const int64_t* stride_values;
    const int64_t* stride_indices;

    Work work() const { return all_or_none(rows_numel); }
    Status check() const { return fields().template check<I>(); }
    Status locate_x(Operand* operand, const char* name, Role role, int64_t size) const {
        return fields().locate_x(operand, name, role, size);
    }
    size_t workspace_size() const {
        Carver carver;
        carve(&carver);
        carver.take<char>(static_cast<int64_t>(sort_rows_workspace(sort())));
        return carver.bytes();
    }
    Status run(const T* x, T* values, I* indices, const Launch& launch) const {
        using Bits = bits_t<T>;
        if (!workspace_holds(launch, workspace_size()))
            return fail(Status::kWorkspaceTooSmall, "workspace has %zu bytes, must have %zu",
                        launch.workspace == nullptr ? size_t{0} : launch.workspace_bytes, workspace_size());
        Carver carver(launch.workspace);
        const Sorted sorted = carve(&carver);
        const Launch nested = launch_with_workspace_from(launch, carver.take<char>(0));
        BK_TRY(sort_rows(nested, sort(), {x, sorted.elements, nullptr, sorted.order}));
        const LongestRun<Bits, I> longest{sorted.elements,
                                          sorted.order,
                                          reinterpret_cast<Bits*>(values),
                                          indices,
                                          Walk<3, uint64_t>(fields().axes.layout(stride_x, stride_values, stride_indices)),
                                          axis_len,
                                          key_order<T>(false)};
        return run_teams(launch, rows_numel, axis_len * static_cast<int64_t>(sizeof(T)), longest);
    }

private:
    struct Sorted {
        bits_t<T>* elements;
        I* order;
    };
    OneResult fields() const {
        return {{rows_numel, rank, order_axis, "order_axis", rows_shape}, axis_len, stride_x, stride_values, stride_indices};
    }
    Sorted carve(Carver* carver) const {
        int64_t cells = 0;
        if (__builtin_mul_overflow(rows_numel, axis_len, &cells)) cells = INT64_MAX;
        bits_t<T>* const elements = carver->take<bits_t<T>>(cells);
        return {elements, carver->take<I>(cells)};
    }
    SortProblem sort() const {
        SortProblem problem = sort_problem<T>(1, axis_len, false, static_cast<int>(sizeof(I)));
        Layout<kSortOperands> rows;
        int64_t pitch[kMaxRank + 1] = {};
        pitch[rank] = axis_len;
        for (int32_t d = rank; d-- > 0;) pitch[d] = pitch[d + 1] * rows_shape[d];
        for (int32_t d = 0; d < rank; ++d)
            if (d != order_axis) rows.append(rows_shape[d], {stride_x[d], pitch[d + 1], pitch[d + 1], pitch[d + 1]});
        problem.rows = rows;
        problem.step[kSortX] = stride_x[order_axis];
        return problem;
    }
};

}  // namespace bk
