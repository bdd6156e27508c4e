// Statistics of a row between the threads that share it: of a warp by shuffles, of a block through shared memory, of a cluster
// through the shared memory of its blocks. All of them get the same bits.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/platform.h"
#include "core/reduce/shuffle.cuh"

namespace bk {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
BK_DEVICE unsigned cluster_rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
BK_DEVICE void cluster_sync() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
// What `word` of this block's shared memory is in block `rank` of the cluster.
BK_DEVICE uint32_t load_of_block(const uint32_t* word, unsigned rank) {
    uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(word)), value;
    asm volatile("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(address) : "r"(rank));
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    return value;
}
#else
BK_DEVICE unsigned cluster_rank() { return 0; }
BK_DEVICE void cluster_sync() {}
BK_DEVICE uint32_t load_of_block(const uint32_t* word, unsigned) { return *word; }
#endif

// A statistic as words of 32 bits.
template <class Acc>
struct AccWords {
    static constexpr int kCount = sizeof(Acc) / 4;
    static_assert(sizeof(Acc) % 4 == 0 && sizeof(Acc) <= 32, "whole words, and few");
    uint32_t word[kCount];

    static BK_DEVICE AccWords of(const Acc& acc) {
        AccWords result;
        memcpy(&result, &acc, sizeof(Acc));
        return result;
    }
    BK_DEVICE Acc value() const {
        Acc acc;
        memcpy(&acc, this, sizeof(Acc));
        return acc;
    }
};

// Of `lanes` neighbours, a power of two up to a warp.
template <class F>
BK_DEVICE typename F::Acc combine_lanes(const F& f, typename F::Acc mine, int lanes) {
#pragma unroll 1
    for (int distance = 1; distance < lanes; distance *= 2) {
        const typename F::Acc other = shuffle_xor(mine, distance);
        mine = threadIdx.x & distance ? f.combine(other, mine) : f.combine(mine, other);
    }
    return mine;
}

// Places for each warp and for the block, taken in turns, so that one barrier an exchange is enough.
template <class Acc>
struct RowExchange {
    AccWords<Acc> warp[2][32];
    AccWords<Acc> block[2];
};

// Of a block of whole warps.
template <class F>
BK_DEVICE typename F::Acc combine_block(const F& f, typename F::Acc mine, RowExchange<typename F::Acc>& exchange, int turn) {
    using Words = AccWords<typename F::Acc>;
    const int warps = blockDim.x / 32, lane = threadIdx.x % 32;
    mine = combine_lanes(f, mine, 32);
    if (lane == 0) exchange.warp[turn & 1][threadIdx.x / 32] = Words::of(mine);
    __syncthreads();
    mine = lane < warps ? exchange.warp[turn & 1][lane].value() : f.identity();
    return combine_lanes(f, mine, 32);
}

// Of the blocks of a cluster; `mine` is that of this block. Blocks stay until all have read: cluster_sync() before they end.
template <class F>
BK_DEVICE typename F::Acc combine_cluster(const F& f, typename F::Acc mine, int blocks,
                                          RowExchange<typename F::Acc>& exchange, int turn) {
    using Words = AccWords<typename F::Acc>;
    if (threadIdx.x == 0) exchange.block[turn & 1] = Words::of(mine);
    cluster_sync();
    typename F::Acc all = f.identity();
#pragma unroll 1
    for (int rank = 0; rank < blocks; ++rank) {
        Words words;
#pragma unroll
        for (int i = 0; i < Words::kCount; ++i) words.word[i] = load_of_block(&exchange.block[turn & 1].word[i], rank);
        all = f.combine(all, words.value());
    }
    return all;
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
