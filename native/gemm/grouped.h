// SPDX-License-Identifier: Apache-2.0
// Grouped GEMM over rows of A, one matrix of B for each group (experts, adapters), and its backward pass. Group offsets
// are known on the device alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gemm/gemm.h"

namespace bk {

inline Status require_groups(int32_t m, int32_t n, int32_t k, int32_t groups, int32_t layout) {
    BK_TRY(require_non_negative({{"m", m}, {"n", n}, {"k", k}, {"groups", groups}}));
    if (layout == 0 || layout == 1) return Status::kOk;
    return fail(Status::kInvalidProblem, "layout is %d, must be 0 (rrr) or 1 (rcr)", layout);
}

inline MatrixStrides transposed(const MatrixStrides& at) { return {at.column, at.row, at.step}; }

template <class T>
Epilogue<T> plain_epilogue(matmul_element_t<T>* d, const MatrixStrides& at, matmul_scalar_t<T> alpha, matmul_scalar_t<T> beta) {
    return {beta == 0 ? nullptr : d, d, nullptr, at, at, alpha, beta, BiasType::kElement, Activation::kNone};
}

// A is m x k and D m x n, both by rows; B has a matrix for each group, by rows (layout 0) or by columns (1).
template <class T>
struct GroupedGemm {
    using E = matmul_element_t<T>;
    using S = matmul_scalar_t<T>;
    int32_t m, n, k, groups, layout;
    S alpha, beta;
    int64_t lda, ldb, stride_b, ldd;

    int64_t offset_count() const { return int64_t{groups} + 1; }
    StoredMatrices stored_a() const { return {1, 0, m, k, lda}; }
    StoredMatrices stored_b() const { return stored_b_of(static_cast<GemmLayout>(layout), n, k, ldb, groups, stride_b); }
    StoredMatrices stored_d() const { return {1, 0, m, n, ldd}; }

    Work work() const { return all_or_none(std::min(m, n)); }
    size_t workspace_size() const { return 0; }
    Status check_extents() const { return require_groups(m, n, k, groups, layout); }
    Status check() const {
        BK_TRY(check_extents());
        BK_TRY(require_pitch("lda", stored_a()));
        BK_TRY(require_pitch("ldb", stored_b()));
        return require_pitch("ldd", stored_d());
    }
    MatrixStrides b_at() const { return strides_of(stored_b(), layout == 0); }
    Status run(const E* a, const E* b, const int32_t* offsets, E* d, const Launch& launch) const {
        return multiply(a, b, b_at(), offsets, d, launch);
    }
    Status multiply(const E* a, const E* b, const MatrixStrides& b_at, const int32_t* offsets, E* d,
                    const Launch& launch) const {
        const Epilogue<T> epilogue = plain_epilogue<T>(d, strides_of(stored_d(), true), alpha, beta);
        return matmul(launch,
                      Matmul<T>{m, n, k, groups, a, b, strides_of(stored_a(), true), b_at, epilogue, Grouped::kRows, offsets});
    }
};

// da = dd of each group times B^T of the group; db[g] = a^T dd of the group, in B's memory order. Both are contiguous:
// with stride_b 0 B has one matrix, db still one for each group.
template <class T>
struct GroupedGemmBackward {
    using E = matmul_element_t<T>;
    int32_t m, n, k, groups, layout;
    int64_t lddd, lda, ldb, stride_b;

    int64_t offset_count() const { return int64_t{groups} + 1; }
    StoredMatrices stored_dd() const { return {1, 0, m, n, lddd}; }
    StoredMatrices stored_a() const { return {1, 0, m, k, lda}; }
    StoredMatrices stored_b() const { return stored_b_of(static_cast<GemmLayout>(layout), n, k, ldb, groups, stride_b); }

    Work work() const {
        const bool has_da = m > 0 && k > 0, has_db = groups > 0 && n > 0 && k > 0;
        return all_or_none(has_da || has_db);
    }
    size_t workspace_size() const { return 0; }
    Status check_extents() const { return require_groups(m, n, k, groups, layout); }
    Status check() const {
        BK_TRY(check_extents());
        BK_TRY(require_pitch("lddd", stored_dd()));
        BK_TRY(require_pitch("lda", stored_a()));
        return require_pitch("ldb", stored_b());
    }
    Status run(const E* dd, const E* a, const E* b, const int32_t* offsets, E* da, E* db, const Launch& launch) const {
        const MatrixStrides dd_at = strides_of(stored_dd(), true), a_at = strides_of(stored_a(), true),
                            b_at = strides_of(stored_b(), layout == 0);
        if (da != nullptr && m > 0 && k > 0) {
            const Epilogue<T> epilogue = plain_epilogue<T>(da, {k, 1, 0}, 1, 0);
            BK_TRY(
                matmul(launch, Matmul<T>{m, k, n, groups, dd, b, dd_at, transposed(b_at), epilogue, Grouped::kRows, offsets}));
        }
        if (db == nullptr || groups == 0 || n == 0 || k == 0) return Status::kOk;
        const int64_t size = int64_t{n} * k;
        if (layout == 0)
            return matmul(launch, Matmul<T>{k, n, m, groups, a, dd, transposed(a_at), dd_at,
                                            plain_epilogue<T>(db, {n, 1, size}, 1, 0), Grouped::kK, offsets});
        return matmul(launch, Matmul<T>{n, k, m, groups, dd, a, transposed(dd_at), a_at,
                                        plain_epilogue<T>(db, {k, 1, size}, 1, 0), Grouped::kK, offsets});
    }
};

}  // namespace bk
