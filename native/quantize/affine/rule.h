// SPDX-License-Identifier: Apache-2.0
// Affine quantisation of one element: x is about scale * (code - zero point).
//
//   code = clamp(round(x / scale) + zero point, q_min, q_max), rounding to nearest even (Jacob et al. 2018, arXiv 1712.05877)
//
// Two rules exist. The first multiplies by 1 / scale, rounds, and adds the zero point as an integer; the second divides,
// adds the zero point and then rounds, so that ties differ where the zero point is odd, and a scale of 0 gives quotients
// of 0. NaN quantises to the zero point, infinities to the ends of the range. The gradient passes where the code is in the
// range (a straight-through estimator, arXiv 1308.3432): ends included under the first rule, excluded under the second.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/math/math.h"
#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk::quantize {

// The range of codes, and which rule applies.
struct Rule {
    int32_t q_min, q_max;
    bool adds_first;  // the second rule: per token and per group
};

// The range that codes of type U have in common with the caller's.
template <class U>
BK_HD Rule rule_for(int32_t q_min, int32_t q_max, bool adds_first) {
    constexpr int32_t lowest = std::is_same_v<U, int8_t> ? -128 : std::is_same_v<U, s4x2> ? -8 : 0;
    constexpr int32_t highest = std::is_same_v<U, int8_t>    ? 127
                                : std::is_same_v<U, uint8_t> ? 255
                                : std::is_same_v<U, s4x2>    ? 7
                                                             : 15;
    const auto within = [](int32_t q) { return q < lowest ? lowest : q > highest ? highest : q; };
    return {within(q_min), within(q_max), adds_first};
}

// a if the mask is -1, b if it is 0.
BK_HD int32_t masked(int32_t mask, int32_t a, int32_t b) { return (a & mask) | (b & ~mask); }

// a - b within the range of int32_t.
BK_HD int32_t difference(int32_t a, int32_t b) {
    const int32_t wrapped = static_cast<int32_t>(static_cast<uint32_t>(a) - static_cast<uint32_t>(b));
    const int32_t overflows = ((a ^ b) & (a ^ wrapped)) >> 31, end = (a >> 31) ^ INT32_MAX;
    return masked(overflows, end, wrapped);
}

// x rounded to the nearest integer, ties to even, within the range of int32_t; NaN gives 0.
template <class C>
BK_HD int32_t round_to_int(C x) {
    constexpr C lowest = C(-0x1p31), highest = sizeof(C) == 8 ? C(2147483647) : C(2147483520);
    const C number = math::select(math::isnan(x), C(0), x);
    return static_cast<int32_t>(math::rint<C>(math::min(math::max(number, lowest), highest)));
}

// A scale and a zero point with what follows from them.
template <class C>
struct Affine {
    C scale, inverse;  // inverse: 1 / scale, of the first rule
    int32_t zero;
    int32_t low, high;  // the range less what is added behind rounding, within that of int32_t
    int32_t q_min, q_max;
    bool adds_first;

    // -1 under the second rule, else 0: integers are chosen by masks, since vector loops must not branch.
    BK_HD static int32_t mask_of(bool adds_first) { return -static_cast<int32_t>(adds_first); }

    BK_HD Affine(const Rule& rule, C scale_of, int32_t zero_of)
        : scale(scale_of),
          inverse(math::either(
              rule.adds_first, [] { return C(0); }, [&] { return C(1) / scale_of; })),
          zero(zero_of),
          low(masked(mask_of(rule.adds_first), rule.q_min, difference(rule.q_min, zero_of))),
          high(masked(mask_of(rule.adds_first), rule.q_max, difference(rule.q_max, zero_of))),
          q_min(rule.q_min),
          q_max(rule.q_max),
          adds_first(rule.adds_first) {}

    BK_HD C quotient(C x) const {
        return math::either(
            adds_first, [&] { return math::select(scale == C(0), C(0), x / scale); }, [&] { return x * inverse; });
    }
    BK_HD static int32_t within(int32_t q, int32_t low, int32_t high) {
        const int32_t raised = q < low ? low : q;
        return raised > high ? high : raised;
    }

    BK_HD int32_t code(C x) const {
        const C steps = quotient(x), number = math::select(math::isnan(steps), C(0), steps);
        const int32_t q = round_to_int(math::select(adds_first, number + static_cast<C>(zero), number));
        return within(within(q, low, high) + (zero & ~mask_of(adds_first)), q_min, q_max);
    }
    // The nearest number that has a code.
    BK_HD C nearest(C x) const { return scale * static_cast<C>(within(round_to_int(quotient(x)), low, high)); }

    // Whether the gradient passes at x. The zero point counts as an integer under both rules.
    BK_HD bool passes(C x, const Rule& rule) const {
        const int32_t q = round_to_int(quotient(x));
        const int32_t lowest = difference(rule.q_min, zero), highest = difference(rule.q_max, zero);
        const int32_t inside = -static_cast<int32_t>((q >= lowest) & (q <= highest));
        const int32_t at_end = -static_cast<int32_t>((q == lowest) | (q == highest));
        return (inside & ~(at_end & mask_of(adds_first))) != 0;
    }
    BK_HD C over_scale(C dy) const {
        return math::either(
            adds_first, [&] { return math::select(scale == C(0), C(0), dy / scale); }, [&] { return dy * inverse; });
    }
};

// scale * (code - zero). The difference is exact in the compute type for |zero| < 2^24 (f32), and rounded once beyond.
template <class C>
BK_HD C dequantized(int32_t code, C scale, int32_t zero) {
    return scale * static_cast<C>(difference(code, zero));
}

}  // namespace bk::quantize
