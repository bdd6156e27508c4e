// SPDX-License-Identifier: Apache-2.0
// GGUF's formats of codebooks and tables. iq1, iq2 and iq3 take groups of 8 or 4 codes from a codebook (iq_grids.h), with
// signs apart; of 7 sign bits the eighth makes the number of minus signs even. iq4 takes codes from a table of 16.
#pragma once

#include "core/codec/block_format.h"
#include "core/codec/gguf_k.h"
#include "core/codec/gguf_legacy.h"
#include "core/codec/iq_grids.h"

namespace bk::codec {

BK_HD uint32_t load2(const uint8_t* p) { return p[0] | static_cast<uint32_t>(p[1]) << 8; }

// Four fields of two bits, or of four, as bytes.
BK_HD uint32_t spread_twobits(uint32_t bits) {
    const uint32_t halves = (bits | bits << 12) & 0x000f000fu;
    return (halves | halves << 6) & 0x03030303u;
}
BK_HD uint32_t spread_nibbles(uint32_t bits) {
    const uint32_t halves = (bits | bits << 8) & 0x00ff00ffu;
    return (halves | halves << 4) & 0x0f0f0f0fu;
}

// Negates the bytes, none of them 0, whose bits among the low four of `signs` are set.
BK_HD uint32_t negate_bytes(uint32_t codes, uint32_t signs) {
    const uint32_t ones = spread_bits<0>(signs);
    return (codes ^ (ones * 255u)) + ones;
}

// Eight signs of the low seven bits.
BK_HD uint32_t even_signs(uint32_t seven) {
    const uint32_t low = seven & 127u;
    uint32_t parity = low ^ low >> 4;
    parity ^= parity >> 2;
    return low | ((parity ^ parity >> 1) & 1u) << 7;
}

// Digits 0, 1, 2 of iq2 are 8, 25, 43.
BK_HD uint32_t iq2_codes(uint32_t digits) { return 0x08080808u + 17u * digits + (digits >> 1 & 0x01010101u); }

// Digits of iq3_xxs are 4, 12, ... 52, 62; those of iq3_s the odd numbers to 15.
BK_HD uint32_t iq3_xxs_codes(uint32_t digits) {
    return 0x04040404u + 8u * digits + ((digits & digits >> 1 & digits >> 2) & 0x01010101u) * 2u;
}
BK_HD uint32_t iq3_s_codes(uint32_t digits) { return 2u * digits + 0x01010101u; }

// Scale nibble g of adjacent bytes.
BK_HD int nibble(const uint8_t* bytes, int g) { return bytes[g / 2] >> (g % 2 * 4) & 15; }

struct Iq2Xxs : Block256 {
    static constexpr int kBytes = 66, kAlign = 2, kGroup = 32;
    static constexpr bool kHasOffset = false;
    static BK_HD uint32_t codes4(const uint8_t* block, unsigned e) {
        const uint8_t* const group = block + 2 + e / 32 * 8;
        const int part = e % 32 / 8, half = e % 8;
        const uint32_t entry = BK_GRID_ENTRY(Iq2Xxs, group[part]);
        const uint32_t signs = even_signs(load4<2>(group + 4) >> (7 * part));
        return negate_bytes(iq2_codes(spread_twobits(entry >> (2 * half) & 255u)), signs >> half);
    }
    static BK_HD Affine affine(const uint8_t* block, int g) {
        return {load_f16(block) * (0.5f + static_cast<float>(block[2 + 8 * g + 7] >> 4)) * 0.25f, 0.f};
    }
};

struct Iq2Xs : Block256 {
    static constexpr int kBytes = 74, kAlign = 2, kGroup = 16;
    static constexpr bool kHasOffset = false;
    static BK_HD uint32_t codes4(const uint8_t* block, unsigned e) {
        const uint32_t packed = load2(block + 2 + e / 8 * 2);
        const uint32_t entry = BK_GRID_ENTRY(Iq2Xs, packed & 511u);
        return negate_bytes(iq2_codes(spread_twobits(entry >> (e % 8 * 2) & 255u)), even_signs(packed >> 9) >> (e % 8));
    }
    static BK_HD Affine affine(const uint8_t* block, int g) {
        return {load_f16(block) * (0.5f + static_cast<float>(nibble(block + 66, g))) * 0.25f, 0.f};
    }
};

struct Iq2S : Block256 {
    static constexpr int kBytes = 82, kAlign = 2, kGroup = 16;
    static constexpr bool kHasOffset = false;
    static BK_HD uint32_t codes4(const uint8_t* block, unsigned e) {
        const int part = e / 8;
        const uint32_t high = block[66 + part / 4] >> (part % 4 * 2) & 3u;
        const uint32_t entry = BK_GRID_ENTRY(Iq2S, block[2 + part] | high << 8);
        const uint32_t signs = block[34 + part];
        return negate_bytes(iq2_codes(spread_twobits(entry >> (e % 8 * 2) & 255u)), signs >> (e % 8));
    }
    static BK_HD Affine affine(const uint8_t* block, int g) {
        return {load_f16(block) * (0.5f + static_cast<float>(nibble(block + 74, g))) * 0.25f, 0.f};
    }
};

struct Iq3Xxs : Block256 {
    static constexpr int kBytes = 98, kAlign = 2, kGroup = 32;
    static constexpr bool kHasOffset = false;
    static BK_HD uint32_t codes4(const uint8_t* block, unsigned e) {
        const uint32_t entry = BK_GRID_ENTRY(Iq3Xxs, block[2 + e / 4]);
        const uint32_t signs = even_signs(load4<2>(block + 66 + e / 32 * 4) >> (e % 32 / 8 * 7));
        return negate_bytes(iq3_xxs_codes(spread_nibbles(entry)), signs >> (e % 8));
    }
    static BK_HD Affine affine(const uint8_t* block, int g) {
        return {load_f16(block) * (0.5f + static_cast<float>(block[66 + 4 * g + 3] >> 4)) * 0.5f, 0.f};
    }
};

struct Iq3S : Block256 {
    static constexpr int kBytes = 110, kAlign = 2, kGroup = 32;
    static constexpr bool kHasOffset = false;
    static BK_HD uint32_t codes4(const uint8_t* block, unsigned e) {
        const uint32_t high = block[66 + e / 32] >> (e % 32 / 4) & 1u;
        const uint32_t entry = BK_GRID_ENTRY(Iq3S, block[2 + e / 4] | high << 8);
        const uint32_t signs = block[74 + e / 8];
        return negate_bytes(iq3_s_codes(spread_nibbles(entry)), signs >> (e % 8));
    }
    static BK_HD Affine affine(const uint8_t* block, int g) {
        return {load_f16(block) * static_cast<float>(1 + 2 * nibble(block + 106, g)), 0.f};
    }
};

// Digits 0, 1, 2 of iq1 are -1, 0, 1, plus or minus 1/8: as codes of eighths.
BK_HD uint32_t iq1_codes(uint32_t entry, int e, bool is_minus) {
    const uint32_t digits = spread_twobits(entry >> (e % 8 * 2) & 255u);
    return subtract_bytes(8u * digits, is_minus ? 0x09090909u : 0x07070707u);
}

struct Iq1S : Block256 {
    static constexpr int kBytes = 50, kAlign = 2, kGroup = 32;
    static constexpr bool kHasOffset = false;
    static BK_HD uint32_t codes4(const uint8_t* block, unsigned e) {
        const uint32_t high = load2(block + 34 + e / 32 * 2);
        const uint32_t entry = BK_GRID_ENTRY(Iq1, block[2 + e / 8] | (high >> (e % 32 / 8 * 3) & 7u) << 8);
        return iq1_codes(entry, e, (high & 0x8000u) != 0);
    }
    static BK_HD Affine affine(const uint8_t* block, int g) {
        const int scale = block[34 + 2 * g + 1] >> 4 & 7;
        return {load_f16(block) * static_cast<float>(2 * scale + 1) * 0.125f, 0.f};
    }
};

// The scale of the block is in the upper four bits of four words.
struct Iq1M : Block256 {
    static constexpr int kBytes = 56, kAlign = 2, kGroup = 16;
    static constexpr bool kHasOffset = false;
    static BK_HD uint32_t codes4(const uint8_t* block, unsigned e) {
        const uint32_t high = static_cast<uint32_t>(nibble(block + 32, e / 8));
        return iq1_codes(BK_GRID_ENTRY(Iq1, block[e / 8] | (high & 7u) << 8), e, (high & 8u) != 0);
    }
    static BK_HD Affine affine(const uint8_t* block, int g) {
        const uint8_t* const scales = block + 48;
        const uint32_t half = load2(scales) >> 12 | (load2(scales + 2) >> 8 & 0xf0u) | (load2(scales + 4) >> 4 & 0xf00u) |
                              (load2(scales + 6) & 0xf000u);
        const int scale = static_cast<int>(load2(scales + g / 4 * 2) >> (g % 4 * 3) & 7u);
        return {widen(f16{static_cast<uint16_t>(half)}) * static_cast<float>(2 * scale + 1) * 0.125f, 0.f};
    }
};

// The table of iq4: -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113.
constexpr uint32_t kIq4Words[4] = {0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u};

BK_HD uint32_t iq4_codes(uint32_t nibbles) {
#if BK_ON_GPU
    const uint32_t pairs = (nibbles | nibbles >> 4) & 0x00ff00ffu, selector = (pairs | pairs >> 8) & 0x7777u;
    const uint32_t upper = (nibbles >> 3 & 0x01010101u) * 255u;
    const uint32_t low = __byte_perm(0xbfad9881u, 0xf6eaddcfu, selector),
                   high = __byte_perm(0x26190d01u, 0x71594535u, selector);
    return (low & ~upper) | (high & upper);
#else
    uint32_t codes = 0;
    for (int i = 0; i < 4; ++i) {
        const uint32_t index = nibbles >> (8 * i) & 15u;
        codes |= (kIq4Words[index / 4] >> (index % 4 * 8) & 255u) << (8 * i);
    }
    return codes;
#endif
}

struct Iq4Nl : Block32 {
    static constexpr int kBytes = 18, kAlign = 2;
    static constexpr bool kHasOffset = false;
    static BK_HD uint32_t codes4(const uint8_t* block, unsigned e) { return iq4_codes(nibbles4_of_32<2>(block + 2, e)); }
    static BK_HD Affine affine(const uint8_t* block, int) { return {load_f16(block), 0.f}; }
};

struct Iq4Xs : Block256 {
    static constexpr int kBytes = 136, kAlign = 4, kGroup = 32;
    static constexpr bool kHasOffset = false;
    static BK_HD uint32_t codes4(const uint8_t* block, unsigned e) {
        return iq4_codes(nibbles4_of_32<4>(block + 8 + e / 32 * 16, e % 32));
    }
    static BK_HD Affine affine(const uint8_t* block, int g) {
        const int scale = nibble(block + 4, g) | static_cast<int>(load2(block + 2) >> (2 * g) & 3u) << 4;
        return {load_f16(block) * static_cast<float>(scale - 32), 0.f};
    }
};

}  // namespace bk::codec
