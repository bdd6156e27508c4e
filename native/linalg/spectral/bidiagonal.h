// SPDX-License-Identifier: Apache-2.0
// Singular values: Householder bidiagonalisation (Golub & Kahan 1965) and the implicit QR algorithm on bidiagonal matrices,
// with a shift, or where that would lose small values without one (Demmel & Kahan 1990, LAPACK's bdsqr).
#pragma once

#include "linalg/spectral/reflector.h"
#include "linalg/spectral/rotations.h"
#include "linalg/spectral/tridiagonal.h"

namespace bk::linalg::spectral {

template <class E>
struct BidiagonalScratch {
    using R = real_t<E>;
    R *d, *e;
    E *left_tau, *right_tau, *v;

    BK_HD static BidiagonalScratch take(Scratch& scratch, int n) {
        BidiagonalScratch b;
        b.d = scratch.take<R>(n);
        b.e = scratch.take<R>(n);
        b.left_tau = scratch.take<E>(n);
        b.right_tau = scratch.take<E>(n);
        b.v = scratch.take<E>(n);
        return b;
    }
};

// Rows times I - tau v v^H, in two passes over the columns [begin, end).
template <class E, int kRows>
BK_LINALG void reflect_rows(E* a, int64_t pitch, int row, int begin, int end, const E* v, E tau) {
    E total[kRows];
    for (int k = 0; k < kRows; ++k) total[k] = element_of<E>(0);
    for (int j = begin; j < end; ++j) {
        const E times = v[j];
        const E* const column = a + j * pitch + row;
        for (int k = 0; k < kRows; ++k) total[k] += column[k] * times;
    }
    for (int k = 0; k < kRows; ++k) total[k] = total[k] * tau;
    for (int j = begin; j < end; ++j) {
        const E times = conj(v[j]);
        E* const column = a + j * pitch + row;
        for (int k = 0; k < kRows; ++k) column[k] -= total[k] * times;
    }
}

// A = U B V^H of a matrix with rows >= n columns; d and e become the diagonals of B. The columns of `a` become the reflectors
// of U (offset 0 of form_product), those of `right` the reflectors of V (offset 1).
template <class E>
BK_LINALG_STEP void bidiagonalise(const MatrixTeam& team, E* a, int64_t pitch, int rows, int n, E* right, int64_t right_pitch,
                                  const BidiagonalScratch<E>& b) {
    using R = real_t<E>;
    for (int k = 0; k < n; ++k) {
        const Reflector<E> left = reflect_column(team, a + k * pitch, k, rows);
        if (team.rank() == 0) {
            b.d[k] = left.beta;
            b.left_tau[k] = left.tau;
        }
        team.sync();
        const E *const v = a + k * pitch, factor = conj(left.tau);
        for_columns(team, k + 1, n, [&](int j) { apply_to_column(team, v, factor, a + j * pitch, k, rows); });
        team.sync();
        if (k + 1 == n) break;
        R tail = 0;
        for_own(team, k + 2, n, [&](int j) { tail += square(a[k + j * pitch]); });
        tail = team.sum(tail);
        const Reflector<E> h = Reflector<E>::of(conj(a[k + (k + 1) * pitch]), tail);
        for_own(team, k + 1, n, [&](int j) {
            const E x = j == k + 1 ? element_of<E>(1) : conj(a[k + j * pitch]) * h.scale;
            b.v[j] = x;
            right[j + k * right_pitch] = x;
        });
        if (team.rank() == 0) {
            b.e[k] = h.beta;
            b.right_tau[k] = h.tau;
        }
        team.sync();
        for_padded_rows<E>(team, k + 1, rows, [&](int row, auto group) {
            reflect_rows<E, decltype(group)::value>(a, pitch, row, k + 1, n, b.v, h.tau);
        });
        team.sync();
    }
}

// The iteration on an upper bidiagonal matrix, of which one thread runs the scalars.
template <class R>
struct BidiagonalQr {
    R *d, *e;
    int n, top = 0, bottom, sweeps_left;
    R negligible;

    BK_LINALG BidiagonalQr(R* diagonal, R* off_diagonal, int extent)
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

    BK_LINALG void sweep(const Sweeps<R>& left, const Sweeps<R>& right, int number, bool records) {
        R shift = smaller_value(d[bottom - 1], e[bottom - 1], d[bottom]);
        R least = absolute(d[bottom]);
        for (int i = top; i < bottom; ++i) least = smaller(least, absolute(d[i]));
        const R start = absolute(d[top]), ratio = start > 0 ? shift / start : R(0);
        if (least <= negligible || ratio * ratio < Numbers<R>::kRoundoff) shift = 0;
        if (shift == 0)
            sweep_without_shift(left, right, number, records);
        else
            sweep_with_shift(shift, left, right, number, records);
        --sweeps_left;
    }

private:
    BK_LINALG bool vanishes(int i) {
        const R x = absolute(e[i]);
        if (x > negligible && x > Numbers<R>::kRoundoff * (absolute(d[i]) + absolute(d[i + 1]))) return false;
        e[i] = 0;
        return true;
    }
    // The smaller singular value of [f g; 0 h].
    BK_LINALG static R smaller_value(R f, R g, R h) {
        const R sum = absolute(f) + absolute(h), gap = absolute(f) - absolute(h), square_of_g = g * g;
        const R largest = R(0.5) * (root(sum * sum + square_of_g) + root(gap * gap + square_of_g));
        return largest > 0 ? absolute(f) / largest * absolute(h) : R(0);
    }
    BK_LINALG_STEP void sweep_with_shift(R shift, const Sweeps<R>& left, const Sweeps<R>& right, int number, bool records) {
        R f = (absolute(d[top]) - shift) * (with_sign(R(1), d[top]) + shift / d[top]), g = e[top];
        for (int i = top; i < bottom; ++i) {
            const Rotation<R> on_right = Rotation<R>::of(f, g);
            if (i > top) e[i - 1] = on_right.r;
            f = on_right.c * d[i] + on_right.s * e[i];
            e[i] = on_right.c * e[i] - on_right.s * d[i];
            g = on_right.s * d[i + 1];
            d[i + 1] = on_right.c * d[i + 1];
            const Rotation<R> on_left = Rotation<R>::of(f, g);
            d[i] = on_left.r;
            f = on_left.c * e[i] + on_left.s * d[i + 1];
            d[i + 1] = on_left.c * d[i + 1] - on_left.s * e[i];
            if (i + 1 < bottom) {
                g = on_left.s * e[i + 1];
                e[i + 1] = on_left.c * e[i + 1];
            }
            if (records) {
                right.set(number, i, on_right.c, on_right.s);
                left.set(number, i, on_left.c, on_left.s);
            }
        }
        e[bottom - 1] = f;
    }
    // A zero on the diagonal leaves the block at its end after one such sweep.
    BK_LINALG_STEP void sweep_without_shift(const Sweeps<R>& left, const Sweeps<R>& right, int number, bool records) {
        R c = 1, old_c = 1, old_s = 0;
        for (int i = top; i < bottom; ++i) {
            const Rotation<R> on_right = Rotation<R>::of(d[i] * c, e[i]);
            if (i > top) e[i - 1] = old_s * on_right.r;
            const Rotation<R> on_left = Rotation<R>::of(old_c * on_right.r, d[i + 1] * on_right.s);
            d[i] = on_left.r;
            c = on_right.c;
            old_c = on_left.c;
            old_s = on_left.s;
            if (records) {
                right.set(number, i, on_right.c, on_right.s);
                left.set(number, i, on_left.c, on_left.s);
            }
        }
        const R last = d[bottom] * c;
        d[bottom] = last * old_c;
        e[bottom - 1] = last * old_s;
    }
};

// Diagonalises B: d becomes the singular values with any sign in any order; the rows of u and v are multiplied by the
// rotations if v is not NULL. `shared` has two ints. The number of off-diagonals that did not converge, in all threads.
template <class R, class E>
BK_LINALG_STEP int diagonalise_bidiagonal(const MatrixTeam& team, R* d, R* e, int n, const Sweeps<R>& left,
                                          const Sweeps<R>& right, int* shared, E* u, int64_t u_pitch, int u_rows, E* v,
                                          int64_t v_pitch) {
    BidiagonalQr<R> qr(d, e, n);
    const bool records = v != nullptr;
    team.sync();
    for (;;) {
        if (team.rank() == 0) {
            int count = 0;
            bool goes_on = true;
            while (count < kMostSweeps && (goes_on = qr.sweeps_left > 0 && qr.find_block())) {
                left.range[2 * count] = right.range[2 * count] = qr.top;
                left.range[2 * count + 1] = right.range[2 * count + 1] = qr.bottom;
                qr.sweep(left, right, count, records);
                if (records) ++count;
            }
            shared[0] = count;
            shared[1] = goes_on ? 1 : 0;
        }
        team.sync();
        const int count = shared[0], goes_on = shared[1];
        if (records) {
            apply_sweeps(team, left, count, u, u_pitch, u_rows);
            apply_sweeps(team, right, count, v, v_pitch, n);
        }
        team.sync();
        if (!goes_on) break;
    }
    int unfinished = 0;
    for (int i = 0; i + 1 < n; ++i) unfinished += e[i] != 0 ? 1 : 0;
    return unfinished;
}

}  // namespace bk::linalg::spectral
