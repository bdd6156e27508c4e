// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/collectives/shuffle.cuh"
#include "linalg/team.h"

namespace bk::linalg {

constexpr int kBlockThreads = 128;  // of a block that several teams share
constexpr int kMostTeamThreads = 512;

// A team is a power of two threads of a warp, or a block. `lanes` threads, of one warp, share a column.
struct MatrixTeam {
    int rank, size;
    int lane, lanes, group, groups;

    BK_DEVICE static MatrixTeam of(int size) {
        const int rank = static_cast<int>(threadIdx.x) % size, lanes = size < 32 ? size : 32;
        return {rank, size, rank % lanes, lanes, rank / lanes, size / lanes};
    }
    BK_DEVICE unsigned mask() const {
        return lanes == 32 ? 0xffffffffu : ((1u << lanes) - 1) << (threadIdx.x % 32 & ~(static_cast<unsigned>(lanes) - 1));
    }
    BK_DEVICE void sync_lanes() const { __syncwarp(mask()); }
    BK_DEVICE void sync() const {
        if (size > 32)
            __syncthreads();
        else
            __syncwarp(mask());
    }
    // Sums in a fixed order, which every thread gets.
    template <class S>
    BK_DEVICE S sum_of_lanes(S mine) const {
        for (int distance = 1; distance < lanes; distance *= 2) mine = mine + from(mine, distance);
        return mine;
    }
    template <class S>
    BK_DEVICE S sum(S mine) const {
        mine = sum_of_lanes(mine);
        if (size <= 32) return mine;
        __shared__ char memory[kMostTeamThreads / 32 * sizeof(S)] __attribute__((aligned(16)));
        S* const partial = reinterpret_cast<S*>(memory);
        __syncthreads();
        if (lane == 0) partial[group] = mine;
        __syncthreads();
        S all = partial[0];
        for (int g = 1; g < groups; ++g) all = all + partial[g];
        return all;
    }
    template <class R>
    BK_DEVICE void find_largest(R& value, int64_t& index) const {
        Candidate<R> mine{value, index};
        for (int distance = 1; distance < lanes; distance *= 2) mine = better(mine, from(mine, distance));
        if (size > 32) {
            __shared__ Candidate<R> partial[kMostTeamThreads / 32];
            __syncthreads();
            if (lane == 0) partial[group] = mine;
            __syncthreads();
            mine = partial[0];
            for (int g = 1; g < groups; ++g) mine = better(mine, partial[g]);
        }
        value = mine.value;
        index = mine.index;
    }

private:
    template <class R>
    struct Candidate {
        R value;
        int64_t index;
    };
    template <class R>
    BK_DEVICE static Candidate<R> better(const Candidate<R>& a, const Candidate<R>& b) {
        const bool takes_b = b.value > a.value || (b.value == a.value && b.index < a.index);
        return takes_b ? b : a;
    }
    template <class V>
    BK_DEVICE V from(const V& mine, int distance) const {
        const unsigned with = mask();
        return shuffle_words(mine, [=](uint32_t word) { return __shfl_xor_sync(with, word, distance); });
    }
};

template <class Job>
__global__ void __launch_bounds__(kMostTeamThreads, 1)
    matrices_kernel(const __grid_constant__ Job job, int64_t items, int team_size, int64_t slot_step, char* slots) {
    BK_LAUNCH_SHARED(uint4, fast);
    const MatrixTeam team = MatrixTeam::of(team_size);
    const int teams = static_cast<int>(blockDim.x) / team_size, number = static_cast<int>(threadIdx.x) / team_size;
    const int64_t item = int64_t{blockIdx.x} * teams + number;
    if (item >= items) return;
    job(team, item, slots != nullptr ? slots + item * slot_step : reinterpret_cast<char*>(fast) + number * slot_step);
}

template <class Job>
Status run_matrices(const Launch& launch, int64_t items, int64_t extent, int64_t slot_bytes, void* workspace, int64_t,
                    const Job& job) {
    if (items == 0) return Status::kOk;
    int size = 1;
    while (size < 32 && size < extent) size *= 2;
    if (extent > 32) size = extent <= 128 ? 128 : extent <= 1024 ? 256 : kMostTeamThreads;
    const bool fast = is_fast(slot_bytes);
    int teams = size >= kBlockThreads ? 1 : kBlockThreads / size;
    const int whole = size >= 32 ? 1 : 32 / size;  // teams of a warp
    const int64_t step = fast ? slot_bytes : (slot_bytes + 63) / 64 * 64;
    while (fast && teams > whole && teams * step > kDefaultSharedBytes / 2) teams /= 2;
    while (fast && teams > 1 && teams * step > kFastBytes) teams /= 2;
    const int64_t blocks = ceil_div<int64_t>(items, teams);
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld matrices are too many for one launch", static_cast<long long>(items));
    const unsigned shared = fast ? static_cast<unsigned>(teams * step) : 0u;
    return launch_kernel(launch,
                         Grid{dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(teams * size)), 1, shared},
                         matrices_kernel<Job>, job, items, size, step, fast ? nullptr : static_cast<char*>(workspace));
}

}  // namespace bk::linalg
