// Maps of long rows by numbers of the row. All threads of a block have the same row, so that what is looked up for it takes few
// of their instructions, and each takes elements in turns.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/rows/row_map.h"
#include "core/rows/row_operands.cuh"

namespace bk {

constexpr int kMostNumberThreads = 256;

struct NumberGrid {
    int n = 0;        // elements of a row; 0: rows are short, or too many
    int threads = 0;  // of a block
    int turns = 0;    // of a block
    int64_t rows = 0;
    int parts = 0;  // of a row, each a block's

    // `vectors`: of `vector` elements, that a thread takes in a turn.
    static NumberGrid of(int64_t rows, int64_t n, int vector, int vectors) {
        constexpr int64_t kFewTurns = 2, kMostTurns = 16, kEnoughBlocks = 4096, kLeastThreads = 64;
        const int64_t all = n / vector;
        if (all < kLeastThreads || rows > kMaxGridX) return {};
        NumberGrid grid;
        const int64_t wanted = ceil_div<int64_t>(all, kFewTurns * vectors);
        grid.threads =
            static_cast<int>(std::clamp<int64_t>(ceil_div<int64_t>(wanted, 32) * 32, kLeastThreads, kMostNumberThreads));
        const int64_t turns = ceil_div<int64_t>(all, int64_t{grid.threads} * vectors);
        const int64_t least = ceil_div<int64_t>(turns, kMostTurns), enough = ceil_div<int64_t>(kEnoughBlocks, rows);
        grid.turns = static_cast<int>(ceil_div<int64_t>(turns, std::min(turns, std::max(least, enough))));
        grid.parts = static_cast<int>(ceil_div<int64_t>(turns, grid.turns));
        grid.n = grid.parts <= kMaxGridY ? static_cast<int>(n) : 0;
        grid.rows = rows;
        return grid;
    }
    bool is_there() const { return n > 0; }
};

template <int N, class F, class Operands>
__global__ void __launch_bounds__(kMostNumberThreads)
    map_by_numbers_kernel(const __grid_constant__ Operands operands, const F f, const int n, const int turns) {
    constexpr int V = kVectorsAtOnce<N, Operands>;
    const int64_t r = blockIdx.x;
    const int step = static_cast<int>(blockDim.x) * N;
    const auto at = operands.row(r);
    const auto row = operands.start(f, r);
    int first = (static_cast<int>(blockIdx.y) * turns * V * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * N;
    for (int turn = 0; turn < turns; ++turn, first += V * step) {
        const RowTile<N, V> where{first, step, n};
        typename F::Held held[N * V];
        operands.template hold<N, V>(f, at, row, where, held);
        operands.template map<N, V>(f, at, row, typename F::Part{}, where, held);
    }
}

template <int N, class F, class Operands>
Status launch_by_numbers(const Launch& launch, const NumberGrid& grid, const F& f, const Operands& operands) {
    const dim3 blocks(static_cast<unsigned>(grid.rows), static_cast<unsigned>(grid.parts));
    return launch_kernel(launch, Grid{blocks, dim3(static_cast<unsigned>(grid.threads))}, map_by_numbers_kernel<N, F, Operands>,
                         operands, f, grid.n, grid.turns);
}

}  // namespace bk
