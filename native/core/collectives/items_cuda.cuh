// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

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

// A job may say how many of its blocks share an SM, which bounds their registers.
template <class Job, class = void>
constexpr bool kBoundsRegisters = false;
template <class Job>
constexpr bool kBoundsRegisters<Job, std::void_t<decltype(Job::kItemBlocks)>> = true;

template <class Job>
__global__ void __launch_bounds__(kItemThreads, Job::kItemBlocks) bounded_item_kernel(const Job job, int64_t items) {
    const int64_t item = int64_t{blockIdx.x} * kItemThreads + threadIdx.x;
    if (item < items) job(item);
}

template <class Job>
Status run_items(const Launch& launch, int64_t items, int64_t, const Job& job) {
    const int64_t blocks = ceil_div<int64_t>(items, kItemThreads);
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld items are too many for one launch", static_cast<long long>(items));
    if (blocks == 0) return Status::kOk;
    const Grid grid{dim3(static_cast<unsigned>(blocks)), dim3(kItemThreads)};
    if constexpr (kBoundsRegisters<Job>)
        return launch_kernel(launch, grid, bounded_item_kernel<Job>, job, items);
    else
        return launch_kernel(launch, grid, item_kernel<Job>, job, items);
}

}  // namespace bk
