// SPDX-License-Identifier: Apache-2.0
// Shared by reduction kernels: tuning constants, offsets, and the combination of accumulators of threads and splits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/collectives/shuffle.cuh"
#include "core/layout/layout.h"
#include "core/math/fastdiv.h"
#include "core/pointwise/pointwise.h"
#include "core/reduce/reducer.h"
#include "core/reference_chip.h"

namespace bk {

constexpr int kReduceThreads = 256;
constexpr int kReduceUnroll = 4;  // loads in flight a thread
// Whether broadcast inputs are loaded once a segment of items (reduce_items.cuh), not with each item.
template <class R, class In, class Each>
constexpr bool kHoistsBroadcast = kVaryingInputsOf<R> < In::count && Each::count == 0;
// kReduceUnrollOf: vectors of each input in flight; fewer if items are stored or inputs are broadcast, as both take
// registers. kReduceMinBlocks: resident blocks per SM for __launch_bounds__. Two leave 128 registers a thread; 16-bit
// items with large accumulators need three, since two have too few loads in flight; 0 leaves it to the compiler.
template <int N, bool kHasBroadcast, class Each>
constexpr int kReduceUnrollOf = N == 1                             ? kReduceUnroll
                                : kHasBroadcast || Each::count > 2 ? 2
                                : Each::count > 0                  ? 3
                                                                   : kReduceUnroll;
template <class R, class In, class Each>
constexpr int kReduceMinBlocks = Each::count > 0 || kHoistsBroadcast<R, In, Each>                     ? 2
                                 : In::count == 1 && In::widest == 2 && sizeof(typename R::Acc) >= 16 ? 3
                                                                                                      : 0;
// Blocks that fill a large chip, and bytes that are worth a block: constants, so that the order of additions is the
// same on every chip. 1024 are about eight an SM of an H200; more shorten the last wave of kernels that store.
template <class Each>
constexpr int64_t kReduceBlocks = Each::count > 0 ? 4096 : 1024;
constexpr int kReduceMinThreads = 8;                      // a result with adjacent items
constexpr int64_t kReduceMinVectors = 16;                 // a thread, if there are many results
constexpr int64_t kReduceManyThreads = int64_t{1} << 19;  // more than a large chip holds
constexpr int64_t kReduceBlockBytes = 32768;
constexpr int64_t kReduceMaxSplits = 4096;

// 64-bit division is rare and long: kept out of line.
BK_DEVICE_COLD DivMod<int64_t> divide_long(int64_t n, int64_t divisor) { return {n / divisor, n % divisor}; }

// Maps an index to the offsets of all operands; divides in 32 bits if the values fit.
template <int Operands>
struct ReduceWalk {
    int rank = 0;
    FastDiv<uint32_t> divisor[kMaxRank];
    int64_t extent[kMaxRank] = {};
    int64_t stride[kMaxRank][Operands] = {};

    ReduceWalk() = default;
    explicit ReduceWalk(const Layout<Operands>& layout) : rank(layout.rank) {
        for (int d = 0; d < rank; ++d) {
            const int at = rank - 1 - d;
            extent[at] = layout.extent[d];
            if (extent[at] > 0 && extent[at] < kNarrow) divisor[at] = FastDiv<uint32_t>(extent[at]);
            for (int k = 0; k < Operands; ++k) stride[at][k] = layout.stride[k][d];
        }
    }

    static constexpr int64_t kNarrow = int64_t{1} << 31;

    BK_DEVICE void operator()(int64_t i, int64_t (&offset)[Operands]) const {
        if (rank == 0) return;
#pragma unroll 1
        for (int d = 0; d + 1 < rank; ++d) {
            int64_t coordinate;
            if (i < kNarrow && extent[d] < kNarrow) {
                const DivMod<uint32_t> split = divisor[d](static_cast<uint32_t>(i));
                coordinate = split.remainder;
                i = split.quotient;
            } else {
                const DivMod<int64_t> split = divide_long(i, extent[d]);
                coordinate = split.remainder;
                i = split.quotient;
            }
#pragma unroll
            for (int k = 0; k < Operands; ++k) offset[k] += coordinate * stride[d][k];
        }
#pragma unroll
        for (int k = 0; k < Operands; ++k) offset[k] += i * stride[rank - 1][k];
    }
};

// Combines the accumulators of `result_threads` adjacent threads, a power of two; the thread of rank 0 gets the
// result. Every thread of the block must call it.
template <class R>
BK_DEVICE typename R::Acc combine_adjacent(const R& reducer, typename R::Acc acc, int result_threads, int thread_rank) {
    using Acc = typename R::Acc;
    __shared__ Acc warp_accs[32];
    for (int distance = 1; distance < min(result_threads, 32); distance *= 2) {
        const Acc other = shuffle_xor(acc, distance);
        // Both sides combine in thread order.
        acc = thread_rank & distance ? reducer.combine(other, acc) : reducer.combine(acc, other);
    }
    if (result_threads <= 32) return acc;
    __syncthreads();
    if (threadIdx.x % 32 == 0) warp_accs[threadIdx.x / 32] = acc;
    __syncthreads();
    if (thread_rank == 0)
        for (int warp = 1; warp < result_threads / 32; ++warp) acc = reducer.combine(acc, warp_accs[threadIdx.x / 32 + warp]);
    return acc;
}

// Accumulators a thread exchanges through shared memory at once: 16 KiB a block at most.
template <int N, class Acc>
constexpr int kLanesPerExchange = [] {
    int lanes = 1;
    while (2 * lanes <= N && 2 * lanes * kReduceThreads * sizeof(Acc) <= 16384) lanes *= 2;
    return lanes;
}();

// Combines the accumulators of `result_threads` threads that share N results and are `block_results` apart; the
// threads of rank 0 get the results. Warps shuffle, then one thread a result combines the warps.
template <int N, class R>
BK_DEVICE void combine_strided(const R& reducer, typename R::Acc (&acc)[N], int result_threads, int block_results,
                               int thread_rank) {
    using Acc = typename R::Acc;
    constexpr int kExchanged = kLanesPerExchange<N, Acc>;
    __shared__ Acc shared[kExchanged][kReduceThreads];
    if (result_threads == 1) return;
#pragma unroll 1
    for (int distance = block_results; distance < 32; distance *= 2)
#pragma unroll
        for (int lane = 0; lane < N; ++lane) {
            const Acc other = shuffle_xor(acc[lane], distance);
            acc[lane] = threadIdx.x & distance ? reducer.combine(other, acc[lane]) : reducer.combine(acc[lane], other);
        }
    const int apart = max(block_results, 32), partials = kReduceThreads / apart;
    const int thread = static_cast<int>(threadIdx.x), slot = thread % block_results, partial = thread / apart;
#pragma unroll
    for (int first = 0; first < N; first += kExchanged) {
        __syncthreads();
        if (thread % apart < block_results)
#pragma unroll
            for (int i = 0; i < kExchanged; ++i) shared[i][partial * block_results + slot] = acc[first + i];
        __syncthreads();
        for (int i = thread; i < kExchanged * block_results; i += kReduceThreads) {
            Acc* const result_accs = shared[i / block_results] + i % block_results;
            Acc all = result_accs[0];
            for (int l = 1; l < partials; ++l) all = reducer.combine(all, result_accs[l * block_results]);
            result_accs[0] = all;
        }
        __syncthreads();
        if (thread_rank == 0)
#pragma unroll
            for (int i = 0; i < kExchanged; ++i) acc[first + i] = shared[i][slot];
    }
}

// Combines the partials of each result; `result_threads` threads, a power of two, share one.
template <class R, class Out>
__global__ void __launch_bounds__(kReduceThreads)
    combine_partials_kernel(R reducer, Out out, const typename R::Acc* partials, ReduceWalk<Out::count> kept, int64_t results,
                            int64_t splits, int64_t count, int result_threads) {
    using Acc = typename R::Acc;
    const int block_results = kReduceThreads / result_threads, thread_rank = threadIdx.x / block_results;
    const int64_t i = int64_t{blockIdx.x} * block_results + threadIdx.x % block_results;
    Acc acc = reducer.identity();
    if (i < results)
        for (int64_t split = thread_rank; split < splits; split += kReduceUnroll * result_threads) {
            Acc partial[kReduceUnroll];
#pragma unroll
            for (int u = 0; u < kReduceUnroll; ++u)
                if (split + u * result_threads < splits) partial[u] = partials[(split + u * result_threads) * results + i];
#pragma unroll
            for (int u = 0; u < kReduceUnroll; ++u)
                if (split + u * result_threads < splits)
                    acc = u == 0 && split == thread_rank ? partial[u] : reducer.combine(acc, partial[u]);
        }
    Acc all[1] = {acc};
    combine_strided<1>(reducer, all, result_threads, block_results, thread_rank);
    if (thread_rank != 0 || i >= results) return;
    int64_t offset[Out::count] = {};
    kept(i, offset);
    store_result(reducer, out.pointer, offset, all[0], count, 0);
}

inline int power_of_two_for(int64_t n, int most) {
    int p = 1;
    while (p < most && p < n) p *= 2;
    return p;
}

// Fewest splits with which `blocks` fill whole waves, to 80 %. A wave is kReferenceSms with `resident` blocks
// each, a constant for the same reason as kReduceBlocks.
inline int64_t splits_for_waves(int64_t blocks, int resident) {
    constexpr int kMaxWaves = 3;
    int64_t splits = 1;
    for (int waves = 1; waves <= kMaxWaves; ++waves) {
        const int64_t capacity = kReferenceSms * resident * waves;
        splits = capacity / blocks;
        if (5 * splits * blocks >= 4 * capacity) break;
    }
    return splits;
}

// Splits of each result for so many unsplit blocks, which read `bytes` each, in `rounds` steps a thread. A quarter of
// max_blocks keeps memory busy, so that a split would only add a launch. If `resident` is known, blocks fill whole
// waves, since later ones start late.
inline int64_t reduce_splits(int64_t blocks, int64_t max_blocks, int64_t bytes, int64_t rounds, int resident = 0) {
    if (4 * blocks >= max_blocks) return 1;
    blocks = std::max<int64_t>(blocks, 1);
    const int64_t splits = resident > 0 ? splits_for_waves(blocks, resident) : max_blocks / blocks;
    return std::max<int64_t>(1, std::min({splits, bytes / kReduceBlockBytes, kReduceMaxSplits, rounds}));
}

// Combines `splits` partials of each result, stored split by split, and writes them to `out`.
template <class R, class... Out>
Status combine_splits(const Launch& launch, const R& reducer, const Outputs<Out...>& out, const typename R::Acc* partials,
                      const Layout<sizeof...(Out)>& results, int64_t splits, int64_t count) {
    const int64_t numel = results.numel();
    const int result_threads = power_of_two_for(splits / 4, kReduceThreads / power_of_two_for(numel, 8));
    const int64_t blocks = ceil_div<int64_t>(numel, kReduceThreads / result_threads);
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kReduceThreads)},
                         combine_partials_kernel<R, Outputs<Out...>>, reducer, out, partials,
                         ReduceWalk<sizeof...(Out)>(results), numel, splits, count, result_threads);
}

}  // namespace bk
