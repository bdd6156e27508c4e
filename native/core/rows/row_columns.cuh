// Maps of rows that share the numbers of their columns: a thread keeps those of a vector of columns in registers and walks over
// rows. Of row functions that only map, as the layers of norms with channels last are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/pointwise/layout.h"
#include "core/rows/row_map.h"
#include "core/rows/row_operands.cuh"

namespace bk {

// Whether what map() needs beside an element is of its column.
template <class F, class Columns>
constexpr bool kMapsColumns = false;
template <class F, class... Column>
constexpr bool kMapsColumns<F, Inputs<Column...>> = F::kOnlyMaps && (kHasNear<F> || sizeof...(Column) > 0);

constexpr int kColumnThreads = 256;

struct ColumnGrid {
    int64_t same = 0;    // rows that differ in their place along the last axis alone, and share their numbers; 0: none do
    int64_t share = 0;   // of these, rows of a block
    int64_t shares = 0;  // blocks of these
    int n = 0;           // elements of a row
    int lanes = 0, across = 0;  // threads of a row in a block, blocks side by side
    int rows_of_block = 0;      // at once
    int64_t blocks = 0;

    // `at_once`: rows of a thread.
    template <int Full, int Operands>
    static ColumnGrid of(const Layout<Operands>& outer, int64_t n, int vector, int at_once) {
        constexpr int64_t kLeastRows = 64, kMostTurns = 16, kEnoughBlocks = 4096;
        const int last = outer.rank - 1;
        if (last < 0 || outer.extent[last] < kLeastRows) return {};
        for (int k = Full; k < Operands; ++k)
            if (outer.stride[k][last] != 0) return {};
        ColumnGrid grid;
        grid.same = outer.extent[last];
        grid.n = static_cast<int>(n);
        const int64_t vectors = n / vector;
        grid.across = static_cast<int>(ceil_div<int64_t>(vectors, kColumnThreads));
        grid.lanes = static_cast<int>(ceil_div<int64_t>(vectors, grid.across));
        grid.rows_of_block = kColumnThreads / grid.lanes;
        const int64_t turn = int64_t{grid.rows_of_block} * at_once, turns = ceil_div(grid.same, turn);
        const int64_t bundles = outer.numel() / grid.same * grid.across;
        grid.share = turn * std::clamp<int64_t>(bundles * turns / kEnoughBlocks, 1, kMostTurns);
        grid.shares = ceil_div(grid.same, grid.share);
        grid.blocks = bundles * grid.shares;
        return grid;
    }
    bool is_there() const { return same > 0 && blocks <= kMaxGridX; }
};

template <int N, class F, class Operands>
__global__ void __launch_bounds__(kColumnThreads)
    map_columns_kernel(const __grid_constant__ Operands operands, const F f, const ColumnGrid grid) {
    constexpr int kRows = kVectorsAtOnce<N, Operands>;
    const int lane = static_cast<int>(threadIdx.x) % grid.lanes, local = static_cast<int>(threadIdx.x) / grid.lanes;
    const unsigned beside = blockIdx.x % grid.across, bundle = blockIdx.x / grid.across;
    const int64_t share = bundle % grid.shares, begin = bundle / grid.shares * grid.same;
    const RowTile<N, 1> where{(static_cast<int>(beside) * grid.lanes + lane) * N, 0, grid.n};
    if (!where.has_vector(0)) return;
    const auto row = operands.start(f, begin);
    const auto numbers = operands.template numbers<N>(f, row, where);
    const auto at = operands.row(begin);
    const int64_t last = min((share + 1) * grid.share, grid.same);
    for (int64_t r = share * grid.share + local; r < last; r += kRows * grid.rows_of_block) {
        typename Operands::template Cell<N> cell[kRows];
#pragma unroll
        for (int u = 0; u < kRows; ++u) operands.template load_row<N>(f, at, r + u * grid.rows_of_block, last, where, cell[u]);
#pragma unroll
        for (int u = 0; u < kRows; ++u)
            if (r + u * grid.rows_of_block < last)
                operands.template map_row<N>(f, at, r + u * grid.rows_of_block, row, where, cell[u], numbers);
    }
}

template <int N, class F, class Operands>
Status launch_columns(const Launch& launch, const ColumnGrid& grid, const F& f, const Operands& operands) {
    const unsigned threads = static_cast<unsigned>(grid.lanes * grid.rows_of_block);
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(grid.blocks)), dim3(threads)},
                         map_columns_kernel<N, F, Operands>, operands, f, grid);
}

}  // namespace bk
