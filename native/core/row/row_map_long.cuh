// SPDX-License-Identifier: Apache-2.0
// Map of long rows with per-row parameters: a block stays within one row, so that the lookup of the parameters is
// amortised over the elements that each thread loops over.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/row/row_map.h"
#include "core/row/row_operands.cuh"

namespace bk {

constexpr int kMostLongRowThreads = 256;

struct LongRowGrid {
    int n = 0;           // row length; 0: kernel not used, since rows are short or too many
    int threads = 0;     // per block
    int iterations = 0;  // per block
    int64_t rows = 0;
    int splits = 0;  // blocks per row

    // A thread takes `vectors` vectors of `vector` elements per iteration.
    static LongRowGrid of(int64_t rows, int64_t n, int vector, int vectors) {
        constexpr int64_t kFewIterations = 2, kMostIterations = 16, kEnoughBlocks = 4096, kLeastThreads = 64;
        const int64_t row_vectors = n / vector;
        if (row_vectors < kLeastThreads || rows > kMaxGridX) return {};
        LongRowGrid grid;
        const int64_t wanted = ceil_div<int64_t>(row_vectors, kFewIterations * vectors);
        grid.threads =
            static_cast<int>(std::clamp<int64_t>(ceil_div<int64_t>(wanted, 32) * 32, kLeastThreads, kMostLongRowThreads));
        const int64_t iterations = ceil_div<int64_t>(row_vectors, int64_t{grid.threads} * vectors);
        const int64_t least = ceil_div<int64_t>(iterations, kMostIterations), enough = ceil_div<int64_t>(kEnoughBlocks, rows);
        grid.iterations = static_cast<int>(ceil_div<int64_t>(iterations, std::min(iterations, std::max(least, enough))));
        grid.splits = static_cast<int>(ceil_div<int64_t>(iterations, grid.iterations));
        grid.n = grid.splits <= kMaxGridY ? static_cast<int>(n) : 0;
        grid.rows = rows;
        return grid;
    }
    bool is_there() const { return n > 0; }
};

template <int N, class F, class Operands>
__global__ void __launch_bounds__(kMostLongRowThreads)
    map_long_rows_kernel(const __grid_constant__ Operands operands, const F f, const int n, const int iterations) {
    constexpr int V = kVectorsAtOnce<N, Operands>;
    const int64_t r = blockIdx.x;
    const int step = static_cast<int>(blockDim.x) * N;
    const auto at = operands.row(r);
    const auto row = operands.start(f, r);
    int first =
        (static_cast<int>(blockIdx.y) * iterations * V * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * N;
    for (int iteration = 0; iteration < iterations; ++iteration, first += V * step) {
        const RowTile<N, V> where{first, step, n};
        typename F::Cached cached[N * V];
        operands.template transform<N, V>(f, at, row, where, cached);
        operands.template map<N, V>(f, at, row, typename F::TileParams{}, where, cached);
    }
}

template <int N, class F, class Operands>
Status launch_long_rows(const Launch& launch, const LongRowGrid& grid, const F& f, const Operands& operands) {
    const dim3 blocks(static_cast<unsigned>(grid.rows), static_cast<unsigned>(grid.splits));
    return launch_kernel(launch, Grid{blocks, dim3(static_cast<unsigned>(grid.threads))}, map_long_rows_kernel<N, F, Operands>,
                         operands, f, grid.n, grid.iterations);
}

}  // namespace bk
