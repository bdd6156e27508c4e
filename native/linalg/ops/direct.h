// SPDX-License-Identifier: Apache-2.0
// Functions of native/linalg/tables/direct.abi: the reference's names for one column-major matrix, or an array of pointers.
//
// Failures of a matrix are in info, in device memory. Empty problems are none.
#pragma once

#include <algorithm>

#include "linalg/ops/operands.h"

namespace bk::linalg::direct {

// A pointer argument that may not be NULL, and must be aligned.
struct Named {
    const char* name;
    const void* pointer;
    size_t alignment;
};

BK_COLD inline Status require_all(std::initializer_list<Named> arguments) {
    for (const Named& each : arguments) {
        if (each.pointer == nullptr) return fail(Status::kInvalidProblem, "%s is NULL", each.name);
        if (reinterpret_cast<uintptr_t>(each.pointer) % each.alignment != 0)
            return fail(Status::kMisaligned, "%s is %p, must be aligned to %zu bytes", each.name, each.pointer, each.alignment);
    }
    return Status::kOk;
}

BK_COLD inline Status require_ld(const char* name, int64_t ld, const char* rows_name, int64_t rows) {
    if (ld >= std::max<int64_t>(rows, 1)) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is %lld, must be >= %s, %lld, and >= 1", name, static_cast<long long>(ld),
                rows_name, static_cast<long long>(rows));
}

BK_COLD inline Status require_uplo(int32_t uplo) {
    if (uplo == 0 || uplo == 1) return Status::kOk;
    return fail(Status::kInvalidProblem, "uplo is %d, must be 0 (lower) or 1 (upper)", uplo);
}

inline Status set_size(int64_t bytes, size_t* out_bytes) {
    *out_bytes = carved(bytes);
    return Status::kOk;
}

inline Status clear_info(int32_t* info, int64_t count, void* stream) {
    return fill_bytes({nullptr, 0, stream}, info, 0, static_cast<size_t>(count) * sizeof(int32_t));
}

// --- Cholesky --------------------------------------------------------------------------------------------------------

template <class T>
Status cholesky_size(int32_t n, int32_t lda, size_t* out_bytes) {
    BK_TRY(require_non_negative({{"n", n}}));
    BK_TRY(require_ld("lda", lda, "n", n));
    BK_TRY(require_all({{"out_bytes", out_bytes, alignof(size_t)}}));
    return set_size(n == 0 ? 0 : cholesky_bytes<T>(1, n), out_bytes);
}

template <class T>
Status run_cholesky(int32_t uplo, int32_t n, int32_t lda, void* a, int32_t* info, void* workspace, size_t workspace_bytes,
                    void* stream) {
    BK_TRY(require_uplo(uplo));
    BK_TRY(require_non_negative({{"n", n}}));
    BK_TRY(require_ld("lda", lda, "n", n));
    BK_TRY(require_all({{"info_out", info, alignof(int32_t)}}));
    if (n == 0) return clear_info(info, 1, stream);
    BK_TRY(require_all({{"a_inout", a, sizeof(T)}}));
    const Launch launch{workspace, workspace_bytes, stream};
    void* scratch;
    BK_TRY(take_workspace(launch, cholesky_bytes<T>(1, n), &scratch));
    const Matrices<T> l = lower_view(column_major(static_cast<T*>(a), lda), uplo == 1);
    return cholesky<T>(launch, {1, n, l.constant(), l, info, false}, scratch);
}

template <class T>
Status run_cholesky_batched(int32_t uplo, int32_t n, int32_t lda, void** a_array, int32_t* info, int32_t batch_size,
                            void* stream) {
    BK_TRY(require_uplo(uplo));
    BK_TRY(require_non_negative({{"n", n}, {"batch_size", batch_size}}));
    BK_TRY(require_ld("lda", lda, "n", n));
    if (batch_size == 0) return Status::kOk;
    BK_TRY(require_all({{"info_array", info, alignof(int32_t)}}));
    if (n == 0) return clear_info(info, batch_size, stream);
    BK_TRY(require_all({{"a_array", a_array, alignof(void*)}}));
    Matrices<T> l{nullptr, 0, 1, lda, reinterpret_cast<T* const*>(a_array)};
    l = lower_view(l, uplo == 1);
    return cholesky<T>({nullptr, 0, stream}, {batch_size, n, l.constant(), l, info, false}, nullptr);
}

// --- LU, solutions and inverses ----------------------------------------------------------------------------------------

template <class T>
Status lu_size(int32_t m, int32_t n, int32_t lda, size_t* out_bytes) {
    BK_TRY(require_non_negative({{"m", m}, {"n", n}}));
    BK_TRY(require_ld("lda", lda, "m", m));
    BK_TRY(require_all({{"out_bytes", out_bytes, alignof(size_t)}}));
    return set_size(m == 0 || n == 0 ? 0 : lu_bytes<T>(1, m, n), out_bytes);
}

template <class T>
Status run_lu(int32_t m, int32_t n, int32_t lda, void* a, int32_t* pivots, int32_t* info, void* workspace,
              size_t workspace_bytes, void* stream) {
    BK_TRY(require_non_negative({{"m", m}, {"n", n}}));
    BK_TRY(require_ld("lda", lda, "m", m));
    BK_TRY(require_all({{"info_out", info, alignof(int32_t)}}));
    if (m == 0 || n == 0) return clear_info(info, 1, stream);
    BK_TRY(require_all({{"a_inout", a, sizeof(T)}, {"pivots_out", pivots, alignof(int32_t)}}));
    const Launch launch{workspace, workspace_bytes, stream};
    void* scratch;
    BK_TRY(take_workspace(launch, lu_bytes<T>(1, m, n), &scratch));
    const Matrices<T> lu = column_major(static_cast<T*>(a), lda);
    return factor_lu<T>(launch, {1, m, n, lu.constant(), lu, pivots, 0, info}, scratch);
}

// The problem of solve, or of inverse with NULL for b.
template <class T>
SolveProblem<T> solve_problem(int32_t n, int32_t nrhs, void* a, int32_t lda, int32_t* pivots, void* b, int32_t ldb, void* x,
                              int32_t ldx, int32_t* info) {
    SolveProblem<T> p{};
    p.batch = 1;
    p.n = n;
    p.k = nrhs;
    p.what = Solves::kGeneral;
    p.is_identity = b == nullptr;
    p.lu = column_major(static_cast<T*>(a), lda);
    p.m = p.lu.constant();
    p.b = column_major(static_cast<T*>(b), ldb).constant();
    p.x = column_major(static_cast<T*>(x), ldx);
    p.new_pivots = pivots;
    p.info = info;
    return p;
}

template <class T>
Status run_factored(const SolveProblem<T>& p, void* workspace, size_t workspace_bytes, void* stream) {
    const Launch launch{workspace, workspace_bytes, stream};
    void* scratch;
    BK_TRY(take_workspace(launch, solve_bytes(p), &scratch));
    return solve<T>(launch, p, scratch);
}

// The bytes do not depend on the number of right-hand sides, which the query does not have: those of many.
template <class T>
Status solve_size(int32_t n, int32_t lda, size_t* out_bytes) {
    BK_TRY(require_non_negative({{"n", n}}));
    BK_TRY(require_ld("lda", lda, "n", n));
    BK_TRY(require_all({{"out_bytes", out_bytes, alignof(size_t)}}));
    const auto p = solve_problem<T>(n, INT32_MAX, nullptr, lda, nullptr, nullptr, lda, nullptr, lda, nullptr);
    return set_size(n == 0 ? 0 : solve_bytes(p), out_bytes);
}

template <class T>
Status run_solve(int32_t n, int32_t nrhs, int32_t lda, int32_t ldb, void* a, int32_t* pivots, void* b, int32_t* info,
                 void* workspace, size_t workspace_bytes, void* stream) {
    BK_TRY(require_non_negative({{"n", n}, {"nrhs", nrhs}}));
    BK_TRY(require_ld("lda", lda, "n", n));
    BK_TRY(require_ld("ldb", ldb, "n", n));
    BK_TRY(require_all({{"info_out", info, alignof(int32_t)}}));
    if (n == 0) return clear_info(info, 1, stream);
    BK_TRY(require_all({{"a_inout", a, sizeof(T)}, {"pivots_out", pivots, alignof(int32_t)}}));
    if (nrhs > 0) BK_TRY(require_all({{"b_inout", b, sizeof(T)}}));
    return run_factored(solve_problem<T>(n, nrhs, a, lda, pivots, b, ldb, b, ldb, info), workspace, workspace_bytes, stream);
}

template <class T>
Status run_inverse(int32_t n, int32_t lda, int32_t ldinv, void* a, int32_t* pivots, void* inverse, int32_t* info,
                   void* workspace, size_t workspace_bytes, void* stream) {
    BK_TRY(require_non_negative({{"n", n}}));
    BK_TRY(require_ld("lda", lda, "n", n));
    BK_TRY(require_ld("ldinv", ldinv, "n", n));
    BK_TRY(require_all({{"info_out", info, alignof(int32_t)}}));
    if (n == 0) return clear_info(info, 1, stream);
    BK_TRY(
        require_all({{"a_inout", a, sizeof(T)}, {"pivots_out", pivots, alignof(int32_t)}, {"inv_inout", inverse, sizeof(T)}}));
    return run_factored(solve_problem<T>(n, n, a, lda, pivots, nullptr, lda, inverse, ldinv, info), workspace, workspace_bytes,
                        stream);
}

// --- QR and least squares ----------------------------------------------------------------------------------------------

template <class T>
Status qr_size(int32_t m, int32_t n, int32_t lda, size_t* out_bytes) {
    BK_TRY(require_non_negative({{"m", m}, {"n", n}}));
    BK_TRY(require_ld("lda", lda, "m", m));
    BK_TRY(require_all({{"out_bytes", out_bytes, alignof(size_t)}}));
    return set_size(m == 0 || n == 0 ? 0 : qr_bytes<T>(1, m, n), out_bytes);
}

template <class T>
Status run_qr(int32_t m, int32_t n, int32_t lda, void* a, void* tau, int32_t* info, void* workspace, size_t workspace_bytes,
              void* stream) {
    BK_TRY(require_non_negative({{"m", m}, {"n", n}}));
    BK_TRY(require_ld("lda", lda, "m", m));
    BK_TRY(require_all({{"info_out", info, alignof(int32_t)}}));
    if (m == 0 || n == 0) return clear_info(info, 1, stream);
    BK_TRY(require_all({{"a_inout", a, sizeof(T)}, {"tau_out", tau, sizeof(T)}}));
    const Launch launch{workspace, workspace_bytes, stream};
    void* scratch;
    BK_TRY(take_workspace(launch, qr_bytes<T>(1, m, n), &scratch));
    const Matrices<T> packed = column_major(static_cast<T*>(a), lda);
    return factor_qr<T>(launch, {1, m, n, packed.constant(), packed, static_cast<T*>(tau), 0, info}, scratch);
}

template <class T>
Status run_ormqr(int32_t side, int32_t op, int32_t m, int32_t n, int32_t k, const void* a, int32_t lda, const void* tau,
                 void* c, int32_t ldc, int32_t* info, void* workspace, size_t workspace_bytes, void* stream) {
    if (side != 0 && side != 1) return fail(Status::kInvalidProblem, "side is %d, must be 0 (left) or 1 (right)", side);
    if (op < 0 || op > 2) return fail(Status::kInvalidProblem, "op is %d, must be 0 (N), 1 (T) or 2 (C)", op);
    BK_TRY(require_non_negative({{"m", m}, {"n", n}, {"k", k}}));
    const int32_t rows = side == 0 ? m : n;
    if (k > rows) return fail(Status::kInvalidProblem, "k is %d, must be <= %s, %d", k, side == 0 ? "m" : "n", rows);
    BK_TRY(require_ld("lda", lda, side == 0 ? "m" : "n", rows));
    BK_TRY(require_ld("ldc", ldc, "m", m));
    BK_TRY(require_all({{"info_out", info, alignof(int32_t)}}));
    if (m == 0 || n == 0 || k == 0) return clear_info(info, 1, stream);
    BK_TRY(require_all({{"a_packed", a, sizeof(T)}, {"tau", tau, sizeof(T)}, {"c_inout", c, sizeof(T)}}));
    Matrices<T> view = column_major(static_cast<T*>(c), ldc);
    if (side == 1) view = view.transposed();
    const ReflectProblem<T> p{1,
                              side == 0 ? m : n,
                              side == 0 ? n : m,
                              k,
                              column_major(static_cast<const T*>(a), lda),
                              static_cast<const T*>(tau),
                              0,
                              view.constant(),
                              view,
                              false,
                              (side == 1) == (op == 0),
                              false,
                              false,
                              info};
    const Launch launch{workspace, workspace_bytes, stream};
    void* scratch = nullptr;  // a shorter workspace is none
    const int64_t bytes = reflect_bytes<T>(1, p.m, p.n, k);
    if (bytes > 0 && workspace_holds(launch, carved(bytes))) BK_TRY(take_workspace(launch, bytes, &scratch));
    return reflect<T>(launch, p, scratch);
}

template <class T>
Status lstsq_size(int32_t m, int32_t n, int32_t nrhs, size_t* out_bytes) {
    BK_TRY(require_non_negative({{"m", m}, {"n", n}, {"nrhs", nrhs}}));
    BK_TRY(require_all({{"out_bytes", out_bytes, alignof(size_t)}}));
    return set_size(least_squares_bytes<T>(1, m, n, nrhs), out_bytes);
}

template <class T>
Status run_lstsq(int32_t m, int32_t n, int32_t nrhs, int32_t lda, int32_t ldb, int32_t ldx, void* a, void* b, void* x,
                 int32_t* niters, int32_t* info, void* workspace, size_t workspace_bytes, void* stream) {
    BK_TRY(require_non_negative({{"m", m}, {"n", n}, {"nrhs", nrhs}}));
    BK_TRY(require_ld("lda", lda, "m", m));
    BK_TRY(require_ld("ldb", ldb, "m", m));
    BK_TRY(require_ld("ldx", ldx, "n", n));
    BK_TRY(require_all({{"info_out", info, alignof(int32_t)}}));
    if (m > 0 && n > 0) BK_TRY(require_all({{"a_inout", a, sizeof(T)}}));
    if (m > 0 && nrhs > 0) BK_TRY(require_all({{"b_inout", b, sizeof(T)}}));
    if (n > 0 && nrhs > 0) BK_TRY(require_all({{"x_out", x, sizeof(T)}}));
    const Launch launch{workspace, workspace_bytes, stream};
    void* scratch;
    BK_TRY(take_workspace(launch, least_squares_bytes<T>(1, m, n, nrhs), &scratch));
    if (niters != nullptr) *niters = 0;
    return least_squares<T>(
        launch,
        {1, m, n, nrhs, column_major(static_cast<const T*>(a), lda), column_major(static_cast<const T*>(b), ldb),
         column_major(static_cast<T*>(x), ldx), kEpsilon<T> * static_cast<T>(std::max(m, n)), nullptr, nullptr, info},
        scratch);
}

}  // namespace bk::linalg::direct
