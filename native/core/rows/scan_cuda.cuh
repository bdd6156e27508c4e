// One kernel. A row is scanned by a part of a warp, by a warp or by several warps of a block, tile after tile; each thread
// joins a few neighbours. Where neighbours in memory are terms, lanes share a row and load vectors; where they are of
// different rows, lanes take rows. Of few long rows each tile is a block's, and a chain tells it what comes before; without a
// workspace each part is a block's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/prefetch.cuh"
#include "core/rows/scan.h"
#include "core/rows/scan_chain.cuh"
#include "core/rows/scan_parts.cuh"
#include "core/rows/scan_staged.cuh"
#include "core/rows/scan_terms.cuh"
#include "core/types/vec.h"

namespace bk {

constexpr int kScanWarps = kChainWarps, kScanThreads = 32 * kScanWarps;
constexpr int kScanTerms = 16;  // of a thread in a tile
// Vectors of N terms each, of a row along memory. Of 16 bits twice the terms, where one operand goes in and one comes out.
template <int N, int Operands>
constexpr int kScanVectors = N > 4 && Operands == 2 ? 4 : kScanTerms / N;
// Of a row across memory, beside vectors of N. f32 has its sums in f64, for which registers would not be enough.
template <int N, int Operands>
constexpr int kScanAcross = N > 4 && Operands == 2 ? 2 * kScanTerms : kScanTerms;
// Blocks that fill a large chip. A constant, so that the order of joins is the same on every one.
constexpr int64_t kScanBlocks = 1056;
// Threads that are enough for it: of more rows each takes no more of them than hold it in registers, so that each thread has
// several vectors under way.
constexpr int64_t kScanManyThreads = int64_t{1} << 18;
constexpr uint32_t kScanAhead = 2;  // pieces of a multiprocessor that are under way when the lines of a later one are asked for
constexpr int kScanLeast = 2;       // threads of a row, whose vectors are a sector of memory

// Whether N terms, of which `exist` do, are a vector of memory.
template <int N, bool kIsAhead, class T>
BK_DEVICE bool is_vector(int exist, bool is_dense) {
    return !kIsAhead && sizeof(Vec<T, N>) <= kVectorBytes && is_dense && exist == N;
}

// The vector of the terms from `place` on: what is done with its elements waits until the loads of all vectors are under way.
template <int N, bool kIsAhead, class T>
BK_DEVICE Vec<T, N> load_terms(const T* row, int64_t step, int64_t place, int exist, bool is_dense) {
    if constexpr (kIsAhead || sizeof(Vec<T, N>) > kVectorBytes)
        return {};
    else
        return load_if<N>(is_vector<N, kIsAhead, T>(exist, is_dense), step < 0 ? row - (place + N - 1) : row + place);
}

// N terms from `place` on, of which `exist` do, in the order of the scan; `found` is what load_terms() gave.
template <int N, bool kIsAhead, bool kWhole, class T>
BK_DEVICE Vec<T, N> ordered_terms(const Vec<T, N>& found, const T* row, int64_t step, int64_t place, int exist, int64_t length,
                                  bool is_dense) {
    if (is_vector<N, kIsAhead, T>(exist, is_dense)) return turned_if(step < 0, found);
    Vec<T, N> x{};
    const T* const first = row + (place + kIsAhead) * step;
    const int there = kIsAhead && exist > 0 && place + exist == length ? exist - 1 : exist;
#pragma unroll
    for (int i = 0; i < N; ++i) x.lane[i] = kWhole || i < there ? first[i * step] : kIsAhead ? narrow<T>(compute_t<T>(1)) : T{};
    return x;
}

// Vectors of more than one store, of the lanes of a warp, which lie one after another from `first` on: by way of shared memory,
// so that each store of the warp writes whole sectors. `slot` is the place of the lane's own.
template <int N, class T>
BK_DEVICE void store_together(T* first, int slot, const Vec<T, N>& y) {
    constexpr int kWords = sizeof(Vec<T, N>) / kVectorBytes;
    __shared__ uint4 stage[kScanWarps][32 * kWords];
    struct Words {
        uint4 word[kWords];
    };
    const Words words = bit_cast<Words>(y);
    const int lane = threadIdx.x % 32;
    uint4* const mine = stage[threadIdx.x / 32];
    const auto apart = [](int i) { return i ^ (i >> 3 & 7); };  // neighbours of a column are in banks of their own, too
#pragma unroll
    for (int w = 0; w < kWords; ++w) mine[apart(slot * kWords + w)] = words.word[w];
    __syncwarp();
#pragma unroll
    for (int w = 0; w < kWords; ++w) reinterpret_cast<uint4*>(first)[w * 32 + lane] = mine[apart(w * 32 + lane)];
    __syncwarp();
}

// `at` is the lane's place among `width` of the row.
template <int N, bool kWhole, class T>
BK_DEVICE void store_terms(T* row, int64_t step, int64_t place, int exist, bool is_dense, [[maybe_unused]] int at,
                           [[maybe_unused]] int width, const Vec<T, N>& y) {
    if constexpr (kWhole && sizeof(Vec<T, N>) > kVectorBytes) {
        if (is_dense && width == 32) {
            const int64_t begin = place - at * N;
            T* const first = step < 0 ? row - (begin + 32 * N - 1) : row + begin;
            return store_together<N>(first, step < 0 ? 31 - at : at, turned_if(step < 0, y));
        }
    }
    if (is_dense && exist == N) {
        store<N>(step < 0 ? row - (place + N - 1) : row + place, turned_if(step < 0, y));
        return;
    }
    T* const first = row + place * step;
#pragma unroll
    for (int i = 0; i < N; ++i)
        if (kWhole || i < exist) first[i * step] = y.lane[i];
}

// Places of a thread in a tile: vectors of N from `first` on, `stride` from one to the next, before `end`.
struct ScanPlaces {
    int64_t first, end;
    int stride;
};

// A vector as words, while its elements wait for what comes before them: those of 16 bits would take a register each.
template <class V>
struct ScanWords {
    uint32_t word[sizeof(V) / sizeof(uint32_t)];
};
template <class V>
using ScanKept = std::conditional_t<sizeof(V) % sizeof(uint32_t) == 0, ScanWords<V>, V>;

// What a thread has of a tile: its vectors, what comes before each in its row of threads, and what they all come to.
template <int N, int U, class State, class... In>
struct ScanTerms {
    Pack<ScanKept<Vec<In, N>>...> x[U];
    State before[U], sum;
};

template <bool kWhole, int N, int U, class S, class State, class... In, int Operands, size_t... I>
BK_DEVICE void join_terms(const S& scan, const Inputs<In...>& in, const int64_t* offset, const ScanGrid<Operands>& grid,
                          const ScanPlaces& places, int at, ScanTerms<N, U, State, In...>* terms, std::index_sequence<I...>) {
    constexpr int kOut = Operands - static_cast<int>(sizeof...(In));
    const bool is_dense = U > 1 && (kWhole || grid.is_dense);
    Pack<Vec<In, N>...> found[U];
#pragma unroll
    for (int u = 0; u < U; ++u) {
        const int64_t place = places.first + u * places.stride;
        const int exist = u < grid.vectors ? existing<N, kWhole>(place, places.end) : 0;
        found[u] = pack(load_terms<N, S::kAhead == static_cast<int>(I)>(get<I>(in.pointer) + offset[I], grid.step[kOut + I],
                                                                        place, exist, is_dense)...);
    }
#pragma unroll
    for (int u = 0; u < U; ++u)
        if (u < grid.vectors) {
            const int64_t place = places.first + u * places.stride;
            const int exist = existing<N, kWhole>(place, places.end);
            terms->x[u] = pack(bit_cast<ScanKept<Vec<In, N>>>(ordered_terms<N, S::kAhead == static_cast<int>(I), kWhole>(
                get<I>(found[u]), get<I>(in.pointer) + offset[I], grid.step[kOut + I], place, exist, grid.length,
                is_dense))...);
        }
    constexpr int kTogether = sizeof...(In) > 1 ? 1 : U;  // vectors that lanes join at once: registers
#pragma unroll
    for (int begin = 0; begin < U; begin += kTogether) {
        State through[kTogether];  // from the first of the vector's threads on
#pragma unroll
        for (int j = 0; j < kTogether; ++j) {
            const int u = begin + j;
            const int64_t place = places.first + u * places.stride;
            const int exist = u < grid.vectors ? existing<N, kWhole>(place, places.end) : 0;
            const Pack<Vec<In, N>...> x = pack(bit_cast<Vec<In, N>>(get<I>(terms->x[u]))...);
            through[j] = scan.identity();
#pragma unroll
            for (int i = 0; i < N; ++i)
                if (i < exist) {
                    const auto with = [&](auto... x) {
                        return i == 0 ? scan.term(place + i, x...) : extended(scan, through[j], place + i, x...);
                    };
                    through[j] = with(widen_lane(get<I>(x), i)...);
                }
        }
        if constexpr (U == 1) {  // lanes have rows of their own
            terms->before[0] = terms->sum;
            terms->sum = scan.join(terms->sum, through[0]);
        } else {
#pragma unroll(kTogether == 1 ? 1 : 5)
            for (int distance = 1; distance < 32; distance *= 2) {
                if (distance >= grid.width) break;
#pragma unroll
                for (int j = 0; j < kTogether; ++j) {
                    const State below = lane_below(through[j], distance, grid.width);
                    if (at >= distance) through[j] = scan.join(below, through[j]);
                }
            }
#pragma unroll
            for (int j = 0; j < kTogether; ++j) {
                if (begin + j >= grid.vectors) break;
                const State below = lane_below(through[j], 1, grid.width);
                terms->before[begin + j] = at == 0 ? terms->sum : scan.join(terms->sum, below);
                terms->sum = scan.join(terms->sum, last_lane(through[j], grid.width));
            }
        }
    }
}

// `base` is what comes before the row of threads, where several warps share one.
template <bool kWhole, int N, int U, class S, class State, class... Out, class... In, int Operands, size_t... O, size_t... I>
BK_DEVICE void put_values(const S& scan, const Outputs<Out...>& out, const int64_t* offset, const ScanGrid<Operands>& grid,
                          const ScanPlaces& places, int at, const State& base, const ScanTerms<N, U, State, In...>& terms,
                          std::index_sequence<O...>, std::index_sequence<I...>) {
    const bool is_dense = U > 1 && (kWhole || grid.is_dense);
#pragma unroll
    for (int u = 0; u < U; ++u) {
        if (u >= grid.vectors) break;
        const int64_t place = places.first + u * places.stride;
        const int exist = existing<N, kWhole>(place, places.end);
        State last = grid.deep > 1 ? scan.join(base, terms.before[u]) : terms.before[u];
        const Pack<Vec<In, N>...> x = pack(bit_cast<Vec<In, N>>(get<I>(terms.x[u]))...);
        Pack<Vec<Out, N>...> y;
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const State through = extended(scan, last, place + i, widen_lane(get<I>(x), i)...);
            put(y, i, scan.value(place + i, last, through, widen_lane(get<I>(x), i)...));
            last = through;
        }
        (store_terms<N, kWhole>(get<O>(out.pointer) + offset[O], grid.step[O], place, exist, is_dense, at, grid.width,
                                get<O>(y)),
         ...);
    }
}

// Asks for what a later block's warp is going to load: the pieces of a chain start in order, and each that finds its terms in
// the L2 cache leaves what it comes to so much earlier, which is what all behind it wait for. Lanes of one row ask for its
// lines, those with rows of their own for a term each of the first one, whose lines the others share.
template <int N, int U, class... In, int Operands, size_t... I>
BK_DEVICE void prefetch_piece(const Inputs<In...>& in, const ScanGrid<Operands>& grid, uint32_t groups, uint32_t ticket,
                              std::index_sequence<I...>) {
    constexpr int kOut = Operands - static_cast<int>(sizeof...(In)), kRows = U == 1 ? 32 : 1;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, terms = grid.width * N * grid.vectors;
    const int64_t begin = int64_t{ticket / groups} * grid.part + int64_t{warp} * terms;
    int64_t offset[Operands] = {};
    grid.row(ticket % groups * kRows, offset);
    const auto ask = [&](const auto* row, int64_t step, int bytes) {
        const int term = lane * (U == 1 ? 1 : kLineBytes / bytes);
        if (term < terms && begin + term < grid.length) prefetch_line(row + (begin + term) * step);
    };
    (ask(get<I>(in.pointer) + offset[kOut + I], grid.step[kOut + I], static_cast<int>(sizeof(In))), ...);
}

// A thread takes U vectors of N terms a tile. In rows that lie across memory U is 1, and lanes have a row each.
template <int N, int U, class S, class... Out, class... In>
BK_DEVICE void scan_rows(const S& scan, const Outputs<Out...>& out, const Inputs<In...>& in,
                         const ScanGrid<sizeof...(Out) + sizeof...(In)>& grid, const ScanChain<typename S::State>& chain) {
    using State = typename S::State;
    constexpr std::index_sequence_for<Out...> each_out;
    constexpr std::index_sequence_for<In...> each_in;
    constexpr int kOut = sizeof...(Out), kInputs = sizeof...(In);
    constexpr int kSlots = U == 1 ? 32 : 1;  // rows of a warp, where several warps share them
    __shared__ State of_warp[2][kScanWarps][kSlots], before_part[kSlots];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int at = lane % grid.width, level = warp % grid.deep, slot = kSlots == 1 ? 0 : lane;
    uint32_t group = blockIdx.x, piece = 0;
    if (chain.ticket != nullptr) {
        __shared__ uint32_t ticket;
        if (threadIdx.x == 0) ticket = atomicAdd(chain.ticket, 1u);
        __syncthreads();
        group = ticket % chain.groups;
        piece = ticket / chain.groups;
        const uint32_t later = ticket + kScanAhead * multiprocessors();
        if (later < gridDim.x) prefetch_piece<N, U>(in, grid, chain.groups, later, each_in);
    } else if (grid.role != ScanRole::kRow) {
        const uint32_t groups = gridDim.x / (grid.parts - (grid.role == ScanRole::kSum));
        group = blockIdx.x % groups;
        piece = blockIdx.x / groups;
    }
    const int block_rows = kScanWarps / grid.deep * (32 / grid.width);
    const int64_t row = int64_t{group} * block_rows + warp / grid.deep * (32 / grid.width) + lane / grid.width;
    const bool has_row = row < grid.rows, has_rows = (int64_t{group} + 1) * block_rows <= grid.rows;
    int64_t offset[kOut + sizeof...(In)] = {};
    if (has_row) grid.row(static_cast<uint32_t>(row), offset);
    const int64_t begin = piece * grid.part;
    const bool has_parts = grid.parts > 1, is_last = static_cast<int>(piece) + 1 == grid.parts;
    const bool is_rest = has_parts && (grid.role == ScanRole::kRow || is_last);
    const int64_t stop = !is_rest && begin + grid.part < grid.length ? begin + grid.part : grid.length;
    if (has_parts && warp == 0 && (kSlots > 1 || lane == 0))
        before_part[slot] = grid.role == ScanRole::kResults && piece > 0 && has_row
                                ? parked<State>(get<0>(out.pointer) + offset[0] + begin * grid.step[0], grid.step[0])
                                : scan.identity();
    const int64_t whole = stop - (S::kAhead >= 0 && stop == grid.length);  // what is ahead of these places exists
    State carry = scan.identity();
    const int64_t span = int64_t{grid.width} * N * grid.vectors;
    int buffer = 0;
    for (int64_t tile = begin; tile < stop; tile += span * grid.deep, buffer ^= 1) {
        // Three inputs leave no registers for a second path.
        const bool is_whole = kInputs < 3 && has_rows && (U == 1 || grid.is_dense) && tile + span * grid.deep <= whole;
        const ScanPlaces places{tile + level * span + at * N, has_row ? stop : begin, grid.width * N};
        ScanTerms<N, U, State, In...> terms;
        terms.sum = grid.deep == 1 ? carry : scan.identity();
        if (is_whole)
            join_terms<true>(scan, in, offset + kOut, grid, places, at, &terms, each_in);
        else
            join_terms<false>(scan, in, offset + kOut, grid, places, at, &terms, each_in);
        State base = scan.identity();
        if (grid.deep > 1) {
            if (kSlots > 1 || lane == 0) of_warp[buffer][warp][slot] = terms.sum;
            __syncthreads();
            State mine = scan.identity(), all = scan.identity();
            for (int w = 0; w < grid.deep; ++w) {
                if (w == level) mine = all;
                all = scan.join(all, of_warp[buffer][warp - level + w][slot]);
            }
            if (chain.ticket != nullptr) {
                if constexpr (kSlots == 1)
                    carry = find_before_in_row(scan, chain, group, static_cast<int>(piece), all);
                else
                    carry = find_before_in_rows(scan, chain, group, static_cast<int>(piece), all, of_warp[buffer ^ 1]);
            }
            base = scan.join(carry, mine);
            carry = scan.join(carry, all);
            if (has_parts) base = scan.join(before_part[slot], base);
        } else {
            carry = terms.sum;
        }
        if (grid.role == ScanRole::kSum) continue;
        if (is_whole)
            put_values<true>(scan, out, offset, grid, places, at, base, terms, each_out, each_in);
        else
            put_values<false>(scan, out, offset, grid, places, at, base, terms, each_out, each_in);
        if (has_parts && grid.role == ScanRole::kRow && tile + span * grid.deep == (piece + 1) * grid.part) {
            __syncthreads();
            if (warp == 0 && (kSlots > 1 || lane == 0)) before_part[slot] = scan.join(before_part[slot], carry);
            carry = scan.identity();
            if (piece + 2 < static_cast<uint32_t>(grid.parts)) ++piece;  // the last part has what is left
        }
    }
    if (grid.role == ScanRole::kSum && warp == 0 && has_row && (kSlots > 1 || lane == 0))
        park(get<0>(out.pointer) + offset[0] + begin * grid.step[0], grid.step[0], carry);
}

// Blocks of a multiprocessor: what several inputs have under way, or elements of more than 16 bits across memory, takes
// registers of its own.
template <int U, class Out, class In>
constexpr int kScanResident = In::count > 2                                                      ? 2
                              : In::count == 2 || (U == 1 && (Out::count > 1 || In::widest > 2)) ? 3
                                                                                                 : 4;

template <int N, int U, class S, class Out, class In>
__global__ void __launch_bounds__(kScanThreads, kScanResident<U, Out, In>)
    scan_kernel(S scan, Out out, In in, const __grid_constant__ ScanGrid<Out::count + In::count> grid,
                ScanChain<typename S::State> chain) {
    scan_rows<N, U>(scan, out, in, grid, chain);
}

struct ScanShape {
    bool is_along;
    int width, deep, vectors;
    int64_t tile;        // terms of a row that its threads take at once
    int64_t row_blocks;  // blocks that all rows take
    int64_t pieces;      // of a row, with a workspace
    bool is_staged;      // these are tiles of staged_scan()
};

// Axes are collapsed. `kLanes` elements fill a vector.
template <class S, int kLanes, int Operands>
ScanShape plan_scan(const ScanAxes<Operands>& axes) {
    ScanShape shape{};
    shape.is_along = axes.runs_along();
    const int n = shape.is_along ? kLanes : kScanAcross<kLanes, Operands>,
              most = shape.is_along ? kScanVectors<kLanes, Operands> : 1;
    const int64_t pieces = ceil_div<int64_t>(axes.length, n), rows = axes.rows.numel();
    shape.width = shape.deep = 1;
    const auto wants_more = [&](int threads) {
        return threads < pieces && (threads * most < pieces || threads < kScanLeast || rows * threads < kScanManyThreads);
    };
    if (shape.is_along)
        while (shape.width < 32 && wants_more(shape.width)) shape.width *= 2;
    if (pieces > int64_t{shape.width} * most)
        while (shape.deep < kScanWarps && wants_more(shape.width * shape.deep)) shape.deep *= 2;
    shape.vectors = static_cast<int>(std::min<int64_t>(most, ceil_div<int64_t>(pieces, int64_t{shape.width} * shape.deep)));
    shape.tile = int64_t{shape.width} * shape.deep * shape.vectors * n;
    shape.row_blocks = ceil_div<int64_t>(rows, int64_t{kScanWarps / shape.deep} * (32 / shape.width));
    const int64_t tiles = ceil_div(axes.length, shape.tile);
    shape.pieces = 2 * shape.row_blocks <= kScanBlocks && tiles * shape.row_blocks <= INT32_MAX ? tiles : 1;
    if (kIsStaged<S, Operands> && shape.pieces > 1 && shape.deep == kScanWarps) {
        const int64_t staged = staged_tiles<kLanes>(shape.row_blocks, axes.length, shape.is_along);
        shape.is_staged = staged > 0;
        if (shape.is_staged) shape.pieces = staged;
    }
    return shape;
}

// A chain where rows are cut into pieces; a tile is as many warps as a block has then.
template <class State>
ScanChain<State> carve_pieces(Carver* carver, const ScanShape& shape) {
    if (shape.pieces == 1) return {};
    const uint32_t groups = static_cast<uint32_t>(shape.row_blocks);
    return shape.is_along ? carve_chain<1, State>(carver, groups, shape.pieces)
                          : carve_chain<32, State>(carver, groups, shape.pieces);
}

template <class T, class S, int Operands>
size_t scan_parts_bytes(const ScanAxes<Operands>& axes) {
    const ScanShape shape = plan_scan<S, kVectorLanes<T>>(axes);
    Carver carver;
    carve_pieces<typename S::State>(&carver, shape);
    return carver.bytes();
}

// Whether the first output's places are an input's, too.
template <class Out, class In, size_t... I>
bool lies_over_input(const Out& out, const In& in, std::index_sequence<I...>) {
    const void* const first = get<0>(out.pointer);
    return ((first == static_cast<const void*>(get<I>(in.pointer))) || ...);
}

// Fewer than 2^31 rows, axes collapsed.
template <class S, class... Out, class... In>
Status scan_some_rows(const Launch& launch, const ScanAxes<sizeof...(Out) + sizeof...(In)>& axes, const S& scan,
                      const Outputs<Out...>& out, const Inputs<In...>& in) {
    constexpr int N = kVectorBytes / Inputs<In...>::widest;
    using State = typename S::State;
    const ScanShape shape = plan_scan<S, N>(axes);
    ScanGrid<sizeof...(Out) + sizeof...(In)> grid{};
    grid.row = LongWalk<sizeof...(Out) + sizeof...(In)>(axes.rows);
    std::copy(axes.step, axes.step + sizeof...(Out) + sizeof...(In), grid.step);
    grid.rows = static_cast<uint32_t>(axes.rows.numel());
    grid.length = grid.part = axes.length;
    grid.parts = 1;
    grid.width = shape.width;
    grid.deep = shape.deep;
    grid.vectors = shape.vectors;
    grid.is_dense = shape.is_along && all_have_vectors<N, S::kAhead>(axes, out, in, typename Outputs<Out...>::Indices{},
                                                                     typename Inputs<In...>::Indices{});
    Carver counter;
    carve_pieces<State>(&counter, shape);
    const bool found = workspace_holds(launch, counter.bytes());
    ScanChain<State> chain;
    int64_t blocks = shape.row_blocks;
    if (found) {
        Carver carver(launch.workspace);
        chain = carve_pieces<State>(&carver, shape);
        grid.part = shape.tile;
        blocks *= shape.pieces;
        BK_TRY(clear_chain(launch, chain));
        if constexpr (kIsStaged<S, sizeof...(Out) + sizeof...(In)>)
            if (shape.is_staged)
                return staged_scan(launch, axes, scan, shape.is_along, grid, chain, get<0>(out.pointer), get<0>(in.pointer));
    }
    using To = Outputs<Out...>;
    using From = Inputs<In...>;
    const auto launched = [&](int64_t blocks) {
        const Grid all{dim3(static_cast<unsigned>(blocks)), dim3(kScanThreads)};
        if (shape.is_along)
            return launch_kernel(launch, all, scan_kernel<N, kScanVectors<N, To::count + From::count>, S, To, From>, scan, out,
                                 in, grid, chain);
        return launch_kernel(launch, all, scan_kernel<kScanAcross<N, To::count + From::count>, 1, S, To, From>, scan, out, in,
                             grid, chain);
    };
    if (!found && shape.deep == kScanWarps) plan_parts(shape.row_blocks, shape.tile, &grid);
    if (grid.parts == 1 || lies_over_input(out, in, typename Inputs<In...>::Indices{})) return launched(blocks);
    grid.role = ScanRole::kSum;
    BK_TRY(launched(blocks * (grid.parts - 1)));
    using First = std::remove_pointer_t<std::decay_t<decltype(get<0>(out.pointer))>>;
    const Grid rows{dim3(grid.rows), dim3(kPartThreads)};
    BK_TRY(launch_kernel(launch, rows, join_parts_kernel<S, First, To::count + From::count>, scan, get<0>(out.pointer), grid));
    grid.role = ScanRole::kResults;
    return launched(blocks * grid.parts);
}

template <class S, class... Out, class... In>
Status run_scan(const Launch& launch, ScanAxes<sizeof...(Out) + sizeof...(In)> axes, const S& scan, Outputs<Out...> out,
                Inputs<In...> in) {
    constexpr int64_t kMostRows = int64_t{1} << 30;
    if (axes.rows.numel() <= kMostRows) return scan_some_rows(launch, axes, scan, out, in);
    int widest = 0;
    for (int d = 1; d < axes.rows.rank; ++d)
        if (axes.rows.extent[d] > axes.rows.extent[widest]) widest = d;
    int64_t half[sizeof...(Out) + sizeof...(In)];
    const int64_t extent = axes.rows.extent[widest];
    for (int k = 0; k < static_cast<int>(sizeof...(Out) + sizeof...(In)); ++k)
        half[k] = extent / 2 * axes.rows.stride[k][widest];
    axes.rows.extent[widest] = extent / 2;
    BK_TRY(run_scan(launch, axes, scan, out, in));
    move_by(&out, &in, half);
    axes.rows.extent[widest] = extent - extent / 2;
    return run_scan(launch, axes, scan, out, in);
}

}  // namespace bk
