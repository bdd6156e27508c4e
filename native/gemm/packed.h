// SPDX-License-Identifier: Apache-2.0
// GEMM of sub-byte elements (s4, u4, b1): checks and layouts.
//
// lda, ldb, ldc and ldd are pitches in bytes. In layout rcr A and B are packed along k; in rrr B is packed along n.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gemm/gemm.h"

namespace bk {

template <class T>
Status packed_matmul(const Launch& launch, const Matmul<T>& problem);

inline Status require_multiple(const char* name, int32_t value, int32_t of) {
    if (value % of == 0) return Status::kOk;
    return fail(Status::kUnsupported, "%s is %d, must be a multiple of %d: elements share bytes", name, value, of);
}

inline Status require_packed_layout(int32_t layout) {
    if (layout == 0 || layout == 1) return Status::kOk;
    return fail(Status::kInvalidProblem, "layout is %d, must be 0 (rrr) or 1 (rcr)", layout);
}

// B in bytes; its stride along n is 0 if it is packed along n.
template <class T, GemmLayout kLayout>
StoredMatrices stored_packed_b(int32_t n, int32_t k, int64_t pitch) {
    constexpr int kCount = kElementsPerByte<T>;
    if (kLayout == kRcr) return {1, 0, n, k / kCount, pitch};
    return {1, 0, k, n / kCount, pitch};
}

template <GemmLayout kLayout>
MatrixStrides packed_b_strides(const StoredMatrices& stored) {
    MatrixStrides at = strides_of(stored, kLayout != kRcr);
    if (kLayout != kRcr) at.column = 0;
    return at;
}

template <class T, GemmLayout kLayout>
struct GemmNibbles {
    int32_t m, n, k;
    int64_t lda, ldb, ldc, ldd;
    float alpha, beta;

    StoredMatrices stored_a() const { return {1, 0, m, k / 2, lda}; }
    StoredMatrices stored_b() const { return stored_packed_b<T, kLayout>(n, k, ldb); }
    StoredMatrices stored_c() const { return {1, 0, m, n / 2, ldc, beta != 0}; }
    StoredMatrices stored_d() const { return {1, 0, m, n / 2, ldd}; }
    int32_t half_k() const { return k / 2; }
    int32_t half_n() const { return n / 2; }

    Work work() const { return all_or_none(std::min(m, n)); }
    size_t workspace_size() const { return 0; }
    Status check_extents() const {
        BK_TRY(require_non_negative({{"m", m}, {"n", n}, {"k", k}}));
        BK_TRY(require_multiple("k", k, 2));
        return require_multiple("n", n, 2);
    }
    Status check() const {
        BK_TRY(check_extents());
        BK_TRY(require_pitch("lda", stored_a()));
        BK_TRY(require_pitch("ldb", stored_b()));
        return require_pitch("ldd", stored_d());
    }
    Status run(const uint8_t* a, const uint8_t* b, const uint8_t* c, uint8_t* d, const Launch& launch) const {
        return compute(a, b, c, d, nullptr, BiasType::kF32, Activation::kNone, launch);
    }

protected:
    Status compute(const uint8_t* a, const uint8_t* b, const uint8_t* c, uint8_t* d, const void* bias, BiasType bias_type,
                   Activation activation, const Launch& launch) const {
        const auto bytes = [](const uint8_t* p) { return reinterpret_cast<const T*>(p); };
        Epilogue<T> epilogue{nullptr,   reinterpret_cast<T*>(d), bias, {}, strides_of(stored_d(), true), alpha, beta, bias_type,
                             activation};
        BK_TRY(find_c(&epilogue, bytes(c), stored_c(), NullC::kIsZero));
        return packed_matmul(launch, Matmul<T>{m, n, k / 2, 1, bytes(a), bytes(b), strides_of(stored_a(), true),
                                               packed_b_strides<kLayout>(stored_b()), epilogue});
    }
};

template <class T, class B, GemmLayout kLayout, Activation kActivation = Activation::kNone>
struct GemmNibblesBias : GemmNibbles<T, kLayout> {
    Status run(const uint8_t* a, const uint8_t* b, const uint8_t* c, uint8_t* d, const B* bias, const Launch& launch) const {
        return this->compute(a, b, c, d, bias, bias_type<B, uint8_t>(), kActivation, launch);
    }
};

// Binary GEMM: the Hamming distance of rows of A and columns of B.
template <GemmLayout kLayout>
struct GemmBits {
    int32_t m, n, k;
    int64_t lda, ldb, ldd;

    StoredMatrices stored_a() const { return {1, 0, m, k / 8, lda}; }
    StoredMatrices stored_b() const { return stored_packed_b<b1x8, kLayout>(n, k, ldb); }
    StoredMatrices stored_d() const { return {1, 0, m, n, ldd}; }
    int32_t bytes_of_k() const { return k / 8; }
    int32_t bytes_of_n() const { return n / 8; }

    Work work() const { return all_or_none(std::min(m, n)); }
    size_t workspace_size() const { return 0; }
    Status check_extents() const {
        BK_TRY(require_non_negative({{"m", m}, {"n", n}, {"k", k}}));
        BK_TRY(require_multiple("k", k, 8));
        return kLayout == kRcr ? Status::kOk : require_multiple("n", n, 8);
    }
    Status check() const {
        BK_TRY(check_extents());
        BK_TRY(require_pitch("lda", stored_a()));
        BK_TRY(require_pitch("ldb", stored_b()));
        return require_pitch("ldd", stored_d());
    }
    Status run(const uint8_t* a, const uint8_t* b, int32_t* d, const Launch& launch) const {
        const Epilogue<b1x8> epilogue{nullptr,          d, nullptr, {}, strides_of(stored_d(), true), 1, 0, BiasType::kElement,
                                      Activation::kNone};
        return packed_matmul(launch,
                             Matmul<b1x8>{m, n, k / 8, 1, reinterpret_cast<const b1x8*>(a), reinterpret_cast<const b1x8*>(b),
                                          strides_of(stored_a(), true), packed_b_strides<kLayout>(stored_b()), epilogue});
    }
};

// Batched GEMM of packed elements, A by rows, B by rows (layout 0) or by columns (1), in bytes.
template <class T>
struct PackedBatch {
    static constexpr int32_t kCount = kElementsPerByte<T>;
    int32_t m, n, k, batch, layout;

    bool by_columns() const { return layout == 1; }
    StoredMatrices stored_a(int64_t pitch, int64_t step) const { return {batch, step, m, k / kCount, pitch}; }
    StoredMatrices stored_b(int64_t pitch, int64_t step) const {
        if (by_columns()) return {batch, step, n, k / kCount, pitch};
        return {batch, step, k, n / kCount, pitch};
    }
    Status check() const {
        BK_TRY(require_non_negative({{"m", m}, {"n", n}, {"k", k}, {"batch", batch}}));
        BK_TRY(require_packed_layout(layout));
        return require_multiple("k", k, kCount);
    }
    Status multiply(const Launch& launch, const uint8_t* a, const StoredMatrices& a_in, const uint8_t* b,
                    const StoredMatrices& b_in, const Epilogue<T>& epilogue) const {
        MatrixStrides b_at = strides_of(b_in, !by_columns());
        if (!by_columns()) b_at.column = 0;
        return packed_matmul(launch, Matmul<T>{m, n, k / kCount, batch, reinterpret_cast<const T*>(a),
                                               reinterpret_cast<const T*>(b), strides_of(a_in, true), b_at, epilogue});
    }
};

// D = alpha A B + beta D.
template <class T>
struct GemmDenseNibbles {
    int32_t m, n, k, batch, layout;
    float alpha, beta;
    int64_t lda, stride_a, ldb, stride_b, ldd, stride_d;

    PackedBatch<T> products() const { return {m, n, k, batch, layout}; }
    StoredMatrices stored_a() const { return products().stored_a(lda, stride_a); }
    StoredMatrices stored_b() const { return products().stored_b(ldb, stride_b); }
    StoredMatrices stored_d() const { return {batch, stride_d, m, n / 2, ldd}; }
    int32_t half_k() const { return k / 2; }
    int32_t half_n() const { return n / 2; }

    Work work() const { return all_or_none(std::min({m, n, batch})); }
    size_t workspace_size() const { return 0; }
    Status check_extents() const {
        BK_TRY(products().check());
        return require_multiple("n", n, 2);
    }
    Status check() const {
        BK_TRY(check_extents());
        BK_TRY(require_pitch("lda", stored_a()));
        BK_TRY(require_pitch("ldb", stored_b()));
        BK_TRY(require_pitch("ldd", stored_d()));
        return GemmBatched<f16, kRcr>::require_own_results(batch, stride_d);
    }
    Status run(const uint8_t* a, const uint8_t* b, uint8_t* d, const Launch& launch) const {
        const MatrixStrides d_at = strides_of(stored_d(), true);
        T* const to = reinterpret_cast<T*>(d);
        const Epilogue<T> epilogue{beta == 0 ? nullptr : to, to, nullptr, d_at, d_at, alpha, beta, BiasType::kF32,
                                   Activation::kNone};
        return products().multiply(launch, a, stored_a(), b, stored_b(), epilogue);
    }
};

struct GemmDenseBits {
    int32_t m, n, k, batch, layout;
    int64_t lda, stride_a, ldb, stride_b, ldd, stride_d;

    PackedBatch<b1x8> products() const { return {m, n, k, batch, layout}; }
    StoredMatrices stored_a() const { return products().stored_a(lda, stride_a); }
    StoredMatrices stored_b() const { return products().stored_b(ldb, stride_b); }
    StoredMatrices stored_d() const { return {batch, stride_d, m, n, ldd}; }
    int32_t bytes_of_k() const { return k / 8; }
    int32_t bytes_of_n() const { return n / 8; }

    Work work() const { return all_or_none(std::min({m, n, batch})); }
    size_t workspace_size() const { return 0; }
    Status check_extents() const {
        BK_TRY(products().check());
        return layout == 1 ? Status::kOk : require_multiple("n", n, 8);
    }
    Status check() const {
        BK_TRY(check_extents());
        BK_TRY(require_pitch("lda", stored_a()));
        BK_TRY(require_pitch("ldb", stored_b()));
        BK_TRY(require_pitch("ldd", stored_d()));
        return GemmBatched<f16, kRcr>::require_own_results(batch, stride_d);
    }
    Status run(const uint8_t* a, const uint8_t* b, int32_t* d, const Launch& launch) const {
        const Epilogue<b1x8> epilogue{nullptr,          d, nullptr, {}, strides_of(stored_d(), true), 1, 0, BiasType::kElement,
                                      Activation::kNone};
        return products().multiply(launch, a, stored_a(), b, stored_b(), epilogue);
    }
};

}  // namespace bk
