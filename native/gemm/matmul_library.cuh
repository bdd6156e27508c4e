// Which products are cuBLASLt's, and how they are put to it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/types/vec.h"
#include "gemm/cublaslt.h"
#include "gemm/matmul.h"

namespace bk {

// THE RULE. A product is cuBLASLt's, where it can express it and is there, if none of its sides is short and the whole is worth
// a launch of its. On an H200, bf16, CUDA 13.0 our tensor cores take 2.5 to 3 times its time from 4096^3 on, f32 by FMA 1.6
// times, and a batch of 4096 products 1.4 times (64^3) to 3.8 times (128 x 128 x 64).
//
// TF32 stays ours, since its factors are rounded as the rows say, and so do 8-bit results and gelu (cuBLASLt's is the form by
// tanh) and silu.
constexpr int64_t kLeastLibrarySide = 64, kLeastLibraryTerms = int64_t(1) << 27;

template <class T>
constexpr bool kLibraryHasType =
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

constexpr bool library_has(Activation activation) { return activation == Activation::kNone || activation == Activation::kRelu; }

template <class T>
bool is_for_library(int64_t m, int64_t n, int64_t k, int64_t batch, Activation activation) {
    if (!kLibraryHasType<T> || !library_has(activation) || std::min({m, n, k}) < kLeastLibrarySide) return false;
    int64_t terms = 0;  // extents are of 31 bits, so that two of them fit
    return __builtin_mul_overflow(m * n, k, &terms) || __builtin_mul_overflow(terms, batch, &terms) ||
           terms >= kLeastLibraryTerms;
}

template <class T>
constexpr LibraryType library_type() {
    if (std::is_same_v<T, float>) return LibraryType::kF32;
    if (std::is_same_v<T, double>) return LibraryType::kF64;
    return std::is_same_v<T, f16> ? LibraryType::kF16 : LibraryType::kBf16;
}

template <class E>
LibraryMatrix library_matrix(const E* data, const MatrixStrides& at) {
    if (at.column == 1) return {data, at.row, at.step, false};
    return {data, at.column, at.step, true};
}

// As cuBLASLt takes it; false for what it does not.
template <class T>
bool library_matmul(const Matmul<T>& p, LibraryMatmul* out) {
    using E = matmul_element_t<T>;
    const Epilogue<T>& e = p.epilogue;
    if (e.bias != nullptr && e.bias_type != BiasType::kElement) return false;
    const bool has_c = e.c != nullptr;
    const LibraryMatrix d = library_matrix(e.d, e.d_at);
    *out = {library_type<T>(),
            e.activation == Activation::kRelu,
            p.m,
            p.n,
            p.k,
            p.batch,
            library_matrix(p.a, p.a_at),
            library_matrix(p.b, p.b_at),
            has_c ? library_matrix(e.c, e.c_at) : d,
            d,
            e.bias,
            &e.alpha,
            &e.beta};
    constexpr int64_t kLanes = kLibraryAlignment / static_cast<int64_t>(sizeof(E));
    for (const LibraryMatrix* matrix : {&out->a, &out->b, &out->c, &out->d})
        if (!is_aligned(matrix->data, kLibraryAlignment) || matrix->pitch % kLanes != 0 || matrix->step % kLanes != 0 ||
            matrix->step < 0)
            return false;
    return is_aligned(e.bias, kLibraryAlignment);
}

}  // namespace bk
