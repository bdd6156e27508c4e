// SPDX-License-Identifier: Apache-2.0
// Cholesky factorisation: matrices that fit into fast memory by a team each.
#pragma once

#include "linalg/algorithms.h"
#include "linalg/problem.h"

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

template <class S>
int64_t cholesky_bytes(int64_t batch, int64_t n) {
    return slots_in_workspace(batch, cholesky_slot<S>(n));
}

template <class S>
Status cholesky(const Launch& launch, const CholeskyProblem<S>& p, void* workspace) {
    return run_matrices(launch, p.batch, p.n, cholesky_slot<S>(p.n), workspace, p.n * p.n * p.n / 3, CholeskyJob<S>{p});
}

}  // namespace bk::linalg
