// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/abi/launch_cuda.h"
#include "core/collectives/items.h"
#include "core/types/dtype.h"

namespace bk {

constexpr int kItemThreads = 256;
constexpr int kItemLanes = 8;  // channels of an item
constexpr int kCopyLanes = kItemLanes;
constexpr bool kLanesAreAdjacent = false;
constexpr int64_t kFewestItems = int64_t{1} << 17;  // a wave of an H200

template <class Body>
BK_HD void for_lanes(int lanes, const Body& body) {
    BK_UNROLL
    for (int lane = 0; lane < kItemLanes; ++lane)
        if (lane < lanes) body(lane);
}

template <class Job>
__global__ void __launch_bounds__(kItemThreads) item_kernel(const Job job, int64_t items) {
    const int64_t item = int64_t{blockIdx.x} * kItemThreads + threadIdx.x;
    if (item < items) job(item);
}

template <class Job>
Status run_items(const Launch& launch, int64_t items, int64_t, const Job& job) {
    const int64_t blocks = ceil_div<int64_t>(items, kItemThreads);
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld items are too many for one launch", static_cast<long long>(items));
    if (blocks == 0) return Status::kOk;
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kItemThreads)}, item_kernel<Job>, job, items);
}

}  // namespace bk
