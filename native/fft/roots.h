// SPDX-License-Identifier: Apache-2.0
// Roots of unity, exp(-2 pi i k / n), from integers: the angle is reduced to pi / 4 before it is rounded.
#pragma once

#include <cstdint>

#include "core/platform.h"
#include "fft/butterflies.h"
#include "fft/problem.h"

namespace bk {

// cos and sin of 2 pi k / n.
template <class R>
struct FftRoot {
    R c, s;
};

// cos and sin of pi x, 0 <= x <= 1/4.
template <class R>
BK_HD FftRoot<R> first_octant(R x) {
#if BK_ON_GPU
    FftRoot<R> root;
    if constexpr (sizeof(R) == 4)
        sincospif(x, &root.s, &root.c);
    else
        sincospi(x, &root.s, &root.c);
    return root;
#else
    // Taylor's series; the first term left out is below 2^-60.
    const double angle = 3.14159265358979323846 * static_cast<double>(x), t = angle * angle;
    double s = 1.0, c = 1.0;
    for (int k = 8; k >= 1; --k) {
        s = 1.0 - s * (t * (1.0 / (2 * k * (2 * k + 1))));
        c = 1.0 - c * (t * (1.0 / (2 * k * (2 * k - 1))));
    }
    return {static_cast<R>(c), static_cast<R>(angle * s)};
#endif
}

// 0 <= k < n, and 4 n is an Index.
template <class R, class Index>
BK_HD FftRoot<R> unit_root_of(Index k, Index n) {
    const bool is_lower = 2 * k > n;  // the conjugate of the upper half
    if (is_lower) k = n - k;
    const bool is_left = 4 * k > n;          // cos(pi - x) = -cos(x)
    Index up = is_left ? n - 2 * k : 2 * k;  // of n multiples of pi
    const bool is_steep = 4 * up > n;        // cos(pi / 2 - x) = sin(x)
    // An angle of up / n multiples of pi, up to a quarter.
    const R x = is_steep ? static_cast<R>(n - 2 * up) / static_cast<R>(2 * n) : static_cast<R>(up) / static_cast<R>(n);
    FftRoot<R> root = first_octant(x);
    if (is_steep) {
        const R c = root.c;
        root.c = root.s;
        root.s = c;
    }
    if (is_left) root.c = -root.c;
    if (is_lower) root.s = -root.s;
    return root;
}

// 0 <= k < n < 2^60.
template <class R>
BK_HD FftRoot<R> unit_root(int64_t k, int64_t n) {
    return unit_root_of<R, int64_t>(k, n);
}

// exp(-i pi position^2 / N), or its conjugate, which the filter has from both ends on; zero elsewhere.
template <class R>
BK_HD FftValue<R> chirp(FftFactor factor, int64_t position, const FftPass& pass) {
    const bool is_filter = factor == FftFactor::kFilter;
    if (is_filter && position >= pass.length) position = pass.padded - position;
    if (position >= pass.length) return {R(0), R(0)};
    if (pass.chirps != nullptr) {
        const FftValue<R> conjugate = static_cast<const FftValue<R>*>(pass.chirps)[position];
        return {conjugate.re, is_filter ? conjugate.im : -conjugate.im};
    }
    const FftRoot<R> root = unit_root<R>(position * position % (2 * pass.length), 2 * pass.length);
    return {root.c, is_filter ? root.s : -root.s};
}

}  // namespace bk
