// The end of the kernels for few rows: the sums of a block's warps become results.
#pragma once

#include <cstdint>

#include "gemm/matmul_tensor.cuh"

namespace bk {

constexpr int kThinRows = 8, kThinWarps = 8;

template <int kWarps, int kColumns>
using ThinParts = float[kWarps][kThinRows][kColumns + 1];

// Added up in the order of the warps. A gated product is a batch of two, whose first sums wait for those of the gate.
template <int kWarps, int kColumns, class T>
BK_DEVICE void store_thin(const Matmul<T>& p, const ThinParts<kWarps, kColumns>& part, int64_t matrix, int64_t first) {
    __shared__ float own[kThinRows * kColumns];
    const Epilogue<T>& e = p.epilogue;
    __syncthreads();
    for (int r = static_cast<int>(threadIdx.x); r < kThinRows * kColumns; r += 32 * kWarps) {
        const int i = r / kColumns, column = r % kColumns;
        const int64_t j = first + column;
        if (i >= p.m || j >= p.n) continue;
        float sum = 0;
        for (int w = 0; w < kWarps; ++w) sum += part[w][i][column];
        if (p.gate == nullptr)
            e.store_one(matrix, i, j, sum);
        else if (matrix == 0)
            own[r] = sum;
        else
            e.store_gated(i, j, own[r], sum);
    }
    __syncthreads();
}

}  // namespace bk
