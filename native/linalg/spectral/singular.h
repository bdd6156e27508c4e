// SPDX-License-Identifier: Apache-2.0
// Singular values and vectors of a matrix by a team. A wide matrix is decomposed as its conjugate transpose, so that the
// left vectors of the iteration are those of the longer side.
#pragma once

#include "linalg/jacobi/orthogonalise.h"
#include "linalg/lapack/spectral.h"
#include "linalg/problem.h"
#include "linalg/spectral/bidiagonal.h"
#include "linalg/spectral/view.h"

namespace bk::linalg::spectral {

// Extents and results of a singular value decomposition, which its scratch depends on.
struct SingularShape {
    int m = 0, n = 0;
    bool wants_vectors = false;
    bool is_full = false;  // all vectors of the longer side

    BK_HD bool is_wide() const { return m < n; }
    BK_HD int rows() const { return m < n ? n : m; }
    BK_HD int columns() const { return m < n ? m : n; }
    BK_HD int long_vectors() const { return is_full ? rows() : columns(); }
};

// Job of a batch, A = U S V^H. u holds U, v holds V, each without a base if it is not wanted; `rank` columns of each, and as
// many values, are written. The squares of the other values sum up to residual[item]^2, unless it is NULL.
template <class E>
struct SingularJob {
    static constexpr bool kDecomposes = true;
    using Element = E;
    using R = real_t<E>;
    View<const E> a;
    View<E> u, v;
    bool conjugates_v;  // v gets conj(V), as a conjugate transpose
    R* s;
    int64_t step_s;
    int32_t* info;
    double* residual;
    SingularShape shape;
    int rank;
    // Products of the vectors, without a base if they are not wanted: the sum over values s above the tolerance of v u^H / s,
    // and the polar factors, the sums of u v^H over all and of s v v^H. `counted` is how many values are above the tolerance.
    View<E> inverse, unitary, hermitian;
    int32_t* counted;
    double atol, rtol;
    bool is_decomposed = false;  // by all blocks, but for matrices that did not converge: *missing counts their values

    struct Parts {
        E *longs, *shorts;
        int64_t long_pitch, short_pitch;
        BidiagonalScratch<E> b;
        Sweeps<R> left, right;
        R* size;
        E* phase;
        int *order, *shared;
        // A decomposition by all blocks has what it was scaled by, how many values are missing, and R below the reflectors of a
        // QR factorisation, if there are more rows than columns.
        R* scale;
        int32_t* missing;
        E *packed, *tau;
        JacobiParts<E> jacobi;
    };
    BK_HD static Parts carve(Scratch& scratch, const SingularShape& shape) {
        const int rows = shape.rows(), n = shape.columns(), kept = shape.wants_vectors ? shape.long_vectors() : n;
        Parts p;
        p.long_pitch = pitch_of<E>(rows);
        p.short_pitch = pitch_of<E>(n);
        p.longs = scratch.take<E>(p.long_pitch * kept);
        p.shorts = scratch.take<E>(p.short_pitch * n);
        p.b = BidiagonalScratch<E>::take(scratch, n);
        p.left = Sweeps<R>::take(scratch, shape.wants_vectors ? n : 0);
        p.right = Sweeps<R>::take(scratch, shape.wants_vectors ? n : 0);
        p.size = scratch.take<R>(n);
        p.phase = scratch.take<E>(kept);
        p.order = scratch.take<int>(kept);
        p.shared = scratch.take<int>(2);
        if (n <= kTeamColumns) return p;
        p.scale = scratch.take<R>(1);
        p.missing = scratch.take<int32_t>(1);
        p.packed = scratch.take<E>(rows > n ? times(rows, n) : 0);
        p.tau = scratch.take<E>(n);
        p.jacobi = JacobiParts<E>::carve(scratch, n, shape.wants_vectors ? n : 0, n);
        return p;
    }
    static TeamBytes scratch_bytes(const SingularShape& shape) {
        const auto own = [&](int rows, int columns) {
            Scratch scratch(nullptr);
            carve(scratch, {rows, columns, shape.wants_vectors, shape.is_full});
            return scratch.bytes();
        };
        TeamBytes bytes = team_bytes(shape.rows(), shape.columns(), kHermitianExtent<E>, own, [&](int rows, int columns) {
            return SingularLapack<E>::bytes(rows, columns, shape.wants_vectors);
        });
        if (shape.columns() > kTeamColumns) {
            bytes.together = jacobi_items(shape.columns());
            bytes.drivers = driver_bytes(shape);
        }
        return bytes;
    }

    // Bytes for each matrix whose QR factorisation and its product come before and after (linalg/drivers/qr.h).
    static int64_t driver_bytes(const SingularShape& shape) {
        const int64_t rows = shape.rows(), n = shape.columns(), kept = shape.wants_vectors ? shape.long_vectors() : n;
        if (rows == n) return 0;
        return ceil_div<int64_t>(std::max(qr_bytes<E>(1, rows, n), reflect_bytes<E>(1, rows, kept, n)), 256) * 256;
    }

    BK_LINALG void operator()(const MatrixTeam& team, char* memory, int64_t item) const {
        const Parts p = parts(memory);
        const int rows = shape.rows(), n = shape.columns();
        const bool wants = shape.wants_vectors, is_done = is_decomposed && *p.missing == 0;
        const R scale = is_done ? *p.scale : load_scaled(team, p, item);
        if (scale == R(0)) return fail(team, item, n + 1);
        if (!is_done && !decompose_by_lapack(team, p, item)) {
            clear_padding(p.longs, p.long_pitch, rows, wants ? shape.long_vectors() : n);
            clear_padding(p.shorts, p.short_pitch, n, n);
            clear_upper_halves();
            bidiagonalise(team, p.longs, p.long_pitch, rows, n, p.shorts, p.short_pitch, p.b);
            if (wants) {
                form_product(team, p.longs, p.long_pitch, rows, shape.long_vectors(), n, 0, p.b.left_tau);
                form_product(team, p.shorts, p.short_pitch, n, n, n - 1, 1, p.b.right_tau);
            }
            const int left = diagonalise_bidiagonal<R, E>(team, p.b.d, p.b.e, n, p.left, p.right, p.shared, p.longs,
                                                          p.long_pitch, rows, wants ? p.shorts : nullptr, p.short_pitch);
            if (left > 0) return fail(team, item, left);
        }
        for_own(team, 0, n, [&](int i) { p.size[i] = absolute(p.b.d[i]); });
        team.sync();
        sort_indices(team, p.size, n, true, p.order);
        for_own(team, 0,
                s == nullptr ? 0
                : n < rank   ? n
                             : rank,
                [&](int i) { s[item * step_s + i] = p.size[p.order[i]] / scale; });
        if (team.rank() == 0) {
            if (info != nullptr) info[item] = 0;
            if (residual != nullptr) residual[item] = rest_of(p, n, static_cast<double>(scale));
        }
        const int above = count_above(p, n, static_cast<double>(scale));
        if (team.rank() == 0 && counted != nullptr) counted[item] = above;
        if (wants && !is_done) store(team, p, item);
        if (wants) store_products(team, p, item, above, 1 / scale);
    }

    // Steps of all blocks, for column j of the matrix or of the vectors, with the scratch of the matrix' team
    // (linalg/jacobi/decompose_cuda.cuh).
    BK_HD Parts parts(char* memory) const {
        Scratch scratch(memory);
        return carve(scratch, shape);
    }
    BK_HD static R* values(const Parts& p) { return p.b.d; }
    BK_LINALG R largest_of_column(const MatrixTeam& team, int64_t item, int j) const {
        R most = 0;
        for_own(team, 0, shape.rows(), [&](int i) { most = larger_or_infinite(most, largest_part(element(item, i, j))); });
        return team.largest(most);
    }
    BK_LINALG void load_column(const MatrixTeam& team, const Parts& p, int64_t item, int j, R scale) const {
        for_own(team, 0, shape.rows(), [&](int i) { p.longs[i + j * p.long_pitch] = element(item, i, j) * scale; });
    }
    BK_LINALG void store_column(const MatrixTeam& team, const Parts& p, int64_t item, int j) const {
        if (!shape.wants_vectors || j >= rank) return;
        const bool is_wide = shape.is_wide(), is_pair = j < shape.columns();
        const int at = is_pair ? p.order[j] : j;
        const E *const of_longs = p.longs + at * p.long_pitch, *const of_shorts = p.shorts + at * p.short_pitch;
        const E phase =
            is_wide && is_pair ? phase_of(team, of_shorts, shape.columns()) : phase_of(team, of_longs, shape.rows());
        store_vector(team, is_wide ? v : u, item, j, of_longs, shape.rows(), phase, is_wide && conjugates_v);
        if (is_pair) store_vector(team, is_wide ? u : v, item, j, of_shorts, shape.columns(), phase, !is_wide && conjugates_v);
    }

private:
    BK_LINALG E element(int64_t item, int64_t i, int64_t j) const {
        const E* const from = a.matrix(item);
        return shape.is_wide() ? conj(from[j * a.by.row + i * a.by.column]) : from[i * a.by.row + j * a.by.column];
    }
    BK_LINALG void store_vector(const MatrixTeam& team, const View<E>& view, int64_t item, int j, const E* from, int length,
                                E phase, bool conjugates) const {
        if (view.base == nullptr) return;
        E* const to = view.matrix(item) + j * view.by.column;
        for_own(team, 0, length, [&](int i) { to[i * view.by.row] = conj_if(conjugates, from[i] * phase); });
    }
    // The power of two that the loaded matrix was multiplied by; 0 for one that is not finite.
    BK_LINALG R load_scaled(const MatrixTeam& team, const Parts& p, int64_t item) const {
        return scale_columns(team, p.longs, p.long_pitch, shape.rows(), shape.columns(), load(team, p, item));
    }
    // False, with the matrix as it was, if LAPACK is not used or did not converge.
    BK_LINALG bool decompose_by_lapack([[maybe_unused]] const MatrixTeam& team, [[maybe_unused]] const Parts& p,
                                       [[maybe_unused]] int64_t item) const {
#if !BK_CUDA
        if (team.lapack_scratch == nullptr) return false;
        if (svd_by_lapack(team, shape.rows(), shape.columns(), p.longs, p.long_pitch, p.shorts, p.short_pitch, p.b.d,
                          shape.wants_vectors, shape.is_full))
            return true;
        load_scaled(team, p, item);
#endif
        return false;
    }

    // Values above max(atol, rtol s[0]); sizes are scaled.
    BK_LINALG int count_above(const Parts& p, int n, double scale) const {
        const double most = static_cast<double>(p.size[p.order[0]]);
        const double limit = atol * scale > rtol * most ? atol * scale : rtol * most;
        int count = 0;
        while (count<n&& static_cast<double>(p.size[p.order[count]])> limit) ++count;
        return count;
    }

    BK_LINALG static bool is_in_order(const int* order, int count) {
        for (int k = 0; k < count; ++k)
            if (order[k] != k) return false;
        return true;
    }

    // The sum of left_k weight_k right_k^H over the first `count` columns in order.
    template <class Weight>
    BK_LINALG_STEP void store_product(const MatrixTeam& team, const View<E>& view, int64_t item, const E* left,
                                      int64_t left_pitch, int left_rows, const E* right, int64_t right_pitch, int right_rows,
                                      const int* order, int count, const Weight& weight) const {
        E* const to = view.matrix(item);
#if !BK_CUDA
        if (team.lapack_scratch != nullptr && std::min(left_rows, right_rows) == shape.columns() && is_in_order(order, count)) {
            const bool swaps = left_rows < right_rows;
            const auto found =
                swaps ? product_by_lapack(team, right_rows, left_rows, count, right, right_pitch, left, left_pitch, weight)
                      : product_by_lapack(team, left_rows, right_rows, count, left, left_pitch, right, right_pitch, weight);
            for_elements(team, view.by, left_rows, right_rows, [&](int i, int j) {
                to[i * view.by.row + j * view.by.column] = swaps ? conj(found(j, i)) : found(i, j);
            });
            return;
        }
#endif
        for_elements(team, view.by, left_rows, right_rows, [&](int i, int j) {
            E total = element_of<E>(0);
            for (int k = 0; k < count; ++k) {
                const int at = order[k];
                total += weight(at) * (left[i + at * left_pitch] * conj(right[j + at * right_pitch]));
            }
            to[i * view.by.row + j * view.by.column] = total;
        });
    }

    BK_LINALG double rest_of(const Parts& p, int n, double scale) const {
        double squares = 0;
        for (int k = n - 1; k >= rank; --k) {
            const double x = static_cast<double>(p.size[p.order[k]]);
            squares += x * x;
        }
        return sqrt(squares) / scale;
    }

    BK_LINALG R load(const MatrixTeam& team, const Parts& p, int64_t item) const {
        const E* const from = a.matrix(item);
        const bool is_wide = shape.is_wide();
        R most = 0;
        for_elements(team, a.by, shape.m, shape.n, [&](int i, int j) {
            const E x = from[i * a.by.row + j * a.by.column];
            const R part = largest_part(x);
            most = larger_or_infinite(most, part);
            if (is_wide)
                p.longs[j + i * p.long_pitch] = conj(x);
            else
                p.longs[i + j * p.long_pitch] = x;
        });
        return team.largest(most);
    }

    // Columns in descending order of the values, each pair with the phase of U's column, and the signs of the values in the
    // shorter side's.
    BK_LINALG void store(const MatrixTeam& team, const Parts& p, int64_t item) const {
        const bool is_wide = shape.is_wide();
        const int rows = shape.rows(), n = shape.columns(), kept = shape.long_vectors();
        for_own(team, n, kept, [&](int j) { p.order[j] = j; });
        for_columns(team, 0, n, [&](int j) {
            if (!(p.b.d[j] < 0)) return;
            for_lanes(team, 0, n, [&](int i) { p.shorts[i + j * p.short_pitch] = -p.shorts[i + j * p.short_pitch]; });
        });
        team.sync();
        for_columns(team, 0, kept, [&](int j) {
            const E phase = is_wide && j < n ? phase_of(team, p.shorts + p.order[j] * p.short_pitch, n)
                                             : phase_of(team, p.longs + p.order[j] * p.long_pitch, rows);
            if (team.lane() == 0) p.phase[j] = phase;
        });
        team.sync();
        const int longs = kept < rank ? kept : rank, shorts = n < rank ? n : rank;
        const View<E>&long_view = is_wide ? v : u, &short_view = is_wide ? u : v;
        if (long_view.base != nullptr)
            store_columns(team, long_view, item, p.longs, p.long_pitch, rows, longs, p.order, p.phase, is_wide && conjugates_v);
        if (short_view.base != nullptr)
            store_columns(team, short_view, item, p.shorts, p.short_pitch, n, shorts, p.order, p.phase,
                          !is_wide && conjugates_v);
    }
    BK_LINALG void store_products(const MatrixTeam& team, const Parts& p, int64_t item, int above, R back) const {
        const bool is_wide = shape.is_wide();
        const int n = shape.columns();
        const E *const left = is_wide ? p.shorts : p.longs, *const right = is_wide ? p.longs : p.shorts;
        const int64_t left_pitch = is_wide ? p.short_pitch : p.long_pitch, right_pitch = is_wide ? p.long_pitch : p.short_pitch;
        if (inverse.base != nullptr)
            store_product(team, inverse, item, right, right_pitch, shape.n, left, left_pitch, shape.m, p.order, above,
                          [&](int k) { return 1 / (p.size[k] * back); });
        if (unitary.base != nullptr)
            store_product(team, unitary, item, left, left_pitch, shape.m, right, right_pitch, shape.n, p.order, n,
                          [](int) { return R(1); });
        if (hermitian.base != nullptr)
            store_product(team, hermitian, item, right, right_pitch, shape.n, right, right_pitch, shape.n, p.order, n,
                          [&](int k) { return p.size[k] * back; });
    }

    BK_LINALG void fail(const MatrixTeam& team, int64_t item, int32_t why) const {
        const R nan = kNaN<R>;
        const int n = shape.columns(), kept = shape.long_vectors(), values = n < rank ? n : rank;
        for_own(team, 0, s == nullptr ? 0 : values, [&](int i) { s[item * step_s + i] = nan; });
        const int of_u = shape.is_wide() ? n : kept, of_v = shape.is_wide() ? kept : n;
        fill_matrix(team, u, item, shape.m, of_u < rank ? of_u : rank, nan_of<E>());
        fill_matrix(team, v, item, shape.n, of_v < rank ? of_v : rank, nan_of<E>());
        fill_matrix(team, inverse, item, shape.n, shape.m, nan_of<E>());
        fill_matrix(team, unitary, item, shape.m, shape.n, nan_of<E>());
        fill_matrix(team, hermitian, item, shape.n, shape.n, nan_of<E>());
        if (team.rank() != 0) return;
        if (counted != nullptr) counted[item] = 0;
        if (info != nullptr) info[item] = why;
        if (residual != nullptr) residual[item] = kNaN<double>;
    }
};

}  // namespace bk::linalg::spectral
