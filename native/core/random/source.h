// SPDX-License-Identifier: Apache-2.0
// Sources of the numbers of a call: a seed and an offset by value, or a state in device memory.
//
// Element i takes number offset + i of the seed's stream (core/random/philox.h): one word, or two for 64-bit results.
// With a state {seed, block} the seed is the state's, and numbers count from its block, so that replays of a CUDA graph
// that advance the block draw other numbers. Elements that reject a number take more words from blocks of their own, whose
// counters have the attempt and the words of a number in the upper half.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/platform.h"
#include "core/random/philox.h"
#include "core/types/dtype.h"

namespace bk {

template <int Words>
using WordStream = RandomStream<std::conditional_t<Words == 1, float, double>>;

// Words of `Count` numbers from number offset + i on, which begins a block. The number wraps around at 2^64.
template <int Count, class Stream>
BK_HD void words_of_blocks(const Stream& stream, uint64_t i, uint32_t* words) {
    BK_UNROLL
    for (int n = 0; n < Count; n += Stream::kNumbers)
        stream.template block_words<Stream::kNumbers>(i + static_cast<unsigned>(n), words + n * Stream::kWords);
}

// Sets words[slot] of an array in registers, which have no index.
template <int Count>
BK_HD void set_slot(uint32_t* words, int slot, uint32_t word) {
    BK_UNROLL
    for (int k = 0; k < Count; ++k) words[k] = k == slot ? word : words[k];
}

struct RandomSource {
    uint64_t seed, offset;
    const int64_t* state;  // on the device; may be null

    template <int Words>
    BK_HD WordStream<Words> stream() const {
        if (state == nullptr) return {seed, offset};
        return {static_cast<uint64_t>(state[0]), static_cast<uint64_t>(state[1]) * WordStream<Words>::kNumbers + offset};
    }
};

// The element of number `number`, and more words for it, by attempt from 1 on.
struct MoreWords {
    uint64_t seed, number;
    uint32_t words;  // of a number
    int64_t element;
    BK_HD PhiloxBlock operator()(uint32_t attempt) const {
        return philox_block(seed, number, static_cast<uint64_t>(words) << 32 | attempt);
    }
};

template <int Words>
BK_HD uint64_t combined_words(const uint32_t* word) {
    if constexpr (Words == 1)
        return word[0];
    else
        return static_cast<uint64_t>(word[1]) << 32 | word[0];
}

// A uniform number u of (0, 1), the midpoint of one of 2^32 or 2^52 intervals, by its distances: t = min(u, 1 - u) and
// x = 2 u - 1, each precise near its zero. `side` is 1 for u > 1/2, else -1: a number, which vector loops keep in the lanes
// of the others.
template <class C>
struct Midpoint;

template <>
struct Midpoint<float> {
    static constexpr int kWords = 1;
    float t, side, x;

    static BK_HD Midpoint of(const uint32_t* words) {
        const uint32_t word = words[0];
        const uint32_t flip = static_cast<uint32_t>(static_cast<int32_t>(word) >> 31);
        const float folded = static_cast<float>(static_cast<int32_t>(word ^ flip));
        const float centred = static_cast<float>(static_cast<int32_t>(word ^ 0x80000000u));
        return {folded * 0x1p-32f + 0x1p-33f, bit_cast<float>(0x3f800000u | (~word & 0x80000000u)),
                centred * 0x1p-31f + 0x1p-32f};
    }
    BK_HD bool is_upper() const { return side > 0.0f; }
    // u, rounded, up to 1.
    static BK_HD float whole(const uint32_t* words) { return static_cast<float>(words[0]) * 0x1p-32f + 0x1p-33f; }
    static BK_HD bool is_above_3_4(const uint32_t* words) { return (~words[0] & 0xc0000000u) == 0; }
};

template <>
struct Midpoint<double> {
    static constexpr int kWords = 2;
    double t, side, x;

    // The bits as the fraction of a number in [1, 2): exact, and without a conversion of 64 bits.
    static BK_HD Midpoint of(const uint32_t* words) {
        constexpr uint64_t kOne = uint64_t{1023} << 52, kHalf = uint64_t{1} << 51;
        const uint64_t whole = combined_words<2>(words), bits = whole >> 12;
        const uint64_t flip = 0 - (whole >> 63);
        const uint64_t folded = (bits ^ flip) & (kHalf - 1);
        const double t = bit_cast<double>(kOne | folded) - (1.0 - 0x1p-53);
        const double side = bit_cast<double>(kOne | (~whole & uint64_t{1} << 63));
        return {t, side, side * (1.0 - 2.0 * t)};
    }
    BK_HD bool is_upper() const { return side > 0.0; }
    static BK_HD double whole(const uint32_t* words) {
        const Midpoint u = of(words);
        return u.is_upper() ? 1.0 - u.t : u.t;
    }
    static BK_HD bool is_above_3_4(const uint32_t* words) { return (~words[1] & 0xc0000000u) == 0; }
};

// A multiple of 2^-kDigits in [0, 1).
template <int kDigits>
BK_HD float half_open(const uint32_t* words, float) {
    return static_cast<float>(static_cast<int32_t>(words[0] >> (32 - kDigits))) * bit_cast<float>((127u - kDigits) << 23);
}

template <int kDigits>
BK_HD double half_open(const uint32_t* words, double) {
    static_assert(kDigits == 53, "f64 has 53 digits");
    // 52 bits by a fraction of [1, 2), and the last one.
    const uint64_t bits = combined_words<2>(words) >> 11;
    const double u = bit_cast<double>(uint64_t{1023} << 52 | bits >> 1) - 1.0;
    return u + ((bits & 1) != 0 ? 0x1p-53 : 0.0);
}

}  // namespace bk
