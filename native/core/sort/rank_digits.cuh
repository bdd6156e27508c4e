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

// The lanes whose bit is set, or is not, as the own one.
BK_DEVICE unsigned lanes_like(uint32_t bit) {
#if BK_ON_GPU
    unsigned lanes;  // the compiler would need a comparison and a selection more
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %1, 0;\nvote.sync.ballot.b32 %0, p, 0xffffffff;\n@!p not.b32 %0, %0;\n}"
                 : "=r"(lanes)
                 : "r"(bit));
    return lanes;
#else
    return __ballot_sync(0xffffffffu, bit != 0) ^ (bit != 0 ? 0u : 0xffffffffu);
#endif
}

// The rank of the lane's digit among the equal ones that the warp has counted so far; `counters` are the warp's own. Lanes
// that are not valid are not counted. Called by a whole warp.
BK_DEVICE uint32_t rank_digit(uint32_t* counters, uint32_t digit, bool is_valid) {
    unsigned peers = __ballot_sync(0xffffffffu, is_valid);
    if (peers == 0) return 0;
#pragma unroll
    for (int bit = 0; bit < kDigitBits; ++bit) {
        peers &= lanes_like(digit & 1u << bit);
    }
    const unsigned below = peers & ((1u << (threadIdx.x % 32)) - 1);
    const uint32_t counted = counters[digit];
    __syncwarp();
    if (is_valid && below == 0) counters[digit] = counted + static_cast<uint32_t>(__popc(peers));
    __syncwarp();
    return counted + static_cast<uint32_t>(__popc(below));
}

}  // namespace bk
