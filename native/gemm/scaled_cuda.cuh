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

// cuBLASLt takes e4m3, and e5m2 of A beside it, without block scales, whose order in its interface is not ours.
template <class T>
bool fits_library(const MatmulShape& s, Scaling scaling) {
    return (std::is_same_v<T, e4m3> || std::is_same_v<T, e5m2_by_e4m3>) && scaling != Scaling::kBlocks &&
           std::min({s.m, s.n, s.k}) > 0;
}

// From 16 rows on cuBLASLt takes 0.3 to 0.9 of our kernels' time (H100). The smallest GEMMs stay ours, whose sums are
// exact to f32.
inline bool is_scaled_for_library(const MatmulShape& s) {
    constexpr int64_t kMinRows = 16, kMinSide = 64, kMinWork = int64_t(1) << 22;
    int64_t work = 0;
    return s.m >= kMinRows && std::min(s.n, s.k) >= kMinSide &&
           (__builtin_mul_overflow(s.m * s.n, s.k, &work) || work >= kMinWork);
}

// choose_matmul() with cuBLASLt's own rule for scaled operands.
template <class T>
MatmulChoice choose_scaled(const MatmulShape& s, Scaling scaling, int arch) {
    MatmulShape own = s;
    if (must_be_library(s.backend)) own.backend = Backend::kOwn;
    MatmulChoice choice = choose_matmul<scaled<T>>(own, arch);
    choice.tries_library = may_be_library(s.backend) && fits_library<T>(s, scaling) &&
                           (s.backend == Backend::kLibrary || is_scaled_for_library(s));
    if (choice.tries_library) {
        size_t copies = 0;
        if (needs_transpose<scaled<T>>(s, arch))
            copies = TransposedOperands<scaled<T>>(s.m, s.n, s.k, 1, s.k_major, nullptr).bytes;
        choice.workspace = std::max(choice.workspace, copies + library_workspace(s.m, s.n, s.k));
    }
    if (must_be_library(s.backend)) choice.kernel = MatmulKernel::kNone;
    return choice;
}

template <class T>
size_t scaled_workspace(const MatmulShape& shape, Scaling scaling) {
    return choose_scaled<T>(shape, scaling, device_arch()).workspace;
}

template <class T>
Status require_scaled_backend(const MatmulShape& s, Scaling scaling) {
    if (!must_be_library(s.backend)) return require_backend<scaled<T>>(s);
    if (choose_scaled<T>(s, scaling, device_arch()).tries_library) return require_library();
    return fail(Status::kUnsupported, "backend is %d, but %s", static_cast<int>(s.backend),
                fits_library<T>(s, scaling) ? "the product is better computed by this library's kernels"
                                            : "cuBLASLt has no such product");
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
    *out = {std::is_same_v<T, e4m3> ? LibraryType::kE4m3 : LibraryType::kE5m2ByE4m3,
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
Status scaled_product(const Launch& launch, const Matmul<scaled<T>>& p) {
    const MatmulChoice choice = choose_scaled<T>(shape_of(launch, p), p.epilogue.scaling, device_arch());
    LibraryMatmul problem;
    const bool has_workspace = workspace_holds(launch, choice.workspace);
    if (choice.tries_library && choice.transposes && has_workspace && !must_be_library(p.backend)) {
        Matmul<scaled<T>> transposed = p;
        char* const copies = static_cast<char*>(launch.workspace) + library_workspace(p.m, p.n, p.k);
        BK_TRY(TransposedOperands<scaled<T>>(p.m, p.n, p.k, 1, k_major_of(p), copies).run(launch, &transposed));
        if (library_matmul(transposed, &problem) && matmul_by_library(launch, problem, launch.workspace)) return Status::kOk;
        return launch_tiles_of(launch, transposed, choice);
    }
    if (choice.tries_library && library_matmul(p, &problem) &&
        matmul_by_library(launch, problem, has_workspace ? launch.workspace : nullptr))
        return Status::kOk;
    if (choice.kernel == MatmulKernel::kNone && p.backend != Backend::kWgmma)
        return fail(Status::kUnsupported,
                    "backend is %d, but cuBLASLt does not take these operands: it wants both along k, all aligned to 16 bytes, "
                    "and results of f32 without a bias",
                    static_cast<int>(p.backend));
    return matmul_by_own(launch, p, choice);
}

}  // namespace bk
