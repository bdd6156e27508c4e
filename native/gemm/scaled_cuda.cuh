// Products with scales on the GPU: by tensor cores, whose sums over blocks of terms are scaled in registers.
#pragma once

#include "gemm/matmul_cuda.cuh"
#include "gemm/scaled.h"

namespace bk {

template <class T>
size_t scaled_workspace(int64_t m, int64_t n, int64_t k, Backend backend) {
    return matmul_workspace<scaled<T>>(m, n, k, 1, false, false, backend);
}

template <class T>
Status scaled_product(const Launch& launch, const Matmul<scaled<T>>& problem) {
    return matmul(launch, problem);
}

}  // namespace bk
