// SPDX-License-Identifier: Apache-2.0
// Integer dot products of quantised weights and activations on the GPU, by mma of 8-bit integers: rows of weights are the
// rows of the mma, up to eight rows of q8_1 blocks its columns.
#pragma once

#include <cstdint>

#include "core/intrinsics/tensor_core.cuh"
#include "quantize/products/block_sums.h"
#include "quantize/products/weight_stages.cuh"

namespace bk {

template <class Format>
__global__ void __launch_bounds__(32 * kProductWarps) block_dots_kernel(const __grid_constant__ BlockDots p, bool x_aligned) {
    using Stage = WeightStage<Format, kWideTiles<Format>>;
    constexpr int kTiles = Stage::kTiles, kGroups = Format::kGroup >= 32 ? 1 : 2;  // of 32 K elements
    constexpr BlockSum kSum = kBlockSum<Format>;
    BK_LAUNCH_SHARED(uint4, shared_words);
    uint8_t* const shared = reinterpret_cast<uint8_t*>(shared_words);
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32, g = lane / 4, t = lane % 4;
    const int64_t first_row = static_cast<int64_t>(blockIdx.x) * Stage::kRows, left = p.n - first_row,
                  rows = left < Stage::kRows ? left : Stage::kRows, blocks = p.k / 32;
    WeightRing<Format, kTiles> ring(shared, p.weights, first_row, rows, p.k);
    const auto row_of_x = [&](int column) { return column < p.m ? p.x + column * blocks * codec::Q81::kBytes : nullptr; };
    const uint8_t *const x = row_of_x(g), *const x_pair[2] = {row_of_x(2 * t), row_of_x(2 * t + 1)};
    float total[kTiles][1][4] = {};
#pragma unroll 1
    for (int64_t k = int64_t{warp} * Stage::kK; k < p.k; k += WeightRing<Format, kTiles>::kStride) {
        const uint8_t* own_rows[kTiles][2];
        ring.advance(k, own_rows);
        const int depth = static_cast<int>(min(p.k - k, int64_t{Stage::kK}));
#pragma unroll 1
        for (int s = 0; s < depth; s += 32) {
            const int64_t at = (k + s) / 32 * codec::Q81::kBytes;
            const int block = s / Format::kBlock * Format::kBytes, e = s % Format::kBlock;
            uint32_t column[2] = {};
            float x_scale[2] = {}, x_sum[2] = {};
            if (x != nullptr)
                for (int half = 0; half < 2; ++half)
                    column[half] = x_aligned ? codec::Q81::codes4(x + at, 16 * half + 4 * t)
                                             : codec::load4<1>(x + at + 4 + 16 * half + 4 * t);
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                if (x_pair[c] == nullptr) continue;
                x_scale[c] = codec::Q81::affine(x_pair[c] + at, 0).scale;
                x_sum[c] = codec::Q81::sum(x_pair[c] + at);
            }
#pragma unroll
            for (int group = 0; group < kGroups; ++group) {
                const bool has_low = kGroups == 1 || group == 0, has_high = kGroups == 1 || group == 1;
                int32_t codes_of_x[4] = {};  // sums of columns 2t and 2t + 1, in every row
                if constexpr (kSum != BlockSum::kNone) {
                    const uint32_t ones[4] = {has_low ? 0x01010101u : 0, has_low ? 0x01010101u : 0, has_high ? 0x01010101u : 0,
                                              has_high ? 0x01010101u : 0};
                    Mma<int8_t>::run(codes_of_x, ones, column);
                }
                const float sums[2] = {block_sum<Format>(x_scale[0], x_sum[0], codes_of_x[0]),
                                       block_sum<Format>(x_scale[1], x_sum[1], codes_of_x[1])};
#pragma unroll
                for (int q = 0; q < kTiles; ++q) {
                    uint32_t codes[4] = {};
                    for (int half = 0; half < 2; ++half) {
                        if (has_low) codes[half] = Format::codes4(own_rows[q][half] + block, e + 4 * t);
                        if (has_high) codes[2 + half] = Format::codes4(own_rows[q][half] + block, e + 16 + 4 * t);
                    }
                    int32_t dots[4] = {};
                    Mma<int8_t>::run(dots, codes, column);
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        const codec::Affine affine =
                            Format::affine(own_rows[q][half] + block, (e + 16 * group) / Format::kGroup);
#pragma unroll
                        for (int c = 0; c < 2; ++c) {
                            float& sum = total[q][0][2 * half + c];
                            sum = math::fma(affine.scale * x_scale[c], static_cast<float>(dots[2 * half + c]), sum);
                            if constexpr (kSum != BlockSum::kNone) sum = math::fma(sum_factor<Format>(affine), sums[c], sum);
                        }
                    }
                }
            }
        }
    }
    wait_for_copies<0>();
    const WarpPartials<Format, kTiles, 1> partials(shared, total);
    for (int index = static_cast<int>(threadIdx.x); index < Stage::kRows * p.m; index += 32 * kProductWarps) {
        const int i = index / Stage::kRows, r = index % Stage::kRows;
        if (r < rows) p.y[i * p.n + first_row + r] = partials.sum(i, r);
    }
}

template <class Format>
Status block_dots(const Launch& launch, const BlockDots& p) {
    Grid grid{dim3(static_cast<unsigned>(ceil_div<int64_t>(p.n, WeightStage<Format, kWideTiles<Format>>::kRows))),
              dim3(32 * kProductWarps)};
    grid.shared = WarpPartials<Format, kWideTiles<Format>, 1>::kShared;
    return launch_kernel(launch, grid, block_dots_kernel<Format>, p,
                         reinterpret_cast<uintptr_t>(p.x) % codec::Q81::kAlign == 0);
}

}  // namespace bk
