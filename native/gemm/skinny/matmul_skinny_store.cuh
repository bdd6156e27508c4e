// SPDX-License-Identifier: Apache-2.0
// Epilogue of the skinny kernels: reduces the partial sums of a block's warps.
#pragma once

#include <cstdint>

#include "gemm/tiled/matmul_mma.cuh"

namespace bk {

constexpr int kSkinnyRows = 8, kSkinnyWarps = 8;

template <int kWarps, int kColumns, int kRows = kSkinnyRows>
using SkinnyPartials = float[kWarps][kRows][kColumns + 1];

// Partials are added in the order of the warps. A gated GEMM is a batch of two, whose first sums wait for the gate's.
template <int kWarps, int kColumns, int kRows, class T>
BK_DEVICE void store_skinny(const Matmul<T>& p, const SkinnyPartials<kWarps, kColumns, kRows>& partials, int64_t matrix,
                            int64_t first) {
    const Epilogue<T>& e = p.epilogue;
    __syncthreads();
    for (int r = static_cast<int>(threadIdx.x); r < kRows * kColumns; r += 32 * kWarps) {
        const int i = r / kColumns, column = r % kColumns;
        const int64_t j = first + column;
        if (i >= p.m || j >= p.n) continue;
        float sum = 0;
        for (int w = 0; w < kWarps; ++w) sum += partials[w][i][column];
        if constexpr (kMayBeGated<T>) {
            __shared__ float own[kRows * kColumns];
            if (p.gate != nullptr && matrix == 0) own[r] = sum;
            if (p.gate != nullptr && matrix != 0) e.store_gated(i, j, own[r], sum);
            if (p.gate != nullptr) continue;
        }
        if constexpr (kIsScaled<T>)
            e.store_one(i, j, sum);
        else
            e.store_one(matrix, i, j, sum);
    }
    __syncthreads();
}

}  // namespace bk
