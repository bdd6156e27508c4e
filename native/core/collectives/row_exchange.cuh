// SPDX-License-Identifier: Apache-2.0
// All-reduce of accumulators over the threads of a row: a warp by shuffles, a block through shared memory, a cluster
// (sm_90) through distributed shared memory. Combine order is fixed, and all threads get the same bits.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/collectives/acc_words.cuh"
#include "core/collectives/block_exchange.cuh"
#include "core/collectives/shuffle.cuh"
#include "core/platform.h"
#include "core/row/row_map.h"

namespace bk {

// Scalar all-reduce over `lanes` adjacent lanes, a power of two up to 32, by butterfly shuffles.
struct LaneReduce {
    int lanes;
    template <class C>
    BK_DEVICE C sum(C x) const {
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2)
            if (distance < lanes) x += shuffle_xor(x, distance);
        return x;
    }
    // Broadcast from the first lane.
    template <class C>
    BK_DEVICE C first(C x) const {
        return shuffle_from(x, static_cast<int>(threadIdx.x % 32) & ~(lanes - 1));
    }
    template <class C>
    BK_DEVICE C largest(C x) const {
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2)
            if (distance < lanes) x = MaxOp{}(x, shuffle_xor(x, distance));
        return x;
    }
};

// Combines partials of a split row by F::combine_rescaled(): each split may have rescaled its elements on its own, after
// F::rescales(Row&, const Acc&, element count) returned true. F::finish_rescaled() replaces finish().
template <class F>
struct RescaledCombine {
    using Acc = typename F::Acc;
    const F& f;
    BK_DEVICE Acc identity() const { return f.identity(); }
    BK_DEVICE Acc combine(const Acc& a, const Acc& b) const { return f.combine_rescaled(a, b); }
};

template <class F, class = void>
constexpr bool kHasMerge = false;
template <class F>
constexpr bool
    kHasMerge<F, std::void_t<decltype(std::declval<F>().merge(std::declval<typename F::Acc>(), std::declval<LaneReduce>()))>> =
        true;

// All-reduce over `lanes` adjacent lanes, a power of two up to 32.
template <class F>
BK_DEVICE typename F::Acc combine_lanes(const F& f, typename F::Acc mine, int lanes) {
    if constexpr (kHasMerge<F>) {
        return f.merge(mine, LaneReduce{lanes});
    } else {
#pragma unroll 1
        for (int distance = 1; distance < lanes; distance *= 2) {
            const typename F::Acc other = shuffle_xor(mine, distance);
            mine = threadIdx.x & distance ? f.combine(other, mine) : f.combine(mine, other);
        }
        return mine;
    }
}

// Shared memory of block and cluster reductions. Warp partials are double-buffered: one __syncthreads per reduction.
template <class Acc>
struct RowExchange {
    AccWords<Acc> warp[2][32];
    BlockExchange<Acc> blocks;
};

// All-reduce over a block of whole warps. `phase` counts the reductions.
template <class F>
BK_DEVICE typename F::Acc combine_block(const F& f, typename F::Acc mine, RowExchange<typename F::Acc>& exchange, int phase) {
    using Words = AccWords<typename F::Acc>;
    const int warps = blockDim.x / 32, lane = threadIdx.x % 32;
    mine = combine_lanes(f, mine, 32);
    if (lane == 0) exchange.warp[phase & 1][threadIdx.x / 32] = Words::of(mine);
    __syncthreads();
    const int width = 1 << (32 - __clz(warps - 1));  // warps, rounded up to a power of two
    const int slot = lane & (width - 1);
    mine = slot < warps ? exchange.warp[phase & 1][slot].value() : f.identity();
    return combine_lanes(f, mine, width);
}

// All-reduce over `blocks` blocks of a cluster, a power of two; `mine` is this block's partial.
template <class F>
BK_DEVICE typename F::Acc combine_cluster(const F& f, typename F::Acc mine, int blocks, RowExchange<typename F::Acc>& exchange,
                                          int phase) {
    return combine_lanes(f, exchange.blocks.share(mine, blocks, phase), blocks);
}

// All-reduce over `lanes` threads (a power of two) that are `rows` apart. `slot`: shared memory, one per thread.
template <class F>
BK_DEVICE typename F::Acc combine_strided(const F& f, typename F::Acc mine, int rows, int lanes,
                                          AccWords<typename F::Acc>* slot) {
    using Words = AccWords<typename F::Acc>;
    const int lane = threadIdx.x / rows;
    slot[threadIdx.x] = Words::of(mine);
    for (int stride = lanes / 2; stride > 0; stride /= 2) {
        __syncthreads();
        if (lane < stride) {
            mine = f.combine(mine, slot[threadIdx.x + stride * rows].value());
            slot[threadIdx.x] = Words::of(mine);
        }
    }
    __syncthreads();
    mine = slot[threadIdx.x % rows].value();
    __syncthreads();
    return mine;
}

}  // namespace bk
