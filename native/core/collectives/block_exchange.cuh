// SPDX-License-Identifier: Apache-2.0
// All-to-all exchange of accumulators in a cluster (sm_90): each block pushes its own into the shared memory of all
// blocks by st.async, counted by an mbarrier. Blocks wait for all data sent to them, so none exits early.
#pragma once

#include <cstdint>

#include "core/collectives/acc_words.cuh"
#include "core/intrinsics/transaction_barrier.cuh"
#include "core/platform.h"

namespace bk {

constexpr int kMaxRowCluster = 8;

// Lives in shared memory. Double-buffered without a consumer barrier: a block that sends for phase p + 2 has received
// all of phase p + 1, whose senders had read phase p.
template <class Acc>
class BlockExchange {
    using Words = AccWords<Acc>;
    Words received_[2][kMaxRowCluster];
    uint64_t barrier_[2];

public:
    // Call early: the wait for the other blocks to start overlaps the work before the first share().
    BK_DEVICE void open() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
        if (threadIdx.x == 0) {
            for (uint64_t& barrier : barrier_) init_barrier(&barrier, 1);
            publish_barriers();
        }
        asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
    }
    // Returns the accumulator of block threadIdx.x % blocks; `mine` is this block's. `blocks` is a power of two.
    BK_DEVICE Acc share([[maybe_unused]] const Acc& mine, [[maybe_unused]] int blocks, [[maybe_unused]] int phase) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
        const int buffer = phase & 1, thread = static_cast<int>(threadIdx.x);
        if (phase == 0) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
        if (thread == 0) arrive_expecting(&barrier_[buffer], blocks * static_cast<int>(sizeof(Acc)));
        if (thread < blocks) send(Words::of(mine), buffer, thread);
        wait_for_phase(&barrier_[buffer], phase >> 1 & 1);
        return received_[buffer][thread & (blocks - 1)].value();
#else
        return mine;
#endif
    }

private:
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    // Stores to this block's slot in block `to`, whose mbarrier counts the bytes.
    BK_DEVICE void send(const Words& words, int buffer, int to) {
        unsigned rank;
        asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#pragma unroll
        for (int i = 0; i < Words::kCount; ++i)
            asm volatile(
                "{ .reg .b32 place, barrier;\n"
                "mapa.shared::cluster.u32 place, %0, %3;\n"
                "mapa.shared::cluster.u32 barrier, %1, %3;\n"
                "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [place], %2, [barrier]; }" ::"r"(
                    shared_address(&received_[buffer][rank].word[i])),
                "r"(shared_address(&barrier_[buffer])), "r"(words.word[i]), "r"(to)
                : "memory");
    }
#endif
};

}  // namespace bk
