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

// Slices of a GEMM with a workspace, whose partials are not carved yet; one if splitting does not pay.
template <class T>
SplitKOf<T> split_k_of(const MatmulShape& s) {
    constexpr int64_t kSide = std::is_same_v<T, float> ? kSimtSide : 64;
    SplitKOf<T> split;
    if (!kHasSplitK<T> || s.is_gated || std::min({s.m, s.n, s.batch}) <= 0 || s.k < 2 * kMinSliceK) return split;
    const int64_t tiles_m = ceil_div(s.m, kSide), tiles_n = ceil_div(s.n, kSide);
    if (tiles_m > kReferenceSms || tiles_n > kReferenceSms || s.batch > kReferenceSms) return split;
    const int64_t tiles = tiles_m * tiles_n * s.batch, wanted = std::min(2 * kReferenceSms / tiles, s.k / kMinSliceK);
    if (2 * tiles > kReferenceSms || wanted < 2) return split;
    split.slice_k = ceil_div(ceil_div(s.k, wanted), kSliceUnit) * kSliceUnit;
    split.count = ceil_div(s.k, split.slice_k);
    return split;
}

// Carves the partials of `slices` slices of an m x n result.
template <class T>
matmul_scalar_t<T>* carve_partials(Carver* carver, int64_t m, int64_t n, int64_t batch, int64_t slices) {
    return carver->take<matmul_scalar_t<T>>(slices > 1 ? slices * batch * m * n : 0);
}

template <class T>
size_t split_k_workspace(const MatmulShape& s) {
    Carver carver;
    carve_partials<T>(&carver, s.m, s.n, s.batch, split_k_of<T>(s).count);
    return carver.bytes();
}

}  // namespace bk
