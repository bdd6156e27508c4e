// SPDX-License-Identifier: Apache-2.0
// mbarriers in shared memory that track the bytes of asynchronous copies in flight. sm_90 and newer.
#pragma once

#include <cstdint>

#include "core/intrinsics/async_copy.cuh"
#include "core/platform.h"

namespace bk {

// Each phase counts arrivals and copied bytes; the phase parity is 0, 1, 0, ...
BK_DEVICE void init_barrier(uint64_t* barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Makes barriers that this thread initialised visible to copies and, after a cluster barrier, to the other blocks.
BK_DEVICE void publish_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

BK_DEVICE void arrive(uint64_t* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Arrives at the same barrier of block `rank` of the cluster.
BK_DEVICE void arrive_at(uint64_t* barrier, int rank) {
    asm volatile(
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(
            shared_address(barrier)),
        "r"(rank)
        : "memory");
}

// Arrives and adds the expected bytes of the phase.
BK_DEVICE void arrive_expecting(uint64_t* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

// Waits until the phase with this parity completes.
BK_DEVICE void wait_for_phase(uint64_t* barrier, int parity) {
    uint32_t is_over = 0;
    while (is_over == 0)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(is_over)
                     : "r"(shared_address(barrier)), "r"(parity)
                     : "memory");
}

}  // namespace bk
