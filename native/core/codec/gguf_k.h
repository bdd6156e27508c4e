// SPDX-License-Identifier: Apache-2.0
// GGUF's k-quants: 256 values whose groups of 16 or 32 have small integer scales, and minima, that one or two f16 numbers
// of the block multiply.
#pragma once

#include "core/codec/block_format.h"

namespace bk::codec {

struct Block256 {
    static constexpr int kBlock = 256;
};

// Codes of two bits: 32 bytes hold 128 values, 32 to each pair of bits.
BK_HD uint32_t twobits4(const uint8_t* bytes, unsigned e) {
    return load4<2>(bytes + e / 128 * 32 + e % 32) >> (e % 128 / 32 * 2) & 0x03030303u;
}

struct Q2K : Block256 {
    static constexpr int kBytes = 84, kAlign = 4, kGroup = 16;
    static constexpr bool kHasOffset = true, kHasPositiveCodes = true;
    static BK_HD uint32_t codes4(const uint8_t* block, unsigned e) { return twobits4(block + 16, e); }
    static BK_HD Affine affine(const uint8_t* block, int g) {
        const uint8_t packed = block[g];
        return {load_f16(block + 80) * static_cast<float>(packed & 15),
                -(load_f16(block + 82) * static_cast<float>(packed >> 4))};
    }
};

// Scales have six bits: four in the first eight bytes, two in the last four. A clear bit of the mask subtracts 4.
struct Q3K : Block256 {
    static constexpr int kBytes = 110, kAlign = 2, kGroup = 16;
    static constexpr bool kHasOffset = false;
    static BK_HD uint32_t codes4(const uint8_t* block, unsigned e) {
        const uint32_t third = load4<2>(block + e % 32) >> (e / 32) & 0x01010101u;
        return subtract_bytes(twobits4(block + 32, e) | third << 2, 0x04040404u);
    }
    static BK_HD Affine affine(const uint8_t* block, int g) {
        const uint8_t* scales = block + 96;
        const int low = scales[g % 8] >> (g / 8 * 4) & 15, high = scales[8 + g % 4] >> (g / 4 * 2) & 3;
        return {load_f16(block + 108) * static_cast<float>((low | high << 4) - 32), 0.f};
    }
};

// Scales and minima of q4_K and q5_K: six bits each, eight of both in twelve bytes.
struct PackedScales {
    int scale, minimum;
    static BK_HD PackedScales at(const uint8_t* bytes, int g) {
        if (g < 4) return {bytes[g] & 63, bytes[g + 4] & 63};
        return {(bytes[g + 4] & 15) | bytes[g - 4] >> 6 << 4, bytes[g + 4] >> 4 | bytes[g] >> 6 << 4};
    }
};

BK_HD Affine k_affine(const uint8_t* block, int g) {
    const PackedScales packed = PackedScales::at(block + 4, g);
    return {load_f16(block) * static_cast<float>(packed.scale), -(load_f16(block + 2) * static_cast<float>(packed.minimum))};
}

// Nibbles e to e + 3: 32 bytes hold 64 values, the first 32 in the low nibbles.
BK_HD uint32_t nibbles4_of_64(const uint8_t* bytes, unsigned e) {
    return load4<4>(bytes + e / 64 * 32 + e % 32) >> (e % 64 / 32 * 4) & 0x0f0f0f0fu;
}

struct Q4K : Block256 {
    static constexpr int kBytes = 144, kAlign = 4, kGroup = 32;
    static constexpr bool kHasOffset = true, kHasPositiveCodes = true;
    static BK_HD uint32_t codes4(const uint8_t* block, unsigned e) { return nibbles4_of_64(block + 16, e); }
    static BK_HD Affine affine(const uint8_t* block, int g) { return k_affine(block, g); }
};

struct Q5K : Block256 {
    static constexpr int kBytes = 176, kAlign = 4, kGroup = 32;
    static constexpr bool kHasOffset = true, kHasPositiveCodes = true;
    static BK_HD uint32_t codes4(const uint8_t* block, unsigned e) {
        const uint32_t fifth = load4<4>(block + 16 + e % 32) >> (e / 32) & 0x01010101u;
        return nibbles4_of_64(block + 48, e) | fifth << 4;
    }
    static BK_HD Affine affine(const uint8_t* block, int g) { return k_affine(block, g); }
};

struct Q6K : Block256 {
    static constexpr int kBytes = 210, kAlign = 2, kGroup = 16;
    static constexpr bool kHasOffset = false;
    static BK_HD uint32_t codes4(const uint8_t* block, unsigned e) {
        const uint32_t low = load4<2>(block + e / 128 * 64 + e % 64) >> (e % 128 / 64 * 4) & 0x0f0f0f0fu;
        return subtract_bytes(low | twobits4(block + 128, e) << 4, 0x20202020u);
    }
    static BK_HD Affine affine(const uint8_t* block, int g) {
        return {load_f16(block + 208) * static_cast<float>(static_cast<int8_t>(block[192 + g])), 0.f};
    }
};

// An f32 scale; the sums of groups of 16 codes at the end are for integer products and do not matter to values.
struct Q8K : Block256 {
    static constexpr int kBytes = 292, kAlign = 4, kGroup = 256;
    static constexpr bool kHasOffset = false;
    static BK_HD uint32_t codes4(const uint8_t* block, unsigned e) { return load4<4>(block + 4 + e); }
    static BK_HD Affine affine(const uint8_t* block, int) { return {bit_cast<float>(load4<4>(block)), 0.f}; }
};

}  // namespace bk::codec
