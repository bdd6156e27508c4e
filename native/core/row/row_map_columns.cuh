// SPDX-License-Identifier: Apache-2.0
// Map with per-column parameters, as batch and group norm with channels last: a thread caches the parameters of one
// vector of columns in registers and loops over rows. Map-only row functions only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/layout/layout.h"
#include "core/row/row_map.h"
#include "core/row/row_operands.cuh"

namespace bk {

// Whether map() has per-column parameters.
template <class F, class Columns>
constexpr bool kMapsColumns = false;
template <class F, class... Column>
constexpr bool kMapsColumns<F, Inputs<Column...>> = F::kMapOnly && (kHasPositionParams<F> || sizeof...(Column) > 0);

constexpr int kColumnThreads = 256;

struct ColumnGrid {
    int64_t group_rows = 0;            // rows along the last outer axis, which share parameters; 0: kernel not used
    int64_t block_rows = 0;            // rows of one block
    int64_t blocks_of_group = 0;       // blocks of one group
    int n = 0;                         // row length
    int lanes = 0, column_blocks = 0;  // threads per row in a block; blocks over the columns
    int rows_at_once = 0;              // rows that a block processes at a time
    int64_t blocks = 0;

    // rows_of_thread: rows that a thread loads at once.
    template <int Full, int Operands>
    static ColumnGrid of(const Layout<Operands>& outer, int64_t n, int vector, int rows_of_thread) {
        constexpr int64_t kLeastRows = 64, kMostSteps = 16, kEnoughBlocks = 4096;
        const int last = outer.rank - 1;
        if (last < 0 || outer.extent[last] < kLeastRows) return {};
        for (int k = Full; k < Operands; ++k)
            if (outer.stride[k][last] != 0) return {};
        ColumnGrid grid;
        grid.group_rows = outer.extent[last];
        grid.n = static_cast<int>(n);
        const int64_t vectors = n / vector;
        grid.column_blocks = static_cast<int>(ceil_div<int64_t>(vectors, kColumnThreads));
        grid.lanes = static_cast<int>(ceil_div<int64_t>(vectors, grid.column_blocks));
        grid.rows_at_once = kColumnThreads / grid.lanes;
        const int64_t step = int64_t{grid.rows_at_once} * rows_of_thread, steps = ceil_div(grid.group_rows, step);
        const int64_t groups = outer.numel() / grid.group_rows * grid.column_blocks;
        grid.block_rows = step * std::clamp<int64_t>(groups * steps / kEnoughBlocks, 1, kMostSteps);
        grid.blocks_of_group = ceil_div(grid.group_rows, grid.block_rows);
        grid.blocks = groups * grid.blocks_of_group;
        return grid;
    }
    bool is_there() const { return group_rows > 0 && blocks <= kMaxGridX; }
};

template <int N, class F, class Operands>
__global__ void __launch_bounds__(kColumnThreads)
    map_columns_kernel(const __grid_constant__ Operands operands, const F f, const ColumnGrid grid) {
    constexpr int kRows = kVectorsAtOnce<N, Operands>;
    const int lane = static_cast<int>(threadIdx.x) % grid.lanes, local = static_cast<int>(threadIdx.x) / grid.lanes;
    const unsigned column_block = blockIdx.x % grid.column_blocks, group = blockIdx.x / grid.column_blocks;
    const int64_t row_tile = group % grid.blocks_of_group, begin = group / grid.blocks_of_group * grid.group_rows;
    const RowTile<N, 1> where{(static_cast<int>(column_block) * grid.lanes + lane) * N, 0, grid.n};
    if (!where.has_vector(0)) return;
    const auto row = operands.start(f, begin);
    const auto map_params = operands.template map_params<N>(f, row, where);
    const auto at = operands.row(begin);
    const int64_t last = min((row_tile + 1) * grid.block_rows, grid.group_rows);
    for (int64_t r = row_tile * grid.block_rows + local; r < last; r += kRows * grid.rows_at_once) {
        typename Operands::template Cell<N> cell[kRows];
#pragma unroll
        for (int u = 0; u < kRows; ++u) operands.template load_row<N>(f, at, r + u * grid.rows_at_once, last, where, cell[u]);
#pragma unroll
        for (int u = 0; u < kRows; ++u)
            if (r + u * grid.rows_at_once < last)
                operands.template map_row<N>(f, at, r + u * grid.rows_at_once, row, where, cell[u], map_params);
    }
}

template <int N, class F, class Operands>
Status launch_columns(const Launch& launch, const ColumnGrid& grid, const F& f, const Operands& operands) {
    const unsigned threads = static_cast<unsigned>(grid.lanes * grid.rows_at_once);
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(grid.blocks)), dim3(threads)},
                         map_columns_kernel<N, F, Operands>, operands, f, grid);
}

}  // namespace bk
