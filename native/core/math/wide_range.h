// SPDX-License-Identifier: Apache-2.0
// Numbers beyond the range of their type: scaled sums, and products as mantissa and exponent.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/math/limits.h"
#include "core/math/math.h"
#include "core/platform.h"

namespace bk {

template <class C>
BK_HD bool is_finite(C x) {
    return math::fabs<C>(x) <= kGreatest<C>;
}

// Scale by which sums of up to 2^40 f32 summands, and of any number of f64 ones, do not overflow.
template <class C>
constexpr C kScale = std::is_same_v<C, double> ? C(0x1p-64) : C(0x1p-40f);

template <class C>
constexpr C kMinNormal = std::numeric_limits<C>::min();

// mantissa * 2^exponent; the mantissa is in [1, 2), or it is 0, an infinity or NaN.
template <class C>
struct WideNumber {
    C mantissa, exponent;

    // x is not subnormal.
    static BK_HD WideNumber of_normal(C x) {
        using Bits = std::conditional_t<std::is_same_v<C, double>, uint64_t, uint32_t>;
        constexpr int kDigits = std::is_same_v<C, double> ? 52 : 23, kMost = std::is_same_v<C, double> ? 2047 : 255;
        constexpr Bits kField = Bits(kMost) << kDigits, kOne = Bits(kMost / 2) << kDigits;
        const Bits bits = bit_cast<Bits>(x);
        const int field = static_cast<int>((bits & kField) >> kDigits);
        const bool has_exponent = bool(int(field != 0) & int(field != kMost));
        return {math::select(has_exponent, bit_cast<C>(Bits((bits & ~kField) | kOne)), x),
                math::select(has_exponent, static_cast<C>(field - kMost / 2), C(0))};
    }
    static BK_HD WideNumber of(C x) {
        constexpr C kUp = std::is_same_v<C, double> ? C(0x1p+64) : C(0x1p+32f);
        const bool is_tiny = math::fabs<C>(x) < kMinNormal<C>;
        const WideNumber wide = of_normal(is_tiny ? x * kUp : x);
        const C shift = std::is_same_v<C, double> ? C(64) : C(32);
        return {wide.mantissa, is_tiny && x != C(0) ? wide.exponent - shift : wide.exponent};
    }
    friend BK_HD WideNumber operator*(const WideNumber& a, const WideNumber& b) {
        const WideNumber product = of_normal(a.mantissa * b.mantissa);
        return {product.mantissa, product.exponent + a.exponent + b.exponent};
    }
    friend BK_HD WideNumber operator/(const WideNumber& a, const WideNumber& b) {
        const WideNumber quotient = of_normal(a.mantissa / b.mantissa);
        return {quotient.mantissa, quotient.exponent + (a.exponent - b.exponent)};
    }
    // Rounded once.
    BK_HD C value() const {
        constexpr C kMost = std::is_same_v<C, double> ? C(2200) : C(300);
        const C bounded = math::max(math::min(exponent, kMost), -kMost);
        return ::ldexp(mantissa, static_cast<int>(bounded));
    }
};

}  // namespace bk
