// SPDX-License-Identifier: Apache-2.0
// Thread block clusters: sm_90 and newer. A block launched without a cluster is a cluster of one.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/platform.h"

namespace bk {

// Whether the library has code for clusters; chips with clusters then run it.
constexpr bool kHasClusterCode = [] {
    for (const int arch : {__CUDA_ARCH_LIST__})
        if (arch >= 900) return true;
    return false;
}();

// The portable maximum cluster size in blocks; 1 on chips without clusters.
inline unsigned most_cluster_blocks() { return kHasClusterCode && device_arch() >= 90 ? 8 : 1; }

BK_DEVICE int rank_in_cluster() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return static_cast<int>(rank);
}

// Barrier over all threads of the cluster; their writes are visible after it.
BK_DEVICE void sync_cluster() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

}  // namespace bk
