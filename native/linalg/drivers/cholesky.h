// SPDX-License-Identifier: Apache-2.0
// Cholesky factorisation: matrices that fit into fast memory by a team each, larger ones right-looking by blocks.
#pragma once

#include "linalg/algorithms.h"
#include "linalg/drivers/steps.h"
#include "linalg/lapack/by_lapack.h"

namespace bk::linalg {

template <class S>
int64_t cholesky_slot(int64_t n) {
    return slot_bytes_of((n | 1) * n, sizeof(S));
}

template <class S>
struct CholeskyJob {
    CholeskyProblem<S> p;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t b, char* slot) const {
        const Columns<S> a{reinterpret_cast<S*>(slot), p.n | 1};
        const Matrix<S> to = p.l[b];
        load_lower(team, p.a[b], p.n, a);
        const int32_t info = factor_cholesky(team, p.n, a);
        for_elements(team, p.n, p.n, is_by_rows(to), [&](int64_t i, int64_t j) {
            if (i >= j)
                to(i, j) = info == 0 ? a(i, j) : not_a_number<S>();
            else if (p.clears)
                to(i, j) = S(0);
        });
        if (team.rank == 0 && p.info != nullptr) p.info[b] = info;
    }
};

// The block of rows and columns from `first` on; matrices that failed before are left alone.
template <class S>
struct CholeskyBlockJob {
    int64_t first, n;
    Matrices<S> l;
    int32_t* info;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t b, char* slot) const {
        if (info[b] != 0) return;
        const Columns<S> a{reinterpret_cast<S*>(slot), n | 1};
        const Matrix<S> block = l[b].at(first, first);
        load_lower(team, Matrix<const S>{block.data, block.row, block.column}, n, a);
        const int32_t failed = factor_cholesky(team, n, a);
        store_lower(team, a, n, block);
        team.sync();
        if (team.rank == 0 && failed != 0) info[b] = static_cast<int32_t>(first) + failed;
    }
};

// A Hermitian update of the trailing matrix behind each block of columns.
template <class S>
Status cholesky_by_blocks(const Launch& launch, const CholeskyProblem<S>& p) {
    const int64_t n = p.n;
    BK_TRY(copy(launch, p.clears ? Copies::kLowerAndZeros : Copies::kLower, p.batch, n, n, p.a, p.l));
    BK_TRY(fill_bytes(launch, p.info, 0, static_cast<size_t>(p.batch) * sizeof(int32_t)));
    constexpr int64_t kBlock = block_of<S>();
    for (int64_t first = 0; first < n; first += kBlock) {
        const int64_t nb = std::min(kBlock, n - first), next = first + nb, rest = n - next;
        BK_TRY(run_matrices(launch, p.batch, nb, cholesky_slot<S>(nb), nullptr, nb * nb * nb / 3,
                            CholeskyBlockJob<S>{first, nb, p.l, p.info}));
        if (rest == 0) break;
        // conj(L11) L21^T = A21^T
        SolveProblem<S> below{};
        below.batch = p.batch;
        below.n = nb;
        below.k = rest;
        below.what = Solves::kLower;
        below.conjugates = true;
        below.m = p.l.at(first, first).constant();
        below.x = p.l.at(next, first).transposed();
        below.b = below.x.constant();
        BK_TRY(solve<S>(launch, below, nullptr));
        const Matrices<const S> l21 = p.l.at(next, first).constant();
        BK_TRY(
            product<S>(launch, {p.batch, rest, rest, nb, l21, l21.transposed(), p.l.at(next, next), false, true, true, true}));
    }
    return for_columns(launch, p.batch, n, n, NanStep<S>{n, p.info, true, p.l});
}

template <class S>
int64_t cholesky_bytes(int64_t, int64_t) {
    return 0;
}

template <class S>
Status cholesky(const Launch& launch, const CholeskyProblem<S>& p, void*) {
#if !BK_CUDA
    if (const auto* with = lapack_for<S>(p.n, p.n)) return cholesky_by_lapack(launch, *with, p);
#endif
    if (!is_fast(cholesky_slot<S>(p.n))) return cholesky_by_blocks(launch, p);
    return run_matrices(launch, p.batch, p.n, cholesky_slot<S>(p.n), nullptr, p.n * p.n * p.n / 3, CholeskyJob<S>{p});
}

}  // namespace bk::linalg
