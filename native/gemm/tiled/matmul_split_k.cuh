// SPDX-License-Identifier: Apache-2.0
// Split-K GEMM for small M x N and large K: enough blocks to fill the chip compute partial sums over slices of K, which
// are added in slice order (deterministic). The number of slices follows from the extents alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/workspace.h"
#include "gemm/cublaslt/matmul_cublaslt.cuh"
#include "gemm/tiled/matmul_mma.cuh"
#include "gemm/tiled/matmul_simt.cuh"

namespace bk {

// Integers are not split: their i32 partials would not add exactly as f32.
template <class T>
constexpr bool kHasSplitK =
    std::is_floating_point_v<matmul_scalar_t<T>> && !std::is_integral_v<matmul_element_t<T>> && !kIsPacked<matmul_element_t<T>>;

constexpr int64_t kMinSliceK = 512, kSliceUnit = 128;  // K elements of a slice; a multiple of 16-byte vectors and of tiles

// The split of a GEMM whose workspace is `sums`; one slice if splitting does not pay.
template <class T>
SplitKOf<T> split_k_of(int64_t m, int64_t n, int64_t k, int64_t batch, void* sums) {
    constexpr int64_t kSide = std::is_same_v<T, float> ? kSimtSide : 64;
    SplitKOf<T> split;
    if (!kHasSplitK<T> || std::min({m, n, batch}) <= 0 || k < 2 * kMinSliceK) return split;
    const int64_t tiles_m = ceil_div(m, kSide), tiles_n = ceil_div(n, kSide);
    if (tiles_m > kReferenceSms || tiles_n > kReferenceSms || batch > kReferenceSms) return split;
    const int64_t tiles = tiles_m * tiles_n * batch, wanted = std::min(2 * kReferenceSms / tiles, k / kMinSliceK);
    if (2 * tiles > kReferenceSms || wanted < 2) return split;
    split.partials = static_cast<matmul_scalar_t<T>*>(sums);
    split.slice_k = ceil_div(ceil_div(k, wanted), kSliceUnit) * kSliceUnit;
    split.count = ceil_div(k, split.slice_k);
    return split;
}

template <class T>
size_t split_k_workspace(int64_t m, int64_t n, int64_t k, int64_t batch) {
    const SplitKOf<T> split = split_k_of<T>(m, n, k, batch, nullptr);
    if (split.count == 1) return 0;
    Carver carver;
    carver.take<matmul_scalar_t<T>>(split.count * batch * m * n);
    return carver.bytes();
}

template <class T>
Status matmul_split_k(const Launch& launch, const Matmul<T>& p) {
    Carver carver(launch.workspace);
    const SplitKOf<T> split = split_k_of<T>(p.m, p.n, p.k, p.batch, carver.take<char>(0));
    if constexpr (std::is_same_v<T, float>)
        BK_TRY(matmul_by_fma(launch, p, split));
    else
        BK_TRY(matmul_by_tensor_cores(launch, p, split));
    return finish(launch, p.epilogue, split, p.n, p.m, p.n, p.batch);
}

}  // namespace bk
