// SPDX-License-Identifier: Apache-2.0
// Row-major GEMM with an optional bias and activation: checks and layouts of the ops in gemm*.abi.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/stored_matrices.h"
#include "gemm/matmul.h"

namespace bk {

// Memory order of A and B: r by rows, c by columns; the third letter is D's.
enum class GemmLayout : int32_t { kRrr = 0, kRcr = 1, kCrr = 2, kCcr = 3 };
constexpr GemmLayout kRrr = GemmLayout::kRrr, kRcr = GemmLayout::kRcr;

constexpr bool a_is_by_rows(GemmLayout layout) { return layout == GemmLayout::kRrr || layout == GemmLayout::kRcr; }
constexpr bool b_is_by_rows(GemmLayout layout) { return layout == GemmLayout::kRrr || layout == GemmLayout::kCrr; }
constexpr KMajor k_major_of(GemmLayout layout) { return {a_is_by_rows(layout), !b_is_by_rows(layout)}; }

inline Status require_layout(int32_t layout) {
    if (layout >= 0 && layout <= 3) return Status::kOk;
    return fail(Status::kInvalidProblem, "layout is %d, must be 0 (rrr), 1 (rcr), 2 (crr) or 3 (ccr)", layout);
}

// Meaning of a NULL C.
enum class NullC { kIsD, kIsZero };

inline StoredMatrices stored_a_of(GemmLayout layout, int64_t m, int64_t k, int64_t pitch, int64_t count = 1, int64_t step = 0) {
    if (!a_is_by_rows(layout)) return {count, step, k, m, pitch};
    return {count, step, m, k, pitch};
}

inline StoredMatrices stored_b_of(GemmLayout layout, int64_t n, int64_t k, int64_t pitch, int64_t count = 1, int64_t step = 0) {
    if (!b_is_by_rows(layout)) return {count, step, n, k, pitch};
    return {count, step, k, n, pitch};
}

// Pitch and step that no element uses are replaced: their addresses might overflow.
inline MatrixStrides strides_of(const StoredMatrices& stored, bool by_rows) {
    const int64_t step = stored.count > 1 && !stored.is_empty() ? stored.step : 0;
    const int64_t pitch = stored.rows > 1 && !stored.is_empty() ? stored.pitch : stored.columns;
    return by_rows ? MatrixStrides{pitch, 1, step} : MatrixStrides{1, pitch, step};
}

template <class T>
Matmul<T> make_matmul(GemmLayout layout, int64_t m, int64_t n, int64_t k, const StoredMatrices& a_in,
                      const matmul_element_t<T>* a, const StoredMatrices& b_in, const matmul_element_t<T>* b,
                      const Epilogue<T>& epilogue) {
    return {m,       n, k, b_in.count, a, b, strides_of(a_in, a_is_by_rows(layout)), strides_of(b_in, b_is_by_rows(layout)),
            epilogue};
}

// Sets the epilogue's C, which is not read if beta is 0.
template <class T>
Status find_c(Epilogue<T>* epilogue, const matmul_result_t<T>* c, const StoredMatrices& c_in, NullC null_c) {
    if (epilogue->beta == 0 || (c == nullptr && null_c == NullC::kIsZero)) return Status::kOk;
    if (c == nullptr) {
        epilogue->c = epilogue->d;
        epilogue->c_at = epilogue->d_at;
        return Status::kOk;
    }
    epilogue->c = c;
    epilogue->c_at = strides_of(c_in, true);
    return Status::kOk;
}

// Problem of the ops with a single GEMM.
template <class T>
struct GemmProblem {
    using S = matmul_scalar_t<T>;
    int32_t m, n, k;
    int64_t lda, ldb, ldc, ldd;
    S alpha, beta;

    Work work() const { return all_or_none(std::min(m, n)); }
    Status check_extents() const { return require_non_negative({{"m", m}, {"n", n}, {"k", k}}); }
};

template <class T, GemmLayout kLayout, NullC kNullC = NullC::kIsD>
struct GemmBase : GemmProblem<T> {
    using E = matmul_element_t<T>;

    StoredMatrices stored_a() const { return stored_a_of(kLayout, this->m, this->k, this->lda); }
    StoredMatrices stored_b() const { return stored_b_of(kLayout, this->n, this->k, this->ldb); }
    StoredMatrices stored_c() const { return {1, 0, this->m, this->n, this->ldc, this->beta != 0}; }
    StoredMatrices stored_d() const { return {1, 0, this->m, this->n, this->ldd}; }

    size_t workspace_size() const { return bytes(false); }
    Status check() const {
        BK_TRY(this->check_extents());
        BK_TRY(require_pitch("lda", stored_a()));
        BK_TRY(require_pitch("ldb", stored_b()));
        return require_pitch("ldd", stored_d());
    }

protected:
    size_t bytes(bool has_steps) const {
        return matmul_workspace<T>({this->m, this->n, this->k, 1, k_major_of(kLayout), has_steps});
    }
    Status compute(const E* a, const E* b, const E* c, E* d, const void* bias, BiasType bias_type, Activation activation,
                   const Launch& launch) const {
        Epilogue<T> epilogue{nullptr,     d,          bias,      {},        strides_of(stored_d(), true),
                             this->alpha, this->beta, bias_type, activation};
        BK_TRY(find_c(&epilogue, c, stored_c(), kNullC));
        return matmul(launch, make_matmul(kLayout, this->m, this->n, this->k, stored_a(), a, stored_b(), b, epilogue));
    }
};

template <class T, GemmLayout kLayout, NullC kNullC = NullC::kIsD>
struct Gemm : GemmBase<T, kLayout, kNullC> {
    using E = matmul_element_t<T>;
    Status run(const E* a, const E* b, const E* c, E* d, const Launch& launch) const {
        return this->compute(a, b, c, d, nullptr, BiasType::kElement, Activation::kNone, launch);
    }
};

template <class B, class E>
constexpr BiasType bias_type() {
    if (std::is_same_v<B, E>) return BiasType::kElement;
    return std::is_same_v<B, float> ? BiasType::kF32 : BiasType::kI32;
}

template <class T, class B, GemmLayout kLayout, Activation kActivation = Activation::kNone, NullC kNullC = NullC::kIsD>
struct GemmBias : GemmBase<T, kLayout, kNullC> {
    using E = matmul_element_t<T>;
    size_t workspace_size() const { return this->bytes(kActivation != Activation::kNone); }
    Status run(const E* a, const E* b, const E* c, E* d, const B* bias, const Launch& launch) const {
        return this->compute(a, b, c, d, bias, bias_type<B, E>(), kActivation, launch);
    }
};

// Batched GEMM; strides may have any sign, and be 0 to broadcast A, B or C.
template <class T, GemmLayout kLayout>
struct GemmBatched {
    using E = matmul_element_t<T>;
    int32_t m, n, k;
    int64_t lda, stride_a, ldb, stride_b, ldc, stride_c, ldd, stride_d;
    float alpha, beta;
    int32_t batch_count;

    StoredMatrices stored_a() const { return stored_a_of(kLayout, m, k, lda, batch_count, stride_a); }
    StoredMatrices stored_b() const { return stored_b_of(kLayout, n, k, ldb, batch_count, stride_b); }
    StoredMatrices stored_c() const { return {batch_count, stride_c, m, n, ldc, beta != 0}; }
    StoredMatrices stored_d() const { return {batch_count, stride_d, m, n, ldd}; }

    Work work() const { return all_or_none(std::min({m, n, batch_count})); }
    size_t workspace_size() const { return matmul_workspace<T>({m, n, k, batch_count, k_major_of(kLayout)}); }
    Status check_extents() const { return require_non_negative({{"m", m}, {"n", n}, {"k", k}, {"batch_count", batch_count}}); }
    Status check() const {
        BK_TRY(check_extents());
        BK_TRY(require_pitch("lda", stored_a()));
        BK_TRY(require_pitch("ldb", stored_b()));
        BK_TRY(require_pitch("ldd", stored_d()));
        return require_own_results(batch_count, stride_d);
    }
    Status run(const E* a, const E* b, const E* c, E* d, const Launch& launch) const {
        Epilogue<T> epilogue{nullptr,          d, nullptr, {}, strides_of(stored_d(), true), alpha, beta, BiasType::kElement,
                             Activation::kNone};
        BK_TRY(find_c(&epilogue, c, stored_c(), NullC::kIsD));
        return matmul(launch, make_matmul(kLayout, m, n, k, stored_a(), a, stored_b(), b, epilogue));
    }

    static Status require_own_results(int32_t batch, int64_t stride, const char* name = "stride_d") {
        if (batch > 1 && stride == 0) return fail(Status::kInvalidProblem, "%s is 0, but there are %d results", name, batch);
        return Status::kOk;
    }
};

// D = alpha A B + beta D; the whole layout is checked, even pitches of single rows.
template <class T>
struct GemmDense {
    using E = matmul_element_t<T>;
    using S = matmul_scalar_t<T>;
    int32_t m, n, k, batch, layout;
    S alpha, beta;
    int64_t lda, stride_a, ldb, stride_b, ldd, stride_d;

    GemmLayout order() const { return static_cast<GemmLayout>(layout); }
    StoredMatrices stored_a() const { return stored_a_of(order(), m, k, lda, batch, stride_a); }
    StoredMatrices stored_b() const { return stored_b_of(order(), n, k, ldb, batch, stride_b); }
    StoredMatrices stored_d() const { return {batch, stride_d, m, n, ldd}; }

    Work work() const { return all_or_none(std::min({m, n, batch})); }
    size_t workspace_size() const { return matmul_workspace<T>({m, n, k, batch, k_major_of(order())}); }
    Status check_extents() const {
        BK_TRY(require_non_negative({{"m", m}, {"n", n}, {"k", k}, {"batch", batch}}));
        return require_layout(layout);
    }
    Status check() const {
        BK_TRY(check_extents());
        BK_TRY(require_dense_pitch("lda", stored_a()));
        BK_TRY(require_dense_pitch("ldb", stored_b()));
        BK_TRY(require_dense_pitch("ldd", stored_d()));
        return GemmBatched<f16, kRcr>::require_own_results(batch, stride_d);
    }
    Status run(const E* a, const E* b, matmul_result_t<T>* d, const Launch& launch) const {
        const MatrixStrides d_at = strides_of(stored_d(), true);
        const Epilogue<T> epilogue{beta == 0 ? nullptr : d, d, nullptr, d_at, d_at, alpha, beta, BiasType::kElement,
                                   Activation::kNone};
        return matmul(launch, make_matmul(order(), m, n, k, stored_a(), a, stored_b(), b, epilogue));
    }

    static Status require_dense_pitch(const char* name, const StoredMatrices& matrices) {
        const int64_t least = std::max<int64_t>(matrices.columns, 1);
        if (matrices.pitch >= least && matrices.pitch <= INT32_MAX) return Status::kOk;
        return fail(Status::kInvalidProblem, "%s is %lld, must be in [%lld, 2^31 - 1]", name,
                    static_cast<long long>(matrices.pitch), static_cast<long long>(least));
    }
};

// GemmDense with i32 results of integer operands.
template <class T>
struct GemmDenseSums {
    int32_t m, n, k, batch, layout;
    int64_t lda, stride_a, ldb, stride_b, ldd, stride_d;

    GemmDense<i32_results<T>> dense() const {
        return {m, n, k, batch, layout, 1, 0, lda, stride_a, ldb, stride_b, ldd, stride_d};
    }
    StoredMatrices stored_a() const { return dense().stored_a(); }
    StoredMatrices stored_b() const { return dense().stored_b(); }
    StoredMatrices stored_d() const { return dense().stored_d(); }
    Work work() const { return dense().work(); }
    size_t workspace_size() const { return 0; }
    Status check_extents() const { return dense().check_extents(); }
    Status check() const { return dense().check(); }
    Status run(const T* a, const T* b, int32_t* d, const Launch& launch) const { return dense().run(a, b, d, launch); }
};

// 3xTF32 GemmDense of f32 on the GPU, plain f32 on the CPU.
using GemmDense3xTf32 = GemmDense<std::conditional_t<BK_CUDA, tf32x3, float>>;

// GemmDense for a single row of A (GEMV).
template <class T>
struct GemvDense : GemmDense<T> {
    Status check_extents() const {
        BK_TRY(require_non_negative({{"m", this->m}, {"n", this->n}, {"k", this->k}, {"batch", this->batch}}));
        if (this->m > 1) return fail(Status::kInvalidProblem, "m is %d, must be 0 or 1", this->m);
        if (this->layout != 0) return fail(Status::kInvalidProblem, "layout is %d, must be 0 (rrr)", this->layout);
        return Status::kOk;
    }
    Status check() const {
        BK_TRY(check_extents());
        return GemmDense<T>::check();
    }
    Status run(const matmul_element_t<T>* a, const matmul_element_t<T>* b, matmul_element_t<T>* d, const Launch& launch) const {
        return GemmDense<T>::run(a, b, d, launch);
    }
};

}  // namespace bk
