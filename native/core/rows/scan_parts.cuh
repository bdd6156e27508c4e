// Few long rows without a workspace, in three launches: blocks join the terms of a part of a row each, and leave what it comes
// to in the place of the part's own first results; a block a row turns that into what comes before each part; and blocks scan
// the parts from there on. Where an output lies over an input its places are not free: one block takes all parts of a row
// then, and joins in the same order, so that the results are the same bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/abi/launch.h"
#include "core/platform.h"
#include "core/rows/scan_terms.cuh"

namespace bk {

constexpr int kPartThreads = 256;
constexpr int64_t kPartTiles = 4;        // of a part, at least
constexpr int64_t kTilesWithParts = 16;  // of a row that is worth three launches, at least
constexpr int64_t kPartTerms = 16;       // of the last part, at least: what any state takes in elements of a byte
constexpr int kMostScanParts = 1056;     // of all rows of a scan

// Sets the parts of rows of which `row_blocks` blocks take one, or one for each lane, in tiles of `tile` terms.
template <int Operands>
void plan_parts(int64_t row_blocks, int64_t tile, ScanGrid<Operands>* grid) {
    const int64_t tiles = ceil_div(grid->length, tile);
    if (tiles < kTilesWithParts || 2 * row_blocks > kMostScanParts) return;
    grid->part = std::max(kPartTiles, ceil_div(tiles, kMostScanParts / row_blocks)) * tile;
    grid->parts = static_cast<int>(ceil_div(grid->length, grid->part));
    if (grid->length - (grid->parts - 1) * grid->part < kPartTerms) --grid->parts;
}

// The state is cut into elements of the output.
template <class State, class T>
constexpr int kParkedElements = ceil_div<int>(sizeof(State), sizeof(T));

template <class State, class T>
BK_DEVICE void park(T* first, int64_t step, const State& state) {
    T piece[kParkedElements<State, T>] = {};
    memcpy(static_cast<void*>(piece), &state, sizeof(State));
#pragma unroll
    for (int i = 0; i < kParkedElements<State, T>; ++i) first[i * step] = piece[i];
}

template <class State, class T>
BK_DEVICE State parked(const T* first, int64_t step) {
    T piece[kParkedElements<State, T>];
#pragma unroll
    for (int i = 0; i < kParkedElements<State, T>; ++i) piece[i] = first[i * step];
    State state;
    memcpy(&state, static_cast<const void*>(piece), sizeof(State));
    return state;
}

// Of each part but the last, what it comes to is there; what comes before each but the first takes its place.
template <class S, class T, int Operands>
__global__ void __launch_bounds__(kPartThreads)
    join_parts_kernel(S scan, T* out, const __grid_constant__ ScanGrid<Operands> grid) {
    using State = typename S::State;
    __shared__ State before[kMostScanParts];
    int64_t offset[Operands] = {};
    grid.row(blockIdx.x, offset);
    T* const row = out + offset[0];
    const int64_t apart = grid.part * grid.step[0];
    const int joints = grid.parts - 1;
    for (int p = threadIdx.x; p < joints; p += kPartThreads) before[p] = parked<State>(row + p * apart, grid.step[0]);
    __syncthreads();
    if (threadIdx.x == 0) {
        State all = scan.identity();
#pragma unroll 4
        for (int p = 0; p < joints; ++p) before[p] = all = scan.join(all, before[p]);
    }
    __syncthreads();
    for (int p = threadIdx.x; p < joints; p += kPartThreads) park(row + (p + 1) * apart, grid.step[0], before[p]);
}

}  // namespace bk
