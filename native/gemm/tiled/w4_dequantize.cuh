// SPDX-License-Identifier: Apache-2.0
// Dequantisation of int4 weights to mma fragments.
#pragma once

#include <cstdint>

#include "core/intrinsics/narrow_operands.cuh"
#include "gemm/w4.h"

namespace bk {

// (word & kMask) | kBits as one lop3, of which the compiler makes two instructions.
template <uint32_t kMask, uint32_t kBits>
BK_DEVICE uint32_t masked_with(uint32_t word) {
#if BK_ON_GPU
    uint32_t result;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(word), "n"(kMask), "n"(kBits));
    return result;
#else
    return (word & kMask) | kBits;
#endif
}

// Elements i and i + 4 of a word as f16x2, plus 1024 if i is even and plus 64 if it is odd: their bits go into the low
// mantissa, or four bits above.
BK_DEVICE uint32_t raised_pair(uint32_t word, int i) {
    const uint32_t byte = word >> i / 2 * 8;
    return i % 2 == 0 ? masked_with<0x000f000fu, 0x64006400u>(byte) : masked_with<0x00f000f0u, 0x54005400u>(byte);
}

// A Marlin word as a lane's A fragment of 16 columns by 16 K elements: q - 8 of elements 0, 1 of columns g and g + 8,
// then of elements 2, 3 of both.
BK_DEVICE void marlin_fragment(uint32_t (&columns)[4], uint32_t word) {
#pragma unroll
    for (int v = 0; v < 4; ++v)
        columns[v] = sub_f16x2(raised_pair(word, v % 2 * 2 + v / 2), v / 2 == 0 ? 0x64086408u : 0x54805480u);
}

// Scales and zero points of one group, from `column` on. A group beyond the last reads the last one: loads without a
// branch stay in flight together.
struct AwqGroup {
    const f16* scales;
    const int32_t* zeros;
    int64_t zero_words;
    uint32_t bit, mask;

    BK_DEVICE AwqGroup(const AwqProduct& p, int64_t column, uint32_t group) : zero_words(p.zero_words) {
        const uint32_t groups = static_cast<uint32_t>(p.k) / static_cast<uint32_t>(p.group);
        mask = group < groups ? ~0u : 0;
        group = min(group, groups - 1);
        scales = p.scales + column * 8 * zero_words + group;
        zeros = p.zeros + column * zero_words + group / 8;
        bit = group % 8 * 4;
    }

    // Scale of column `column + on`, and its zero point in the upper half; 0 if the group does not exist.
    BK_DEVICE uint32_t scale_and_zero(int on) const {
        const uint32_t zero = static_cast<uint32_t>(zeros[on * zero_words]) >> bit & 15u;
        return (scales[on * 8 * zero_words].bits | zero << 16) & mask;
    }
};

}  // namespace bk
