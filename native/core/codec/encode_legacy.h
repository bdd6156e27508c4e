// SPDX-License-Identifier: Apache-2.0
// Encoders of GGUF's formats of 32 values, and of the ternary ones: the formulas of the reference encoders (the
// Python package `gguf`), whose bits they have as long as the scale is no f16 overflow, which saturates here. With an
// importance matrix q4_0, q4_1, q5_0 and q5_1 minimise the weighted error instead.
#pragma once

#include "core/codec/encode.h"
#include "core/codec/gguf_k.h"
#include "core/codec/gguf_legacy.h"
#include "core/codec/gguf_ternary.h"

namespace bk::codec {

// Formats of one scale, in units of their own; a sub-block is a block, unless an encoder says otherwise.
template <class Format>
struct WholeBlock {
    static constexpr int kSubBlock = Format::kBlock;
    static constexpr bool kRefits = false, kScaled = false;
    template <class P>
    static BK_HD void weights(P* sub_block, const float* importance, float twice_mean_square) {
        sub_block->is_weighted = importance != nullptr;
        if (sub_block->is_weighted) weigh<Weights::kSquare>(sub_block, importance, twice_mean_square);
    }
};

// Packs nibbles and fifth bits of 32 codes.
BK_HD void pack_nibbles32(uint8_t* to, const uint8_t* codes) {
    for (int i = 0; i < 16; ++i) to[i] = static_cast<uint8_t>((codes[i] & 15) | codes[i + 16] << 4);
}
BK_HD void pack_fifth_bits(uint8_t* to, const uint8_t* codes) {
    for (int i = 0; i < 4; ++i) {
        int bits = 0;
        for (int k = 0; k < 8; ++k) bits |= (codes[8 * i + k] >> 4 & 1) << k;
        to[i] = static_cast<uint8_t>(bits);
    }
}

// q4_0 and q5_0: codes from -n to n - 1, the value of the largest magnitude being -n.
template <class Format, int n>
struct SymmetricBlock : WholeBlock<Format> {
    static BK_HD Fit fit(const SubBlock<32>& sub_block) {
        if (sub_block.is_weighted) {
            Fit found = symmetric_fit<Integers<n>>(sub_block, 9);
            found.inverse = reciprocal(widen(narrow<f16>(clamp(found.scale, -65504.f, 65504.f))));
            return found;
        }
        const float scale = extreme(sub_block.x) / -static_cast<float>(n);
        return {scale, 0.f, reciprocal(scale), 0.f};
    }
    static BK_HD void head(uint8_t* block, const Fit* fits, float) { store_f16(block, fits->scale); }
    static BK_HD void codes(const uint8_t*, const Fit* fits, int, const SubBlock<32>& sub_block, float, uint8_t* out) {
        const Fit fit = *fits;
        for (int i = 0; i < 32; ++i) {
            const float shifted = truncf(mul(sub_block.x[i], fit.inverse) + (static_cast<float>(n) + 0.5f));
            out[i] = static_cast<uint8_t>(clamp(shifted, 0.f, 2.f * n - 1.f));
        }
    }
};

template <>
struct Encoder<Q40> : SymmetricBlock<Q40, 8> {
    static BK_HD void pack(uint8_t* block, const uint8_t* codes, int) { pack_nibbles32(block + 2, codes); }
    static BK_HD void poison(uint8_t* block) { clear_block<Q40::kBytes>(block), store_nan(block); }
};

template <>
struct Encoder<Q50> : SymmetricBlock<Q50, 16> {
    static BK_HD void pack(uint8_t* block, const uint8_t* codes, int) {
        pack_fifth_bits(block + 2, codes);
        pack_nibbles32(block + 6, codes);
    }
    static BK_HD void poison(uint8_t* block) { clear_block<Q50::kBytes>(block), store_nan(block); }
};

// q4_1 and q5_1: codes from 0 to n between the least and the largest value.
template <class Format, int n>
struct AffineBlock : WholeBlock<Format> {
    static BK_HD Fit fit(const SubBlock<32>& sub_block) {
        if (sub_block.is_weighted) {
            Fit found = affine_fit<true>(sub_block, n, -8, 8);
            found.inverse = reciprocal(widen(narrow<f16>(clamp(found.scale, -65504.f, 65504.f))));
            found.offset = widen(narrow<f16>(clamp(found.offset, -65504.f, 65504.f)));
            return found;
        }
        float low = sub_block.x[0], high = sub_block.x[0];
        for (int i = 1; i < 32; ++i) {
            low = sub_block.x[i] < low ? sub_block.x[i] : low;
            high = sub_block.x[i] > high ? sub_block.x[i] : high;
        }
        const float scale = (high - low) / static_cast<float>(n);
        return {scale, low, reciprocal(scale), 0.f};
    }
    static BK_HD void head(uint8_t* block, const Fit* fits, float) {
        store_f16(block, fits->scale);
        store_f16(block + 2, fits->offset);
    }
    static BK_HD void codes(const uint8_t*, const Fit* fits, int, const SubBlock<32>& sub_block, float, uint8_t* out) {
        const Fit fit = *fits;
        for (int i = 0; i < 32; ++i) {
            const float code = truncf(mul(sub_block.x[i] - fit.offset, fit.inverse) + 0.5f);
            out[i] = static_cast<uint8_t>(clamp(code, 0.f, static_cast<float>(n)));
        }
    }
};

template <>
struct Encoder<Q41> : AffineBlock<Q41, 15> {
    static BK_HD void pack(uint8_t* block, const uint8_t* codes, int) { pack_nibbles32(block + 4, codes); }
    static BK_HD void poison(uint8_t* block) { clear_block<Q41::kBytes>(block), store_nan(block); }
};

template <>
struct Encoder<Q51> : AffineBlock<Q51, 31> {
    static BK_HD void pack(uint8_t* block, const uint8_t* codes, int) {
        pack_fifth_bits(block + 4, codes);
        pack_nibbles32(block + 8, codes);
    }
    static BK_HD void poison(uint8_t* block) { clear_block<Q51::kBytes>(block), store_nan(block); }
};

// Halves away from zero, as floor and the doubled fraction give them: 0.49999997 is 0.
BK_HD float round_half_away(float x) {
    const float whole = truncf(x);
    return whole + (fabsf(x - whole) >= 0.5f ? copysignf(1.f, x) : 0.f);
}

// Codes are x / scale with one rounding of the inverse, for q8_0 and the ternary formats; kLargest is the code of the
// largest magnitude.
template <class Format, int kLargest>
struct NearestCodes : WholeBlock<Format> {
    static constexpr int kSubBlock = 32;
    template <class P>
    static BK_HD void weights(P*, const float*, float) {}
    template <int kSubBlocks>
    static BK_HD Fit block_fit(const Fit* fits) {
        Fit largest = fits[0];
        for (int p = 1; p < kSubBlocks; ++p) largest = fits[p].scale > largest.scale ? fits[p] : largest;
        return largest;
    }
    template <int N>
    static BK_HD Fit fit(const SubBlock<N>& sub_block) {
        const float scale = fabsf(extreme(sub_block.x)) / static_cast<float>(kLargest);
        return {scale, 0.f, reciprocal(scale), 0.f};
    }
    template <int N>
    static BK_HD void codes(const uint8_t*, const Fit* fits, int, const SubBlock<N>& sub_block, float, uint8_t* out) {
        const Fit fit = block_fit<Format::kBlock / N>(fits);
        for (int i = 0; i < N; ++i) {
            const float code = clamp(round_half_away(mul(sub_block.x[i], fit.inverse)), -kLargest, kLargest);
            out[i] = static_cast<uint8_t>(static_cast<int>(code) + kLargest);
        }
    }
};

template <>
struct Encoder<Q80> : NearestCodes<Q80, 127> {
    static BK_HD void head(uint8_t* block, const Fit* fits, float) { store_f16(block, fits->scale); }
    static BK_HD void pack(uint8_t* block, const uint8_t* codes, int) {
        for (int i = 0; i < 32; ++i) block[2 + i] = static_cast<uint8_t>(codes[i] - 127);
    }
    static BK_HD void poison(uint8_t* block) { clear_block<Q80::kBytes>(block), store_nan(block); }
};

// Base 3: five digits a byte as a fraction of 256, rounded up.
template <>
struct Encoder<Tq10> : NearestCodes<Tq10, 1> {
    static BK_HD void head(uint8_t* block, const Fit* fits, float) { store_f16(block + 52, block_fit<8>(fits).scale); }
    static BK_HD uint8_t fraction(const uint8_t* digits, int step, int count) {
        int number = 0;
        for (int n = 0; n < 5; ++n) number = 3 * number + (n < count ? digits[n * step] : 0);
        return static_cast<uint8_t>((number * 256 + 242) / 243);
    }
    static BK_HD void pack(uint8_t* block, const uint8_t* codes, int p) {
        for (int i = 4 * p; i < 4 * p + 4; ++i) block[i] = fraction(codes + i, 32, 5);
        for (int i = 2 * p; i < 2 * p + 2; ++i) block[32 + i] = fraction(codes + 160 + i, 16, 5);
        if (p < 4) block[48 + p] = fraction(codes + 240 + p, 4, 4);
    }
    static BK_HD void poison(uint8_t* block) { clear_block<Tq10::kBytes>(block), store_nan(block + 52); }
};

template <>
struct Encoder<Tq20> : NearestCodes<Tq20, 1> {
    static BK_HD void head(uint8_t* block, const Fit* fits, float) { store_f16(block + 64, block_fit<8>(fits).scale); }
    static BK_HD void pack(uint8_t* block, const uint8_t* codes, int p) {
        for (int i = 8 * p; i < 8 * p + 8; ++i) {
            const uint8_t* const from = codes + i / 32 * 128 + i % 32;
            block[i] = static_cast<uint8_t>(from[0] | from[32] << 2 | from[64] << 4 | from[96] << 6);
        }
    }
    static BK_HD void poison(uint8_t* block) { clear_block<Tq20::kBytes>(block), store_nan(block + 64); }
};

}  // namespace bk::codec
