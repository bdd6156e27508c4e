// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/collectives/shuffle.cuh"
#include "core/collectives/team.h"

namespace bk {

constexpr int kMaxTeamThreads = 256;

struct Team {
    static constexpr int kLanes = 4;  // adjacent elements that a thread had best take
    void* scratch;
    int rank, size;
    BK_HD void sync() const {
#if BK_IN_KERNEL
        __syncthreads();
#endif
    }
    // All-reduce over the team in a fixed order.
    template <class C>
    BK_HD C sum(C mine) const {
        return reduce(mine, Sum{});
    }
    template <class C>
    BK_HD C largest(C mine) const {
        return reduce(mine, Largest{});
    }
    // (keys[j], ~j) of the largest of `count` keys, of equal ones the first.
    BK_HD uint64_t first_largest(const uint32_t* keys, int64_t count) const {
        uint64_t best = 0;
        for (int64_t j = rank; j < count; j += size) {
            const uint64_t key = static_cast<uint64_t>(keys[j]) << 32 | (0xffffffffu - static_cast<uint32_t>(j));
            best = key > best ? key : best;
        }
        return largest(best);
    }

private:
    struct Sum {
        template <class C>
        BK_HD C operator()(C a, C b) const {
            return a + b;
        }
    };
    struct Largest {
        template <class C>
        BK_HD C operator()(C a, C b) const {
            return b > a ? b : a;
        }
    };
    // Shuffles within each warp, then the warps in order.
    template <class C, class Op>
    BK_HD C reduce(C mine, [[maybe_unused]] const Op& op) const {
#if BK_IN_KERNEL
        __shared__ C partial[kMaxTeamThreads / 32];
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) mine = op(mine, shuffle_xor(mine, distance));
        __syncthreads();
        if (rank % 32 == 0) partial[rank / 32] = mine;
        __syncthreads();
        C all = partial[0];
        for (int warp = 1; warp < size / 32; ++warp) all = op(all, partial[warp]);
        return all;
#else
        return mine;
#endif
    }
};

template <class Job>
__global__ void __launch_bounds__(kMaxTeamThreads) team_kernel(const Job job) {
    BK_LAUNCH_SHARED(uint4, team_memory);
    job(Team{team_memory, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)}, int64_t{blockIdx.x});
}

template <class Job>
Status run_teams(const Launch& launch, int64_t items, int64_t bytes, const Job& job, bool has_scratch, int64_t) {
    if (items > kMaxGridX) return fail(Status::kUnsupported, "%lld rows are too many for one launch", (long long)items);
    const unsigned threads = bytes <= 512 ? 32 : bytes <= 2048 ? 128 : kMaxTeamThreads;
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(items)), dim3(threads), 1, has_scratch ? kTeamScratch : 0u},
                         team_kernel<Job>, job);
}

}  // namespace bk
