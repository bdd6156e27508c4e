// Which kernel computes a product on the GPU.
#pragma once

#include <type_traits>

#include "gemm/matmul_simt.cuh"
#include "gemm/matmul_tensor.cuh"
#include "gemm/matmul_thin.cuh"

namespace bk {

// Of few rows by kernels that read B once; else f32 by FMA, and all others by tensor cores.
template <class T>
Status matmul(const Launch& launch, const Matmul<T>& p) {
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
