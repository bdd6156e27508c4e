// SPDX-License-Identifier: Apache-2.0
// Eigenvectors of a Schur form by substitution (LAPACK's trevc). A warp has a vector, in complex arithmetic for real matrices
// too; vectors are scaled down before they overflow, and quotients by almost equal eigenvalues are bounded.
#pragma once

#include "linalg/spectral/schur.h"

namespace bk::linalg::spectral {

template <class R>
BK_LINALG Complex<R> as_complex(R x) {
    return {x, R(0)};
}
template <class R>
BK_LINALG Complex<R> as_complex(Complex<R> x) {
    return x;
}

// A Schur form: row i begins a block of two if (i + 1, i) is not 0.
template <class E>
struct SchurForm {
    using R = real_t<E>;
    using C = Complex<R>;
    const E* t;
    int64_t pitch;
    int n;

    BK_LINALG E at(int i, int j) const { return t[i + j * pitch]; }
    BK_LINALG bool begins_pair([[maybe_unused]] int i) const {
        if constexpr (kIsComplex<E>)
            return false;
        else
            return i + 1 < n && at(i + 1, i) != 0;
    }
    // The eigenvalues of rows i and, of a block, i + 1, the one with the positive imaginary part first.
    BK_LINALG C value(int i) const {
        if constexpr (kIsComplex<E>) {
            return at(i, i);
        } else {
            const bool is_second = i > 0 && begins_pair(i - 1);
            if (is_second || begins_pair(i)) {
                const int k = is_second ? i - 1 : i;
                const R half = R(0.5) * (at(k, k) - at(k + 1, k + 1));
                const R size = root(absolute(half * half + at(k, k + 1) * at(k + 1, k)));
                return {R(0.5) * (at(k, k) + at(k + 1, k + 1)), is_second ? -size : size};
            }
            return {at(i, i), R(0)};
        }
    }
};

// x / d, with |d| at least `least`.
template <class R>
BK_LINALG Complex<R> bounded_quotient(Complex<R> x, Complex<R> d, R least) {
    return largest_part(d) < least ? x / Complex<R>{least, R(0)} : x / d;
}

// Solves [a b; c d] (x, y) = (x, y).
template <class R>
BK_LINALG_STEP void solve_pair(Complex<R> a, Complex<R> b, Complex<R> c, Complex<R> d, R least, Complex<R>& x, Complex<R>& y) {
    const R size = larger(larger(largest_part(a), largest_part(b)), larger(largest_part(c), largest_part(d)));
    const R scale = size > least ? 1 / size : 1 / least;
    a = a * scale;
    b = b * scale;
    c = c * scale;
    d = d * scale;
    const Complex<R> determinant = a * d - b * c;
    const Complex<R> first = scale * (d * x - b * y), second = scale * (a * y - c * x);
    x = bounded_quotient(first, determinant, larger(least * scale, Numbers<R>::kRoundoff * Numbers<R>::kRoundoff));
    y = bounded_quotient(second, determinant, larger(least * scale, Numbers<R>::kRoundoff * Numbers<R>::kRoundoff));
}

// Scales the warp's vector down if its new element is large.
template <class R>
BK_LINALG void limit_growth(const MatrixTeam& team, Complex<R>* x, int begin, int end, R size) {
    if (!(size > Numbers<R>::kWide)) return;
    const R scale = inverse_power(size);
    team.sync_lanes();
    for_lanes(team, begin, end, [&](int i) { x[i] = x[i] * scale; });
    team.sync_lanes();
}

template <class R>
BK_LINALG R least_difference(Complex<R> value) {
    const R u = Numbers<R>::kRoundoff;
    return larger(larger(u * largest_part(value), u * u), Numbers<R>::kTiny);
}

// x with T x = value x, for the eigenvalue of row k, or of rows k - 1 and k, `size` being 1 or 2; one warp.
template <class E>
BK_LINALG_STEP void right_vector(const MatrixTeam& team, const SchurForm<E>& t, int k, int size, Complex<real_t<E>> value,
                                 Complex<real_t<E>>* x) {
    using R = real_t<E>;
    using C = Complex<R>;
    const R least = least_difference(value);
    C last = as_complex(R(1)), before = as_complex(R(0));
    if (size == 2) {
        const C a = as_complex(t.at(k - 1, k - 1)), b = as_complex(t.at(k - 1, k)), c = as_complex(t.at(k, k - 1)),
                d = as_complex(t.at(k, k));
        if (largest_part(b) >= largest_part(c)) {
            before = as_complex(R(1));
            last = (value - a) / b;
        } else {
            before = (value - d) / c;
        }
    }
    for_lanes(team, 0, t.n, [&](int i) {
        C right = as_complex(R(0));
        if (i <= k - size) {
            right -= as_complex(t.at(i, k)) * last;
            if (size == 2) right -= as_complex(t.at(i, k - 1)) * before;
        }
        x[i] = i == k ? last : size == 2 && i == k - 1 ? before : right;
    });
    team.sync_lanes();
    for (int j = k - size; j >= 0; --j) {
        const bool is_pair = j > 0 && t.begins_pair(j - 1);
        C found = x[j], upper = is_pair ? x[j - 1] : as_complex(R(0));
        if (is_pair)
            solve_pair(as_complex(t.at(j - 1, j - 1)) - value, as_complex(t.at(j - 1, j)), as_complex(t.at(j, j - 1)),
                       as_complex(t.at(j, j)) - value, least, upper, found);
        else
            found = bounded_quotient(found, as_complex(t.at(j, j)) - value, least);
        team.sync_lanes();
        const int first = is_pair ? j - 1 : j;
        if (team.lane() == 0) {
            x[j] = found;
            if (is_pair) x[j - 1] = upper;
        }
        limit_growth(team, x, 0, k + 1, larger(largest_part(found), largest_part(upper)));
        team.sync_lanes();
        found = x[j];
        upper = x[first];
        const E *const column = t.t + j * t.pitch, *const other = t.t + first * t.pitch;
        if (is_pair)
            for_lanes(team, 0, first, [&](int i) { x[i] -= found * column[i] + upper * other[i]; });
        else
            for_lanes(team, 0, first, [&](int i) { x[i] -= found * column[i]; });
        team.sync_lanes();
        j = first;
    }
}

// y with y^H T = value y^H, for the eigenvalue of row k, or of rows k and k + 1; one warp.
template <class E>
BK_LINALG_STEP void left_vector(const MatrixTeam& team, const SchurForm<E>& t, int k, int size, Complex<real_t<E>> value,
                                Complex<real_t<E>>* y) {
    using R = real_t<E>;
    using C = Complex<R>;
    const R least = least_difference(value);
    const C of = conj(value);
    C first = as_complex(R(1)), second = as_complex(R(0));
    if (size == 2) {
        const C a = as_complex(t.at(k, k)), b = as_complex(t.at(k, k + 1)), c = as_complex(t.at(k + 1, k)),
                d = as_complex(t.at(k + 1, k + 1));
        if (largest_part(c) >= largest_part(b)) {
            second = (of - a) / c;
        } else {
            second = as_complex(R(1));
            first = (of - d) / b;
        }
    }
    for_lanes(team, 0, t.n, [&](int i) { y[i] = i == k ? first : size == 2 && i == k + 1 ? second : as_complex(R(0)); });
    team.sync_lanes();
    for (int j = k + size; j < t.n; ++j) {
        const bool is_pair = t.begins_pair(j);
        const int other = is_pair ? j + 1 : j;
        const auto above = [&](int column) {
            const E* const entries = t.t + column * t.pitch;
            return lane_total<C>(team, k, j, [&](int i) { return y[i] * conj(entries[i]); });
        };
        C found = -above(j), next = is_pair ? -above(other) : as_complex(R(0));
        if (is_pair)
            solve_pair(as_complex(t.at(j, j)) - of, as_complex(t.at(j + 1, j)), as_complex(t.at(j, j + 1)),
                       as_complex(t.at(j + 1, j + 1)) - of, least, found, next);
        else
            found = bounded_quotient(found, conj(as_complex(t.at(j, j))) - of, least);
        team.sync_lanes();
        if (team.lane() == 0) {
            y[j] = found;
            if (is_pair) y[other] = next;
        }
        limit_growth(team, y, k, other + 1, larger(largest_part(found), largest_part(next)));
        team.sync_lanes();
        j = other;
    }
}

}  // namespace bk::linalg::spectral
