// SPDX-License-Identifier: Apache-2.0
// Reduce-then-scan of few long rows without a workspace, in three launches: each block reduces one split of a row and
// stores the aggregate over the split's own first outputs; one block a row scans the aggregates; blocks then scan their
// splits. If an output aliases an input, those outputs are not free: one block takes all splits of a row and combines
// in the same order, so that the bits are the same.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/abi/launch.h"
#include "core/platform.h"
#include "core/scan/scan_common.cuh"

namespace bk {

constexpr int kSplitThreads = 256;
constexpr int64_t kMinSplitTiles = 4;
constexpr int64_t kMinTilesToSplit = 16;  // in a row that is worth three launches
constexpr int64_t kMinLastSplit = 16;     // elements; any state fits into that many one-byte outputs
constexpr int kMaxScanSplits = 1056;      // over all rows

// Plans the splits of rows in tiles of `tile` elements; `row_blocks` blocks cover all rows once.
template <int Operands>
void plan_splits(int64_t row_blocks, int64_t tile, ScanGrid<Operands>* grid) {
    const int64_t tiles = ceil_div(grid->length, tile);
    if (tiles < kMinTilesToSplit || 2 * row_blocks > kMaxScanSplits) return;
    grid->split_length = std::max(kMinSplitTiles, ceil_div(tiles, kMaxScanSplits / row_blocks)) * tile;
    grid->splits = static_cast<int>(ceil_div(grid->length, grid->split_length));
    if (grid->length - (grid->splits - 1) * grid->split_length < kMinLastSplit) --grid->splits;
}

// Output elements that hold one state.
template <class State, class T>
constexpr int kStateElements = ceil_div<int>(sizeof(State), sizeof(T));

template <class State, class T>
BK_DEVICE void store_state(T* first, int64_t step, const State& state) {
    T words[kStateElements<State, T>] = {};
    memcpy(static_cast<void*>(words), &state, sizeof(State));
#pragma unroll
    for (int i = 0; i < kStateElements<State, T>; ++i) first[i * step] = words[i];
}

template <class State, class T>
BK_DEVICE State load_state(const T* first, int64_t step) {
    T words[kStateElements<State, T>];
#pragma unroll
    for (int i = 0; i < kStateElements<State, T>; ++i) words[i] = first[i * step];
    State state;
    memcpy(&state, static_cast<const void*>(words), sizeof(State));
    return state;
}

// In: the aggregate of each split but the last. Out: the exclusive prefix of each split but the first.
template <class S, class T, int Operands>
__global__ void __launch_bounds__(kSplitThreads)
    scan_splits_kernel(S scan, T* out, const __grid_constant__ ScanGrid<Operands> grid) {
    using State = typename S::State;
    __shared__ State prefix[kMaxScanSplits];
    int64_t offset[Operands] = {};
    grid.row(blockIdx.x, offset);
    T* const row = out + offset[0];
    const int64_t split_stride = grid.split_length * grid.step[0];
    const int boundaries = grid.splits - 1;
    for (int p = threadIdx.x; p < boundaries; p += kSplitThreads)
        prefix[p] = load_state<State>(row + p * split_stride, grid.step[0]);
    __syncthreads();
    if (threadIdx.x == 0) {
        State all = scan.identity();
#pragma unroll 4
        for (int p = 0; p < boundaries; ++p) prefix[p] = all = scan.combine(all, prefix[p]);
    }
    __syncthreads();
    for (int p = threadIdx.x; p < boundaries; p += kSplitThreads)
        store_state(row + (p + 1) * split_stride, grid.step[0], prefix[p]);
}

}  // namespace bk
