// SPDX-License-Identifier: Apache-2.0
// Solutions with triangles, factors and general matrices. A matrix that fits into fast memory lies there, and so do some
// right-hand sides; triangles of larger ones are solved by blocks of rows.
#pragma once

#include "linalg/algorithms.h"
#include "linalg/drivers/steps.h"
#include "linalg/lapack/by_lapack.h"

namespace bk::linalg {

// Scratch of a team: the matrix, `columns` right-hand sides, and pivots.
template <class S>
struct SolveSlot {
    int64_t n, columns;

    int64_t matrix() const { return (n | 1) * n; }
    int64_t bytes() const { return slot_bytes_of(matrix() + (n | 1) * columns, sizeof(S), n * int64_t{sizeof(int32_t)}); }
    // A slot for the right-hand sides that fit, at most `most`; for 0 if less than a quarter of these fits beside the matrix.
    static SolveSlot of(int64_t n, int64_t k, int64_t most) {
        SolveSlot slot{n, std::max<int64_t>(std::min(k, most), 1)};
        const int64_t least = (slot.columns + 3) / 4;
        while (slot.columns > least && !is_fast(slot.bytes())) slot.columns = (slot.columns + 1) / 2;
        if (!is_fast(slot.bytes())) slot.columns = 0;
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
        if (p.what != Solves::kLower)
            solve_upper(team, p.n, k, m, is_adjoint || (p.what == Solves::kUpper && p.unit), x, p.what == Solves::kCholesky);
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
    const int64_t columns = SolveSlot<S>::of(p.n, p.k, is_factored ? 128 : kSolvedColumns).columns;
    return {p, columns, is_factored || columns == 0 ? 1 : std::max<int64_t>(ceil_div(p.k, columns), 1)};
}

// x = t^-1 x for a lower triangle of any size: a block of rows, then the product with those below.
template <class S>
Status solve_lower_by_blocks(const Launch& launch, SolveProblem<S> p) {
    constexpr int64_t kBlock = block_of<S>() / 2;  // beside right-hand sides
    p.what = Solves::kLower;
    const int64_t n = p.n;
    const Matrices<const S> t = p.m;
    const Matrices<S> x = p.x;
    for (int64_t first = 0; first < n; first += kBlock) {
        const int64_t nb = std::min(kBlock, n - first), next = first + nb;
        p.n = nb;
        p.m = t.at(first, first);
        p.x = x.at(first, 0);
        p.b = p.x.constant();
        const SolveJob<S> job = solve_job(p);
        BK_TRY(run_matrices(launch, p.batch * job.chunks, nb, SolveSlot<S>{nb, job.columns}.bytes(), nullptr,
                            nb * nb * job.columns, job));
        if (next < n)
            BK_TRY(product<S>(
                launch, {p.batch, n - next, p.k, nb, t.at(next, first), p.b, x.at(next, 0), p.conjugates, false, true, false}));
    }
    return Status::kOk;
}

// With the rows and columns of the triangle in reverse order, upper ones are lower.
template <class S>
Status solve_upper_by_blocks(const Launch& launch, SolveProblem<S> p) {
    p.m = p.m.reversed(p.n, p.n);
    p.x = p.x.rows_reversed(p.n);
    return solve_lower_by_blocks(launch, p);
}

template <class S>
Status solve_triangle(const Launch& launch, const SolveProblem<S>& p, bool is_lower) {
#if !BK_CUDA
    if (const auto* with = lapack_for<S>(p.n, p.n)) return solve_triangle_by_lapack(launch, *with, p, is_lower);
#endif
    return is_lower ? solve_lower_by_blocks(launch, p) : solve_upper_by_blocks(launch, p);
}

// Workspace of a large kGeneral: factors, pivots and info, where the caller does not want them, and that of the factorisation.
template <class S>
struct GeneralParts {
    S* factors;
    int32_t *pivots, *info;
    void* scratch;

    static GeneralParts carve(const SolveProblem<S>& p, Carver* carver) {
        return {carver->take<S>(p.lu.data == nullptr ? times(p.batch, p.n * p.n) : 0),
                carver->take<int32_t>(p.new_pivots == nullptr ? p.batch * p.n : 0),
                carver->take<int32_t>(p.info == nullptr ? p.batch : 0), carver->take<char>(lu_bytes<S>(p.batch, p.n, p.n))};
    }
};

template <class S>
Status solve_by_blocks(const Launch& launch, SolveProblem<S> p, void* workspace) {
    const bool is_general = p.what == Solves::kGeneral;
    if (is_general) {
        Carver carver(workspace);
        const GeneralParts<S> parts = GeneralParts<S>::carve(p, &carver);
        LuProblem<S> lu{p.batch, p.n, p.n, p.m, p.lu, p.new_pivots, p.n, p.info};
        if (lu.lu.data == nullptr) lu.lu = column_major(parts.factors, p.n, p.n * p.n);
        if (lu.pivots == nullptr) lu.pivots = parts.pivots;
        if (lu.info == nullptr) lu.info = parts.info;
        BK_TRY(factor_lu<S>(launch, lu, parts.scratch));
        p.what = Solves::kLu;
        p.m = lu.lu.constant();
        p.pivots = lu.pivots;
        p.pivot_step = p.n;
        p.info = lu.info;
    }
    if (p.k == 0) return Status::kOk;
    BK_TRY(copy(launch, p.is_identity ? Copies::kIdentity : Copies::kAll, p.batch, p.n, p.k, p.b, p.x));
    p.is_identity = false;
    const Solves what = p.what;
    const bool unit = p.unit, is_lu = what == Solves::kLu, is_adjoint = what == Solves::kAdjoint;
    const ExchangeStep<S> exchange{0, p.n, p.n, p.pivots, p.pivot_step, is_adjoint, p.x};
    if (is_lu) BK_TRY(for_columns(launch, p.batch, p.n, p.k, exchange));
    if (what != Solves::kUpper) {
        p.unit = is_lu || (what == Solves::kLower && unit);
        BK_TRY(solve_triangle(launch, p, true));
    }
    if (what != Solves::kLower) {
        p.unit = is_adjoint || (what == Solves::kUpper && unit);
        if (what == Solves::kCholesky) {
            p.m = p.m.transposed();
            p.conjugates = !p.conjugates;
        }
        BK_TRY(solve_triangle(launch, p, false));
    }
    if (is_adjoint) BK_TRY(for_columns(launch, p.batch, p.n, p.k, exchange));
    if (!is_general) return Status::kOk;
    return for_columns(launch, p.batch, p.n, p.k, NanStep<S>{p.n, p.info, false, p.x});
}

template <class S>
int64_t solve_bytes(const SolveProblem<S>& p) {
    if (p.what != Solves::kGeneral || solve_job(p).columns > 0) return 0;
    Carver carver;
    GeneralParts<S>::carve(p, &carver);
    return static_cast<int64_t>(carver.bytes());
}

template <class S>
Status solve(const Launch& launch, const SolveProblem<S>& p, void* workspace) {
    const SolveJob<S> job = solve_job(p);
    if (job.columns == 0) return solve_by_blocks(launch, p, workspace);
    return run_matrices(launch, p.batch * job.chunks, p.n, SolveSlot<S>{p.n, job.columns}.bytes(), nullptr,
                        p.n * p.n * (p.n + p.k), job);
}

}  // namespace bk::linalg
