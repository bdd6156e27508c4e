// SPDX-License-Identifier: Apache-2.0
// Operands of a sort as kernels take them.
#pragma once

#include <cstdint>

#include "core/layout/layout.h"
#include "core/platform.h"
#include "core/sort/sort_rows.h"

namespace bk {

struct SortOperands {
    SortPointers pointer;
    Walk<kSortOperands, uint64_t> rows;
    int64_t count;  // of rows
    int64_t length;
    int64_t results;  // sorted elements that are stored, from the first one on
    int64_t step[kSortOperands];
    int index_bytes;
    bool is_sorted;  // results in key order, else in index order
};

inline SortOperands sort_operands(const SortProblem& problem, const SortPointers& pointers) {
    SortOperands operands{pointers,
                          Walk<kSortOperands, uint64_t>(problem.rows),
                          problem.rows.numel(),
                          problem.length,
                          problem.length,
                          {},
                          problem.index_bytes,
                          true};
    for (int k = 0; k < kSortOperands; ++k) operands.step[k] = problem.step[k];
    return operands;
}

// One row: where its elements are.
struct SortRow {
    Offsets<kSortOperands, uint64_t> first;

    BK_DEVICE int64_t at(const SortOperands& operands, SortOperand which, int64_t i) const {
        return static_cast<int64_t>(first.of[which]) + i * operands.step[which];
    }
    // The index or payload of element i.
    BK_DEVICE uint64_t payload(const SortOperands& operands, int64_t i) const {
        if (operands.pointer.payload == nullptr) return static_cast<uint64_t>(i);
        const int64_t from = at(operands, kSortPayload, i);
        return operands.index_bytes == 4 ? static_cast<const uint32_t*>(operands.pointer.payload)[from]
                                         : static_cast<const uint64_t*>(operands.pointer.payload)[from];
    }
    BK_DEVICE void store_index(const SortOperands& operands, int64_t i, uint64_t value) const {
        const int64_t to = at(operands, kSortIndices, i);
        if (operands.index_bytes == 4)
            static_cast<uint32_t*>(operands.pointer.indices)[to] = static_cast<uint32_t>(value);
        else
            static_cast<uint64_t*>(operands.pointer.indices)[to] = value;
    }
};

BK_DEVICE SortRow sort_row(const SortOperands& operands, int64_t row) { return {operands.rows(static_cast<uint64_t>(row))}; }

}  // namespace bk
