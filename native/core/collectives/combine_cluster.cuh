// SPDX-License-Identifier: Apache-2.0
// Combination of accumulators across the blocks of a cluster (sm_90).
#pragma once

#include <cooperative_groups.h>

#include "core/platform.h"

namespace bk {

// Combines the accumulators of a cluster's blocks, which lie along x. `acc` is that of a block in its first thread;
// the first thread of the first block gets the result. Every thread of the cluster must call it.
template <class R>
BK_DEVICE typename R::Acc combine_cluster([[maybe_unused]] const R& reducer, typename R::Acc acc) {
#if __CUDA_ARCH__ >= 900
    namespace cg = cooperative_groups;
    __shared__ typename R::Acc mine;
    const cg::cluster_group cluster = cg::this_cluster();
    if (threadIdx.x == 0) mine = acc;
    cluster.sync();
    if (cluster.block_rank() == 0 && threadIdx.x == 0)
        for (unsigned rank = 1; rank < cluster.num_blocks(); ++rank)
            acc = reducer.combine(acc, *cluster.map_shared_rank(&mine, rank));
    cluster.sync();
#endif
    return acc;
}

}  // namespace bk
