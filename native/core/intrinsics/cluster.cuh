// SPDX-License-Identifier: Apache-2.0
// Blocks of a cluster: sm_90 and newer. A block that was launched without one is a cluster of its own.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/platform.h"

namespace bk {

// Whether this library has code for clusters of blocks, which a chip that has them then runs.
constexpr bool kHasClusterCode = [] {
    for (const int arch : {__CUDA_ARCH_LIST__})
        if (arch >= 900) return true;
    return false;
}();

// Blocks of the largest cluster that every chip with clusters runs; 1 where there are none.
inline unsigned most_cluster_blocks() { return kHasClusterCode && device_arch() >= 90 ? 8 : 1; }

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
