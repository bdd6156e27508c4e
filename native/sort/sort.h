// SPDX-License-Identifier: Apache-2.0
// Sorts of dense rows: values, indices, or both; stable, NaN behind all numbers, or before them if descending.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/sort/sort_rows.h"

namespace bk {

// Rows of a dense matrix, with indices I.
template <class T, class Extent, class I>
struct SortRows {
    Extent batch;
    Extent row_len;
    int32_t descending;

    Work work() const { return batch == 0 ? Work::kNone : all_or_none(row_len); }
    Status check() const { return require_non_negative({{"batch", batch}, {"row_len", row_len}}); }
    Status check_extents() const { return check(); }
    size_t workspace_size() const { return sort_rows_workspace(problem()); }
    Status run(const T* x, T* y_vals, I* y_idx, const Launch& launch) const {
        return sort_rows(launch, problem(), {x, y_vals, nullptr, y_idx});
    }

protected:
    SortProblem problem() const { return sort_problem<T>(batch, row_len, descending != 0, sizeof(I)); }
};

template <class T, class Extent, class I>
struct ArgsortRows : SortRows<T, Extent, I> {
    Status run(const T* x, I* y_idx, const Launch& launch) const {
        return sort_rows(launch, this->problem(), {x, nullptr, nullptr, y_idx});
    }
};

// Rows of keys, with values of the width of V.
template <class T, class V>
struct SortByKeyRows : SortRows<T, int64_t, V> {
    Status run(const T* keys, const V* values, T* sorted_keys, V* sorted_values, const Launch& launch) const {
        return sort_rows(launch, this->problem(), {keys, sorted_keys, values, sorted_values});
    }
};

}  // namespace bk
