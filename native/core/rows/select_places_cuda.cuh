// One pass: a block finds the places of a tile, learns how many come before, and writes those that it has, one after
// another. How many come before, a block learns from a chain of all tiles, which lies in a workspace. Without one the
// blocks of a cluster, or one block where chips have none, take tiles in turns and tell each other how many they have
// found.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/cluster.cuh"
#include "core/reduce/shuffle.cuh"
#include "core/rows/block_exchange.cuh"
#include "core/rows/scan_chain.cuh"
#include "core/rows/select_places.h"

namespace bk {

constexpr int kSelectWarps = kChainWarps, kSelectThreads = 32 * kSelectWarps;
// Places of a thread in a tile: 16 kept the chain of tiles, a hop of 12 ns each, busy alone. More of them share the
// time that a block waits, for memory and for the tiles before; of those with few to a vector the vectors are too many
// for the registers.
constexpr int kLeastSelectItems = 32;
template <class Truth>
constexpr int kSelectItems = Truth::kLanes == 16 ? 64 : kLeastSelectItems;

// Without a workspace a block has a multiprocessor to itself, and as many threads as it may have. The places that a
// tile of theirs has fill 32 KiB of the 48 that a kernel need not ask for.
constexpr int kAloneSelectThreads = 1024, kAloneSelectItems = 16, kAloneSelectTile = kAloneSelectThreads * kAloneSelectItems;

struct CountScan {
    using State = int64_t;
    BK_HD int64_t identity() const { return 0; }
    BK_HD int64_t join(int64_t earlier, int64_t later) const { return earlier + later; }
};

struct Counts {
    int before, all;
};

// Of numbers that `lanes` neighbours have, a power of two up to a warp: the sum of the first `rank`, and of all.
BK_DEVICE Counts sum_lanes(int mine, int rank, int lanes) {
    Counts sum{static_cast<int>(threadIdx.x) % lanes < rank ? mine : 0, mine};
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        if (distance >= lanes) break;
        sum.before += shuffle_xor(sum.before, distance);
        sum.all += shuffle_xor(sum.all, distance);
    }
    return sum;
}

// What some of a thread's places of a tile have, those from `from` on, all read before the first is put: half of the
// tile's where they wait for no other tile, of elements that a register holds.
template <class Write, int kThreads, int kItems, class = void>
struct SelectedValues {};

template <class Write, int kThreads, int kItems>
struct SelectedValues<Write, kThreads, kItems, std::enable_if_t<kReads<Write>>> {
    using Value = typename Write::Value;
    static constexpr int kMost = kReadsPlaces<Write> ? kItems / 2 : 16;
    static constexpr int kHeld = kMost / (sizeof(Value) > 4 ? sizeof(Value) / 4 : 1), kStep = kHeld * kThreads;
    Value value[kHeld];

    BK_DEVICE void read(const Write& write, int64_t before, int64_t first, const uint16_t* found, int from, int total) {
#pragma unroll
        for (int i = 0; i < kHeld; ++i) {
            const int k = from + static_cast<int>(threadIdx.x) + i * kThreads;
            if (k < total) value[i] = write.read(before + k, first + found[k]);
        }
    }
    BK_DEVICE void put(const Write& write, int64_t before, int64_t first, const uint16_t* found, int from, int total) const {
#pragma unroll
        for (int i = 0; i < kHeld; ++i) {
            const int k = from + static_cast<int>(threadIdx.x) + i * kThreads;
            if (k < total) write.put(before + k, first + found[k], value[i]);
        }
    }
};

// Of a tile, by all threads of a block. before(total) says how many come before those that the tile has.
template <int kThreads, int kItems, class Truth, class Write, class Before>
BK_DEVICE void select_tile(const Truth& truth, const Write& write, int64_t places, int64_t tile, const Before& before_tile) {
    constexpr int N = Truth::kLanes, U = kItems / N, kWarps = kThreads / 32, kOfWarp = 32 * kItems, kTile = kThreads * kItems;
    __shared__ uint16_t found[kTile];
    __shared__ int of_warp[kWarps];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t first = tile * kTile;
    uint32_t bits[U];
#pragma unroll
    for (int u = 0; u < U; ++u) {
        const int64_t place = first + warp * kOfWarp + (u * 32 + lane) * N, rest = places - place;
        bits[u] = rest > 0 ? truth(place, rest < N ? static_cast<int>(rest) : N) : 0;
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
    if (lane == 0) of_warp[warp] = sum;
    __syncthreads();
    int base = 0, total = 0;
    if constexpr (kWarps < 32) {
#pragma unroll
        for (int w = 0; w < kWarps; ++w) {
            if (w == warp) base = total;
            total += of_warp[w];
        }
    } else {
        const Counts sum = sum_lanes(of_warp[lane], warp, 32);
        base = sum.before;
        total = sum.all;
    }
#pragma unroll
    for (int u = 0; u < U; ++u) {
        const int local = warp * kOfWarp + (u * 32 + lane) * N;
        int at = base + before[u];
#pragma unroll
        for (int k = 0; k < N; ++k)
            if (bits[u] >> k & 1) found[at++] = static_cast<uint16_t>(local + k);
    }
    [[maybe_unused]] SelectedValues<Write, kThreads, kItems> values;
    if constexpr (kReadsPlaces<Write>) {  // which wait for no other tile
        __syncthreads();
        values.read(write, 0, first, found, 0, total);
    }
    const int64_t number = before_tile(total);
    __syncthreads();
    if constexpr (kReads<Write>) {
        for (int from = 0; from < total; from += values.kStep) {
            if (!kReadsPlaces<Write> || from > 0) values.read(write, number, first, found, from, total);
            values.put(write, number, first, found, from, total);
        }
    } else {
        for (int k = static_cast<int>(threadIdx.x); k < total; k += kThreads) write(number + k, first + found[k]);
    }
}

template <class Truth, class Write>
__global__ void __launch_bounds__(kSelectThreads, 4)
    select_kernel(const __grid_constant__ Truth truth, const __grid_constant__ Write write, int64_t places,
                  ScanChain<int64_t> chain) {
    __shared__ uint32_t ticket;
    if (threadIdx.x == 0) ticket = atomicAdd(chain.ticket, 1u);
    __syncthreads();
    const int tile = static_cast<int>(ticket);
    select_tile<kSelectThreads, kSelectItems<Truth>>(truth, write, places, tile, [&](int total) {
        const int64_t before = find_before_in_row(CountScan{}, chain, 0, tile, int64_t{total});
        if (tile == chain.pieces - 1 && threadIdx.x == 0) write.total(before + total);
        return before;
    });
}

template <class Truth, class Write>
__global__ void __launch_bounds__(kAloneSelectThreads)
    select_alone(const __grid_constant__ Truth truth, const __grid_constant__ Write write, int64_t places) {
    __shared__ BlockExchange<int> exchange;
    const int blocks = static_cast<int>(gridDim.x), rank = static_cast<int>(blockIdx.x);
    if (blocks > 1) exchange.open();
    int64_t carry = 0;
    int turn = 0;
    for (int64_t tile = 0; tile * kAloneSelectTile < places; tile += blocks, ++turn) {
        if (turn > 0) __syncthreads();
        int of_turn = 0;
        select_tile<kAloneSelectThreads, kAloneSelectItems>(truth, write, places, tile + rank, [&](int total) {
            const Counts sum = sum_lanes(blocks > 1 ? exchange.share(total, blocks, turn) : total, rank, blocks);
            of_turn = sum.all;
            return carry + sum.before;
        });
        carry += of_turn;
    }
    if (rank == 0 && threadIdx.x == 0) write.total(carry);
}

inline ScanChain<int64_t> carve_selection(Carver* carver, int64_t places, int items) {
    const int64_t tiles = ceil_div<int64_t>(places, kSelectThreads * items);
    return tiles > 1 ? carve_chain<1, int64_t>(carver, 1, tiles) : ScanChain<int64_t>{};
}

inline size_t select_workspace(int64_t places) {
    Carver carver;
    carve_selection(&carver, places, kLeastSelectItems);
    return carver.bytes();
}

template <class Truth, class Write>
Status select_places(const Launch& launch, int64_t places, const Truth& truth, const Write& write) {
    const bool found = workspace_holds(launch, select_workspace(places));
    if (found && places > kSelectThreads * kSelectItems<Truth>) {
        Carver carver(launch.workspace);
        const ScanChain<int64_t> chain = carve_selection(&carver, places, kSelectItems<Truth>);
        BK_TRY(clear_chain(launch, chain));
        const Grid grid{dim3(static_cast<unsigned>(chain.pieces)), dim3(kSelectThreads)};
        return launch_kernel(launch, grid, select_kernel<Truth, Write>, truth, write, places, chain);
    }
    const unsigned blocks = places > kAloneSelectTile ? most_cluster_blocks() : 1;
    return launch_kernel(launch, Grid{dim3(blocks), dim3(kAloneSelectThreads), blocks}, select_alone<Truth, Write>, truth,
                         write, places);
}

}  // namespace bk
