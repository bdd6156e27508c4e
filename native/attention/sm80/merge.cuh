// SPDX-License-Identifier: Apache-2.0
// Merges the partial results of rows whose keys were split: y = sum of 2^(l_s - l) y_s with l = log2 of the sum of 2^l_s,
// in the order of the splits. A warp takes a row; splits without a visible key are not read.
#pragma once

#include <cstdint>

#include "attention/sm80/rows.cuh"

namespace bk::sm80 {

template <class T>
struct MergeMma {
    Lengths lengths;
    int64_t heads, rows;  // rows = batch * heads * q_len
    int d_v;
    const float* sinks;
    HeadsView<T> y;
    LseView lse;
    Partials partials;
};

constexpr int kMergeThreads = 128;

template <class T>
__global__ void __launch_bounds__(kMergeThreads) attention_merge_kernel(const __grid_constant__ MergeMma<T> g) {
    const int lane = static_cast<int>(threadIdx.x) % 32, splits = g.partials.splits;
    const int64_t row = int64_t{blockIdx.x} * (kMergeThreads / 32) + threadIdx.x / 32;
    if (row >= g.rows) return;
    const int64_t i = row % g.lengths.q_len, b = row / g.lengths.q_len / g.heads, h = row / g.lengths.q_len % g.heads;
    const Sequence s = sequence_of(g.lengths, b);
    if (i >= s.q_len) return;
    const float* const log2_sum = g.partials.log2_sum + row * splits;
    RowState state{-kInfinity<float>, 0};
    for (int part = 0; part < splits; ++part) state.max = fmaxf(state.max, log2_sum[part]);
    const float base = state.max == -kInfinity<float> ? 0.0f : state.max;
    for (int part = 0; part < splits; ++part) state.sum += math::half::exp2(log2_sum[part] - base);
    float factor = 1;
    if (g.sinks != nullptr) factor = state.add_sink(g.sinks[h]);
    const bool is_empty = state.is_empty();
    factor = is_empty ? 0 : factor / state.sum;
    T* const y = g.y.at(b, h, s.q_begin + i);
    for (int x = lane; x < g.d_v; x += 32) {
        float sum = 0;
#pragma unroll 4
        for (int part = 0; part < splits; ++part) {
            const float weight = math::half::exp2(log2_sum[part] - base);
            if (weight != 0) sum += weight * g.partials.output[(row * splits + part) * g.d_v + x];
        }
        y[x] = narrow<T>(is_empty ? 0 : sum * factor);
    }
    if (lane == 0) store_lse<T>(g.lse, b, h, s.q_begin + i, state.log2_sum(), is_empty);
}

template <class T>
Status merge_splits(const Launch& launch, const MergeMma<T>& g) {
    return launch_kernel(launch,
                         {dim3(static_cast<unsigned>(ceil_div<int64_t>(g.rows, kMergeThreads / 32))), dim3(kMergeThreads)},
                         attention_merge_kernel<T>, g);
}

}  // namespace bk::sm80
