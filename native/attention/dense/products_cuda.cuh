// SPDX-License-Identifier: Apache-2.0
// Products by tiles of 64 x 64 in shared memory on FMA, any strides: a path that is right for all dtypes rather than fast.
// A warp computes a row of score gradients or a row's product.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/dense/products.h"

namespace bk {

constexpr int kProductTile = 64, kProductDepth = 16, kProductThreads = 256, kProductOwn = 4;  // 4 x 4 results a thread
constexpr int kProductPitch = kProductTile + 1;  // against bank conflicts of transposed stores

template <class T>
__global__ void __launch_bounds__(kProductThreads)
    multiply_heads_kernel(HeadProducts<T> p, int64_t tiles_m, int64_t tiles_n, int64_t tiles) {
    using C = compute_t<T>;
    __shared__ C of_a[kProductDepth][kProductPitch], of_b[kProductDepth][kProductPitch];
    const int thread = threadIdx.x, row = thread / 16, column = thread % 16;
    for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
        const int64_t head = t / (tiles_m * tiles_n), within = t % (tiles_m * tiles_n);
        const int64_t b = head / p.groups, g = head % p.groups;
        const int64_t i0 = within / tiles_n * kProductTile, j0 = within % tiles_n * kProductTile;
        C sums[kProductOwn][kProductOwn] = {};
        for (int64_t h = g * p.summed; h < (g + 1) * p.summed; ++h)
            for (int64_t k0 = 0; k0 < p.k; k0 += kProductDepth) {
                for (int at = thread; at < kProductTile * kProductDepth; at += kProductThreads) {
                    // neighbouring threads read neighbouring elements where one of the strides is 1
                    const bool a_by_k = p.a.column == 1, b_by_k = p.b.column != 1;
                    const int ka = a_by_k ? at % kProductDepth : at / kProductTile;
                    const int ia = a_by_k ? at / kProductDepth : at % kProductTile;
                    const int kb = b_by_k ? at % kProductDepth : at / kProductTile;
                    const int jb = b_by_k ? at / kProductDepth : at % kProductTile;
                    const bool has_a = i0 + ia < p.m && k0 + ka < p.k, has_b = j0 + jb < p.n && k0 + kb < p.k;
                    of_a[ka][ia] = has_a ? widen(*p.a.at(b, h, i0 + ia, k0 + ka)) : C(0);
                    of_b[kb][jb] = has_b ? widen(*p.b.at(b, h, k0 + kb, j0 + jb)) : C(0);
                }
                __syncthreads();
#pragma unroll
                for (int k = 0; k < kProductDepth; ++k) {
                    C a[kProductOwn], c[kProductOwn];
#pragma unroll
                    for (int u = 0; u < kProductOwn; ++u) {
                        a[u] = of_a[k][row + 16 * u];
                        c[u] = of_b[k][column + 16 * u];
                    }
#pragma unroll
                    for (int u = 0; u < kProductOwn; ++u)
#pragma unroll
                        for (int w = 0; w < kProductOwn; ++w) sums[u][w] += a[u] * c[w];
                }
                __syncthreads();
            }
#pragma unroll
        for (int u = 0; u < kProductOwn; ++u)
#pragma unroll
            for (int w = 0; w < kProductOwn; ++w) {
                const int64_t i = i0 + row + 16 * u, j = j0 + column + 16 * w;
                if (i >= p.m || j >= p.n) continue;
                T* const to = p.c.at(b, g, i, j);
                const T value = narrow<T>(sums[u][w] * static_cast<C>(p.alpha));
                *to = p.adds ? narrow<T>(widen(*to) + widen(value)) : value;
            }
    }
}

template <class T>
Status multiply_heads(const Launch& launch, const HeadProducts<T>& p) {
    const int64_t tiles_m = ceil_div<int64_t>(p.m, kProductTile), tiles_n = ceil_div<int64_t>(p.n, kProductTile);
    const int64_t tiles = p.batch * p.groups * tiles_m * tiles_n;
    if (tiles == 0) return Status::kOk;
    const unsigned blocks = static_cast<unsigned>(std::min<int64_t>(tiles, kMaxGridX));
    return launch_kernel(launch, Grid{dim3(blocks), dim3(kProductThreads)}, multiply_heads_kernel<T>, p, tiles_m, tiles_n,
                         tiles);
}

constexpr int kRowWarps = 8;

// The sum over a warp, in all of its lanes.
template <class C>
BK_DEVICE C sum_of_warp(C value) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffu, value, lanes);
    return value;
}

template <class T>
__global__ void __launch_bounds__(32 * kRowWarps)
    score_gradients_kernel(int64_t rows, int64_t columns, const T* attn, const T* da, T* ds) {
    using C = compute_t<T>;
    const int lane = threadIdx.x % 32;
    for (int64_t r = int64_t{blockIdx.x} * kRowWarps + threadIdx.x / 32; r < rows; r += int64_t{gridDim.x} * kRowWarps) {
        const int64_t at = r * columns;
        C sum = 0;
        for (int64_t j = lane; j < columns; j += 32) sum += widen(attn[at + j]) * widen(da[at + j]);
        sum = sum_of_warp(sum);
        for (int64_t j = lane; j < columns; j += 32) ds[at + j] = narrow<T>(widen(attn[at + j]) * (widen(da[at + j]) - sum));
    }
}

template <class T>
__global__ void __launch_bounds__(32 * kRowWarps)
    row_dots_kernel(AttentionExtents e, HeadsView<const T> y, HeadsView<const T> dy, T* dots) {
    using C = compute_t<T>;
    const int lane = threadIdx.x % 32;
    const int64_t rows = e.batch * e.heads * e.q_len;
    for (int64_t r = int64_t{blockIdx.x} * kRowWarps + threadIdx.x / 32; r < rows; r += int64_t{gridDim.x} * kRowWarps) {
        const int64_t i = r % e.q_len, head = r / e.q_len;
        const int64_t b = head / e.heads, h = head % e.heads;
        const T *const y_row = y.at(b, h, i), *const dy_row = dy.at(b, h, i);
        C sum = 0;
        for (int64_t j = lane; j < e.d_v; j += 32) sum += widen(y_row[j]) * widen(dy_row[j]);
        sum = sum_of_warp(sum);
        if (lane == 0) dots[r] = narrow<T>(sum);
    }
}

inline Grid rows_grid(int64_t rows) {
    const int64_t blocks = std::min<int64_t>(ceil_div<int64_t>(rows, kRowWarps), kMaxGridX);
    return Grid{dim3(static_cast<unsigned>(blocks)), dim3(32 * kRowWarps)};
}

template <class T>
Status score_gradients(const Launch& launch, int64_t rows, int64_t columns, const T* attn, const T* da, T* ds) {
    if (rows == 0 || columns == 0) return Status::kOk;
    return launch_kernel(launch, rows_grid(rows), score_gradients_kernel<T>, rows, columns, attn, da, ds);
}

template <class T>
Status row_dots(const Launch& launch, const AttentionExtents& e, const HeadsView<const T>& y, const HeadsView<const T>& dy,
                T* dots) {
    if (!e.has_queries()) return Status::kOk;
    return launch_kernel(launch, rows_grid(e.batch * e.heads * e.q_len), row_dots_kernel<T>, e, y, dy, dots);
}

}  // namespace bk
