// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/abi/launch_cuda.h"
#include "pool/items.h"

namespace bk::pool {

constexpr int kItemThreads = 256;

template <class Job>
__global__ void __launch_bounds__(kItemThreads) items_kernel(const __grid_constant__ Job job, int64_t count) {
    const int64_t item = int64_t{blockIdx.x} * kItemThreads + threadIdx.x;
    if (item < count) job(item);
}

template <class Job>
Status run_items(const Launch& launch, int64_t count, int64_t, const Job& job) {
    const int64_t blocks = ceil_div<int64_t>(count, kItemThreads);
    if (blocks > kMaxGridX) return fail(Status::kUnsupported, "%lld windows are too many for one launch", (long long)count);
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kItemThreads)}, items_kernel<Job>, job, count);
}

}  // namespace bk::pool
