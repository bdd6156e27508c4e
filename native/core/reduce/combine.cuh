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
// Whether a reducer looks at inputs that stand still once a line (reduce_terms.cuh).
template <class R, class In, class Each>
constexpr bool kLooksOnce = kMovingOf<R> < In::count && Each::count == 0;
// Terms that are stored, too, or have such inputs take more operands and registers, so fewer vectors of each are in flight; a
// multiprocessor is to hold two blocks, whose threads may have 128 registers; three where terms of 16 bits, eight of them a
// vector, have several numbers each: they fill the registers, and two blocks have too few loads under way. 0 leaves their
// number to the compiler.
template <int N, bool kHasStill, class Each>
constexpr int kReduceRoundOf = N == 1                         ? kReduceRound
                               : kHasStill || Each::count > 2 ? 2
                               : Each::count > 0              ? 3
                                                              : kReduceRound;
template <class R, class In, class Each>
constexpr int kReduceResident = Each::count > 0 || kLooksOnce<R, In, Each>                           ? 2
                                : In::count == 1 && In::widest == 2 && sizeof(typename R::Acc) >= 16 ? 3
                                                                                                     : 0;
// Blocks that fill a large chip, and bytes that are worth a block. Constants, so that the order of additions is the same on
// every chip. Those that only read are about eight a multiprocessor of an H200; of blocks that store fewer are resident, and
// many leave less to the last of them.
template <class Each>
constexpr int64_t kReduceBlocks = Each::count > 0 ? 4096 : 1024;
constexpr int kReduceLeast = 8;                           // threads of a result of neighbouring terms
constexpr int64_t kReduceLeastTerms = 16;                 // vectors a thread of a block that many results share
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

// Of the `deep` neighbouring threads that share a result, a power of two, the Acc of all; the thread of depth 0 has it. Every
// thread of the block calls it.
template <class R>
BK_DEVICE typename R::Acc combine_neighbours(const R& reducer, typename R::Acc acc, int deep, int depth) {
    using Acc = typename R::Acc;
    __shared__ Acc of_warp[32];
    for (int distance = 1; distance < min(deep, 32); distance *= 2) {
        const Acc other = shuffle_xor(acc, distance);
        // The earlier thread's comes first on both sides.
        acc = depth & distance ? reducer.combine(other, acc) : reducer.combine(acc, other);
    }
    if (deep <= 32) return acc;
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = acc;
    __syncthreads();
    if (depth == 0)
        for (int warp = 1; warp < deep / 32; ++warp) acc = reducer.combine(acc, of_warp[threadIdx.x / 32 + warp]);
    return acc;
}

// Accs of a thread that go through shared memory together: of all threads they take 16 KiB at most.
template <int N, class Acc>
constexpr int kLanesAtOnce = [] {
    int lanes = 1;
    while (2 * lanes <= N && 2 * lanes * kReduceThreads * sizeof(Acc) <= 16384) lanes *= 2;
    return lanes;
}();

// Of the `deep` threads that share N results and lie `across` apart, the Accs of all; the threads of depth 0 have them. Warps
// shuffle what they have of a result, then a thread a result joins what the warps have: three barriers for many results.
template <int N, class R>
BK_DEVICE void combine_depths(const R& reducer, typename R::Acc (&acc)[N], int deep, int across, int depth) {
    using Acc = typename R::Acc;
    constexpr int kAtOnce = kLanesAtOnce<N, Acc>;
    __shared__ Acc shared[kAtOnce][kReduceThreads];
    if (deep == 1) return;
#pragma unroll 1
    for (int distance = across; distance < 32; distance *= 2)
#pragma unroll
        for (int lane = 0; lane < N; ++lane) {
            const Acc other = shuffle_xor(acc[lane], distance);
            acc[lane] = threadIdx.x & distance ? reducer.combine(other, acc[lane]) : reducer.combine(acc[lane], other);
        }
    const int apart = max(across, 32), levels = kReduceThreads / apart;
    const int thread = static_cast<int>(threadIdx.x), slot = thread % across, level = thread / apart;
#pragma unroll
    for (int first = 0; first < N; first += kAtOnce) {
        __syncthreads();
        if (thread % apart < across)
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) shared[i][level * across + slot] = acc[first + i];
        __syncthreads();
        for (int i = thread; i < kAtOnce * across; i += kReduceThreads) {
            Acc* const of_result = shared[i / across] + i % across;
            Acc all = of_result[0];
            for (int l = 1; l < levels; ++l) all = reducer.combine(all, of_result[l * across]);
            of_result[0] = all;
        }
        __syncthreads();
        if (depth == 0)
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) acc[first + i] = shared[i][slot];
    }
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
        for (int64_t split = depth; split < splits; split += kReduceRound * deep) {
            Acc part[kReduceRound];
#pragma unroll
            for (int u = 0; u < kReduceRound; ++u)
                if (split + u * deep < splits) part[u] = parts[(split + u * deep) * results + i];
#pragma unroll
            for (int u = 0; u < kReduceRound; ++u)
                if (split + u * deep < splits) acc = u == 0 && split == depth ? part[u] : reducer.combine(acc, part[u]);
        }
    Acc all[1] = {acc};
    combine_depths<1>(reducer, all, deep, across, depth);
    if (depth != 0 || i >= results) return;
    int64_t offset[Out::count] = {};
    kept(i, offset);
    store_result(reducer, out.pointer, offset, all[0], count, 0);
}

inline int shared_by(int64_t n, int most) {
    int p = 1;
    while (p < most && p < n) p *= 2;
    return p;
}

// Parts of which `blocks` make whole waves, or nearly: the fewest of these. A wave is what a chip of 132 multiprocessors holds
// at `resident` blocks each, a constant for the same reason as kReduceBlocks.
inline int64_t parts_of_waves(int64_t blocks, int resident) {
    constexpr int kMostWaves = 3;
    int64_t parts = 1;
    for (int waves = 1; waves <= kMostWaves; ++waves) {
        const int64_t held = int64_t{132} * resident * waves;
        parts = held / blocks;
        if (5 * parts * blocks >= 4 * held) break;
    }
    return parts;
}

// Parts that each result of so many blocks is worth, where it takes `bytes` a block and a thread has `rounds` of its terms.
// Blocks that are a quarter of the most keep the memory busy by themselves, and parts would cost them a launch and more starts.
// Where it is known how many are `resident`, the others begin late: there are not more than whole waves of them.
inline int64_t reduce_splits(int64_t blocks, int64_t most_blocks, int64_t bytes, int64_t rounds, int resident = 0) {
    if (4 * blocks >= most_blocks) return 1;
    blocks = std::max<int64_t>(blocks, 1);
    const int64_t parts = resident > 0 ? parts_of_waves(blocks, resident) : most_blocks / blocks;
    return std::max<int64_t>(1, std::min({parts, bytes / kReduceBlockBytes, kReduceMostSplits, rounds}));
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
