// SPDX-License-Identifier: Apache-2.0
// Affine quantisation of f32 and 16-bit numbers in about ten instructions an element: scales and zero points of a usual size
// need no division, no conversion and no saturating integers. Results are those of quantize/affine/rule.h, bit for bit.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/math/math.h"
#include "core/types/dtype.h"
#include "quantize/affine/rule.h"

namespace bk::quantize {

// Added to a number of magnitude at most 2^22, this leaves its nearest integer, ties to even, in the low bits of the sum.
constexpr float kRounding = 0x1.8p23f;
constexpr uint32_t kRoundingBits = 0x4b400000u;

BK_HD bool is_small(int32_t i) { return i >= -(1 << 20) && i <= (1 << 20); }

// Code `i` of four in a word, behind the bits of kRounding: the f32 kRounding + code.
BK_HD float rounding_plus_code(uint32_t word, int i) {
#if BK_ON_GPU
    return bit_cast<float>(__byte_perm(word, kRoundingBits, 0x7650u | static_cast<uint32_t>(i)));
#else
    return bit_cast<float>(kRoundingBits | (word >> (8 * i) & 255u));
#endif
}

// A scale, a zero point and what follows from them.
template <class T>
struct FastAffine {
    using C = compute_t<T>;
    Rule rule;
    C scale;
    int32_t zero;
    bool is_fast;  // else the general form computes
    float reciprocal;
    float low, high;  // steps of the ends of the range under the first rule, codes under the second

    BK_HD FastAffine(const Rule& rule_of, C scale_of, int32_t zero_of) : rule(rule_of), scale(scale_of), zero(zero_of) {
        const C size = math::fabs<C>(scale_of);
        is_fast = std::is_same_v<C, float> && size >= C(0x1p-60) && size <= C(0x1p60) && is_small(zero_of) &&
                  is_small(rule.q_min) && is_small(rule.q_max);
        const int32_t behind = is_fast && !rule.adds_first ? zero_of : 0;
        reciprocal = 1.0f / static_cast<float>(scale_of);
        low = static_cast<float>(rule.q_min - behind);
        high = static_cast<float>(rule.q_max - behind);
    }
    BK_HD Affine<C> general() const { return {rule, scale, zero}; }

    // x / scale, or x * (1 / scale) under the first rule. Residuals round a quotient correctly (Markstein 1990): one those of
    // 16-bit operands, whose quotients are far from ties, two those of f32. Quotients beyond 2^30 may be off, which is beyond
    // all ranges, and so may those below 2^-40, which round alike.
    template <bool kAddsFirst>
    BK_HD float quotient(float x) const {
        const float s = static_cast<float>(scale), first = x * reciprocal;
        if constexpr (!kAddsFirst) return first;
        float q = math::fma(math::fma(-first, s, x), reciprocal, first);
        if constexpr (!math::kIsHalf<T>) q = math::fma(math::fma(-q, s, x), reciprocal, q);
        return math::fabs<float>(first) < 0x1p30f ? q : first;
    }
    // NaN gives 0.
    template <bool kAddsFirst>
    BK_HD float steps(float x) const {
        const float q = quotient<kAddsFirst>(x);
        return q == q ? q : 0.0f;
    }

    // The code's low bits.
    template <bool kAddsFirst>
    BK_HD uint32_t fast_code(float x) const {
        const float number = kAddsFirst ? steps<true>(x) + static_cast<float>(zero) : steps<false>(x);
        const uint32_t rounded = bit_cast<uint32_t>(fminf(fmaxf(number, low), high) + kRounding);
        return rounded + (kAddsFirst ? 0u : static_cast<uint32_t>(zero));  // the low bits of kRounding are zeros
    }
    template <bool kAddsFirst>
    BK_HD float fast_nearest(float x) const {
        return static_cast<float>(scale) * ((fminf(fmaxf(steps<kAddsFirst>(x), low), high) + kRounding) - kRounding);
    }
    template <bool kAddsFirst>
    BK_HD bool fast_passes(float x) const {
        const float rounded = (steps<kAddsFirst>(x) + kRounding) - kRounding;
        const int32_t inset = kAddsFirst ? 1 : 0;
        return rounded >= static_cast<float>(rule.q_min - zero + inset) &&
               rounded <= static_cast<float>(rule.q_max - zero - inset);
    }
};

// --- codes of a vector, a byte each, four in a word -------------------------------------------------------------------

template <int N>
struct CodeWords {
    static constexpr int kWords = (N + 3) / 4;
    uint32_t word[kWords];

    // Elements e to e + N - 1 of aligned codes; e is a multiple of N.
    BK_HD void load_from(const uint8_t* codes, bool is_packed, int64_t e) {
        if (is_packed) {
            Halves both{};
            const Vec<uint8_t, N / 2> bytes = load<N / 2>(codes + e / 2);
            memcpy(&both, &bytes, N / 2);
            BK_UNROLL
            for (int i = 0; i < kWords; ++i) word[i] = spread(both.word[i / 2] >> (16 * (i % 2)));
        } else {
            const Vec<uint8_t, N> bytes = load<N>(codes + e);
            memcpy(word, &bytes, N);
        }
    }
    BK_HD void store_to(uint8_t* codes, bool is_packed, int64_t e) const {
        if (is_packed) {
            Halves both{};
            BK_UNROLL
            for (int i = 0; i < kWords; ++i) both.word[i / 2] |= gather(word[i]) << (16 * (i % 2));
            Vec<uint8_t, N / 2> bytes;
            memcpy(&bytes, &both, N / 2);
            store<N / 2>(codes + e / 2, bytes);
        } else {
            Vec<uint8_t, N> bytes;
            memcpy(&bytes, word, N);
            store<N>(codes + e, bytes);
        }
    }

private:
    struct Halves {
        uint32_t word[(kWords + 1) / 2];
    };
    // Four codes of 4 bits, each in a byte, and back.
    BK_HD static uint32_t spread(uint32_t four) {
        const uint32_t pairs = ((four & 0xffffu) | four << 8) & 0x00ff00ffu;
        return (pairs | pairs << 4) & 0x0f0f0f0fu;
    }
    BK_HD static uint32_t gather(uint32_t bytes) {
        const uint32_t low = bytes & 0x0f0f0f0fu, pairs = (low | low >> 4) & 0x00ff00ffu;
        return (pairs | pairs >> 8) & 0xffffu;
    }
};

// N numbers as words, which the compiler does not split.
template <class T, int N>
struct NumberWords {
    using Word = typename WordOf<kVectorBytes>::type;
    static constexpr int kWords = N * static_cast<int>(sizeof(T)) / kVectorBytes;
    Word word[kWords];

    BK_HD void load_from(const T* x) {
        BK_UNROLL
        for (int i = 0; i < kWords; ++i) word[i] = reinterpret_cast<const Word*>(x)[i];
    }
    // Number i in f32.
    BK_HD float number(int i) const {
        constexpr int kLanes = kVectorLanes<T>;
        return static_cast<float>(widen_lane(bit_cast<Vec<T, kLanes>>(word[i / kLanes]), i % kLanes));
    }
};

}  // namespace bk::quantize
