// SPDX-License-Identifier: Apache-2.0
// Words of consecutive numbers of a stream, made by vector loops over Philox blocks.
#pragma once

#include <cstdint>

#include "core/compiler_cpu.h"
#include "core/random/source.h"

namespace bk {

constexpr int kBlocksTogether = 16;  // Philox blocks of a vector loop: the lanes of a 512-bit vector

BK_HD uint32_t high_of_product(uint32_t a, uint32_t b) { return static_cast<uint32_t>(static_cast<uint64_t>(a) * b >> 32); }

// Words of kBlocksTogether blocks from `counter` on, which wraps around behind `last`. Rounds are the outer loop, so that each
// word of all blocks is a vector in a register.
BK_HD void philox_blocks(uint64_t key, uint64_t counter, uint64_t last, uint32_t* words) {
    using namespace philox;
    alignas(64) uint32_t a[kBlocksTogether], b[kBlocksTogether], c[kBlocksTogether] = {}, d[kBlocksTogether] = {};
    BK_CHUNK_LOOP
    for (int i = 0; i < kBlocksTogether; ++i) {
        const uint64_t at = (counter + static_cast<unsigned>(i)) & last;
        a[i] = static_cast<uint32_t>(at);
        b[i] = static_cast<uint32_t>(at >> 32);
    }
    uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < kRounds; ++round) {
        BK_CHUNK_LOOP
        for (int i = 0; i < kBlocksTogether; ++i) {
            const uint32_t first = high_of_product(kFirstMultiplier, a[i]), first_low = kFirstMultiplier * a[i];
            const uint32_t second = high_of_product(kSecondMultiplier, c[i]), second_low = kSecondMultiplier * c[i];
            a[i] = second ^ b[i] ^ k0;
            c[i] = first ^ d[i] ^ k1;
            b[i] = second_low;
            d[i] = first_low;
        }
        k0 += kFirstWeyl;
        k1 += kSecondWeyl;
    }
    BK_CHUNK_LOOP
    for (int i = 0; i < kBlocksTogether; ++i) {
        words[4 * i] = a[i];
        words[4 * i + 1] = b[i];
        words[4 * i + 2] = c[i];
        words[4 * i + 3] = d[i];
    }
}

template <int Words, int Numbers>
struct WordBuffer {
    using Stream = WordStream<Words>;
    static constexpr int kNumbers = Numbers;
    static constexpr uint64_t kLast = ~uint64_t{0} / Stream::kNumbers;  // block, that of number 2^64 - 1
    static constexpr int kBlocks = Numbers / Stream::kNumbers + 1;      // an offset may lie within a block
    static constexpr int kMade = (kBlocks + kBlocksTogether - 1) / kBlocksTogether * kBlocksTogether;
    alignas(64) uint32_t word[4 * kMade];
    int lead;  // words before the first number

    // The words of `count` numbers from number offset + i of the stream on, at most kNumbers.
    BK_HD void fill(const Stream& stream, uint64_t i, int64_t count) {
        const uint64_t number = stream.offset + i, first = number / Stream::kNumbers;
        const int before = static_cast<int>(number % Stream::kNumbers);
        lead = before * Words;
        const int64_t blocks = (before + count + Stream::kNumbers - 1) / Stream::kNumbers;
        for (int64_t b = 0; b < blocks; b += kBlocksTogether)
            philox_blocks(stream.seed, first + static_cast<uint64_t>(b), kLast, word + 4 * b);
    }
    BK_HD const uint32_t* of(int64_t k) const { return word + lead + k * Words; }
};

}  // namespace bk
