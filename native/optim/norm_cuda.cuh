// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "optim/block_sum.cuh"
#include "optim/lanes.cuh"
#include "optim/norm.h"

namespace bk::optim {

// Squares of 16-bit and f32 gradients in f32, four at a time, as long as none of the sums overflows or loses digits.
template <class C, int N>
BK_DEVICE double sum_of_lanes(const NormKind& kind, const C (&g)[N]) {
    if (std::is_same_v<C, float> && kind.q == 2 && !kind.is_largest) {
        float squares = 0;
#pragma unroll
        for (int l = 0; l < N; ++l) squares += static_cast<float>(g[l]) * static_cast<float>(g[l]);
        if (squares > 1e-30f && squares < 3e38f) return static_cast<double>(squares);
    }
    double sum = 0;
#pragma unroll
    for (int l = 0; l < N; ++l) sum = kind.combine(sum, kind.of(math::fabs<double>(static_cast<double>(g[l]))));
    return sum;
}

template <class T>
__global__ void __launch_bounds__(kReduceThreads) norm_of_chunks(const __grid_constant__ NormProblem problem) {
    using C = compute_t<T>;
    constexpr int N = sizeof(T) == 8 ? 2 : sizeof(T) == 4 ? 4 : 8;
    const Slot slot = problem.table.at(blockIdx.x);
    const NormKind kind = problem.kind;
    const T* const grad = static_cast<const T*>(slot.grad);
    double sum = 0;
    if (grad != nullptr) {
        const bool aligned = reinterpret_cast<uintptr_t>(grad) % kVectorBytes == 0;
        const int64_t end = slot.end();
        for (int64_t i = slot.begin() + threadIdx.x * N; i < end; i += kReduceThreads * N) {
            const int64_t left = end - i;
            const int count = left >= N ? N : static_cast<int>(left);
            C g[N];
            Lanes{i, count, aligned && count == N}.read<N>(grad, g);
            sum = kind.combine(sum, sum_of_lanes(kind, g));
        }
    }
    sum = combine_block(sum, [&](double a, double b) { return kind.combine(a, b); });
    if (threadIdx.x == 0) problem.partials[blockIdx.x] = sum;
}

template <class C>
__global__ void __launch_bounds__(kReduceThreads) norm_of_partials(const __grid_constant__ NormProblem problem) {
    const NormKind kind = problem.kind;
    double sum = 0;
    for (int64_t chunk = threadIdx.x; chunk < problem.table.chunks; chunk += kReduceThreads)
        sum = kind.combine(sum, problem.partials[chunk]);
    sum = combine_block(sum, [&](double a, double b) { return kind.combine(a, b); });
    if (threadIdx.x == 0) finish_norm<C>(problem, sum);
}

template <class T>
Status run_norm(const Launch& launch, const NormProblem& problem) {
    const Grid chunks{dim3(static_cast<unsigned>(problem.table.chunks)), dim3(kReduceThreads)};
    if (problem.table.chunks > 0) BK_TRY(launch_kernel(launch, chunks, norm_of_chunks<T>, problem));
    return launch_kernel(launch, Grid{dim3(1), dim3(kReduceThreads)}, norm_of_partials<compute_t<T>>, problem);
}

}  // namespace bk::optim
