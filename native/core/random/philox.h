// SPDX-License-Identifier: Apache-2.0
// Philox 4x32-10, a counter-based generator (Salmon, Moraes, Dror and Shaw 2011): any number of a stream is computed
// without those before it and is the same on every target.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace bk {

struct PhiloxBlock {
    uint32_t word[4];
};

namespace philox {

constexpr int kRounds = 10;
constexpr uint32_t kFirstMultiplier = 0xD2511F53u, kSecondMultiplier = 0xCD9E8D57u;
constexpr uint32_t kFirstWeyl = 0x9E3779B9u, kSecondWeyl = 0xBB67AE85u;

BK_HD uint64_t wide_product(uint32_t a, uint32_t b) {
#if BK_ON_GPU
    uint64_t product;  // the compiler would add a zero to each upper half
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
    return product;
#else
    return uint64_t{a} * b;
#endif
}

}  // namespace philox

// The block of a 128-bit counter whose first two words are `low`.
BK_HD PhiloxBlock philox_block(uint64_t key, uint64_t low, uint64_t high) {
    using namespace philox;
    uint32_t c[4] = {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
                     static_cast<uint32_t>(high >> 32)};
    uint32_t k[2] = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
    BK_UNROLL
    for (int round = 0; round < kRounds; ++round) {
        const uint64_t first = wide_product(kFirstMultiplier, c[0]), second = wide_product(kSecondMultiplier, c[2]);
        const uint32_t next[4] = {static_cast<uint32_t>(second >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(second),
                                  static_cast<uint32_t>(first >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(first)};
        for (int i = 0; i < 4; ++i) c[i] = next[i];
        k[0] += kFirstWeyl;
        k[1] += kSecondWeyl;
    }
    return {{c[0], c[1], c[2], c[3]}};
}

// Uniform in (0, 1). f32: (word + 1/2) / 2^32 rounded to f32, at most 1 - 2^-24; f64: midpoints of 2^52 intervals.
template <class C>
struct UniformOf;

template <>
struct UniformOf<float> {
    static constexpr int kWords = 1;
    static BK_HD float of(const uint32_t* word) {
        const float u = static_cast<float>(word[0]) * 0x1p-32f + 0x1p-33f;
        return u < 1.0f ? u : 1.0f - 0x1p-24f;
    }
};

template <>
struct UniformOf<double> {
    static constexpr int kWords = 2;
    static BK_HD double of(const uint32_t* word) {
        const uint64_t bits = static_cast<uint64_t>(word[1]) << 32 | word[0];
        return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
    }
};

// Number i of a seed's stream; a Philox block holds kNumbers of them, at counter i / kNumbers.
template <class C>
struct RandomStream {
    static constexpr int kWords = UniformOf<C>::kWords, kNumbers = 4 / kWords;
    uint64_t seed, offset;

    // Words of `Count` numbers from index `offset + i` on, a multiple of kNumbers.
    template <int Count>
    BK_HD void block_words(uint64_t i, uint32_t* words) const {
        constexpr int kBlocks = Count / kNumbers;
        BK_UNROLL
        for (int b = 0; b < kBlocks; ++b) {
            const PhiloxBlock block = philox_block(seed, (offset + i) / kNumbers + static_cast<unsigned>(b), 0);
            for (int k = 0; k < 4; ++k) words[4 * b + k] = block.word[k];
        }
    }
    // Words of one number.
    BK_HD void words(uint64_t i, uint32_t* words) const {
        const uint64_t number = offset + i;
        const PhiloxBlock block = philox_block(seed, number / kNumbers, 0);
        const unsigned lane = static_cast<unsigned>(number % kNumbers) * kWords;
        for (int w = 0; w < kWords; ++w) {
            uint32_t selected = block.word[w];
            for (int k = kWords; k < 4; k += kWords) selected = lane == static_cast<unsigned>(k) ? block.word[k + w] : selected;
            words[w] = selected;
        }
    }
};

}  // namespace bk
