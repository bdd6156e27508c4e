// SPDX-License-Identifier: Apache-2.0
// Blocks of a cluster that read each other's shared memory (sm_90). Elsewhere a block is a cluster of one.
#pragma once

#include <cooperative_groups.h>

#include <cstddef>

#include "core/intrinsics/cluster.cuh"
#include "core/platform.h"

namespace bk {

// Says which object cluster_peer() reads; before the first barrier.
BK_DEVICE void open_cluster(void*, size_t) {}

BK_DEVICE int rank_of_block() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    return rank_in_cluster();
#else
    return 0;
#endif
}

// Barrier over the cluster: what its threads wrote before is visible after it.
BK_DEVICE void sync_blocks() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    sync_cluster();
#endif
}

// The object of block `rank` that lies where `mine` lies in this block.
template <class V>
BK_DEVICE V* cluster_peer(V* mine, [[maybe_unused]] int rank) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    return cooperative_groups::this_cluster().map_shared_rank(mine, static_cast<unsigned>(rank));
#else
    return mine;
#endif
}

}  // namespace bk
