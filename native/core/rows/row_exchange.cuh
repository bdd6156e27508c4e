// Statistics of a row between the threads that share it: of a warp by shuffles, of a block through shared memory, of a cluster
// through the shared memory of its blocks. All of them get the same bits.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/platform.h"
#include "core/reduce/shuffle.cuh"
#include "core/rows/acc_words.cuh"
#include "core/rows/block_exchange.cuh"
#include "core/rows/row_map.h"

namespace bk {

// Sums and extrema over `lanes` neighbours, a power of two up to a warp; the same bits for all of them.
struct RowLanes {
    int lanes;
    template <class C>
    BK_DEVICE C sum(C x) const {
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2)
            if (distance < lanes) x += shuffle_xor(x, distance);
        return x;
    }
    // That of the first of the neighbours.
    template <class C>
    BK_DEVICE C first(C x) const {
        return shuffle_from(x, static_cast<int>(threadIdx.x % 32) & ~(lanes - 1));
    }
    template <class C>
    BK_DEVICE C largest(C x) const {
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2)
            if (distance < lanes) x = LargerOf{}(x, shuffle_xor(x, distance));
        return x;
    }
};

// Parts of a row by F::combine_parts(), where each part may have had passes of its own. A part has another pass where
// F::rescales(Row&, const Acc&, count of its elements) says so; F::complete_parts() takes the place of finish().
template <class F>
struct RowParts {
    using Acc = typename F::Acc;
    const F& f;
    BK_DEVICE Acc identity() const { return f.identity(); }
    BK_DEVICE Acc combine(const Acc& a, const Acc& b) const { return f.combine_parts(a, b); }
};

template <class F, class = void>
constexpr bool kMergesLanes = false;
template <class F>
constexpr bool
    kMergesLanes<F, std::void_t<decltype(std::declval<F>().merge(std::declval<typename F::Acc>(), std::declval<RowLanes>()))>> =
        true;

// Of `lanes` neighbours, a power of two up to a warp.
template <class F>
BK_DEVICE typename F::Acc combine_lanes(const F& f, typename F::Acc mine, int lanes) {
    if constexpr (kMergesLanes<F>) {
        return f.merge(mine, RowLanes{lanes});
    } else {
#pragma unroll 1
        for (int distance = 1; distance < lanes; distance *= 2) {
            const typename F::Acc other = shuffle_xor(mine, distance);
            mine = threadIdx.x & distance ? f.combine(other, mine) : f.combine(mine, other);
        }
        return mine;
    }
}

// Places for each warp, taken in turns, so that one barrier an exchange is enough; and for the blocks of a cluster.
template <class Acc>
struct RowExchange {
    AccWords<Acc> warp[2][32];
    BlockExchange<Acc> blocks;
};

// Of a block of whole warps.
template <class F>
BK_DEVICE typename F::Acc combine_block(const F& f, typename F::Acc mine, RowExchange<typename F::Acc>& exchange, int turn) {
    using Words = AccWords<typename F::Acc>;
    const int warps = blockDim.x / 32, lane = threadIdx.x % 32;
    mine = combine_lanes(f, mine, 32);
    if (lane == 0) exchange.warp[turn & 1][threadIdx.x / 32] = Words::of(mine);
    __syncthreads();
    const int groups = 1 << (32 - __clz(warps - 1));  // not fewer, a power of two: so many neighbours have all of them
    const int place = lane & (groups - 1);
    mine = place < warps ? exchange.warp[turn & 1][place].value() : f.identity();
    return combine_lanes(f, mine, groups);
}

// Of the blocks of a cluster, a power of two; `mine` is that of this block.
template <class F>
BK_DEVICE typename F::Acc combine_cluster(const F& f, typename F::Acc mine, int blocks, RowExchange<typename F::Acc>& exchange,
                                          int turn) {
    return combine_lanes(f, exchange.blocks.share(mine, blocks, turn), blocks);
}

// Of threads that lie `rows` apart, `lanes` of them a row: a power of two. `place` is shared memory, a place a thread.
template <class F>
BK_DEVICE typename F::Acc combine_apart(const F& f, typename F::Acc mine, int rows, int lanes,
                                        AccWords<typename F::Acc>* place) {
    using Words = AccWords<typename F::Acc>;
    const int lane = threadIdx.x / rows;
    place[threadIdx.x] = Words::of(mine);
    for (int half = lanes / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half) {
            mine = f.combine(mine, place[threadIdx.x + half * rows].value());
            place[threadIdx.x] = Words::of(mine);
        }
    }
    __syncthreads();
    mine = place[threadIdx.x % rows].value();
    __syncthreads();
    return mine;
}

}  // namespace bk
