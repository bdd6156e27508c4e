// SPDX-License-Identifier: Apache-2.0
// Weights, order and random draws of tokens.
//
// Weights are integers: a row's largest one is at least 2^(39 - narrowing), so that their sums are exact in 64 bits. The
// bits of a result then depend neither on the order of summation nor on how many blocks or threads share a row, and CPU and
// GPU agree. A token whose probability is below 2^-41 of the largest one has weight 0.
#pragma once

#include <cstdint>

#include "core/math/math.h"
#include "core/platform.h"
#include "core/random/philox.h"
#include "core/types/dtype.h"

namespace bk::sampling {

constexpr uint32_t kInfinityBits = 0x7f800000u;
constexpr int kMantissaShift = 16;  // a 24-bit mantissa at 2^40
constexpr float kLog2E = 0x1.715476p+0f;

// Unsigned integers in the order of floats; -0 equals +0. -inf has the lowest key of a number, which is above 0.
BK_HD uint32_t key_of(float x) {
    const uint32_t bits = bit_cast<uint32_t>(x + 0.0f);
    return bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) | 0x80000000u);
}

BK_HD float value_of(uint32_t key) { return bit_cast<float>(key & 0x80000000u ? key ^ 0x80000000u : ~key); }

// Whether x is NaN or +inf, which make a row invalid.
BK_HD bool is_refused(float x) { return !(x < bit_cast<float>(kInfinityBits)); }

// 2^-f for f in [0, 1], as an integer of 24 bits. Degree 6, fitted for relative error (2.2e-9 before rounding to f32). All
// operations are single ones of IEEE 754, so that every target has the same bits.
BK_HD uint32_t mantissa_of_exp2(float f) {
    float p = math::fma(0x1.c8e586p-14f, f, -0x1.4e17eep-10f);
    p = math::fma(p, f, 0x1.39e130p-7f);
    p = math::fma(p, f, -0x1.c6942cp-5f);
    p = math::fma(p, f, 0x1.ebfabap-3f);
    p = math::fma(p, f, -0x1.62e42cp-1f);
    p = math::fma(p, f, 1.0f);
    return static_cast<uint32_t>(static_cast<int32_t>(p * 0x1p24f));
}

// The map from the elements of a row to weights.
struct Weights {
    float largest;  // element of the row
    float factor;   // of logits: log2(e) / temperature
    int narrowing;  // bits that vocabularies of more than 2^22 tokens cost
    bool are_probabilities;

    // Weight of a logit: round(2^(40 - narrowing) exp((x - largest) / temperature)); of a probability: x over the power of
    // two of the largest one; both are truncated. Negative elements, of probabilities, have weight 0.
    BK_HD uint64_t of(float x) const {
        if (are_probabilities) {
            if (!(x > 0.0f)) return 0;
            const uint32_t bits = bit_cast<uint32_t>(x);
            const uint32_t exponent = bits >> 23;
            const uint32_t mantissa = exponent == 0 ? bits : (bits & 0x7fffffu) | 0x800000u;
            return shifted(mantissa, top_exponent() - static_cast<int>(exponent == 0 ? 1 : exponent));
        }
        const float octaves = math::product<float>(largest - x, factor);  // of which the weight is below the largest one
        if (!(octaves < 41.0f)) return 0;
        const int whole = static_cast<int>(octaves);
        return shifted(mantissa_of_exp2(octaves - static_cast<float>(whole)), whole);
    }
    // The weight of 1 among probabilities, before truncation.
    BK_HD double unit() const {
        return bit_cast<double>(static_cast<uint64_t>(1023 + 39 + 127 - narrowing - top_exponent()) << 52);
    }

private:
    BK_HD uint64_t shifted(uint32_t mantissa, int octaves) const {
        const int bits = octaves + narrowing;
        return bits > 40 ? 0 : static_cast<uint64_t>(mantissa) << kMantissaShift >> bits;
    }
    BK_HD int top_exponent() const {
        const int exponent = static_cast<int>(bit_cast<uint32_t>(largest) >> 23);
        return exponent == 0 ? 1 : exponent;
    }
};

// Sums of `vocab` weights stay below 2^62.
BK_HD int narrowing_for(int64_t vocab) {
    int bits = 0;
    while (int64_t{1} << (22 + bits) < vocab) ++bits;
    return bits;
}

// --- random draws ---

// Draws of one row: 32-bit word i of the Philox 4x32-10 stream of (seed, subsequence) from `offset` on, as in cuRAND.
struct Draws {
    uint64_t seed, subsequence, offset;

    BK_HD uint32_t word(uint64_t i) const {
        const uint64_t index = offset + i;
        const PhiloxBlock block = philox_block(seed, index / 4, subsequence);
        const unsigned lane = static_cast<unsigned>(index % 4);
        const uint32_t low = lane & 1 ? block.word[1] : block.word[0], high = lane & 1 ? block.word[3] : block.word[2];
        return lane & 2 ? high : low;
    }
    // Uniform in [0, total) by two words: the upper half of a 64-bit number times the total.
    BK_HD uint64_t below(uint64_t total, uint64_t i) const {
        const uint64_t high = word(i), low = word(i + 1), t1 = total >> 32, t0 = total & 0xffffffffu;
        const uint64_t middle = high * t0 + (low * t0 >> 32), cross = low * t1 + (middle & 0xffffffffu);
        return high * t1 + (middle >> 32) + (cross >> 32);
    }
    // Uniform in (0, 1] of a word: (word + 1) / 2^32 exactly.
    BK_HD double uniform(uint64_t i) const { return (static_cast<double>(word(i)) + 1.0) * 0x1p-32; }
};

}  // namespace bk::sampling
