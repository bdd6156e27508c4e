// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/peer_all_reduce.h"

namespace bk::peers {

template <class T>
__global__ void __launch_bounds__(kThreads, 2) peer_all_reduce_kernel(const __grid_constant__ Call call) {
    const Lane<T> lane(call, static_cast<int>(blockIdx.x), static_cast<int>(threadIdx.x));
    PeerWait wait(call.timeout, call.status);
    lane.send();
    const bool is_done = lane.reduce(wait) && (!call.has_two_shots || lane.receive(wait));
    if (__syncthreads_or(!is_done) == 0 && threadIdx.x == 0) *lane.counter() = lane.sequence();
}

template <class T>
Status run(const Launch& launch, const Call& call) {
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(call.blocks)), dim3(kThreads)}, peer_all_reduce_kernel<T>,
                         call);
}

}  // namespace bk::peers
