// SPDX-License-Identifier: Apache-2.0
// Sorts of the items of a row on the CPU. Items that are words (core/sort/vector_sort_cpu.h) are keys alone, or a key above an
// index, so that no two are equal; 64-bit keys with an index take a radix sort, least significant digit first, stable. Digits
// that all items share are skipped. Threads that share a row sort slices of it, and merge them by merge paths (Green et al.,
// ICS 2012).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/abi/launch.h"
#include "core/platform.h"
#include "core/sort/vector_sort_cpu.h"

namespace bk {

struct WideItem {
    uint64_t key, index;
    friend bool operator<(const WideItem& a, const WideItem& b) {
        return a.key < b.key || (a.key == b.key && a.index < b.index);
    }
};

// Kinds of items: keys alone, which have no index.
template <class Bits>
struct KeyItems {
    using Item = Bits;
    static constexpr bool kHasIndex = false;
    static Item make(Bits key, int64_t) { return key; }
    static Bits key(Item item) { return item; }
    static int64_t index(Item) { return 0; }
};

// A key of at most 32 bits above an index of 32.
template <class Bits>
struct PackedItems {
    using Item = uint64_t;
    static constexpr bool kHasIndex = true;
    static Item make(Bits key, int64_t index) { return uint64_t{key} << 32 | static_cast<uint64_t>(index); }
    static Bits key(Item item) { return static_cast<Bits>(item >> 32); }
    static int64_t index(Item item) { return static_cast<int64_t>(item & 0xffffffffu); }
};

template <class Bits>
struct WideItems {
    using Item = WideItem;
    static constexpr bool kHasIndex = true;
    static Item make(Bits key, int64_t index) { return {key, static_cast<uint64_t>(index)}; }
    static Bits key(const Item& item) { return static_cast<Bits>(item.key); }
    static int64_t index(const Item& item) { return static_cast<int64_t>(item.index); }
};

constexpr int kItemDigitBits = 8, kItemDigits = 1 << kItemDigitBits;
constexpr int64_t kInsertionLength = 40;

// Sorts `count` items on one thread; the result is in `items`.
template <class Word>
void sort_items(Word* items, Word* other, int64_t count) {
    sort_words(items, other, count);
}

inline void sort_items(WideItem* items, WideItem* other, int64_t count) {
    if (count <= kInsertionLength) {
        for (int64_t i = 1; i < count; ++i) {
            const WideItem item = items[i];
            int64_t at = i;
            for (; at > 0 && item.key < items[at - 1].key; --at) items[at] = items[at - 1];
            items[at] = item;
        }
        return;
    }
    const auto digit = [](const WideItem& item, int pass) {
        return static_cast<uint32_t>(item.key >> (pass * kItemDigitBits)) & (kItemDigits - 1);
    };
    constexpr int kPasses = 64 / kItemDigitBits;
    int64_t counts[kPasses][kItemDigits] = {};
    for (int64_t i = 0; i < count; ++i)
        for (int pass = 0; pass < kPasses; ++pass) ++counts[pass][digit(items[i], pass)];
    WideItem *from = items, *to = other;
    for (int pass = 0; pass < kPasses; ++pass) {
        int64_t* const start = counts[pass];
        if (start[digit(from[0], pass)] == count) continue;
        int64_t sum = 0;
        for (int bin = 0; bin < kItemDigits; ++bin) sum += std::exchange(start[bin], sum);
        for (int64_t i = 0; i < count; ++i) to[start[digit(from[i], pass)]++] = from[i];
        std::swap(from, to);
    }
    if (from != items) memcpy(static_cast<void*>(items), from, sizeof(WideItem) * static_cast<size_t>(count));
}

// Items of `a` among the first `count` of the merge of both, those of a before equal ones of b.
template <class Item>
int64_t merge_path(const Item* a, int64_t a_count, const Item* b, int64_t b_count, int64_t count) {
    int64_t low = std::max<int64_t>(0, count - b_count), high = std::min(count, a_count);
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (b[count - middle - 1] < a[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

template <class Item>
void merge_items(const Item* a, const Item* a_end, const Item* b, const Item* b_end, Item* to) {
    while (a != a_end && b != b_end) {
        const bool takes_b = *b < *a;
        *to++ = takes_b ? *b : *a;
        a += !takes_b;
        b += takes_b;
    }
    to = std::copy(a, a_end, to);
    std::copy(b, b_end, to);
}

// sort_items with slices over threads; returns the one of both arrays that has the result.
template <class Item>
Item* sort_items_in_slices(Item* items, Item* other, int64_t count) {
    int64_t slices = 1;
    while (slices < std::min<int64_t>(thread_count(), 256)) slices *= 2;
    const auto start = [=](int64_t slice) { return count / slices * slice + std::min(slice, count % slices); };
    const auto for_slices = [=](const auto& body) {
        split_chunks(slices, 1, [&](int64_t begin, int64_t end) {
            for (int64_t slice = begin; slice < end; ++slice) body(slice);
        });
    };
    for_slices([=](int64_t slice) { sort_items(items + start(slice), other + start(slice), start(slice + 1) - start(slice)); });
    for (int64_t width = 1; width < slices; width *= 2) {
        for_slices([=](int64_t slice) {
            const int64_t pair = slice / (2 * width) * 2 * width, begin = start(pair);
            const Item *const a = items + begin, *const b = items + start(pair + width);
            const int64_t a_count = b - a, b_count = start(pair + 2 * width) - start(pair + width);
            const int64_t from = start(slice) - begin, to = start(slice + 1) - begin;
            const int64_t a_from = merge_path(a, a_count, b, b_count, from), a_to = merge_path(a, a_count, b, b_count, to);
            merge_items(a + a_from, a + a_to, b + (from - a_from), b + (to - a_to), other + begin + from);
        });
        std::swap(items, other);
    }
    return items;
}

}  // namespace bk
