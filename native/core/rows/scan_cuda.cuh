// One kernel. A row is scanned by a part of a warp, by a warp or by several warps of a block, tile after tile; each thread
// joins a few neighbours. Where neighbours in memory are terms, lanes share a row and load vectors; where they are of
// different rows, lanes take rows. Few long rows are cut into chunks: a first pass finds what each chunk comes to, a second
// what comes before it, a third scans the chunks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/pointwise/long_walk.h"
#include "core/rows/scan.h"
#include "core/types/vec.h"

namespace bk {

constexpr int kScanThreads = 256, kScanWarps = kScanThreads / 32;
constexpr int kScanTerms = 16;  // of a thread in a tile
// Blocks that fill a large chip. A constant, so that the order of joins is the same on every one.
constexpr int64_t kScanBlocks = 1056;

enum class ScanPass { kWhole, kTotals, kRest };

template <int Operands>
struct ScanGrid {
    LongWalk<Operands> row;
    int64_t step[Operands];
    uint32_t rows;
    int64_t length, chunk;  // chunk: terms of a row that a block scans, one blockIdx.y
    int width, deep;        // lanes and warps that share a row, powers of two; several warps only of whole ones
    int vectors;            // of a thread in a tile
    bool is_dense;          // vectors may be loaded and stored as such
};

// x of the lane `distance` below among `width`; any value where there is none.
template <class State>
BK_DEVICE State lane_below(const State& x, int distance, int width) {
    static_assert(sizeof(State) % 4 == 0, "lanes exchange words");
    uint32_t word[sizeof(State) / 4];
    memcpy(word, &x, sizeof(State));
#pragma unroll
    for (int w = 0; w < static_cast<int>(sizeof(State) / 4); ++w) word[w] = __shfl_up_sync(0xffffffffu, word[w], distance, width);
    State result;
    memcpy(&result, word, sizeof(State));
    return result;
}

template <class State>
BK_DEVICE State last_lane(const State& x, int width) {
    uint32_t word[sizeof(State) / 4];
    memcpy(word, &x, sizeof(State));
#pragma unroll
    for (int w = 0; w < static_cast<int>(sizeof(State) / 4); ++w) word[w] = __shfl_sync(0xffffffffu, word[w], width - 1, width);
    State result;
    memcpy(&result, word, sizeof(State));
    return result;
}

// What the lanes up to this one have, joined.
template <class S, class State = typename S::State>
BK_DEVICE State join_lanes(const S& scan, State state, int at, int width) {
    for (int distance = 1; distance < width; distance *= 2) {
        const State below = lane_below(state, distance, width);
        if (at >= distance) state = scan.join(below, state);
    }
    return state;
}

// N terms from `place` on, of which those before `end` exist.
template <int N, bool kIsAhead, class T>
BK_DEVICE Vec<T, N> load_terms(const T* row, int64_t step, int64_t place, int64_t end, int64_t length, bool is_dense) {
    Vec<T, N> x{};
    if (!kIsAhead && is_dense && place + N <= end) {
        const bool turned = step < 0;
        const Vec<T, N> found = load<N>(turned ? row - (place + N - 1) : row + place);
#pragma unroll
        for (int i = 0; i < N; ++i) x.lane[i] = turned ? found.lane[N - 1 - i] : found.lane[i];
        return x;
    }
#pragma unroll
    for (int i = 0; i < N; ++i)
        if (place + i < end) x.lane[i] = term_at<kIsAhead>(row, step, place + i, length);
    return x;
}

template <int N, class T>
BK_DEVICE void store_terms(T* row, int64_t step, int64_t place, int64_t end, bool is_dense, const Vec<T, N>& y) {
    if (is_dense && place + N <= end) {
        const bool turned = step < 0;
        Vec<T, N> given;
#pragma unroll
        for (int i = 0; i < N; ++i) given.lane[i] = turned ? y.lane[N - 1 - i] : y.lane[i];
        store<N>(turned ? row - (place + N - 1) : row + place, given);
        return;
    }
#pragma unroll
    for (int i = 0; i < N; ++i)
        if (place + i < end) row[(place + i) * step] = y.lane[i];
}

// A thread takes U vectors of N terms a tile. In rows that lie across memory U is 1, and lanes have a row each.
template <int N, int U, class S, class... Out, class... In, size_t... O, size_t... I>
BK_DEVICE void scan_rows(const S& scan, const Outputs<Out...>& out, const Inputs<In...>& in,
                         const ScanGrid<sizeof...(Out) + sizeof...(In)>& grid, ScanPass pass, typename S::State* totals,
                         std::index_sequence<O...>, std::index_sequence<I...>) {
    using State = typename S::State;
    constexpr int kOut = sizeof...(Out);
    constexpr int kSlots = U == 1 ? 32 : 1;  // rows of a warp, where several warps share them
    __shared__ State of_warp[2][kScanWarps][kSlots];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int at = lane % grid.width, level = warp % grid.deep, slot = kSlots == 1 ? 0 : lane;
    const int64_t row = (int64_t{blockIdx.x} * (kScanWarps / grid.deep) + warp / grid.deep) * (32 / grid.width) + lane / grid.width;
    const bool has_row = row < grid.rows;
    int64_t offset[kOut + sizeof...(In)] = {};
    if (has_row) grid.row(static_cast<uint32_t>(row), offset);
    const int64_t begin = blockIdx.y * grid.chunk;
    const int64_t stop = begin + grid.chunk < grid.length ? begin + grid.chunk : grid.length, end = has_row ? stop : begin;
    State carry = scan.identity();
    if (pass == ScanPass::kRest && has_row) carry = totals[row * gridDim.y + blockIdx.y];
    const int64_t span = int64_t{grid.width} * N * grid.vectors;
    int buffer = 0;
    for (int64_t tile = begin; tile < stop; tile += span * grid.deep, buffer ^= 1) {
        const int64_t first = tile + level * span + at * N;
        Pack<Vec<In, N>...> x[U];
#pragma unroll
        for (int u = 0; u < U; ++u)
            if (u < grid.vectors)
                x[u] = pack(load_terms<N, S::kAhead == static_cast<int>(I)>(get<I>(in.pointer) + offset[kOut + I],
                                                                              grid.step[kOut + I], first + u * grid.width * N, end,
                                                                              grid.length, grid.is_dense)...);
        State run[U][N], before[U];
        State sum = grid.deep == 1 ? carry : scan.identity();
#pragma unroll
        for (int u = 0; u < U; ++u) {
            if (u >= grid.vectors) break;
#pragma unroll
            for (int i = 0; i < N; ++i) {
                const int64_t place = first + u * grid.width * N + i;
                const State term = place < end ? scan.term(place, widen(get<I>(x[u]).lane[i])...) : scan.identity();
                run[u][i] = i == 0 ? term : scan.join(run[u][i == 0 ? 0 : i - 1], term);
            }
            const State through = join_lanes(scan, run[u][N - 1], at, grid.width);
            const State below = lane_below(through, 1, grid.width);
            before[u] = at == 0 ? sum : scan.join(sum, below);
            sum = scan.join(sum, last_lane(through, grid.width));
        }
        State base = scan.identity();
        if (grid.deep > 1) {
            if (kSlots > 1 || lane == 0) of_warp[buffer][warp][slot] = sum;
            __syncthreads();
            State mine = scan.identity(), all = scan.identity();
            for (int w = 0; w < grid.deep; ++w) {
                if (w == level) mine = all;
                all = scan.join(all, of_warp[buffer][warp - level + w][slot]);
            }
            base = scan.join(carry, mine);
            carry = scan.join(carry, all);
        } else {
            carry = sum;
        }
        if (pass == ScanPass::kTotals) continue;
#pragma unroll
        for (int u = 0; u < U; ++u) {
            if (u >= grid.vectors) break;
            const int64_t place = first + u * grid.width * N;
            const State start = grid.deep > 1 ? scan.join(base, before[u]) : before[u];
            State last = start;
            Pack<Vec<Out, N>...> y;
#pragma unroll
            for (int i = 0; i < N; ++i) {
                const State through = scan.join(start, run[u][i]);
                put(y, i, scan.value(place + i, last, through, widen(get<I>(x[u]).lane[i])...));
                last = through;
            }
            (store_terms<N>(get<O>(out.pointer) + offset[O], grid.step[O], place, end, grid.is_dense, get<O>(y)), ...);
        }
    }
    if (pass == ScanPass::kTotals && has_row && at == 0 && level == 0) totals[row * gridDim.y + blockIdx.y] = carry;
}

template <int N, int U, class S, class Out, class In>
__global__ void __launch_bounds__(kScanThreads)
    scan_kernel(S scan, Out out, In in, const __grid_constant__ ScanGrid<Out::count + In::count> grid, ScanPass pass,
                typename S::State* totals) {
    scan_rows<N, U>(scan, out, in, grid, pass, totals, typename Out::Indices{}, typename In::Indices{});
}

// Replaces what each chunk of a row comes to by what comes before it; a warp a row.
template <class S>
__global__ void __launch_bounds__(kScanThreads) scan_totals(S scan, typename S::State* totals, uint32_t rows, int chunks) {
    using State = typename S::State;
    const int64_t row = int64_t{blockIdx.x} * kScanWarps + threadIdx.x / 32;
    const int at = threadIdx.x % 32;
    if (row >= rows) return;
    State* const of_row = totals + row * chunks;
    State carry = scan.identity();
    for (int first = 0; first < chunks; first += 32) {
        const int c = first + at;
        const State through = join_lanes(scan, c < chunks ? of_row[c] : scan.identity(), at, 32);
        const State below = lane_below(through, 1, 32);
        if (c < chunks) of_row[c] = at == 0 ? carry : scan.join(carry, below);
        carry = scan.join(carry, last_lane(through, 32));
    }
}

struct ScanShape {
    bool is_along;
    int width, deep, vectors;
    int64_t tile;         // terms of a row that its threads take at once
    int64_t row_blocks;   // blocks that all rows take
    int64_t chunk;        // with a workspace; a multiple of tile
    int64_t chunks;
};

// Axes are collapsed. `lanes` elements fill a vector.
template <int Operands>
ScanShape plan_scan(const ScanAxes<Operands>& axes, int lanes) {
    ScanShape shape{};
    shape.is_along = axes.runs_along();
    const int n = shape.is_along ? lanes : kScanTerms, most = kScanTerms / n;
    const int64_t pieces = ceil_div<int64_t>(axes.length, n);
    shape.width = shape.deep = 1;
    if (shape.is_along)
        while (shape.width < 32 && shape.width < pieces) shape.width *= 2;
    const int64_t one_warp = int64_t{shape.width} * (shape.is_along ? most : 1);
    if (pieces > one_warp)
        while (shape.deep < kScanWarps && int64_t{shape.width} * shape.deep < pieces) shape.deep *= 2;
    shape.vectors = static_cast<int>(std::min<int64_t>(most, ceil_div<int64_t>(pieces, int64_t{shape.width} * shape.deep)));
    shape.tile = int64_t{shape.width} * shape.deep * shape.vectors * n;
    const int64_t rows = axes.rows.numel();
    shape.row_blocks = ceil_div<int64_t>(rows, int64_t{kScanWarps / shape.deep} * (32 / shape.width));
    const int64_t tiles = ceil_div(axes.length, shape.tile);
    const int64_t wanted = 2 * shape.row_blocks > kScanBlocks ? 1 : ceil_div(2 * kScanBlocks, shape.row_blocks);
    shape.chunk = ceil_div(tiles, std::min(tiles, wanted)) * shape.tile;
    shape.chunks = ceil_div(axes.length, shape.chunk);
    return shape;
}

template <class T, class S, int Operands>
size_t scan_parts_bytes(const ScanAxes<Operands>& axes) {
    const ScanShape shape = plan_scan(axes, kVectorLanes<T>);
    if (shape.chunks == 1) return 0;
    Carver carver;
    carver.take<typename S::State>(axes.rows.numel() * shape.chunks);
    return carver.bytes();
}

// Whether an operand is dense along the axis, walked as the others are, and its vectors of N are aligned in each row.
template <int N, class T, int Operands>
bool has_vectors(const ScanAxes<Operands>& axes, int operand, const T* first) {
    const bool turned = axes.step[0] < 0;
    if (axes.step[operand] != (turned ? -1 : 1)) return false;
    for (int d = 0; d < axes.rows.rank; ++d)
        if (axes.rows.stride[operand][d] % N != 0) return false;
    return is_aligned(turned ? first - (N - 1) : first, sizeof(T) * N);
}

template <int N, int kAhead, int Operands, class... Out, class... In, size_t... O, size_t... I>
bool all_have_vectors(const ScanAxes<Operands>& axes, const Outputs<Out...>& out, const Inputs<In...>& in,
                      std::index_sequence<O...>, std::index_sequence<I...>) {
    return (has_vectors<N>(axes, O, get<O>(out.pointer)) && ...) &&
           ((kAhead == static_cast<int>(I) || has_vectors<N>(axes, sizeof...(Out) + I, get<I>(in.pointer))) && ...);
}

template <int N, int U, class S, class Out, class In, int Operands>
Status launch_scan(const Launch& launch, const ScanShape& shape, const ScanGrid<Operands>& grid, const S& scan, const Out& out,
                   const In& in, ScanPass pass, typename S::State* totals) {
    const Grid blocks{dim3(static_cast<unsigned>(shape.row_blocks), static_cast<unsigned>(totals ? shape.chunks : 1)),
                      dim3(kScanThreads)};
    return launch_kernel(launch, blocks, scan_kernel<N, U, S, Out, In>, scan, out, in, grid, pass, totals);
}

// Fewer than 2^31 rows, axes collapsed.
template <class S, class... Out, class... In>
Status scan_some_rows(const Launch& launch, const ScanAxes<sizeof...(Out) + sizeof...(In)>& axes, const S& scan,
                      const Outputs<Out...>& out, const Inputs<In...>& in) {
    constexpr int N = kVectorBytes / Inputs<In...>::widest;
    using State = typename S::State;
    const ScanShape shape = plan_scan(axes, N);
    ScanGrid<sizeof...(Out) + sizeof...(In)> grid{};
    grid.row = LongWalk<sizeof...(Out) + sizeof...(In)>(axes.rows);
    std::copy(axes.step, axes.step + sizeof...(Out) + sizeof...(In), grid.step);
    grid.rows = static_cast<uint32_t>(axes.rows.numel());
    grid.length = grid.chunk = axes.length;
    grid.width = shape.width;
    grid.deep = shape.deep;
    grid.vectors = shape.vectors;
    grid.is_dense = shape.is_along && all_have_vectors<N, S::kAhead>(axes, out, in, typename Outputs<Out...>::Indices{},
                                                                     typename Inputs<In...>::Indices{});
    const auto pass = [&](ScanPass which, State* totals) {
        return shape.is_along ? launch_scan<N, kScanTerms / N>(launch, shape, grid, scan, out, in, which, totals)
                              : launch_scan<kScanTerms, 1>(launch, shape, grid, scan, out, in, which, totals);
    };
    Carver counter;
    counter.take<State>(grid.rows * shape.chunks);
    bool found = false;
    BK_TRY(find_workspace(launch, shape.chunks > 1 ? counter.bytes() : 0, &found));
    if (!found) return pass(ScanPass::kWhole, nullptr);
    Carver carver(launch.workspace);
    State* const totals = carver.take<State>(grid.rows * shape.chunks);
    grid.chunk = shape.chunk;
    BK_TRY(pass(ScanPass::kTotals, totals));
    const Grid warps{dim3(ceil_div<uint32_t>(grid.rows, kScanWarps)), dim3(kScanThreads)};
    BK_TRY(launch_kernel(launch, warps, scan_totals<S>, scan, totals, grid.rows, static_cast<int>(shape.chunks)));
    return pass(ScanPass::kRest, totals);
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
