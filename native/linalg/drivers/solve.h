// SPDX-License-Identifier: Apache-2.0
// Solutions with triangles, factors and general matrices. The matrix lies in scratch, and so do some right-hand sides.
#pragma once

#include "linalg/algorithms.h"
#include "linalg/problem.h"

namespace bk::linalg {

// Scratch of a team: the matrix, `columns` right-hand sides, and pivots.
template <class S>
struct SolveSlot {
    int64_t n, columns;

    int64_t matrix() const { return (n | 1) * n; }
    int64_t bytes() const { return slot_bytes_of(matrix() + (n | 1) * columns, sizeof(S), n * int64_t{sizeof(int32_t)}); }
    // As many right-hand sides as fit, at most `most`, else some of them in a workspace.
    static SolveSlot of(int64_t n, int64_t k, int64_t most) {
        SolveSlot slot{n, std::min(k, most)};
        while (slot.columns > 1 && !is_fast(slot.bytes())) slot.columns = (slot.columns + 1) / 2;
        if (!is_fast(slot.bytes())) slot.columns = std::min(k, most);
        return slot;
    }
};

constexpr int64_t kSolvedColumns = 32;  // right-hand sides of an item, of matrices that are not factored

template <class S>
struct SolveJob {
    SolveProblem<S> p;
    int64_t columns, chunks;  // right-hand sides of a chunk, and chunks of a matrix that are items of their own

    BK_LINALG void operator()(const MatrixTeam& team, int64_t item, char* slot) const {
        const int64_t b = item / chunks, pitch = p.n | 1;
        const Columns<S> m{reinterpret_cast<S*>(slot), pitch}, x{m.data + pitch * p.n, pitch};
        int32_t info = 0;
        auto* const own = reinterpret_cast<int32_t*>(slot + ((pitch * (p.n + columns)) | 1) * int64_t{sizeof(S)});
        load_matrix(team, p.m[b], m);
        if (p.what == Solves::kGeneral) {
            info = factor_lu(team, p.n, p.n, m, own);
            if (p.lu.data != nullptr) store(team, m, p.n, p.n, p.lu[b]);
            if (p.new_pivots != nullptr)
                for (int64_t k = team.rank; k < p.n; k += team.size) p.new_pivots[b * p.pivot_step + k] = own[k] + 1;
            if (team.rank == 0 && p.info != nullptr) p.info[b] = info;
        } else if (p.what == Solves::kLu || p.what == Solves::kAdjoint) {
            for (int64_t k = team.rank; k < p.n; k += team.size) {
                const int64_t other = int64_t{p.pivots[b * p.pivot_step + k]} - 1;  // bad ones exchange nothing
                own[k] = static_cast<int32_t>(other < 0 || other >= p.n ? k : other);
            }
        }
        const int64_t begin = item % chunks * columns, end = chunks > 1 && begin + columns < p.k ? begin + columns : p.k;
        for (int64_t first = begin; first < end; first += columns) {
            const int64_t k = end - first < columns ? end - first : columns;
            team.sync();
            if (p.is_identity)
                for_elements(team, p.n, k, true, [&](int64_t i, int64_t j) { x(i, j) = S(real_t<S>(i == first + j ? 1 : 0)); });
            else
                load(team, p.b[b].at(0, first), p.n, k, x);
            team.sync();
            solve_columns(team, m, own, k, x);
            const Matrix<S> to = p.x[b].at(0, first);
            for_elements(team, p.n, k, is_by_rows(to),
                         [&](int64_t i, int64_t j) { to(i, j) = info == 0 ? x(i, j) : not_a_number<S>(); });
        }
    }

private:
    BK_LINALG void load_matrix(const MatrixTeam& team, const Matrix<const S>& from, const Columns<S>& to) const {
        const Solves what = p.what;
        for_elements(team, p.n, p.n, is_by_rows(from), [&](int64_t i, int64_t j) {
            const bool is_read = what == Solves::kLower || what == Solves::kCholesky ? i >= j
                                 : what == Solves::kUpper                            ? i <= j
                                                                                     : true;
            if (!is_read) return;
            const S value = conj_if(p.conjugates, from(i, j));
            to(i, j) = value;
            if (what == Solves::kCholesky && i > j) to(j, i) = conj(value);
        });
        team.sync();
    }
    BK_LINALG void solve_columns(const MatrixTeam& team, const Columns<S>& m, const int32_t* pivots, int64_t k,
                                 const Columns<S>& x) const {
        const bool is_lu = p.what == Solves::kLu || p.what == Solves::kGeneral, is_adjoint = p.what == Solves::kAdjoint;
        if (is_lu) {
            exchange_rows(team, p.n, pivots, false, k, x);
            team.sync();
        }
        if (p.what != Solves::kUpper) solve_lower(team, p.n, k, m, is_lu || (p.what == Solves::kLower && p.unit), x);
        team.sync();
        if (p.what != Solves::kLower) solve_upper(team, p.n, k, m, is_adjoint || (p.what == Solves::kUpper && p.unit), x);
        team.sync();
        if (is_adjoint) {
            exchange_rows(team, p.n, pivots, true, k, x);
            team.sync();
        }
    }
};

template <class S>
SolveJob<S> solve_job(const SolveProblem<S>& p) {
    const bool is_factored = p.what == Solves::kGeneral;
    const int64_t columns = std::max<int64_t>(SolveSlot<S>::of(p.n, p.k, is_factored ? 128 : kSolvedColumns).columns, 1);
    return {p, columns, is_factored ? 1 : std::max<int64_t>(ceil_div(p.k, columns), 1)};
}

template <class S>
int64_t solve_bytes(const SolveProblem<S>& p) {
    const SolveJob<S> job = solve_job(p);
    return slots_in_workspace(p.batch * job.chunks, SolveSlot<S>{p.n, job.columns}.bytes());
}

template <class S>
Status solve(const Launch& launch, const SolveProblem<S>& p, void* workspace) {
    const SolveJob<S> job = solve_job(p);
    return run_matrices(launch, p.batch * job.chunks, p.n, SolveSlot<S>{p.n, job.columns}.bytes(), workspace,
                        p.n * p.n * (p.n + p.k), job);
}

}  // namespace bk::linalg
