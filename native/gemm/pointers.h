// SPDX-License-Identifier: Apache-2.0
// Pointer-array GEMM: matrix addresses are in lists on the device, which the host does not read.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gemm/grouped.h"

namespace bk {

using Address = int64_t;

inline MatrixStrides listed(MatrixStrides at, const Address* list, int32_t is_aligned) {
    at.list = reinterpret_cast<void* const*>(list);
    at.list_is_aligned = is_aligned != 0;
    return at;
}

inline Status require_flag(const char* name, int32_t value) {
    if (value == 0 || value == 1) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is %d, must be 0 or 1", name, value);
}

// Checks the layout of one listed matrix.
template <class T>
Status require_matrix(const char* name, const char* pitch_name, const StoredMatrices& m) {
    Operand operand;
    BK_TRY(require_pitch(pitch_name, m));
    return locate_matrices(&operand, name, Role::kInput, sizeof(T), pitch_name, m);
}

// D = alpha A B + beta D for each of a batch, of different sizes if there are any on the device.
template <class T>
struct GemmPointers {
    using S = matmul_scalar_t<T>;
    int32_t m, n, k, batch, layout, is_aligned;
    S alpha, beta;
    int64_t lda, ldb, ldd;

    GemmLayout order() const { return static_cast<GemmLayout>(layout); }
    StoredMatrices a_is() const { return stored_a_of(order(), m, k, lda); }
    StoredMatrices b_is() const { return stored_b_of(order(), n, k, ldb); }
    StoredMatrices d_is() const { return {1, 0, m, n, ldd}; }
    Work work() const { return all_or_none(std::min({m, n, batch})); }
    size_t workspace_size() const { return matmul_workspace<T>({m, n, k, batch, {}, false, false, Backend::kOwn}); }
    Status check_extents() const {
        BK_TRY(require_non_negative({{"m", m}, {"n", n}, {"k", k}, {"batch", batch}}));
        BK_TRY(require_layout(layout));
        return require_flag("is_aligned", is_aligned);
    }
    Status check() const {
        BK_TRY(check_extents());
        BK_TRY(require_matrix<T>("a", "lda", a_is()));
        BK_TRY(require_matrix<T>("b", "ldb", b_is()));
        return require_matrix<T>("d", "ldd", d_is());
    }
    Status run(const Address* a, const Address* b, const int32_t* sizes, const Address* d, const Launch& launch) const {
        const MatrixStrides a_at = listed(strides_of(a_is(), a_is_by_rows(order())), a, is_aligned),
                            b_at = listed(strides_of(b_is(), b_is_by_rows(order())), b, is_aligned),
                            d_at = listed(strides_of(d_is(), true), d, is_aligned);
        const Epilogue<T> epilogue{
            nullptr,          nullptr, nullptr, beta == 0 ? MatrixStrides{} : d_at, d_at, alpha, beta, BiasType::kElement,
            Activation::kNone};
        Matmul<T> problem{m, n, k, batch, nullptr, nullptr, a_at, b_at, epilogue};
        problem.backend = Backend::kOwn;
        problem.sizes = sizes;
        return matmul(launch, problem);
    }
};

// GroupedGemm with a pointer array for B.
template <class T>
struct GroupedGemmPointers {
    using S = matmul_scalar_t<T>;
    int32_t m, n, k, groups, layout, is_aligned;
    S alpha, beta;
    int64_t lda, ldb, ldd;

    GroupedGemm<T> grouped() const { return {m, n, k, groups, layout, alpha, beta, lda, ldb, 0, ldd}; }
    int64_t offset_count() const { return grouped().offset_count(); }
    StoredMatrices stored_a() const { return grouped().stored_a(); }
    StoredMatrices stored_d() const { return grouped().stored_d(); }

    Work work() const { return grouped().work(); }
    size_t workspace_size() const { return 0; }
    Status check_extents() const {
        BK_TRY(grouped().check_extents());
        return require_flag("is_aligned", is_aligned);
    }
    Status check() const {
        BK_TRY(check_extents());
        BK_TRY(grouped().check());
        return require_matrix<T>("b", "ldb", stored_b_of(static_cast<GemmLayout>(layout), n, k, ldb));
    }
    Status run(const T* a, const Address* b, const int32_t* offsets, T* d, const Launch& launch) const {
        return grouped().multiply(a, nullptr, listed(grouped().b_at(), b, is_aligned), offsets, d, launch);
    }
};

}  // namespace bk
