// SPDX-License-Identifier: Apache-2.0
// GGUF formats of 32 values: one f16 scale, some with an f16 minimum. Values 0 to 15 are the low nibbles of 16 bytes, 16
// to 31 the high ones; the fifth bits of q5_0 and q5_1 are the bits of a 32-bit word, in order.
#pragma once

#include "core/codec/block_format.h"

namespace bk::codec {

struct Block32 {
    static constexpr int kBlock = 32, kGroup = 32;
};

// Nibbles e to e + 3 of 16 bytes that hold 32.
template <int kAlign>
BK_HD uint32_t nibbles4_of_32(const uint8_t* bytes, unsigned e) {
    return load4<kAlign>(bytes + e % 16) >> (e / 16 * 4) & 0x0f0f0f0fu;
}

struct Q40 : Block32 {
    static constexpr int kBytes = 18, kAlign = 2;
    static constexpr bool kHasOffset = false;
    static BK_HD uint32_t codes4(const uint8_t* block, unsigned e) {
        return subtract_bytes(nibbles4_of_32<2>(block + 2, e), 0x08080808u);
    }
    static BK_HD Affine affine(const uint8_t* block, int) { return {load_f16(block), 0.f}; }
};

struct Q41 : Block32 {
    static constexpr int kBytes = 20, kAlign = 4;
    static constexpr bool kHasOffset = true, kHasPositiveCodes = true;
    static BK_HD uint32_t codes4(const uint8_t* block, unsigned e) { return nibbles4_of_32<4>(block + 4, e); }
    static BK_HD Affine affine(const uint8_t* block, int) { return {load_f16(block), load_f16(block + 2)}; }
};

struct Q50 : Block32 {
    static constexpr int kBytes = 22, kAlign = 2;
    static constexpr bool kHasOffset = false;
    static BK_HD uint32_t codes4(const uint8_t* block, unsigned e) {
        const uint32_t fifth = spread_bits<4>(load4<2>(block + 2) >> e);
        return subtract_bytes(nibbles4_of_32<2>(block + 6, e) | fifth, 0x10101010u);
    }
    static BK_HD Affine affine(const uint8_t* block, int) { return {load_f16(block), 0.f}; }
};

struct Q51 : Block32 {
    static constexpr int kBytes = 24, kAlign = 4;
    static constexpr bool kHasOffset = true, kHasPositiveCodes = true;
    static BK_HD uint32_t codes4(const uint8_t* block, unsigned e) {
        return nibbles4_of_32<4>(block + 8, e) | spread_bits<4>(load4<4>(block + 4) >> e);
    }
    static BK_HD Affine affine(const uint8_t* block, int) { return {load_f16(block), load_f16(block + 2)}; }
};

struct Q80 : Block32 {
    static constexpr int kBytes = 34, kAlign = 2;
    static constexpr bool kHasOffset = false;
    static BK_HD uint32_t codes4(const uint8_t* block, unsigned e) { return load4<2>(block + 2 + e); }
    static BK_HD Affine affine(const uint8_t* block, int) { return {load_f16(block), 0.f}; }
};

// Activations: codes and scale as in q8_0, and the sum of the values before rounding, which values do not need.
struct Q81 : Block32 {
    static constexpr int kBytes = 36, kAlign = 4;
    static constexpr bool kHasOffset = false;
    static BK_HD uint32_t codes4(const uint8_t* block, unsigned e) { return load4<4>(block + 4 + e); }
    static BK_HD Affine affine(const uint8_t* block, int) { return {load_f16(block), 0.f}; }
    static BK_HD float sum(const uint8_t* block) { return load_f16(block + 2); }
};

}  // namespace bk::codec
