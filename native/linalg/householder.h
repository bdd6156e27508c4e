// SPDX-License-Identifier: Apache-2.0
// Householder reflectors H = I - tau v v^H with v[0] = 1, as LAPACK has them: H^H x = (beta, 0, ..., 0) with a real beta.
#pragma once

#include "linalg/loops.h"

namespace bk::linalg {

// Makes the reflector of x[0], ..., x[m - 1]: x[0] becomes beta, and the others become those of v. All threads call it and
// get tau. Quotients, not products with a reciprocal, keep vectors of subnormal numbers.
template <class S>
BK_LINALG S make_reflector(const MatrixTeam& team, int64_t m, S* x) {
    using R = real_t<S>;
    team.sync();
    S alpha = x[0];
    R below = norm(team, m - 1, x + 1);
    if (below == R(0) && imaginary(alpha) == R(0)) return S(0);
    R length = hypotenuse(modulus(alpha), below), scale = R(1);
    if (length < kLeastNormal<R> / kEpsilon<R>) {  // subnormal numbers have few bits: a power of two makes them ordinary
        scale = R(1) / (kEpsilon<R> * kEpsilon<R> * kEpsilon<R>);
        team.sync();
        for (int64_t i = team.rank; i < m; i += team.size) x[i] = x[i] * scale;
        team.sync();
        alpha = x[0];
        below = norm(team, m - 1, x + 1);
        length = hypotenuse(modulus(alpha), below);
    }
    const R beta = real(alpha) > R(0) ? -length : length;
    const S divisor = alpha - S(beta);
    team.sync();
    for (int64_t i = 1 + team.rank; i < m; i += team.size) x[i] = x[i] / divisor;
    if (team.rank == 0) x[0] = S(beta / scale);
    team.sync();
    return (S(beta) - alpha) / beta;
}

// c = H c for m x n columns; v[0] counts as 1 and v's others are read. No barrier: a group's columns are its own.
template <class S>
BK_LINALG void apply_reflector(const MatrixTeam& team, int64_t m, int64_t n, const S* v, S tau, const Columns<S>& c) {
    if (tau == S(0)) return;
#if BK_CUDA
    // A thread has whole columns where these are short: no sums over lanes.
    if (m <= 64) {
        for (int64_t j = team.rank; j < n; j += team.size) {
            S* const y = c.column(j);
            S sum = y[0];
            for (int64_t i = 1; i < m; ++i) sum = add_product(sum, conj(v[i]), y[i]);
            sum = tau * sum;
            y[0] = y[0] - sum;
            for (int64_t i = 1; i < m; ++i) y[i] = subtract_product(y[i], sum, v[i]);
        }
        return;
    }
#endif
    for (int64_t j = team.group; j < n; j += team.groups) {
        S* const y = c.column(j);
        const S sum = tau * (y[0] + team.sum_of_lanes(partial_dot(team, m - 1, v + 1, y + 1)));
        team.sync_lanes();
        subtract_multiple(team, m - 1, sum, v + 1, y + 1);
        if (team.lane == 0) y[0] = y[0] - sum;
    }
}

// apply_reflector() for a matrix of any strides, in memory.
template <class S>
BK_LINALG void apply_reflector(const MatrixTeam& team, int64_t m, int64_t n, const Columns<S>& v, S tau, bool conjugates,
                               const Matrix<S>& c) {
    if (tau == S(0)) return;
    for (int64_t j = team.group; j < n; j += team.groups) {
        S sum = team.lane == 0 ? c(0, j) : S(0);
        for (int64_t i = 1 + team.lane; i < m; i += team.lanes) sum = add_product(sum, conj_if(!conjugates, v(i, 0)), c(i, j));
        sum = tau * team.sum_of_lanes(sum);
        team.sync_lanes();
        for (int64_t i = 1 + team.lane; i < m; i += team.lanes)
            c(i, j) = subtract_product(c(i, j), sum, conj_if(conjugates, v(i, 0)));
        if (team.lane == 0) c(0, j) = c(0, j) - sum;
    }
}

}  // namespace bk::linalg
