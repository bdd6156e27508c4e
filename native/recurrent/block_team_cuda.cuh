// SPDX-License-Identifier: Apache-2.0
// A block of four warps for each item.
#pragma once

#include "recurrent/block_team.h"

namespace bk::recurrent {

constexpr int kTeamThreads = 128;

template <class Body>
BK_TEAM void with_vectors(const Body& body) {
    body();
}

template <class Job>
__global__ void __launch_bounds__(kTeamThreads) scratch_kernel(const __grid_constant__ Job job) {
    BK_LAUNCH_SHARED(uint4, scratch_words);
    job(Team{scratch_words, static_cast<int>(threadIdx.x), kTeamThreads}, int64_t{blockIdx.x});
}

template <class Job>
Status run_with_scratch(const Launch& launch, int64_t items, int64_t floats, float*, const Job& job) {
    if (items == 0) return Status::kOk;
    if (items > kMaxGridX)
        return fail(Status::kUnsupported, "%lld blocks are too many for one launch", static_cast<long long>(items));
    const int64_t bytes = floats * static_cast<int64_t>(sizeof(float));
    if (!has_shared(bytes))
        return fail(Status::kUnsupported, "%lld bytes of shared memory are more than the device has",
                    static_cast<long long>(bytes));
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(items)), dim3(kTeamThreads), 1, static_cast<unsigned>(bytes)},
                         scratch_kernel<Job>, job);
}

}  // namespace bk::recurrent
