// A tile of a chain by way of shared memory: of few long rows, whose tiles are scanned by blocks at the same time, each block
// keeps its tile there while it waits for what comes before, not in registers, so that a multiprocessor has more bytes under
// way. A thread has neighbouring terms of a row: it joins them, the block joins the threads, and with what the chain brings
// each thread goes over its own terms once more. Of rows along memory a tile is a piece of one row; of rows across memory a
// piece of 32 rows, one for each lane.
#pragma once

#include <cstdint>

#include "core/async_copy.cuh"
#include "core/prefetch.cuh"
#include "core/rows/scan_chain.cuh"
#include "core/rows/scan_terms.cuh"

namespace bk {

constexpr int kStagedThreads = 32 * kChainWarps;
// Vectors of 16 bytes, of a thread; and blocks of a multiprocessor, whose tiles fit into its shared memory. Of rows along
// memory smaller tiles of more blocks bring 16-bit sums from 0.71 of a copy's rate to 0.76, and change nothing for f32; across
// memory they are slower.
template <bool kIsAlong>
constexpr int kStagedVectors = kIsAlong ? 8 : 10;
template <bool kIsAlong>
constexpr int kStagedResident = kIsAlong ? 6 : 5;
constexpr int64_t kStagedTiles = 264;  // fewer do not fill a chip: those of scan_kernel are smaller

// Scans of one input, to one output of its type, have such a kernel.
template <class S, int Operands>
constexpr bool kIsStaged = Operands == 2 && S::kAhead < 0;

// Of a row in a tile, where elements fill vectors of kLanes.
template <int kLanes>
constexpr int staged_terms(bool is_along) {
    return kLanes * (is_along ? kStagedThreads * kStagedVectors<true> : kChainWarps * kStagedVectors<false>);
}

// Of rows across memory 32 elements of 16 bits would be half a line.
template <int kLanes>
constexpr bool kIsStagedAcross = kLanes <= 4;

// Tiles of a row, of rows that have a chain; 0 where that is better left to smaller tiles.
template <int kLanes>
int64_t staged_tiles(int64_t row_blocks, int64_t length, bool is_along) {
    if (!is_along && !kIsStagedAcross<kLanes>) return 0;
    const int64_t tiles = ceil_div<int64_t>(length, staged_terms<kLanes>(is_along));
    return tiles > 1 && row_blocks * tiles >= kStagedTiles ? tiles : 0;
}

// Where the terms of a tile stand. Those of a thread are units of N neighbours, those that are copied at once a vector.
template <class T, bool kIsAlong>
struct ScanStage {
    static constexpr int kLanes = kVectorLanes<T>, kVectors = kStagedVectors<kIsAlong>, kPitch = kVectors + 1;
    static constexpr int N = kIsAlong ? kLanes : 1;
    static constexpr int kUnits = kIsAlong ? kVectors : kVectors * kLanes;
    static constexpr int kOfThread = kUnits * N;
    static constexpr int kTerms = staged_terms<kLanes>(kIsAlong);
    static constexpr unsigned kBytes = kStagedThreads * (kIsAlong ? kPitch : kVectors) * kVectorBytes;

    T* first;
    int thread, lane, warp;
    bool is_turned;  // vectors are in the opposite order

    BK_DEVICE int own() const { return (kIsAlong ? thread : warp) * kOfThread; }  // the thread's first term
    // Along memory those of neighbouring threads are a vector apart, so that they are in different banks.
    BK_DEVICE T* place(int term) const {
        if constexpr (kIsAlong)
            return first + term / kOfThread * (kPitch * N) + term % kOfThread;
        else
            return first + term * 32 + lane;
    }
    BK_DEVICE T* unit(int u) const { return kIsAlong ? first + (thread * kPitch + u) * N : place(own() + u); }

    BK_DEVICE Vec<T, N> read(int u) const { return turned_if(is_turned, load<N>(unit(u))); }
    BK_DEVICE void write(int u, const Vec<T, N>& x) const { store<N>(unit(u), turned_if(is_turned, x)); }

    // Of the tile's first `count` terms calls vector(place, term, row) for each vector, where they are dense, and
    // single(place, term) for what is left, of the row of the lane.
    template <class Vector, class Single>
    BK_DEVICE void walk(int count, bool is_dense, const Vector& vector, const Single& single) const {
        constexpr int kStep = kIsAlong ? kStagedThreads : kChainWarps;
        int done = 0;
        if (is_dense) {
            done = count / N * N;
#pragma unroll
            for (int i = 0; i < kVectors; ++i) {
                const int v = thread + i * kStagedThreads;
                const int term = kIsAlong ? v * N : v / (32 / kLanes), row = kIsAlong ? 0 : v % (32 / kLanes) * kLanes;
                if (term < done) vector(kIsAlong ? place(term) : first + term * 32 + row, term, row);
            }
        }
#pragma unroll 4
        for (int term = done + (kIsAlong ? thread : warp); term < count; term += kStep)
            single(place(is_turned ? term ^ (N - 1) : term), term);
    }
};

template <class S, class T, bool kIsAlong>
__global__ void __launch_bounds__(kStagedThreads, kStagedResident<kIsAlong>)
    staged_scan_kernel(S scan, T* out, const T* in, const __grid_constant__ ScanGrid<2> grid,
                       ScanChain<typename S::State> chain) {
    using State = typename S::State;
    using Stage = ScanStage<T, kIsAlong>;
    constexpr int N = Stage::N, kSlots = kIsAlong ? 1 : 32;
    BK_LAUNCH_SHARED(uint4, memory);
    __shared__ State of_warp[kChainWarps][kSlots];
    __shared__ uint32_t ticket;
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32, slot = kIsAlong ? 0 : lane;
    const bool is_dense = grid.is_dense;
    const Stage stage{reinterpret_cast<T*>(memory), thread, lane, warp, kIsAlong && is_dense && grid.step[0] < 0};
    if (thread == 0) ticket = atomicAdd(chain.ticket, 1u);
    __syncthreads();
    const uint32_t group = ticket % chain.groups;
    const int piece = static_cast<int>(ticket / chain.groups);
    const uint32_t row = group * kSlots + slot;
    const bool has_row = kIsAlong || row < grid.rows;
    int64_t offset[2] = {};
    if (has_row) grid.row(row, offset);
    const int64_t begin = int64_t{piece} * Stage::kTerms;
    const int count = static_cast<int>(min(grid.length - begin, int64_t{Stage::kTerms}));
    T* const to = out + offset[0] + begin * grid.step[0];
    const T* const from = in + offset[1] + begin * grid.step[1];
    // Where the vector of the terms from `term` on is, across memory of rows from `row` on, from where the lane's row begins.
    const auto at = [&](int64_t step, int term, int row) {
        return stage.is_turned ? -int64_t{term + N - 1} : term * step + (kIsAlong ? 0 : row - lane);
    };

    stage.walk(
        count, is_dense, [&](T* place, int term, int row) { start_copy_16(place, from + at(grid.step[1], term, row), 16); },
        [&](T* place, int term) {
            if (has_row) *place = from[term * grid.step[1]];
        });
    end_copy_group();
    const uint32_t later = ticket + multiprocessors();
    if (kIsAlong && is_dense && later < gridDim.x) {
        constexpr int kOfLine = kLineBytes / static_cast<int>(sizeof(T));
        int64_t ahead[2] = {};
        grid.row(later % chain.groups, ahead);
        const int64_t tile = int64_t{later / chain.groups} * Stage::kTerms;
        for (int term = thread * kOfLine; term < Stage::kTerms; term += kStagedThreads * kOfLine)
            if (tile + term < grid.length) prefetch_line(in + ahead[1] + (tile + term) * grid.step[1]);
    }
    wait_for_copies<0>();
    __syncthreads();

    const int64_t first = begin + stage.own();
    const int own = has_row ? max(0, min(count - stage.own(), Stage::kOfThread)) : 0;  // terms of the thread
    // The units in order, all N terms of which exist but in the last one.
    const auto each_unit = [&](const auto& add) {
        if (own == Stage::kOfThread) {
#pragma unroll 2
            for (int u = 0; u < Stage::kUnits; ++u) add(u, N);
        } else {
#pragma unroll 1
            for (int u = 0; u * N < own; ++u) add(u, min(N, own - u * N));
        }
    };
    State mine = scan.identity();
    each_unit([&](int u, int exist) {
        const Vec<T, N> x = stage.read(u);
        State all{};
#pragma unroll
        for (int i = 0; i < N; ++i)
            if (i < exist) {
                const auto term = widen_lane(x, i);
                all = i == 0 ? scan.term(first + u * N, term) : extended(scan, all, first + u * N + i, term);
            }
        mine = scan.join(mine, all);
    });

    State before = scan.identity();  // of the terms of the threads before, along memory in the warp
    State all_of_warp = mine;
    if constexpr (kIsAlong) {
        const State through = join_lanes(scan, mine, lane, 32), below = lane_below(through, 1, 32);
        if (lane > 0) before = below;
        all_of_warp = last_lane(through, 32);
    }
    if (!kIsAlong || lane == 0) of_warp[warp][slot] = all_of_warp;
    __syncthreads();
    State warps = scan.identity(), all = scan.identity();
    for (int w = 0; w < kChainWarps; ++w) {
        if (w == warp) warps = all;
        all = scan.join(all, of_warp[w][slot]);
    }
    State carry;
    if constexpr (kIsAlong) {
        carry = find_before_in_row(scan, chain, group, piece, all);
    } else {
        __syncthreads();
        carry = find_before_in_rows(scan, chain, group, piece, all, of_warp);
    }
    State last = scan.join(scan.join(carry, warps), before);
    each_unit([&](int u, int exist) {
        const Vec<T, N> x = stage.read(u);
        Pack<Vec<T, N>> y{};
#pragma unroll
        for (int i = 0; i < N; ++i) {
            if (i >= exist) continue;
            const int64_t place = first + u * N + i;
            const State through = extended(scan, last, place, widen_lane(x, i));
            put(y, i, scan.value(place, last, through, widen_lane(x, i)));
            last = through;
        }
        stage.write(u, get<0>(y));
    });
    __syncthreads();

    stage.walk(
        count, is_dense,
        [&](T* place, int term, int row) {
            store<Stage::kLanes>(to + at(grid.step[0], term, row), load<Stage::kLanes>(place));
        },
        [&](T* place, int term) {
            if (has_row) to[term * grid.step[0]] = *place;
        });
}

// Whether rows of an operand lie side by side, 32 of them in whole vectors of memory.
template <class T, int Operands>
bool has_rows_beside(const ScanAxes<Operands>& axes, int operand, const T* first) {
    constexpr int kLanes = kVectorLanes<T>;
    const int last = axes.rows.rank - 1;
    if (last < 0 || axes.rows.stride[operand][last] != 1 || axes.rows.extent[last] % 32 != 0) return false;
    for (int d = 0; d < last; ++d)
        if (axes.rows.stride[operand][d] % kLanes != 0) return false;
    return axes.step[operand] % kLanes == 0 && is_aligned(first, kVectorBytes);
}

template <class S, class T>
Status staged_scan(const Launch& launch, const ScanAxes<2>& axes, const S& scan, bool is_along, ScanGrid<2> grid,
                   const ScanChain<typename S::State>& chain, T* out, const T* in) {
    const dim3 blocks(chain.groups * static_cast<unsigned>(chain.pieces)), threads(kStagedThreads);
    if (is_along)
        return launch_kernel(launch, Grid{blocks, threads, 1, ScanStage<T, true>::kBytes}, staged_scan_kernel<S, T, true>, scan,
                             out, in, grid, chain);
    if constexpr (kIsStagedAcross<kVectorLanes<T>>) {
        grid.is_dense = has_rows_beside(axes, 0, out) && has_rows_beside(axes, 1, in);
        return launch_kernel(launch, Grid{blocks, threads, 1, ScanStage<T, false>::kBytes}, staged_scan_kernel<S, T, false>,
                             scan, out, in, grid, chain);
    }
    return Status::kOk;  // no such plan
}

}  // namespace bk
