// SPDX-License-Identifier: Apache-2.0
// Eigenvalues of Hermitian matrices: Householder tridiagonalisation (Golub & Van Loan, Matrix Computations, 8.3) and the
// implicit QR algorithm with Wilkinson's shift (EISPACK's imtql2, LAPACK's steqr).
#pragma once

#include "linalg/spectral/reflector.h"
#include "linalg/spectral/rotations.h"

namespace bk::linalg::spectral {

constexpr int kIterations = 30;  // sweeps for each eigenvalue, on average, before the algorithm gives up

// Buffers of a tridiagonalisation; two pairs of vectors v, w of A -= v w^H + w v^H.
template <class E>
struct TridiagonalScratch {
    using R = real_t<E>;
    R *d, *e;
    E *tau, *v[2], *w[2];

    BK_HD static TridiagonalScratch take(Scratch& scratch, int n) {
        TridiagonalScratch t;
        t.d = scratch.take<R>(n);
        t.e = scratch.take<R>(n);
        t.tau = scratch.take<E>(n);
        for (int k = 0; k < 2; ++k) {
            t.v[k] = scratch.take<E>(pitch_of<E>(n));
            t.w[k] = scratch.take<E>(pitch_of<E>(n));
        }
        return t;
    }
};

// One pass over rows: the update of the step before, and the product with the new reflector.
template <class E, int kRows>
BK_LINALG void update_and_multiply(E* a, int64_t pitch, int row, int begin, int end, const E* old_v, const E* old_w, const E* v,
                                   E* product) {
    E own_v[kRows], own_w[kRows], total[kRows];
    for (int k = 0; k < kRows; ++k) {
        own_v[k] = old_v[row + k];
        own_w[k] = old_w[row + k];
        total[k] = element_of<E>(0);
    }
    for (int j = begin; j < end; ++j) {
        const E by_v = conj(old_w[j]), by_w = conj(old_v[j]), times = v[j];
        E* const column = a + j * pitch + row;
        for (int k = 0; k < kRows; ++k) {
            const E x = column[k] - (own_v[k] * by_v + own_w[k] * by_w);
            column[k] = x;
            total[k] += x * times;
        }
    }
    for (int k = 0; k < kRows; ++k) product[row + k] = total[k];
}

// A = Q T Q^H of a whole Hermitian matrix; d and e become T's diagonals, and the columns of `a` the reflectors of Q, which
// form_product() with offset 1 makes Q of. The trailing matrix is read once a step: its update waits for the next product.
template <class E>
BK_LINALG_STEP void tridiagonalise(const MatrixTeam& team, E* a, int64_t pitch, int n, const TridiagonalScratch<E>& t) {
    using R = real_t<E>;
    for (int k = 0; k < 2; ++k) {
        clear_padding(t.v[k], 0, n, 1);
        clear_padding(t.w[k], 0, n, 1);
    }
    for_own(team, 0, n, [&](int i) { t.v[0][i] = t.w[0][i] = element_of<E>(0); });
    team.sync();
    for (int k = 0; k < n; ++k) {
        const int old = k & 1;
        E *const column = a + k * pitch, *const old_v = t.v[old], *const old_w = t.w[old], *const v = t.v[old ^ 1],
                 *const w = t.w[old ^ 1];
        const E by_v = conj(old_w[k]), by_w = conj(old_v[k]);
        R tail = 0;
        for_own(team, k, n, [&](int i) {
            const E x = column[i] - (old_v[i] * by_v + old_w[i] * by_w);
            column[i] = x;
            if (i >= k + 2) tail += square(x);
        });
        tail = team.sum(tail);
        if (team.rank() == 0) t.d[k] = real(column[k]);
        if (k + 1 == n) break;
        const Reflector<E> h = Reflector<E>::of(column[k + 1], tail);
        for_own(team, k + 1, n, [&](int i) {
            const E x = i == k + 1 ? element_of<E>(1) : column[i] * h.scale;
            v[i] = x;
            if (i > k + 1) column[i] = x;
        });
        if (team.rank() == 0) {
            t.e[k] = h.beta;
            t.tau[k] = h.tau;
        }
        team.sync();
        for_padded_rows<E>(team, k + 1, n, [&](int row, auto group) {
            update_and_multiply<E, decltype(group)::value>(a, pitch, row, k + 1, n, old_v, old_w, v, w);
        });
        E along = element_of<E>(0);
        for_own(team, k + 1, n, [&](int i) {
            const E x = h.tau * w[i];
            w[i] = x;
            along += conj(x) * v[i];
        });
        const E back = real_t<E>(-0.5) * (h.tau * team.sum(along));
        for_own(team, k + 1, n, [&](int i) { w[i] += back * v[i]; });
        team.sync();
    }
    team.sync();
}

// The iteration on a tridiagonal matrix, of which one thread runs the scalars.
template <class R>
struct TridiagonalQr {
    R *d, *e;
    int n, top = 0, bottom, sweeps_left;
    R negligible;  // off-diagonals up to here are 0 whatever the diagonal

    BK_LINALG TridiagonalQr(R* diagonal, R* off_diagonal, int extent)
        : d(diagonal), e(off_diagonal), n(extent), bottom(extent - 1), sweeps_left(kIterations * extent) {
        R most = 0;
        for (int i = 0; i < n; ++i) most = larger(most, absolute(d[i]));
        for (int i = 0; i + 1 < n; ++i) most = larger(most, absolute(e[i]));
        negligible = larger(most * Numbers<R>::kRoundoff * Numbers<R>::kRoundoff, Numbers<R>::kTiny);
    }

    // Moves to the last block that is not diagonal; false if there is none.
    BK_LINALG bool find_block() {
        for (; bottom > 0; --bottom) {
            top = bottom;
            while (top > 0 && !vanishes(top - 1)) --top;
            if (top < bottom) return true;
        }
        return false;
    }

    // One implicit QR sweep from top to bottom.
    BK_LINALG void sweep(const Sweeps<R>& sweeps, int number, bool records) {
        const R half = (d[bottom - 1] - d[bottom]) / (2 * e[bottom - 1]);
        const R reach = half + with_sign(absolute(half) > Numbers<R>::kWide ? absolute(half) : root(1 + half * half), half);
        R g = d[top] - d[bottom] + e[bottom - 1] / reach, s = 1, c = 1, p = 0;
        for (int i = top; i < bottom; ++i) {
            const R f = s * e[i], b = c * e[i];
            const Rotation<R> by = Rotation<R>::of(g, f);
            c = by.c;
            s = by.s;
            if (i != top) e[i - 1] = by.r;
            g = d[i] - p;
            const R r = (d[i + 1] - g) * s + 2 * c * b;
            p = s * r;
            d[i] = g + p;
            g = c * r - b;
            if (records) sweeps.set(number, i, c, s);
        }
        d[bottom] -= p;
        e[bottom - 1] = g;
        --sweeps_left;
    }

private:
    BK_LINALG bool vanishes(int i) {
        const R x = absolute(e[i]);
        if (x > negligible && x > Numbers<R>::kRoundoff * (absolute(d[i]) + absolute(d[i + 1]))) return false;
        e[i] = 0;
        return true;
    }
};

// Diagonalises T: d becomes the eigenvalues in any order, and the rows of z, unless it is NULL, are multiplied by the
// rotations. `shared` has two ints. The number of off-diagonals that did not converge, equal in all threads.
template <class R, class E>
BK_LINALG_STEP int diagonalise(const MatrixTeam& team, R* d, R* e, int n, const Sweeps<R>& sweeps, int* shared, E* z,
                               int64_t pitch, int rows) {
    TridiagonalQr<R> qr(d, e, n);
    team.sync();
    for (;;) {
        if (team.rank() == 0) {
            int count = 0;
            bool goes_on = true;
            while (count < kMostSweeps && (goes_on = qr.sweeps_left > 0 && qr.find_block())) {
                sweeps.range[2 * count] = qr.top;
                sweeps.range[2 * count + 1] = qr.bottom;
                qr.sweep(sweeps, count, z != nullptr);
                if (z != nullptr) ++count;
            }
            shared[0] = count;
            shared[1] = goes_on ? 1 : 0;
        }
        team.sync();
        const int count = shared[0], goes_on = shared[1];
        if (z != nullptr) apply_sweeps(team, sweeps, count, z, pitch, rows);
        team.sync();
        if (!goes_on) break;
    }
    int left = 0;
    for (int i = 0; i + 1 < n; ++i) left += e[i] != 0 ? 1 : 0;
    return left;
}

}  // namespace bk::linalg::spectral
