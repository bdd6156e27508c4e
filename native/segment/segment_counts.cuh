// SPDX-License-Identifier: Apache-2.0
// Segment counts on a GPU: in the workspace, or tile by tile in shared memory without one.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/segmented/segment_partials.cuh"
#include "segment/segment_counts.h"

namespace bk {

constexpr int kCountThreads = 256;

// Each range of equal adjacent ids adds its length once, so that a giant segment is no hot spot. Counts start at 0;
// positions are added modulo 2^32.
template <class Ids>
__global__ void count_ids_kernel(Ids ids, uint32_t* counts, int32_t n, int32_t num_segments) {
    const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int32_t id = clamp_id(ids[i], num_segments);
    if (id < 0 || id == num_segments) return;
    const bool begins = i == 0 || clamp_id(ids[i - 1], num_segments) != id;
    const bool ends = i + 1 == n || clamp_id(ids[i + 1], num_segments) != id;
    const uint32_t change = (ends ? static_cast<uint32_t>(i) + 1 : 0) - (begins ? static_cast<uint32_t>(i) : 0);
    if (change != 0) atomicAdd(counts + id, change);
}

inline Status count_ids(const Launch& launch, const SegmentShape& shape, IdArray ids, int32_t* counts) {
    BK_TRY(fill_bytes(launch, counts, 0, sizeof(int32_t) * static_cast<size_t>(shape.num_segments)));
    if (shape.n == 0) return Status::kOk;
    const Grid grid{dim3(static_cast<unsigned>(ceil_div<int64_t>(shape.n, kCountThreads))), dim3(kCountThreads)};
    return launch_kernel(launch, grid, count_ids_kernel<IdArray>, ids, reinterpret_cast<uint32_t*>(counts), shape.n,
                         shape.num_segments);
}

// --- Without memory for counts: a block counts a tile of segments, over all ids --------------------------------------

constexpr int kCountTile = 8192;

inline Grid count_tiles_grid(const SegmentShape& shape) {
    constexpr int64_t kBlocks = 264;
    const int64_t tiles = ceil_div<int64_t>(shape.num_segments, kCountTile);
    const int64_t shares = std::max<int64_t>(1, std::min<int64_t>(kBlocks / tiles, ceil_div<int64_t>(shape.n, 256)));
    return {dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(shares)), dim3(kCountThreads)};
}

// Counts the block's tile of segments into `counts`; returns its first segment.
BK_DEVICE int64_t count_tile(const SegmentShape& shape, IdArray ids, uint32_t* counts) {
    const int64_t first = int64_t{blockIdx.x} * kCountTile;
    for (int i = threadIdx.x; i < kCountTile; i += kCountThreads) counts[i] = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < shape.n; i += kCountThreads) {
        const int64_t id = ids[i];
        if (id >= first && id < first + kCountTile) atomicAdd(counts + (id - first), 1u);
    }
    __syncthreads();
    return first;
}

// Divides the rows of x, one a segment, by their counts in place.
template <class T>
__global__ void __launch_bounds__(kCountThreads) divide_by_tiles_kernel(SegmentShape shape, IdArray ids, T* x) {
    using C = compute_t<T>;
    __shared__ uint32_t counts[kCountTile];
    const int64_t first = count_tile(shape, ids, counts);
    const int64_t last = min(first + kCountTile, int64_t{shape.num_segments});
    for (int64_t s = first + blockIdx.y; s < last; s += gridDim.y) {
        const uint32_t count = counts[s - first];
        if (count <= 1) continue;
        for (int64_t c = threadIdx.x; c < shape.d; c += kCountThreads) {
            T* const cell = x + s * shape.d + c;
            *cell = narrow<T>(widen(*cell) / static_cast<C>(count));
        }
    }
}

// y[i] = x[ids[i]] / count of the segment; zeros if the id is out of range.
template <class T>
__global__ void __launch_bounds__(kCountThreads) gather_by_tiles_kernel(SegmentShape shape, const T* x, IdArray ids, T* y) {
    using C = compute_t<T>;
    __shared__ uint32_t counts[kCountTile];
    const int64_t first = count_tile(shape, ids, counts);
    const int warps = kCountThreads / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int64_t i = int64_t{blockIdx.y} * warps + warp; i < shape.n; i += int64_t{gridDim.y} * warps) {
        const int64_t id = ids[i];
        const bool valid = shape.has(id);
        if (valid ? id < first || id >= first + kCountTile : first != 0) continue;
        const C count = valid ? static_cast<C>(counts[id - first]) : C(1);
        for (int64_t c = lane; c < shape.d; c += 32)
            y[i * shape.d + c] = valid ? narrow<T>(widen(x[id * shape.d + c]) / count) : narrow<T>(C(0));
    }
}

}  // namespace bk
