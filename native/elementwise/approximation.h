// Building blocks of the functors that approximate a function themselves. All coefficients of this family were computed for
// it: minimax fits of the relative error by the Remez exchange in 40 digits, rounded.
#pragma once

#include <type_traits>

#include "core/dtype.h"
#include "core/math.h"

namespace bk::op {

// c0 + x (c1 + x (c2 + ...)).
template <class C>
BK_HD C polynomial(C, double c0) {
    return C(c0);
}

template <class C, class... Rest>
BK_HD C polynomial(C x, double c0, double c1, Rest... rest) {
    return math::fma(x, polynomial(x, c1, rest...), C(c0));
}

// n / d for d in [2^-126, 2^126].
template <class T>
BK_HD compute_t<T> quotient(compute_t<T> n, compute_t<T> d) {
    if constexpr (math::kIsHalf<T>)
        return n * math::reciprocal<T>(d);
    else
        return n / d;
}

// A constant in two parts; the argument is its rounding to double and what that leaves.
template <class C>
struct Split {
    C high;
    C low;
};

template <class C>
BK_HD constexpr Split<C> split(double high, double low) {
    if constexpr (std::is_same_v<C, double>) {
        return Split<C>{high, low};
    } else {
        const C rounded = static_cast<C>(high);
        return Split<C>{rounded, static_cast<C>((high - static_cast<double>(rounded)) + low)};
    }
}

// e^x = value scale. The value is normal wherever e^x is above the smallest subnormal number, so that a product loses no
// bits if the scale comes last; 1 + value is 1 + e^x, rounded.
template <class C>
struct ScaledExp {
    C value;
    C scale;
};

// For x <= 0. The 16-bit types' numbers are coarser than the subnormal numbers of f32: no scale.
template <class T>
BK_HD ScaledExp<compute_t<T>> scaled_exp(compute_t<T> x) {
    using C = compute_t<T>;
    if constexpr (math::kIsHalf<T>) {
        return ScaledExp<C>{math::exp<T>(x), C(1)};
    } else {
        // The sum is exact.
        constexpr bool kWide = std::is_same_v<C, double>;
        const bool deep = x < C(kWide ? -512 : -64);
        const C scale = C(kWide ? 1.603810890548638e-28 : 1.2664165549094176e-14);  // e^-64, e^-32
        return ScaledExp<C>{math::exp<T>(math::select(deep, x + C(kWide ? 64 : 32), x)), math::select(deep, scale, C(1))};
    }
}

// (2 artanh(s) - 2 s) / s with s^2 = z in [0, 1/9].
template <class T>
BK_HD compute_t<T> artanh_series(compute_t<T> z) {
    if constexpr (math::kIsHalf<T>)
        return z * polynomial(z, 0.66673557402, 0.39633818912, 0.33997450469);
    else if constexpr (std::is_same_v<T, float>)
        return z * polynomial(z, 0.66666413128, 0.40021699551, 0.27999132041, 0.28024504468);
    else
        return z * polynomial(z, 0.6666666666666630384, 0.4000000000015722277, 0.2857142854785661168, 0.2222222396956026121,
                              0.1818174393082278189, 0.1538655980150688000, 0.1330097512289355362, 0.1210607456990910463,
                              0.08340150545666796170, 0.1701848803512172547);
}

// ln(1 + e) for e in [0, 1]: 2 artanh(s) with s = e / (2 + e), so arranged that e is added last, as 2 s = e - s e.
template <class T>
BK_HD compute_t<T> log1p_of_fraction(compute_t<T> e) {
    using C = compute_t<T>;
    if constexpr (math::kIsHalf<T>) {
        return e * polynomial(e, 0.999999806, -0.499974048, 0.332754700, -0.244954150, 0.177451323, -0.107680442, 0.0440888981,
                              -0.00853904224);
    } else {
        const C s = e / (C(2) + e);
        const C half_square = C(0.5) * e * e;
        return e - (half_square - s * (half_square + artanh_series<T>(s * s)));
    }
}

}  // namespace bk::op
