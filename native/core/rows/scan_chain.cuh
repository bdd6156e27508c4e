// What comes before a piece of a row, when its pieces are scanned by blocks at the same time.
//
// Pieces take tickets, so that those before one are under way or done. Each leaves what it comes to, and a piece joins what it
// finds in the order of the pieces, whatever was there first: the bits are the same every time. Of a single row the last of a
// batch of pieces leaves what comes before the one after the next batch, so that a piece looks at those of its own batch and of
// the one before: what it waits for has been left once, not passed on. (To leave and to find takes about two microseconds on an
// H200; three such steps held a block for 7 of the 10 that it was there.) Of rows side by side, the last of a batch leaves what
// the batch comes to, and the last of a batch of batches what comes before the next one.
//
// What is left goes as words of 64 bits, of which one half is a mark that it is there: a reader that sees the marks of all
// words has the whole state, and neither side needs a fence, whose wait would be longer than the look itself (the words of
// the decoupled look-back of Merrill and Garland, 2016, have such marks).
#pragma once

#include <cstdint>
#include <cstring>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/platform.h"

namespace bk {

// `kSlots` rows side by side have a chain together: 1, or one for each lane.
template <class State>
struct ScanChain {
    static constexpr int kWords = sizeof(State) / 4;
    static_assert(sizeof(State) % 4 == 0, "a state is words");
    uint32_t* ticket = nullptr;  // of the next piece; null where rows are scanned whole
    uint64_t* left = nullptr;    // [group of rows][node][word of a state][slot]
    int64_t size = 0;            // words of 64 bits of the ticket and of all that is left, which are 0 at first
    uint32_t groups = 0;
    int pieces = 0, batches = 0, nodes = 0;  // of a row; nodes are the pieces, the batches and, side by side, their batches
};

constexpr int kChainWarps = 8;  // of a block
template <int kSlots>
constexpr int kFan = kSlots == 1 ? 32 * kChainWarps : kChainWarps;  // threads, or warps, that look for what was left

template <int kSlots, class State>
ScanChain<State> carve_chain(Carver* carver, uint32_t groups, int64_t pieces) {
    ScanChain<State> chain;
    chain.groups = groups;
    chain.pieces = static_cast<int>(pieces);
    chain.batches = static_cast<int>(ceil_div<int64_t>(pieces, kFan<kSlots>));
    chain.nodes = chain.pieces + chain.batches + (kSlots == 1 ? 0 : ceil_div(chain.batches, kFan<kSlots>));
    chain.size = 1 + int64_t{groups} * chain.nodes * kSlots * chain.kWords;
    uint64_t* const words = carver->take<uint64_t>(chain.size);
    if (words == nullptr) return chain;  // measured, not taken
    chain.ticket = reinterpret_cast<uint32_t*>(words);
    chain.left = words + 1;
    return chain;
}

template <class State>
Status clear_chain(const Launch& launch, const ScanChain<State>& chain) {
    return fill_bytes(launch, chain.ticket, 0, sizeof(uint64_t) * static_cast<size_t>(chain.size));
}

// x of another lane.
template <class State, class Exchange>
BK_DEVICE State exchanged(const State& x, const Exchange& exchange) {
    static_assert(sizeof(State) % 4 == 0, "lanes exchange words");
    uint32_t word[sizeof(State) / 4];
    memcpy(word, &x, sizeof(State));
#pragma unroll
    for (int w = 0; w < static_cast<int>(sizeof(State) / 4); ++w) word[w] = exchange(word[w]);
    State result;
    memcpy(&result, word, sizeof(State));
    return result;
}

// x of the lane `distance` below among `width`; its own where there is none.
template <class State>
BK_DEVICE State lane_below(const State& x, int distance, int width) {
    return exchanged(x, [=](uint32_t word) { return __shfl_up_sync(0xffffffffu, word, distance, width); });
}

template <class State>
BK_DEVICE State last_lane(const State& x, int width) {
    return exchanged(x, [=](uint32_t word) { return __shfl_sync(0xffffffffu, word, width - 1, width); });
}

// What the lanes up to this one have, joined.
template <class S, class State = typename S::State>
BK_DEVICE State join_lanes(const S& scan, State state, int at, int width) {
#pragma unroll 1
    for (int distance = 1; distance < width; distance *= 2) {
        const State below = lane_below(state, distance, width);
        if (at >= distance) state = scan.join(below, state);
    }
    return state;
}

// By a whole warp: of its lanes' states one, or all.
template <int kSlots, class State>
BK_DEVICE void leave(const ScanChain<State>& chain, int64_t node, int lane, const State& state) {
    constexpr int kWords = ScanChain<State>::kWords;
    if (kSlots == 1 && lane > 0) return;
    uint32_t word[kWords];
    memcpy(word, &state, sizeof(State));
    volatile uint64_t* const left = chain.left + node * kWords * kSlots + (kSlots > 1 ? lane : 0);
#pragma unroll
    for (int w = 0; w < kWords; ++w) left[w * kSlots] = uint64_t{1} << 32 | word[w];
}

// Waits until it is there.
template <int kSlots, class State>
BK_DEVICE State meet(const ScanChain<State>& chain, int64_t node, int slot) {
    constexpr int kWords = ScanChain<State>::kWords;
    const volatile uint64_t* const left = chain.left + node * kWords * kSlots + slot;
    uint32_t word[kWords];
    bool is_there;
    do {
        uint64_t found[kWords];
#pragma unroll
        for (int w = 0; w < kWords; ++w) found[w] = left[w * kSlots];
        is_there = true;
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
            is_there &= found[w] >> 32 != 0;
            word[w] = static_cast<uint32_t>(found[w]);
        }
    } while (!is_there);
    State state;
    memcpy(&state, word, sizeof(State));
    return state;
}

// Of the pieces from `node` on, `count` of them, those that a warp's lanes look at: joined.
template <class S, class State = typename S::State>
BK_DEVICE State meet_by_lanes(const S& scan, const ScanChain<State>& chain, int64_t node, int count, int lane) {
    const State state = lane < count ? meet<1>(chain, node + lane, 0) : scan.identity();
    return last_lane(join_lanes(scan, state, lane, 32), 32);
}

// What comes before `piece` of a row, which comes to `own`. Called by all threads of a block, each with the same `own`.
template <class S, class State = typename S::State>
BK_DEVICE State find_before_in_row(const S& scan, const ScanChain<State>& chain, uint32_t row, int piece, const State& own) {
    constexpr int fan = kFan<1>;
    __shared__ State found[2][kChainWarps], beyond;  // of the batch before, and of its own; what comes before these
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int batch = piece / fan, in_batch = piece % fan;
    const int64_t first = int64_t{row} * chain.nodes, mine = first + batch * fan + 32 * warp;
    if (warp == 0) leave<1>(chain, first + piece, lane, own);
    const State previous = meet_by_lanes(scan, chain, mine - fan, batch > 0 ? 32 : 0, lane);
    const State current = meet_by_lanes(scan, chain, mine, in_batch - 32 * warp, lane);
    if (lane == 0) {
        found[0][warp] = previous;
        found[1][warp] = current;
        if (warp == kChainWarps - 1) beyond = batch > 1 ? meet<1>(chain, first + chain.pieces + batch, 0) : scan.identity();
    }
    __syncthreads();
    State before = beyond;
#pragma unroll
    for (int w = 0; w < 2 * kChainWarps; ++w) before = scan.join(before, found[w / kChainWarps][w % kChainWarps]);
    if (warp == 0 && in_batch == fan - 1 && batch + 2 < chain.batches)
        leave<1>(chain, first + chain.pieces + batch + 2, lane, scan.join(before, own));
    return before;
}

// What comes before `piece` in the rows of the lanes, where it comes to `own`. `shared` has a place for each warp and lane,
// which nothing else uses meanwhile.
template <class S, class State = typename S::State>
BK_DEVICE State find_before_in_rows(const S& scan, const ScanChain<State>& chain, uint32_t group, int piece, const State& own,
                                    State (&shared)[kChainWarps][32]) {
    constexpr int fan = kFan<32>;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int batch = piece / fan, in_batch = piece % fan, above = batch / fan, in_above = batch % fan;
    const int64_t first = int64_t{group} * chain.nodes, batches = first + chain.pieces, beyond = batches + chain.batches;
    const bool ends_batch = in_batch == fan - 1, ends_above = ends_batch && in_above == fan - 1;
    if (warp == 0) leave<32>(chain, first + piece, lane, own);
    shared[warp][lane] = warp < in_batch ? meet<32>(chain, first + piece - in_batch + warp, lane) : scan.identity();
    __syncthreads();
    State pieces = shared[0][lane];
    for (int w = 1; w < kChainWarps; ++w) pieces = scan.join(pieces, shared[w][lane]);
    if (warp == 0 && ends_batch) leave<32>(chain, batches + batch, lane, scan.join(pieces, own));
    __syncthreads();
    State found = scan.identity();  // at most kChainWarps - 1 batches; the last warp looks above them
    if (warp < in_above) found = meet<32>(chain, batches + batch - in_above + warp, lane);
    if (warp == kChainWarps - 1 && above > 0) found = meet<32>(chain, beyond + above, lane);
    shared[warp][lane] = found;
    __syncthreads();
    State before = shared[kChainWarps - 1][lane];
    for (int w = 0; w + 1 < kChainWarps; ++w) before = scan.join(before, shared[w][lane]);
    if (warp == 0 && ends_above && piece + 1 < chain.pieces)
        leave<32>(chain, beyond + above + 1, lane, scan.join(before, scan.join(pieces, own)));
    return scan.join(before, pieces);
}

}  // namespace bk
