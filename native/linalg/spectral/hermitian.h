// SPDX-License-Identifier: Apache-2.0
// Eigenvalues and eigenvectors of a Hermitian matrix by a team.
#pragma once

#include "linalg/jacobi/orthogonalise.h"
#include "linalg/lapack/spectral.h"
#include "linalg/spectral/tridiagonal.h"
#include "linalg/spectral/view.h"

namespace bk::linalg::spectral {

// Job of a batch; v.base, the eigenvectors, and info may be NULL. v may be the memory of a.
template <class E>
struct HermitianJob {
    static constexpr bool kDecomposes = true;
    using Element = E;
    using R = real_t<E>;
    View<const E> a;
    View<E> v;
    R* w;
    int32_t* info;
    int n;
    bool is_upper;
    bool is_decomposed = false;  // by all blocks, but for matrices that did not converge: *missing counts their values

    struct Parts {
        E* a;
        int64_t pitch;
        TridiagonalScratch<E> t;
        Sweeps<R> sweeps;
        E* phase;
        int *order, *shared;
        // A decomposition by all blocks has what it was scaled by, how many values are missing, a shift, a second matrix.
        R *scale, *shift;
        int32_t* missing;
        E* square;
        JacobiParts<E> jacobi;
    };
    BK_HD static Parts carve(Scratch& scratch, int n, bool wants_vectors) {
        Parts p;
        p.pitch = pitch_of<E>(n);
        p.a = scratch.take<E>(p.pitch * n);
        p.t = TridiagonalScratch<E>::take(scratch, n);
        p.sweeps = Sweeps<R>::take(scratch, wants_vectors ? n : 0);
        p.phase = scratch.take<E>(n);
        p.order = scratch.take<int>(n);
        p.shared = scratch.take<int>(2);
        if (n <= kTeamColumns) return p;
        p.scale = scratch.take<R>(1);
        p.shift = scratch.take<R>(1);
        p.missing = scratch.take<int32_t>(1);
        p.square = scratch.take<E>(times(n, n));
        p.jacobi = JacobiParts<E>::carve(scratch, n, 0, n);
        return p;
    }
    static TeamBytes scratch_bytes(int n, bool wants_vectors) {
        const auto own = [&](int extent, int) {
            Scratch scratch(nullptr);
            carve(scratch, extent, wants_vectors);
            return scratch.bytes();
        };
        TeamBytes bytes =
            team_bytes(n, n, kHermitianExtent<E>, own, [](int extent, int) { return HermitianLapack<E>::bytes(extent); });
        if (n > kTeamColumns) bytes.together = jacobi_items(n);
        return bytes;
    }

    BK_LINALG void operator()(const MatrixTeam& team, char* memory, int64_t item) const {
        const Parts p = parts(memory);
        const bool wants_vectors = v.base != nullptr, is_done = is_decomposed && *p.missing == 0;
        const R scale = is_done ? *p.scale : load_scaled(team, p, item);
        if (scale == R(0)) return fail(team, item, n + 1);
        if (!is_done && !decompose_by_lapack(team, p, item)) {
            clear_padding(p.a, p.pitch, n, n);
            clear_upper_halves();
            tridiagonalise(team, p.a, p.pitch, n, p.t);
            if (wants_vectors) form_product(team, p.a, p.pitch, n, n, n - 1, 1, p.t.tau);
            const int left =
                diagonalise<R, E>(team, p.t.d, p.t.e, n, p.sweeps, p.shared, wants_vectors ? p.a : nullptr, p.pitch, n);
            if (left > 0) return fail(team, item, left);
        }
        sort_indices(team, p.t.d, n, false, p.order);
        for_own(team, 0, n, [&](int i) { w[item * n + i] = p.t.d[p.order[i]] / scale; });
        if (team.rank() == 0 && info != nullptr) info[item] = 0;
        if (!wants_vectors || is_done) return;
        for_columns(team, 0, n, [&](int j) {
            const E phase = phase_of(team, p.a + p.order[j] * p.pitch, n);
            if (team.lane() == 0) p.phase[j] = phase;
        });
        team.sync();
        store_columns(team, v, item, p.a, p.pitch, n, n, p.order, p.phase);
    }

    // Steps of all blocks, for column j of a matrix, with the scratch of its team (linalg/jacobi/decompose_cuda.cuh).
    BK_HD Parts parts(char* memory) const {
        Scratch scratch(memory);
        return carve(scratch, n, v.base != nullptr);
    }
    BK_HD static R* values(const Parts& p) { return p.t.d; }
    BK_LINALG R largest_of_column(const MatrixTeam& team, int64_t item, int j) const {
        R most = 0;
        for_own(team, 0, n, [&](int i) { most = larger_or_infinite(most, largest_part(element(item, i, j))); });
        return team.largest(most);
    }
    BK_LINALG void load_column(const MatrixTeam& team, const Parts& p, int64_t item, int j, R scale) const {
        for_own(team, 0, n, [&](int i) { p.a[i + j * p.pitch] = element(item, i, j) * scale; });
    }
    BK_LINALG void store_column(const MatrixTeam& team, const Parts& p, int64_t item, int j) const {
        if (v.base == nullptr) return;
        const E* const from = p.a + p.order[j] * p.pitch;
        const E phase = phase_of(team, from, n);
        E* const to = v.matrix(item) + j * v.by.column;
        for_own(team, 0, n, [&](int i) { to[i * v.by.row] = from[i] * phase; });
    }

private:
    BK_LINALG E element(int64_t item, int64_t i, int64_t j) const {
        const E* const from = a.matrix(item);
        const bool is_read = is_upper ? i <= j : i >= j;
        const E x = is_read ? from[i * a.by.row + j * a.by.column] : conj(from[j * a.by.row + i * a.by.column]);
        return i == j ? element_of<E>(real(x)) : x;
    }
    // The power of two that the loaded matrix was multiplied by; 0 for one that is not finite.
    BK_LINALG R load_scaled(const MatrixTeam& team, const Parts& p, int64_t item) const {
        return scale_columns(team, p.a, p.pitch, n, n, load(team, p, item));
    }
    // False, with the matrix as it was, if LAPACK is not used or did not converge.
    BK_LINALG bool decompose_by_lapack([[maybe_unused]] const MatrixTeam& team, [[maybe_unused]] const Parts& p,
                                       [[maybe_unused]] int64_t item) const {
#if !BK_CUDA
        if (team.lapack_scratch == nullptr) return false;
        if (eigh_by_lapack(team, n, p.a, p.pitch, p.t.d, v.base != nullptr)) return true;
        load_scaled(team, p, item);
#endif
        return false;
    }
    // The whole matrix from one triangle; the largest part of an element, or NaN.
    BK_LINALG R load(const MatrixTeam& team, const Parts& p, int64_t item) const {
        const E* const from = a.matrix(item);
        R most = 0;
        for_elements(team, a.by, n, n, [&](int i, int j) {
            if (is_upper ? i > j : i < j) return;
            E x = from[i * a.by.row + j * a.by.column];
            if (i == j) x = element_of<E>(real(x));
            const R part = largest_part(x);
            most = larger_or_infinite(most, part);
            p.a[i + j * p.pitch] = x;
            p.a[j + i * p.pitch] = conj(x);
        });
        return team.largest(most);
    }
    BK_LINALG void fail(const MatrixTeam& team, int64_t item, int32_t why) const {
        const R nan = nan_of<R>();
        for_own(team, 0, n, [&](int i) { w[item * n + i] = nan; });
        fill_matrix(team, v, item, n, n, nan_of<E>());
        if (team.rank() == 0 && info != nullptr) info[item] = why;
    }
};

}  // namespace bk::linalg::spectral
