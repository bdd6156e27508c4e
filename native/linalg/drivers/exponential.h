// SPDX-License-Identifier: Apache-2.0
// The matrix exponential by scaling and squaring with the Pade approximant of degree 13 (Higham 2005): with 2^s at least the
// 1-norm of a over 5.37, exp(a) = r(a / 2^s)^(2^s), r = (V - U)^-1 (V + U).
#pragma once

#include "linalg/algorithms.h"
#include "linalg/lapack/by_lapack.h"
#include "linalg/problem.h"

namespace bk::linalg {

// c = a b of n x n matrices, which do not overlap. The caller has a barrier in front.
template <class S>
BK_LINALG void multiply(const MatrixTeam& team, int64_t n, const Columns<S>& a, const Columns<S>& b, const Columns<S>& c) {
#if !BK_CUDA
    if (team.has_lapack) return multiply_by_lapack(*lapack<S>(), n, a, b, c);
#endif
#if BK_CUDA
    // A thread has 2 x 4 elements in registers, of c64 2 x 2: 6 reads of shared memory for 8 products. Those beyond the edge
    // are repeated.
    constexpr int kRows = 2, kColumns = sizeof(S) > 8 ? 2 : 4;
    for (int64_t j = int64_t{team.group} * kColumns; j < n; j += int64_t{team.groups} * kColumns)
        for (int64_t i = team.lane; i < n; i += int64_t{team.lanes} * kRows) {
            const S *left[kRows], *right[kColumns];
            S sum[kRows][kColumns];
#pragma unroll
            for (int r = 0; r < kRows; ++r) left[r] = &a(i + r * team.lanes < n ? i + r * team.lanes : i, 0);
#pragma unroll
            for (int q = 0; q < kColumns; ++q) right[q] = b.column(j + q < n ? j + q : j);
#pragma unroll
            for (int r = 0; r < kRows; ++r)
#pragma unroll
                for (int q = 0; q < kColumns; ++q) sum[r][q] = S(real_t<S>(0));
#pragma unroll 4
            for (int64_t k = 0; k < n; ++k) {
                S of_b[kColumns];
#pragma unroll
                for (int q = 0; q < kColumns; ++q) of_b[q] = right[q][k];
#pragma unroll
                for (int r = 0; r < kRows; ++r) {
                    const S of_a = left[r][k * a.pitch];
#pragma unroll
                    for (int q = 0; q < kColumns; ++q) sum[r][q] = add_product(sum[r][q], of_b[q], of_a);
                }
            }
#pragma unroll
            for (int r = 0; r < kRows; ++r)
#pragma unroll
                for (int q = 0; q < kColumns; ++q)
                    if (i + r * team.lanes < n && j + q < n) c(i + r * team.lanes, j + q) = sum[r][q];
        }
#else
    for (int64_t j = team.group; j < n; j += team.groups) {
        S* const to = c.column(j);
        for (int64_t i = team.lane; i < n; i += team.lanes) to[i] = S(real_t<S>(0));
        for (int64_t k = 0; k < n; ++k) subtract_multiple(team, n, -b(k, j), a.column(k), to);
    }
#endif
    team.sync();
}

constexpr int64_t kExponentialMatrices = 6;

template <class S>
int64_t exponential_slot(int64_t n) {
    return slot_bytes_of(times(kExponentialMatrices, (n | 1) * n), sizeof(S), n * int64_t{sizeof(int32_t)});
}

template <class S>
struct ExponentialJob {
    using R = real_t<S>;
    ExponentialProblem<S> p;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t b, char* slot) const {
        const int64_t n = p.n, pitch = n | 1, size = pitch * n;
        Columns<S> matrix[kExponentialMatrices];
        for (int64_t k = 0; k < kExponentialMatrices; ++k) matrix[k] = {reinterpret_cast<S*>(slot) + k * size, pitch};
        auto* const pivots = reinterpret_cast<int32_t*>(slot + (kExponentialMatrices * size | 1) * int64_t{sizeof(S)});
        const Columns<S> a = matrix[0], a2 = matrix[1], a4 = matrix[2], a6 = matrix[3], u = matrix[4], w = matrix[5];
        load(team, p.a[b], n, n, a);
        team.sync();
        const R norm = largest_column(team, a);
        const Matrix<S> to = p.e[b];
        if (!(norm < R(INFINITY))) {
            for_elements(team, n, n, is_by_rows(to), [&](int64_t i, int64_t j) { to(i, j) = not_a_number<S>(); });
            return;
        }
        int squarings = 0;
        R scale = R(1);
        for (; norm * scale > R(5.371920351148152); ++squarings) scale *= R(0.5);
        each(team, [&](int64_t i, int64_t j) { a(i, j) = a(i, j) * scale; });
        multiply(team, n, a, a, a2);
        multiply(team, n, a2, a2, a4);
        multiply(team, n, a4, a2, a6);
        // Coefficients of the approximant, divided by the first so that they are ordinary numbers in f32.
        const R c[] = {R(1),
                       R(0.5),
                       R(0.12),
                       R(0.018333333333333333),
                       R(0.0019927536231884057),
                       R(0.00016304347826086958),
                       R(1.0351966873706003e-05),
                       R(5.1759834368530021e-07),
                       R(2.0431513566525008e-08),
                       R(6.306022705717595e-10),
                       R(1.4837700484041399e-11),
                       R(2.5291534915979658e-13),
                       R(2.8101705462199623e-15),
                       R(1.5440497506703088e-17)};
        each(team, [&](int64_t i, int64_t j) { w(i, j) = a6(i, j) * c[13] + a4(i, j) * c[11] + a2(i, j) * c[9]; });
        multiply(team, n, a6, w, u);
        each(team, [&](int64_t i, int64_t j) {
            w(i, j) = u(i, j) + a6(i, j) * c[7] + a4(i, j) * c[5] + a2(i, j) * c[3] + S(i == j ? c[1] : R(0));
        });
        multiply(team, n, a, w, u);
        each(team, [&](int64_t i, int64_t j) { w(i, j) = a6(i, j) * c[12] + a4(i, j) * c[10] + a2(i, j) * c[8]; });
        multiply(team, n, a6, w, a);  // a is not read any more
        each(team, [&](int64_t i, int64_t j) {
            const S v = a(i, j) + a6(i, j) * c[6] + a4(i, j) * c[4] + a2(i, j) * c[2] + S(i == j ? c[0] : R(0));
            a4(i, j) = v - u(i, j);
            a2(i, j) = v + u(i, j);
        });
        divide(team, a4, a2, pivots, u);
        Columns<S> from = a2, next = a6;
        for (int k = 0; k < squarings; ++k) {
            multiply(team, n, from, from, next);
            const Columns<S> old = from;
            from = next;
            next = old;
        }
        store(team, from, n, n, to);
    }

private:
    template <class F>
    BK_LINALG void each(const MatrixTeam& team, const F& f) const {
        for_elements(team, p.n, p.n, true, f);
        team.sync();
    }
    // y = x^-1 y; x becomes its factors, and u is scratch.
    BK_LINALG void divide(const MatrixTeam& team, const Columns<S>& x, const Columns<S>& y, int32_t* pivots,
                          [[maybe_unused]] const Columns<S>& u) const {
#if !BK_CUDA
        if (team.has_lapack) return solve_by_lapack(*lapack<S>(), p.n, x, y, reinterpret_cast<int64_t*>(u.data));
#endif
        factor_lu(team, p.n, p.n, x, pivots);
        exchange_rows(team, p.n, pivots, false, p.n, y);
        team.sync();
        solve_lower(team, p.n, p.n, x, true, y);
        team.sync();
        solve_upper(team, p.n, p.n, x, false, y);
        team.sync();
    }
    // The 1-norm: the largest sum of a column's moduli, NaN if there is one.
    BK_LINALG R largest_column(const MatrixTeam& team, const Columns<S>& a) const {
        R largest = R(0), nans = R(0);
        int64_t at = 0;
        for (int64_t j = team.rank; j < p.n; j += team.size) {
            R sum = R(0);
            for (int64_t i = 0; i < p.n; ++i) sum += modulus(a(i, j));
            largest = sum > largest ? sum : largest;
            nans += sum != sum ? R(1) : R(0);
        }
        team.find_largest(largest, at);
        return team.sum(nans) > R(0) ? R(NAN) : largest;
    }
};

template <class S>
int64_t exponential_bytes(int64_t batch, int64_t n) {
    return slots_in_workspace(batch, exponential_slot<S>(n));
}

template <class S>
Status exponential(const Launch& launch, const ExponentialProblem<S>& p, void* workspace) {
#if !BK_CUDA
    if (lapack_for<S>(p.n, p.n) != nullptr) {
        const auto slots = [&](int64_t b) {
            return static_cast<char*>(workspace) + b * slots_in_workspace(1, exponential_slot<S>(p.n));
        };
        return for_each_matrix(p.batch, p.n, [&](int64_t b, int64_t) {
            ExponentialJob<S>{p}(MatrixTeam{true}, b, slots(b));
            return Status::kOk;
        });
    }
#endif
    return run_matrices(launch, p.batch, p.n, exponential_slot<S>(p.n), workspace, 20 * p.n * p.n * p.n, ExponentialJob<S>{p});
}

}  // namespace bk::linalg
