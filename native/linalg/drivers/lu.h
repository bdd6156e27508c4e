// SPDX-License-Identifier: Apache-2.0
// LU factorisation with partial pivoting, of matrices that do not fit into fast memory right-looking by blocks of columns,
// and determinants.
#pragma once

#include "linalg/algorithms.h"
#include "linalg/drivers/steps.h"
#include "linalg/lapack/by_lapack.h"

namespace bk::linalg {

template <class S>
int64_t lu_slot(int64_t m, int64_t n) {
    return slot_bytes_of((m | 1) * n, sizeof(S));
}

template <class S>
struct LuJob {
    LuProblem<S> p;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t b, char* slot) const {
        const Columns<S> a{reinterpret_cast<S*>(slot), p.m | 1};
        int32_t* const pivots = p.pivots + b * p.pivot_step;
        load(team, p.a[b], p.m, p.n, a);
        const int32_t info = factor_lu(team, p.m, p.n, a, pivots);
        store(team, a, p.m, p.n, p.lu[b]);
        for (int64_t k = team.rank; k < (p.m < p.n ? p.m : p.n); k += team.size) ++pivots[k];
        if (team.rank == 0 && p.info != nullptr) p.info[b] = info;
    }
};

// Columns of a panel, which a team factors in the workspace.
constexpr int64_t kPanel = 32;

template <class S>
struct LuPanelJob {
    int64_t first, m, n;  // the panel's rows and columns from `first` on
    Matrices<S> lu;
    int32_t* pivots;
    int64_t pivot_step;
    int32_t* info;
    S* panels;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t b, char*) const {
        const Columns<S> a{panels + b * m * n, m};
        const Matrix<S> block = lu[b].at(first, first);
        int32_t* const own = pivots + b * pivot_step + first;
        load(team, Matrix<const S>{block.data, block.row, block.column}, m, n, a);
        const int32_t failed = factor_lu(team, m, n, a, own);
        store(team, a, m, n, block);
        for (int64_t k = team.rank; k < (m < n ? m : n); k += team.size) own[k] += static_cast<int32_t>(first) + 1;
        if (team.rank == 0 && info != nullptr && failed != 0 && info[b] == 0) info[b] = static_cast<int32_t>(first) + failed;
    }
};

template <class S>
Status lu_by_blocks(const Launch& launch, const LuProblem<S>& p, S* panels) {
    const int64_t m = p.m, n = p.n, least = std::min(m, n);
    BK_TRY(copy(launch, Copies::kAll, p.batch, m, n, p.a, p.lu));
    if (p.info != nullptr) BK_TRY(fill_bytes(launch, p.info, 0, static_cast<size_t>(p.batch) * sizeof(int32_t)));
    for (int64_t first = 0; first < least; first += kPanel) {
        const int64_t nb = std::min(kPanel, least - first), next = first + nb;
        BK_TRY(run_matrices(launch, p.batch, m - first, 0, nullptr, (m - first) * nb * nb,
                            LuPanelJob<S>{first, m - first, nb, p.lu, p.pivots, p.pivot_step, p.info, panels}));
        const ExchangeStep<S> before{first, nb, m, p.pivots, p.pivot_step, false, p.lu};
        if (first > 0) BK_TRY(for_columns(launch, p.batch, nb, first, before));
        if (next == n) continue;
        ExchangeStep<S> behind = before;
        behind.x = p.lu.at(0, next);
        BK_TRY(for_columns(launch, p.batch, nb, n - next, behind));
        SolveProblem<S> right{};
        right.batch = p.batch;
        right.n = nb;
        right.k = n - next;
        right.what = Solves::kLower;
        right.unit = true;
        right.m = p.lu.at(first, first).constant();
        right.x = p.lu.at(first, next);
        right.b = right.x.constant();
        BK_TRY(solve<S>(launch, right, nullptr));
        if (next < m)
            BK_TRY(product<S>(launch, {p.batch, m - next, n - next, nb, p.lu.at(next, first).constant(), right.b,
                                       p.lu.at(next, next), false, false, true, false}));
    }
    return Status::kOk;
}

template <class S>
int64_t lu_bytes(int64_t batch, int64_t m, int64_t n) {
    const int64_t panels = is_fast(lu_slot<S>(m, n)) ? 0 : times(batch, m * std::min(kPanel, n) * int64_t{sizeof(S)});
    return std::max(panels, lapack_bytes<LapackLu<S>>(batch, m, n));
}

template <class S>
Status factor_lu(const Launch& launch, const LuProblem<S>& p, void* workspace) {
#if !BK_CUDA
    if (const auto* with = lapack_for<S>(p.m, p.n)) return lu_by_lapack(launch, *with, p, workspace);
#endif
    if (!is_fast(lu_slot<S>(p.m, p.n))) return lu_by_blocks(launch, p, static_cast<S*>(workspace));
    return run_matrices(launch, p.batch, std::max(p.m, p.n), lu_slot<S>(p.m, p.n), nullptr, p.m * p.n * std::min(p.m, p.n),
                        LuJob<S>{p});
}

// --- determinants ------------------------------------------------------------------------------------------------------

template <class S>
int64_t determinant_slot(int64_t n) {
    return slot_bytes_of((n | 1) * n, sizeof(S), n * int64_t{sizeof(int32_t)});
}

template <class S>
struct DeterminantJob {
    using R = real_t<S>;
    DeterminantProblem<S> p;
    const S* factors;  // of large matrices, packed, or NULL
    const int32_t* of_factors;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t b, char* slot) const {
        if (factors != nullptr) {
            if (team.rank == 0) multiply(b, {factors + b * p.n * p.n, p.n}, of_factors + b * p.n, 1);
            return;
        }
        const Columns<S> a{reinterpret_cast<S*>(slot), p.n | 1};
        auto* const pivots = reinterpret_cast<int32_t*>(slot + ((p.n | 1) * p.n | 1) * int64_t{sizeof(S)});
        load(team, p.a[b], p.n, p.n, a);
        factor_lu(team, p.n, p.n, a, pivots);
        if (team.rank == 0) multiply(b, {a.data, a.pitch}, pivots, 0);
    }

private:
    // The product of the diagonal with an exponent apart, so that it overflows only if the determinant does.
    BK_LINALG void multiply(int64_t b, const Columns<const S>& a, const int32_t* pivots, int32_t base) const {
        S product = S(R(1)), sign = S(R(1));
        R log_modulus = R(0);
        int64_t exponent = 0;
        bool is_odd = false;
        for (int64_t k = 0; k < p.n; ++k) {
            const S pivot = a(k, k);
            const R size = modulus(pivot);
            is_odd = is_odd != (pivots[k] != k + base);
            int shift = 0;
            frexp(modulus(product), &shift);
            exponent += shift;
            product = scaled(product, -shift) * pivot;
            sign = size == R(0) ? S(R(0)) : sign * (pivot / size);
            log_modulus += log(size);
        }
        if (p.det != nullptr) {
            product = is_odd ? -product : product;
            constexpr int64_t kMost = 1 << 12;  // beyond the range of f64
            const int64_t bounded = exponent > kMost ? kMost : exponent < -kMost ? -kMost : exponent;
            p.det[b] = scaled(scaled(product, static_cast<int>(bounded / 2)), static_cast<int>(bounded - bounded / 2));
        }
        if (p.sign != nullptr) p.sign[b] = is_odd ? -sign : sign;
        if (p.log_modulus != nullptr) p.log_modulus[b] = log_modulus;
    }
    template <class V>
    BK_LINALG static V scaled(V x, int exponent) {
        return ldexp(x, exponent);
    }
    template <class V>
    BK_LINALG static Complex<V> scaled(Complex<V> x, int exponent) {
        return {ldexp(x.re, exponent), ldexp(x.im, exponent)};
    }
};

template <class S>
int64_t determinant_bytes(int64_t batch, int64_t n) {
    if (is_fast(determinant_slot<S>(n))) return 0;
    return times(batch, times(n * n, sizeof(S)) + (n + 3) / 4 * 4 * int64_t{sizeof(int32_t)}) + lu_bytes<S>(batch, n, n);
}

template <class S>
Status determinant(const Launch& launch, const DeterminantProblem<S>& p, void* workspace) {
    const int64_t slot = determinant_slot<S>(p.n), n = p.n;
    if (is_fast(slot))
        return run_matrices(launch, p.batch, n, slot, nullptr, n * n * n, DeterminantJob<S>{p, nullptr, nullptr});
    S* const factors = static_cast<S*>(workspace);
    S* const scratch = factors + p.batch * n * n;
    auto* const pivots = reinterpret_cast<int32_t*>(reinterpret_cast<char*>(scratch) + lu_bytes<S>(p.batch, n, n));
    BK_TRY(factor_lu<S>(launch, {p.batch, n, n, p.a, column_major(factors, n, n * n), pivots, n, nullptr}, scratch));
    return run_matrices(launch, p.batch, 1, 0, nullptr, n, DeterminantJob<S>{p, factors, pivots});
}

}  // namespace bk::linalg
