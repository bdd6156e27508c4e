// SPDX-License-Identifier: Apache-2.0
// The epilogue of sums in memory: split-K partials, added in slice order, or what another kernel has computed.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gemm/tiled/matmul_mma.cuh"

namespace bk {

// Epilogue over `matrices` m x n results whose sums are split-K partials, cuBLASLt's or D itself; `gates` are the
// gate's sums of a gated GEMM.
template <class T>
__global__ void __launch_bounds__(256)
    finish_kernel(const __grid_constant__ Epilogue<T> e, const __grid_constant__ SplitKOf<T> split,
                  const matmul_scalar_t<T>* gates, int64_t pitch, int64_t m, int64_t n, int64_t matrices, bool in_pairs) {
    using S = matmul_scalar_t<T>;
    const int64_t j = 2 * (static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x);
    if (j >= n) return;
    for (int64_t row = blockIdx.y; row < matrices * m; row += gridDim.y) {
        const int64_t matrix = row / m, i = row % m;
        const S* from = split.partials + (matrix * split.count * m + i) * pitch + j;
        S first = from[0], second = j + 1 < n ? from[1] : S(0);
        for (int64_t slice = 1; slice < split.count; ++slice) {
            from += m * pitch;
            first += from[0];
            if (j + 1 < n) second += from[1];
        }
        if constexpr (kMayBeGated<T>)
            if (gates != nullptr) {
                e.store_gated(i, j, first, gates[i * pitch + j]);
                if (j + 1 < n) e.store_gated(i, j + 1, second, gates[i * pitch + j + 1]);
                continue;
            }
        store_pair(e, matrix, i, j, n, first, second, in_pairs);
    }
}

template <class T>
Status finish(const Launch& launch, const Epilogue<T>& e, const SplitKOf<T>& split, int64_t pitch, int64_t m, int64_t n,
              int64_t matrices = 1, const matmul_scalar_t<T>* gates = nullptr) {
    const int64_t across = ceil_div<int64_t>(n, 512), down = std::min(matrices * m, std::max<int64_t>(4096 / across, 1));
    const dim3 blocks(static_cast<unsigned>(across), static_cast<unsigned>(down));
    return launch_kernel(launch, {blocks, dim3(256)}, finish_kernel<T>, e, split, gates, pitch, m, n, matrices,
                         stores_pairs(e));
}

}  // namespace bk
