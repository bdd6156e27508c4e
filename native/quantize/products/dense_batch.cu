// SPDX-License-Identifier: Apache-2.0
// Dispatches with dense weights on the GPU: a warp for each row of weights takes the dispatches one after another, those
// whose token is in the class of its block. Weights come from a cache after the first dispatch of their expert.
#include "quantize/products/dense_batch.h"

#include "core/math/math.h"

namespace bk {

namespace {

constexpr int kDenseWarps = 8;

__global__ void __launch_bounds__(32 * kDenseWarps) dense_dispatches_kernel(const __grid_constant__ BlockProduct p) {
    const Dispatches& of = p.dispatches;
    const int64_t lane = threadIdx.x % 32, j = static_cast<int64_t>(blockIdx.x) * kDenseWarps + threadIdx.x / 32;
    if (j >= p.n) return;
    const auto offset = [&](int64_t e) {
        const int64_t at = of.expert_offsets[e];
        return at < 0 ? 0 : at < of.count ? at : of.count;
    };
    for (int64_t e = 0; e < of.experts; ++e) {
        const uint8_t* const row = p.weights + (e * p.n + j) * p.k * bytes_of(p.dtype);
        const int64_t end = offset(e + 1);
        for (int64_t i = offset(e); i < end; ++i) {
            const int64_t token = of.token_ids[i];
            if (token < 0 || static_cast<unsigned>(token) % gridDim.y != blockIdx.y) continue;
            float sum = 0;
            for (int64_t k = lane; k < p.k; k += 32)
                sum = math::fma(load_float(row, k, p.dtype), load_float(p.x, token * p.x_row + k, p.dtype), sum);
            for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
            if (lane != 0) continue;
            if (of.scales != nullptr) sum *= of.scales[i];
            const int64_t at = token * p.y_row + j;
            store_float(p.y, at, p.dtype, of.accumulates ? load_float(p.y, at, p.dtype) + sum : sum);
        }
    }
}

}  // namespace

Status dense_dispatches(const Launch& launch, const BlockProduct& p) {
    const int64_t blocks = ceil_div<int64_t>(p.n, kDenseWarps), wanted = 4 * kReferenceSms / blocks,
                  classes = wanted < 1    ? 1
                            : wanted > 16 ? 16
                                          : wanted;
    const Grid grid{dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(classes)), dim3(32 * kDenseWarps)};
    return launch_kernel(launch, grid, dense_dispatches_kernel, p);
}

}  // namespace bk
