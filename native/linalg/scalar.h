// SPDX-License-Identifier: Apache-2.0
// Scalars of linear algebra: float, double, and complex numbers of these with arithmetic.
//
// Division and modulus of complex numbers scale first, so that they overflow only where the result does (Smith 1962).
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "core/math/math.h"
#include "core/types/complex.h"

namespace bk::linalg {

using std::fabs;
using std::frexp;
using std::ldexp;
using std::log;
using std::sqrt;

template <class R>
struct alignas(2 * sizeof(R)) Complex {
    R re, im;

    Complex() = default;
    BK_HD Complex(R real, R imaginary = R(0)) : re(real), im(imaginary) {}
};

template <class R>
BK_HD Complex<R> operator+(Complex<R> a, Complex<R> b) {
    return {a.re + b.re, a.im + b.im};
}
template <class R>
BK_HD Complex<R> operator-(Complex<R> a, Complex<R> b) {
    return {a.re - b.re, a.im - b.im};
}
template <class R>
BK_HD Complex<R> operator-(Complex<R> a) {
    return {-a.re, -a.im};
}
template <class R>
BK_HD Complex<R> operator*(Complex<R> a, Complex<R> b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class R>
BK_HD Complex<R> operator*(Complex<R> a, R b) {
    return {a.re * b, a.im * b};
}
template <class R>
BK_HD Complex<R> operator/(Complex<R> a, R b) {
    return {a.re / b, a.im / b};
}
template <class R>
BK_HD Complex<R> operator/(Complex<R> a, Complex<R> b) {
    const bool is_real = fabs(b.re) >= fabs(b.im);
    const R large = is_real ? b.re : b.im, ratio = large == R(0) ? R(0) : (is_real ? b.im : b.re) / large;
    const R scale = is_real ? b.re + b.im * ratio : b.im + b.re * ratio;
    return is_real ? Complex<R>{(a.re + a.im * ratio) / scale, (a.im - a.re * ratio) / scale}
                   : Complex<R>{(a.re * ratio + a.im) / scale, (a.im * ratio - a.re) / scale};
}
template <class R>
BK_HD bool operator==(Complex<R> a, Complex<R> b) {
    return a.re == b.re && a.im == b.im;
}

// c + a b and c - a b, with one rounding of each real product and sum.
template <class R>
BK_HD R add_product(R c, R a, R b) {
    return math::fma(a, b, c);
}
template <class R>
BK_HD R subtract_product(R c, R a, R b) {
    return math::fma(-a, b, c);
}
template <class R>
BK_HD Complex<R> add_product(Complex<R> c, Complex<R> a, Complex<R> b) {
    return {math::fma(-a.im, b.im, math::fma(a.re, b.re, c.re)), math::fma(a.im, b.re, math::fma(a.re, b.im, c.im))};
}
template <class R>
BK_HD Complex<R> subtract_product(Complex<R> c, Complex<R> a, Complex<R> b) {
    return {math::fma(a.im, b.im, math::fma(-a.re, b.re, c.re)), math::fma(-a.im, b.re, math::fma(-a.re, b.im, c.im))};
}

// The scalar of a dtype: T itself, or a complex number with arithmetic.
template <class T>
struct ScalarOf {
    using type = T;
};
template <>
struct ScalarOf<c32> {
    using type = Complex<float>;
};
template <>
struct ScalarOf<c64> {
    using type = Complex<double>;
};
template <class T>
using scalar_t = typename ScalarOf<T>::type;

template <class S>
struct RealOf {
    using type = S;
};
template <class R>
struct RealOf<Complex<R>> {
    using type = R;
};
template <class S>
using real_t = typename RealOf<S>::type;

template <class S>
constexpr bool kIsComplex = !std::is_same_v<S, real_t<S>>;

BK_HD float conj(float x) { return x; }
BK_HD double conj(double x) { return x; }
template <class R>
BK_HD Complex<R> conj(Complex<R> x) {
    return {x.re, -x.im};
}
template <class S>
BK_HD S conj_if(bool conjugates, S x) {
    return conjugates ? conj(x) : x;
}

BK_HD float real(float x) { return x; }
BK_HD double real(double x) { return x; }
template <class R>
BK_HD R real(Complex<R> x) {
    return x.re;
}
BK_HD float imaginary(float) { return 0.0f; }
BK_HD double imaginary(double) { return 0.0; }
template <class R>
BK_HD R imaginary(Complex<R> x) {
    return x.im;
}

BK_HD float square(float x) { return x * x; }
BK_HD double square(double x) { return x * x; }
template <class R>
BK_HD R square(Complex<R> x) {
    return x.re * x.re + x.im * x.im;
}

// sqrt(a^2 + b^2) without overflow and underflow of the squares.
template <class R>
BK_HD R hypotenuse(R a, R b) {
    a = fabs(a);
    b = fabs(b);
    const R large = a > b ? a : b, small = a > b ? b : a;
    if (large == R(0) || !(large < R(INFINITY))) return large + small;
    const R ratio = small / large;
    return large * sqrt(R(1) + ratio * ratio);
}

BK_HD float modulus(float x) { return fabsf(x); }
BK_HD double modulus(double x) { return fabs(x); }
template <class R>
BK_HD R modulus(Complex<R> x) {
    return hypotenuse(x.re, x.im);
}

// |re| + |im|, by which pivots are compared.
BK_HD float size_of_pivot(float x) { return fabsf(x); }
BK_HD double size_of_pivot(double x) { return fabs(x); }
template <class R>
BK_HD R size_of_pivot(Complex<R> x) {
    return fabs(x.re) + fabs(x.im);
}

template <class R>
constexpr R kEpsilon = R(0);
template <>
constexpr float kEpsilon<float> = FLT_EPSILON;
template <>
constexpr double kEpsilon<double> = DBL_EPSILON;

// The least normal number: squares of numbers above its root, and below the root of its inverse, neither overflow nor lose
// bits.
template <class R>
constexpr R kLeastNormal = R(0);
template <>
constexpr float kLeastNormal<float> = FLT_MIN;
template <>
constexpr double kLeastNormal<double> = DBL_MIN;

template <class S>
BK_HD S not_a_number() {
    return S(real_t<S>(NAN));
}
template <class R>
BK_HD void make_nan(R& x) {
    x = R(NAN);
}
template <class R>
BK_HD void make_nan(Complex<R>& x) {
    x = {R(NAN), R(NAN)};
}

}  // namespace bk::linalg
