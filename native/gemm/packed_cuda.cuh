// SPDX-License-Identifier: Apache-2.0
// GEMM of sub-byte elements on the GPU: tiles hold packed bytes, which Mma widens in registers.
#pragma once

#include "gemm/matmul_cuda.cuh"
#include "gemm/packed.h"

namespace bk {

template <class T>
Status packed_matmul(const Launch& launch, const Matmul<T>& problem) {
    return matmul(launch, problem);
}

}  // namespace bk
