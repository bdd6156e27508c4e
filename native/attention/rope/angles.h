// SPDX-License-Identifier: Apache-2.0
// Angles of rotary position embeddings, position * base^(-i / pairs) for pair i, at any 64-bit position.
//
// Angles are fixed-point fractions of 2 pi with 128 bits for f32 and 192 for f64, as in Payne-Hanek reduction: modulo
// one revolution the error is below 2^-54 revolutions at the largest position for f32, and below 2^-118 for f64. Only
// the reduced angle becomes a float. Frequencies are powers of base^(-1 / pairs), a root that Newton's iteration finds
// on the host.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/platform.h"

namespace bk {

BK_HD uint64_t product_high(uint64_t a, uint64_t b) {
#if BK_ON_GPU
    return __umul64hi(a, b);
#else
    return static_cast<uint64_t>((static_cast<unsigned __int128>(a) * b) >> 64);
#endif
}

// Fixed-point fraction in 64-bit words, highest first: sum of word[k] 2^(-64 (k + 1)).
template <int W>
struct WideFraction {
    uint64_t word[W];

    // Adds to word `at` and propagates carries.
    BK_HD void add(int at, uint64_t more) {
        for (int k = W - 1; k >= 0; --k) {
            if (k > at) continue;
            word[k] += more;
            more = word[k] < more ? 1 : 0;
        }
    }
    // Truncated product; the error is a few units in the last place.
    BK_HD WideFraction operator*(const WideFraction& b) const {
        WideFraction result{};
        for (int i = 0; i < W; ++i)
            for (int j = 0; j < W - i; ++j) {
                result.add(i + j, product_high(word[i], b.word[j]));
                if (i + j + 1 < W) result.add(i + j + 1, word[i] * b.word[j]);
            }
        return result;
    }
    // 2 x modulo 1.
    BK_HD WideFraction doubled() const {
        WideFraction result;
        for (int k = 0; k < W; ++k) result.word[k] = word[k] << 1 | (k + 1 < W ? word[k + 1] >> 63 : 0);
        return result;
    }
};

// fraction * 2^exponent with a normalised fraction; the fraction may be 0, and exponent kNaN means NaN.
template <int W>
struct WideFloat {
    static constexpr int32_t kNaN = INT32_MAX;
    WideFraction<W> fraction;
    int32_t exponent;

    BK_HD WideFloat operator*(const WideFloat& b) const {
        if (exponent == kNaN || b.exponent == kNaN) return {{}, kNaN};
        const WideFraction<W> product = fraction * b.fraction;
        if (product.word[0] >> 63) return {product, exponent + b.exponent};
        return {product.doubled(), exponent + b.exponent - 1};
    }
};

// Reduced angle in [-1/8, 1/8) revolutions, `high 2^-64 + low 2^-128`, and the quarter revolutions subtracted.
struct ReducedAngle {
    int64_t high;
    uint64_t low;
    uint32_t quarters;
};

// Words of an angle for compute type C.
template <class C>
constexpr int kAngleWords = sizeof(C) == 8 ? 3 : 2;

// Frequencies of the pairs, in revolutions per position.
template <int W>
struct RotaryFrequencies {
    static constexpr int kPowers = 30;  // pairs < 2^30
    WideFloat<W> power[kPowers];        // ratio^(2^k)

    static RotaryFrequencies of(double base, int64_t pairs);

    BK_HD WideFloat<W> at(int64_t pair) const {
        WideFloat<W> result{{}, -2};  // 1 / (2 pi)
        result.fraction.word[0] = 0xa2f9836e4e441529u;
        result.fraction.word[1] = W == 2 ? 0xfc2757d1f534ddc1u : 0xfc2757d1f534ddc0u;
        if constexpr (W > 2) result.fraction.word[2] = 0xdb6295993c439041u;
        for (int k = 0; pair >> k != 0; ++k)
            if (pair >> k & 1) result = result * power[k];
        return result;
    }
    BK_HD WideFloat<W> after(const WideFloat<W>& frequency) const { return frequency * power[0]; }
};

// position * frequency modulo one revolution.
template <int W>
BK_HD ReducedAngle reduce_angle(int64_t position, const WideFloat<W>& frequency) {
    const uint64_t size = position < 0 ? uint64_t{0} - static_cast<uint64_t>(position) : static_cast<uint64_t>(position);
    // The product is 2^64 * words * 2^exponent; shifting left drops whole revolutions.
    WideFraction<W + 1> angle{};
    for (int k = 0; k < W; ++k) {
        angle.add(k, product_high(size, frequency.fraction.word[k]));
        angle.add(k + 1, size * frequency.fraction.word[k]);
    }
    int32_t shift = frequency.exponent;  // left shift
    for (int steps = 0; shift <= -64 && steps <= W; shift += 64, ++steps) {
        for (int k = W; k > 0; --k) angle.word[k] = angle.word[k - 1];
        angle.word[0] = 0;
    }
    for (int steps = 0; shift >= 64 && steps <= W; shift -= 64, ++steps) {
        for (int k = 0; k < W; ++k) angle.word[k] = angle.word[k + 1];
        angle.word[W] = 0;
    }
    if (shift <= -64 || shift >= 64) {
        angle = {};
    } else if (shift < 0) {
        for (int k = W; k > 0; --k) angle.word[k] = angle.word[k] >> -shift | angle.word[k - 1] << (64 + shift);
    } else if (shift > 0) {
        for (int k = 1; k < W; ++k) angle.word[k] = angle.word[k] << shift | angle.word[k + 1] >> (64 - shift);
        angle.word[W] <<= shift;
    }
    uint64_t high = angle.word[1], low = angle.word[2];
    if (position < 0) {
        uint64_t sticky = 0;  // nonzero if lower words stop the carry of the negation
        for (int k = 3; k <= W; ++k) sticky |= angle.word[k];
        low = ~low + (sticky == 0 ? 1 : 0);
        high = ~high + (low == 0 && sticky == 0 ? 1 : 0);
    }
    const uint64_t quarters = (high + (uint64_t{1} << 61)) >> 62;
    return {static_cast<int64_t>(high - (quarters << 62)), low, static_cast<uint32_t>(quarters)};
}

template <class C>
struct CosSin {
    C cos, sin;
};

// Taylor series for |r| <= pi / 4; the truncation error is below 2^-28 (f32) and 2^-63 (f64).
BK_HD CosSin<float> cos_sin_reduced(float r) {
    const float s = r * r;
    const float sine = r + r * s * (-0.166666667f + s * (8.33333333e-3f + s * (-1.98412698e-4f + s * 2.75573192e-6f)));
    const float cosine =
        1.0f - s * (0.5f - s * (4.16666667e-2f - s * (1.38888889e-3f - s * (2.48015873e-5f - s * 2.75573192e-7f))));
    return {cosine, sine};
}

BK_HD CosSin<double> cos_sin_reduced(double r) {
    const double s = r * r;
    const double p =
        -1.9841269841269841e-4 + s * (2.7557319223985893e-6 - s * (2.5052108385441720e-8 - s * 1.6059043836821613e-10));
    const double far = 7.6471637318198164e-13 - s * 2.8114572543455206e-15;  // 15! and 17!
    const double sine = r + r * s * (-0.16666666666666666 + s * (8.3333333333333332e-3 + s * (p - s * s * s * s * far)));
    const double q =
        -1.3888888888888889e-3 + s * (2.4801587301587302e-5 - s * (2.7557319223985888e-7 - s * 2.0876756987868099e-9));
    const double end = 1.1470745597729725e-11 - s * (4.7794773323873853e-14 - s * 1.5619206968586225e-16);  // 14! to 18!
    const double half = 0.5 * s, head = 1.0 - half;
    const double series = 4.1666666666666664e-2 + s * (q - s * s * s * s * end);
    return {head + ((1.0 - head - half) + s * s * series), sine};
}

// cos and sin of the angle of a position.
template <class C, int W>
BK_HD CosSin<C> cos_sin(int64_t position, const WideFloat<W>& frequency) {
    if (frequency.exponent == WideFloat<W>::kNaN) return {static_cast<C>(NAN), static_cast<C>(NAN)};
    const ReducedAngle reduced = reduce_angle(position, frequency);
    const C fraction = static_cast<C>(reduced.high) + static_cast<C>(reduced.low) * C(0x1p-64);
    const C r = fraction * static_cast<C>(0x1.921fb54442d18p-62);
    const CosSin<C> of_reduced = cos_sin_reduced(r);
    const bool swaps = (reduced.quarters & 1) != 0;
    const C cosine = swaps ? of_reduced.sin : of_reduced.cos, sine = swaps ? of_reduced.cos : of_reduced.sin;
    return {((reduced.quarters + 1) & 2) != 0 ? -cosine : cosine, (reduced.quarters & 2) != 0 ? -sine : sine};
}

// --- on the host -------------------------------------------------------------------------------------------------------

// x is positive and finite.
template <int W>
WideFloat<W> wide_float(double x) {
    int exponent;
    const double fraction = std::frexp(x, &exponent);
    WideFloat<W> result{{}, exponent};
    result.fraction.word[0] = static_cast<uint64_t>(std::ldexp(fraction, 64));
    return result;
}

// x^n for n >= 1.
template <int W>
WideFloat<W> wide_power(WideFloat<W> x, int64_t n) {
    for (; n % 2 == 0; n /= 2) x = x * x;
    WideFloat<W> result = x;
    while ((n /= 2) > 0) {
        x = x * x;
        if (n % 2 == 1) result = result * x;
    }
    return result;
}

// 1 - x modulo 1.
template <int W>
WideFraction<W> negative(WideFraction<W> x) {
    for (uint64_t& word : x.word) word = ~word;
    x.add(W - 1, 1);
    return x;
}

template <int W>
WideFraction<W> divided(WideFraction<W> x, int64_t n) {
    unsigned __int128 remainder = 0;
    for (uint64_t& word : x.word) {
        remainder = remainder << 64 | word;
        word = static_cast<uint64_t>(remainder / static_cast<uint64_t>(n));
        remainder %= static_cast<uint64_t>(n);
    }
    return x;
}

// a + b; *carries is set if the sum is >= 1.
template <int W>
WideFraction<W> sum_of(const WideFraction<W>& a, const WideFraction<W>& b, bool* carries) {
    WideFraction<W> result;
    unsigned __int128 carry = 0;
    for (int k = W - 1; k >= 0; --k) {
        carry += static_cast<unsigned __int128>(a.word[k]) + b.word[k];
        result.word[k] = static_cast<uint64_t>(carry);
        carry >>= 64;
    }
    *carries = carry != 0;
    return result;
}

// x (1 + e / n), e = 1 - estimate, for an estimate close to 1.
template <int W>
WideFloat<W> corrected(const WideFloat<W>& x, const WideFloat<W>& estimate, int64_t n) {
    const bool above = estimate.exponent > 0;  // in [1, 2), where the last place counts twice
    const WideFraction<W> size = above ? estimate.fraction.doubled() : negative(estimate.fraction);
    const WideFraction<W> step = divided(x.fraction * size, n);
    bool carries = false;
    WideFraction<W> after = sum_of(x.fraction, above ? negative(step) : step, &carries);
    if (above && !(after.word[0] >> 63)) return {after.doubled(), x.exponent - 1};
    if (!above && carries) {
        for (int k = W - 1; k >= 0; --k)
            after.word[k] = after.word[k] >> 1 | (k > 0 ? after.word[k - 1] << 63 : uint64_t{1} << 63);
        return {after, x.exponent + 1};
    }
    return {after, x.exponent};
}

// base^(-1 / pairs) as pow(): NaN for a negative base and for 0, whose power is infinite; 0 for an infinite base.
template <int W>
WideFloat<W> rotary_ratio(double base, int64_t pairs) {
    if (!(base > 0)) return {{}, WideFloat<W>::kNaN};
    if (std::isinf(base)) return {{}, 0};
    WideFloat<W> ratio = wide_float<W>(std::pow(base, -1.0 / static_cast<double>(pairs)));
    const WideFloat<W> wide_base = wide_float<W>(base);
    for (int step = 0; step < W + 1; ++step)  // correct bits: 50, then 99 minus log2(pairs), and so on
        ratio = corrected(ratio, wide_base * wide_power(ratio, pairs), pairs);
    return ratio;
}

template <int W>
RotaryFrequencies<W> RotaryFrequencies<W>::of(double base, int64_t pairs) {
    RotaryFrequencies result{};
    if (pairs < 1) return result;
    WideFloat<W> power = rotary_ratio<W>(base, pairs);
    for (int k = 0; k < kPowers && pairs >> k != 0; ++k, power = power * power) result.power[k] = power;
    return result;
}

}  // namespace bk
