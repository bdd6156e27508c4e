// SPDX-License-Identifier: Apache-2.0
// A reduction over a block of kReduceThreads threads in a fixed order: shuffles in each warp, then the warps in order.
#pragma once

#include "core/collectives/shuffle.cuh"
#include "core/platform.h"

namespace bk::optim {

constexpr int kReduceThreads = 256;

template <class C, class Combine>
BK_DEVICE C combine_block(C mine, const Combine& combine) {
    __shared__ C partial[kReduceThreads / 32];
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) mine = combine(mine, shuffle_xor(mine, distance));
    __syncthreads();
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = mine;
    __syncthreads();
    C all = partial[0];
    for (int warp = 1; warp < kReduceThreads / 32; ++warp) all = combine(all, partial[warp]);
    return all;
}

template <class C>
BK_DEVICE C sum_of_block(C mine) {
    return combine_block(mine, [](C a, C b) { return a + b; });
}

}  // namespace bk::optim
