// SPDX-License-Identifier: Apache-2.0
// Rows of at most 512 elements: a bitonic network (Batcher 1968) over the registers of 1 to 32 lanes, several rows a warp.
//
// An item is a key and its index, so that no two are equal and the network is stable. Lane l of a group has the kItems
// items from l * kItems on.
#pragma once

#include <cstdint>

#include "core/collectives/shuffle.cuh"
#include "core/platform.h"
#include "core/sort/sort_operands.cuh"

namespace bk {

constexpr int kWarpSortThreads = 128;
// Items of a lane: 4, or of the longest rows more, which exchange fewer of them between lanes than a block would.
template <class Bits>
constexpr int kWarpSortItems = sizeof(Bits) == 8 ? 8 : 16;
template <class Bits>
constexpr int kWarpSortLength = 32 * kWarpSortItems<Bits>;

// Keys of at most 32 bits share a word with the index.
template <class Bits>
struct SortItem {
    uint64_t word;

    static BK_DEVICE SortItem make(Bits key, uint32_t index) { return {static_cast<uint64_t>(key) << 32 | index}; }
    BK_DEVICE bool operator<(const SortItem& other) const { return word < other.word; }
    BK_DEVICE uint32_t index() const { return static_cast<uint32_t>(word); }
};

template <>
struct SortItem<uint64_t> {
    uint64_t key;
    uint32_t position;

    static BK_DEVICE SortItem make(uint64_t key, uint32_t index) { return {key, index}; }
    BK_DEVICE bool operator<(const SortItem& other) const {
        return key < other.key || (key == other.key && position < other.position);
    }
    BK_DEVICE uint32_t index() const { return position; }
};

// Orders a pair of items; the smaller one is first if `is_ascending`.
template <class Item>
BK_DEVICE void order_pair(Item& a, Item& b, bool is_ascending) {
    if ((b < a) == is_ascending) {
        const Item other = a;
        a = b;
        b = other;
    }
}

// Sorts the kItems * group items of each group of lanes.
template <int kItems, class Item>
BK_DEVICE void bitonic_sort(Item (&item)[kItems], int group) {
    const int first = static_cast<int>(threadIdx.x) % group * kItems;
#pragma unroll 1
    for (int size = 2; size <= kItems * group; size *= 2) {
#pragma unroll 1
        for (int distance = size / 2; distance >= kItems; distance /= 2) {
            const bool is_first = (first & distance) == 0, is_ascending = (first & size) == 0;
#pragma unroll
            for (int k = 0; k < kItems; ++k) {
                const Item other = shuffle_xor(item[k], distance / kItems);
                if ((other < item[k]) == (is_first == is_ascending)) item[k] = other;
            }
        }
#pragma unroll
        for (int distance = kItems / 2; distance > 0; distance /= 2) {
            if (distance >= size) continue;
#pragma unroll
            for (int k = 0; k < kItems; ++k)
                if ((k & distance) == 0) order_pair(item[k], item[k + distance], ((first + k) & size) == 0);
        }
    }
}

template <int kItems, class Bits>
__global__ void __launch_bounds__(kWarpSortThreads) sort_warp_kernel(SortOperands operands, KeyOrder<Bits> order, int group) {
    const int64_t worker = (int64_t{blockIdx.x} * kWarpSortThreads + threadIdx.x) / group;
    const int at = static_cast<int>(threadIdx.x) % group * kItems, length = static_cast<int>(operands.length),
              results = static_cast<int>(operands.results);
    const bool is_row = worker < operands.count;  // whole warps take part in the exchange
    const SortRow row = sort_row(operands, is_row ? worker : 0);
    const Bits* const x = static_cast<const Bits*>(operands.pointer.x);
    SortItem<Bits> item[kItems];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
        const bool is_element = is_row && at + k < length;
        // Padding is behind all elements: its key is the largest, and its index larger than theirs.
        item[k] = SortItem<Bits>::make(is_element ? order(x[row.at(operands, kSortX, at + k)]) : KeyOrder<Bits>::kAll,
                                       static_cast<uint32_t>(at + k));
    }
#pragma unroll 1
    for (int pass = operands.is_sorted ? 1 : 0; pass < 2; ++pass) {
        bitonic_sort<kItems>(item, group);
        if (pass == 1) break;
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            const uint32_t index = at + k < results ? item[k].index() : ~0u;
            item[k] = SortItem<Bits>::make(Bits{0}, index);
        }
    }
    const bool has_values = operands.pointer.values != nullptr;
    Bits bits[kItems];
#pragma unroll
    for (int k = 0; k < kItems; ++k)
        bits[k] = has_values && is_row && at + k < results ? x[row.at(operands, kSortX, item[k].index())] : Bits{0};
    __syncwarp();  // values may be x
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
        if (!is_row || at + k >= results) continue;
        if (has_values) static_cast<Bits*>(operands.pointer.values)[row.at(operands, kSortValues, at + k)] = bits[k];
        if (operands.pointer.indices != nullptr) row.store_index(operands, at + k, row.payload(operands, item[k].index()));
    }
}

template <int kItems, class Bits>
Status launch_sort_warp(const Launch& launch, const SortOperands& operands, const KeyOrder<Bits>& order) {
    int group = 1;
    while (group * kItems < operands.length) group *= 2;
    const int64_t blocks = ceil_div<int64_t>(operands.count, kWarpSortThreads / group);
    return launch_kernel(launch, {dim3(static_cast<unsigned>(blocks)), dim3(kWarpSortThreads)}, sort_warp_kernel<kItems, Bits>,
                         operands, order, group);
}

template <class Bits>
Status sort_rows_by_warp(const Launch& launch, const SortOperands& operands, const KeyOrder<Bits>& order) {
    if (operands.length <= 32 * 4) return launch_sort_warp<4>(launch, operands, order);
    if constexpr (sizeof(Bits) < 8)
        if (operands.length > 32 * 8) return launch_sort_warp<16>(launch, operands, order);
    return launch_sort_warp<8>(launch, operands, order);
}

}  // namespace bk
