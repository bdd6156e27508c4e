// SPDX-License-Identifier: Apache-2.0
// Deterministic decoupled look-back: the exclusive prefix of each tile while the tiles of a row are scanned
// concurrently.
//
// Tiles take tickets, so that all earlier tiles are running or done. Each tile publishes its aggregate, and combines
// its predecessors' in tile order, never whichever prefix came first: the bits are the same every time. In a single row
// the last tile of a window publishes the prefix of the window after the next, so that a tile reads the aggregates of
// its own window and the one before and waits for values that were published once, not passed on. (Publish and wait
// take about two microseconds on an H200; three such hops held a block for 7 of its 10 microseconds.) In adjacent rows
// the last tile of a window publishes the window's aggregate, and the last of a window of windows the prefix of the
// next one.
//
// A state is published as 64-bit words whose upper half is a ready flag: a reader that sees all flags has the whole
// state, and neither side needs a fence, which would cost more than the look-back (Merrill and Garland, "Single-pass
// Parallel Prefix Scan with Decoupled Look-back", 2016).
#pragma once

#include <cstdint>
#include <cstring>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/platform.h"

namespace bk {

// One chain serves kSlots adjacent rows: 1, or one for each lane.
template <class State>
struct ScanTileStates {
    static constexpr int kWords = sizeof(State) / 4;
    static_assert(sizeof(State) % 4 == 0, "a state is words");
    uint32_t* ticket = nullptr;     // the next tile's; null: rows are scanned whole
    uint64_t* published = nullptr;  // [group of rows][entry][word of a state][slot]
    int64_t size = 0;               // 64-bit words with the ticket's; all 0 at first
    uint32_t groups = 0;
    int tiles = 0, windows = 0, entries = 0;  // per row; entries: tiles, windows, windows of windows
};

constexpr int kLookbackWarps = 8;
template <int kSlots>
constexpr int kLookbackWindow = kSlots == 1 ? 32 * kLookbackWarps : kLookbackWarps;

template <int kSlots, class State>
ScanTileStates<State> carve_tile_states(Carver* carver, uint32_t groups, int64_t tiles) {
    ScanTileStates<State> chain;
    chain.groups = groups;
    chain.tiles = static_cast<int>(tiles);
    chain.windows = static_cast<int>(ceil_div<int64_t>(tiles, kLookbackWindow<kSlots>));
    chain.entries = chain.tiles + chain.windows + (kSlots == 1 ? 0 : ceil_div(chain.windows, kLookbackWindow<kSlots>));
    chain.size = 1 + int64_t{groups} * chain.entries * kSlots * chain.kWords;
    uint64_t* const words = carver->take<uint64_t>(chain.size);
    if (words == nullptr) return chain;  // measuring only
    chain.ticket = reinterpret_cast<uint32_t*>(words);
    chain.published = words + 1;
    return chain;
}

template <class State>
Status clear_tile_states(const Launch& launch, const ScanTileStates<State>& chain) {
    return fill_bytes(launch, chain.ticket, 0, sizeof(uint64_t) * static_cast<size_t>(chain.size));
}

template <class State, class Exchange>
BK_DEVICE State exchange_words(const State& x, const Exchange& exchange) {
    static_assert(sizeof(State) % 4 == 0, "lanes exchange words");
    uint32_t word[sizeof(State) / 4];
    memcpy(word, &x, sizeof(State));
#pragma unroll
    for (int w = 0; w < static_cast<int>(sizeof(State) / 4); ++w) word[w] = exchange(word[w]);
    State result;
    memcpy(&result, word, sizeof(State));
    return result;
}

// x of the lane `distance` below within `width` lanes; its own where there is none.
template <class State>
BK_DEVICE State state_shuffle_up(const State& x, int distance, int width) {
    return exchange_words(x, [=](uint32_t word) { return __shfl_up_sync(0xffffffffu, word, distance, width); });
}

template <class State>
BK_DEVICE State state_from_last_lane(const State& x, int width) {
    return exchange_words(x, [=](uint32_t word) { return __shfl_sync(0xffffffffu, word, width - 1, width); });
}

// The inclusive prefix over `width` lanes; `at` is the lane's index among them.
template <class S, class State = typename S::State>
BK_DEVICE State warp_inclusive_scan(const S& scan, State state, int at, int width) {
#pragma unroll 1
    for (int distance = 1; distance < width; distance *= 2) {
        const State below = state_shuffle_up(state, distance, width);
        if (at >= distance) state = scan.combine(below, state);
    }
    return state;
}

// Called by a whole warp: publishes lane 0's state, or that of every lane.
template <int kSlots, class State>
BK_DEVICE void publish(const ScanTileStates<State>& chain, int64_t entry, int lane, const State& state) {
    constexpr int kWords = ScanTileStates<State>::kWords;
    if (kSlots == 1 && lane > 0) return;
    uint32_t word[kWords];
    memcpy(word, &state, sizeof(State));
    volatile uint64_t* const published = chain.published + entry * kWords * kSlots + (kSlots > 1 ? lane : 0);
#pragma unroll
    for (int w = 0; w < kWords; ++w) published[w * kSlots] = uint64_t{1} << 32 | word[w];
}

// Spins until every word of the entry carries its flag.
template <int kSlots, class State>
BK_DEVICE State wait_published(const ScanTileStates<State>& chain, int64_t entry, int slot) {
    constexpr int kWords = ScanTileStates<State>::kWords;
    const volatile uint64_t* const published = chain.published + entry * kWords * kSlots + slot;
    uint32_t word[kWords];
    bool is_ready;
    do {
        uint64_t loaded[kWords];
#pragma unroll
        for (int w = 0; w < kWords; ++w) loaded[w] = published[w * kSlots];
        is_ready = true;
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
            is_ready &= loaded[w] >> 32 != 0;
            word[w] = static_cast<uint32_t>(loaded[w]);
        }
    } while (!is_ready);
    State state;
    memcpy(&state, word, sizeof(State));
    return state;
}

// Combines `count` entries from `entry` on, one a lane, in order; all lanes get the result.
template <class S, class State = typename S::State>
BK_DEVICE State wait_window(const S& scan, const ScanTileStates<State>& chain, int64_t entry, int count, int lane) {
    const State state = lane < count ? wait_published<1>(chain, entry + lane, 0) : scan.identity();
    return state_from_last_lane(warp_inclusive_scan(scan, state, lane, 32), 32);
}

// The exclusive prefix of `tile` in one row. Called by all threads of a block, each with the same `aggregate`.
template <class S, class State = typename S::State>
BK_DEVICE State exclusive_prefix_in_row(const S& scan, const ScanTileStates<State>& chain, uint32_t row, int tile,
                                        const State& aggregate) {
    constexpr int window_size = kLookbackWindow<1>;
    __shared__ State loaded[2][kLookbackWarps], earlier_windows;  // of the previous and the current window; before both
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int window = tile / window_size, index_in_window = tile % window_size;
    const int64_t first = int64_t{row} * chain.entries, warp_first = first + window * window_size + 32 * warp;
    if (warp == 0) publish<1>(chain, first + tile, lane, aggregate);
    const State previous = wait_window(scan, chain, warp_first - window_size, window > 0 ? 32 : 0, lane);
    const State current = wait_window(scan, chain, warp_first, index_in_window - 32 * warp, lane);
    if (lane == 0) {
        loaded[0][warp] = previous;
        loaded[1][warp] = current;
        if (warp == kLookbackWarps - 1)
            earlier_windows = window > 1 ? wait_published<1>(chain, first + chain.tiles + window, 0) : scan.identity();
    }
    __syncthreads();
    State before = earlier_windows;
#pragma unroll
    for (int w = 0; w < 2 * kLookbackWarps; ++w) before = scan.combine(before, loaded[w / kLookbackWarps][w % kLookbackWarps]);
    if (warp == 0 && index_in_window == window_size - 1 && window + 2 < chain.windows)
        publish<1>(chain, first + chain.tiles + window + 2, lane, scan.combine(before, aggregate));
    return before;
}

// The exclusive prefix of `tile` in each lane's row. `shared` is scratch that nothing else uses meanwhile.
template <class S, class State = typename S::State>
BK_DEVICE State exclusive_prefix_in_rows(const S& scan, const ScanTileStates<State>& chain, uint32_t group, int tile,
                                         const State& aggregate, State (&shared)[kLookbackWarps][32]) {
    constexpr int window_size = kLookbackWindow<32>;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int window = tile / window_size, index_in_window = tile % window_size, super_window = window / window_size,
              index_in_super_window = window % window_size;
    const int64_t first = int64_t{group} * chain.entries, windows = first + chain.tiles,
                  super_windows = windows + chain.windows;
    const bool ends_window = index_in_window == window_size - 1,
               ends_super_window = ends_window && index_in_super_window == window_size - 1;
    if (warp == 0) publish<32>(chain, first + tile, lane, aggregate);
    shared[warp][lane] =
        warp < index_in_window ? wait_published<32>(chain, first + tile - index_in_window + warp, lane) : scan.identity();
    __syncthreads();
    State in_window = shared[0][lane];
    for (int w = 1; w < kLookbackWarps; ++w) in_window = scan.combine(in_window, shared[w][lane]);
    if (warp == 0 && ends_window) publish<32>(chain, windows + window, lane, scan.combine(in_window, aggregate));
    __syncthreads();
    State loaded = scan.identity();  // at most kLookbackWarps - 1 windows; the last warp reads above them
    if (warp < index_in_super_window) loaded = wait_published<32>(chain, windows + window - index_in_super_window + warp, lane);
    if (warp == kLookbackWarps - 1 && super_window > 0) loaded = wait_published<32>(chain, super_windows + super_window, lane);
    shared[warp][lane] = loaded;
    __syncthreads();
    State before = shared[kLookbackWarps - 1][lane];
    for (int w = 0; w + 1 < kLookbackWarps; ++w) before = scan.combine(before, shared[w][lane]);
    if (warp == 0 && ends_super_window && tile + 1 < chain.tiles)
        publish<32>(chain, super_windows + super_window + 1, lane, scan.combine(before, scan.combine(in_window, aggregate)));
    return scan.combine(before, in_window);
}

}  // namespace bk
