// SPDX-License-Identifier: Apache-2.0
// Few results of rows whose elements are apart, as along the first axis of an array: rows that lie side by side have elements
// in the same cache lines, so that several are read at once, in one pass. Each keeps the elements ahead of its limit, and cuts
// them to its results when they are twice as many: of n random elements k (1 + ln(n / k)) are kept at some time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch_cpu.h"
#include "core/sort/vector_sort_cpu.h"
#include "core/topk/row_selection.h"

namespace bk {

template <class Bits>
class ColumnSelection {
public:
    static constexpr int kColumns = 16;
    static constexpr int64_t kMostResults = 32;

    // Whether it is faster than a row at a time.
    static bool serves(const TopKRows<Bits>& rows) {
        return rows.step[RowSelection::kInput] != 1 && !rows.has_offsets && rows.results >= 1 && rows.results <= kMostResults &&
               rows.length >= 16 * rows.results && rows.length <= int64_t{1} << 32 && rows.rows.numel() >= kColumns / 2;
    }

    // The results of columns from `first[c]` on; `first` has kColumns pointers.
    void select(const TopKRows<Bits>& rows, const Bits* const* first) {
        const int64_t results = rows.results, filled = 2 * results;
        bool is_dense = true;
        for (int c = 0; c < kColumns; ++c) is_dense &= first[c] == first[0] + c;
        for (int c = 0; c < kColumns; ++c) {
            for (int64_t i = 0; i < filled; ++i)
                kept_[c][i] = item(rows.order.selected(first[c][i * rows.step[RowSelection::kInput]]), i);
            held_[c] = filled;
            cut(c, results);
        }
        dispatch_range(
            [&](int64_t begin, int64_t end) {
                const int64_t step = rows.step[RowSelection::kInput];
                const KeyOrder<Bits> order = rows.order;
                Bits gathered[kColumns];
                for (int64_t i = begin; i < end; ++i) {
                    const Bits* across = first[0] + i * step;
                    if (!is_dense) {
                        for (int c = 0; c < kColumns; ++c) gathered[c] = first[c][i * step];
                        across = gathered;
                    }
                    uint32_t key[kColumns], is_ahead = 0;
                    for (int c = 0; c < kColumns; ++c) {
                        key[c] = order.selected(across[c]);
                        is_ahead |= static_cast<uint32_t>(key[c] < limit_[c]);
                    }
                    if (is_ahead != 0) keep(key, i, results);
                }
            },
            filled, rows.length);
        for (int c = 0; c < kColumns; ++c) {
            cut(c, results);
            if (rows.is_sorted) continue;
            for (int64_t k = 0; k < results; ++k) kept_[c][k] &= 0xffffffffu;
            sort_words(kept_[c], other_, results);
        }
    }
    int64_t index(int column, int64_t k) const { return static_cast<int64_t>(kept_[column][k] & 0xffffffffu); }

private:
    static uint64_t item(uint32_t key, int64_t index) { return uint64_t{key} << 32 | static_cast<uint64_t>(index); }

    BK_COLD void keep(const uint32_t* key, int64_t index, int64_t results) {
        for (int c = 0; c < kColumns; ++c) {
            if (key[c] >= limit_[c]) continue;
            kept_[c][held_[c]++] = item(key[c], index);
            if (held_[c] == 2 * results) cut(c, results);
        }
    }
    void cut(int c, int64_t results) {
        sort_words(kept_[c], other_, held_[c]);
        held_[c] = results;
        // Later elements with the key of the last result are behind it.
        limit_[c] = static_cast<uint32_t>(kept_[c][results - 1] >> 32);
    }

    uint64_t kept_[kColumns][2 * kMostResults], other_[2 * kMostResults];
    int64_t held_[kColumns];
    uint32_t limit_[kColumns];
};

}  // namespace bk
