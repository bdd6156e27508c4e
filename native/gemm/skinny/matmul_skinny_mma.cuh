// SPDX-License-Identifier: Apache-2.0
// Skinny GEMM of 16-bit elements on tensor cores: columns of B are the rows of the mma, rows of A its columns, so that
// one mma multiplies a fragment of B by all rows of A.
//
// The order of K elements within an mma is free if both operands agree, and so is that of columns of B. So each lane
// loads adjacent elements, which form its fragments without shuffles.
#pragma once

#include <cstdint>

#include "core/types/vec.h"
#include "gemm/skinny/matmul_skinny_store.cuh"

namespace bk {

constexpr int kKMajorMmaColumns = 16, kNMajorMmaWarps = 16;
constexpr int kSkinnySteps = 4;  // whose loads are in flight together

template <class E, int N>
BK_DEVICE void load_words(uint32_t (&words)[N], const E* from) {
    const auto vector = bit_cast<Vec<uint32_t, N>>(load<2 * N>(from));
#pragma unroll
    for (int w = 0; w < N; ++w) words[w] = vector.lane[w];
}

// Streaming load, for data that is read once.
template <class E, int N>
BK_DEVICE void load_words_once(uint32_t (&words)[N], const E* from) {
    const auto vector = bit_cast<Vec<uint32_t, N>>(load_once<2 * N>(from));
#pragma unroll
    for (int w = 0; w < N; ++w) words[w] = vector.lane[w];
}

// Loads elements `stride` apart; zeros from index `inside` on.
template <class E, int N>
BK_DEVICE void gather_words(uint32_t (&words)[N], const E* from, int64_t stride, int64_t inside) {
#pragma unroll
    for (int w = 0; w < N; ++w) {
        const uint32_t low = 2 * w < inside ? from[2 * w * stride].bits : 0,
                       high = 2 * w + 1 < inside ? from[(2 * w + 1) * stride].bits : 0;
        words[w] = low | high << 16;
    }
}

BK_DEVICE uint32_t low_halves(uint32_t first, uint32_t second) { return (first & 0xffffu) | second << 16; }
BK_DEVICE uint32_t high_halves(uint32_t first, uint32_t second) { return first >> 16 | (second & 0xffff0000u); }

// K-major B. With g = lane / 4 and t = lane % 4, a lane reads K elements 8t to 8t + 7 of 32, of columns g and g + 8 of
// B and row g of A: two mmas take two of their four words each.
template <class T>
__global__ void __launch_bounds__(32 * kSkinnyWarps, 3)
    skinny_k_major_mma_kernel(const __grid_constant__ Matmul<T> p, bool a_aligned, bool b_aligned) {
    using E = matmul_element_t<T>;
    using Step = Mma<E>;
    constexpr int kSpan = 32, kIterationK = kSkinnySteps * kSpan;
    __shared__ SkinnyPartials<kSkinnyWarps, kKMajorMmaColumns> partials;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32, g = lane / 4, t = lane % 4;
    const int64_t first = static_cast<int64_t>(blockIdx.x) * kKMajorMmaColumns;
    const int64_t row = min(static_cast<int64_t>(g), p.m - 1), low_column = min(first + g, p.n - 1),
                  high_column = min(first + 8 + g, p.n - 1);
    const int64_t iterations = b_aligned ? p.k / kIterationK : 0, a_step = p.a_at.column;
    for (int64_t matrix = blockIdx.y; matrix < p.batch; matrix += gridDim.y) {
        const E* const a = p.a_at.matrix(p.a, matrix) + row * p.a_at.row + 8 * t * a_step;
        const E* const b_low = p.b_at.matrix(p.b, matrix) + low_column * p.b_at.column + 8 * t;
        const E* const b_high = p.b_at.matrix(p.b, matrix) + high_column * p.b_at.column + 8 * t;
        float sum[4] = {};
        const auto multiply = [&](const uint32_t (&low)[4], const uint32_t (&high)[4], const uint32_t (&a_words)[4]) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const uint32_t columns[4] = {low[2 * half], high[2 * half], low[2 * half + 1], high[2 * half + 1]};
                const uint32_t rows[2] = {a_words[2 * half], a_words[2 * half + 1]};
                Step::run(sum, columns, rows);
            }
        };
        for (int64_t iteration = warp; iteration < iterations; iteration += kSkinnyWarps) {
            uint32_t low[kSkinnySteps][4], high[kSkinnySteps][4], a_words[kSkinnySteps][4];
#pragma unroll
            for (int u = 0; u < kSkinnySteps; ++u) {
                load_words_once(low[u], b_low + iteration * kIterationK + u * kSpan);
                load_words_once(high[u], b_high + iteration * kIterationK + u * kSpan);
            }
            if (a_aligned) {
#pragma unroll
                for (int u = 0; u < kSkinnySteps; ++u) load_words(a_words[u], a + iteration * kIterationK + u * kSpan);
            } else {
#pragma unroll
                for (int u = 0; u < kSkinnySteps; ++u)
                    gather_words(a_words[u], a + (iteration * kIterationK + u * kSpan) * a_step, a_step, 8);
            }
#pragma unroll
            for (int u = 0; u < kSkinnySteps; ++u) multiply(low[u], high[u], a_words[u]);
        }
        for (int64_t k = iterations * kIterationK + warp * kSpan; k < p.k; k += kSkinnyWarps * kSpan) {
            uint32_t low[4], high[4], a_words[4];
            const int64_t inside = p.k - k - 8 * t;
            gather_words(low, b_low + k, 1, inside);
            gather_words(high, b_high + k, 1, inside);
            gather_words(a_words, a + k * a_step, a_step, inside);
            multiply(low, high, a_words);
        }
#pragma unroll
        for (int v = 0; v < 4; ++v) partials[warp][2 * t + v % 2][g + v / 2 * 8] = sum[v];
        store_skinny<kSkinnyWarps, kKMajorMmaColumns>(p, partials, matrix, first);
    }
}

// N-major B. With L = kLaneColumns, g = lane / 4 and t = lane % 4, a lane reads columns Lg to Lg + L - 1 of K elements
// 4t to 4t + 3 of 16, and these of row g of A: L / 2 mmas of two columns each, whose K elements are paired here.
template <class T, int kLaneColumns>
__global__ void __launch_bounds__(32 * kNMajorMmaWarps, 2)
    skinny_n_major_mma_kernel(const __grid_constant__ Matmul<T> p, bool a_aligned, bool b_aligned) {
    using E = matmul_element_t<T>;
    using Step = Mma<E>;
    constexpr int kColumns = 8 * kLaneColumns, kPairs = kLaneColumns / 2;
    constexpr int kSpan = 16, kSteps = 4 * kSkinnySteps / kLaneColumns, kIterationK = kSteps * kSpan;
    __shared__ SkinnyPartials<kNMajorMmaWarps, kColumns> partials;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32, g = lane / 4, t = lane % 4;
    const int64_t first = static_cast<int64_t>(blockIdx.x) * kColumns, row = min(static_cast<int64_t>(g), p.m - 1);
    const bool aligned = b_aligned && (first + kColumns <= p.n || p.n % kLaneColumns == 0);
    const int64_t column = aligned ? min(first + kLaneColumns * g, p.n - kLaneColumns) : first + kLaneColumns * g;
    const int64_t iterations = aligned ? p.k / kIterationK : 0, pitch = p.b_at.row;
    for (int64_t matrix = blockIdx.y; matrix < p.batch; matrix += gridDim.y) {
        const E* const a = p.a_at.matrix(p.a, matrix) + row * p.a_at.row + 4 * t * p.a_at.column;
        const E* const b = p.b_at.matrix(p.b, matrix) + 4 * t * pitch + column;
        float sum[kPairs][4] = {};
        const auto multiply = [&](const uint32_t (&b_rows)[4][kPairs], const uint32_t (&a_words)[2]) {
#pragma unroll
            for (int pair = 0; pair < kPairs; ++pair) {
                const uint32_t columns[4] = {
                    low_halves(b_rows[0][pair], b_rows[1][pair]), high_halves(b_rows[0][pair], b_rows[1][pair]),
                    low_halves(b_rows[2][pair], b_rows[3][pair]), high_halves(b_rows[2][pair], b_rows[3][pair])};
                Step::run(sum[pair], columns, a_words);
            }
        };
        for (int64_t iteration = warp; iteration < iterations; iteration += kNMajorMmaWarps) {
            uint32_t b_rows[kSteps][4][kPairs], a_words[kSteps][2];
            const E* from = b + iteration * kIterationK * pitch;
#pragma unroll
            for (int u = 0; u < kSteps; ++u) {
#pragma unroll
                for (int s = 0; s < 4; ++s) {
                    load_words_once(b_rows[u][s], from);
                    from += s < 3 ? pitch : (kSpan - 3) * pitch;
                }
            }
            if (a_aligned) {
#pragma unroll
                for (int u = 0; u < kSteps; ++u) load_words(a_words[u], a + iteration * kIterationK + u * kSpan);
            } else {
#pragma unroll
                for (int u = 0; u < kSteps; ++u)
                    gather_words(a_words[u], a + (iteration * kIterationK + u * kSpan) * p.a_at.column, p.a_at.column, 4);
            }
#pragma unroll
            for (int u = 0; u < kSteps; ++u) multiply(b_rows[u], a_words[u]);
        }
        for (int64_t k = iterations * kIterationK + warp * kSpan; k < p.k; k += kNMajorMmaWarps * kSpan) {
            uint32_t b_rows[4][kPairs], a_words[2];
            const int64_t inside = p.k - k - 4 * t;
#pragma unroll
            for (int s = 0; s < 4; ++s) gather_words(b_rows[s], b + (k + s) * pitch, 1, s < inside ? p.n - column : 0);
            gather_words(a_words, a + k * p.a_at.column, p.a_at.column, inside);
            multiply(b_rows, a_words);
        }
#pragma unroll
        for (int pair = 0; pair < kPairs; ++pair)
#pragma unroll
            for (int v = 0; v < 4; ++v) partials[warp][2 * t + v % 2][kLaneColumns * g + 2 * pair + v / 2] = sum[pair][v];
        store_skinny<kNMajorMmaWarps, kColumns>(p, partials, matrix, first);
    }
}

}  // namespace bk
