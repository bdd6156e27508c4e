// SPDX-License-Identifier: Apache-2.0
// Schur form T of a Hessenberg matrix by the implicitly shifted QR algorithm (Francis 1961; EISPACK's hqr2 and comqr2): double
// shifts for real matrices, whose T has blocks of two rows for complex pairs, and single shifts for complex ones.
#pragma once

#include "linalg/spectral/reflector.h"
#include "linalg/spectral/tridiagonal.h"

namespace bk::linalg::spectral {

// Rows of a bulge.
template <class E>
constexpr int kBulge = kIsComplex<E> ? 2 : 3;

template <class R>
BK_LINALG Complex<R> square_root(Complex<R> z) {
    const R size = modulus(z);
    if (size == 0) return {R(0), R(0)};
    const R half = root(R(0.5) * (size + absolute(z.re))), other = z.im / (2 * half);
    return z.re >= 0 ? Complex<R>{half, other} : Complex<R>{absolute(other), with_sign(half, z.im)};
}

// The matrix, Q, whose columns are mixed alike unless it is NULL, and the block [top, bottom] that is reduced.
template <class E>
struct SchurState {
    using R = real_t<E>;
    E *h, *q;
    int64_t pitch;
    int n;
    bool is_whole;  // all of T is wanted, not its eigenvalues alone

    BK_LINALG E& at(int i, int j) const { return h[i + j * pitch]; }
};

// The eigenvalue of [a b; c d] next to d (Wilkinson's shift).
template <class R>
BK_LINALG Complex<R> nearest_value(Complex<R> a, Complex<R> b, Complex<R> c, Complex<R> d) {
    const Complex<R> product = square_root(b) * square_root(c);
    const R size = largest_part(product);
    if (size == 0) return d;
    const Complex<R> half = R(0.5) * (a - d);
    const R scale = larger(size, largest_part(half)), inverse = 1 / scale;
    const Complex<R> x = half * inverse, u = product * inverse;
    Complex<R> y = scale * square_root(x * x + u * u);
    if (half.re * y.re + half.im * y.im < 0) y = -y;
    const Complex<R> sum = half + y;
    return largest_part(sum) == 0 ? d : d - product * (product / sum);
}

// The first column of (H - s1)(H - s2), or of H - s, up to a factor: what the first reflector of a step maps to an axis.
template <class R>
BK_LINALG void first_column(const SchurState<R>& s, int top, int bottom, bool is_exceptional, R (&x)[3]) {
    R trace, determinant;
    if (is_exceptional) {
        const R size = absolute(s.at(bottom, bottom - 1)) + absolute(s.at(bottom - 1, bottom - 2));
        const R centre = R(0.75) * size + s.at(bottom, bottom);
        trace = 2 * centre;
        determinant = centre * centre + R(0.4375) * size * size;
    } else {
        const R a = s.at(bottom - 1, bottom - 1), d = s.at(bottom, bottom);
        trace = a + d;
        determinant = a * d - s.at(bottom - 1, bottom) * s.at(bottom, bottom - 1);
    }
    const R corner = s.at(top, top), below = s.at(top + 1, top);
    x[0] = (corner * (corner - trace) + determinant) / below + s.at(top, top + 1);
    x[1] = corner + s.at(top + 1, top + 1) - trace;
    x[2] = s.at(top + 2, top + 1);
}
template <class R>
BK_LINALG void first_column(const SchurState<Complex<R>>& s, int top, int bottom, bool is_exceptional, Complex<R> (&x)[2]) {
    const Complex<R> last = s.at(bottom, bottom);
    const Complex<R> shift =
        is_exceptional ? last + Complex<R>{R(0.75) * modulus(s.at(bottom, bottom - 1)), R(0)}
                       : nearest_value(s.at(bottom - 1, bottom - 1), s.at(bottom - 1, bottom), s.at(bottom, bottom - 1), last);
    x[0] = s.at(top, top) - shift;
    x[1] = s.at(top + 1, top);
}

// Rows of a matrix times I - tau v v^H, v having kCount elements from column k on.
template <int kCount, class E>
BK_LINALG void mix_columns(const MatrixTeam& team, E* a, int64_t pitch, int begin, int end, int k, const E* v, E tau) {
    E times[kCount], back[kCount];
    for (int c = 0; c < kCount; ++c) {
        times[c] = v[c] * tau;
        back[c] = conj(v[c]);
    }
    for_rows<E>(team, begin, end, [&](int first, auto group) {
        E* const row = a + k * pitch + first;
        for (int i = 0; i < decltype(group)::value; ++i) {
            E total = row[i] * times[0];
            for (int c = 1; c < kCount; ++c) total += row[i + c * pitch] * times[c];
            for (int c = 0; c < kCount; ++c) row[i + c * pitch] -= total * back[c];
        }
    });
}
template <class E>
BK_LINALG void mix_columns(const MatrixTeam& team, E* a, int64_t pitch, int begin, int end, int k, int count, const E* v,
                           E tau) {
    if (count == kBulge<E>)
        mix_columns<kBulge<E>>(team, a, pitch, begin, end, k, v, tau);
    else
        mix_columns<kBulge<E> - 1>(team, a, pitch, begin, end, k, v, tau);
}

// A QR step: chases the bulge of one or two shifts from top to bottom. All threads compute each reflector.
template <class E>
BK_LINALG_STEP void chase_bulge(const MatrixTeam& team, const SchurState<E>& s, int top, int bottom, bool is_exceptional) {
    using R = real_t<E>;
    constexpr int kMost = kBulge<E>;
    E x[kMost];
    first_column(s, top, bottom, is_exceptional, x);
    team.sync();
    const int first_row = s.is_whole ? 0 : top, last_column = s.is_whole ? s.n - 1 : bottom;
    for (int k = top; k < bottom; ++k) {
        const int count = kMost < bottom - k + 1 ? kMost : bottom - k + 1;
        if (k > top)
            for (int c = 0; c < kMost; ++c) x[c] = c < count ? s.at(k + c, k - 1) : element_of<E>(0);
        R size = 0;
        for (int c = 0; c < count; ++c) size = larger(size, largest_part(x[c]));
        const R scale = inverse_power(size);
        R tail = 0;
        for (int c = 0; c < count; ++c) x[c] = x[c] * scale;
        for (int c = 1; c < count; ++c) tail += square(x[c]);
        const Reflector<E> h = Reflector<E>::of(x[0], tail);
        E v[kMost];
        v[0] = element_of<E>(1);
        for (int c = 1; c < kMost; ++c) v[c] = c < count ? x[c] * h.scale : element_of<E>(0);
        // H^H is applied from the left, column by column.
        const E factor = conj(h.tau);
        for_own(team, k, last_column + 1, [&](int j) {
            E* const column = &s.at(k, j);
            E total = column[0];
            for (int c = 1; c < count; ++c) total += conj(v[c]) * column[c];
            total = total * factor;
            column[0] -= total;
            for (int c = 1; c < count; ++c) column[c] -= total * v[c];
        });
        team.sync();
        if (k > top && team.rank() == 0) {
            s.at(k, k - 1) = element_of<E>(h.beta / scale);
            for (int c = 1; c < count; ++c) s.at(k + c, k - 1) = element_of<E>(0);
        }
        const int last_row = k + kMost < bottom ? k + kMost : bottom;
        mix_columns(team, s.h, s.pitch, first_row, last_row + 1, k, count, v, h.tau);
        if (s.q != nullptr) mix_columns(team, s.q, s.pitch, 0, s.n, k, count, v, h.tau);
        team.sync();
    }
}

// Splits a block of two rows with real eigenvalues into two of one.
template <class R>
BK_LINALG_STEP void split_pair(const MatrixTeam& team, const SchurState<R>& s, int top) {
    const R a = s.at(top, top), b = s.at(top, top + 1), c = s.at(top + 1, top), d = s.at(top + 1, top + 1);
    const R half = R(0.5) * (a - d), discriminant = half * half + b * c;
    team.sync();
    if (discriminant < 0) return;
    const R z = half + with_sign(root(discriminant), half);
    const Rotation<R> by = Rotation<R>::of(z, c);
    const int first_row = s.is_whole ? 0 : top, last_column = s.is_whole ? s.n - 1 : top + 1;
    for_own(team, top, last_column + 1, [&](int j) {
        R* const column = &s.at(top, j);
        const R x = column[0], y = column[1];
        column[0] = by.c * x + by.s * y;
        column[1] = by.c * y - by.s * x;
    });
    team.sync();
    const auto mix = [&](R* m, int begin, int end) {
        for_own(team, begin, end, [&](int i) {
            R* const row = m + i + top * s.pitch;
            const R x = row[0], y = row[s.pitch];
            row[0] = by.c * x + by.s * y;
            row[s.pitch] = by.c * y - by.s * x;
        });
    };
    mix(s.h, first_row, top + 2);
    if (s.q != nullptr) mix(s.q, 0, s.n);
    team.sync();
    if (team.rank() == 0) s.at(top + 1, top) = 0;
    team.sync();
}

// Reduces H to T; the number of rows that are left if it does not converge.
template <class E>
BK_LINALG_STEP int reduce_to_schur(const MatrixTeam& team, const SchurState<E>& s) {
    using R = real_t<E>;
    int bottom = s.n - 1, iteration = 0, left = kIterations * (s.n > 10 ? s.n : 10);
    while (bottom > 0) {
        int top = bottom;
        for (; top > 0; --top) {
            R near = largest_part(s.at(top - 1, top - 1)) + largest_part(s.at(top, top));
            if (near == 0) near = 1;
            if (largest_part(s.at(top, top - 1)) <= Numbers<R>::kRoundoff * near) break;
        }
        team.sync();
        if (top > 0 && team.rank() == 0) s.at(top, top - 1) = element_of<E>(0);
        team.sync();
        if (top == bottom) {
            --bottom;
            iteration = 0;
            continue;
        }
        if constexpr (!kIsComplex<E>) {
            if (top + 1 == bottom) {
                split_pair(team, s, top);
                bottom -= 2;
                iteration = 0;
                continue;
            }
        }
        if (left-- == 0) return bottom + 1;
        ++iteration;
        chase_bulge(team, s, top, bottom, iteration % 10 == 0);
    }
    return 0;
}

}  // namespace bk::linalg::spectral
