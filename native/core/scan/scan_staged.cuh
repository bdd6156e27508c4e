// SPDX-License-Identifier: Apache-2.0
// Chained scan staged in shared memory, for few long rows: a block keeps its tile in shared memory, not in registers,
// while it waits for its prefix, so that an SM has more bytes in flight. A thread owns adjacent elements of a row: it
// reduces them, the block scans the threads' aggregates, and with the prefix from the look-back each thread scans its
// elements a second time. If the scanned axis is innermost a tile lies in one row; if it is strided, in 32 adjacent
// rows, one a lane.
#pragma once

#include <cstdint>

#include "core/intrinsics/async_copy.cuh"
#include "core/intrinsics/prefetch.cuh"
#include "core/scan/scan_common.cuh"
#include "core/scan/scan_lookback.cuh"

namespace bk {

constexpr int kStagedThreads = 32 * kLookbackWarps;
// Vectors of 16 bytes per thread, and blocks per SM whose tiles fit into shared memory. For innermost axes smaller
// tiles of more blocks raise 16-bit sums from 0.71 to 0.76 of a copy's rate and leave f32 as it was; for strided axes
// they are slower.
template <bool kIsInnermost>
constexpr int kStagedVectors = kIsInnermost ? 8 : 10;
template <bool kIsInnermost>
constexpr int kStagedMinBlocks = kIsInnermost ? 6 : 5;
constexpr int64_t kMinStagedTiles = 264;  // fewer do not fill a chip; scan_kernel has smaller tiles

// Only unary scans without look-ahead have a staged kernel.
template <class S, int Operands>
constexpr bool kCanStage = Operands == 2 && S::kLookaheadInput < 0;

// Elements of one row in a tile; kLanes elements fill a vector.
template <int kLanes>
constexpr int staged_items(bool is_innermost) {
    return kLanes * (is_innermost ? kStagedThreads * kStagedVectors<true> : kLookbackWarps * kStagedVectors<false>);
}

// 32 elements of 16 bits would be only half a cache line.
template <int kLanes>
constexpr bool kCanStageStrided = kLanes <= 4;

// Staged tiles of a row; 0 if smaller tiles are better.
template <int kLanes>
int64_t staged_tiles(int64_t row_blocks, int64_t length, bool is_innermost) {
    if (!is_innermost && !kCanStageStrided<kLanes>) return 0;
    const int64_t tiles = ceil_div<int64_t>(length, staged_items<kLanes>(is_innermost));
    return tiles > 1 && row_blocks * tiles >= kMinStagedTiles ? tiles : 0;
}

// The layout of a tile in shared memory. A unit is N adjacent elements of a thread; global memory is copied by vectors.
template <class T, bool kIsInnermost>
struct ScanStage {
    static constexpr int kLanes = kVectorLanes<T>, kVectors = kStagedVectors<kIsInnermost>, kPitch = kVectors + 1;
    static constexpr int N = kIsInnermost ? kLanes : 1;
    static constexpr int kUnits = kIsInnermost ? kVectors : kVectors * kLanes;
    static constexpr int kThreadItems = kUnits * N;
    static constexpr int kTileItems = staged_items<kLanes>(kIsInnermost);
    static constexpr unsigned kBytes = kStagedThreads * (kIsInnermost ? kPitch : kVectors) * kVectorBytes;

    T* first;
    int thread, lane, warp;
    bool is_reversed;  // vectors are stored back to front

    BK_DEVICE int thread_first() const { return (kIsInnermost ? thread : warp) * kThreadItems; }
    // A pitch of one vector more than the thread's own avoids bank conflicts.
    BK_DEVICE T* address(int item) const {
        if constexpr (kIsInnermost)
            return first + item / kThreadItems * (kPitch * N) + item % kThreadItems;
        else
            return first + item * 32 + lane;
    }
    BK_DEVICE T* unit_address(int u) const {
        return kIsInnermost ? first + (thread * kPitch + u) * N : address(thread_first() + u);
    }

    BK_DEVICE Vec<T, N> read(int u) const { return reverse_if(is_reversed, load<N>(unit_address(u))); }
    BK_DEVICE void write(int u, const Vec<T, N>& x) const { store<N>(unit_address(u), reverse_if(is_reversed, x)); }

    // Calls vector(address, item, row) for each vector of the first `count` items if they are dense, and
    // single(address, item) for the others, in the lane's row.
    template <class Vector, class Single>
    BK_DEVICE void walk(int count, bool is_dense, const Vector& vector, const Single& single) const {
        constexpr int kStep = kIsInnermost ? kStagedThreads : kLookbackWarps;
        int done = 0;
        if (is_dense) {
            done = count / N * N;
#pragma unroll
            for (int i = 0; i < kVectors; ++i) {
                const int v = thread + i * kStagedThreads;
                const int item = kIsInnermost ? v * N : v / (32 / kLanes), row = kIsInnermost ? 0 : v % (32 / kLanes) * kLanes;
                if (item < done) vector(kIsInnermost ? address(item) : first + item * 32 + row, item, row);
            }
        }
#pragma unroll 4
        for (int item = done + (kIsInnermost ? thread : warp); item < count; item += kStep)
            single(address(is_reversed ? item ^ (N - 1) : item), item);
    }
};

template <class S, class T, bool kIsInnermost>
__global__ void __launch_bounds__(kStagedThreads, kStagedMinBlocks<kIsInnermost>)
    staged_scan_kernel(S scan, T* out, const T* in, const __grid_constant__ ScanGrid<2> grid,
                       ScanTileStates<typename S::State> chain) {
    using State = typename S::State;
    using Stage = ScanStage<T, kIsInnermost>;
    constexpr int N = Stage::N, kSlots = kIsInnermost ? 1 : 32;
    BK_LAUNCH_SHARED(uint4, memory);
    __shared__ State warp_aggregates[kLookbackWarps][kSlots];
    __shared__ uint32_t ticket;
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32, slot = kIsInnermost ? 0 : lane;
    const bool is_dense = grid.is_dense;
    const Stage stage{reinterpret_cast<T*>(memory), thread, lane, warp, kIsInnermost && is_dense && grid.step[0] < 0};
    if (thread == 0) ticket = atomicAdd(chain.ticket, 1u);
    __syncthreads();
    const uint32_t group = ticket % chain.groups;
    const int tile = static_cast<int>(ticket / chain.groups);
    const uint32_t row = group * kSlots + slot;
    const bool has_row = kIsInnermost || row < grid.rows;
    int64_t offset[2] = {};
    if (has_row) grid.row(row, offset);
    const int64_t begin = int64_t{tile} * Stage::kTileItems;
    const int count = static_cast<int>(min(grid.length - begin, int64_t{Stage::kTileItems}));
    T* const to = out + offset[0] + begin * grid.step[0];
    const T* const from = in + offset[1] + begin * grid.step[1];
    // Offset, from the lane's row, of the vector that begins with `item` of `row`.
    const auto at = [&](int64_t step, int item, int row) {
        return stage.is_reversed ? -int64_t{item + N - 1} : item * step + (kIsInnermost ? 0 : row - lane);
    };

    stage.walk(
        count, is_dense, [&](T* staged, int item, int row) { start_copy_16(staged, from + at(grid.step[1], item, row), 16); },
        [&](T* staged, int item) {
            if (has_row) *staged = from[item * grid.step[1]];
        });
    end_copy_group();
    const uint32_t later = ticket + num_sms();
    if (kIsInnermost && is_dense && later < gridDim.x) {
        constexpr int kCacheLineItems = kCacheLineBytes / static_cast<int>(sizeof(T));
        int64_t ahead[2] = {};
        grid.row(later % chain.groups, ahead);
        const int64_t ahead_begin = int64_t{later / chain.groups} * Stage::kTileItems;
        for (int item = thread * kCacheLineItems; item < Stage::kTileItems; item += kStagedThreads * kCacheLineItems)
            if (ahead_begin + item < grid.length) prefetch_cache_line(in + ahead[1] + (ahead_begin + item) * grid.step[1]);
    }
    wait_for_copies<0>();
    __syncthreads();

    const int64_t first = begin + stage.thread_first();
    const int thread_items = has_row ? max(0, min(count - stage.thread_first(), Stage::kThreadItems)) : 0;
    // add(unit, valid) for the thread's units in order; only the last may have fewer than N valid elements.
    const auto each_unit = [&](const auto& add) {
        if (thread_items == Stage::kThreadItems) {
#pragma unroll 2
            for (int u = 0; u < Stage::kUnits; ++u) add(u, N);
        } else {
#pragma unroll 1
            for (int u = 0; u * N < thread_items; ++u) add(u, min(N, thread_items - u * N));
        }
    };
    State thread_aggregate = scan.identity();
    each_unit([&](int u, int valid) {
        const Vec<T, N> x = stage.read(u);
        State unit_aggregate{};
#pragma unroll
        for (int i = 0; i < N; ++i)
            if (i < valid) {
                const auto element = widen_lane(x, i);
                unit_aggregate =
                    i == 0 ? scan.lift(first + u * N, element) : extend_state(scan, unit_aggregate, first + u * N + i, element);
            }
        thread_aggregate = scan.combine(thread_aggregate, unit_aggregate);
    });

    State lane_prefix = scan.identity();  // over the lower lanes of the warp, if they share the row
    State warp_aggregate = thread_aggregate;
    if constexpr (kIsInnermost) {
        const State through = warp_inclusive_scan(scan, thread_aggregate, lane, 32), lower = state_shuffle_up(through, 1, 32);
        if (lane > 0) lane_prefix = lower;
        warp_aggregate = state_from_last_lane(through, 32);
    }
    if (!kIsInnermost || lane == 0) warp_aggregates[warp][slot] = warp_aggregate;
    __syncthreads();
    State warp_prefix = scan.identity(), tile_aggregate = scan.identity();
    for (int w = 0; w < kLookbackWarps; ++w) {
        if (w == warp) warp_prefix = tile_aggregate;
        tile_aggregate = scan.combine(tile_aggregate, warp_aggregates[w][slot]);
    }
    State carry;
    if constexpr (kIsInnermost) {
        carry = exclusive_prefix_in_row(scan, chain, group, tile, tile_aggregate);
    } else {
        __syncthreads();
        carry = exclusive_prefix_in_rows(scan, chain, group, tile, tile_aggregate, warp_aggregates);
    }
    State last = scan.combine(scan.combine(carry, warp_prefix), lane_prefix);
    each_unit([&](int u, int valid) {
        const Vec<T, N> x = stage.read(u);
        Pack<Vec<T, N>> y{};
#pragma unroll
        for (int i = 0; i < N; ++i) {
            if (i >= valid) continue;
            const int64_t index = first + u * N + i;
            const State through = extend_state(scan, last, index, widen_lane(x, i));
            put(y, i, scan.value(index, last, through, widen_lane(x, i)));
            last = through;
        }
        stage.write(u, get<0>(y));
    });
    __syncthreads();

    stage.walk(
        count, is_dense,
        [&](T* staged, int item, int row) {
            store<Stage::kLanes>(to + at(grid.step[0], item, row), load<Stage::kLanes>(staged));
        },
        [&](T* staged, int item) {
            if (has_row) to[item * grid.step[0]] = *staged;
        });
}

// Whether adjacent rows are contiguous, 32 of them in whole aligned vectors.
template <class T, int Operands>
bool has_row_vectors(const ScanAxes<Operands>& axes, int operand, const T* first) {
    constexpr int kLanes = kVectorLanes<T>;
    const int last = axes.rows.rank - 1;
    if (last < 0 || axes.rows.stride[operand][last] != 1 || axes.rows.extent[last] % 32 != 0) return false;
    for (int d = 0; d < last; ++d)
        if (axes.rows.stride[operand][d] % kLanes != 0) return false;
    return axes.step[operand] % kLanes == 0 && is_aligned(first, kVectorBytes);
}

template <class S, class T>
Status staged_scan(const Launch& launch, const ScanAxes<2>& axes, const S& scan, bool is_innermost, ScanGrid<2> grid,
                   const ScanTileStates<typename S::State>& chain, T* out, const T* in) {
    const dim3 blocks(chain.groups * static_cast<unsigned>(chain.tiles)), threads(kStagedThreads);
    if (is_innermost)
        return launch_kernel(launch, Grid{blocks, threads, 1, ScanStage<T, true>::kBytes}, staged_scan_kernel<S, T, true>, scan,
                             out, in, grid, chain);
    if constexpr (kCanStageStrided<kVectorLanes<T>>) {
        grid.is_dense = has_row_vectors(axes, 0, out) && has_row_vectors(axes, 1, in);
        return launch_kernel(launch, Grid{blocks, threads, 1, ScanStage<T, false>::kBytes}, staged_scan_kernel<S, T, false>,
                             scan, out, in, grid, chain);
    }
    return Status::kOk;  // unreachable: plan_scan() never stages these
}

}  // namespace bk
