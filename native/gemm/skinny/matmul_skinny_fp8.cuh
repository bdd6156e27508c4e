// SPDX-License-Identifier: Apache-2.0
// Skinny FP8 GEMM, M <= 16, both operands K-major: bandwidth-bound on one read of B. As the 16-bit kernels of
// gemm/skinny/matmul_skinny_mma.cuh, with sums over 128 K elements promoted and scaled if scales are by blocks.
#pragma once

#include <cstdint>

#include "core/intrinsics/fp8_factors.cuh"
#include "core/types/vec.h"
#include "gemm/skinny/matmul_skinny_mma.cuh"
#include "gemm/skinny/matmul_skinny_store.cuh"

namespace bk {

template <class T>
constexpr bool kHasSkinnyFp8 = kHasFp8Factors<matmul_element_t<T>>;

constexpr int kFp8Rows = 2 * kSkinnyRows, kFp8Columns = 16;

// Loads 16 bytes along k; zeros from index `inside` on.
template <class E>
BK_DEVICE void load_fp8(uint32_t (&words)[4], const E* from, int64_t inside) {
    if (inside >= 16) return load_words(words, reinterpret_cast<const f16*>(from));
#pragma unroll
    for (int w = 0; w < 4; ++w) {
        words[w] = 0;
#pragma unroll
        for (int v = 0; v < 4; ++v)
            if (4 * w + v < inside) words[w] |= static_cast<uint32_t>(from[4 * w + v].bits) << 8 * v;
    }
}

// With g = lane / 4 and t = lane % 4, a lane reads K elements 16t to 16t + 15 of 64, of columns g and g + 8 of B and
// rows g and g + 8 of A, the latter if M > 8. Two mmas take two of their four words each.
template <class T>
__global__ void __launch_bounds__(32 * kSkinnyWarps, 2) skinny_fp8_kernel(const __grid_constant__ Matmul<T> p) {
    using E = matmul_element_t<T>;
    using Step = Mma<typename Factors<E>::Transposed>;  // whose first operand is B
    constexpr int kSpan = 64, kSpans = kScaleBlock / kSpan, kBlocksInFlight = 2, kIterationK = kBlocksInFlight * kScaleBlock;
    __shared__ SkinnyPartials<kSkinnyWarps, kFp8Columns, kFp8Rows> partials;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32, g = lane / 4, t = lane % 4;
    const int64_t first = static_cast<int64_t>(blockIdx.x) * kFp8Columns, iterations = p.k / kIterationK;
    const bool has_more = p.m > kSkinnyRows;
    bool is_by_blocks = false;
    if constexpr (kIsScaled<T>) is_by_blocks = p.epilogue.is_by_blocks();
    for (int64_t matrix = blockIdx.y; matrix < p.batch; matrix += gridDim.y) {
        const E *a[2], *b[2];
        for (int half = 0; half < 2; ++half) {
            a[half] = p.a_at.matrix(p.a, matrix) + min(int64_t{g} + 8 * half, p.m - 1) * p.a_at.row + 16 * t;
            b[half] = p.b_at.matrix(p.b, matrix) + min(first + g + 8 * half, p.n - 1) * p.b_at.column + 16 * t;
        }
        float total[2][4] = {}, sum[2][4] = {};
        const auto multiply = [&](const uint32_t (&b_words)[2][4], const uint32_t (&a_words)[2][4]) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const uint32_t columns[4] = {b_words[0][2 * half], b_words[1][2 * half], b_words[0][2 * half + 1],
                                             b_words[1][2 * half + 1]};
#pragma unroll
                for (int row_half = 0; row_half < 2; ++row_half) {
                    const uint32_t rows[2] = {a_words[row_half][2 * half], a_words[row_half][2 * half + 1]};
                    if (row_half == 0 || has_more) Step::run(sum[row_half], columns, rows);
                }
            }
        };
        const auto promote = [&](int64_t block) {
#pragma unroll
            for (int row_half = 0; row_half < 2; ++row_half)
#pragma unroll
                for (int v = 0; v < 4; ++v) {
                    float scale = 1;
                    if constexpr (kIsScaled<T>)
                        if (is_by_blocks && (row_half == 0 || has_more))
                            scale = p.epilogue.scale_of_row(min(int64_t{8 * row_half + 2 * t + v % 2}, p.m - 1), block) *
                                    p.epilogue.scale_of_column(first, block);
                    total[row_half][v] += sum[row_half][v] * scale;
                    sum[row_half][v] = 0;
                }
        };
        for (int64_t iteration = warp; iteration < iterations; iteration += kSkinnyWarps) {
            uint32_t b_words[kBlocksInFlight * kSpans][2][4], a_words[kBlocksInFlight * kSpans][2][4];
#pragma unroll
            for (int u = 0; u < kBlocksInFlight * kSpans; ++u)
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    load_words_once(b_words[u][half],
                                    reinterpret_cast<const f16*>(b[half] + iteration * kIterationK + u * kSpan));
#pragma unroll
            for (int u = 0; u < kBlocksInFlight * kSpans; ++u)
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    if (half == 0 || has_more)
                        load_words(a_words[u][half],
                                   reinterpret_cast<const f16*>(a[half] + iteration * kIterationK + u * kSpan));
#pragma unroll
            for (int u = 0; u < kBlocksInFlight * kSpans; ++u) {
                multiply(b_words[u], a_words[u]);
                if (u % kSpans == kSpans - 1) promote(iteration * kBlocksInFlight + u / kSpans);
            }
        }
        for (int64_t block = iterations * kBlocksInFlight + warp; block * kScaleBlock < p.k; block += kSkinnyWarps) {
#pragma unroll
            for (int u = 0; u < kSpans; ++u) {
                const int64_t k = block * kScaleBlock + u * kSpan;
                uint32_t b_words[2][4], a_words[2][4];
                for (int half = 0; half < 2; ++half) {
                    load_fp8(b_words[half], b[half] + k, p.k - k - 16 * t);
                    load_fp8(a_words[half], a[half] + k, p.k - k - 16 * t);
                }
                multiply(b_words, a_words);
            }
            promote(block);
        }
#pragma unroll
        for (int row_half = 0; row_half < 2; ++row_half)
#pragma unroll
            for (int v = 0; v < 4; ++v) partials[warp][8 * row_half + 2 * t + v % 2][g + v / 2 * 8] = total[row_half][v];
        store_skinny<kSkinnyWarps, kFp8Columns>(p, partials, matrix, first);
    }
}

// Whether the operands are K-major and aligned, at addresses that the host knows.
template <class T>
bool suits_skinny_fp8(const Matmul<T>& p) {
    const bool has_lists = p.a_at.list != nullptr || p.b_at.list != nullptr || p.epilogue.d_at.list != nullptr;
    return !has_lists && p.a_at.column == 1 && p.b_at.row == 1 && is_aligned_by_16(p.b, p.b_at) && is_aligned(p.a, 16) &&
           (p.m == 1 || p.a_at.row % 16 == 0) && (p.batch == 1 || p.a_at.step % 16 == 0);
}

template <class T>
Status matmul_skinny_fp8(const Launch& launch, const Matmul<T>& p) {
    const dim3 blocks(static_cast<unsigned>(ceil_div<int64_t>(p.n, kFp8Columns)),
                      static_cast<unsigned>(p.batch < kMaxGridY ? p.batch : kMaxGridY));
    return launch_kernel(launch, {blocks, dim3(32 * kSkinnyWarps)}, skinny_fp8_kernel<T>, p);
}

}  // namespace bk
