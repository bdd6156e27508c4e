// SPDX-License-Identifier: Apache-2.0
// A block computes a tile of 64 x 64, a thread 4 x 4 of it; operands are staged in shared memory 16 of k at a time.
#pragma once

#include "core/abi/launch.h"
#include "linalg/product.h"

namespace bk::linalg {

constexpr int kTile = 64, kDepth = 16, kOwn = 4, kTileThreads = 256;

template <class S>
__global__ void __launch_bounds__(kTileThreads)
    product_kernel(const __grid_constant__ ProductProblem<S> p, int64_t row_tiles, int64_t column_tiles) {
    __shared__ S staged_a[kDepth][kTile + 1], staged_b[kDepth][kTile + 1];
    const int64_t tile = blockIdx.x, batch = tile / (row_tiles * column_tiles), within = tile % (row_tiles * column_tiles);
    const int64_t first_row = within % row_tiles * kTile, first_column = within / row_tiles * kTile;
    if (p.is_lower && first_row + kTile <= first_column) return;
    const Matrix<const S> a = p.a[batch].at(first_row, 0), b = p.b[batch].at(0, first_column);
    const Matrix<S> c = p.c[batch].at(first_row, first_column);
    const int rows = static_cast<int>(p.m - first_row < kTile ? p.m - first_row : kTile);
    const int columns = static_cast<int>(p.n - first_column < kTile ? p.n - first_column : kTile);
    const bool a_by_rows = (a.row < 0 ? -a.row : a.row) <= (a.column < 0 ? -a.column : a.column);
    const bool b_by_columns = (b.column < 0 ? -b.column : b.column) <= (b.row < 0 ? -b.row : b.row);
    const int x = static_cast<int>(threadIdx.x) % 16, y = static_cast<int>(threadIdx.x) / 16;
    S sum[kOwn][kOwn];
#pragma unroll
    for (int i = 0; i < kOwn; ++i)
#pragma unroll
        for (int j = 0; j < kOwn; ++j) sum[i][j] = S(real_t<S>(0));
    for (int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
        const int depth = static_cast<int>(p.k - k0 < kDepth ? p.k - k0 : kDepth);
#pragma unroll
        for (int step = 0; step < kTile * kDepth / kTileThreads; ++step) {
            const int index = step * kTileThreads + static_cast<int>(threadIdx.x);
            const int i = a_by_rows ? index % kTile : index / kDepth, k = a_by_rows ? index / kTile : index % kDepth;
            staged_a[k][i] = i < rows && k < depth ? conj_if(p.conjugates_a, a(i, k0 + k)) : S(real_t<S>(0));
            const int j = b_by_columns ? index % kTile : index / kDepth, l = b_by_columns ? index / kTile : index % kDepth;
            staged_b[l][j] = j < columns && l < depth ? conj_if(p.conjugates_b, b(k0 + l, j)) : S(real_t<S>(0));
        }
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < kDepth; ++k) {
            S of_a[kOwn], of_b[kOwn];
#pragma unroll
            for (int i = 0; i < kOwn; ++i) of_a[i] = staged_a[k][x + 16 * i];
#pragma unroll
            for (int j = 0; j < kOwn; ++j) of_b[j] = staged_b[k][y + 16 * j];
#pragma unroll
            for (int i = 0; i < kOwn; ++i)
#pragma unroll
                for (int j = 0; j < kOwn; ++j) sum[i][j] = add_product(sum[i][j], of_a[i], of_b[j]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int j = 0; j < kOwn; ++j)
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
            const int row = x + 16 * i, column = y + 16 * j;
            if (row >= rows || column >= columns || (p.is_lower && first_row + row < first_column + column)) continue;
            S& to = c(row, column);
            to = p.subtracts ? to - sum[i][j] : sum[i][j];
        }
}

template <class S>
Status product(const Launch& launch, const ProductProblem<S>& p) {
    const int64_t row_tiles = ceil_div<int64_t>(p.m, kTile), column_tiles = ceil_div<int64_t>(p.n, kTile);
    const int64_t blocks = p.batch * row_tiles * column_tiles;
    if (blocks == 0) return Status::kOk;
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld tiles are too many for one launch", static_cast<long long>(blocks));
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kTileThreads)}, product_kernel<S>, p, row_tiles,
                         column_tiles);
}

}  // namespace bk::linalg
