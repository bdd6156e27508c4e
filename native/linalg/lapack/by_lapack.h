// SPDX-License-Identifier: Apache-2.0
// Drivers by LAPACK: each has a matrix copied into columns, factored, and copied back, but for triangles, which lie in place.
#pragma once

#include "linalg/drivers/steps.h"
#include "linalg/lapack/lapack.h"

#if !BK_CUDA
namespace bk::linalg {

// A matrix as columns `pitch` elements apart, or its transpose; neither if its strides are others.
template <class S>
struct StoredColumns {
    S* data = nullptr;
    int64_t pitch = 0;
    bool is_transposed = false;

    static StoredColumns of(const Matrix<S>& a, int64_t m, int64_t n) {
        if (a.row == 1 && (n == 1 || a.column >= m)) return {a.data, n == 1 ? std::max<int64_t>(m, 1) : a.column, false};
        if (a.column == 1 && (m == 1 || a.row >= n)) return {a.data, m == 1 ? std::max<int64_t>(n, 1) : a.row, true};
        return {};
    }
};

template <class Parts>
Parts lapack_parts(void* workspace, int64_t worker, int64_t m, int64_t n, int64_t k = 0) {
    Carver aligned(workspace);
    Carver carver(aligned.take<char>(0) + worker * lapack_slot<Parts>(m, n, k));
    return Parts::carve(m, n, k, &carver);
}

template <class S>
Matrices<S> whole(const Columns<S>& a) {
    return column_major(a.data, a.pitch);
}

// --- Cholesky ----------------------------------------------------------------------------------------------------------

// l = a is factored in place; false if its strides or numbers are not LAPACK's.
template <class S>
bool factor_triangle(const Lapack<S>& with, int64_t n, const Matrix<S>& l, int32_t* info) {
    const auto stored = StoredColumns<S>::of(l, n, n);
    if (stored.data == nullptr ||
        !is_finite(Columns<S>{stored.data, stored.pitch}, n, n, !stored.is_transposed, stored.is_transposed))
        return false;
    for (int64_t i = 0; i < n; ++i) l(i, i) = S(real(l(i, i)));
    int64_t failed = 0;
    with.potrf(stored.is_transposed ? "U" : "L", &n, stored.data, &stored.pitch, &failed, 1);
    *info = static_cast<int32_t>(failed);
    return true;
}

template <class S>
Status cholesky_by_lapack(const Launch& launch, const Lapack<S>& with, const CholeskyProblem<S>& p) {
    return for_each_matrix(p.batch, p.n, [&](int64_t b, int64_t) {
        CholeskyProblem<S> one{1, p.n, p.a.only(b), p.l.only(b), p.info + b, p.clears};
        BK_TRY(copy(launch, p.clears ? Copies::kLowerAndZeros : Copies::kLower, 1, p.n, p.n, one.a, one.l));
        one.a = one.l.constant();
        if (!factor_triangle(with, p.n, one.l[0], one.info)) return cholesky_by_blocks(launch, one);
        return for_columns(launch, 1, p.n, p.n, NanStep<S>{p.n, one.info, true, one.l});
    });
}

// --- LU ----------------------------------------------------------------------------------------------------------------

template <class S>
Status lu_by_lapack(const Launch& launch, const Lapack<S>& with, const LuProblem<S>& p, void* workspace) {
    const int64_t m = p.m, n = p.n;
    return for_each_matrix(p.batch, std::max(m, n), [&](int64_t b, int64_t worker) {
        const auto parts = lapack_parts<LapackLu<S>>(workspace, worker, m, n);
        int32_t* const pivots = p.pivots + b * p.pivot_step;
        const LuProblem<S> one{1, m, n, p.a.only(b), p.lu.only(b), pivots, 0, p.info == nullptr ? nullptr : p.info + b};
        BK_TRY(copy(launch, Copies::kAll, 1, m, n, one.a, whole(parts.a)));
        if (!is_finite(parts.a, m, n)) return lu_by_blocks(launch, one, parts.a.data);
        int64_t failed = 0;
        with.getrf(&m, &n, parts.a.data, &parts.a.pitch, parts.pivots, &failed);
        for (int64_t k = 0; k < std::min(m, n); ++k) pivots[k] = static_cast<int32_t>(parts.pivots[k]);
        if (one.info != nullptr) *one.info = static_cast<int32_t>(failed);
        return copy(launch, Copies::kAll, 1, m, n, whole(parts.a).constant(), one.lu);
    });
}

// --- LDL ---------------------------------------------------------------------------------------------------------------

// LAPACK multiplies by reciprocals of pivots: factors that are not finite are computed again.
template <class S>
Status ldl_by_lapack(const Launch& launch, const Lapack<S>& with, const LdlProblem<S>& p, void* workspace) {
    const int64_t n = p.n, size = LapackLdl<S>::work_size(n);
    return for_each_matrix(p.batch, n, [&](int64_t b, int64_t worker) {
        const auto parts = lapack_parts<LapackLdl<S>>(workspace, worker, n, n);
        int32_t* const pivots = p.new_pivots + b * n;
        const LdlProblem<S> one{1, n, 0, p.hermitian, p.a.only(b), p.ld.only(b), pivots, p.info + b, nullptr, {}, {}};
        BK_TRY(copy(launch, Copies::kLower, 1, n, n, one.a, whole(parts.a)));
        if (!is_finite(parts.a, n, n, true)) return ldl_by_team(launch, one, parts.a.data);
        int64_t failed = 0;
        (p.hermitian ? with.hetrf : with.sytrf)("L", &n, parts.a.data, &parts.a.pitch, parts.pivots, parts.work, &size, &failed,
                                                1);
        if (!is_finite(parts.a, n, n, true)) return ldl_by_team(launch, one, parts.a.data);
        for (int64_t k = 0; k < n; ++k) pivots[k] = static_cast<int32_t>(parts.pivots[k]);
        *one.info = static_cast<int32_t>(failed);
        return copy(launch, Copies::kLowerAndZeros, 1, n, n, whole(parts.a).constant(), one.ld);
    });
}

// --- QR ----------------------------------------------------------------------------------------------------------------

template <class S>
Status qr_by_lapack(const Launch& launch, const Lapack<S>& with, const QrProblem<S>& p, void* workspace) {
    const int64_t m = p.m, n = p.n, size = LapackQr<S>::work_size(n);
    return for_each_matrix(p.batch, std::max(m, n), [&](int64_t b, int64_t worker) {
        const auto parts = lapack_parts<LapackQr<S>>(workspace, worker, m, n);
        const QrProblem<S> one{
            1, m, n, p.a.only(b), p.packed.only(b), p.tau + b * p.tau_step, 0, p.info == nullptr ? nullptr : p.info + b};
        BK_TRY(copy(launch, Copies::kAll, 1, m, n, one.a, whole(parts.a)));
        if (!is_finite(parts.a, m, n)) return qr_by_blocks(launch, one, parts.a.data);
        int64_t failed = 0;
        with.geqrf(&m, &n, parts.a.data, &parts.a.pitch, one.tau, parts.work, &size, &failed);
        if (one.info != nullptr) *one.info = 0;
        return copy(launch, Copies::kAll, 1, m, n, whole(parts.a).constant(), one.packed);
    });
}

// LAPACK's N is H_0 H_1 ..., and its C the product of adjoints in ascending order.
template <class S>
Status reflect_by_lapack(const Launch& launch, const Lapack<S>& with, const ReflectProblem<S>& p, void* workspace) {
    const int64_t m = p.m, n = p.n, k = p.k, size = LapackReflect<S>::work_size(n);
    const bool is_formed = p.is_identity && !p.is_ascending && n <= m && k <= n;
    return for_each_matrix(p.batch, std::max(m, n), [&](int64_t b, int64_t worker) {
        const auto parts = lapack_parts<LapackReflect<S>>(workspace, worker, m, n, k);
        const Columns<S> v = is_formed ? parts.c : parts.v;
        BK_TRY(copy(launch, Copies::kAll, 1, m, k, p.v.only(b), whole(v)));
        for (int64_t j = 0; p.conjugates_v && j < k; ++j)
            for (int64_t i = j + 1; i < m; ++i) v(i, j) = conj(v(i, j));
        for (int64_t j = 0; j < k; ++j) parts.tau[j] = conj_if(p.conjugates_tau != p.is_ascending, p.tau[b * p.tau_step + j]);
        int64_t failed = 0;
        if (is_formed) {
            with.orgqr(&m, &n, &k, v.data, &v.pitch, parts.tau, parts.work, &size, &failed);
        } else {
            BK_TRY(copy(launch, p.is_identity ? Copies::kIdentity : Copies::kAll, 1, m, n, p.from.only(b), whole(parts.c)));
            with.ormqr("L",
                       !p.is_ascending ? "N"
                       : kIsComplex<S> ? "C"
                                       : "T",
                       &m, &n, &k, v.data, &v.pitch, parts.tau, parts.c.data, &parts.c.pitch, parts.work, &size, &failed, 1, 1);
        }
        if (p.info != nullptr) p.info[b] = 0;
        return copy(launch, Copies::kAll, 1, m, n, whole(parts.c).constant(), p.c.only(b));
    });
}

// --- triangles ---------------------------------------------------------------------------------------------------------

// OpenBLAS multiplies by reciprocals of the diagonal, which are to be finite and of full precision.
template <class S>
bool has_reciprocals(const Matrix<const S>& t, int64_t n) {
    using R = real_t<S>;
    bool found = true;
    for (int64_t i = 0; i < n; ++i) {
        const R size = size_of_pivot(t(i, i));
        found = found && size > kLeastNormal<R> * R(4) && size < R(0.25) / kLeastNormal<R>;
    }
    return found;
}

// x = t^-1 x for a lower or upper triangle t, in place; false if strides or numbers are not OpenBLAS's.
template <class S>
bool solve_in_place(const Lapack<S>& with, const SolveProblem<S>& p, int64_t b, bool is_lower) {
    const Matrix<const S> m = p.m[b];
    const auto t = StoredColumns<const S>::of(m, p.n, p.n);
    const auto x = StoredColumns<S>::of(p.x[b], p.n, p.k);
    if (t.data == nullptr || x.data == nullptr || (!p.unit && !has_reciprocals(m, p.n))) return false;
    // Rows of x solve x^T t^T = b^T from the right.
    const bool transposes = t.is_transposed != x.is_transposed;
    const char* const op = p.conjugates && kIsComplex<S> ? (transposes ? "C" : "R") : transposes ? "T" : "N";
    const S one = S(real_t<S>(1));
    with.trsm(x.is_transposed ? "R" : "L", is_lower != t.is_transposed ? "L" : "U", op, p.unit ? "U" : "N",
              x.is_transposed ? &p.k : &p.n, x.is_transposed ? &p.n : &p.k, &one, t.data, &t.pitch, x.data, &x.pitch, 1, 1, 1,
              1);
    return true;
}

template <class S>
Status solve_triangle_by_lapack(const Launch& launch, const Lapack<S>& with, const SolveProblem<S>& p, bool is_lower) {
    return for_each_matrix(p.batch, std::max(p.n, p.k), [&](int64_t b, int64_t) {
        if (solve_in_place(with, p, b, is_lower)) return Status::kOk;
        SolveProblem<S> one = p;
        one.batch = 1;
        one.m = p.m.only(b);
        one.x = p.x.only(b);
        one.b = one.x.constant();
        return is_lower ? solve_lower_by_blocks(launch, one) : solve_upper_by_blocks(launch, one);
    });
}

// --- products and solutions of columns -----------------------------------------------------------------------------------

template <class S>
void multiply_by_lapack(const Lapack<S>& with, int64_t n, const Columns<S>& a, const Columns<S>& b, const Columns<S>& c) {
    const S one = S(real_t<S>(1)), zero = S(real_t<S>(0));
    with.gemm("N", "N", &n, &n, &n, &one, a.data, &a.pitch, b.data, &b.pitch, &zero, c.data, &c.pitch, 1, 1);
}

// y = x^-1 y of n x n; x becomes its factors.
template <class S>
void solve_by_lapack(const Lapack<S>& with, int64_t n, const Columns<S>& x, const Columns<S>& y, int64_t* pivots) {
    const S one = S(real_t<S>(1));
    int64_t failed = 0;
    with.getrf(&n, &n, x.data, &x.pitch, pivots, &failed);
    for (int64_t j = 0; j < n; ++j)
        for (int64_t k = 0; k < n; ++k)
            if (pivots[k] != k + 1) swap_values(y(k, j), y(pivots[k] - 1, j));
    with.trsm("L", "L", "N", "U", &n, &n, &one, x.data, &x.pitch, y.data, &y.pitch, 1, 1, 1, 1);
    with.trsm("L", "U", "N", "N", &n, &n, &one, x.data, &x.pitch, y.data, &y.pitch, 1, 1, 1, 1);
}

}  // namespace bk::linalg
#endif
