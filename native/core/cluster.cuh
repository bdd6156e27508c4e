// Blocks of a cluster: sm_90 and newer. A block that was launched without one is a cluster of its own.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace bk {

BK_DEVICE int rank_in_cluster() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return static_cast<int>(rank);
}

// Waits for all threads of all blocks of the cluster; what they wrote is visible behind it.
BK_DEVICE void sync_cluster() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

}  // namespace bk
