// SPDX-License-Identifier: Apache-2.0
// Decompositions of matrices of hundreds of rows, on which all SMs work (linalg/jacobi/orthogonalise.h). Values and products
// of the vectors are a team's, as is the whole decomposition of a matrix for which Jacobi's iteration does not converge.
//
// Hermitian matrices get a shift near their norm, which makes them definite: U is then the matrix of eigenvectors, and their
// Rayleigh quotients are the values. Matrices of more rows than columns are replaced by R of a QR factorisation.
#pragma once

#include <cmath>

#include "linalg/jacobi/orthogonalise.h"
#include "linalg/problem.h"
#include "linalg/product.h"
#include "linalg/spectral/hermitian.h"
#include "linalg/spectral/run_cuda.cuh"
#include "linalg/spectral/singular.h"

namespace bk::linalg::spectral {

template <class E>
Matrices<E> slice_matrices(E* data, int64_t pitch, int64_t slice) {
    return column_major(data, pitch, slice / static_cast<int64_t>(sizeof(E)));
}

// The scaled matrix, in two steps: the largest part of each column, in the array of the values, and the columns.
template <class Job>
struct MeasureStep {
    Job job;
    int64_t first, slice;
    char* slices;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t item, int j) const {
        const auto most = job.largest_of_column(team, first + item, j);
        if (team.rank() == 0) Job::values(job.parts(slices + item * slice))[j] = most;
    }
};
template <class Job>
struct LoadStep {
    Job job;
    int64_t first, slice;
    char* slices;
    int columns;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t item, int j) const {
        using R = typename Job::R;
        const auto p = job.parts(slices + item * slice);
        R most = 0;
        for_own(team, 0, columns, [&](int k) { most = larger(most, Job::values(p)[k]); });
        most = team.largest(most);
        const R scale = is_finite(most) ? inverse_power(most) : R(0);
        if (j == 0 && team.rank() == 0) *p.scale = scale;
        if (scale != R(0)) job.load_column(team, p, first + item, j, scale);
    }
};

// Column j of the vectors to where the caller wants them.
template <class Job>
struct StoreStep {
    Job job;
    int64_t first, slice;
    char* slices;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t item, int j) const {
        const auto p = job.parts(slices + item * slice);
        if (*p.scale != 0 && *p.missing == 0) job.store_column(team, p, first + item, j);
    }
};

// Columns of U and W, column-major, and the values; of failures, how many values are missing. longs and shorts may be NULL.
template <class E>
struct ExtractStep {
    JacobiProblem<E> p;
    PerMatrix<E> longs, shorts;
    int64_t long_pitch, short_pitch;
    int rows, columns;  // of longs; columns from p.n on are those of an identity
    PerMatrix<real_t<E>> values;
    PerMatrix<int32_t> missing;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t item, int j) const {
        using R = real_t<E>;
        if (j == 0 && team.rank() == 0) *missing[item] = p.is_due(item, kJacobiSweeps) ? p.n : 0;
        E* const to = longs.first == nullptr ? nullptr : longs[item] + j * long_pitch;
        if (j >= p.n) {
            for_own(team, 0, rows, [&](int i) { to[i] = element_of<E>(i == j ? 1 : 0); });
            return;
        }
        // W loses a little of its length in hundreds of products, and X as much.
        const R carried = p.carried > 0 ? length(team, item, p.rows, p.carried, j) : R(1);
        const R size = length(team, item, 0, p.rows, j), inverse = size > 0 ? 1 / size : R(0);
        const bool is_noise = p.has_noise(item) && size < 4 * Noise<R>::kNorm;
        if (team.rank() == 0) values[item][j] = is_noise ? R(0) : size / carried;
        if (to != nullptr)
            for_own(team, 0, rows, [&](int i) { to[i] = i < p.rows ? p.at(item, i, j) * inverse : element_of<E>(0); });
        if (shorts.first == nullptr) return;
        E* const other = shorts[item] + j * short_pitch;
        for_own(team, 0, p.carried, [&](int i) { other[i] = p.at(item, p.rows + i, j) * (1 / carried); });
    }

private:
    BK_LINALG real_t<E> length(const MatrixTeam& team, int64_t item, int first, int count, int j) const {
        real_t<E> squares = 0;
        for_own(team, 0, count, [&](int i) { squares += square(p.at(item, first + i, j)); });
        return root(team.sum(squares));
    }
};

// Rayleigh quotients of the columns of v, with their products with the matrix; v is copied.
template <class E>
struct QuotientStep {
    PerMatrix<E> v, product, to;
    int n;
    int64_t to_pitch;
    PerMatrix<real_t<E>> values;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t item, int j) const {
        using R = real_t<E>;
        const E *const own = v[item] + int64_t{j} * n, *const other = product[item] + int64_t{j} * n;
        R sum = 0;
        for_own(team, 0, n, [&](int i) {
            sum += real(conj(own[i]) * other[i]);
            to[item][i + j * to_pitch] = own[i];
        });
        sum = team.sum(sum);
        if (team.rank() == 0) values[item][j] = sum;
    }
};

// A bound of a Hermitian matrix' norm, within a few per cent: the Frobenius norm of its power, to the inverse of that.
template <class E>
struct ShiftStep {
    PerMatrix<E> of;
    int n;
    double power;
    PerMatrix<real_t<E>> shift;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t item, int) const {
        using R = real_t<E>;
        const E* const from = of[item];
        double squares = 0;
        for (int64_t i = team.rank(); i < int64_t{n} * n; i += team.size()) {
            const double re = real(from[i]), im = imaginary(from[i]);
            squares += re * re + im * im;
        }
        const R bound = static_cast<R>(1.01 * pow(team.sum(squares), 0.5 / power));
        if (team.rank() == 0) *shift[item] = bound > 0 && is_finite(bound) ? bound : R(1);
    }
};

// A block for each column of each matrix.
template <class Step>
__global__ void __launch_bounds__(kMostTeamThreads) column_steps_kernel(const __grid_constant__ Step step, int columns) {
    step(MatrixTeam{static_cast<int>(threadIdx.x), kMostTeamThreads}, blockIdx.x / columns,
         static_cast<int>(blockIdx.x % columns));
}

template <class Step>
Status run_columns(const Launch& launch, int64_t items, int columns, const Step& step) {
    if (items * columns > kMaxGridX) return fail(Status::kUnsupported, "%d columns are too many", columns);
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(items * columns)), dim3(kMostTeamThreads)},
                         column_steps_kernel<Step>, step, columns);
}

template <class E>
Status decompose(const Launch& launch, const HermitianJob<E>& job, int64_t items, int64_t slice, char* slices, void*) {
    const int n = job.n;
    const auto p = job.parts(slices);
    const auto jacobi = JacobiProblem<E>::of(items, slice, n, 0, n, p.jacobi);
    const auto of = [&](E* data, int64_t pitch) { return slice_matrices(data, pitch, slice); };
    const Matrices<E> a = of(p.a, p.pitch), square = of(p.square, n), free = of(p.jacobi.panels, n);
    const auto multiply = [&](const Matrices<E>& x, const Matrices<E>& y, const Matrices<E>& to) {
        return product<E>(launch, {items, n, n, n, x.constant(), y.constant(), to, false, false, false, false});
    };
    BK_TRY(multiply(a, a, square));
    BK_TRY(multiply(square, square, free));
    const bool is_huge = n > 8192;  // whose eighth power may overflow
    if (!is_huge) BK_TRY(multiply(free, free, square));
    const PerMatrix<E> power{is_huge ? p.jacobi.panels : p.square, slice};
    BK_TRY(run_columns(launch, items, 1, ShiftStep<E>{power, n, is_huge ? 4.0 : 8.0, {p.shift, slice}}));
    BK_TRY(orthogonalise(launch, jacobi, JacobiStart<E>{{p.a, slice}, p.pitch, false, {p.shift, slice}, {p.scale, slice}}));
    BK_TRY(run_columns(launch, items, n,
                       ExtractStep<E>{jacobi, {p.square, slice}, {}, n, 0, n, n, {p.t.d, slice}, {p.missing, slice}}));
    BK_TRY(multiply(a, square, free));
    return run_columns(launch, items, n,
                       QuotientStep<E>{{p.square, slice}, {p.jacobi.panels, slice}, {p.a, slice}, n, p.pitch, {p.t.d, slice}});
}

template <class E>
Status decompose(const Launch& launch, const SingularJob<E>& job, int64_t items, int64_t slice, char* slices, void* drivers) {
    const int rows = job.shape.rows(), n = job.shape.columns();
    const bool wants = job.shape.wants_vectors, is_tall = rows > n;
    const int kept = wants ? job.shape.long_vectors() : n;
    const auto p = job.parts(slices);
    const auto jacobi = JacobiProblem<E>::of(items, slice, n, wants ? n : 0, n, p.jacobi);
    const Matrices<E> longs = slice_matrices(p.longs, p.long_pitch, slice), packed = slice_matrices(p.packed, rows, slice);
    const int64_t tau_step = slice / static_cast<int64_t>(sizeof(E));
    if (is_tall) BK_TRY(factor_qr<E>(launch, {items, rows, n, longs.constant(), packed, p.tau, tau_step, nullptr}, drivers));
    const JacobiStart<E> start{
        {is_tall ? p.packed : p.longs, slice}, is_tall ? rows : p.long_pitch, is_tall, {}, {p.scale, slice}};
    BK_TRY(orthogonalise(launch, jacobi, start));
    const ExtractStep<E> extract{jacobi,
                                 {wants ? p.longs : nullptr, slice},
                                 {wants ? p.shorts : nullptr, slice},
                                 p.long_pitch,
                                 p.short_pitch,
                                 rows,
                                 kept,
                                 {p.b.d, slice},
                                 {p.missing, slice}};
    BK_TRY(run_columns(launch, items, kept, extract));
    if (!is_tall || !wants) return Status::kOk;
    const ReflectProblem<E> problem{
        items, rows, kept, n, packed.constant(), p.tau, tau_step, longs.constant(), longs, false, false, false, false, nullptr};
    return reflect<E>(launch, problem, drivers);
}

// Columns of the matrix, and of the longer vectors.
template <class E>
int column_count(const HermitianJob<E>& job) {
    return job.n;
}
template <class E>
int column_count(const SingularJob<E>& job) {
    return job.shape.columns();
}
template <class E>
int vector_count(const HermitianJob<E>& job) {
    return job.v.base == nullptr ? 0 : job.n;
}
template <class E>
int vector_count(const SingularJob<E>& job) {
    return job.shape.wants_vectors ? job.shape.long_vectors() : 0;
}

template <class Job>
Status run_together(const Launch& launch, int64_t items, int64_t extent, const TeamBytes& bytes, const Job& job) {
    BK_TRY(require_workspace(launch, team_workspace(items, extent, bytes)));
    const int64_t most = std::min(items, bytes.together), slice = TeamShape::of(items, extent, bytes.own).slice;
    Carver carver(launch.workspace);
    char* const slices = carver.take<char>(most * slice);
    void* const drivers = carver.take<char>(most * bytes.drivers);
    Job decomposed = job;
    decomposed.is_decomposed = true;
    const int columns = column_count(job), vectors = vector_count(job);
    for (int64_t first = 0; first < items; first += most) {
        const int64_t count = std::min(most, items - first);
        const Grid grid{dim3(static_cast<unsigned>(count)), dim3(kMostTeamThreads)};
        BK_TRY(run_columns(launch, count, columns, MeasureStep<Job>{job, first, slice, slices}));
        BK_TRY(run_columns(launch, count, columns, LoadStep<Job>{job, first, slice, slices, columns}));
        BK_TRY(decompose(launch, job, count, slice, slices, drivers));
        BK_TRY(launch_kernel(launch, grid, matrix_team_kernel<Job>, decomposed, first, first + count, slice, 0, slices));
        if (vectors > 0) BK_TRY(run_columns(launch, count, vectors, StoreStep<Job>{job, first, slice, slices}));
    }
    return Status::kOk;
}

}  // namespace bk::linalg::spectral
