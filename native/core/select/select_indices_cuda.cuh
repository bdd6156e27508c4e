// SPDX-License-Identifier: Apache-2.0
// GPU select in one pass: a block tests a tile, gets the tile's exclusive prefix by deterministic look-back
// (core/scan/scan_lookback.cuh) in the workspace, and writes its selected indices in order. Without a workspace the blocks
// of one cluster, or a single block on chips without clusters, take tiles round-robin and exchange their counts.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/collectives/block_exchange.cuh"
#include "core/collectives/shuffle.cuh"
#include "core/intrinsics/cluster.cuh"
#include "core/scan/scan_lookback.cuh"
#include "core/select/select_indices.h"

namespace bk {

constexpr int kSelectWarps = kLookbackWarps, kSelectThreads = 32 * kSelectWarps;
// Items per thread: with 16 the look-back, 12 ns a hop, was the bottleneck. More items amortise a block's waits for
// memory and for earlier tiles; predicates with few lanes a vector would run out of registers.
constexpr int kMinSelectItems = 32;
template <class Predicate>
constexpr int kSelectItems = Predicate::kLanes == 16 ? 64 : kMinSelectItems;

// Without a workspace a block has an SM to itself and the most threads. The tile's selected indices take 32 KiB of the
// 48 KiB of shared memory that need no opt-in.
constexpr int kClusterSelectThreads = 1024, kClusterSelectItems = 16,
              kClusterSelectTile = kClusterSelectThreads * kClusterSelectItems;

struct CountScan {
    using State = int64_t;
    BK_HD int64_t identity() const { return 0; }
    BK_HD int64_t combine(int64_t earlier, int64_t later) const { return earlier + later; }
};

struct Counts {
    int before, all;
};

// Sums over `lanes` adjacent lanes, a power of two up to 32: of the first `rank` values, and of all.
BK_DEVICE Counts sum_lanes(int value, int rank, int lanes) {
    Counts sum{static_cast<int>(threadIdx.x) % lanes < rank ? value : 0, value};
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        if (distance >= lanes) break;
        sum.before += shuffle_xor(sum.before, distance);
        sum.all += shuffle_xor(sum.all, distance);
    }
    return sum;
}

// Values of a thread's selected indices from `from` on, all read before the first is put: half of the tile's if reads
// do not depend on other tiles, as many as fit registers.
template <class Sink, int kThreads, int kItems, class = void>
struct SelectedValues {};

template <class Sink, int kThreads, int kItems>
struct SelectedValues<Sink, kThreads, kItems, std::enable_if_t<kReadsValue<Sink>>> {
    using Value = typename Sink::Value;
    static constexpr int kMaxCached = kReadsIndexOnly<Sink> ? kItems / 2 : 16;
    static constexpr int kCached = kMaxCached / (sizeof(Value) > 4 ? sizeof(Value) / 4 : 1), kStep = kCached * kThreads;
    Value value[kCached];

    BK_DEVICE void read(const Sink& sink, int64_t before, int64_t first, const uint16_t* selected, int from, int total) {
#pragma unroll
        for (int i = 0; i < kCached; ++i) {
            const int k = from + static_cast<int>(threadIdx.x) + i * kThreads;
            if (k < total) value[i] = sink.read(before + k, first + selected[k]);
        }
    }
    BK_DEVICE void put(const Sink& sink, int64_t before, int64_t first, const uint16_t* selected, int from, int total) const {
#pragma unroll
        for (int i = 0; i < kCached; ++i) {
            const int k = from + static_cast<int>(threadIdx.x) + i * kThreads;
            if (k < total) sink.put(before + k, first + selected[k], value[i]);
        }
    }
};

// Selects one tile, by all threads of a block. before_tile(total) returns the tile's exclusive prefix.
template <int kThreads, int kItems, class Predicate, class Sink, class Before>
BK_DEVICE void select_tile(const Predicate& predicate, const Sink& sink, int64_t count, int64_t tile,
                           const Before& before_tile) {
    constexpr int N = Predicate::kLanes, U = kItems / N, kWarps = kThreads / 32, kWarpItems = 32 * kItems,
                  kTile = kThreads * kItems;
    __shared__ uint16_t selected[kTile];
    __shared__ int warp_counts[kWarps];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t first = tile * kTile;
    uint32_t bits[U];
#pragma unroll
    for (int u = 0; u < U; ++u) {
        const int64_t index = first + warp * kWarpItems + (u * 32 + lane) * N, remaining = count - index;
        bits[u] = remaining > 0 ? predicate(index, remaining < N ? static_cast<int>(remaining) : N) : 0;
    }
    int before[U], sum = 0;
#pragma unroll
    for (int u = 0; u < U; ++u) {
        const uint32_t own = static_cast<uint32_t>(__popc(bits[u]));
        uint32_t through = own;
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const uint32_t below = __shfl_up_sync(0xffffffffu, through, distance, 32);
            if (lane >= distance) through += below;
        }
        before[u] = sum + static_cast<int>(through - own);
        sum += static_cast<int>(__shfl_sync(0xffffffffu, through, 31, 32));
    }
    if (lane == 0) warp_counts[warp] = sum;
    __syncthreads();
    int base = 0, total = 0;
    if constexpr (kWarps < 32) {
#pragma unroll
        for (int w = 0; w < kWarps; ++w) {
            if (w == warp) base = total;
            total += warp_counts[w];
        }
    } else {
        const Counts sum = sum_lanes(warp_counts[lane], warp, 32);
        base = sum.before;
        total = sum.all;
    }
#pragma unroll
    for (int u = 0; u < U; ++u) {
        const int local = warp * kWarpItems + (u * 32 + lane) * N;
        int at = base + before[u];
#pragma unroll
        for (int k = 0; k < N; ++k)
            if (bits[u] >> k & 1) selected[at++] = static_cast<uint16_t>(local + k);
    }
    [[maybe_unused]] SelectedValues<Sink, kThreads, kItems> values;
    if constexpr (kReadsIndexOnly<Sink>) {  // independent of other tiles
        __syncthreads();
        values.read(sink, 0, first, selected, 0, total);
    }
    const int64_t tile_rank = before_tile(total);
    if constexpr (kTakesRanks<Sink>) {
        if (sink.takes_ranks()) {
#pragma unroll
            for (int u = 0; u < U; ++u) {
                const int64_t index = first + warp * kWarpItems + (u * 32 + lane) * N, rank = tile_rank + base + before[u];
#pragma unroll
                for (int k = 0; k < N; ++k)
                    if (index + k < count) sink.ranked(index + k, rank + __popc(bits[u] & ((2u << k) - 1)));
            }
        }
    }
    __syncthreads();
    if constexpr (kReadsValue<Sink>) {
        for (int from = 0; from < total; from += values.kStep) {
            if (!kReadsIndexOnly<Sink> || from > 0) values.read(sink, tile_rank, first, selected, from, total);
            values.put(sink, tile_rank, first, selected, from, total);
        }
    } else {
        for (int k = static_cast<int>(threadIdx.x); k < total; k += kThreads) sink(tile_rank + k, first + selected[k]);
    }
}

template <class Predicate, class Sink>
__global__ void __launch_bounds__(kSelectThreads, 4)
    select_kernel(const __grid_constant__ Predicate predicate, const __grid_constant__ Sink sink, int64_t count,
                  ScanTileStates<int64_t> chain) {
    __shared__ uint32_t ticket;
    if (threadIdx.x == 0) ticket = atomicAdd(chain.ticket, 1u);
    __syncthreads();
    const int tile = static_cast<int>(ticket);
    select_tile<kSelectThreads, kSelectItems<Predicate>>(predicate, sink, count, tile, [&](int total) {
        const int64_t before = exclusive_prefix_in_row(CountScan{}, chain, 0, tile, int64_t{total});
        if (tile == chain.tiles - 1 && threadIdx.x == 0) sink.total(before + total);
        return before;
    });
}

template <class Predicate, class Sink>
__global__ void __launch_bounds__(kClusterSelectThreads)
    select_cluster_kernel(const __grid_constant__ Predicate predicate, const __grid_constant__ Sink sink, int64_t count) {
    __shared__ BlockExchange<int> exchange;
    const int blocks = static_cast<int>(gridDim.x), rank = static_cast<int>(blockIdx.x);
    if (blocks > 1) exchange.open();
    int64_t carry = 0;
    int iteration = 0;
    for (int64_t tile = 0; tile * kClusterSelectTile < count; tile += blocks, ++iteration) {
        if (iteration > 0) __syncthreads();
        int iteration_total = 0;
        select_tile<kClusterSelectThreads, kClusterSelectItems>(predicate, sink, count, tile + rank, [&](int total) {
            const Counts sum = sum_lanes(blocks > 1 ? exchange.share(total, blocks, iteration) : total, rank, blocks);
            iteration_total = sum.all;
            return carry + sum.before;
        });
        carry += iteration_total;
    }
    if (rank == 0 && threadIdx.x == 0) sink.total(carry);
}

inline ScanTileStates<int64_t> carve_selection(Carver* carver, int64_t count, int items) {
    const int64_t tiles = ceil_div<int64_t>(count, kSelectThreads * items);
    return tiles > 1 ? carve_tile_states<1, int64_t>(carver, 1, tiles) : ScanTileStates<int64_t>{};
}

inline size_t select_workspace(int64_t count) {
    Carver carver;
    carve_selection(&carver, count, kMinSelectItems);
    return carver.bytes();
}

template <class Predicate, class Sink>
Status select_indices(const Launch& launch, int64_t count, const Predicate& predicate, const Sink& sink) {
    const bool has_workspace = workspace_holds(launch, select_workspace(count));
    if (has_workspace && count > kSelectThreads * kSelectItems<Predicate>) {
        Carver carver(launch.workspace);
        const ScanTileStates<int64_t> chain = carve_selection(&carver, count, kSelectItems<Predicate>);
        BK_TRY(clear_tile_states(launch, chain));
        const Grid grid{dim3(static_cast<unsigned>(chain.tiles)), dim3(kSelectThreads)};
        return launch_kernel(launch, grid, select_kernel<Predicate, Sink>, predicate, sink, count, chain);
    }
    const unsigned blocks = count > kClusterSelectTile ? most_cluster_blocks() : 1;
    return launch_kernel(launch, Grid{dim3(blocks), dim3(kClusterSelectThreads), blocks},
                         select_cluster_kernel<Predicate, Sink>, predicate, sink, count);
}

}  // namespace bk
