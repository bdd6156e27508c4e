// SPDX-License-Identifier: Apache-2.0
// GGUF's ternary formats: 256 codes -1, 0, 1 with one f16 scale. A byte of tq1_0 has five digits of base 3 (four in the
// last four bytes) as a fraction of 256, rounded up: multiplied by a power of 3 modulo 256, its integer part times 3 is
// the digit. tq2_0 has two bits a code.
#pragma once

#include "core/codec/block_format.h"
#include "core/codec/gguf_k.h"

namespace bk::codec {

struct Tq10 : Block256 {
    static constexpr int kBytes = 54, kAlign = 2, kGroup = 256;
    static constexpr bool kHasOffset = false;
    // Digit `position` of four bytes, less 1.
    static BK_HD uint32_t digits(uint32_t bytes, int position) {
        const uint32_t power = (position & 1 ? 3u : 1u) * (position & 2 ? 9u : 1u) * (position & 4 ? 81u : 1u);
        const uint32_t even = ((bytes & 0x00ff00ffu) * power & 0x00ff00ffu) * 3u >> 8 & 0x00030003u;
        const uint32_t odd = ((bytes >> 8 & 0x00ff00ffu) * power & 0x00ff00ffu) * 3u >> 8 & 0x00030003u;
        return subtract_bytes(even | odd << 8, 0x01010101u);
    }
    static BK_HD uint32_t codes4(const uint8_t* block, unsigned e) {
        if (e < 160) return digits(load4<2>(block + e % 32), e / 32);
        if (e < 240) return digits(load4<2>(block + 32 + e % 16), (e - 160) / 16);
        return digits(load4<2>(block + 48), (e - 240) / 4);
    }
    static BK_HD Affine affine(const uint8_t* block, int) { return {load_f16(block + 52), 0.f}; }
};

struct Tq20 : Block256 {
    static constexpr int kBytes = 66, kAlign = 2, kGroup = 256;
    static constexpr bool kHasOffset = false;
    static BK_HD uint32_t codes4(const uint8_t* block, unsigned e) { return subtract_bytes(twobits4(block, e), 0x01010101u); }
    static BK_HD Affine affine(const uint8_t* block, int) { return {load_f16(block + 64), 0.f}; }
};

}  // namespace bk::codec
