// SPDX-License-Identifier: Apache-2.0
// Radix sort of (key, index) items on the CPU: least significant digit first, stable, digits that all items share are
// skipped. Short rows take an insertion sort.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/abi/launch.h"
#include "core/platform.h"

namespace bk {

// A key of at most 32 bits above an index of 32.
struct PackedItem {
    static constexpr int kKeyBytes = 4;
    uint64_t word;

    static PackedItem make(uint64_t key, uint64_t index) { return {key << 32 | index}; }
    uint64_t key() const { return word >> 32; }
    uint64_t index() const { return word & 0xffffffffu; }
};

struct WideItem {
    static constexpr int kKeyBytes = 8;
    uint64_t word, position;

    static WideItem make(uint64_t key, uint64_t index) { return {key, index}; }
    uint64_t key() const { return word; }
    uint64_t index() const { return position; }
};

constexpr int kItemDigitBits = 8, kItemDigits = 1 << kItemDigitBits;
constexpr int64_t kInsertionLength = 40;

template <class Item>
uint32_t item_digit(const Item& item, int shift) {
    return static_cast<uint32_t>(item.key() >> shift) & (kItemDigits - 1);
}

template <class Item>
void insertion_sort(Item* items, int64_t count) {
    for (int64_t i = 1; i < count; ++i) {
        const Item item = items[i];
        int64_t at = i;
        for (; at > 0 && item.key() < items[at - 1].key(); --at) items[at] = items[at - 1];
        items[at] = item;
    }
}

// Sorts without another array: (key, index) is a total order, so that any sort by it is stable.
template <class Item>
Item* sort_in_place(Item* items, int64_t count) {
    std::sort(items, items + count,
              [](const Item& a, const Item& b) { return a.key() < b.key() || (a.key() == b.key() && a.index() < b.index()); });
    return items;
}

// Sorts `count` items by keys of `key_bytes` bytes on one thread; returns the one of both arrays that has the result.
template <class Item>
Item* sort_items(Item* items, Item* other, int64_t count, int key_bytes) {
    if (count <= kInsertionLength) {
        insertion_sort(items, count);
        return items;
    }
    int64_t counts[Item::kKeyBytes][kItemDigits];
    memset(counts, 0, sizeof(counts[0]) * static_cast<size_t>(key_bytes));
    for (int64_t i = 0; i < count; ++i)
        for (int pass = 0; pass < key_bytes; ++pass) ++counts[pass][item_digit(items[i], pass * kItemDigitBits)];
    for (int pass = 0; pass < key_bytes; ++pass) {
        const int shift = pass * kItemDigitBits;
        int64_t* const start = counts[pass];
        if (start[item_digit(items[0], shift)] == count) continue;
        int64_t sum = 0;
        for (int digit = 0; digit < kItemDigits; ++digit) sum += std::exchange(start[digit], sum);
        for (int64_t i = 0; i < count; ++i) other[start[item_digit(items[i], shift)]++] = items[i];
        std::swap(items, other);
    }
    return items;
}

constexpr int64_t kMostSlices = 64;

struct SliceCounts {
    int64_t digit[kItemDigits];
};

// sort_items with the items in slices, a thread each. `counts` has kMostSlices entries.
template <class Item>
Item* sort_items_in_slices(Item* items, Item* other, int64_t count, int key_bytes, SliceCounts* counts) {
    const int64_t slices = std::min(thread_count(), kMostSlices);
    const auto for_slices = [=](const auto& body) {
        split_chunks(slices, 1, [&](int64_t begin, int64_t end) {
            for (int64_t slice = begin; slice < end; ++slice)
                body(slice, count / slices * slice + std::min(slice, count % slices),
                     count / slices * (slice + 1) + std::min(slice + 1, count % slices));
        });
    };
    for (int pass = 0; pass < key_bytes; ++pass) {
        const int shift = pass * kItemDigitBits;
        for_slices([=](int64_t slice, int64_t first, int64_t last) {
            int64_t own[kItemDigits] = {};
            for (int64_t i = first; i < last; ++i) ++own[item_digit(items[i], shift)];
            memcpy(counts[slice].digit, own, sizeof(own));
        });
        int64_t sum = 0, most = 0;
        for (int digit = 0; digit < kItemDigits; ++digit) {
            const int64_t before = sum;
            for (int64_t slice = 0; slice < slices; ++slice) sum += std::exchange(counts[slice].digit[digit], sum);
            most = std::max(most, sum - before);
        }
        if (most == count) continue;
        for_slices([=](int64_t slice, int64_t first, int64_t last) {
            int64_t start[kItemDigits];
            memcpy(start, counts[slice].digit, sizeof(start));
            for (int64_t i = first; i < last; ++i) other[start[item_digit(items[i], shift)]++] = items[i];
        });
        std::swap(items, other);
    }
    return items;
}

}  // namespace bk
