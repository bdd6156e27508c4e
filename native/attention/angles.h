// Angles of rotary position embeddings: position times base^(-i / pairs), for pair i, at any 64-bit position.
//
// A frequency is kept in turns, as a number of 128 digits, and so is what a position makes of it modulo one turn: its error is
// below 2^-54 of a turn at the largest position, and below 2^-77 up to 2^40. Only what is left of the turn becomes a float.
// Frequencies are powers of one ratio, base^(-1 / pairs), the root that Newton's iteration finds on the host.
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

// Two words of 64 bits, the fraction (high 2^64 + low) 2^-128.
struct WideFraction {
    uint64_t high, low;

    // Cut, not rounded: up to 3 2^-128 less than the product.
    BK_HD WideFraction operator*(const WideFraction& b) const {
        WideFraction result{product_high(high, b.high), high * b.high};
        result.add(product_high(high, b.low));
        result.add(product_high(low, b.high));
        return result;
    }
    BK_HD void add(uint64_t more) {
        low += more;
        high += low < more ? 1 : 0;
    }
};

// fraction 2^exponent, where the highest bit of the fraction is set; 0 where no bit is; NaN where the exponent says so.
struct WideFloat {
    static constexpr int32_t kNaN = INT32_MAX;
    WideFraction fraction;
    int32_t exponent;

    BK_HD WideFloat operator*(const WideFloat& b) const {
        if (exponent == kNaN || b.exponent == kNaN) return {{0, 0}, kNaN};
        const WideFraction product = fraction * b.fraction;
        if (product.high >> 63) return {product, exponent + b.exponent};
        return {{product.high << 1 | product.low >> 63, product.low << 1}, exponent + b.exponent - 1};
    }
};

// A part of a turn, in [-1/8, 1/8) turns as `high 2^-64 + low 2^-128`, and the quarter turns before it.
struct TurnPart {
    int64_t high;
    uint64_t low;
    uint32_t quarters;
};

// Frequencies of the pairs, in turns a position.
struct RotaryFrequencies {
    static constexpr int kPowers = 30;  // pairs < 2^30
    WideFloat power[kPowers];           // ratio^(2^k)

    static RotaryFrequencies of(double base, int64_t pairs);

    BK_HD WideFloat at(int64_t pair) const {
        WideFloat result{{0xa2f9836e4e441529u, 0xfc2757d1f534ddc1u}, -2};  // 1 / (2 pi)
        for (int k = 0; pair >> k != 0; ++k)
            if (pair >> k & 1) result = result * power[k];
        return result;
    }
    BK_HD WideFloat after(const WideFloat& frequency) const { return frequency * power[0]; }
};

// The product of a position and a frequency, less whole turns.
BK_HD TurnPart turn_of(int64_t position, const WideFloat& frequency) {
    const uint64_t size = position < 0 ? uint64_t{0} - static_cast<uint64_t>(position) : static_cast<uint64_t>(position);
    // The product is (next, high, low) of 64 bits each, of which the lower 128 - exponent are the fraction.
    WideFraction upper{product_high(size, frequency.fraction.high), size * frequency.fraction.high};
    upper.add(product_high(size, frequency.fraction.low));
    uint64_t next = upper.high, high = upper.low, low = size * frequency.fraction.low;
    int32_t shift = -frequency.exponent;
    for (; shift >= 64 && (high | next) != 0; shift -= 64) {
        low = high;
        high = next;
        next = 0;
    }
    for (; shift <= -64 && (high | low) != 0; shift += 64) {
        high = low;
        low = 0;
    }
    if (shift > 0 && shift < 64) {
        low = low >> shift | high << (64 - shift);
        high = high >> shift | next << (64 - shift);
    } else if (shift < 0 && shift > -64) {
        high = high << -shift | low >> (64 + shift);
        low <<= -shift;
    } else if (shift != 0) {
        low = high = 0;
    }
    if (position < 0) {
        high = ~high + (low == 0 ? 1 : 0);
        low = uint64_t{0} - low;
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
template <class C>
BK_HD CosSin<C> cos_sin(int64_t position, const WideFloat& frequency) {
    if (frequency.exponent == WideFloat::kNaN) return {static_cast<C>(NAN), static_cast<C>(NAN)};
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
inline WideFloat wide_float(double x) {
    int exponent;
    const double fraction = std::frexp(x, &exponent);
    return {{static_cast<uint64_t>(std::ldexp(fraction, 64)), 0}, exponent};
}

// x^n for n >= 1.
inline WideFloat wide_power(WideFloat x, int64_t n) {
    for (; n % 2 == 0; n /= 2) x = x * x;
    WideFloat result = x;
    while ((n /= 2) > 0) {
        x = x * x;
        if (n % 2 == 1) result = result * x;
    }
    return result;
}

// x (1 + e / n) with e = 1 - near, where near is close to 1.
inline WideFloat corrected(const WideFloat& x, const WideFloat& near, int64_t n) {
    using Digits = unsigned __int128;
    const auto digits = [](const WideFraction& f) { return static_cast<Digits>(f.high) << 64 | f.low; };
    const auto fraction = [](Digits d) { return WideFraction{static_cast<uint64_t>(d >> 64), static_cast<uint64_t>(d)}; };
    const bool above = near.exponent > 0;  // in [1, 2), where the last digit is worth twice as much
    const Digits size = above ? (digits(near.fraction) << 1) : Digits{0} - digits(near.fraction);
    const Digits step = digits(x.fraction * fraction(size)) / static_cast<Digits>(n);
    const Digits before = digits(x.fraction), after = above ? before - step : before + step;
    if (above && !(after >> 127)) return {fraction(after << 1), x.exponent - 1};
    if (!above && after < before) return {fraction(after >> 1 | Digits{1} << 127), x.exponent + 1};
    return {fraction(after), x.exponent};
}

// base^(-1 / pairs); NaN as pow() has it for a negative base and for 0, whose power is infinite; 0 for an infinite one.
inline WideFloat rotary_ratio(double base, int64_t pairs) {
    if (!(base > 0)) return {{0, 0}, WideFloat::kNaN};
    if (std::isinf(base)) return {{0, 0}, 0};
    WideFloat ratio = wide_float(std::pow(base, -1.0 / static_cast<double>(pairs)));
    const WideFloat wide_base = wide_float(base);
    for (int step = 0; step < 3; ++step)  // from 50 correct digits to 99 less those of `pairs`, and on
        ratio = corrected(ratio, wide_base * wide_power(ratio, pairs), pairs);
    return ratio;
}

inline RotaryFrequencies RotaryFrequencies::of(double base, int64_t pairs) {
    RotaryFrequencies result{};
    if (pairs < 1) return result;
    WideFloat power = rotary_ratio(base, pairs);
    for (int k = 0; k < kPowers && pairs >> k != 0; ++k, power = power * power) result.power[k] = power;
    return result;
}

}  // namespace bk
