// SPDX-License-Identifier: Apache-2.0
// Merges the partial results of rows whose keys were split: y = sum of 2^(l_s - l) y_s with l = log2 of the sum of 2^l_s.
//
// A block takes a row. Its warps take every fourth split and their sums are added in order, so that splits without a
// visible key, which are not read, do not change the bits.
#pragma once

#include <cstdint>

#include "attention/sm80/softmax.cuh"
#include "core/abi/launch.h"
#include "core/intrinsics/dependent_launch.cuh"

namespace bk::sm80 {

template <class T>
struct MergeMma {
    Lengths lengths;
    int heads, group, tiles, tile_rows;  // heads of a batch; heads, tiles and rows as the kernel before had them
    int d_v;
    const float* sinks;
    HeadsView<T> y;
    LseView lse;
    Partials partials;
};

constexpr int kMergeWarps = 4, kMergeThreads = 32 * kMergeWarps, kMergeColumns = 256, kMergeLoads = 4;

template <class T>
__global__ void __launch_bounds__(kMergeThreads) attention_merge_kernel(const __grid_constant__ MergeMma<T> g) {
    __shared__ float sums[kMergeWarps][kMergeColumns];
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32, splits = g.partials.splits;
    const int64_t item = g.partials.first_item + blockIdx.x / static_cast<unsigned>(g.partials.rows);
    const int r = static_cast<int>(blockIdx.x % static_cast<unsigned>(g.partials.rows)), set = static_cast<int>(item / g.tiles),
              row = static_cast<int>(item % g.tiles) * g.tile_rows + r;
    const int sets_of_batch = g.heads / g.group, b = set / sets_of_batch;
    const Sequence s = sequence_of(g.lengths, b);
    const QueryRows queries{b, set % sets_of_batch * g.group, g.group, static_cast<int>(s.q_len) * g.group,
                            static_cast<int>(s.q_begin)};
    wait_for_previous_kernel();  // in every block: what comes behind this kernel waits for it alone
    if (row >= queries.rows) return;
    const int64_t part0 = g.partials.index(item, r);
    const int i = queries.query(row), h = queries.head_of(row);
    const float* const log2_sum = g.partials.log2_sum + part0;
    RowState state{-kInfinity<float>, 0};
    for (int part = lane; part < splits; part += 32) state.max = fmaxf(state.max, log2_sum[part]);
    for (int distance = 16; distance > 0; distance /= 2)
        state.max = fmaxf(state.max, __shfl_xor_sync(kAllLanes, state.max, distance));
    const float base = state.max == -kInfinity<float> ? 0.0f : state.max;
    for (int part = lane; part < splits; part += 32) state.sum += math::half::exp2(log2_sum[part] - base);
    for (int distance = 16; distance > 0; distance /= 2) state.sum += __shfl_xor_sync(kAllLanes, state.sum, distance);
    float factor = 1;
    if (g.sinks != nullptr) factor = state.add_sink(g.sinks[h]);
    const bool is_empty = state.is_empty();
    T* const y = g.y.at(b, h, s.q_begin + i);
    if (thread == 0) store_lse<T>(g.lse, b, h, s.q_begin + i, state.log2_sum(), is_empty);
#pragma unroll 1
    for (int column = 0; column < g.d_v; column += kMergeColumns) {
        const int width = min(g.d_v - column, kMergeColumns);
        float own[kMergeColumns / 32] = {};
        const float* const output = g.partials.output + part0 * g.d_v + column;
        if (column > 0) __syncthreads();
#pragma unroll 1
        for (int first = warp; first < splits; first += kMergeWarps * kMergeLoads) {
            float weight[kMergeLoads], value[kMergeLoads][kMergeColumns / 32];
#pragma unroll
            for (int u = 0; u < kMergeLoads; ++u) {
                const int part = first + u * kMergeWarps;
                weight[u] = part < splits ? math::half::exp2(log2_sum[part] - base) : 0.0f;
#pragma unroll
                for (int c = 0; c < kMergeColumns / 32; ++c) {
                    const bool is_there = weight[u] != 0 && lane + 32 * c < width;
                    value[u][c] = is_there ? output[int64_t{part} * g.d_v + lane + 32 * c] : 0.0f;
                }
            }
#pragma unroll
            for (int u = 0; u < kMergeLoads; ++u)
#pragma unroll
                for (int c = 0; c < kMergeColumns / 32; ++c) own[c] += weight[u] * value[u][c];
        }
#pragma unroll
        for (int c = 0; c < kMergeColumns / 32; ++c) sums[warp][lane + 32 * c] = own[c];
        __syncthreads();
        for (int x = thread; x < width; x += kMergeThreads) {
            const float sum = ((sums[0][x] + sums[1][x]) + sums[2][x]) + sums[3][x];
            y[column + x] = narrow<T>(is_empty ? 0 : sum * (factor / state.sum));
        }
    }
}

// `items` row tiles of `tile_rows` rows, `tiles` of them for each set of `group` heads.
template <class T, class KV>
Status merge_splits(const Launch& launch, const AttentionForward<T, KV>& p, int group, int tiles, int tile_rows, int64_t items,
                    const Partials& partials) {
    const MergeMma<T> g{
        p.lengths, static_cast<int>(p.heads), group, tiles, tile_rows, static_cast<int>(p.d_v), p.rules.sinks, p.y, p.lse,
        partials};
    Grid grid{dim3(static_cast<unsigned>(items * partials.rows)), dim3(kMergeThreads)};
    grid.overlaps = has_dependent_launch();
    return launch_kernel(launch, grid, attention_merge_kernel<T>, g);
}

}  // namespace bk::sm80
