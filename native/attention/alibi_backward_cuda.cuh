// Blocks share a head's scores, copy them and sum their part of dslope; the parts meet in a workspace and a second kernel,
// or in the shared memory of a thread-block cluster (sm_90), or there is one block a head.
#pragma once

#include <cooperative_groups.h>

#include <algorithm>

#include "attention/alibi_backward.h"
#include "core/math/fastdiv.h"
#include "core/types/vec.h"

namespace bk {

constexpr int kSlopeThreads = 512;
constexpr int64_t kSlopeTargetBlocks = 2048;  // a constant, so that the order of additions is the same on every chip
constexpr unsigned kSlopeCluster = 8;

// Vectors of one head: `per_plane` in each of `total / per_plane` batches.
template <class Index>
struct SlopeWalk {
    FastDiv<Index> per_plane, per_row;  // a row's length in elements
    int64_t total, plane_elements, head_step;
    int32_t k_len;
};

template <class C>
BK_DEVICE double block_sum(C value) {
    __shared__ double partial[32];
    double sum = value;
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0.0;
    if (threadIdx.x < 32)
        for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    return sum;  // in thread 0
}

// Copies vectors first, first + step, ... below last of head blockIdx.y and returns the thread's share of dslope.
template <bool kCopy, int N, int kUnroll, class T, class Index>
BK_DEVICE compute_t<T> copy_and_weigh(const T* dy, T* da, const SlopeWalk<Index>& walk, int64_t first, int64_t last,
                                      int64_t step) {
    using C = compute_t<T>;
    const int64_t head = int64_t{blockIdx.y} * walk.plane_elements;
    C sum = 0;
    for (int64_t v = first; v < last; v += kUnroll * step) {
        Vec<T, N> value[kUnroll];
        int64_t offset[kUnroll];
        Index in_plane[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            if (v + u * step >= last) continue;
            const auto at = walk.per_plane(static_cast<Index>(v + u * step));
            in_plane[u] = at.remainder * N;
            offset[u] = static_cast<int64_t>(at.quotient) * walk.head_step + head + in_plane[u];
            value[u] = load<N>(dy + offset[u]);
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            if (v + u * step >= last) continue;
            if (kCopy) store<N>(da + offset[u], value[u]);
            const auto at = walk.per_row(in_plane[u]);
            const int32_t j = static_cast<int32_t>(at.remainder), start = j - static_cast<int32_t>(at.quotient);
            const int32_t left = walk.k_len - j;  // of the row; j + lane could pass 2^31
#pragma unroll
            for (int lane = 0; lane < N; ++lane) {
                int32_t distance;
                if (lane < left) {
                    distance = start + lane;
                } else {
                    const auto next = walk.per_row(in_plane[u] + lane);
                    distance = static_cast<int32_t>(next.remainder) - static_cast<int32_t>(next.quotient);
                }
                sum += widen(value[u].lane[lane]) * static_cast<C>(distance);
            }
        }
    }
    return sum;
}

// Block x of gridDim.x takes every gridDim.x-th stretch of the head's vectors.
template <bool kCopy, int N, int kUnroll, class T, class Index>
BK_DEVICE double slope_of_block(const T* dy, T* da, const SlopeWalk<Index>& walk) {
    return block_sum(copy_and_weigh<kCopy, N, kUnroll>(dy, da, walk, int64_t{blockIdx.x} * kSlopeThreads + threadIdx.x,
                                                       walk.total, int64_t{gridDim.x} * kSlopeThreads));
}

template <bool kCopy, int N, class T, class Index>
__global__ void __launch_bounds__(kSlopeThreads)
    slope_partials_kernel(const T* dy, T* da, SlopeWalk<Index> walk, double* partials) {
    const double sum = slope_of_block<kCopy, N, 4>(dy, da, walk);
    if (threadIdx.x == 0) partials[int64_t{blockIdx.y} * gridDim.x + blockIdx.x] = sum;
}

template <class T>
__global__ void __launch_bounds__(kSlopeThreads) slope_join_kernel(const double* partials, T* dslope, int32_t count) {
    double sum = 0;
    for (int32_t p = threadIdx.x; p < count; p += kSlopeThreads) sum += partials[int64_t{blockIdx.x} * count + p];
    sum = block_sum(sum);
    if (threadIdx.x == 0) dslope[blockIdx.x] = narrow<T>(static_cast<compute_t<T>>(sum));
}

// gridDim.x is the cluster: its blocks' sums are added by rank.
template <bool kCopy, int N, class T, class Index>
__global__ void __launch_bounds__(kSlopeThreads) slope_cluster_kernel(const T* dy, T* da, SlopeWalk<Index> walk, T* dslope) {
    double sum = slope_of_block<kCopy, N, 8>(dy, da, walk);
#if __CUDA_ARCH__ >= 900
    namespace cg = cooperative_groups;
    __shared__ double mine;
    const cg::cluster_group cluster = cg::this_cluster();
    if (threadIdx.x == 0) mine = sum;
    cluster.sync();
    if (cluster.block_rank() == 0 && threadIdx.x == 0)
        for (unsigned rank = 1; rank < cluster.num_blocks(); ++rank) sum += *cluster.map_shared_rank(&mine, rank);
    cluster.sync();
#endif
    if (blockIdx.x == 0 && threadIdx.x == 0) dslope[blockIdx.y] = narrow<T>(static_cast<compute_t<T>>(sum));
}

// Blocks a head with a workspace; a function of the shape alone.
inline int64_t slope_splits(const ScoreShape& s) {
    const int64_t elements = s.count() / s.heads;
    return std::max<int64_t>(1, std::min(ceil_div(kSlopeTargetBlocks, int64_t{s.heads}), elements / (32 * kSlopeThreads)));
}

template <class T>
size_t alibi_backward_workspace(const ScoreShape& s) {
    Carver carver;
    if (slope_splits(s) > 1) carver.take<double>(s.heads * slope_splits(s));
    return carver.bytes();
}

template <bool kCopy, int N, class T, class Index>
Status launch_slopes(const Launch& launch, const ScoreShape& s, const T* dy, T* da, T* dslope, double* partials) {
    const int64_t plane = int64_t{s.q_len} * s.k_len;
    const SlopeWalk<Index> walk{
        FastDiv<Index>(plane / N), FastDiv<Index>(s.k_len), s.batch * (plane / N), plane, s.heads * plane, s.k_len};
    const unsigned heads = static_cast<unsigned>(s.heads);
    if (partials != nullptr) {
        const unsigned splits = static_cast<unsigned>(slope_splits(s));
        BK_TRY(launch_kernel(launch, Grid{dim3(splits, heads), dim3(kSlopeThreads)}, slope_partials_kernel<kCopy, N, T, Index>,
                             dy, da, walk, partials));
        return launch_kernel(launch, Grid{dim3(heads), dim3(kSlopeThreads)}, slope_join_kernel<T>, partials, dslope,
                             static_cast<int32_t>(splits));
    }
    const unsigned cluster = device_arch() >= 90 && walk.total > 4 * kSlopeThreads ? kSlopeCluster : 1;
    return launch_kernel(launch, Grid{dim3(cluster, heads), dim3(kSlopeThreads), cluster},
                         slope_cluster_kernel<kCopy, N, T, Index>, dy, da, walk, dslope);
}

template <int N, class T>
Status dispatch_slopes(const Launch& launch, const ScoreShape& s, const T* dy, T* da, T* dslope, double* partials) {
    const bool small = s.count() < int64_t{1} << 31;
    if (da != nullptr)
        return small ? launch_slopes<true, N, T, uint32_t>(launch, s, dy, da, dslope, partials)
                     : launch_slopes<true, N, T, uint64_t>(launch, s, dy, da, dslope, partials);
    return small ? launch_slopes<false, N, T, uint32_t>(launch, s, dy, da, dslope, partials)
                 : launch_slopes<false, N, T, uint64_t>(launch, s, dy, da, dslope, partials);
}

template <class T>
Status alibi_backward(const Launch& launch, const ScoreShape& s, const T* dy, T* da, T* dslope) {
    if (dslope == nullptr) {
        if (da == dy) return Status::kOk;
        using Bits = bits_t<T>;
        return pointwise(launch, s.count(), CopyFunctor{}, outputs(reinterpret_cast<Bits*>(da)),
                         inputs(reinterpret_cast<const Bits*>(dy)));
    }
    if (s.heads > kMaxGridY) return fail(Status::kUnsupported, "heads is %d, must be <= %lld", s.heads, (long long)kMaxGridY);
    bool found = false;
    BK_TRY(find_workspace(launch, alibi_backward_workspace<T>(s), &found));
    Carver carver(found ? launch.workspace : nullptr);
    double* const partials = found ? carver.take<double>(s.heads * slope_splits(s)) : nullptr;
    T* const copy = da == dy ? nullptr : da;
    constexpr int N = kVectorLanes<T>;
    const bool wide = int64_t{s.q_len} * s.k_len % N == 0 && is_aligned(dy, kVectorBytes) &&
                      (copy == nullptr || is_aligned(copy, kVectorBytes));
    return wide ? dispatch_slopes<N>(launch, s, dy, copy, dslope, partials)
                : dispatch_slopes<1>(launch, s, dy, copy, dslope, partials);
}

}  // namespace bk
