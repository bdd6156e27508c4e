// SPDX-License-Identifier: Apache-2.0
// A thread loads vectors of 16 bytes of y that contain all summands of their results.
#pragma once

#include <cstdint>

#include "core/copy/repeat_interleave.cuh"
#include "core/reduce/repeated_sums.h"
#include "core/types/convert.h"
#include "core/types/vec.h"

namespace bk {

template <int Repeats, class T>
BK_DEVICE void sum_vectors(const RepeatedElements& plan, const T* y, T* x) {
    constexpr int N = kVectorLanes<T>, kResults = N / Repeats;
    const uint32_t first = blockIdx.x * (kRepeatThreads * kRepeatUnroll) + threadIdx.x;
    Vec<T, N> summands[kRepeatUnroll];
#pragma unroll
    for (int u = 0; u < kRepeatUnroll; ++u) {
        if (first + u * kRepeatThreads >= plan.vectors) break;
        const RepeatedVector<N> vector(plan, first + u * kRepeatThreads);
        summands[u] = {};
        if (vector.elements == N) summands[u] = load<N>(y + vector.y);
        if (vector.elements == N) continue;
#pragma unroll
        for (uint32_t lane = 0; lane < N; ++lane)
            if (lane < vector.elements) summands[u].lane[lane] = y[vector.y + lane];
    }
#pragma unroll
    for (int u = 0; u < kRepeatUnroll; ++u) {
        if (first + u * kRepeatThreads >= plan.vectors) break;
        const RepeatedVector<N> vector(plan, first + u * kRepeatThreads);
        Vec<T, kResults> sums;
#pragma unroll
        for (int k = 0; k < kResults; ++k) {
            compute_t<T> sum = 0;
#pragma unroll
            for (int j = 0; j < Repeats; ++j) sum += widen_lane(summands[u], k * Repeats + j);
            sums.lane[k] = narrow<T>(sum);
        }
        if (vector.elements == N) {
            store<kResults>(x + vector.x, sums);
            continue;
        }
#pragma unroll
        for (uint32_t k = 0; k < kResults; ++k)
            if (k * Repeats < vector.elements) x[vector.x + k] = sums.lane[k];
    }
}

template <class T>
__global__ void __launch_bounds__(kRepeatThreads, 5)
    sum_repeated_kernel(const __grid_constant__ RepeatedElements plan, const T* y, T* x) {
    constexpr int N = kVectorLanes<T>;
    if (plan.repeats.divisor() == 2) return sum_vectors<2>(plan, y, x);
    if constexpr (N >= 4)
        if (plan.repeats.divisor() == 4) return sum_vectors<4>(plan, y, x);
    if constexpr (N >= 8) sum_vectors<8>(plan, y, x);
}

template <class T>
Status sum_repeated(const Launch& launch, const CopyLayout& layout, const T* y, T* x, bool* is_done) {
    RepeatedElements plan;
    *is_done = RepeatedElements::of(layout, sizeof(T), x, y, &plan) && plan.whole_loads;
    if (!*is_done) return Status::kOk;
    const unsigned blocks = ceil_div<unsigned>(plan.vectors, kRepeatThreads * kRepeatUnroll);
    return launch_kernel(launch, Grid{dim3(blocks), dim3(kRepeatThreads)}, sum_repeated_kernel<T>, plan, y, x);
}

}  // namespace bk
