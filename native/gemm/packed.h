// Products of matrices whose elements share bytes: 4-bit integers and bits. Checks and layouts of their rows.
//
// The bytes of a row of A or D are neighbours, and rows lie lda, ldb, ldc, ldd bytes apart. rcr has the bits of a byte of A and
// B along k. In rrr those of B lie along n.
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

// Bytes as they lie, and the strides of B by bytes: 0 along n where a byte has neighbours of n.
template <class T, GemmLayout kLayout>
StoredMatrices stored_packed_b(int32_t n, int32_t k, int64_t pitch) {
    constexpr int kCount = kInByte<T>;
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
    StoredMatrices stored_c() const { return stored_c_of(beta != 0, m, n / 2, ldc); }
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
        BK_TRY(find_c(&epilogue, bytes(c), {1, 0, m, n / 2, ldc}, NullC::kIsZero));
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

// The number of places where rows of A and columns of B differ.
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

}  // namespace bk
