// SPDX-License-Identifier: Apache-2.0
// Words for pointwise functors that know their index (core/pointwise/pointwise.h): element i has one word, that of number
// offset + i, or of number offset + i / shared where `shared` consecutive elements have one number.
#pragma once

#include <cstdint>

#include "core/math/fastdiv.h"
#include "core/platform.h"
#include "core/random/source.h"
#if !BK_IN_KERNEL
#include "core/random/word_buffer_cpu.h"
#endif

namespace bk {

#if BK_IN_KERNEL
// Words of up to 16 bytes of elements: whole blocks, if the first number begins one.
template <int Lanes>
struct WordSegment {
    static constexpr int kLanes = Lanes < 4 ? 4 : Lanes;
    uint32_t words[kLanes];
    int64_t count;

    BK_HD uint32_t word(int64_t k) const { return words[k]; }
    BK_HD void fill(const WordStream<1>& stream, int64_t i) {
        if ((stream.offset + static_cast<uint64_t>(i)) % 4 == 0) {
            stream.template block_words<kLanes>(static_cast<uint64_t>(i), words);
            count = kLanes;
        } else {
            stream.words(static_cast<uint64_t>(i), words);
            count = 1;
        }
    }
    BK_HD void fill_with_one(const WordStream<1>& stream, int64_t number, int64_t remaining) {
        stream.words(static_cast<uint64_t>(number), words);
        BK_UNROLL
        for (int k = 1; k < kLanes; ++k) words[k] = words[0];
        count = remaining < kLanes ? remaining : kLanes;
    }
};
#else
template <int Lanes>
struct WordSegment {
    static constexpr int kNumbers = 512;
    WordBuffer<1, kNumbers> buffer;
    int64_t count;

    BK_HD uint32_t word(int64_t k) const { return *buffer.of(k); }
    BK_HD void fill(const WordStream<1>& stream, int64_t i) {
        buffer.fill(stream, static_cast<uint64_t>(i), kNumbers);
        count = kNumbers;
    }
    BK_HD void fill_with_one(const WordStream<1>& stream, int64_t number, int64_t remaining) {
        uint32_t word;
        stream.words(static_cast<uint64_t>(number), &word);
        buffer.lead = 0;
        for (int k = 0; k < kNumbers; ++k) buffer.word[k] = word;
        count = remaining < kNumbers ? remaining : kNumbers;
    }
};
#endif

}  // namespace bk
