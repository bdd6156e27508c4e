// SPDX-License-Identifier: Apache-2.0
// Backward pass of a batch of D = alpha A B.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/workspace.h"
#include "gemm/grouped.h"

namespace bk {

// dA = alpha dD B^T and dB = alpha A^T dD, each in its operand's layout, contiguous.
template <class T>
struct GemmDenseBackward {
    using S = matmul_scalar_t<T>;
    int32_t m, n, k, batch, layout;
    S alpha;
    int64_t lddd, stride_dd, lda, stride_a, ldb, stride_b;

    GemmLayout order() const { return static_cast<GemmLayout>(layout); }
    StoredMatrices stored_dd() const { return {batch, stride_dd, m, n, lddd}; }
    StoredMatrices stored_a() const { return stored_a_of(order(), m, k, lda, batch, stride_a); }
    StoredMatrices stored_b() const { return stored_b_of(order(), n, k, ldb, batch, stride_b); }
    StoredMatrices stored_da() const { return stored_a_of(order(), m, k, a_is_transposed() ? m : k, batch, int64_t{m} * k); }
    StoredMatrices stored_db() const { return stored_b_of(order(), n, k, b_is_transposed() ? k : n, batch, int64_t{n} * k); }

    Work work() const { return all_or_none(std::min({std::max(m, n), k, batch})); }
    size_t workspace_size() const {
        const auto bytes = [&](const StoredMatrices& d, int64_t k_extent) {
            return d.is_empty() ? 0 : matmul_workspace<T>({d.rows, d.columns, k_extent, batch});
        };
        return std::max(bytes(stored_da(), n), bytes(stored_db(), m));
    }
    Status check_extents() const {
        BK_TRY(require_non_negative({{"m", m}, {"n", n}, {"k", k}, {"batch", batch}}));
        return require_layout(layout);
    }
    Status check() const {
        BK_TRY(check_extents());
        BK_TRY(require_pitch("lddd", stored_dd()));
        BK_TRY(require_pitch("lda", stored_a()));
        return require_pitch("ldb", stored_b());
    }
    Status run(const T* dd, const T* a, const T* b, T* da, T* db, const Launch& launch) const {
        const MatrixStrides dd_at = strides_of(stored_dd(), true), a_at = strides_of(stored_a(), !a_is_transposed()),
                            b_at = strides_of(stored_b(), !b_is_transposed());
        if (da != nullptr)
            BK_TRY(a_is_transposed() ? multiply(launch, b, b_at, dd, transposed(dd_at), n, da, stored_da())
                                     : multiply(launch, dd, dd_at, b, transposed(b_at), n, da, stored_da()));
        if (db == nullptr) return Status::kOk;
        return b_is_transposed() ? multiply(launch, dd, transposed(dd_at), a, a_at, m, db, stored_db())
                                 : multiply(launch, a, transposed(a_at), dd, dd_at, m, db, stored_db());
    }

private:
    bool a_is_transposed() const { return !a_is_by_rows(order()); }
    bool b_is_transposed() const { return !b_is_by_rows(order()); }

    Status multiply(const Launch& launch, const T* left, const MatrixStrides& left_at, const T* right,
                    const MatrixStrides& right_at, int64_t k_extent, T* d, const StoredMatrices& d_in) const {
        if (d_in.is_empty()) return Status::kOk;
        const Epilogue<T> epilogue = plain_epilogue<T>(d, strides_of(d_in, true), alpha, 0);
        return matmul(launch, Matmul<T>{d_in.rows, d_in.columns, k_extent, batch, left, right, left_at, right_at, epilogue});
    }
};

}  // namespace bk
