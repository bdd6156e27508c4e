// SPDX-License-Identifier: Apache-2.0
// Programmatic dependent launch (sm_90): a kernel whose Grid::overlaps is set starts while the kernel before it in the
// stream still runs, and waits for its results where it needs them. Chips without it run the kernels one after another.
#pragma once

#include "core/intrinsics/cluster.cuh"
#include "core/platform.h"

namespace bk {

// Whether a launch may set Grid::overlaps: the library has code in which a kernel waits.
inline bool has_dependent_launch() { return most_cluster_blocks() > 1; }

// The next kernel may start as soon as all blocks have called this or ended.
BK_DEVICE void allow_next_kernel() {
#if BK_ON_GPU && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Returns when the kernel before this one has ended and its writes are visible.
BK_DEVICE void wait_for_previous_kernel() {
#if BK_ON_GPU && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace bk
