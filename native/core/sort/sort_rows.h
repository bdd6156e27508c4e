// SPDX-License-Identifier: Apache-2.0
// Stable sort of rows by ordered keys (core/sort/ordered_key.h), with the index of each element.
//
// A row is the elements along one axis; rows, steps and extents are any. Elements of equal keys keep their order
// in both directions. The results depend on the row alone, and are the same bits every time.
//
// GPU: rows of at most 512 elements are sorted by a warp or a part of it (sort_warp.cuh), rows that fit the shared memory
// of a block by a block (sort_block.cuh); longer ones by a radix sort over the device (radix_sweep.cuh), which needs a
// workspace. CPU: a quicksort by vectors or a radix sort (vector_sort_cpu.h) of keys, with their index where indices are
// wanted; rows or slices of a row over threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/layout/layout.h"
#include "core/sort/ordered_key.h"

namespace bk {

// The operands: x, its sorted values, the payload that is sorted along, and the sorted payload.
enum SortOperand { kSortX, kSortValues, kSortPayload, kSortIndices, kSortOperands };

struct SortProblem {
    Layout<kSortOperands> rows;  // all axes but the sorted one
    int64_t length = 0;          // of a row
    int64_t step[kSortOperands] = {};
    int key_bytes = 0;
    KeyKind kind = KeyKind::kUnsigned;
    uint64_t largest = 0;  // of KeyOrder
    bool is_descending = false;
    int index_bytes = 4;  // of an index or an element of the payload: 4 or 8

    template <class Bits>
    KeyOrder<Bits> order() const {
        return {kind, static_cast<Bits>(largest), is_descending ? KeyOrder<Bits>::kAll : Bits{0}};
    }
};

// Dense rows.
template <class T>
SortProblem sort_problem(int64_t batch, int64_t length, bool is_descending, int index_bytes) {
    SortProblem problem;
    problem.rows.append(batch, {length, length, length, length});
    problem.length = length;
    for (int64_t& step : problem.step) step = 1;
    problem.key_bytes = static_cast<int>(sizeof(T));
    problem.kind = KeyTraits<T>::kKind;
    problem.largest = KeyTraits<T>::kLargest;
    problem.is_descending = is_descending;
    problem.index_bytes = index_bytes;
    return problem;
}

// Bytes of the workspace; 0 if rows are sorted without one.
size_t sort_rows_workspace(const SortProblem& problem);

struct SortPointers {
    const void* x;
    void* values;         // null: not wanted; may be x, of equal layout
    const void* payload;  // null: the indices 0, 1, 2 ...
    void* indices;        // null: not wanted
};

// Status 4 if the rows need a workspace and have none.
Status sort_rows(const Launch& launch, const SortProblem& problem, const SortPointers& pointers);

#if BK_CUDA
// Rows of up to this length are sorted by a warp.
int64_t warp_sort_length(int key_bytes);

// The first `results` sorted elements of rows that need no workspace; in index order unless `is_sorted`, which only rows
// that a warp sorts may be without.
Status sort_first(const Launch& launch, const SortProblem& problem, const SortPointers& pointers, int64_t results,
                  bool is_sorted);
#endif

}  // namespace bk
