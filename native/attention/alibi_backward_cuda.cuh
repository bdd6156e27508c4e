// SPDX-License-Identifier: Apache-2.0
// Several blocks copy a head's scores and sum their share of dslope. Partials are combined in a workspace by a second
// kernel, in distributed shared memory of a thread-block cluster (sm_90), or one block per head does all.
//
// The reduction engine combines the partials and sets their number. The walk is written here: one division per vector
// yields i and j, while the engine's walk would need three, too many instructions for a memory-bound kernel.
#pragma once

#include <algorithm>

#include "attention/alibi_backward.h"
#include "core/collectives/combine_cluster.cuh"
#include "core/math/fastdiv.h"
#include "core/reduce/combine.cuh"
#include "core/reduce/sums.h"
#include "core/types/vec.h"

namespace bk {

constexpr int kSlopeThreads = 512;
constexpr unsigned kSlopeCluster = 8;

// f64 for any dtype, since a head has millions of summands.
using SlopeSum = PlainSum<double>;

// Vectors of one head: `per_plane` in each of `total / per_plane` batches.
template <class Index>
struct SlopeWalk {
    FastDiv<Index> per_plane, per_row;  // per_row: elements of a row
    int64_t total, plane_elements, head_step;
    int32_t k_len;
};

// Copies vectors first, first + step, ... below `last` of head blockIdx.y, unless da is null; returns the thread's
// partial of dslope.
template <int N, int kUnroll, class T, class Index>
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
            if (da != nullptr) store<N>(da + offset[u], value[u]);
            const auto at = walk.per_row(in_plane[u]);
            const int32_t j = static_cast<int32_t>(at.remainder), start = j - static_cast<int32_t>(at.quotient);
            const int32_t remaining = walk.k_len - j;  // in the row; j + lane could pass 2^31
#pragma unroll
            for (int lane = 0; lane < N; ++lane) {
                int32_t distance;
                if (lane < remaining) {
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

// Block x takes every gridDim.x-th segment of the head's vectors; its first thread returns the partial sum.
template <int N, int kUnroll, class T, class Index>
BK_DEVICE SlopeSum::Acc slope_of_block(const T* dy, T* da, const SlopeWalk<Index>& walk) {
    const compute_t<T> own_sum = copy_and_weigh<N, kUnroll>(dy, da, walk, int64_t{blockIdx.x} * kSlopeThreads + threadIdx.x,
                                                            walk.total, int64_t{gridDim.x} * kSlopeThreads);
    return combine_adjacent(SlopeSum{}, SlopeSum::Acc{static_cast<double>(own_sum), 0}, kSlopeThreads, threadIdx.x);
}

template <int N, class T, class Index>
__global__ void __launch_bounds__(kSlopeThreads)
    slope_partials_kernel(const T* dy, T* da, SlopeWalk<Index> walk, SlopeSum::Acc* partials) {
    const SlopeSum::Acc sum = slope_of_block<N, 4>(dy, da, walk);
    if (threadIdx.x == 0) partials[int64_t{blockIdx.x} * gridDim.y + blockIdx.y] = sum;
}

// The grid's x dimension is one cluster.
template <int N, class T, class Index>
__global__ void __launch_bounds__(kSlopeThreads) slope_cluster_kernel(const T* dy, T* da, SlopeWalk<Index> walk, T* dslope) {
    const SlopeSum::Acc sum = combine_cluster(SlopeSum{}, slope_of_block<N, 8>(dy, da, walk));
    if (blockIdx.x == 0 && threadIdx.x == 0) dslope[blockIdx.y] = narrow<T>(sum.sum);
}

// Partials per head with a workspace; depends on the shape alone, so that results do.
template <class T>
int64_t slope_splits(const ScoreShape& s) {
    const int64_t elements = s.count() / s.heads;
    return reduce_splits(s.heads, kReduceBlocks<Outputs<>>, elements * static_cast<int64_t>(sizeof(T)),
                         elements / (kReduceUnroll * kSlopeThreads));
}

template <class T>
size_t alibi_backward_workspace(const ScoreShape& s) {
    Carver carver;
    if (slope_splits<T>(s) > 1) carver.take<SlopeSum::Acc>(s.heads * slope_splits<T>(s));
    return carver.bytes();
}

template <int N, class T, class Index>
Status launch_slopes(const Launch& launch, const ScoreShape& s, const T* dy, T* da, T* dslope, SlopeSum::Acc* partials) {
    const int64_t plane = int64_t{s.q_len} * s.k_len;
    const SlopeWalk<Index> walk{
        FastDiv<Index>(plane / N), FastDiv<Index>(s.k_len), s.batch * (plane / N), plane, s.heads * plane, s.k_len};
    const unsigned heads = static_cast<unsigned>(s.heads);
    if (partials != nullptr) {
        const int64_t splits = slope_splits<T>(s);
        BK_TRY(launch_kernel(launch, Grid{dim3(static_cast<unsigned>(splits), heads), dim3(kSlopeThreads)},
                             slope_partials_kernel<N, T, Index>, dy, da, walk, partials));
        Layout<1> results;
        results.append(s.heads, {1});
        return combine_splits(launch, SlopeSum{}, outputs(dslope), partials, results, splits, s.count() / s.heads);
    }
    const unsigned cluster = device_arch() >= 90 && walk.total > 4 * kSlopeThreads ? kSlopeCluster : 1;
    return launch_kernel(launch, Grid{dim3(cluster, heads), dim3(kSlopeThreads), cluster}, slope_cluster_kernel<N, T, Index>,
                         dy, da, walk, dslope);
}

template <int N, class T>
Status dispatch_slopes(const Launch& launch, const ScoreShape& s, const T* dy, T* da, T* dslope, SlopeSum::Acc* partials) {
    return s.count() < int64_t{1} << 31 ? launch_slopes<N, T, uint32_t>(launch, s, dy, da, dslope, partials)
                                        : launch_slopes<N, T, uint64_t>(launch, s, dy, da, dslope, partials);
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
    const bool has_workspace = workspace_holds(launch, alibi_backward_workspace<T>(s));
    Carver carver(has_workspace ? launch.workspace : nullptr);
    SlopeSum::Acc* const partials = has_workspace ? carver.take<SlopeSum::Acc>(s.heads * slope_splits<T>(s)) : nullptr;
    T* const copy = da == dy ? nullptr : da;
    constexpr int N = kVectorLanes<T>;
    const bool wide = int64_t{s.q_len} * s.k_len % N == 0 && is_aligned(dy, kVectorBytes) &&
                      (copy == nullptr || is_aligned(copy, kVectorBytes));
    return wide ? dispatch_slopes<N>(launch, s, dy, copy, dslope, partials)
                : dispatch_slopes<1>(launch, s, dy, copy, dslope, partials);
}

}  // namespace bk
