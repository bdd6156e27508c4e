#pragma once

#include <algorithm>
#include <cstdint>

#include "core/reduce/shuffle.cuh"
#include "core/rows/team.h"

namespace bk {

constexpr int kMostTeamThreads = 256;

struct Team {
    void* scratch;
    int rank, size;
    BK_HD void sync() const {
#if BK_IN_KERNEL
        __syncthreads();
#endif
    }
    // The sum, or the largest number, over the threads of a team, in a fixed order; all of them get it.
    template <class C>
    BK_HD C sum(C mine) const {
        return fold(mine, Sum{});
    }
    template <class C>
    BK_HD C largest(C mine) const {
        return fold(mine, Largest{});
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
    // Of each warp by shuffles, then of the warps one after another.
    template <class C, class Fold>
    BK_HD C fold(C mine, const Fold& both) const {
#if BK_IN_KERNEL
        __shared__ C part[kMostTeamThreads / 32];
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) mine = both(mine, shuffle_xor(mine, distance));
        __syncthreads();
        if (rank % 32 == 0) part[rank / 32] = mine;
        __syncthreads();
        C all = part[0];
        for (int warp = 1; warp < size / 32; ++warp) all = both(all, part[warp]);
        return all;
#else
        return mine;
#endif
    }
};

template <class Job>
__global__ void __launch_bounds__(kMostTeamThreads) team_kernel(const Job job) {
    BK_LAUNCH_SHARED(uint4, scratch);
    job(Team{scratch, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)}, int64_t{blockIdx.x});
}

template <class Job>
Status run_teams(const Launch& launch, int64_t items, int64_t bytes, const Job& job, bool has_scratch, int64_t) {
    if (items > kMaxGridX) return fail(Status::kUnsupported, "%lld rows are too many for one launch", (long long)items);
    const unsigned threads = bytes <= 512 ? 32 : bytes <= 2048 ? 128 : kMostTeamThreads;
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(items)), dim3(threads), 1, has_scratch ? kTeamScratch : 0u},
                         team_kernel<Job>, job);
}

}  // namespace bk
