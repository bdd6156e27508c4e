// SPDX-License-Identifier: Apache-2.0
// Position in a ring of shared-memory stages, as producer and consumers of a TMA pipeline advance it.
#pragma once

#include "core/intrinsics/transaction_barrier.cuh"
#include "core/platform.h"

namespace bk {

struct PipelineState {
    int stage = 0, parity = 0;

    BK_DEVICE void advance(int stages) {
        if (++stage < stages) return;
        stage = 0;
        parity ^= 1;
    }
};

// Arrives at the stage's empty barrier in every block of the cluster: this warp has finished reading the stage.
BK_DEVICE void consumer_release(uint64_t* empty, int blocks, int lane) {
    if (lane < blocks) arrive_at(empty, lane);
}

}  // namespace bk
