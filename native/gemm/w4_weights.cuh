// Weights of four bits as the words of a tensor core's step.
#pragma once

#include <cstdint>

#include "core/matmul/narrow_factors.cuh"
#include "gemm/w4.h"

namespace bk {

// (word & kMask) | kBits, by one instruction, which the compiler makes two of as only one of its operands may be a constant.
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

// Elements i and i + 4 of a word in f16: 1024 more than they are if i is even, 64 more if it is odd, as they stand in the
// lowest bits of a fraction or four above them.
BK_DEVICE uint32_t raised_pair(uint32_t word, int i) {
    const uint32_t byte = word >> i / 2 * 8;
    return i % 2 == 0 ? masked_with<0x000f000fu, 0x64006400u>(byte) : masked_with<0x00f000f0u, 0x54005400u>(byte);
}

// A word of Marlin's as a lane's part of 16 columns and 16 terms: q - 8 of elements 0, 1 of columns g and g + 8, then of
// elements 2, 3 of both.
BK_DEVICE void marlin_fragment(uint32_t (&columns)[4], uint32_t word) {
#pragma unroll
    for (int v = 0; v < 4; ++v)
        columns[v] = minus_halves(raised_pair(word, v % 2 * 2 + v / 2), v / 2 == 0 ? 0x64086408u : 0x54805480u);
}

// A group of terms, of columns from one on. Of a group that the product does not have it reads the last one, and so without
// asking for each column: loads of several are under way together.
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

    // The scale of the column that lies so far on, and above it the zero point; 0 where there is no such group.
    BK_DEVICE uint32_t scale_and_zero(int on) const {
        const uint32_t zero = static_cast<uint32_t>(zeros[on * zero_words]) >> bit & 15u;
        return (scales[on * 8 * zero_words].bits | zero << 16) & mask;
    }
};

}  // namespace bk
