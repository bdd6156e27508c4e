// SPDX-License-Identifier: Apache-2.0
// Binary search in a sorted sequence of elements, by their ordered keys: the number of elements before a query.
//
// The search has two levels. Every `stride`-th element is a splitter; the keys of all splitters are staged on the chip (shared
// memory, or the stack on a CPU) once for many queries, and a query then searches fewer than `stride` elements in memory. With
// a stride of 1 memory is not touched at all. Steps are branch-free, so that queries go in lockstep.
#pragma once

#include <cstdint>

#include "core/platform.h"
#include "core/sort/ordered_key.h"

namespace bk {

constexpr int kStagedBytes = 16384;  // of splitters
template <class Bits>
constexpr int kMaxSplitters = kStagedBytes / static_cast<int>(sizeof(Bits));

// The largest power of two up to `count`, the first step of a branch-free binary search.
template <class Int>
BK_HD Int largest_step(Int count) {
    Int step = 1;
    while (step <= count / 2) step *= 2;
    return count > 0 ? step : 0;
}

template <class Bits>
struct SortedKeys {
    const Bits* sequence;
    const void* sorter;  // positions in sequence, in sorted order; null: it is sorted
    bool wide_sorter;    // i64, else i32
    int64_t length;
    int64_t stride;
    int32_t splitters;  // (length - 1) / stride + 1, or 0: none are staged
    bool right;         // elements equal to the query count
    KeyOrder<Bits> order;

    BK_HD Bits key(int64_t index) const {
        if (sorter == nullptr) return order(sequence[index]);
        int64_t at = wide_sorter ? static_cast<const int64_t*>(sorter)[index] : static_cast<const int32_t*>(sorter)[index];
        at = at < 0 || at >= length ? 0 : at;  // a bad position reads no foreign memory
        return order(sequence[at]);
    }
    BK_HD bool counts(Bits element, Bits query) const { return right ? element <= query : element < query; }

    // The number of elements before the query among those from `low` on, below `high`, added to `low`.
    BK_HD int64_t search(Bits query, int64_t low, int64_t high) const {
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            const bool after = counts(key(middle), query);
            low = after ? middle + 1 : low;
            high = after ? high : middle;
        }
        return low;
    }

    // The number of staged splitters before the query. first_step is the largest power of two up to `splitters`.
    BK_HD int32_t search_staged(const Bits* staged, Bits query, int32_t first_step) const {
        int32_t found = 0;
        for (int32_t step = first_step; step > 0; step /= 2) {
            const int32_t next = found + step;
            const bool after = next <= splitters && counts(staged[next <= splitters ? next - 1 : 0], query);
            found = after ? next : found;
        }
        return found;
    }

    // The elements between the splitters that enclose a query of which `found` splitters are before it: low, and the end.
    BK_HD int64_t range_begin(int32_t found) const { return found == 0 ? 0 : (found - 1) * stride + 1; }
    BK_HD int64_t range_end(int32_t found) const {
        const int64_t end = found * stride;
        return end < length ? end : length;
    }
    BK_HD int64_t refine(Bits query, int32_t found) const { return search(query, range_begin(found), range_end(found)); }

    BK_HD int64_t position(const Bits* staged, Bits query) const {
        return splitters == 0 ? search(query, 0, length) : refine(query, search_staged(staged, query, first_step()));
    }

    BK_HD int32_t first_step() const { return largest_step(splitters); }
};

// Keys of a sequence with as many splitters as fit the chip; `is_staged` says whether queries are numerous enough.
template <class T>
SortedKeys<bits_t<T>> sorted_keys(const T* sequence, int64_t length, bool right, bool is_staged, const void* sorter = nullptr,
                                  bool wide_sorter = false) {
    constexpr int64_t most = kMaxSplitters<bits_t<T>>;
    const int64_t stride = length <= most ? 1 : (length + most - 1) / most;
    const int64_t splitters = is_staged && length > 0 ? (length - 1) / stride + 1 : 0;
    return {reinterpret_cast<const bits_t<T>*>(sequence),
            sorter,
            wide_sorter,
            length,
            stride,
            static_cast<int32_t>(splitters),
            right,
            key_order<T>(false)};
}

}  // namespace bk
