// SPDX-License-Identifier: Apache-2.0
// Skinny GEMM on the GPU, M <= 8: bandwidth-bound on one read of B.
//
// A block has a few columns of B, and its warps split K (split-K within the block); each element of B is multiplied by
// all rows of A. Lanes outside M or N read the last row or column and do not store. f32 sums, whose order depends on
// extents and alignment alone.
#pragma once

#include <cstdint>

#include "gemm/skinny/matmul_skinny_fma.cuh"
#include "gemm/skinny/matmul_skinny_mma.cuh"

namespace bk {

// Types with skinny kernels.
template <class T>
constexpr bool kHasSkinnyKernels = std::is_same_v<T, float> || std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

// Blocks from which on each reads full 128-byte cache lines of a row of B, not half ones.
constexpr int64_t kFullCacheLineBlocks = kReferenceSms;

template <class T>
Status launch_skinny(const Launch& launch, const Matmul<T>& p, void (*kernel)(Matmul<T>, bool, bool), int columns, int warps) {
    const unsigned matrices = p.gate != nullptr ? 1 : static_cast<unsigned>(p.batch < kMaxGridY ? p.batch : kMaxGridY);
    MatrixStrides a_at = p.a_at;
    if (p.m == 1) a_at.row = 0;
    return launch_kernel(launch, {dim3(static_cast<unsigned>(ceil_div<int64_t>(p.n, columns)), matrices), dim3(32 * warps)},
                         kernel, p, a_at.column == 1 && is_aligned_by_16(p.a, a_at), is_aligned_by_16(p.b, p.b_at));
}

template <class T>
Status matmul_skinny(const Launch& launch, const Matmul<T>& input) {
    Matmul<T> p = input;
    if (p.gate != nullptr) {  // each block computes both, one after the other
        p.batch = 2;
        p.a_at.step = 0;
        p.b_at.step = p.gate - p.b;
    }
    const bool is_k_major = p.b_at.row == 1;
    if constexpr (std::is_same_v<T, float>) {
        if (is_k_major) return launch_skinny(launch, p, skinny_k_major_fma_kernel<T>, kKMajorFmaColumns, kSkinnyWarps);
        if (p.n >= kFullCacheLineBlocks * 32)
            return launch_skinny(launch, p, skinny_n_major_fma_kernel<T, 8>, 32, kSkinnyWarps);
        return launch_skinny(launch, p, skinny_n_major_fma_kernel<T, 4>, 16, kSkinnyWarps);
    } else {
        if (is_k_major) return launch_skinny(launch, p, skinny_k_major_mma_kernel<T>, kKMajorMmaColumns, kSkinnyWarps);
        if (p.n >= kFullCacheLineBlocks * 64)
            return launch_skinny(launch, p, skinny_n_major_mma_kernel<T, 8>, 64, kNMajorMmaWarps);
        return launch_skinny(launch, p, skinny_n_major_mma_kernel<T, 4>, 32, kNMajorMmaWarps);
    }
}

}  // namespace bk
