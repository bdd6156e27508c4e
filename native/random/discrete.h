// SPDX-License-Identifier: Apache-2.0
// Random integers, bits and Bernoulli variables. The kernels know the width of an element alone.
#pragma once

#include <cstdint>
#include <limits>

#include "core/platform.h"
#include "core/random/advance.h"
#include "core/random/draw.h"
#include "core/types/dtype.h"
#include "random/probability.h"
#include "random/real.h"

namespace bk {

namespace dist {

// low + the upper half of word * range, without bias: a number is rejected if the lower half is below 2^w mod range
// (Lemire, "Fast random integer generation in an interval", 2019). A range of 0 stands for 2^w.
template <class Bits>
struct Integers {
    static constexpr int kWords = sizeof(Bits) == 8 ? 2 : 1;
    uint64_t range, threshold;
    Bits low;

    BK_HD Bits unchecked(const uint32_t* word) const {
        if constexpr (kWords == 1) {
            return static_cast<Bits>(low + static_cast<Bits>(word[0] * range >> 32));
        } else {
            const uint64_t bits = combined_words<2>(word);
            return low + (range == 0 ? bits : high_of_product(bits));
        }
    }
    BK_HD bool rejects(const uint32_t* word) const {
        if constexpr (kWords == 1)
            return static_cast<uint32_t>(word[0] * range) < threshold;
        else
            return combined_words<2>(word) * range < threshold;
    }
    BK_HD Bits operator()(const uint32_t* word, const MoreWords& more) const {
        uint32_t current[kWords];
        for (int w = 0; w < kWords; ++w) current[w] = word[w];
        for (uint32_t attempt = 1; rejects(current); ++attempt) {
            const PhiloxBlock block = more(attempt);
            for (int w = 0; w < kWords; ++w) current[w] = block.word[w];
        }
        return unchecked(current);
    }

private:
    BK_HD uint64_t high_of_product(uint64_t bits) const {
#if BK_ON_GPU
        return __umul64hi(bits, range);
#else
        return static_cast<uint64_t>(static_cast<unsigned __int128>(bits) * range >> 64);
#endif
    }
};

// `one` with a probability, else 0.
template <class Bits>
struct Bernoulli {
    static constexpr int kWords = 1;
    Probability p;
    Bits one;

    BK_HD Bits operator()(const uint32_t* word, const MoreWords&) const { return p.holds(word[0]) ? one : Bits(0); }
};

}  // namespace dist

template <class T>
struct RandomIntegers {
    int64_t numel;
    int64_t low;
    int64_t high;
    uint64_t seed;
    uint64_t offset;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        BK_TRY(require_non_negative({{"numel", numel}}));
        if (!(low < high))
            return fail(Status::kInvalidProblem, "low is %lld, must be below high, %lld", (long long)low, (long long)high);
        if constexpr (sizeof(T) < 8) {
            constexpr int64_t least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
            if (low < least || high - 1 > most)
                return fail(Status::kInvalidProblem, "low is %lld and high %lld, must be in [%lld, %lld]", (long long)low,
                            (long long)high, (long long)least, (long long)most + 1);
        }
        return Status::kOk;
    }
    Status run(const int64_t* state, T* y, const Launch& launch) const {
        using Bits = bits_t<T>;
        const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
        const uint64_t threshold = sizeof(T) == 8 ? (0 - range) % range : (uint64_t{1} << 32) % range;
        const dist::Integers<Bits> functor{range, threshold, static_cast<Bits>(low)};
        return draw(launch, numel, functor, {seed, offset, state}, reinterpret_cast<Bits*>(y));
    }
};

template <class T>
struct RandomBits {
    int64_t numel;
    uint64_t seed;
    uint64_t offset;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}}); }
    Status run(const int64_t* state, T* y, const Launch& launch) const {
        using Bits = bits_t<T>;
        const dist::Integers<Bits> functor{sizeof(T) == 8 ? 0 : uint64_t{1} << 8 * sizeof(T), 0, Bits(0)};
        return draw(launch, numel, functor, {seed, offset, state}, reinterpret_cast<Bits*>(y));
    }
};

struct RandomAdvance {
    int64_t blocks;

    Work work() const { return Work::kAll; }
    Status check() const { return Status::kOk; }
    Status run(int64_t* state, const Launch& launch) const { return advance(launch, blocks, state); }
};

template <class T>
struct RandomBernoulli {
    int64_t numel;
    double p;
    uint64_t seed;
    uint64_t offset;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        BK_TRY(require_non_negative({{"numel", numel}}));
        return require_probability(p);
    }
    Status run(const int64_t* state, T* y, const Launch& launch) const {
        using Bits = bits_t<T>;
        const dist::Bernoulli<Bits> functor{Probability::of(p), bit_cast<Bits>(narrow<T>(compute_t<T>(1)))};
        return draw(launch, numel, functor, {seed, offset, state}, reinterpret_cast<Bits*>(y));
    }
};

}  // namespace bk
