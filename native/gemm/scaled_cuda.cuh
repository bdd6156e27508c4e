// SPDX-License-Identifier: Apache-2.0
// 8-bit GEMM with scales on the GPU: by cuBLASLt if it supports it, else on tensor cores, which apply block scales to
// partial sums in registers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "gemm/matmul_cuda.cuh"
#include "gemm/scaled.h"

namespace bk {

// cuBLASLt takes e4m3 without block scales, whose order in its interface is not ours.
template <class T>
bool fits_library(int64_t m, int64_t n, int64_t k, Scaling scaling) {
    return std::is_same_v<T, e4m3> && scaling != Scaling::kBlocks && std::min({m, n, k}) > 0;
}

// From 16 rows on cuBLASLt takes 0.3 to 0.9 of our kernels' time (H100). The smallest GEMMs stay ours, whose sums are
// exact to f32.
template <class T>
bool is_for_library(int64_t m, int64_t n, int64_t k) {
    constexpr int64_t kMinRows = 16, kMinSide = 64, kMinWork = int64_t(1) << 22;
    int64_t work = 0;
    return m >= kMinRows && std::min(n, k) >= kMinSide && (__builtin_mul_overflow(m * n, k, &work) || work >= kMinWork);
}

template <class T>
bool may_be_library(int64_t m, int64_t n, int64_t k, Scaling scaling, Backend backend) {
    return may_be_library(backend) && fits_library<T>(m, n, k, scaling) &&
           (backend == Backend::kLibrary || is_for_library<T>(m, n, k));
}

template <class T>
size_t scaled_workspace(int64_t m, int64_t n, int64_t k, Scaling scaling, Backend backend, const KMajor& k_major) {
    return std::max(may_be_library<T>(m, n, k, scaling, backend) ? library_workspace(m, n, k) : 0,
                    matmul_workspace<scaled<T>>(m, n, k, 1, false, false, backend, k_major));
}

template <class T>
Status require_scaled_backend(Backend backend, int64_t m, int64_t n, int64_t k, Scaling scaling) {
    const bool is_library = backend == Backend::kLibrary || backend == Backend::kByRule;
    if (!is_library) return require_backend<scaled<T>>(backend, m, n, k, 1, false, false);
    if (!fits_library<T>(m, n, k, scaling))
        return fail(Status::kUnsupported, "backend is %d, but cuBLASLt has no such product", static_cast<int>(backend));
    if (!may_be_library<T>(m, n, k, scaling, backend))
        return fail(Status::kUnsupported, "backend is %d, but the product is better computed by this library's kernels",
                    static_cast<int>(backend));
    return require_library();
}

// Fills cuBLASLt's problem, which needs K-major operands; returns false if it does not support this one.
template <class T>
bool library_matmul(const Matmul<scaled<T>>& p, LibraryMatmul* out) {
    const Epilogue<scaled<T>>& e = p.epilogue;
    const LibraryType d_type = e.type == FloatType::kF32   ? LibraryType::kF32
                               : e.type == FloatType::kF16 ? LibraryType::kF16
                                                           : LibraryType::kBf16;
    const bool is_f32 = d_type == LibraryType::kF32;
    if (p.a_at.column != 1 || p.b_at.row != 1 || (is_f32 && e.bias != nullptr)) return false;  // its bias is bf16
    const LibraryMatrix d{e.d, e.d_at.row, 0, false};
    *out = {LibraryType::kE4m3,
            d_type,
            p.m,
            p.n,
            p.k,
            1,
            library_matrix(p.a, p.a_at),
            library_matrix(p.b, p.b_at),
            d,
            d,
            e.bias,
            &e.alpha,
            &e.beta,
            e.scaling == Scaling::kRows ? LibraryScales::kPerRow : LibraryScales::kPerMatrix,
            e.a_scale,
            e.b_scale};
    return is_aligned(p.a, kLibraryAlignment) && is_aligned(p.b, kLibraryAlignment) && is_aligned(e.d, kLibraryAlignment) &&
           is_aligned(e.bias, kLibraryAlignment) && p.k % kLibraryAlignment == 0 && out->a.pitch % kLibraryAlignment == 0 &&
           out->b.pitch % kLibraryAlignment == 0 && e.d_at.row * (is_f32 ? 4 : 2) % kLibraryAlignment == 0;
}

template <class T>
Status scaled_product(const Launch& launch, const Matmul<scaled<T>>& input) {
    Matmul<scaled<T>> p = input;
    const bool is_chosen = p.backend == Backend::kLibrary || p.backend == Backend::kByRule;
    if (may_be_library<T>(p.m, p.n, p.k, p.epilogue.scaling, p.backend)) {
        const KMajor k_major{p.a_at.column == 1, p.b_at.row == 1};
        const size_t workspace = scaled_workspace<T>(p.m, p.n, p.k, p.epilogue.scaling, p.backend, k_major);
        const bool has_workspace = workspace_holds(launch, workspace);
        LibraryMatmul problem;
        if (library_matmul(p, &problem) && matmul_by_library(launch, problem, has_workspace ? launch.workspace : nullptr))
            return Status::kOk;
    }
    if (is_chosen)
        return fail(Status::kUnsupported,
                    "backend is %d, but cuBLASLt does not take these operands: it wants both along k, all aligned to 16 bytes, "
                    "and results of f32 without a bias",
                    static_cast<int>(p.backend));
    return matmul(launch, p);
}

}  // namespace bk
