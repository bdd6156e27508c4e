// SPDX-License-Identifier: Apache-2.0
// GPU row gather: a thread a 16-byte vector of the output, so that the writes, which dominate, are coalesced.
#pragma once

#include <cstdint>

#include "core/gather/gather_rows.h"
#include "core/math/fastdiv.h"
#include "core/types/vec.h"

namespace bk {

constexpr int kGatherThreads = 256;

template <int N, int Unroll, class T, class I, class Index>
__global__ void __launch_bounds__(kGatherThreads)
    gather_rows_kernel(const T* x, const I* index, T* y, FastDiv<Index> vectors_per_row, int64_t num_vectors,
                       GatherShape shape) {
    const int64_t columns = static_cast<int64_t>(vectors_per_row.divisor()) * N;
    const int64_t first = int64_t{blockIdx.x} * (kGatherThreads * Unroll) + threadIdx.x;
    int64_t source[Unroll], offset[Unroll];
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
        const int64_t vector = first + u * kGatherThreads;
        const auto at = vectors_per_row(static_cast<Index>(vector));
        source[u] = vector < num_vectors ? static_cast<int64_t>(index[at.quotient]) : -1;
        offset[u] = static_cast<int64_t>(at.remainder) * N;
    }
    Vec<T, N> value[Unroll] = {};
#pragma unroll
    for (int u = 0; u < Unroll; ++u)
        if (shape.keeps(source[u])) value[u] = load<N>(x + source[u] * columns + offset[u]);
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
        const int64_t vector = first + u * kGatherThreads;
        if (vector < num_vectors) store_once<N>(y + vector * N, value[u]);
    }
}

template <int N, class T, class I>
Status launch_gather(const Launch& launch, const GatherShape& shape, const T* x, const I* index, T* y) {
    constexpr int unroll = 4;
    const int64_t per_row = shape.columns / N, num_vectors = shape.rows * per_row;
    const int64_t blocks = ceil_div<int64_t>(num_vectors, kGatherThreads * unroll);
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld elements are too many for one launch", (long long)(num_vectors * N));
    const Grid grid{dim3(static_cast<unsigned>(blocks)), dim3(kGatherThreads)};
    if (num_vectors + kGatherThreads * unroll < int64_t{1} << 31)
        return launch_kernel(launch, grid, gather_rows_kernel<N, unroll, T, I, uint32_t>, x, index, y,
                             FastDiv<uint32_t>(per_row), num_vectors, shape);
    return launch_kernel(launch, grid, gather_rows_kernel<N, unroll, T, I, uint64_t>, x, index, y, FastDiv<uint64_t>(per_row),
                         num_vectors, shape);
}

template <class T, class I>
Status gather_rows(const Launch& launch, const GatherShape& shape, const T* x, const I* index, T* y) {
    constexpr int N = kVectorLanes<T>;
    if (shape.columns % N == 0 && is_aligned(x, kVectorBytes) && is_aligned(y, kVectorBytes))
        return launch_gather<N>(launch, shape, x, index, y);
    return launch_gather<1>(launch, shape, x, index, y);
}

}  // namespace bk
