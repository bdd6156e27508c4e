// Stages of shared memory that copies fill and steps of warp groups read, one after another, again and again.
#pragma once

#include "core/platform.h"
#include "core/transaction_barrier.cuh"

namespace bk {

struct StagePlace {
    int stage = 0, parity = 0;

    BK_DEVICE void advance(int stages) {
        if (++stage < stages) return;
        stage = 0;
        parity ^= 1;
    }
};

// A warp has read a stage, which all blocks of the cluster hear of.
BK_DEVICE void free_stage(uint64_t* empty, int blocks, int lane) {
    if (lane < blocks) arrive_at(empty, lane);
}

}  // namespace bk
