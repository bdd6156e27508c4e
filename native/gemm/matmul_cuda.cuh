// Which kernel computes a product on the GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/abi/workspace.h"
#include "gemm/matmul_library.cuh"
#include "gemm/matmul_simt.cuh"
#include "gemm/matmul_tensor.cuh"
#include "gemm/matmul_thin.cuh"

namespace bk {

// With what alignment costs.
template <class T>
size_t matmul_workspace(int64_t m, int64_t n, int64_t k, int64_t batch, Activation activation) {
    const size_t bytes = is_for_library<T>(m, n, k, batch, activation) ? library_workspace() : 0;
    return bytes == 0 ? 0 : bytes + Carver::kAlignment - 1;
}

// Large ones by cuBLASLt (gemm/matmul_library.cuh has the rule), those of few rows by kernels that read B once; else f32 by
// FMA, and all others by tensor cores.
template <class T>
Status matmul(const Launch& launch, const Matmul<T>& p) {
    if constexpr (kLibraryHasType<T>) {
        const Activation activation = p.epilogue.activation;
        bool has_workspace = false;
        BK_TRY(find_workspace(launch, matmul_workspace<T>(p.m, p.n, p.k, p.batch, activation), &has_workspace));
        LibraryMatmul problem;
        if (is_for_library<T>(p.m, p.n, p.k, p.batch, activation) && library_matmul(p, &problem)) {
            char* const workspace = has_workspace ? Carver(launch.workspace).take<char>(1) : nullptr;
            if (matmul_by_library(launch, problem, workspace)) return Status::kOk;
        }
    }
    if constexpr (kHasThinKernels<T>) {
        const bool along_k = p.b_at.row == 1 && p.a_at.column == 1;
        if (p.m <= kThinRows && (along_k || p.b_at.column == 1)) return matmul_thin(launch, p);
    }
    if constexpr (std::is_same_v<T, float>)
        return matmul_by_fma(launch, p);
    else
        return matmul_by_tensor_cores(launch, p);
}

}  // namespace bk
