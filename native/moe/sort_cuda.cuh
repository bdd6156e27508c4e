// SPDX-License-Identifier: Apache-2.0
// Counting sort by chunks of pairs, one a warp: counts of each chunk, a scan of each expert's counts over the chunks and of the
// experts' sums, and places. No float, and no atomic: each counter has one writer.
#pragma once

#include "core/abi/launch_cuda.h"
#include "core/collectives/shuffle.cuh"
#include "moe/sort.h"

namespace bk::moe {

constexpr int kSortThreads = 128, kScanThreads = 1024;
constexpr int64_t kLeastChunk = 256, kMaxChunks = 512;  // pairs of a warp; warps

struct Chunks {
    int64_t pairs, count;  // pairs of a chunk

    static Chunks of(int64_t pairs) {
        const int64_t each = std::max(kLeastChunk, ceil_div<int64_t>(ceil_div(pairs, kMaxChunks), 32) * 32);
        return {each, ceil_div(pairs, each)};
    }
};

// Counters of expert e are counters[e * chunks.count + chunk].
struct SortCounters {
    uint32_t* counters;

    static SortCounters carve(Carver* carver, int64_t pairs, int64_t experts) {
        return {carver->take<uint32_t>(experts * Chunks::of(pairs).count)};
    }
};

inline size_t sort_workspace(int64_t pairs, int64_t experts) {
    Carver carver;
    SortCounters::carve(&carver, pairs, experts);
    return carver.bytes();
}

// Advances the warp's counters by the lanes' experts, -1 for none; returns the lane's rank: the counter before, plus the lanes
// with its expert below it. Called by a whole warp.
BK_DEVICE uint32_t advance_counters(uint32_t* counters, int64_t pitch, int32_t expert) {
    const unsigned peers = __match_any_sync(0xffffffffu, expert);
    const unsigned below = peers & ((1u << (threadIdx.x % 32)) - 1);
    uint32_t counted = 0;
    if (expert >= 0) counted = counters[expert * pitch];
    __syncwarp();
    if (expert >= 0 && below == 0) counters[expert * pitch] = counted + static_cast<uint32_t>(__popc(peers));
    __syncwarp();
    return counted + static_cast<uint32_t>(__popc(below));
}

// visit(pair, expert, rank) for the pairs of the warp's chunk; a lane without a pair has pair -1.
template <class Id, class Visit>
BK_DEVICE void visit_chunk(const PairSort<Id>& s, const Chunks& chunks, uint32_t* counters, const Visit& visit) {
    const int64_t chunk = int64_t{blockIdx.x} * (kSortThreads / 32) + threadIdx.x / 32;
    if (chunk >= chunks.count) return;
    const int64_t begin = chunk * chunks.pairs, end = min(begin + chunks.pairs, s.pairs);
    for (int64_t base = begin; base < end; base += 32) {
        const int64_t pair = base + threadIdx.x % 32;
        const int32_t expert = pair < end ? s.expert(pair) : -1;
        const uint32_t rank = advance_counters(counters + chunk, chunks.count, expert);
        visit(pair < end ? pair : -1, expert, rank);
    }
}

template <class Id>
__global__ void __launch_bounds__(kSortThreads) count_pairs_kernel(PairSort<Id> s, Chunks chunks, uint32_t* counters) {
    visit_chunk(s, chunks, counters, [](int64_t, int32_t, uint32_t) {});
}

// Exclusive sum of `mine` over the block; *all has the sum. `shared` has 32 words.
BK_DEVICE uint32_t exclusive_sum(uint32_t mine, uint32_t* shared, uint32_t* all) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    uint32_t sum = mine;
    for (int distance = 1; distance < 32; distance *= 2) {
        const uint32_t other = __shfl_up_sync(0xffffffffu, sum, distance, 32);
        if (lane >= distance) sum += other;
    }
    __syncthreads();
    if (lane == 31) shared[warp] = sum;
    __syncthreads();
    uint32_t before = 0, total = 0;
    for (int w = 0; w < kScanThreads / 32; ++w) {
        before += w < warp ? shared[w] : 0;
        total += shared[w];
    }
    *all = total;
    return before + sum - mine;
}

// offsets of the experts' counts. One block.
BK_DEVICE void store_offsets(const int32_t* counts, int64_t experts, int32_t* offsets, uint32_t* shared) {
    uint32_t before = 0;
    for (int64_t base = 0; base < experts; base += kScanThreads) {
        const int64_t e = base + threadIdx.x;
        uint32_t all = 0;
        const uint32_t own = exclusive_sum(e < experts ? static_cast<uint32_t>(counts[e]) : 0, shared, &all);
        if (e < experts) offsets[e] = static_cast<int32_t>(before + own);
        before += all;
    }
    if (threadIdx.x == 0) offsets[experts] = static_cast<int32_t>(before);
}

// Counters become those of the pairs in earlier chunks. One block.
template <class Id>
__global__ void __launch_bounds__(kScanThreads) scan_counters_kernel(PairSort<Id> s, int64_t chunks, uint32_t* counters) {
    __shared__ uint32_t shared[32];
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int64_t e = threadIdx.x / 32; e < s.experts; e += kScanThreads / 32) {
        uint32_t before = 0;
        for (int64_t base = 0; base < chunks; base += 32) {
            const int64_t chunk = base + lane;
            const uint32_t mine = chunk < chunks ? counters[e * chunks + chunk] : 0;
            uint32_t sum = mine;
            for (int distance = 1; distance < 32; distance *= 2) {
                const uint32_t other = __shfl_up_sync(0xffffffffu, sum, distance, 32);
                if (lane >= distance) sum += other;
            }
            if (chunk < chunks) counters[e * chunks + chunk] = before + sum - mine;
            before += __shfl_sync(0xffffffffu, sum, 31, 32);
        }
        if (lane == 0) s.counts[e] = s.kept(before);
    }
    __syncthreads();
    store_offsets(s.counts, s.experts, s.offsets, shared);
}

template <class Id>
__global__ void __launch_bounds__(kSortThreads) place_pairs_kernel(PairSort<Id> s, Chunks chunks, uint32_t* counters) {
    visit_chunk(s, chunks, counters, [&](int64_t pair, int32_t expert, uint32_t rank) {
        if (pair >= 0) s.place(pair, expert, rank);
    });
    const int64_t step = int64_t{gridDim.x} * kSortThreads;
    for (int64_t p = s.offsets[s.experts] + int64_t{blockIdx.x} * kSortThreads + threadIdx.x; p < s.pairs; p += step)
        s.order[p] = s.expert_of[p] = -1;
}

// The sort without a workspace, by one warp: the experts' counts are its counters.
template <class Id>
__global__ void __launch_bounds__(kScanThreads) sort_alone_kernel(PairSort<Id> s) {
    __shared__ uint32_t shared[32];
    auto* const counters = reinterpret_cast<uint32_t*>(s.counts);
    const int thread = static_cast<int>(threadIdx.x);
    for (int64_t e = thread; e < s.experts; e += kScanThreads) counters[e] = 0;
    __syncthreads();
    for (int64_t base = 0; thread < 32 && base < s.pairs; base += 32)
        advance_counters(counters, 1, base + thread < s.pairs ? s.expert(base + thread) : -1);
    __syncthreads();
    for (int64_t e = thread; e < s.experts; e += kScanThreads) s.counts[e] = s.kept(counters[e]);
    __syncthreads();
    store_offsets(s.counts, s.experts, s.offsets, shared);
    __syncthreads();
    for (int64_t e = thread; e < s.experts; e += kScanThreads) counters[e] = 0;
    __syncthreads();
    for (int64_t base = 0; thread < 32 && base < s.pairs; base += 32) {
        const int64_t pair = base + thread;
        const int32_t expert = pair < s.pairs ? s.expert(pair) : -1;
        const uint32_t rank = advance_counters(counters, 1, expert);
        if (pair < s.pairs) s.place(pair, expert, rank);
    }
    __syncthreads();
    for (int64_t e = thread; e < s.experts; e += kScanThreads) s.counts[e] = s.kept(counters[e]);
    for (int64_t p = int64_t{s.offsets[s.experts]} + thread; p < s.pairs; p += kScanThreads) s.order[p] = s.expert_of[p] = -1;
}

template <class Id>
Status sort_pairs_by_expert(const Launch& launch, const PairSort<Id>& s) {
    if (s.pairs == 0 || s.experts == 0) {
        BK_TRY(fill_bytes(launch, s.offsets, 0, sizeof(int32_t) * static_cast<size_t>(s.experts + 1)));
        int32_t* const dropped[] = {s.order, s.expert_of, s.position};
        for (int k = 0; k < 3 && s.pairs > 0; ++k)
            BK_TRY(fill_bytes(launch, dropped[k], 0xff, sizeof(int32_t) * static_cast<size_t>(s.pairs)));
        return s.experts == 0 ? Status::kOk
                              : fill_bytes(launch, s.counts, 0, sizeof(int32_t) * static_cast<size_t>(s.experts));
    }
    if (!workspace_holds(launch, sort_workspace(s.pairs, s.experts)))
        return launch_kernel(launch, Grid{dim3(1), dim3(kScanThreads)}, sort_alone_kernel<Id>, s);
    const Chunks chunks = Chunks::of(s.pairs);
    Carver carver(launch.workspace);
    uint32_t* const counters = SortCounters::carve(&carver, s.pairs, s.experts).counters;
    const Grid grid{dim3(static_cast<unsigned>(ceil_div<int64_t>(chunks.count, kSortThreads / 32))), dim3(kSortThreads)};
    BK_TRY(fill_bytes(launch, counters, 0, sizeof(uint32_t) * static_cast<size_t>(s.experts * chunks.count)));
    BK_TRY(launch_kernel(launch, grid, count_pairs_kernel<Id>, s, chunks, counters));
    BK_TRY(launch_kernel(launch, Grid{dim3(1), dim3(kScanThreads)}, scan_counters_kernel<Id>, s, chunks.count, counters));
    return launch_kernel(launch, grid, place_pairs_kernel<Id>, s, chunks, counters);
}

}  // namespace bk::moe
