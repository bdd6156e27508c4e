// SPDX-License-Identifier: Apache-2.0
// Shared memory of the other blocks of a cluster (sm_90).
#pragma once

#include <cooperative_groups.h>

#include "core/intrinsics/cluster.cuh"
#include "core/platform.h"

namespace bk {

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
