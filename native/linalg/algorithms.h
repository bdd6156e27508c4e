// SPDX-License-Identifier: Apache-2.0
// Factorisations and solutions of one matrix by one team, in scratch: Golub and Van Loan, Matrix Computations, chapters 3 to 5.
#pragma once

#include "linalg/householder.h"

namespace bk::linalg {

// --- triangles -------------------------------------------------------------------------------------------------------

// b = T^-1 b for n rows and k columns and a lower triangle T, with ones on its diagonal if `unit`. A group's columns are its
// own; the caller has a barrier in front and behind.
template <class S>
BK_LINALG void solve_lower(const MatrixTeam& team, int64_t n, int64_t k, const Columns<S>& t, bool unit, const Columns<S>& b) {
    for (int64_t c = team.group; c < k; c += team.groups) {
        S* const x = b.column(c);
        for (int64_t j = 0; j < n; ++j) {
            team.sync_lanes();
            const S value = unit ? x[j] : x[j] / t(j, j);
            team.sync_lanes();
            if (team.lane == 0) x[j] = value;
            subtract_multiple(team, n - j - 1, value, t.column(j) + j + 1, x + j + 1);
        }
    }
}

// --- Cholesky --------------------------------------------------------------------------------------------------------

// A = L L^H of the lower triangle of A. Returns 0, or k for a leading minor of order k that is not positive definite.
template <class S>
BK_LINALG int32_t factor_cholesky(const MatrixTeam& team, int64_t n, const Columns<S>& a) {
    for (int64_t k = 0; k < n; ++k) {
        team.sync();
        const real_t<S> pivot = real(a(k, k));
        if (!(pivot > real_t<S>(0)) || !(pivot < real_t<S>(INFINITY))) return static_cast<int32_t>(k + 1);
        const real_t<S> root = sqrt(pivot);
        S* const column = a.column(k);
        team.sync();
        for (int64_t i = k + 1 + team.rank; i < n; i += team.size) column[i] = column[i] / root;
        if (team.rank == 0) column[k] = S(root);
        team.sync();
        for (int64_t j = k + 1 + team.group; j < n; j += team.groups)
            subtract_multiple(team, n - j, conj(column[j]), column + j, a.column(j) + j);
    }
    team.sync();
    return 0;
}

// --- LU --------------------------------------------------------------------------------------------------------------

// P A = L U of m x n with partial pivoting: row k was exchanged with row pivots[k], counted from 0. Returns 0, or the first
// k, counted from 1, for which U(k, k) is 0.
template <class S, class I>
BK_LINALG int32_t factor_lu(const MatrixTeam& team, int64_t m, int64_t n, const Columns<S>& a, I* pivots) {
    const int64_t most = m < n ? m : n;
    int32_t info = 0;
    for (int64_t k = 0; k < most; ++k) {
        S* const column = a.column(k);
        team.sync();
        real_t<S> largest = real_t<S>(-1);
        int64_t at = k;
        for (int64_t i = k + team.rank; i < m; i += team.size) {
            const real_t<S> size = size_of_pivot(column[i]);
            if (size > largest) {
                largest = size;
                at = i;
            }
        }
        team.find_largest(largest, at);
        const S pivot = column[at];
        if (team.rank == 0) pivots[k] = static_cast<I>(at);
        team.sync();
        if (at != k)
            for (int64_t j = team.rank; j < n; j += team.size) swap_values(a(k, j), a(at, j));
        if (pivot == S(0)) {
            if (info == 0) info = static_cast<int32_t>(k + 1);
            continue;
        }
        team.sync();
        for (int64_t i = k + 1 + team.rank; i < m; i += team.size) column[i] = column[i] / pivot;
        team.sync();
        subtract_outer(team, m - k - 1, n - k - 1, column + k + 1, &a(k, k + 1), a.pitch, false, a.at(k + 1, k + 1));
    }
    team.sync();
    return info;
}

// Exchanges rows of b as a factorisation did, in its order or reversed. Each thread has its own columns.
template <class S, class I>
BK_LINALG void exchange_rows(const MatrixTeam& team, int64_t count, const I* pivots, bool is_reversed, int64_t k,
                             const Columns<S>& b) {
    for (int64_t j = team.rank; j < k; j += team.size)
        for (int64_t at = 0; at < count; ++at) {
            const int64_t i = is_reversed ? count - 1 - at : at, other = pivots[i];
            if (other != i) swap_values(b(i, j), b(other, j));
        }
}

// b = U^-1 b for the upper triangle U of an n x n matrix, as solve_lower; its diagonal is the conjugate of what u has if
// `conjugates`.
template <class S>
BK_LINALG void solve_upper(const MatrixTeam& team, int64_t n, int64_t k, const Columns<S>& u, bool unit, const Columns<S>& b,
                           bool conjugates = false) {
    for (int64_t c = team.group; c < k; c += team.groups) {
        S* const x = b.column(c);
        for (int64_t j = n - 1; j >= 0; --j) {
            team.sync_lanes();
            const S value = unit ? x[j] : x[j] / conj_if(conjugates, u(j, j));
            team.sync_lanes();
            if (team.lane == 0) x[j] = value;
            subtract_multiple(team, j, value, u.column(j), x);
        }
    }
}

// --- QR --------------------------------------------------------------------------------------------------------------

// A = Q R of m x n: R in the upper triangle, the vectors of reflectors below, Q = H_0 H_1 ... with the factors tau.
template <class S>
BK_LINALG void factor_qr(const MatrixTeam& team, int64_t m, int64_t n, const Columns<S>& a, S* tau) {
    const int64_t most = m < n ? m : n;
    for (int64_t k = 0; k < most; ++k) {
        S* const v = a.column(k) + k;
        const S factor = make_reflector(team, m - k, v);
        if (team.rank == 0) tau[k] = factor;
        team.sync();
        apply_reflector(team, m - k, n - k - 1, v, conj(factor), a.at(k, k + 1));
    }
    team.sync();
}

// c = Q c, or Q^H c, for the reflectors of factor_qr; c has k columns.
template <class S>
BK_LINALG void apply_q(const MatrixTeam& team, int64_t m, int64_t reflectors, const Columns<S>& a, const S* tau,
                       bool is_adjoint, int64_t k, const Columns<S>& c) {
    for (int64_t step = 0; step < reflectors; ++step) {
        const int64_t at = is_adjoint ? step : reflectors - 1 - step;
        team.sync();
        apply_reflector(team, m - at, k, a.column(at) + at, is_adjoint ? conj(tau[at]) : tau[at], c.at(at, 0));
    }
    team.sync();
}

// A P = Q R with column pivoting (Businger and Golub 1965): column k was exchanged with column order[k], counted from 0. norms
// has 2 n numbers of scratch. Returns the columns whose |R(k, k)| is above rcond |R(0, 0)|.
template <class S, class I>
BK_LINALG int64_t factor_pivoted_qr(const MatrixTeam& team, int64_t m, int64_t n, const Columns<S>& a, S* tau, I* order,
                                    real_t<S>* norms, real_t<S> rcond) {
    using R = real_t<S>;
    const int64_t most = m < n ? m : n;
    R* const exact = norms + n;  // the norms when they were last computed
    for (int64_t j = 0; j < n; ++j) {
        const R length = norm(team, m, a.column(j));
        if (team.rank == 0) norms[j] = exact[j] = length;
    }
    R first = R(0);
    int64_t rank = 0;
    for (int64_t k = 0; k < most; ++k) {
        team.sync();
        R largest = R(-1);
        int64_t at = k;
        for (int64_t j = k + team.rank; j < n; j += team.size)
            if (norms[j] > largest) {
                largest = norms[j];
                at = j;
            }
        team.find_largest(largest, at);
        team.sync();
        if (team.rank == 0) {
            order[k] = static_cast<I>(at);
            norms[at] = norms[k];
            exact[at] = exact[k];
        }
        if (at != k)
            for (int64_t i = team.rank; i < m; i += team.size) swap_values(a(i, k), a(i, at));
        S* const v = a.column(k) + k;
        const S factor = make_reflector(team, m - k, v);
        if (team.rank == 0) tau[k] = factor;
        team.sync();
        apply_reflector(team, m - k, n - k - 1, v, conj(factor), a.at(k, k + 1));
        const R size = modulus(v[0]);
        if (k == 0) first = size;
        if (!(size <= rcond * first) && size != R(0)) rank = k + 1;
        team.sync();
        // Norms of what is left of the columns; those that lost half of their bits are computed again (LAPACK note 176).
        for (int64_t j = k + 1; j < n; ++j) {
            const R ratio = norms[j] == R(0) ? R(0) : modulus(a(k, j)) / norms[j];
            const R rest = (R(1) - ratio) * (R(1) + ratio), kept = rest > R(0) ? rest : R(0);
            const R drift = exact[j] == R(0) ? R(0) : norms[j] / exact[j];
            const bool is_stale = norms[j] != R(0) && kept * drift * drift <= sqrt(kEpsilon<R>);
            const R length = is_stale ? norm(team, m - k - 1, a.column(j) + k + 1) : norms[j] * sqrt(kept);
            team.sync();
            if (team.rank == 0) {
                norms[j] = length;
                if (is_stale) exact[j] = length;
            }
        }
    }
    team.sync();
    return rank;
}

}  // namespace bk::linalg
