// What kernels of reductions share: the numbers that shape them, walks, and the combination of what threads and parts have
// collected.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/math/fastdiv.h"
#include "core/pointwise/layout.h"
#include "core/pointwise/pointwise.h"
#include "core/reduce/reducer.h"
#include "core/reduce/shuffle.cuh"

namespace bk {

constexpr int kReduceThreads = 256;
constexpr int kReduceRound = 4;  // loads in flight a thread
// Terms that are stored, too, take more operands and registers, so fewer vectors of each are in flight; a multiprocessor is to
// hold two blocks, whose threads may have 128 registers. 0 leaves their number to the compiler.
template <int N, class Each>
constexpr int kReduceRoundOf = N == 1 || Each::count == 0 ? kReduceRound
                               : Each::count > 2          ? 2
                                                          : 3;
template <class Each>
constexpr int kReduceResident = Each::count > 0 ? 2 : 0;
// Blocks that fill a large chip, and bytes that are worth a block. Constants, so that the order of additions is the same on
// every chip. Of blocks that store fewer are resident, so twice as many leave no more of them to the last.
template <class Each>
constexpr int64_t kReduceBlocks = Each::count > 0 ? 4096 : 2048;
constexpr int kReduceLeast = 8;                           // threads of a result of neighbouring terms
constexpr int64_t kReduceManyThreads = int64_t{1} << 19;  // more than a large chip holds
constexpr int64_t kReduceBlockBytes = 32768;
constexpr int64_t kReduceMostSplits = 4096;

// Rare and long, so not a part of every loop.
BK_DEVICE_COLD DivMod<int64_t> divide_long(int64_t n, int64_t divisor) { return {n / divisor, n % divisor}; }

// A walk whose divisions take 32 bits where the numbers do, whose offsets 64.
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

// Of the `deep` threads that share a result, the Acc of all; the thread of depth 0 has it. Every thread of the block calls it,
// whose threads may be more than kReduceThreads where those of a result are `neighbours`.
template <class R>
BK_DEVICE typename R::Acc combine_threads(const R& reducer, typename R::Acc acc, int deep, int across, int depth,
                                          bool neighbours) {
    using Acc = typename R::Acc;
    __shared__ Acc shared[kReduceThreads];
    if (neighbours) {
        for (int distance = 1; distance < min(deep, 32); distance *= 2) {
            const Acc other = shuffle_xor(acc, distance);
            // The earlier thread's comes first on both sides.
            acc = depth & distance ? reducer.combine(other, acc) : reducer.combine(acc, other);
        }
        if (deep <= 32) return acc;
        __syncthreads();
        if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = acc;
        __syncthreads();
        if (depth == 0)
            for (int warp = 1; warp < deep / 32; ++warp) acc = reducer.combine(acc, shared[threadIdx.x / 32 + warp]);
        return acc;
    }
    if (deep == 1) return acc;
    __syncthreads();
    shared[threadIdx.x] = acc;
    for (int half = deep / 2; half > 0; half /= 2) {
        __syncthreads();
        if (depth < half) shared[threadIdx.x] = reducer.combine(shared[threadIdx.x], shared[threadIdx.x + half * across]);
    }
    return shared[threadIdx.x];
}

// `deep` threads, a power of two, share a result.
template <class R, class Out>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_parts_kernel(R reducer, Out out, const typename R::Acc* parts, ReduceWalk<Out::count> kept, int64_t results,
                        int64_t splits, int64_t count, int deep) {
    using Acc = typename R::Acc;
    const int across = kReduceThreads / deep, depth = threadIdx.x / across;
    const int64_t i = int64_t{blockIdx.x} * across + threadIdx.x % across;
    Acc acc = reducer.identity();
    if (i < results)
        for (int64_t split = depth; split < splits; split += deep)
            acc = split == depth ? parts[split * results + i] : reducer.combine(acc, parts[split * results + i]);
    acc = combine_threads(reducer, acc, deep, across, depth, false);
    if (depth != 0 || i >= results) return;
    int64_t offset[Out::count] = {};
    kept(i, offset);
    store_result(reducer, out.pointer, offset, acc, count, 0);
}

inline int shared_by(int64_t n, int most) {
    int p = 1;
    while (p < most && p < n) p *= 2;
    return p;
}

// Parts that each result of so many blocks is worth, where it takes `bytes` a block and a thread has `rounds` of its terms.
inline int64_t reduce_splits(int64_t blocks, int64_t most_blocks, int64_t bytes, int64_t rounds) {
    return std::max<int64_t>(
        1, std::min({most_blocks / std::max<int64_t>(blocks, 1), bytes / kReduceBlockBytes, kReduceMostSplits, rounds}));
}

// Combines `splits` parts of each result, which lie one part of every result after another, and writes them to `out`.
template <class R, class... Out>
Status combine_parts(const Launch& launch, const R& reducer, const Outputs<Out...>& out, const typename R::Acc* parts,
                     const Layout<sizeof...(Out)>& results, int64_t splits, int64_t count) {
    const int64_t numel = results.numel();
    const int deep = shared_by(splits / 4, kReduceThreads / shared_by(numel, 8));
    const int64_t blocks = ceil_div<int64_t>(numel, kReduceThreads / deep);
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kReduceThreads)},
                         reduce_parts_kernel<R, Outputs<Out...>>, reducer, out, parts, ReduceWalk<sizeof...(Out)>(results),
                         numel, splits, count, deep);
}

}  // namespace bk
