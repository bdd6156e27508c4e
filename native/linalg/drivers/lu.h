// SPDX-License-Identifier: Apache-2.0
// LU factorisation with partial pivoting, and determinants.
#pragma once

#include "linalg/algorithms.h"
#include "linalg/problem.h"

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

template <class S>
int64_t lu_bytes(int64_t batch, int64_t m, int64_t n) {
    return slots_in_workspace(batch, lu_slot<S>(m, n));
}

template <class S>
Status factor_lu(const Launch& launch, const LuProblem<S>& p, void* workspace) {
    return run_matrices(launch, p.batch, std::max(p.m, p.n), lu_slot<S>(p.m, p.n), workspace, p.m * p.n * std::min(p.m, p.n),
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

    BK_LINALG void operator()(const MatrixTeam& team, int64_t b, char* slot) const {
        const Columns<S> a{reinterpret_cast<S*>(slot), p.n | 1};
        auto* const pivots = reinterpret_cast<int32_t*>(slot + ((p.n | 1) * p.n | 1) * int64_t{sizeof(S)});
        load(team, p.a[b], p.n, p.n, a);
        factor_lu(team, p.n, p.n, a, pivots);
        if (team.rank != 0) return;
        S product = S(R(1)), sign = S(R(1));
        R log_modulus = R(0);
        bool is_odd = false;
        for (int64_t k = 0; k < p.n; ++k) {
            const S pivot = a(k, k);
            const R size = modulus(pivot);
            is_odd = is_odd != (pivots[k] != k);
            product = product * pivot;
            sign = size == R(0) ? S(R(0)) : sign * (pivot / size);
            log_modulus += log(size);
        }
        if (p.det != nullptr) p.det[b] = is_odd ? -product : product;
        if (p.sign != nullptr) p.sign[b] = is_odd ? -sign : sign;
        if (p.log_modulus != nullptr) p.log_modulus[b] = log_modulus;
    }
};

template <class S>
int64_t determinant_bytes(int64_t batch, int64_t n) {
    return slots_in_workspace(batch, determinant_slot<S>(n));
}

template <class S>
Status determinant(const Launch& launch, const DeterminantProblem<S>& p, void* workspace) {
    return run_matrices(launch, p.batch, p.n, determinant_slot<S>(p.n), workspace, p.n * p.n * p.n, DeterminantJob<S>{p});
}

}  // namespace bk::linalg
