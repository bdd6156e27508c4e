// Which kernel computes a product on the GPU.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/abi/workspace.h"
#include "gemm/matmul_library.cuh"
#include "gemm/matmul_parts.cuh"
#include "gemm/matmul_simt.cuh"
#include "gemm/matmul_tensor.cuh"
#include "gemm/matmul_thin.cuh"

namespace bk {

// Carved in this order.
struct LibraryWorkspace {
    char *own = nullptr, *sums = nullptr;
    size_t bytes = 0;

    // Of a product that is for the library.
    LibraryWorkspace(bool has_sums, void* base) {
        Carver carver(base);
        own = carver.take<char>(static_cast<int64_t>(library_workspace()));
        if (has_sums) sums = carver.take<char>(kSumBytes);
        bytes = carver.bytes();
    }
};

template <class T>
size_t matmul_workspace(int64_t m, int64_t n, int64_t k, int64_t batch, Activation activation) {
    const bool for_library = is_for_library<T>(m, n, k, batch, activation);
    return std::max(for_library ? LibraryWorkspace(has_bands<T>(activation), nullptr).bytes : 0,
                    parts_workspace<T>(m, n, k, batch));
}

// By cuBLASLt, if the product is for it; *done says of how many rows.
template <class T>
Status matmul_if_library(const Launch& launch, const Matmul<T>& p, bool has_workspace, int64_t* done) {
    const Activation activation = p.epilogue.activation;
    if (!is_for_library<T>(p.m, p.n, p.k, p.batch, activation)) return Status::kOk;
    LibraryMatmul problem;
    if (!library_matmul(p, &problem)) return Status::kOk;
    const LibraryWorkspace workspace(has_bands<T>(activation), has_workspace ? launch.workspace : nullptr);
    if (!is_in_library(activation)) return activate_library(launch, p, problem, workspace.own, workspace.sums, kSumBytes, done);
    if (matmul_by_library(launch, problem, workspace.own)) *done = p.m;
    return Status::kOk;
}

template <class T>
Status matmul_by_tiles(const Launch& launch, const Matmul<T>& p) {
    if constexpr (std::is_same_v<T, float>)
        return matmul_by_fma(launch, p);
    else
        return matmul_by_tensor_cores(launch, p);
}

// Large ones by cuBLASLt (gemm/matmul_library.cuh has the rule), those of few rows by kernels that read B once, those of few
// results by parts of their sums; else f32 by FMA, and all others by tensor cores.
template <class T>
Status matmul(const Launch& launch, const Matmul<T>& whole) {
    if (whole.grouped != Grouped::kNot) return matmul_by_tiles(launch, whole);
    Matmul<T> p = whole;
    bool has_workspace = false;
    BK_TRY(find_workspace(launch, matmul_workspace<T>(p.m, p.n, p.k, p.batch, p.epilogue.activation), &has_workspace));
    if constexpr (kLibraryHasType<T>) {
        int64_t done = 0;
        BK_TRY(matmul_if_library(launch, whole, has_workspace, &done));
        if (done == p.m) return Status::kOk;
        if (done > 0) return matmul_by_tiles(launch, rows_of(whole, done, p.m - done));
    }
    if constexpr (kHasThinKernels<T>) {
        const bool along_k = p.b_at.row == 1 && p.a_at.column == 1;
        if (p.m <= kThinRows && (along_k || p.b_at.column == 1)) return matmul_thin(launch, p);
    }
    if constexpr (kHasParts<T>)
        if (has_workspace && parts_workspace<T>(p.m, p.n, p.k, p.batch) > 0) return matmul_by_parts(launch, p);
    return matmul_by_tiles(launch, p);
}

}  // namespace bk
