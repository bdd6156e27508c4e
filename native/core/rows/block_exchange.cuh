// Blocks of a cluster send each other their statistics: nothing is fetched, and none waits for others to have read. They do not
// end before what is sent to them is there.
#pragma once

#include <cstdint>

#include "core/platform.h"
#include "core/rows/acc_words.cuh"
#include "core/transaction_barrier.cuh"

namespace bk {

constexpr int kMostRowCluster = 8;

// In the shared memory of each block. Two sides, taken in turns: who sends for the turn after the next has got what was sent
// for the next, and so this side has been read.
template <class Acc>
class BlockExchange {
    using Words = AccWords<Acc>;
    Words from_[2][kMostRowCluster];
    uint64_t all_here_[2];

public:
    // Before the work in front of the first turn, which hides that the other blocks may not have started yet.
    BK_DEVICE void open() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
        if (threadIdx.x == 0) {
            for (uint64_t& barrier : all_here_) init_barrier(&barrier, 1);
            publish_barriers();
        }
        asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
    }
    // The statistic of block threadIdx.x % blocks; `mine` is that of this one. The blocks are a power of two.
    BK_DEVICE Acc share([[maybe_unused]] const Acc& mine, [[maybe_unused]] int blocks, [[maybe_unused]] int turn) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
        const int side = turn & 1, thread = static_cast<int>(threadIdx.x);
        if (turn == 0) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
        if (thread == 0) arrive_expecting(&all_here_[side], blocks * static_cast<int>(sizeof(Acc)));
        if (thread < blocks) send(Words::of(mine), side, thread);
        wait_for_phase(&all_here_[side], turn >> 1 & 1);
        return from_[side][thread & (blocks - 1)].value();
#else
        return mine;
#endif
    }

private:
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    // To the place of this block in block `to`, whose barrier counts the bytes.
    BK_DEVICE void send(const Words& words, int side, int to) {
        unsigned rank;
        asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#pragma unroll
        for (int i = 0; i < Words::kCount; ++i)
            asm volatile(
                "{ .reg .b32 place, barrier;\n"
                "mapa.shared::cluster.u32 place, %0, %3;\n"
                "mapa.shared::cluster.u32 barrier, %1, %3;\n"
                "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [place], %2, [barrier]; }" ::"r"(
                    shared_address(&from_[side][rank].word[i])),
                "r"(shared_address(&all_here_[side])), "r"(words.word[i]), "r"(to)
                : "memory");
    }
#endif
};

}  // namespace bk
