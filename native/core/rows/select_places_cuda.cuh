// One pass: a block finds the places of a tile, learns from a chain how many come before, and writes those that it has, one
// after another. Without a workspace for the chain one block takes all tiles.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/rows/scan_chain.cuh"
#include "core/rows/select_places.h"

namespace bk {

constexpr int kSelectWarps = kChainWarps, kSelectThreads = 32 * kSelectWarps;
// Places of a thread in a tile: 16 kept the chain of tiles, a hop of 12 ns each, busy alone. More of them share the time that a
// block waits, for memory and for the tiles before; of those with few to a vector the vectors are too many for the registers.
constexpr int kLeastSelectItems = 32;
template <class Truth>
constexpr int kSelectItems = Truth::kLanes == 16 ? 64 : kLeastSelectItems;

struct CountScan {
    using State = int64_t;
    BK_HD int64_t identity() const { return 0; }
    BK_HD int64_t join(int64_t earlier, int64_t later) const { return earlier + later; }
};

// What some of a thread's places of a tile have, those from `from` on, all read before the first is put: half of the tile's
// where they wait for no other tile, of elements that a register holds.
template <class Write, int kItems, class = void>
struct SelectedValues {};

template <class Write, int kItems>
struct SelectedValues<Write, kItems, std::enable_if_t<kReads<Write>>> {
    using Value = typename Write::Value;
    static constexpr int kMost = kReadsPlaces<Write> ? kItems / 2 : 16;
    static constexpr int kHeld = kMost / (sizeof(Value) > 4 ? sizeof(Value) / 4 : 1), kStep = kHeld * kSelectThreads;
    Value value[kHeld];

    BK_DEVICE void read(const Write& write, int64_t before, int64_t first, const uint16_t* found, int from, int total) {
#pragma unroll
        for (int i = 0; i < kHeld; ++i) {
            const int k = from + static_cast<int>(threadIdx.x) + i * kSelectThreads;
            if (k < total) value[i] = write.read(before + k, first + found[k]);
        }
    }
    BK_DEVICE void put(const Write& write, int64_t before, int64_t first, const uint16_t* found, int from, int total) const {
#pragma unroll
        for (int i = 0; i < kHeld; ++i) {
            const int k = from + static_cast<int>(threadIdx.x) + i * kSelectThreads;
            if (k < total) write.put(before + k, first + found[k], value[i]);
        }
    }
};

template <class Truth, class Write>
__global__ void __launch_bounds__(kSelectThreads, 4)
    select_kernel(const __grid_constant__ Truth truth, const __grid_constant__ Write write, int64_t places,
                  ScanChain<int64_t> chain) {
    constexpr int N = Truth::kLanes, kItems = kSelectItems<Truth>, U = kItems / N, kTile = kSelectThreads * kItems;
    __shared__ uint16_t found[kTile];
    __shared__ int of_warp[kSelectWarps];
    __shared__ uint32_t ticket;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t tile = 0, carry = 0;
    if (chain.ticket != nullptr) {
        if (threadIdx.x == 0) ticket = atomicAdd(chain.ticket, 1u);
        __syncthreads();
        tile = ticket;
    }
    for (;; ++tile) {
        const int64_t first = tile * kTile;
        uint32_t bits[U];
#pragma unroll
        for (int u = 0; u < U; ++u) {
            const int64_t place = first + warp * (kTile / kSelectWarps) + (u * 32 + lane) * N, rest = places - place;
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
#pragma unroll
        for (int w = 0; w < kSelectWarps; ++w) {
            if (w == warp) base = total;
            total += of_warp[w];
        }
#pragma unroll
        for (int u = 0; u < U; ++u) {
            const int local = warp * (kTile / kSelectWarps) + (u * 32 + lane) * N;
            int at = base + before[u];
#pragma unroll
            for (int k = 0; k < N; ++k)
                if (bits[u] >> k & 1) found[at++] = static_cast<uint16_t>(local + k);
        }
        [[maybe_unused]] SelectedValues<Write, kItems> values;
        if constexpr (kReadsPlaces<Write>) {  // which wait for no other tile
            __syncthreads();
            values.read(write, 0, first, found, 0, total);
        }
        if (chain.ticket != nullptr) carry = find_before_in_row(CountScan{}, chain, 0, static_cast<int>(tile), int64_t{total});
        __syncthreads();
        if constexpr (kReads<Write>) {
            for (int from = 0; from < total; from += values.kStep) {
                if (!kReadsPlaces<Write> || from > 0) values.read(write, carry, first, found, from, total);
                values.put(write, carry, first, found, from, total);
            }
        } else {
            for (int k = static_cast<int>(threadIdx.x); k < total; k += kSelectThreads) write(carry + k, first + found[k]);
        }
        const bool is_last = first + kTile >= places;
        if (is_last && threadIdx.x == 0) write.total(carry + total);
        if (is_last || chain.ticket != nullptr) return;
        carry += total;
        __syncthreads();
    }
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
    bool found = false;
    BK_TRY(find_workspace(launch, select_workspace(places), &found));
    ScanChain<int64_t> chain;
    unsigned blocks = 1;
    if (found && places > kSelectThreads * kSelectItems<Truth>) {
        Carver carver(launch.workspace);
        chain = carve_selection(&carver, places, kSelectItems<Truth>);
        blocks = static_cast<unsigned>(chain.pieces);
        BK_TRY(clear_chain(launch, chain));
    }
    return launch_kernel(launch, Grid{dim3(blocks), dim3(kSelectThreads)}, select_kernel<Truth, Write>, truth, write, places,
                         chain);
}

}  // namespace bk
