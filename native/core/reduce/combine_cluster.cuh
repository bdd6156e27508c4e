// The combination of what the blocks of a cluster (sm_90) have collected.
#pragma once

#include <cooperative_groups.h>

#include "core/platform.h"

namespace bk {

// Of the blocks of a cluster, which lie along x, the Acc of all; the first thread of the first block has it. `acc` is the
// block's in its first thread. Every thread of the cluster calls it.
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
