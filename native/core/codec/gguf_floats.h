// SPDX-License-Identifier: Apache-2.0
// GGUF formats of e2m1 elements: mxfp4, 32 of them with a scale of e8m0, and nvfp4, 64 with an unsigned e4m3 scale for each
// 16. Codes are twice the elements' values, so that scales are halved; 16 (of nvfp4 8) values are the low nibbles of as many
// bytes, the next ones the high nibbles.
#pragma once

#include "core/codec/block_format.h"

namespace bk::codec {

// Twice the values of four codes of e2m1, one in each byte.
BK_HD uint32_t doubled_e2m1(uint32_t nibbles) {
#if BK_ON_GPU
    const uint32_t pairs = (nibbles | nibbles >> 4) & 0x00ff00ffu, selector = (pairs | pairs >> 8) & 0x7777u;
    const uint32_t magnitudes = __byte_perm(0x03020100u, 0x0c080604u, selector);
    const uint32_t has_value = nibbles | nibbles >> 1 | nibbles >> 2;  // in the lowest bits: 0 has no other complement
    const uint32_t minus = nibbles >> 3 & has_value & 0x01010101u;
    return (magnitudes ^ minus * 255u) + minus;
#else
    uint32_t codes = 0;
    BK_UNROLL
    for (int i = 0; i < 4; ++i) {
        const uint32_t nibble = nibbles >> (8 * i) & 15u;
        const uint32_t magnitude = static_cast<uint32_t>(0x0c08060403020100ull >> (8 * (nibble & 7u))) & 0xffu;
        codes |= (nibble & 8u ? (0u - magnitude) & 0xffu : magnitude) << (8 * i);
    }
    return codes;
#endif
}

struct Mxfp4 {
    static constexpr int kBlock = 32, kBytes = 17, kAlign = 1, kGroup = 32;
    static constexpr bool kHasOffset = false;
    static BK_HD uint32_t codes4(const uint8_t* block, unsigned e) {
        return doubled_e2m1(load4<1>(block + 1 + e % 16) >> (e / 16 * 4) & 0x0f0f0f0fu);
    }
    // 2^(code - 128); GGUF has no NaN among scales.
    static BK_HD Affine affine(const uint8_t* block, int) {
        const uint32_t code = block[0];
        return {bit_cast<float>(code < 2 ? 0x00200000u << code : (code - 1) << 23), 0.f};
    }
};

struct Nvfp4 {
    static constexpr int kBlock = 64, kBytes = 36, kAlign = 4, kGroup = 16;
    static constexpr bool kHasOffset = false;
    static BK_HD uint32_t codes4(const uint8_t* block, unsigned e) {
        return doubled_e2m1(load4<4>(block + 4 + e / 16 * 8 + e % 8) >> (e % 16 / 8 * 4) & 0x0f0f0f0fu);
    }
    // Half the value of e4m3 without its sign; 0x7f is 0.
    static BK_HD Affine affine(const uint8_t* block, int g) {
        const uint32_t code = block[g], magnitude = code & 0x7fu;
        const float value = bit_cast<float>(magnitude << 20) * 0x1p119f;
        return {code == 0x7fu ? 0.f : value, 0.f};
    }
};

}  // namespace bk::codec
