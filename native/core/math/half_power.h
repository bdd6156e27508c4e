// SPDX-License-Identifier: Apache-2.0
// pow as 2^(b log2 a) with C99's special cases (annex F.10.4.4): for 16-bit types on both targets, in f32, whose error
// their rounding hides; for f32 on the CPU, in f64.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/math/math.h"
#include "core/types/dtype.h"

namespace bk::math {

// log2(x) for x >= 0, relative error 2^-22: k + 2 artanh(s) / ln 2, x = 2^k m, sqrt(1/2) <= m < sqrt(2), s = (m - 1) /
// (m + 1), by a minimax polynomial in s^2.
template <class T>
BK_HD float half_log2(float x) {
    constexpr uint32_t kRootHalf = 0x3f3504f3u;
    const bool tiny = std::is_same_v<T, bf16> && x < 0x1p-126f;
    const uint32_t above = bit_cast<uint32_t>(select(tiny, x * 0x1p24f, x)) - kRootHalf;
    const float k = static_cast<float>(static_cast<int32_t>(above) >> 23) - select(tiny, 24.0f, 0.0f);
    const float m = bit_cast<float>((above & 0x007fffffu) + kRootHalf);
    const float s = (m - 1.0f) * rough_reciprocal(m + 1.0f), z = s * s;
    const float series = fma(z, fma(z, fma(z, 0.43173591f, 0.57671438f), 0.96179885f), 2.88539008f);
    return select((x > 0.0f) & (x < INFINITY), fma(s, series, k), select(x == 0.0f, -INFINITY, x));
}

// sign * 2^exponent; `sign` is 1, -1 or NaN.
template <class L>
struct SignedPower {
    float sign;
    L exponent;
};
using HalfPower = SignedPower<float>;

// a^(b - kLess), given log2 |a|. In f32 b - kLess may round to an even number, so b decides the sign; for a = 0 or
// infinite the rounded one does, as for wider types.
template <class T, int kDecrement = 0, class L>
BK_HD SignedPower<L> half_power(float a, L log2_a, float b) {
    const float size = fabs<T>(a), e = kDecrement == 0 ? b : b - kDecrement, half = 0.5f * (kDecrement == 0 ? b : rint<T>(b));
    const bool one = (a == 1.0f) | (e == 0.0f), even_one = (size == 1.0f) & (fabs<T>(b) == INFINITY);
    const bool b_is_integer = trunc<T>(b) == b, differs = (floor<T>(half) != half) == (kDecrement % 2 == 0);
    const float end = kDecrement == 0 ? INFINITY : select((a == 0.0f) | (size == INFINITY), 0x1p24f, INFINITY);
    const bool integer = trunc<T>(e) == e, odd = integer & differs & (fabs<T>(e) < end);
    const bool undefined = (a < 0.0f) & (size < INFINITY) & !b_is_integer;
    const float sign = select(undefined, NAN, select(odd, copysign<T>(1.0f, a), 1.0f));
    return {select(one, 1.0f, sign), select(one | even_one, L(0), e * log2_a)};
}

template <class T>
BK_HD compute_t<T> pow(compute_t<T> a, compute_t<T> b) {
    if constexpr (std::is_same_v<T, double>) {
        return ::pow(a, b);
    } else if constexpr (std::is_same_v<T, float>) {
#if BK_CUDA
        return ::powf(a, b);
#else
        const SignedPower<double> y = half_power<T>(a, cpu::rough_log2_of_size(a), b);
        return y.sign * static_cast<float>(cpu::rough_exp2(cpu::bounded(y.exponent, -200.0, 200.0)));
#endif
    } else {
        const HalfPower y = half_power<T>(a, half_log2<T>(fabs<T>(a)), b);
        return y.sign * exp2<T>(y.exponent);
    }
}

}  // namespace bk::math
