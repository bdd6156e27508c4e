// SPDX-License-Identifier: Apache-2.0
// Scan kernels. Lanes and warps of a block share a row, tile after tile; each thread takes a few adjacent elements. If
// the scanned axis is innermost, lanes share a row and load vectors; if it is strided, each lane takes a row. Few long
// rows: each tile gets a block, with look-back between tiles (core/scan/scan_lookback.cuh), or reduce-then-scan without a
// workspace (core/scan/scan_splits.cuh).
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/intrinsics/prefetch.cuh"
#include "core/scan/scan.h"
#include "core/scan/scan_common.cuh"
#include "core/scan/scan_lookback.cuh"
#include "core/scan/scan_splits.cuh"
#include "core/scan/scan_staged.cuh"
#include "core/types/vec.h"

namespace bk {

constexpr int kScanWarps = kLookbackWarps, kScanThreads = 32 * kScanWarps;
constexpr int kScanItems = 16;  // per thread in a tile
// Vectors of N per thread when the scanned axis is innermost; narrow unary scans take more items.
template <int N, int Operands>
constexpr int kScanVectors = N > 4 && Operands == 2 ? 4 : kScanItems / N;
// Items per thread when the scanned axis is strided. f32 stays at 16: its f64 state would spill.
template <int N, int Operands>
constexpr int kScanStridedItems = N > 4 && Operands == 2 ? 2 * kScanItems : kScanItems;
// Rows in fewer blocks than half of this are cut into tiles. Constant, so that the reduction order is the same on every
// chip.
constexpr int64_t kScanFillBlocks = 1056;
// Beyond this many threads a row gets only as many as hold it in registers, so that each has several vectors in flight.
constexpr int64_t kScanFillThreads = int64_t{1} << 18;
constexpr uint32_t kScanPrefetchDistance = 2;  // tiles per SM
constexpr int kMinRowThreads = 2;              // threads of a row, if it has more than one vector: 32 bytes, a sector

// Whether the N elements are loaded or stored as one vector.
template <int N, bool kIsLookahead, class T>
BK_DEVICE bool is_vector(int valid, bool is_dense) {
    return !kIsLookahead && sizeof(Vec<T, N>) <= kVectorBytes && is_dense && valid == N;
}

// Issues the vector load from `index` on; ordered_items() uses the value once all loads are in flight.
template <int N, bool kIsLookahead, class T>
BK_DEVICE Vec<T, N> load_items(const T* row, int64_t step, int64_t index, int valid, bool is_dense) {
    if constexpr (kIsLookahead || sizeof(Vec<T, N>) > kVectorBytes)
        return {};
    else
        return load_if<N>(is_vector<N, kIsLookahead, T>(valid, is_dense), step < 0 ? row - (index + N - 1) : row + index);
}

// N elements from `index` on in scan order; `loaded` is what load_items() returned.
template <int N, bool kIsLookahead, bool kWhole, class T>
BK_DEVICE Vec<T, N> ordered_items(const Vec<T, N>& loaded, const T* row, int64_t step, int64_t index, int valid, int64_t length,
                                  bool is_dense) {
    if (is_vector<N, kIsLookahead, T>(valid, is_dense)) return reverse_if(step < 0, loaded);
    Vec<T, N> x{};
    const T* const first = row + (index + kIsLookahead) * step;
    const int in_bounds = kIsLookahead && valid > 0 && index + valid == length ? valid - 1 : valid;
#pragma unroll
    for (int i = 0; i < N; ++i)
        x.lane[i] = kWhole || i < in_bounds ? first[i * step] : kIsLookahead ? narrow<T>(compute_t<T>(1)) : T{};
    return x;
}

// Warp-transposed store of vectors wider than 16 bytes, contiguous from `first` on, so that each store instruction
// writes whole sectors. `slot` is the position of the lane's own vector.
template <int N, class T>
BK_DEVICE void store_warp_transpose(T* first, int slot, const Vec<T, N>& y) {
    constexpr int kWords = sizeof(Vec<T, N>) / kVectorBytes;
    __shared__ uint4 stage[kScanWarps][32 * kWords];
    struct Words {
        uint4 word[kWords];
    };
    const Words words = bit_cast<Words>(y);
    const int lane = threadIdx.x % 32;
    uint4* const warp_stage = stage[threadIdx.x / 32];
    const auto swizzle = [](int i) { return i ^ (i >> 3 & 7); };  // avoids bank conflicts down a column, too
#pragma unroll
    for (int w = 0; w < kWords; ++w) warp_stage[swizzle(slot * kWords + w)] = words.word[w];
    __syncwarp();
#pragma unroll
    for (int w = 0; w < kWords; ++w) reinterpret_cast<uint4*>(first)[w * 32 + lane] = warp_stage[swizzle(w * 32 + lane)];
    __syncwarp();
}

// `width` lanes share the row. Threads take U vectors of it; if U is 1 they are never dense, and no transpose is compiled.
template <int N, int U, bool kWhole, class T>
BK_DEVICE void store_items(T* row, int64_t step, int64_t index, int valid, bool is_dense, [[maybe_unused]] int lane_in_row,
                           [[maybe_unused]] int width, const Vec<T, N>& y) {
    if constexpr (U > 1 && kWhole && sizeof(Vec<T, N>) > kVectorBytes) {
        if (is_dense && width == 32) {
            const int64_t begin = index - lane_in_row * N;
            T* const first = step < 0 ? row - (begin + 32 * N - 1) : row + begin;
            return store_warp_transpose<N>(first, step < 0 ? 31 - lane_in_row : lane_in_row, reverse_if(step < 0, y));
        }
    }
    if (is_dense && valid == N) {
        store<N>(step < 0 ? row - (index + N - 1) : row + index, reverse_if(step < 0, y));
        return;
    }
    T* const first = row + index * step;
#pragma unroll
    for (int i = 0; i < N; ++i)
        if (kWhole || i < valid) first[i * step] = y.lane[i];
}

// A thread's vectors of N in a tile: from `first` on, `stride` apart, up to `end`.
struct ItemRange {
    int64_t first, end;
    int stride;
};

// A vector packed in 32-bit words while it waits for its prefix: unpacked 16-bit elements would take a register each.
template <class V>
struct PackedWords {
    uint32_t word[sizeof(V) / sizeof(uint32_t)];
};
template <class V>
using PackedItems = std::conditional_t<sizeof(V) % sizeof(uint32_t) == 0, PackedWords<V>, V>;

// A thread's vectors of a tile, the prefix of each within the row's threads, and the aggregate of all those threads.
template <int N, int U, class State, class... In>
struct ThreadTile {
    Pack<PackedItems<Vec<In, N>>...> x[U];
    State before[U], aggregate;
};

template <bool kWhole, int N, int U, class S, class State, class... In, int Operands, size_t... I>
BK_DEVICE void scan_items(const S& scan, const Inputs<In...>& in, const int64_t* offset, const ScanGrid<Operands>& grid,
                          const ItemRange& range, int lane_in_row, ThreadTile<N, U, State, In...>* thread_tile,
                          std::index_sequence<I...>) {
    constexpr int kOut = Operands - static_cast<int>(sizeof...(In));
    const bool is_dense = U > 1 && (kWhole || grid.is_dense);
    Pack<Vec<In, N>...> loaded[U];
#pragma unroll
    for (int u = 0; u < U; ++u) {
        const int64_t index = range.first + u * range.stride;
        const int valid = u < grid.vectors ? valid_count<N, kWhole>(index, range.end) : 0;
        loaded[u] = pack(load_items<N, S::kLookaheadInput == static_cast<int>(I)>(
            get<I>(in.pointer) + offset[I], grid.step[kOut + I], index, valid, is_dense)...);
    }
#pragma unroll
    for (int u = 0; u < U; ++u)
        if (u < grid.vectors) {
            const int64_t index = range.first + u * range.stride;
            const int valid = valid_count<N, kWhole>(index, range.end);
            thread_tile->x[u] =
                pack(bit_cast<PackedItems<Vec<In, N>>>(ordered_items<N, S::kLookaheadInput == static_cast<int>(I), kWhole>(
                    get<I>(loaded[u]), get<I>(in.pointer) + offset[I], grid.step[kOut + I], index, valid, grid.length,
                    is_dense))...);
        }
    constexpr int kInterleaved = sizeof...(In) > 1 ? 1 : U;  // vectors scanned at once
#pragma unroll
    for (int begin = 0; begin < U; begin += kInterleaved) {
        State through[kInterleaved];  // inclusive over the lanes of the vector
#pragma unroll
        for (int j = 0; j < kInterleaved; ++j) {
            const int u = begin + j;
            const int64_t index = range.first + u * range.stride;
            const int valid = u < grid.vectors ? valid_count<N, kWhole>(index, range.end) : 0;
            const Pack<Vec<In, N>...> x = pack(bit_cast<Vec<In, N>>(get<I>(thread_tile->x[u]))...);
            through[j] = scan.identity();
#pragma unroll
            for (int i = 0; i < N; ++i)
                if (i < valid) {
                    const auto with = [&](auto... x) {
                        return i == 0 ? scan.lift(index + i, x...) : extend_state(scan, through[j], index + i, x...);
                    };
                    through[j] = with(widen_lane(get<I>(x), i)...);
                }
        }
        if constexpr (U == 1) {  // a row per lane
            thread_tile->before[0] = thread_tile->aggregate;
            thread_tile->aggregate = scan.combine(thread_tile->aggregate, through[0]);
        } else {
#pragma unroll(kInterleaved == 1 ? 1 : 5)
            for (int distance = 1; distance < 32; distance *= 2) {
                if (distance >= grid.width) break;
#pragma unroll
                for (int j = 0; j < kInterleaved; ++j) {
                    const State lower = state_shuffle_up(through[j], distance, grid.width);
                    if (lane_in_row >= distance) through[j] = scan.combine(lower, through[j]);
                }
            }
#pragma unroll
            for (int j = 0; j < kInterleaved; ++j) {
                if (begin + j >= grid.vectors) break;
                const State lower = state_shuffle_up(through[j], 1, grid.width);
                thread_tile->before[begin + j] =
                    lane_in_row == 0 ? thread_tile->aggregate : scan.combine(thread_tile->aggregate, lower);
                thread_tile->aggregate = scan.combine(thread_tile->aggregate, state_from_last_lane(through[j], grid.width));
            }
        }
    }
}

// `base` is the prefix of this warp's elements if several warps share the row.
template <bool kWhole, int N, int U, class S, class State, class... Out, class... In, int Operands, size_t... O, size_t... I>
BK_DEVICE void write_results(const S& scan, const Outputs<Out...>& out, const int64_t* offset, const ScanGrid<Operands>& grid,
                             const ItemRange& range, int lane_in_row, const State& base,
                             const ThreadTile<N, U, State, In...>& thread_tile, std::index_sequence<O...>,
                             std::index_sequence<I...>) {
    const bool is_dense = U > 1 && (kWhole || grid.is_dense);
#pragma unroll
    for (int u = 0; u < U; ++u) {
        if (u >= grid.vectors) break;
        const int64_t index = range.first + u * range.stride;
        const int valid = valid_count<N, kWhole>(index, range.end);
        State last = grid.warps > 1 ? scan.combine(base, thread_tile.before[u]) : thread_tile.before[u];
        const Pack<Vec<In, N>...> x = pack(bit_cast<Vec<In, N>>(get<I>(thread_tile.x[u]))...);
        Pack<Vec<Out, N>...> y;
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const State through = extend_state(scan, last, index + i, widen_lane(get<I>(x), i)...);
            put(y, i, scan.value(index + i, last, through, widen_lane(get<I>(x), i)...));
            last = through;
        }
        (store_items<N, U, kWhole>(get<O>(out.pointer) + offset[O], grid.step[O], index, valid, is_dense, lane_in_row,
                                   grid.width, get<O>(y)),
         ...);
    }
}

// Prefetches a later tile into L2: tiles start in order, and one that finds its elements there publishes its aggregate
// so much earlier, which all later tiles wait for. Lanes of one row prefetch its cache lines; lanes with a row each
// prefetch one element each of the first row, whose cache lines the other rows share.
template <int N, int U, class... In, int Operands, size_t... I>
BK_DEVICE void prefetch_tile(const Inputs<In...>& in, const ScanGrid<Operands>& grid, uint32_t groups, uint32_t ticket,
                             std::index_sequence<I...>) {
    constexpr int kOut = Operands - static_cast<int>(sizeof...(In)), kRows = U == 1 ? 32 : 1;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, items = grid.width * N * grid.vectors;
    const int64_t begin = int64_t{ticket / groups} * grid.split_length + int64_t{warp} * items;
    int64_t offset[Operands] = {};
    grid.row(ticket % groups * kRows, offset);
    const auto prefetch = [&](const auto* row, int64_t step, int bytes) {
        const int item = lane * (U == 1 ? 1 : kCacheLineBytes / bytes);
        if (item < items && begin + item < grid.length) prefetch_cache_line(row + (begin + item) * step);
    };
    (prefetch(get<I>(in.pointer) + offset[kOut + I], grid.step[kOut + I], static_cast<int>(sizeof(In))), ...);
}

// A thread takes U vectors of N elements a tile. If the scanned axis is strided, U is 1 and each lane has a row.
template <int N, int U, class S, class... Out, class... In>
BK_DEVICE void scan_rows(const S& scan, const Outputs<Out...>& out, const Inputs<In...>& in,
                         const ScanGrid<sizeof...(Out) + sizeof...(In)>& grid, const ScanTileStates<typename S::State>& chain) {
    using State = typename S::State;
    constexpr std::index_sequence_for<Out...> each_out;
    constexpr std::index_sequence_for<In...> each_in;
    constexpr int kOut = sizeof...(Out), kInputs = sizeof...(In);
    constexpr int kSlots = U == 1 ? 32 : 1;  // rows of a warp if several warps share them
    __shared__ State warp_aggregates[2][kScanWarps][kSlots], split_prefix[kSlots];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int lane_in_row = lane % grid.width, warp_in_row = warp % grid.warps, slot = kSlots == 1 ? 0 : lane;
    uint32_t group = blockIdx.x, split = 0;
    if (chain.ticket != nullptr) {
        __shared__ uint32_t ticket;
        if (threadIdx.x == 0) ticket = atomicAdd(chain.ticket, 1u);
        __syncthreads();
        group = ticket % chain.groups;
        split = ticket / chain.groups;
        const uint32_t later = ticket + kScanPrefetchDistance * num_sms();
        if (later < gridDim.x) prefetch_tile<N, U>(in, grid, chain.groups, later, each_in);
    } else if (grid.pass != ScanPass::kSingle) {
        const uint32_t groups = gridDim.x / (grid.splits - (grid.pass == ScanPass::kReduce));
        group = blockIdx.x % groups;
        split = blockIdx.x / groups;
    }
    const int block_rows = kScanWarps / grid.warps * (32 / grid.width);
    const int64_t row = int64_t{group} * block_rows + warp / grid.warps * (32 / grid.width) + lane / grid.width;
    const bool has_row = row < grid.rows, has_rows = (int64_t{group} + 1) * block_rows <= grid.rows;
    int64_t offset[kOut + sizeof...(In)] = {};
    if (has_row) grid.row(static_cast<uint32_t>(row), offset);
    const int64_t begin = split * grid.split_length;
    const bool is_split = grid.splits > 1, is_last = static_cast<int>(split) + 1 == grid.splits;
    const bool is_last_split = is_split && (grid.pass == ScanPass::kSingle || is_last);
    const int64_t stop = !is_last_split && begin + grid.split_length < grid.length ? begin + grid.split_length : grid.length;
    if (is_split && warp == 0 && (kSlots > 1 || lane == 0))
        split_prefix[slot] = grid.pass == ScanPass::kScan && split > 0 && has_row
                                 ? load_state<State>(get<0>(out.pointer) + offset[0] + begin * grid.step[0], grid.step[0])
                                 : scan.identity();
    const int64_t lookahead_end = stop - (S::kLookaheadInput >= 0 && stop == grid.length);  // one ahead exists
    State carry = scan.identity();
    const int64_t span = int64_t{grid.width} * N * grid.vectors;
    int buffer = 0;
    for (int64_t tile = begin; tile < stop; tile += span * grid.warps, buffer ^= 1) {
        // With three inputs a second code path would spill.
        const bool is_whole = kInputs < 3 && has_rows && (U == 1 || grid.is_dense) && tile + span * grid.warps <= lookahead_end;
        const ItemRange range{tile + warp_in_row * span + lane_in_row * N, has_row ? stop : begin, grid.width * N};
        ThreadTile<N, U, State, In...> thread_tile;
        thread_tile.aggregate = grid.warps == 1 ? carry : scan.identity();
        if (is_whole)
            scan_items<true>(scan, in, offset + kOut, grid, range, lane_in_row, &thread_tile, each_in);
        else
            scan_items<false>(scan, in, offset + kOut, grid, range, lane_in_row, &thread_tile, each_in);
        State base = scan.identity();
        if (grid.warps > 1) {
            if (kSlots > 1 || lane == 0) warp_aggregates[buffer][warp][slot] = thread_tile.aggregate;
            __syncthreads();
            State row_prefix = scan.identity(), tile_aggregate = scan.identity();
            for (int w = 0; w < grid.warps; ++w) {
                if (w == warp_in_row) row_prefix = tile_aggregate;
                tile_aggregate = scan.combine(tile_aggregate, warp_aggregates[buffer][warp - warp_in_row + w][slot]);
            }
            if (chain.ticket != nullptr) {
                if constexpr (kSlots == 1)
                    carry = exclusive_prefix_in_row(scan, chain, group, static_cast<int>(split), tile_aggregate);
                else
                    carry = exclusive_prefix_in_rows(scan, chain, group, static_cast<int>(split), tile_aggregate,
                                                     warp_aggregates[buffer ^ 1]);
            }
            base = scan.combine(carry, row_prefix);
            carry = scan.combine(carry, tile_aggregate);
            if (is_split) base = scan.combine(split_prefix[slot], base);
        } else {
            carry = thread_tile.aggregate;
        }
        if (grid.pass == ScanPass::kReduce) continue;
        if (is_whole)
            write_results<true>(scan, out, offset, grid, range, lane_in_row, base, thread_tile, each_out, each_in);
        else
            write_results<false>(scan, out, offset, grid, range, lane_in_row, base, thread_tile, each_out, each_in);
        if (is_split && grid.pass == ScanPass::kSingle && tile + span * grid.warps == (split + 1) * grid.split_length) {
            __syncthreads();
            if (warp == 0 && (kSlots > 1 || lane == 0)) split_prefix[slot] = scan.combine(split_prefix[slot], carry);
            carry = scan.identity();
            if (split + 2 < static_cast<uint32_t>(grid.splits)) ++split;  // the last split takes the remainder
        }
    }
    if (grid.pass == ScanPass::kReduce && warp == 0 && has_row && (kSlots > 1 || lane == 0))
        store_state(get<0>(out.pointer) + offset[0] + begin * grid.step[0], grid.step[0], carry);
}

// Minimum resident blocks per SM for __launch_bounds__: several inputs, and wide strided elements, need more registers.
template <int U, class Out, class In>
constexpr int kScanMinBlocks = In::count > 2                                                      ? 2
                               : In::count == 2 || (U == 1 && (Out::count > 1 || In::widest > 2)) ? 3
                                                                                                  : 4;

template <int N, int U, class S, class Out, class In>
__global__ void __launch_bounds__(kScanThreads, kScanMinBlocks<U, Out, In>)
    scan_kernel(S scan, Out out, In in, const __grid_constant__ ScanGrid<Out::count + In::count> grid,
                ScanTileStates<typename S::State> chain) {
    scan_rows<N, U>(scan, out, in, grid, chain);
}

struct ScanPlan {
    bool is_innermost;
    int width, warps, vectors;
    int64_t tile;         // elements of a row that its threads take at once
    int64_t row_blocks;   // blocks that cover all rows
    int64_t chain_tiles;  // tiles of a row with look-back; 1: rows stay whole
    bool is_staged;       // tiles are those of staged_scan()
};

// The axes are collapsed. kLanes elements fill a vector.
template <class S, int kLanes, int Operands>
ScanPlan plan_scan(const ScanAxes<Operands>& axes) {
    ScanPlan plan{};
    plan.is_innermost = axes.is_innermost();
    const int n = plan.is_innermost ? kLanes : kScanStridedItems<kLanes, Operands>,
              most = plan.is_innermost ? kScanVectors<kLanes, Operands> : 1;
    const int64_t row_vectors = ceil_div<int64_t>(axes.length, n), rows = axes.rows.numel();
    plan.width = plan.warps = 1;
    const auto wants_more = [&](int threads) {
        return threads < row_vectors &&
               (threads * most < row_vectors || threads < kMinRowThreads || rows * threads < kScanFillThreads);
    };
    if (plan.is_innermost)
        while (plan.width < 32 && wants_more(plan.width)) plan.width *= 2;
    if (row_vectors > int64_t{plan.width} * most)
        while (plan.warps < kScanWarps && wants_more(plan.width * plan.warps)) plan.warps *= 2;
    plan.vectors = static_cast<int>(std::min<int64_t>(most, ceil_div<int64_t>(row_vectors, int64_t{plan.width} * plan.warps)));
    plan.tile = int64_t{plan.width} * plan.warps * plan.vectors * n;
    plan.row_blocks = ceil_div<int64_t>(rows, int64_t{kScanWarps / plan.warps} * (32 / plan.width));
    const int64_t row_tiles = ceil_div(axes.length, plan.tile);
    plan.chain_tiles = 2 * plan.row_blocks <= kScanFillBlocks && row_tiles * plan.row_blocks <= INT32_MAX ? row_tiles : 1;
    if (kCanStage<S, Operands> && plan.chain_tiles > 1 && plan.warps == kScanWarps) {
        const int64_t staged_row_tiles = staged_tiles<kLanes>(plan.row_blocks, axes.length, plan.is_innermost);
        plan.is_staged = staged_row_tiles > 0;
        if (plan.is_staged) plan.chain_tiles = staged_row_tiles;
    }
    return plan;
}

// Tile states if rows are cut into tiles.
template <class State>
ScanTileStates<State> carve_plan_tiles(Carver* carver, const ScanPlan& plan) {
    if (plan.chain_tiles == 1) return {};
    const uint32_t groups = static_cast<uint32_t>(plan.row_blocks);
    return plan.is_innermost ? carve_tile_states<1, State>(carver, groups, plan.chain_tiles)
                             : carve_tile_states<32, State>(carver, groups, plan.chain_tiles);
}

template <class T, class S, int Operands>
size_t scan_workspace_bytes(const ScanAxes<Operands>& axes) {
    const ScanPlan plan = plan_scan<S, kVectorLanes<T>>(axes);
    Carver carver;
    carve_plan_tiles<typename S::State>(&carver, plan);
    return carver.bytes();
}

// Whether the first output aliases an input.
template <class Out, class In, size_t... I>
bool aliases_input(const Out& out, const In& in, std::index_sequence<I...>) {
    const void* const first = get<0>(out.pointer);
    return ((first == static_cast<const void*>(get<I>(in.pointer))) || ...);
}

// Fewer than 2^31 rows; the axes are collapsed.
template <class S, class... Out, class... In>
Status launch_scan(const Launch& launch, const ScanAxes<sizeof...(Out) + sizeof...(In)>& axes, const S& scan,
                   const Outputs<Out...>& out, const Inputs<In...>& in) {
    constexpr int N = kVectorBytes / Inputs<In...>::widest;
    using State = typename S::State;
    const ScanPlan plan = plan_scan<S, N>(axes);
    ScanGrid<sizeof...(Out) + sizeof...(In)> grid{};
    grid.row = LongWalk<sizeof...(Out) + sizeof...(In)>(axes.rows);
    std::copy(axes.step, axes.step + sizeof...(Out) + sizeof...(In), grid.step);
    grid.rows = static_cast<uint32_t>(axes.rows.numel());
    grid.length = grid.split_length = axes.length;
    grid.splits = 1;
    grid.width = plan.width;
    grid.warps = plan.warps;
    grid.vectors = plan.vectors;
    grid.is_dense =
        plan.is_innermost && all_have_vectors<N, S::kLookaheadInput>(axes, out, in, typename Outputs<Out...>::Indices{},
                                                                     typename Inputs<In...>::Indices{});
    Carver counter;
    carve_plan_tiles<State>(&counter, plan);
    const bool has_workspace = workspace_holds(launch, counter.bytes());
    ScanTileStates<State> chain;
    int64_t blocks = plan.row_blocks;
    if (has_workspace) {
        Carver carver(launch.workspace);
        chain = carve_plan_tiles<State>(&carver, plan);
        grid.split_length = plan.tile;
        blocks *= plan.chain_tiles;
        BK_TRY(clear_tile_states(launch, chain));
        if constexpr (kCanStage<S, sizeof...(Out) + sizeof...(In)>)
            if (plan.is_staged)
                return staged_scan(launch, axes, scan, plan.is_innermost, grid, chain, get<0>(out.pointer), get<0>(in.pointer));
    }
    using To = Outputs<Out...>;
    using From = Inputs<In...>;
    const auto launch_blocks = [&](int64_t blocks) {
        const Grid grid_of_blocks{dim3(static_cast<unsigned>(blocks)), dim3(kScanThreads)};
        if (plan.is_innermost)
            return launch_kernel(launch, grid_of_blocks, scan_kernel<N, kScanVectors<N, To::count + From::count>, S, To, From>,
                                 scan, out, in, grid, chain);
        return launch_kernel(launch, grid_of_blocks, scan_kernel<kScanStridedItems<N, To::count + From::count>, 1, S, To, From>,
                             scan, out, in, grid, chain);
    };
    if (!has_workspace && plan.warps == kScanWarps) plan_splits(plan.row_blocks, plan.tile, &grid);
    if (grid.splits == 1 || aliases_input(out, in, typename Inputs<In...>::Indices{})) return launch_blocks(blocks);
    grid.pass = ScanPass::kReduce;
    BK_TRY(launch_blocks(blocks * (grid.splits - 1)));
    using First = std::remove_pointer_t<std::decay_t<decltype(get<0>(out.pointer))>>;
    const Grid rows{dim3(grid.rows), dim3(kSplitThreads)};
    BK_TRY(launch_kernel(launch, rows, scan_splits_kernel<S, First, To::count + From::count>, scan, get<0>(out.pointer), grid));
    grid.pass = ScanPass::kScan;
    return launch_blocks(blocks * grid.splits);
}

template <class S, class... Out, class... In>
Status run_scan(const Launch& launch, ScanAxes<sizeof...(Out) + sizeof...(In)> axes, const S& scan, Outputs<Out...> out,
                Inputs<In...> in) {
    constexpr int64_t kMaxRows = int64_t{1} << 30;
    if (axes.rows.numel() <= kMaxRows) return launch_scan(launch, axes, scan, out, in);
    int widest = 0;
    for (int d = 1; d < axes.rows.rank; ++d)
        if (axes.rows.extent[d] > axes.rows.extent[widest]) widest = d;
    int64_t half[sizeof...(Out) + sizeof...(In)];
    const int64_t extent = axes.rows.extent[widest];
    for (int k = 0; k < static_cast<int>(sizeof...(Out) + sizeof...(In)); ++k)
        half[k] = extent / 2 * axes.rows.stride[k][widest];
    axes.rows.extent[widest] = extent / 2;
    BK_TRY(run_scan(launch, axes, scan, out, in));
    advance_pointers(&out, &in, half);
    axes.rows.extent[widest] = extent - extent / 2;
    return run_scan(launch, axes, scan, out, in);
}

}  // namespace bk
