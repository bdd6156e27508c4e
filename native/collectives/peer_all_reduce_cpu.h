// SPDX-License-Identifier: Apache-2.0
// The steps of all threads one after the other, in the calling thread: ranks are threads or processes.
#pragma once

#include <cstdint>

#include "collectives/peer_all_reduce.h"

namespace bk::peers {

template <class T, class Step>
bool for_lanes(const Call& call, const Step& step) {
    for (int block = 0; block < call.blocks; ++block)
        for (int thread = 0; thread < kThreads; ++thread)
            if (!step(Lane<T>(call, block, thread))) return false;
    return true;
}

template <class T>
Status run(const Launch&, const Call& call) {
    PeerWait wait(call.timeout, call.status);
    for_lanes<T>(call, [](const Lane<T>& lane) { return lane.send(), true; });
    const bool is_done = for_lanes<T>(call, [&](const Lane<T>& lane) { return lane.reduce(wait); }) &&
                         (!call.has_two_shots || for_lanes<T>(call, [&](const Lane<T>& lane) { return lane.receive(wait); }));
    for (int block = 0; is_done && block < call.blocks; ++block) {
        const Lane<T> lane(call, block, 0);
        *lane.counter() = lane.sequence();
    }
    return Status::kOk;
}

}  // namespace bk::peers
