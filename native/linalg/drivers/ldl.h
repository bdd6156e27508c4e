// SPDX-License-Identifier: Apache-2.0
// Symmetric and Hermitian indefinite factorisation A = L D L^T or L D L^H by diagonal pivoting (Bunch and Kaufman 1977), in
// the form of LAPACK's sytrf and hetrf, and solutions with it.
#pragma once

#include "linalg/algorithms.h"
#include "linalg/lapack/by_lapack.h"
#include "linalg/problem.h"

namespace bk::linalg {

// The trailing matrix without the block at k, and the multipliers of the rows behind it.
template <class S>
BK_LINALG void eliminate(const MatrixTeam& team, int64_t n, int64_t k, int64_t step, bool hermitian, const Columns<S>& a,
                         S* w) {
    const int64_t first = k + step;
    S* const w_next = w + n;
    if (step == 1) {
        const S pivot = hermitian ? S(real(a(k, k))) : a(k, k);
        for (int64_t i = first + team.rank; i < n; i += team.size) w[i] = a(i, k) / pivot;
    } else {
        const S below = a(k + 1, k), above = conj_if(hermitian, below);
        const S d0 = a(k, k) / above, d1 = a(k + 1, k + 1) / below, whole = d0 * d1 - S(real_t<S>(1));
        for (int64_t i = first + team.rank; i < n; i += team.size) {
            // (a(i, k), a(i, k + 1)) D^-1, numerator and determinant divided by the elements off D's diagonal.
            w[i] = (d1 * (a(i, k) / above) - a(i, k + 1) / above) / whole;
            w_next[i] = (d0 * (a(i, k + 1) / below) - a(i, k) / below) / whole;
        }
    }
    team.sync();
    for (int64_t j = first + team.group; j < n; j += team.groups) {
        subtract_multiple(team, n - j, conj_if(hermitian, w[j]), &a(j, k), &a(j, j));
        if (step == 2) subtract_multiple(team, n - j, conj_if(hermitian, w_next[j]), &a(j, k + 1), &a(j, j));
    }
    team.sync();
    for (int64_t i = first + team.rank; i < n; i += team.size) {
        a(i, k) = w[i];
        if (step == 2) a(i, k + 1) = w_next[i];
    }
}

// The lower triangle of a becomes the multipliers of L and the blocks of D, of one or two rows. A block of one row at k has
// pivots[k] > 0: row and column k were exchanged with pivots[k], from 1; of two rows -pivots[k] = -pivots[k + 1] is the
// row and column that k + 1 was exchanged with. w has 2 n scalars of scratch.
template <class S>
BK_LINALG int32_t factor_ldl(const MatrixTeam& team, int64_t n, bool hermitian, const Columns<S>& a, int32_t* pivots, S* w) {
    using R = real_t<S>;
    const R alpha = (R(1) + sqrt(R(17))) / R(8);
    int32_t info = 0;
    const auto diagonal = [&](int64_t i) { return hermitian ? S(real(a(i, i))) : a(i, i); };
    int64_t step = 1;
    for (int64_t k = 0; k < n; k += step) {
        team.sync();
        step = 1;
        int64_t other = k;
        const R size = size_of_pivot(diagonal(k));
        R in_column = R(-1);
        int64_t at = k + 1;
        for (int64_t i = k + 1 + team.rank; i < n; i += team.size)
            if (size_of_pivot(a(i, k)) > in_column) {
                in_column = size_of_pivot(a(i, k));
                at = i;
            }
        team.find_largest(in_column, at);
        in_column = k + 1 < n && in_column > R(0) ? in_column : R(0);
        const bool is_zero = !(size > R(0) || in_column > R(0));
        if (is_zero) {
            if (info == 0) info = static_cast<int32_t>(k + 1);
        } else if (size < alpha * in_column) {
            R in_row = R(-1);
            int64_t unused = 0;
            for (int64_t j = k + team.rank; j < n; j += team.size) {
                const R each = j < at ? size_of_pivot(a(at, j)) : j > at ? size_of_pivot(a(j, at)) : R(0);
                in_row = each > in_row ? each : in_row;
            }
            team.find_largest(in_row, unused);
            if (size < alpha * in_column * (in_column / in_row)) {
                other = at;
                if (size_of_pivot(diagonal(at)) < alpha * in_row) step = 2;
            }
        }
        const int64_t last = k + step - 1;
        team.sync();
        if (other != last) {
            for (int64_t i = last + 1 + team.rank; i < n; i += team.size) {
                if (i > other) {
                    swap_values(a(i, last), a(i, other));
                } else if (i < other) {
                    const S old = conj_if(hermitian, a(i, last));
                    a(i, last) = conj_if(hermitian, a(other, i));
                    a(other, i) = old;
                }
            }
            if (team.rank == 0) {
                a(other, last) = conj_if(hermitian, a(other, last));
                const S old = diagonal(last);
                a(last, last) = diagonal(other);
                a(other, other) = old;
                if (step == 2) swap_values(a(k + 1, k), a(other, k));
            }
        }
        if (team.rank == 0) {
            pivots[k] = static_cast<int32_t>(step == 1 ? other + 1 : -(other + 1));
            if (step == 2) pivots[k + 1] = pivots[k];
        }
        team.sync();
        if (is_zero) continue;
        eliminate(team, n, k, step, hermitian, a, w);
    }
    team.sync();
    return info;
}

// b = A^-1 b for k columns, with the factors of factor_ldl.
template <class S>
BK_LINALG void solve_ldl(const MatrixTeam& team, int64_t n, int64_t k, bool hermitian, const Columns<S>& a,
                         const int32_t* pivots, const Columns<S>& b) {
    for (int64_t c = team.group; c < k; c += team.groups) {
        S* const x = b.column(c);
        const auto exchange = [&](int64_t i, int64_t other) {
            team.sync_lanes();
            if (team.lane == 0 && other >= 0 && other < n && other != i) swap_values(x[i], x[other]);
            team.sync_lanes();
        };
        for (int64_t at = 0; at < n;) {
            const int64_t step = pivots[at] > 0 || at + 1 == n ? 1 : 2, last = at + step - 1;
            exchange(last, (pivots[at] > 0 ? pivots[at] : -pivots[at]) - 1);
            const S first = x[at], second = x[last];
            subtract_multiple(team, n - last - 1, first, &a(last, at) + 1, x + last + 1);
            if (step == 2) subtract_multiple(team, n - last - 1, second, &a(last, last) + 1, x + last + 1);
            team.sync_lanes();
            if (team.lane == 0) {
                if (step == 1) {
                    x[at] = first / (hermitian ? S(real(a(at, at))) : a(at, at));
                } else {
                    const S below = a(last, at), above = conj_if(hermitian, below);
                    const S d0 = a(at, at) / above, d1 = a(last, last) / below, whole = d0 * d1 - S(real_t<S>(1));
                    x[at] = (d1 * (first / above) - second / below) / whole;
                    x[last] = (d0 * (second / below) - first / above) / whole;
                }
            }
            at += step;
        }
        for (int64_t at = n - 1; at >= 0;) {
            const int64_t step = pivots[at] > 0 || at == 0 ? 1 : 2;
            team.sync_lanes();
            for (int64_t row = at - step + 1; row <= at; ++row) {
                const S* const column = &a(at, row) + 1;
                S sum = S(real_t<S>(0));
                for (int64_t i = team.lane; i < n - at - 1; i += team.lanes)
                    sum = add_product(sum, conj_if(hermitian, column[i]), x[at + 1 + i]);
                sum = team.sum_of_lanes(sum);
                if (team.lane == 0) x[row] = x[row] - sum;
            }
            exchange(at, (pivots[at] > 0 ? pivots[at] : -pivots[at]) - 1);
            at -= step;
        }
    }
}

// Scratch: the matrix, two vectors or some right-hand sides, and pivots.
template <class S>
struct LdlSlot {
    int64_t n, columns;

    int64_t elements() const { return (n | 1) * (n + columns); }
    int64_t bytes() const { return slot_bytes_of(elements(), sizeof(S), n * int64_t{sizeof(int32_t)}); }
};
constexpr int64_t kLdlColumns = 16;

template <class S>
struct LdlJob {
    LdlProblem<S> p;
    int64_t chunks;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t item, char* slot) const {
        const int64_t b = item / chunks, pitch = p.n | 1;
        const Columns<S> a{reinterpret_cast<S*>(slot), pitch}, x{a.data + pitch * p.n, pitch};
        load_lower(team, p.a[b], p.n, a);
        team.sync();
        if (p.x.data == nullptr) {
            const int32_t info = factor_ldl(team, p.n, p.hermitian, a, p.new_pivots + b * p.n, x.data);
            const Matrix<S> to = p.ld[b];
            for_elements(team, p.n, p.n, is_by_rows(to),
                         [&](int64_t i, int64_t j) { to(i, j) = i >= j ? a(i, j) : S(real_t<S>(0)); });
            if (team.rank == 0) p.info[b] = info;
            return;
        }
        const int64_t first = item % chunks * kLdlColumns, k = p.k - first < kLdlColumns ? p.k - first : kLdlColumns;
        load(team, p.b[b].at(0, first), p.n, k, x);
        team.sync();
        solve_ldl(team, p.n, k, p.hermitian, a, p.pivots + b * p.n, x);
        team.sync();
        store(team, x, p.n, k, p.x[b].at(0, first));
    }
};

template <class S>
int64_t ldl_bytes(int64_t batch, int64_t n, int64_t k) {
    const int64_t items = batch * std::max<int64_t>(ceil_div(k, kLdlColumns), 1);
    const int64_t slots = slots_in_workspace(items, LdlSlot<S>{n, std::max<int64_t>(std::min(k, kLdlColumns), 2)}.bytes());
    return std::max(slots, k == 0 ? lapack_bytes<LapackLdl<S>>(batch, n, n) : 0);
}

template <class S>
Status ldl_by_team(const Launch& launch, const LdlProblem<S>& p, void* workspace) {
    const int64_t chunks = std::max<int64_t>(ceil_div(p.k, kLdlColumns), 1);
    const LdlSlot<S> slot{p.n, std::max<int64_t>(std::min(p.k, kLdlColumns), 2)};
    return run_matrices(launch, p.batch * chunks, p.n, slot.bytes(), workspace, p.n * p.n * (p.n / 3 + p.k),
                        LdlJob<S>{p, chunks});
}

template <class S>
Status ldl(const Launch& launch, const LdlProblem<S>& p, void* workspace) {
#if !BK_CUDA
    const auto* const with = p.x.data == nullptr ? lapack_for<S>(p.n, p.n, LapackLdl<S>::kLeast) : nullptr;
    if (with != nullptr) return ldl_by_lapack(launch, *with, p, workspace);
#endif
    return ldl_by_team(launch, p, workspace);
}

}  // namespace bk::linalg
