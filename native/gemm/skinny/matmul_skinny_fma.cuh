// SPDX-License-Identifier: Apache-2.0
// Skinny f32 GEMM on FMA: a lane multiplies each element of B by two rows of A, or by eight.
#pragma once

#include <cstdint>

#include "core/types/vec.h"
#include "gemm/skinny/matmul_skinny_store.cuh"

namespace bk {

constexpr int kKMajorFmaColumns = 4, kSkinnyFmaSteps = 2;

// Loads four elements `stride` apart; zeros from index `inside` on.
BK_DEVICE Vec<float, 4> gather_four(const float* from, int64_t stride, int64_t inside) {
    Vec<float, 4> four;
#pragma unroll
    for (int v = 0; v < 4; ++v) four.lane[v] = v < inside ? from[v * stride] : 0.f;
    return four;
}

// Sums kCount values over the lanes that differ in bits 16 to kLast (recursive halving): a lane with a higher value of
// these bits ends with values of higher index, first in x.
template <int kLast, int kCount>
BK_DEVICE void sum_over_lanes(float (&x)[kCount], int lane) {
    int count = kCount;
#pragma unroll
    for (int step = 16; step >= kLast; step /= 2) {
        if (count == 1) {
            x[0] += __shfl_xor_sync(~0u, x[0], step);
        } else {
            count /= 2;
            const bool is_upper = (lane & step) != 0;
#pragma unroll
            for (int v = 0; v < kCount / 2; ++v) {
                if (v >= count) break;
                const float sent = is_upper ? x[v] : x[v + count], own = is_upper ? x[v + count] : x[v];
                x[v] = own + __shfl_xor_sync(~0u, sent, step);
            }
        }
    }
}

// K-major B: a warp reads 128 K elements of four columns, a lane four of each.
template <int kRows, class T>
BK_DEVICE void multiply_skinny_k_major(const Matmul<T>& p, SkinnyPartials<kSkinnyWarps, kKMajorFmaColumns>& partials,
                                       int64_t matrix, int64_t first, bool a_aligned, bool b_aligned) {
    constexpr int kSpan = 128, kIterationK = kSkinnyFmaSteps * kSpan;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int64_t a_step = p.a_at.column;
    const float* const a = p.a_at.matrix(p.a, matrix) + 4 * lane * a_step;
    const float* const b = p.b_at.matrix(p.b, matrix) + first * p.b_at.column + 4 * lane;
    const int last_row = static_cast<int>(p.m) - 1,
              last = static_cast<int>(min(p.n - first, static_cast<int64_t>(kKMajorFmaColumns))) - 1;
    int64_t row_at[kRows], column_at[kKMajorFmaColumns];  // uniform across lanes
#pragma unroll
    for (int i = 0; i < kRows; ++i) row_at[i] = min(i, last_row) * p.a_at.row;
#pragma unroll
    for (int j = 0; j < kKMajorFmaColumns; ++j) column_at[j] = min(j, last) * p.b_at.column;
    const int64_t iterations = b_aligned ? p.k / kIterationK : 0;
    float sum[kRows * kKMajorFmaColumns] = {};
    const auto multiply = [&](int i, const Vec<float, 4>& row, const Vec<float, 4>(&column)[kKMajorFmaColumns]) {
#pragma unroll
        for (int j = 0; j < kKMajorFmaColumns; ++j)
#pragma unroll
            for (int v = 0; v < 4; ++v) {
                float& s = sum[i * kKMajorFmaColumns + j];
                s = math::fma(row.lane[v], column[j].lane[v], s);
            }
    };
    for (int64_t iteration = warp; iteration < iterations; iteration += kSkinnyWarps) {
        Vec<float, 4> column[kSkinnyFmaSteps][kKMajorFmaColumns];
#pragma unroll
        for (int u = 0; u < kSkinnyFmaSteps; ++u)
#pragma unroll
            for (int j = 0; j < kKMajorFmaColumns; ++j)
                column[u][j] = load_once<4>(b + iteration * kIterationK + column_at[j] + u * kSpan);
        if (a_aligned) {
#pragma unroll
            for (int u = 0; u < kSkinnyFmaSteps; ++u)
#pragma unroll
                for (int i = 0; i < kRows; ++i)
                    multiply(i, load<4>(a + iteration * kIterationK + row_at[i] + u * kSpan), column[u]);
        } else {
#pragma unroll
            for (int u = 0; u < kSkinnyFmaSteps; ++u)
#pragma unroll
                for (int i = 0; i < kRows; ++i)
                    multiply(i, gather_four(a + (iteration * kIterationK + u * kSpan) * a_step + row_at[i], a_step, 4),
                             column[u]);
        }
    }
    for (int64_t k = iterations * kIterationK + warp * kSpan; k < p.k; k += kSkinnyWarps * kSpan) {
        Vec<float, 4> column[kKMajorFmaColumns];
        const int64_t inside = p.k - k - 4 * lane;
#pragma unroll
        for (int j = 0; j < kKMajorFmaColumns; ++j) column[j] = gather_four(b + k + column_at[j], 1, inside);
#pragma unroll
        for (int i = 0; i < kRows; ++i) multiply(i, gather_four(a + k * a_step + row_at[i], a_step, inside), column);
    }
    sum_over_lanes<1>(sum, lane);
    const int value = lane / (32 / (kRows * kKMajorFmaColumns));
    partials[warp][value / kKMajorFmaColumns][value % kKMajorFmaColumns] = sum[0];
}

// N-major B: kAcross lanes of a warp read a row of 4 kAcross columns, a lane four K elements of four columns.
template <int kRows, int kAcross, class T>
BK_DEVICE void multiply_skinny_n_major(const Matmul<T>& p, SkinnyPartials<kSkinnyWarps, 4 * kAcross>& partials, int64_t matrix,
                                       int64_t first, bool a_aligned, bool b_aligned) {
    constexpr int kSpan = 4 * 32 / kAcross, kIterationK = kSkinnyFmaSteps * kSpan;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int c = lane % kAcross, t = lane / kAcross;
    const bool aligned = b_aligned && (first + 4 * kAcross <= p.n || p.n % 4 == 0);
    const int64_t column = aligned ? min(first + 4 * c, p.n - 4) : first + 4 * c;
    const int64_t iterations = aligned ? p.k / kIterationK : 0, pitch = p.b_at.row, a_step = p.a_at.column;
    const float* const b = p.b_at.matrix(p.b, matrix) + 4 * t * pitch + column;
    const float* const a = p.a_at.matrix(p.a, matrix) + 4 * t * a_step;
    const int last_row = static_cast<int>(p.m) - 1;
    int64_t row_at[kRows];  // uniform across lanes
#pragma unroll
    for (int i = 0; i < kRows; ++i) row_at[i] = min(i, last_row) * p.a_at.row;
    float sum[kRows * 4] = {};
    const auto multiply = [&](int i, const Vec<float, 4>& a_values, const Vec<float, 4>(&b_rows)[4]) {
#pragma unroll
        for (int s = 0; s < 4; ++s)
#pragma unroll
            for (int v = 0; v < 4; ++v) sum[4 * i + v] = math::fma(a_values.lane[s], b_rows[s].lane[v], sum[4 * i + v]);
    };
    for (int64_t iteration = warp; iteration < iterations; iteration += kSkinnyWarps) {
        Vec<float, 4> b_rows[kSkinnyFmaSteps][4];
        const float* from = b + iteration * kIterationK * pitch;
#pragma unroll
        for (int u = 0; u < kSkinnyFmaSteps; ++u) {
#pragma unroll
            for (int s = 0; s < 4; ++s) {
                b_rows[u][s] = load_once<4>(from);
                from += s < 3 ? pitch : (kSpan - 3) * pitch;
            }
        }
        if (a_aligned) {
#pragma unroll
            for (int u = 0; u < kSkinnyFmaSteps; ++u)
#pragma unroll
                for (int i = 0; i < kRows; ++i)
                    multiply(i, load<4>(a + iteration * kIterationK + row_at[i] + u * kSpan), b_rows[u]);
        } else {
#pragma unroll
            for (int u = 0; u < kSkinnyFmaSteps; ++u)
#pragma unroll
                for (int i = 0; i < kRows; ++i)
                    multiply(i, gather_four(a + (iteration * kIterationK + u * kSpan) * a_step + row_at[i], a_step, 4),
                             b_rows[u]);
        }
    }
    for (int64_t k = iterations * kIterationK + warp * kSpan; k < p.k; k += kSkinnyWarps * kSpan) {
        Vec<float, 4> b_rows[4];
        const int64_t inside = p.k - k - 4 * t;
#pragma unroll
        for (int s = 0; s < 4; ++s) b_rows[s] = gather_four(b + (k + s) * pitch, 1, s < inside ? p.n - column : 0);
#pragma unroll
        for (int i = 0; i < kRows; ++i) multiply(i, gather_four(a + k * a_step + row_at[i], a_step, inside), b_rows);
    }
    sum_over_lanes<kAcross>(sum, lane);
    constexpr int kLeft = kRows * 4 * kAcross / 32;
#pragma unroll
    for (int v = 0; v < kLeft; ++v) {
        const int value = t * kLeft + v;
        partials[warp][value / 4][4 * c + value % 4] = sum[v];
    }
}

template <class T>
__global__ void __launch_bounds__(32 * kSkinnyWarps, 2)
    skinny_k_major_fma_kernel(const __grid_constant__ Matmul<T> p, bool a_aligned, bool b_aligned) {
    __shared__ SkinnyPartials<kSkinnyWarps, kKMajorFmaColumns> partials;
    const int64_t first = static_cast<int64_t>(blockIdx.x) * kKMajorFmaColumns;
    for (int64_t matrix = blockIdx.y; matrix < p.batch; matrix += gridDim.y) {
        if (p.m <= 2)
            multiply_skinny_k_major<2>(p, partials, matrix, first, a_aligned, b_aligned);
        else
            multiply_skinny_k_major<kSkinnyRows>(p, partials, matrix, first, a_aligned, b_aligned);
        store_skinny<kSkinnyWarps, kKMajorFmaColumns>(p, partials, matrix, first);
    }
}

template <class T, int kAcross>
__global__ void __launch_bounds__(32 * kSkinnyWarps, 2)
    skinny_n_major_fma_kernel(const __grid_constant__ Matmul<T> p, bool a_aligned, bool b_aligned) {
    __shared__ SkinnyPartials<kSkinnyWarps, 4 * kAcross> partials;
    const int64_t first = static_cast<int64_t>(blockIdx.x) * 4 * kAcross;
    for (int64_t matrix = blockIdx.y; matrix < p.batch; matrix += gridDim.y) {
        if (p.m <= 2)
            multiply_skinny_n_major<2, kAcross>(p, partials, matrix, first, a_aligned, b_aligned);
        else
            multiply_skinny_n_major<kSkinnyRows, kAcross>(p, partials, matrix, first, a_aligned, b_aligned);
        store_skinny<kSkinnyWarps, 4 * kAcross>(p, partials, matrix, first);
    }
}

}  // namespace bk
