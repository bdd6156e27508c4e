// Which kernel computes a product on the GPU.
#pragma once

#include <type_traits>

#include "gemm/matmul_simt.cuh"
#include "gemm/matmul_tensor.cuh"

namespace bk {

template <class T>
Status matmul(const Launch& launch, const Matmul<T>& problem) {
    if constexpr (std::is_same_v<T, float>)
        return matmul_by_fma(launch, problem);
    else
        return matmul_by_tensor_cores(launch, problem);
}

}  // namespace bk
