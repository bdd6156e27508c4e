// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/abi/launch_cpu.h"
#include "core/collectives/items.h"
#include "core/types/dtype.h"

namespace bk {

constexpr int kItemLanes = 32;  // channels of an item
constexpr int kCopyLanes = 4;   // of a copy between planes, which often share the sets of a cache of 8 ways
constexpr bool kLanesAreAdjacent = true;
constexpr int64_t kFewestItems = 1;

template <class Body>
BK_HD void for_lanes(int lanes, const Body& body) {
    for (int lane = 0; lane < lanes; ++lane) body(lane);
}

template <class Job>
Status run_items(const Launch&, int64_t items, int64_t bytes, const Job& job) {
    parallel_ranges(items, grain_for(bytes), [&](int64_t begin, int64_t end) {
        for (int64_t item = begin; item < end; ++item) job(item);
    });
    return Status::kOk;
}

}  // namespace bk
