// Which products are cuBLASLt's, and how they are put to it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/types/vec.h"
#include "gemm/cublaslt.h"
#include "gemm/matmul.h"
#include "gemm/matmul_tensor.cuh"

namespace bk {

// THE RULE. A product is cuBLASLt's, where it can express it and is there, if none of its sides is short and the whole is worth
// a launch of its. On an H200, bf16, CUDA 13.0 our tensor cores take 2.5 to 3 times its time from 4096^3 on, f32 by FMA 1.6
// times, and a batch of 4096 products 1.4 times (64^3) to 3.8 times (128 x 128 x 64).
//
// TF32 stays ours, since its factors are rounded as the rows say, and so do 8-bit results. Activations are ours (cuBLASLt's
// gelu is the form by tanh, and its relu keeps NaN), applied to its sums: those of 16-bit products are f32 in the workspace,
// kSumBytes of them at a time, so that results are still rounded once.
constexpr int64_t kLeastLibrarySide = 64, kLeastLibraryTerms = int64_t(1) << 27;
constexpr int64_t kSumBytes = int64_t(64) << 20, kBandRows = 128;  // bands are of multiples of so many rows

template <class T>
constexpr bool kLibraryHasType =
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

constexpr bool is_in_library(Activation activation) { return activation == Activation::kNone; }

// Whether sums pass through the workspace.
template <class T>
constexpr bool has_bands(Activation activation) {
    return sizeof(matmul_element_t<T>) == 2 && !is_in_library(activation);
}

template <class T>
bool is_for_library(int64_t m, int64_t n, int64_t k, int64_t batch, Activation activation) {
    if (!kLibraryHasType<T> || std::min({m, n, k}) < kLeastLibrarySide) return false;
    if (!is_in_library(activation) && batch != 1) return false;
    if (has_bands<T>(activation) && n > kSumBytes / 4 / kBandRows) return false;
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
            library_type<T>(),
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

// The last steps of `matrices` products of m x n whose sums lie elsewhere, in parts, or in D.
template <class T>
__global__ void __launch_bounds__(256)
    finish_kernel(const __grid_constant__ Epilogue<T> e, const __grid_constant__ PartsOf<T> parts, int64_t pitch, int64_t m,
                  int64_t n, int64_t matrices, bool in_pairs) {
    using S = matmul_scalar_t<T>;
    const int64_t j = 2 * (static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x);
    if (j >= n) return;
    for (int64_t line = blockIdx.y; line < matrices * m; line += gridDim.y) {
        const int64_t matrix = line / m, i = line % m;
        const S* from = parts.sums + (matrix * parts.count * m + i) * pitch + j;
        S first = from[0], second = j + 1 < n ? from[1] : S(0);
        for (int64_t part = 1; part < parts.count; ++part) {
            from += m * pitch;
            first += from[0];
            if (j + 1 < n) second += from[1];
        }
        store_pair(e, matrix, i, j, n, first, second, in_pairs);
    }
}

template <class T>
Status finish(const Launch& launch, const Epilogue<T>& e, const PartsOf<T>& parts, int64_t pitch, int64_t m, int64_t n,
              int64_t matrices = 1) {
    const int64_t across = ceil_div<int64_t>(n, 512), down = std::min(matrices * m, std::max<int64_t>(4096 / across, 1));
    const dim3 blocks(static_cast<unsigned>(across), static_cast<unsigned>(down));
    return launch_kernel(launch, {blocks, dim3(256)}, finish_kernel<T>, e, parts, pitch, m, n, matrices, stores_pairs(e));
}

// Rows [first, first + count) of one product.
template <class T>
Matmul<T> rows_of(const Matmul<T>& p, int64_t first, int64_t count) {
    Matmul<T> part = p;
    part.m = count;
    part.a += first * p.a_at.row;
    part.epilogue.d += first * p.epilogue.d_at.row;
    if (p.epilogue.c != nullptr) part.epilogue.c += first * p.epilogue.c_at.row;
    return part;
}

// By cuBLASLt, with an activation of ours. `sums` has room for `sum_bytes`, where there are bands. *done says
// of how many rows.
template <class T>
Status activate_library(const Launch& launch, const Matmul<T>& p, LibraryMatmul problem, void* workspace, void* sums,
                        int64_t sum_bytes, int64_t* done) {
    using S = matmul_scalar_t<T>;
    if constexpr (sizeof(matmul_element_t<T>) > 2) {
        (void)sums;
        (void)sum_bytes;
        if (!matmul_by_library(launch, problem, workspace)) return Status::kOk;
        *done = p.m;
        Epilogue<T> rest = p.epilogue;
        rest.alpha = 1;
        rest.c = nullptr;
        rest.bias = nullptr;
        return finish(launch, rest, PartsOf<T>{p.epilogue.d}, p.epilogue.d_at.row, p.m, p.n);
    } else {
        if (sums == nullptr || p.n % (kLibraryAlignment / 4) != 0) return Status::kOk;
        const S one = 1, zero = 0;
        const int64_t most = sum_bytes / 4 / p.n / kBandRows * kBandRows, bands = ceil_div(p.m, most);
        const int64_t band = ceil_div(ceil_div(p.m, bands), kBandRows) * kBandRows;
        problem.d_type = LibraryType::kF32;
        problem.bias = nullptr;
        problem.alpha = &one;
        problem.beta = &zero;
        problem.c = problem.d = {sums, p.n, 0, false};
        for (; *done < p.m; *done += problem.m) {
            const Matmul<T> part = rows_of(p, *done, std::min(band, p.m - *done));
            problem.m = part.m;
            problem.a.data = part.a;
            if (!matmul_by_library(launch, problem, workspace)) return Status::kOk;
            BK_TRY(finish(launch, part.epilogue, PartsOf<T>{static_cast<S*>(sums)}, p.n, part.m, p.n));
        }
        return Status::kOk;
    }
}

}  // namespace bk
