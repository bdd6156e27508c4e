// SPDX-License-Identifier: Apache-2.0
// Least squares of least norm, by QR with column pivoting and a complete orthogonal decomposition (Golub and Van Loan, 5.5).
//
// a P = Q [R1; 0] with the r rows R1 of columns that count; R1^H = Z T^H of a second factorisation, so that
// x = P Z T^-1 (Q^H b)[:r]. With r = n, R1 is square, and is solved with itself.
#pragma once

#include "linalg/algorithms.h"
#include "linalg/problem.h"

namespace bk::linalg {

// Scratch of a team: a, Z, `columns` right-hand sides, both tau, norms, and the order of columns.
template <class S>
struct LeastSquaresSlot {
    int64_t m, n, columns;

    int64_t least() const { return m < n ? m : n; }
    int64_t rows() const { return m > n ? m : n; }
    int64_t elements() const { return times(m | 1, n) + times(n | 1, least()) + (rows() | 1) * columns + 2 * least(); }
    int64_t bytes() const {
        return slot_bytes_of(elements(), sizeof(S), 2 * n * int64_t{sizeof(real_t<S>)} + n * int64_t{sizeof(int32_t)});
    }
    static LeastSquaresSlot of(int64_t m, int64_t n, int64_t k) {
        LeastSquaresSlot slot{m, n, std::min<int64_t>(std::max<int64_t>(k, 1), 64)};
        while (slot.columns > 1 && !is_fast(slot.bytes())) slot.columns = (slot.columns + 1) / 2;
        if (!is_fast(slot.bytes())) slot.columns = std::min<int64_t>(std::max<int64_t>(k, 1), 64);
        return slot;
    }
};

template <class S>
struct LeastSquaresJob {
    using R = real_t<S>;
    LeastSquaresProblem<S> p;
    LeastSquaresSlot<S> sizes;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t b, char* slot) const {
        const int64_t m = p.m, n = p.n, least = m < n ? m : n, rows = m > n ? m : n;
        const Columns<S> a{reinterpret_cast<S*>(slot), m | 1}, z{a.data + a.pitch * n, n | 1};
        const Columns<S> y{z.data + z.pitch * least, rows | 1};
        S *const tau = y.data + y.pitch * sizes.columns, *const tau_z = tau + least;
        R* const norms = reinterpret_cast<R*>(tau_z + least);
        auto* const order = reinterpret_cast<int32_t*>(norms + 2 * n);
        load(team, p.a[b], m, n, a);
        team.sync();
        const int64_t rank = factor_pivoted_qr(team, m, n, a, tau, order, norms, p.rcond);
        if (rank < n) {
            for_elements(team, n, rank, true, [&](int64_t i, int64_t j) { z(i, j) = i >= j ? conj(a(j, i)) : S(0); });
            team.sync();
            factor_qr(team, n, rank, z, tau_z);
        }
        for (int64_t first = 0; first < p.k; first += sizes.columns) {
            const int64_t k = p.k - first < sizes.columns ? p.k - first : sizes.columns;
            team.sync();
            load(team, p.b[b].at(0, first), m, k, y);
            apply_q(team, m, least, a, tau, true, k, y);
            if (p.residuals != nullptr) sum_residuals(team, rank, k, y, p.residuals + b * p.k + first);
            team.sync();
            solve_rank(team, rank, a, z, tau_z, k, y);
            for (int64_t j = team.rank; j < k; j += team.size)
                for (int64_t i = least - 1; i >= 0; --i)
                    if (order[i] != i) swap_values(y(i, j), y(order[i], j));
            team.sync();
            store(team, y, n, k, p.x[b].at(0, first));
        }
        if (team.rank == 0 && p.rank != nullptr) p.rank[b] = static_cast<int32_t>(rank);
        if (team.rank == 0 && p.info != nullptr) p.info[b] = 0;
    }

private:
    // Rows beyond the rank are what no x reaches.
    BK_LINALG void sum_residuals(const MatrixTeam& team, int64_t rank, int64_t k, const Columns<S>& y, R* to) const {
        for (int64_t j = team.group; j < k; j += team.groups) {
            R sum = R(0);
            for (int64_t i = rank + team.lane; i < p.m; i += team.lanes) sum += square(y(i, j));
            sum = team.sum_of_lanes(sum);
            if (team.lane == 0) to[j] = sum;
        }
    }
    // y = Z T^-1 y[:rank], with zeros where nothing counts.
    BK_LINALG void solve_rank(const MatrixTeam& team, int64_t rank, const Columns<S>& a, const Columns<S>& z, const S* tau_z,
                              int64_t k, const Columns<S>& y) const {
        if (rank == p.n) {
            solve_upper(team, rank, k, a, false, y);
            team.sync();
            return;
        }
        // T = (R of Z)^H is lower: T x = y by the columns of its adjoint.
        for (int64_t c = team.group; c < k; c += team.groups) {
            S* const x = y.column(c);
            for (int64_t i = 0; i < rank; ++i) {
                team.sync_lanes();
                const S sum = team.sum_of_lanes(partial_dot(team, i, z.column(i), x));
                if (team.lane == 0) x[i] = (x[i] - sum) / conj(z(i, i));
            }
        }
        team.sync();
        for_elements(team, p.n, k, true, [&](int64_t i, int64_t j) {
            if (i >= rank) y(i, j) = S(0);
        });
        apply_q(team, p.n, rank, z, tau_z, false, k, y);
    }
};

template <class S>
int64_t least_squares_bytes(int64_t batch, int64_t m, int64_t n, int64_t k) {
    return slots_in_workspace(batch, LeastSquaresSlot<S>::of(m, n, k).bytes());
}

template <class S>
Status least_squares(const Launch& launch, const LeastSquaresProblem<S>& p, void* workspace) {
    const LeastSquaresSlot<S> sizes = LeastSquaresSlot<S>::of(p.m, p.n, p.k);
    return run_matrices(launch, p.batch, std::max(p.m, p.n), sizes.bytes(), workspace,
                        2 * p.m * p.n * (std::min(p.m, p.n) + p.k), LeastSquaresJob<S>{p, sizes});
}

}  // namespace bk::linalg
