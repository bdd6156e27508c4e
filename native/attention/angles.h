// Angles of rotary position embeddings: position times base^(-i / pairs), for pair i, at any 64-bit position.
//
// A frequency is kept in turns, as a number of 128 digits for f32 and of 192 for f64, and so is what a position makes of it
// modulo one turn: its error is below 2^-54 of a turn at the largest position for f32, and below 2^-118 for f64. Only what is
// left of the turn becomes a float. Frequencies are powers of one ratio, base^(-1 / pairs), the root that Newton's iteration
// finds on the host.
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

// Words of 64 bits, the highest first: the sum of word[k] 2^(-64 (k + 1)).
template <int W>
struct WideFraction {
    uint64_t word[W];

    // To word `at` and, by carries, those before it.
    BK_HD void add(int at, uint64_t more) {
        for (int k = W - 1; k >= 0; --k) {
            if (k > at) continue;
            word[k] += more;
            more = word[k] < more ? 1 : 0;
        }
    }
    // Cut, not rounded: a few units of the last word's last bit less than the product.
    BK_HD WideFraction operator*(const WideFraction& b) const {
        WideFraction result{};
        for (int i = 0; i < W; ++i)
            for (int j = 0; j < W - i; ++j) {
                result.add(i + j, product_high(word[i], b.word[j]));
                if (i + j + 1 < W) result.add(i + j + 1, word[i] * b.word[j]);
            }
        return result;
    }
    // Twice it, less what passes the first word.
    BK_HD WideFraction doubled() const {
        WideFraction result;
        for (int k = 0; k < W; ++k) result.word[k] = word[k] << 1 | (k + 1 < W ? word[k + 1] >> 63 : 0);
        return result;
    }
};

// fraction 2^exponent, where the highest bit of the fraction is set; 0 where no bit is; NaN where the exponent says so.
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

// A part of a turn, in [-1/8, 1/8) turns as `high 2^-64 + low 2^-128`, and the quarter turns before it.
struct TurnPart {
    int64_t high;
    uint64_t low;
    uint32_t quarters;
};

// Words in which angles of type C are found.
template <class C>
constexpr int kAngleWords = sizeof(C) == 8 ? 3 : 2;

// Frequencies of the pairs, in turns a position.
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

// The product of a position and a frequency, less whole turns.
template <int W>
BK_HD TurnPart turn_of(int64_t position, const WideFloat<W>& frequency) {
    const uint64_t size = position < 0 ? uint64_t{0} - static_cast<uint64_t>(position) : static_cast<uint64_t>(position);
    // The product is 2^64 (the words as a fraction), times 2^exponent; its whole turns go.
    WideFraction<W + 1> turn{};
    for (int k = 0; k < W; ++k) {
        turn.add(k, product_high(size, frequency.fraction.word[k]));
        turn.add(k + 1, size * frequency.fraction.word[k]);
    }
    int32_t shift = frequency.exponent;  // to the left
    for (int steps = 0; shift <= -64 && steps <= W; shift += 64, ++steps) {
        for (int k = W; k > 0; --k) turn.word[k] = turn.word[k - 1];
        turn.word[0] = 0;
    }
    for (int steps = 0; shift >= 64 && steps <= W; shift -= 64, ++steps) {
        for (int k = 0; k < W; ++k) turn.word[k] = turn.word[k + 1];
        turn.word[W] = 0;
    }
    if (shift <= -64 || shift >= 64) {
        turn = {};
    } else if (shift < 0) {
        for (int k = W; k > 0; --k) turn.word[k] = turn.word[k] >> -shift | turn.word[k - 1] << (64 + shift);
    } else if (shift > 0) {
        for (int k = 1; k < W; ++k) turn.word[k] = turn.word[k] << shift | turn.word[k + 1] >> (64 - shift);
        turn.word[W] <<= shift;
    }
    uint64_t high = turn.word[1], low = turn.word[2];
    if (position < 0) {
        uint64_t rest = 0;  // of the words below, which carry nothing where one of them has a bit
        for (int k = 3; k <= W; ++k) rest |= turn.word[k];
        low = ~low + (rest == 0 ? 1 : 0);
        high = ~high + (low == 0 && rest == 0 ? 1 : 0);
    }
    const uint64_t quarters = (high + (uint64_t{1} << 61)) >> 62;
    return {static_cast<int64_t>(high - (quarters << 62)), low, static_cast<uint32_t>(quarters)};
}

template <class C>
struct CosSin {
    C cos, sin;
};

// Of an angle of at most an eighth of a turn: the series, whose first term that is left out is below 2^-28, 2^-63.
BK_HD CosSin<float> cos_sin_of_eighth(float r) {
    const float s = r * r;
    const float sine = r + r * s * (-0.166666667f + s * (8.33333333e-3f + s * (-1.98412698e-4f + s * 2.75573192e-6f)));
    const float cosine =
        1.0f - s * (0.5f - s * (4.16666667e-2f - s * (1.38888889e-3f - s * (2.48015873e-5f - s * 2.75573192e-7f))));
    return {cosine, sine};
}

BK_HD CosSin<double> cos_sin_of_eighth(double r) {
    const double s = r * r;
    const double p =
        -1.9841269841269841e-4 + s * (2.7557319223985893e-6 - s * (2.5052108385441720e-8 - s * 1.6059043836821613e-10));
    const double far = 7.6471637318198164e-13 - s * 2.8114572543455206e-15;  // 15! and 17!
    const double sine = r + r * s * (-0.16666666666666666 + s * (8.3333333333333332e-3 + s * (p - s * s * s * s * far)));
    const double q =
        -1.3888888888888889e-3 + s * (2.4801587301587302e-5 - s * (2.7557319223985888e-7 - s * 2.0876756987868099e-9));
    const double end = 1.1470745597729725e-11 - s * (4.7794773323873853e-14 - s * 1.5619206968586225e-16);  // 14! to 18!
    const double half = 0.5 * s, rest = 1.0 - half;
    const double more = 4.1666666666666664e-2 + s * (q - s * s * s * s * end);
    return {rest + ((1.0 - rest - half) + s * s * more), sine};
}

// cos and sin of a position's angle.
template <class C, int W>
BK_HD CosSin<C> cos_sin(int64_t position, const WideFloat<W>& frequency) {
    if (frequency.exponent == WideFloat<W>::kNaN) return {static_cast<C>(NAN), static_cast<C>(NAN)};
    const TurnPart part = turn_of(position, frequency);
    const C rest = static_cast<C>(part.high) + static_cast<C>(part.low) * C(0x1p-64);
    const C r = rest * static_cast<C>(0x1.921fb54442d18p-62);
    const CosSin<C> of_rest = cos_sin_of_eighth(r);
    const bool swaps = (part.quarters & 1) != 0;
    const C cosine = swaps ? of_rest.sin : of_rest.cos, sine = swaps ? of_rest.cos : of_rest.sin;
    return {((part.quarters + 1) & 2) != 0 ? -cosine : cosine, (part.quarters & 2) != 0 ? -sine : sine};
}

// --- on the host -------------------------------------------------------------------------------------------------------

// Of a positive finite number.
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

// 1 - x modulo 1, which is -x.
template <int W>
WideFraction<W> negative(WideFraction<W> x) {
    for (uint64_t& word : x.word) word = ~word;
    x.add(W - 1, 1);
    return x;
}

template <int W>
WideFraction<W> divided(WideFraction<W> x, int64_t n) {
    unsigned __int128 rest = 0;
    for (uint64_t& word : x.word) {
        rest = rest << 64 | word;
        word = static_cast<uint64_t>(rest / static_cast<uint64_t>(n));
        rest %= static_cast<uint64_t>(n);
    }
    return x;
}

// a + b; *carries says whether that is 1 or more.
template <int W>
WideFraction<W> sum_of(const WideFraction<W>& a, const WideFraction<W>& b, bool* carries) {
    WideFraction<W> result;
    unsigned __int128 rest = 0;
    for (int k = W - 1; k >= 0; --k) {
        rest += static_cast<unsigned __int128>(a.word[k]) + b.word[k];
        result.word[k] = static_cast<uint64_t>(rest);
        rest >>= 64;
    }
    *carries = rest != 0;
    return result;
}

// x (1 + e / n) with e = 1 - near, where near is close to 1.
template <int W>
WideFloat<W> corrected(const WideFloat<W>& x, const WideFloat<W>& near, int64_t n) {
    const bool above = near.exponent > 0;  // in [1, 2), where the last digit is worth twice as much
    const WideFraction<W> size = above ? near.fraction.doubled() : negative(near.fraction);
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

// base^(-1 / pairs); NaN as pow() has it for a negative base and for 0, whose power is infinite; 0 for an infinite one.
template <int W>
WideFloat<W> rotary_ratio(double base, int64_t pairs) {
    if (!(base > 0)) return {{}, WideFloat<W>::kNaN};
    if (std::isinf(base)) return {{}, 0};
    WideFloat<W> ratio = wide_float<W>(std::pow(base, -1.0 / static_cast<double>(pairs)));
    const WideFloat<W> wide_base = wide_float<W>(base);
    for (int step = 0; step < W + 1; ++step)  // from 50 correct digits to 99 less those of `pairs`, and on
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
