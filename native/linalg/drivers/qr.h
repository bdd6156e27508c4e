// SPDX-License-Identifier: Apache-2.0
// QR factorisation by Householder reflectors, and products with Q.
#pragma once

#include "linalg/algorithms.h"
#include "linalg/problem.h"

namespace bk::linalg {

template <class S>
int64_t qr_slot(int64_t m, int64_t n) {
    return slot_bytes_of((m | 1) * n, sizeof(S));
}

template <class S>
struct QrJob {
    QrProblem<S> p;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t b, char* slot) const {
        const Columns<S> a{reinterpret_cast<S*>(slot), p.m | 1};
        load(team, p.a[b], p.m, p.n, a);
        factor_qr(team, p.m, p.n, a, p.tau + b * p.tau_step);
        store(team, a, p.m, p.n, p.packed[b]);
        if (team.rank == 0 && p.info != nullptr) p.info[b] = 0;
    }
};

template <class S>
int64_t qr_bytes(int64_t batch, int64_t m, int64_t n) {
    return slots_in_workspace(batch, qr_slot<S>(m, n));
}

template <class S>
Status factor_qr(const Launch& launch, const QrProblem<S>& p, void* workspace) {
    return run_matrices(launch, p.batch, std::max(p.m, p.n), qr_slot<S>(p.m, p.n), workspace,
                        2 * p.m * p.n * std::min(p.m, p.n), QrJob<S>{p});
}

// --- products of reflectors --------------------------------------------------------------------------------------------

constexpr int64_t kReflectedColumns = 16;  // of an item

// Reflectors on kReflectedColumns columns of c, which are staged if they fit.
template <class S>
int64_t reflect_slot(int64_t m) {
    const int64_t bytes = slot_bytes_of((m | 1) * kReflectedColumns, sizeof(S));
    return is_fast(bytes) ? bytes : 0;
}

template <class S>
struct ReflectJob {
    ReflectProblem<S> p;
    int64_t chunks;
    bool is_staged;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t item, char* slot) const {
        const int64_t b = item / chunks, first = item % chunks * kReflectedColumns;
        const int64_t n = p.n - first < kReflectedColumns ? p.n - first : kReflectedColumns;
        const Matrix<const S> v = p.v[b];
        const Matrix<S> to = p.c[b].at(0, first);
        const Columns<S> staged{reinterpret_cast<S*>(slot), p.m | 1};
        const Matrix<S> c = is_staged ? staged.view() : to;
        const Matrix<const S> from = p.is_identity ? Matrix<const S>{nullptr, 0, 0} : p.from[b].at(0, first);
        if (p.is_identity)
            for_elements(team, p.m, n, is_by_rows(c),
                         [&](int64_t i, int64_t j) { c(i, j) = S(real_t<S>(i == first + j ? 1 : 0)); });
        else if (is_staged || from.data != to.data)
            for_elements(team, p.m, n, is_by_rows(from), [&](int64_t i, int64_t j) { c(i, j) = from(i, j); });
        for (int64_t step = 0; step < p.k; ++step) {
            const int64_t at = p.is_ascending ? step : p.k - 1 - step;
            team.sync();
            apply(team, at, n, v, conj_if(p.conjugates_tau, p.tau[b * p.tau_step + at]), c);
        }
        team.sync();
        if (is_staged) store(team, staged, p.m, n, to);
        if (team.rank == 0 && first == 0 && p.info != nullptr) p.info[b] = 0;
    }

private:
    BK_LINALG void apply(const MatrixTeam& team, int64_t at, int64_t n, const Matrix<const S>& v, S tau, const Matrix<S>& c) const {
        if (tau == S(0)) return;
        for (int64_t j = team.group; j < n; j += team.groups) {
            S sum = team.lane == 0 ? c(at, j) : S(0);
            for (int64_t i = at + 1 + team.lane; i < p.m; i += team.lanes)
                sum = add_product(sum, conj_if(!p.conjugates_v, v(i, at)), c(i, j));
            sum = tau * team.sum_of_lanes(sum);
            team.sync_lanes();
            for (int64_t i = at + 1 + team.lane; i < p.m; i += team.lanes)
                c(i, j) = subtract_product(c(i, j), sum, conj_if(p.conjugates_v, v(i, at)));
            if (team.lane == 0) c(at, j) = c(at, j) - sum;
        }
    }
};

template <class S>
int64_t reflect_bytes(int64_t, int64_t, int64_t, int64_t) {
    return 0;
}

template <class S>
Status reflect(const Launch& launch, const ReflectProblem<S>& p, void*) {
    const int64_t slot = reflect_slot<S>(p.m), chunks = ceil_div<int64_t>(p.n, kReflectedColumns);
    return run_matrices(launch, p.batch * chunks, std::max<int64_t>(p.m, 1), slot, nullptr, 4 * p.m * p.k * kReflectedColumns,
                        ReflectJob<S>{p, chunks, slot != 0});
}

}  // namespace bk::linalg
