// SPDX-License-Identifier: Apache-2.0
// Arithmetic of matrix elements beyond linalg/scalar.h: constants of the real types, scaling, and plane rotations.
#pragma once

#include <type_traits>

#include "core/math/limits.h"
#include "linalg/scalar.h"

namespace bk::linalg::spectral {

template <class R>
BK_HD Complex<R> operator*(R a, Complex<R> b) {
    return {a * b.re, a * b.im};
}
template <class R>
BK_HD Complex<R>& operator+=(Complex<R>& a, Complex<R> b) {
    return a = a + b;
}
template <class R>
BK_HD Complex<R>& operator-=(Complex<R>& a, Complex<R> b) {
    return a = a - b;
}

BK_HD float absolute(float x) { return fabsf(x); }
BK_HD double absolute(double x) { return fabs(x); }
BK_HD float root(float x) { return sqrtf(x); }
BK_HD double root(double x) { return sqrt(x); }
template <class R>
BK_HD R larger(R a, R b) {
    return a < b ? b : a;
}
template <class R>
BK_HD R smaller(R a, R b) {
    return b < a ? b : a;
}
// The larger one, or infinity if b is NaN.
template <class R>
BK_HD R larger_or_infinite(R a, R b) {
    return b <= a ? a : b == b ? b : R(INFINITY);
}
// |a| with the sign of b.
template <class R>
BK_HD R with_sign(R a, R b) {
    return b < 0 ? -absolute(a) : absolute(a);
}

// max(|re|, |im|): never overflows, 0 for 0 alone, NaN for NaN.
BK_HD float largest_part(float x) { return absolute(x); }
BK_HD double largest_part(double x) { return absolute(x); }
template <class R>
BK_HD R largest_part(Complex<R> x) {
    const R re = absolute(x.re), im = absolute(x.im);
    return re >= im || re != re ? re : im;
}

template <class E>
BK_HD E element_of(real_t<E> re, [[maybe_unused]] real_t<E> im = 0) {
    if constexpr (kIsComplex<E>)
        return {re, im};
    else
        return re;
}

// Roundoff (half the distance of 1 to the next number), and bounds of what can be squared: a sum of squares below kFloor has
// lost digits to underflow.
template <class R>
struct Numbers;
template <>
struct Numbers<float> {
    static constexpr float kRoundoff = 5.9604645e-8f, kFloor = 1e-30f, kTiny = 1e-36f, kHuge = 1e30f, kWide = 1e15f;
};
template <>
struct Numbers<double> {
    static constexpr double kRoundoff = 1.1102230246251565e-16, kFloor = 1e-290, kTiny = 1e-300, kHuge = 1e290, kWide = 1e145;
};

// 2^-k, with 2^k the power of two below x, as far as it is a normal number; 1 for 0 and what is not finite. Scaling by it
// is exact.
BK_HD float inverse_power(float x) {
    const uint32_t exponent = bit_cast<uint32_t>(x) >> 23 & 0xff;
    if (x == 0 || exponent == 0xff) return 1;
    const uint32_t inverse = exponent == 0 ? 253u : exponent >= 253 ? 1u : 254u - exponent;
    return bit_cast<float>(inverse << 23);
}
BK_HD double inverse_power(double x) {
    const uint64_t exponent = bit_cast<uint64_t>(x) >> 52 & 0x7ff;
    if (x == 0 || exponent == 0x7ff) return 1;
    const uint64_t inverse = exponent == 0 ? 2045u : exponent >= 2045 ? 1u : 2046u - exponent;
    return bit_cast<double>(inverse << 52);
}

template <class R>
BK_HD bool is_finite(R x) {
    return x - x == 0;
}

// NaN in each part.
template <class E>
BK_HD E nan_of() {
    return element_of<E>(kNaN<real_t<E>>, kNaN<real_t<E>>);
}

// The rotation [c s; -s c] [f; g] = [r; 0].
template <class R>
struct Rotation {
    R c, s, r;

    static BK_HD Rotation of(R f, R g) {
        if (g == 0) return {R(1), R(0), f};
        if (f == 0) return {R(0), R(1), g};
        const R squares = f * f + g * g;
        if (squares > Numbers<R>::kFloor && squares < Numbers<R>::kHuge) {
            const R r = root(squares), inverse = 1 / r;
            return {f * inverse, g * inverse, r};
        }
        const R scale = inverse_power(larger(absolute(f), absolute(g)));
        const R scaled_f = f * scale, scaled_g = g * scale, r = root(scaled_f * scaled_f + scaled_g * scaled_g);
        return {scaled_f / r, scaled_g / r, r / scale};
    }
};

}  // namespace bk::linalg::spectral
