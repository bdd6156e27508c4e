// SPDX-License-Identifier: Apache-2.0
// Rows that fit the shared memory of a block: a radix sort of 8-bit digits, least significant first, on the chip.
//
// A thread has kBlockSortItems elements, those of a warp being adjacent; the block has as many warps as the row needs. Each
// pass ranks the digits warp by warp, adds the counters up over the warps and over the digits, and scatters elements and
// 16-bit indices through shared memory. The bits of the elements move, not their keys, so that values are exact copies.
#pragma once

#include <cstdint>

#include "core/platform.h"
#include "core/sort/rank_digits.cuh"
#include "core/sort/sort_operands.cuh"

namespace bk {

template <class Bits>
constexpr int kBlockSortItems = sizeof(Bits) == 8 ? 8 : 16;
constexpr int kBlockSortMaxThreads = 512;  // with 1024 the 64 registers of a thread spill

// Offsets in shared memory, in bytes.
template <class Bits>
struct BlockSortShared {
    int64_t counters, indices, bytes;

    explicit BlockSortShared(int threads) {
        const int64_t capacity = int64_t{threads} * kBlockSortItems<Bits>;
        counters = capacity * static_cast<int64_t>(sizeof(Bits));
        indices = counters + (threads / 32 + 1) * kDigits * 4;
        bytes = indices + capacity * 2;
    }
};

template <class Bits>
int block_sort_threads(int64_t length) {
    return static_cast<int>(32 * ceil_div<int64_t>(length, 32 * kBlockSortItems<Bits>));
}

// The longest row that a block sorts on this chip.
template <class Bits>
int64_t block_sort_length(int arch) {
    int threads = kBlockSortMaxThreads;
    while (BlockSortShared<Bits>(threads).bytes > max_shared_bytes(arch)) threads /= 2;
    return int64_t{threads} * kBlockSortItems<Bits>;
}

// Adds the warps' counters up: counters[w][d] becomes the digits d in warps before w, `starts[d]` all smaller digits.
// Returns whether one digit has all `length` elements.
BK_DEVICE bool add_counters(uint32_t* counters, uint32_t* starts, int warps, int length) {
    for (int digit = static_cast<int>(threadIdx.x); digit < kDigits; digit += static_cast<int>(blockDim.x)) {
        uint32_t sum = 0;
        for (int warp = 0; warp < warps; ++warp) {
            const uint32_t count = counters[warp * kDigits + digit];
            counters[warp * kDigits + digit] = sum;
            sum += count;
        }
        starts[digit] = sum;
    }
    __syncthreads();
    constexpr int kEach = kDigits / 32;
    bool is_only = false;
    if (threadIdx.x < 32) {
        uint32_t own[kEach], sum = 0;
#pragma unroll
        for (int k = 0; k < kEach; ++k) {
            own[k] = starts[threadIdx.x * kEach + static_cast<unsigned>(k)];
            is_only |= own[k] == static_cast<uint32_t>(length);
            sum += own[k];
        }
        uint32_t before = sum;
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const uint32_t below = __shfl_up_sync(0xffffffffu, before, distance);
            if (static_cast<int>(threadIdx.x) >= distance) before += below;
        }
        before -= sum;
#pragma unroll
        for (int k = 0; k < kEach; ++k) {
            starts[threadIdx.x * kEach + static_cast<unsigned>(k)] = before;
            before += own[k];
        }
    }
    return __syncthreads_or(is_only) != 0;
}

template <class Bits>
__global__ void __launch_bounds__(kBlockSortMaxThreads, 2)
    sort_block_kernel(SortOperands operands, KeyOrder<Bits> order, int counters_at, int indices_at) {
    constexpr int kItems = kBlockSortItems<Bits>;
    BK_LAUNCH_SHARED(uint4, shared);
    char* const bytes = reinterpret_cast<char*>(shared);
    Bits* const elements = reinterpret_cast<Bits*>(bytes);
    uint32_t* const starts = reinterpret_cast<uint32_t*>(bytes + counters_at);
    uint32_t* const counters = starts + kDigits;
    uint16_t* const indices = reinterpret_cast<uint16_t*>(bytes + indices_at);

    const int length = static_cast<int>(operands.length), warps = static_cast<int>(blockDim.x) / 32,
              lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int first = warp * 32 * kItems + lane;
    const bool has_indices = operands.pointer.indices != nullptr;
    uint32_t* const own_counters = counters + warp * kDigits;
    const SortRow row = sort_row(operands, blockIdx.x);
    const Bits* const x = static_cast<const Bits*>(operands.pointer.x);

    Bits element[kItems];
    // Two in a word, and four: registers are scarce.
    uint32_t index[kItems / 2], rank[kItems / 2], digits[kItems / 4];
    const auto set_half = [](uint32_t (&words)[kItems / 2], int k, uint32_t value) {
        words[k / 2] = k % 2 == 0 ? value : words[k / 2] | value << 16;
    };
    const auto half_of = [](const uint32_t (&words)[kItems / 2], int k) { return words[k / 2] >> (k % 2 * 16) & 0xffffu; };
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
        const int at = first + 32 * k;
        element[k] = at < length ? x[row.at(operands, kSortX, at)] : Bits{0};
        set_half(index, k, static_cast<uint32_t>(at));
    }
#pragma unroll 1
    for (int shift = 0; shift < 8 * static_cast<int>(sizeof(Bits)); shift += kDigitBits) {
        for (int digit = lane; digit < kDigits; digit += 32) own_counters[digit] = 0;
        __syncwarp();
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            const uint32_t digit = digit_of(order.selected(element[k]), shift);
            digits[k / 4] = k % 4 == 0 ? digit : digits[k / 4] | digit << (k % 4 * 8);
            set_half(rank, k, rank_digit(own_counters, digit, first + 32 * k < length));
        }
        __syncthreads();
        if (add_counters(counters, starts, warps, length)) continue;
        for (int digit = lane; digit < kDigits; digit += 32) own_counters[digit] += starts[digit];
        __syncwarp();
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            const uint32_t to = own_counters[digits[k / 4] >> (k % 4 * 8) & 0xff] + half_of(rank, k);
            if (first + 32 * k >= length) continue;
            elements[to] = element[k];
            if (has_indices) indices[to] = static_cast<uint16_t>(half_of(index, k));
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            if (first + 32 * k < length) element[k] = elements[first + 32 * k];
            if (has_indices) set_half(index, k, first + 32 * k < length ? indices[first + 32 * k] : 0u);
        }
    }
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
        const int at = first + 32 * k;
        if (at >= static_cast<int>(operands.results)) continue;
        if (operands.pointer.values != nullptr)
            static_cast<Bits*>(operands.pointer.values)[row.at(operands, kSortValues, at)] = element[k];
        if (has_indices) row.store_index(operands, at, row.payload(operands, half_of(index, k)));
    }
}

template <class Bits>
Status sort_rows_by_block(const Launch& launch, const SortOperands& operands, const KeyOrder<Bits>& order) {
    const int threads = block_sort_threads<Bits>(operands.length);
    const BlockSortShared<Bits> shared(threads);
    const Grid grid{dim3(static_cast<unsigned>(operands.count)), dim3(static_cast<unsigned>(threads)), 1,
                    static_cast<unsigned>(shared.bytes)};
    return launch_kernel(launch, grid, sort_block_kernel<Bits>, operands, order, shared.counters, shared.indices);
}

}  // namespace bk
