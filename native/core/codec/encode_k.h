// SPDX-License-Identifier: Apache-2.0
// Encoders of the k-quants and of the table formats iq4_nl and iq4_xs: a weighted least squares fit of each sub-block, scales
// and minima rounded to their few bits, codes nearest to the values for these, and the f16 numbers of the block fitted again to
// the codes. q8_K is what its reference encoder computes.
#pragma once

#include "core/codec/encode.h"
#include "core/codec/gguf_iq.h"
#include "core/codec/gguf_k.h"

namespace bk::codec {

template <int kValues, Weights kRule>
struct FittedSubBlocks {
    static constexpr int kSubBlock = kValues;
    static constexpr bool kRefits = true, kScaled = true;
    static BK_HD void weights(SubBlock<kValues>* sub_block, const float* importance, float twice_mean_square) {
        weigh<kRule>(sub_block, importance, twice_mean_square);
    }
};

// --- Scales and minima, of `kSubBlocks` sub-blocks, up to `kMost` -----------------------------------------------------

struct AffineSteps {
    int codes, first, last;  // the largest code; candidates of affine_fit
};

// Packed has get(block, p) -> PackedScales and put(block, p, PackedScales); f16 numbers lie at kScaleAt.
template <class Packed, int kSubBlocks, int kMost, int kScaleAt, int kCodes, int kFirst, int kLast>
struct AffineSubBlocks : FittedSubBlocks<256 / kSubBlocks, kSubBlocks == 16 ? Weights::kMagnitude : Weights::kSpread> {
    static constexpr int kSubBlock = 256 / kSubBlocks;

    static BK_HD Fit fit(const SubBlock<kSubBlock>& sub_block) { return affine_fit<false>(sub_block, kCodes, kFirst, kLast); }
    static BK_HD void head(uint8_t* block, const Fit* fits, float unit) {
        float scale = 0.f, minimum = 0.f;
        for (int p = 0; p < kSubBlocks; ++p) {
            scale = fits[p].scale > scale ? fits[p].scale : scale;
            minimum = -fits[p].offset > minimum ? -fits[p].offset : minimum;
        }
        const float of_scale = scale > 0.f ? kMost / scale : 0.f, of_minimum = minimum > 0.f ? kMost / minimum : 0.f;
        for (int p = 0; p < kSubBlocks; ++p)
            Packed::put(block, p,
                        {static_cast<int>(nearest(mul(of_scale, fits[p].scale), 0.f, kMost)),
                         static_cast<int>(nearest(mul(of_minimum, -fits[p].offset), 0.f, kMost))});
        store_f16(block + kScaleAt, mul(scale / kMost, 1.f / unit));
        store_f16(block + kScaleAt + 2, mul(minimum / kMost, 1.f / unit));
    }
    static BK_HD SubBlockSums codes(const uint8_t* block, const Fit*, int p, const SubBlock<kSubBlock>& sub_block, float unit,
                                    uint8_t* out) {
        const PackedScales packed = Packed::get(block, p);
        const float inverse = reciprocal(mul(mul(load_f16(block + kScaleAt), unit), static_cast<float>(packed.scale)));
        const float minimum = mul(mul(load_f16(block + kScaleAt + 2), unit), static_cast<float>(packed.minimum));
        float levels[kSubBlock];
        for (int i = 0; i < kSubBlock; ++i) {
            levels[i] = nearest(mul(sub_block.x[i] + minimum, inverse), 0.f, kCodes);
            out[i] = static_cast<uint8_t>(levels[i]);
        }
        return sums_of(sub_block, levels);
    }
    // The normal equations of x = d (scale code) - m minimum.
    static BK_HD void refit(uint8_t* block, const SubBlockSums* sums, float unit) {
        float dd = 0.f, dm = 0.f, mm = 0.f, dx = 0.f, mx = 0.f;
        for (int p = 0; p < kSubBlocks; ++p) {
            const PackedScales packed = Packed::get(block, p);
            const float scale = static_cast<float>(packed.scale), minimum = static_cast<float>(packed.minimum);
            dd += mul(mul(scale, scale), sums[p].ll);
            dm += mul(mul(scale, minimum), sums[p].l);
            mm += mul(mul(minimum, minimum), sums[p].one);
            dx += mul(scale, sums[p].lx);
            mx += mul(minimum, sums[p].x);
        }
        const float determinant = mul(dd, mm) - mul(dm, dm);
        float d = dd > 0.f ? dx / dd : 0.f, m = 0.f;
        if (determinant > mul(1e-6f, mul(dd, mm))) {
            m = (mul(dm, dx) - mul(dd, mx)) / determinant;
            if (m > 0.f) d = (mul(mm, dx) - mul(dm, mx)) / determinant;
        }
        if (!(d > 0.f)) return;
        store_f16(block + kScaleAt, mul(d, 1.f / unit));
        store_f16(block + kScaleAt + 2, mul(m > 0.f ? m : 0.f, 1.f / unit));
    }
};

// Bytes of two-bit fields: byte i has values 32 apart of half a block.
BK_HD uint8_t four_twobits(const uint8_t* codes, int i, int shift) {
    const uint8_t* const from = codes + i / 32 * 128 + i % 32;
    int bits = 0;
    for (int j = 0; j < 4; ++j) bits |= (from[32 * j] >> shift & 3) << (2 * j);
    return static_cast<uint8_t>(bits);
}
// Byte i of one-bit fields: bit J is of value 32 J + i.
BK_HD uint8_t eight_bits(const uint8_t* codes, int i, int shift) {
    int bits = 0;
    for (int j = 0; j < 8; ++j) bits |= (codes[32 * j + i] >> shift & 1) << j;
    return static_cast<uint8_t>(bits);
}
// Byte i of nibbles: 32 bytes have 64 values.
BK_HD uint8_t two_nibbles(const uint8_t* codes, int i) {
    const uint8_t* const from = codes + i / 32 * 64 + i % 32;
    return static_cast<uint8_t>((from[0] & 15) | from[32] << 4);
}

// Nibbles of q2_K.
struct PackedNibbles {
    static BK_HD PackedScales get(const uint8_t* block, int p) { return {block[p] & 15, block[p] >> 4}; }
    static BK_HD void put(uint8_t* block, int p, PackedScales scales) {
        block[p] = static_cast<uint8_t>(scales.scale | scales.minimum << 4);
    }
};

// Six bits each, in twelve bytes behind the f16 numbers; sub-blocks are put in order, on cleared bytes.
struct PackedSixBits {
    static BK_HD PackedScales get(const uint8_t* block, int p) { return PackedScales::at(block + 4, p); }
    static BK_HD void put(uint8_t* block, int p, PackedScales scales) {
        uint8_t* const bytes = block + 4;
        if (p < 4) {
            bytes[p] = static_cast<uint8_t>(scales.scale);
            bytes[p + 4] = static_cast<uint8_t>(scales.minimum);
            return;
        }
        bytes[p + 4] = static_cast<uint8_t>((scales.scale & 15) | scales.minimum << 4);
        bytes[p - 4] = static_cast<uint8_t>(bytes[p - 4] | scales.scale >> 4 << 6);
        bytes[p] = static_cast<uint8_t>(bytes[p] | scales.minimum >> 4 << 6);
    }
};

template <>
struct Encoder<Q2K> : AffineSubBlocks<PackedNibbles, 16, 15, 80, 3, -5, 10> {
    static BK_HD void pack(uint8_t* block, const uint8_t* codes, int p) {
        for (int i = 4 * p; i < 4 * p + 4; ++i) block[16 + i] = four_twobits(codes, i, 0);
    }
    static BK_HD void poison(uint8_t* block) { clear_block<Q2K::kBytes>(block), store_nan(block + 80); }
};

template <>
struct Encoder<Q4K> : AffineSubBlocks<PackedSixBits, 8, 63, 0, 15, -10, 10> {
    static BK_HD void pack(uint8_t* block, const uint8_t* codes, int p) {
        for (int i = 16 * p; i < 16 * p + 16; ++i) block[16 + i] = two_nibbles(codes, i);
    }
    static BK_HD void poison(uint8_t* block) { clear_block<Q4K::kBytes>(block), store_nan(block); }
};

template <>
struct Encoder<Q5K> : AffineSubBlocks<PackedSixBits, 8, 63, 0, 31, -5, 10> {
    static BK_HD void pack(uint8_t* block, const uint8_t* codes, int p) {
        for (int i = 4 * p; i < 4 * p + 4; ++i) block[16 + i] = eight_bits(codes, i, 4);
        for (int i = 16 * p; i < 16 * p + 16; ++i) block[48 + i] = two_nibbles(codes, i);
    }
    static BK_HD void poison(uint8_t* block) { clear_block<Q5K::kBytes>(block), store_nan(block); }
};

// --- Scales alone, signed, from -kMost to kMost - 1 -------------------------------------------------------------------

// Packed has get(block, p) and put(block, p, scale).
template <class Levels, class Packed, int kSubBlocks, int kMost, int kScaleAt, int kSteps>
struct SignedSubBlocks : FittedSubBlocks<256 / kSubBlocks, Weights::kSquare> {
    static constexpr int kSubBlock = 256 / kSubBlocks;

    static BK_HD Fit fit(const SubBlock<kSubBlock>& sub_block) { return symmetric_fit<Levels>(sub_block, kSteps); }
    static BK_HD void head(uint8_t* block, const Fit* fits, float unit) {
        float most = 0.f;
        for (int p = 0; p < kSubBlocks; ++p) most = fabsf(fits[p].scale) > fabsf(most) ? fits[p].scale : most;
        const float inverse = most != 0.f ? -static_cast<float>(kMost) / most : 0.f;
        for (int p = 0; p < kSubBlocks; ++p)
            Packed::put(block, p, static_cast<int>(nearest(mul(inverse, fits[p].scale), -kMost, kMost - 1)));
        store_f16(block + kScaleAt, mul(most / -static_cast<float>(kMost), 1.f / unit));
    }
    static BK_HD SubBlockSums codes(const uint8_t* block, const Fit*, int p, const SubBlock<kSubBlock>& sub_block, float unit,
                                    uint8_t* out) {
        const float scale = mul(mul(load_f16(block + kScaleAt), unit), static_cast<float>(Packed::get(block, p)));
        const float inverse = reciprocal(scale);
        float levels[kSubBlock];
        for (int i = 0; i < kSubBlock; ++i) {
            const int index = Levels::index(mul(sub_block.x[i], inverse));
            out[i] = static_cast<uint8_t>(index);
            levels[i] = Levels::level(index);
        }
        return sums_of(sub_block, levels);
    }
    static BK_HD void refit(uint8_t* block, const SubBlockSums* sums, float unit) {
        float dd = 0.f, dx = 0.f;
        for (int p = 0; p < kSubBlocks; ++p) {
            const float scale = static_cast<float>(Packed::get(block, p));
            dd += mul(mul(scale, scale), sums[p].ll);
            dx += mul(scale, sums[p].lx);
        }
        if (dd > 0.f && dx != 0.f) store_f16(block + kScaleAt, mul(dx / dd, 1.f / unit));
    }
};

struct PackedBytes {
    static BK_HD int get(const uint8_t* block, int p) { return static_cast<int8_t>(block[192 + p]); }
    static BK_HD void put(uint8_t* block, int p, int scale) { block[192 + p] = static_cast<uint8_t>(scale); }
};

template <>
struct Encoder<Q6K> : SignedSubBlocks<Integers<32>, PackedBytes, 16, 128, 208, 9> {
    static BK_HD void pack(uint8_t* block, const uint8_t* codes, int p) {
        for (int i = 8 * p; i < 8 * p + 8; ++i) {
            const uint8_t* const from = codes + i / 64 * 128 + i % 64;
            block[i] = static_cast<uint8_t>((from[0] & 15) | from[64] << 4);
        }
        for (int i = 4 * p; i < 4 * p + 4; ++i) block[128 + i] = four_twobits(codes, i, 4);
    }
    static BK_HD void poison(uint8_t* block) { clear_block<Q6K::kBytes>(block), store_nan(block + 208); }
};

// Six bits with 32 added, in twelve bytes: sub-blocks are put in order, on cleared bytes.
struct PackedThird {
    static BK_HD int get(const uint8_t* block, int p) {
        const uint8_t* const scales = block + 96;
        return ((scales[p % 8] >> (p / 8 * 4) & 15) | (scales[8 + p % 4] >> (p / 4 * 2) & 3) << 4) - 32;
    }
    static BK_HD void put(uint8_t* block, int p, int scale) {
        uint8_t* const scales = block + 96;
        const int bits = scale + 32;
        scales[p % 8] = static_cast<uint8_t>(scales[p % 8] | (bits & 15) << (p / 8 * 4));
        scales[8 + p % 4] = static_cast<uint8_t>(scales[8 + p % 4] | bits >> 4 << (p / 4 * 2));
    }
};

template <>
struct Encoder<Q3K> : SignedSubBlocks<Integers<4>, PackedThird, 16, 32, 108, 9> {
    static BK_HD void pack(uint8_t* block, const uint8_t* codes, int p) {
        for (int i = 2 * p; i < 2 * p + 2; ++i) block[i] = eight_bits(codes, i, 2);
        for (int i = 4 * p; i < 4 * p + 4; ++i) block[32 + i] = four_twobits(codes, i, 0);
    }
    static BK_HD void poison(uint8_t* block) { clear_block<Q3K::kBytes>(block), store_nan(block + 108); }
};

// --- Tables -----------------------------------------------------------------------------------------------------------

// Levels of iq4; an index is the number of midpoints below a value.
struct Iq4Levels {
    static constexpr float kFirst = -127.f, kStep = 1.f;
    static BK_HD float level(int index) {
        return static_cast<float>(static_cast<int8_t>(iq4_codes(static_cast<uint32_t>(index)) & 255u));
    }
    static BK_HD int index(float x) {
        constexpr float kMidpoints[15] = {-115.5f, -93.5f, -74.f, -57.f, -42.f, -28.5f, -16.f, -4.5f,
                                          7.f,     19.f,   31.5f, 45.5f, 61.f,  79.f,   101.f};
        int below = 0;
        BK_UNROLL
        for (int i = 0; i < 15; ++i) below += x > kMidpoints[i];
        return below;
    }
};

struct PackedIq4 {
    static BK_HD int get(const uint8_t* block, int p) {
        return (nibble(block + 4, p) | static_cast<int>(load2(block + 2) >> (2 * p) & 3u) << 4) - 32;
    }
    static BK_HD void put(uint8_t* block, int p, int scale) {
        const int bits = scale + 32;
        block[4 + p / 2] = static_cast<uint8_t>(block[4 + p / 2] | (bits & 15) << (p % 2 * 4));
        block[2 + p / 4] = static_cast<uint8_t>(block[2 + p / 4] | bits >> 4 << (p % 4 * 2));
    }
};

template <>
struct Encoder<Iq4Xs> : SignedSubBlocks<Iq4Levels, PackedIq4, 8, 32, 0, 7> {
    static BK_HD void pack(uint8_t* block, const uint8_t* codes, int p) {
        for (int i = 0; i < 16; ++i)
            block[8 + 16 * p + i] = static_cast<uint8_t>((codes[32 * p + i] & 15) | codes[32 * p + 16 + i] << 4);
    }
    static BK_HD void poison(uint8_t* block) { clear_block<Iq4Xs::kBytes>(block), store_nan(block); }
};

template <>
struct Encoder<Iq4Nl> : FittedSubBlocks<32, Weights::kSquare> {
    static BK_HD Fit fit(const SubBlock<32>& sub_block) { return symmetric_fit<Iq4Levels>(sub_block, 7); }
    static BK_HD void head(uint8_t* block, const Fit* fits, float unit) { store_f16(block, mul(fits->scale, 1.f / unit)); }
    static BK_HD SubBlockSums codes(const uint8_t* block, const Fit*, int, const SubBlock<32>& sub_block, float unit,
                                    uint8_t* out) {
        const float inverse = reciprocal(mul(load_f16(block), unit));
        float levels[32];
        for (int i = 0; i < 32; ++i) {
            const int index = Iq4Levels::index(mul(sub_block.x[i], inverse));
            out[i] = static_cast<uint8_t>(index);
            levels[i] = Iq4Levels::level(index);
        }
        return sums_of(sub_block, levels);
    }
    static BK_HD void refit(uint8_t* block, const SubBlockSums* sums, float unit) {
        if (sums->ll > 0.f && sums->lx != 0.f) store_f16(block, mul(sums->lx / sums->ll, 1.f / unit));
    }
    static BK_HD void pack(uint8_t* block, const uint8_t* codes, int) {
        for (int i = 0; i < 16; ++i) block[2 + i] = static_cast<uint8_t>((codes[i] & 15) | codes[i + 16] << 4);
    }
    static BK_HD void poison(uint8_t* block) { clear_block<Iq4Nl::kBytes>(block), store_nan(block); }
};

// --- q8_K: the value of the largest magnitude is -127 times the scale -------------------------------------------------

template <>
struct Encoder<Q8K> {
    static constexpr int kSubBlock = 32;
    static constexpr bool kRefits = false, kScaled = false;
    static BK_HD void weights(SubBlock<32>*, const float*, float) {}
    static BK_HD Fit fit(const SubBlock<32>& sub_block) { return {extreme(sub_block.x), 0.f, 0.f, 0.f}; }
    static BK_HD float inverse(const Fit* fits) {
        float most = 0.f;
        for (int p = 0; p < 8; ++p) most = fabsf(fits[p].scale) > fabsf(most) ? fits[p].scale : most;
        const float found = -127.f / most;
        return most != 0.f && fabsf(found) <= 3.4028234e38f ? found : 0.f;
    }
    static BK_HD void head(uint8_t* block, const Fit* fits, float) {
        const float of_block = inverse(fits);
        const uint32_t bits = bit_cast<uint32_t>(of_block != 0.f ? 1.f / of_block : 0.f);
        for (int i = 0; i < 4; ++i) block[i] = static_cast<uint8_t>(bits >> (8 * i));
    }
    static BK_HD void codes(const uint8_t*, const Fit* fits, int, const SubBlock<32>& sub_block, float, uint8_t* out) {
        const float of_block = inverse(fits);
        for (int i = 0; i < 32; ++i)
            out[i] = static_cast<uint8_t>(static_cast<int>(nearest(mul(of_block, sub_block.x[i]), -127.f, 127.f)));
    }
    static BK_HD void pack(uint8_t* block, const uint8_t* codes, int p) {
        for (int i = 32 * p; i < 32 * p + 32; ++i) block[4 + i] = codes[i];
        for (int g = 2 * p; g < 2 * p + 2; ++g) {
            int sum = 0;
            for (int i = 0; i < 16; ++i) sum += static_cast<int8_t>(codes[16 * g + i]);
            block[260 + 2 * g] = static_cast<uint8_t>(sum);
            block[261 + 2 * g] = static_cast<uint8_t>(sum >> 8);
        }
    }
    static BK_HD void poison(uint8_t* block) {
        clear_block<Q8K::kBytes>(block);
        block[2] = 0xc0, block[3] = 0x7f;
    }
};

}  // namespace bk::codec
