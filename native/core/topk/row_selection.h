// SPDX-License-Identifier: Apache-2.0
// Selection by rank in rows: the k first elements of each row in key order (top-k), or the elements of given ranks (order
// statistics). Elements with equal keys are ordered by index, lower first, so that results are unique.
//
// Kernels are instantiated by the width of keys (core/sort/ordered_key.h); dtypes are told apart at run time. Values are
// copied bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/layout/layout.h"
#include "core/sort/ordered_key.h"

namespace bk {

// An array of i32 or i64 indices.
struct IndexArray {
    void* pointer = nullptr;
    bool is_wide = false;
    BK_HD void set(int64_t at, int64_t index) const {
        if (is_wide)
            static_cast<int64_t*>(pointer)[at] = index;
        else
            static_cast<int32_t*>(pointer)[at] = static_cast<int32_t>(index);
    }
    BK_HD int64_t operator[](int64_t at) const {
        return is_wide ? static_cast<const int64_t*>(pointer)[at] : static_cast<const int32_t*>(pointer)[at];
    }
};

// The elements of the first ranks in key order: `below` many have a smaller key, and of those with this key the first `ties`
// in index order complete them.
template <class Bits>
struct RankThreshold {
    Bits key;
    int64_t below, ties;
};

// Rows and their results. Operands are the input, the values and the indices; strides count elements.
struct RowSelection {
    static constexpr int kInput = 0, kValues = 1, kIndices = 2;
    Layout<3> rows;               // all axes but the selected one
    int64_t length = 0;           // of a row; of the whole input if it has segments
    int64_t results = 0;          // of a row
    int64_t step[3] = {1, 1, 1};  // along the selected axis
    bool has_offsets = false;     // row r is elements [offsets[r], offsets[r + 1]) of the input
    IndexArray offsets;
    bool is_sorted = true;  // results in key order, else in index order
};

// Rows of fewer elements than results are filled with `padding`, at index -1.
template <class Bits>
struct TopKRows : RowSelection {
    KeyOrder<Bits> order{};
    Bits padding = 0;
};

template <class Bits>
size_t top_k_workspace(const TopKRows<Bits>& rows);

// The first `results` elements of each row in key order, and their indices in the row.
template <class Bits>
Status select_top_k(const Launch& launch, const TopKRows<Bits>& rows, const Bits* x, Bits* values, IndexArray indices);

}  // namespace bk
