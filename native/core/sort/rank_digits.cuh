// SPDX-License-Identifier: Apache-2.0
// Stable ranks of 8-bit digits in a warp: the step of a radix sort that blocks share.
//
// Lanes with equal digits find each other by one ballot for each bit (warp multi-split: Ashkiani et al., "GPU
// Multisplit", 2016); the first of them advances the warp's counter of that digit.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace bk {

constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;

template <class Bits>
BK_DEVICE uint32_t digit_of(Bits key, int shift) {
    return static_cast<uint32_t>(key >> shift) & (kDigits - 1);
}

// The rank of the lane's digit among the equal ones that the warp has counted so far; `counters` are the warp's own. Lanes
// that are not valid are not counted. Called by a whole warp.
BK_DEVICE uint32_t rank_digit(uint32_t* counters, uint32_t digit, bool is_valid) {
    unsigned peers = __ballot_sync(0xffffffffu, is_valid);
    if (peers == 0) return 0;
#pragma unroll
    for (int bit = 0; bit < kDigitBits; ++bit) {
        const bool is_set = (digit & 1u << bit) != 0;
        peers &= __ballot_sync(0xffffffffu, is_set) ^ (is_set ? 0u : 0xffffffffu);
    }
    const unsigned below = peers & ((1u << (threadIdx.x % 32)) - 1);
    const uint32_t counted = counters[digit];
    __syncwarp();
    if (is_valid && below == 0) counters[digit] = counted + static_cast<uint32_t>(__popc(peers));
    __syncwarp();
    return counted + static_cast<uint32_t>(__popc(below));
}

}  // namespace bk
