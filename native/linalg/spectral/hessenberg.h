// SPDX-License-Identifier: Apache-2.0
// Balancing and reduction to Hessenberg form of a general matrix.
#pragma once

#include "linalg/spectral/bidiagonal.h"

namespace bk::linalg::spectral {

constexpr int kBalancingPasses = 16;

// D^-1 A D with powers of two, so that the rows and columns of one index have like lengths (James, Langou & Lowery 2014,
// LAPACK's gebal without permutations). `scale` gets D.
template <class E>
BK_LINALG_STEP void balance(const MatrixTeam& team, E* a, int64_t pitch, int n, real_t<E>* scale) {
    using R = real_t<E>;
    for_own(team, 0, n, [&](int i) { scale[i] = 1; });
    team.sync();
    bool changes = n > 1;
    for (int pass = 0; pass < kBalancingPasses && changes; ++pass) {
        changes = false;
        for (int i = 0; i < n; ++i) {
            R column = 0, row = 0;
            for_own(team, 0, n, [&](int k) {
                if (k == i) return;
                column += square(a[k + i * pitch]);
                row += square(a[i + k * pitch]);
            });
            column = root(team.sum(column));
            row = root(team.sum(row));
            if (!(column > Numbers<R>::kTiny && row > Numbers<R>::kTiny)) continue;
            const R before = column + row;
            R factor = 1;
            for (; column < row / 2; factor *= 2) {
                column *= 2;
                row /= 2;
            }
            for (; column >= row * 2; factor /= 2) {
                column /= 2;
                row *= 2;
            }
            if (!(column + row < R(0.95) * before)) continue;
            changes = true;
            const R inverse = 1 / factor;
            for_own(team, 0, n, [&](int k) {
                if (k == i) return;
                a[k + i * pitch] = a[k + i * pitch] * factor;
                a[i + k * pitch] = a[i + k * pitch] * inverse;
            });
            if (team.rank() == 0) scale[i] *= factor;
            team.sync();
        }
    }
}

// A = Q H Q^H by Householder reflectors (Golub & Van Loan, 7.4). `a` becomes H, and `q`, unless it is NULL, becomes Q. tau and
// v have n elements.
template <class E>
BK_LINALG_STEP void reduce_to_hessenberg(const MatrixTeam& team, E* a, int64_t pitch, int n, E* q, E* tau, E* v) {
    for (int k = 0; k + 2 < n; ++k) {
        E* const column = a + k * pitch;
        const Reflector<E> h = reflect_column(team, column, k + 1, n);
        for_own(team, k + 1, n, [&](int i) { v[i] = i == k + 1 ? element_of<E>(1) : column[i]; });
        if (team.rank() == 0) {
            tau[k] = h.tau;
            column[k + 1] = element_of<E>(h.beta);
        }
        team.sync();
        for_columns(team, k + 1, n, [&](int j) { apply_to_column(team, v, conj(h.tau), a + j * pitch, k + 1, n); });
        team.sync();
        for_padded_rows<E>(team, 0, n, [&](int row, auto group) {
            reflect_rows<E, decltype(group)::value>(a, pitch, row, k + 1, n, v, h.tau);
        });
        team.sync();
    }
    const E zero = element_of<E>(0);
    for_columns(team, 0, n, [&](int j) {
        for_lanes(team, j + 2, n, [&](int i) {
            if (q != nullptr) q[i + j * pitch] = a[i + j * pitch];
            a[i + j * pitch] = zero;
        });
    });
    team.sync();
    if (q != nullptr) form_product(team, q, pitch, n, n, n > 2 ? n - 2 : 0, 1, tau);
}

}  // namespace bk::linalg::spectral
