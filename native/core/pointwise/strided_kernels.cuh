// SPDX-License-Identifier: Apache-2.0
// Pointwise kernels for any strides. vector_kernel: 16-byte vectors along the last axis. strided_kernel: transposing
// tiles through shared memory, or single elements; both in one kernel, which differs only in how a thread's group of
// elements is loaded and stored, because each skeleton costs more compile time than most functors.
#pragma once

#include <cstdint>
#include <utility>

#include "core/abi/launch.h"
#include "core/layout/layout.h"
#include "core/pointwise/pointwise_cuda.cuh"
#include "core/pointwise/strided_plan.cuh"

namespace bk {

// Elements that a thread of strided_kernel computes together; `lanes` fill 16 bytes.
constexpr int group_of(int lanes) { return lanes < 4 ? lanes : 4; }

template <int Operands>
BK_DEVICE Offsets<Operands, uint32_t> outer_offsets(const StridedPlan<Operands>& plan, uint32_t i) {
    Offsets<Operands, uint32_t> offset{};
#pragma unroll 1
    for (int d = 0; d < plan.outer_rank; ++d) {
        const DivMod<uint32_t> split = plan.outer_extent[d](i);
        i = split.quotient;
#pragma unroll
        for (int k = 0; k < Operands; ++k) offset.of[k] += split.remainder * plan.outer_step[d][k];
    }
    return offset;
}

template <int Operands>
BK_DEVICE Offsets<Operands, uint32_t> sum_of(Offsets<Operands, uint32_t> a, const Offsets<Operands, uint32_t>& b) {
#pragma unroll
    for (int k = 0; k < Operands; ++k) a.of[k] += b.of[k];
    return a;
}

// --- vectors --------------------------------------------------------------------------------------------------------

// Lanes [first, last) of a vector.
struct Lanes {
    int first, last;
    template <int N>
    BK_DEVICE bool all() const {
        return first == 0 && last == N;
    }
    BK_DEVICE bool has(int lane) const { return first <= lane && lane < last; }
};

// Loads N adjacent elements, of which `lanes` exist: one value if broadcast (stride 0), one vector if aligned, else
// single elements.
template <int N, class T>
BK_DEVICE Word<Vec<T, N>> load_lanes(const T* pointer, bool broadcast, bool scalar = false, Lanes lanes = {0, N}) {
    if (!broadcast && !scalar && lanes.all<N>()) return to_word(load<N>(pointer));
    Vec<T, N> x{};
    if (broadcast) {
        const T value = *pointer;
#pragma unroll
        for (int lane = 0; lane < N; ++lane) x.lane[lane] = value;
    } else {
#pragma unroll
        for (int lane = 0; lane < N; ++lane)
            if (lanes.has(lane)) x.lane[lane] = pointer[lane];
    }
    return to_word(x);
}

template <int N, class T>
BK_DEVICE void store_lanes(T* pointer, const Vec<T, N>& y, bool scalar, Lanes lanes) {
    if (!scalar && lanes.all<N>()) {
        store<N>(pointer, y);
    } else {
#pragma unroll
        for (int lane = 0; lane < N; ++lane)
            if (lanes.has(lane)) pointer[lane] = y.lane[lane];
    }
}

template <int N, int Operands, class... Out, size_t... O>
BK_DEVICE void store_strided(const Pack<Out*...>& out, const Offsets<Operands, uint32_t>& offset, const Pack<Vec<Out, N>...>& y,
                             unsigned scalar, Lanes lanes, std::index_sequence<O...>) {
    ((sizeof...(Out) == 1 || get<O>(out) != nullptr
          ? store_lanes<N>(get<O>(out) + signed_offset(offset.of[O]), get<O>(y), scalar >> O & 1, lanes)
          : void()),
     ...);
}

// Stores `lanes` of each result and its copies.
template <int N, class... Out, int Operands>
BK_DEVICE void store_copies(const Outputs<Out...>& out, const Pack<Vec<Out, N>...>& y, Offsets<Operands, uint32_t> offset,
                            const StridedPlan<Operands>& plan, Lanes lanes) {
    for (int c = 0; c < plan.copies; ++c) {
        store_strided<N>(out.pointer, offset, y, plan.scalar, lanes, std::index_sequence_for<Out...>{});
#pragma unroll
        for (int o = 0; o < static_cast<int>(sizeof...(Out)); ++o) offset.of[o] += plan.copy_step[o];
    }
}

template <int N, int Operands, class... In, size_t... I>
BK_DEVICE Words<Pack<Vec<In, N>...>> load_strided(const Pack<const In*...>& in, const Offsets<Operands, uint32_t>& offset,
                                                  const StridedPlan<Operands>& plan, Lanes lanes, std::index_sequence<I...>) {
    constexpr int kOut = Operands - sizeof...(In);
    return {pack(load_lanes<N>(get<I>(in) + signed_offset(offset.of[kOut + I]), plan.broadcast >> (kOut + I) & 1,
                               plan.scalar >> (kOut + I) & 1, lanes)...)};
}

// Plan operands are the outputs, then the inputs. The last axis of the walk counts vectors of N elements, one per
// thread.
template <int N, int Registers, class Fn, class Out, class In>
__global__ void __launch_bounds__(kPointwiseThreads, resident_blocks(Registers))
    vector_kernel(Fn fn, Out out, In in, const __grid_constant__ StridedPlan<Out::count + In::count> plan) {
    constexpr typename In::Indices kInputs{};
    const DivMod<uint32_t> block = plan.row_blocks(blockIdx.x);
    const uint32_t row = block.quotient + blockIdx.y;
    const uint32_t v = block.remainder * kPointwiseThreads + threadIdx.x;
    if (v >= plan.count) return;
    Lanes lanes{0, N};
    if (plan.inner != 0) {
        const int start = static_cast<int>(plan.per_row(v).remainder * N) - plan.shift;
        lanes = {max(0, -start), min(N, static_cast<int>(plan.inner) - start)};
    }
    const auto offset = sum_of(plan.walk(v), outer_offsets(plan, row));
    const auto x = load_strided<N>(in.pointer, offset, plan, lanes, kInputs);
    typename Out::template Vectors<N> y;
    compute<N>(fn, (int64_t{row} * plan.count + v) * N, from_words(x, kInputs), y, kInputs);
    store_copies<N>(out, y, offset, plan, lanes);
}

// --- tiles ----------------------------------------------------------------------------------------------------------

// Stages an input whose fastest axis is the tile's row axis: reads W adjacent elements along it into shared memory,
// from which the block then reads in the output's order.
template <int W, int Side, int Pitch, class T>
BK_DEVICE void stage_tile(T* tile, const T* x, uint32_t row_step, uint32_t column_step, int rows, int columns) {
    static_assert(Side % W == 0, "a warp reads kTile * W rows at once");
#pragma unroll
    for (int u = 0; u < Side * kTile / kRowsPerPass; ++u) {
        const int c = threadIdx.x / kTile + u * kRowsPerPass;
#pragma unroll
        for (int square = 0; square < Side / W; ++square) {
            const int r = (threadIdx.x % kTile + square * kTile) * W;
            if (r < rows && c < columns)
                store<W>(tile + c * Pitch + r, load<W>(x + signed_offset(r * row_step + c * column_step)));
        }
    }
}

template <int W, class... In, int Operands, size_t... I>
BK_DEVICE void stage_tiles(const Inputs<In...>& in, const Pack<In*...>& tile, const StridedPlan<Operands>& plan,
                           const Offsets<Operands, uint32_t>& base, int rows, int columns, std::index_sequence<I...>) {
    using Tile = TileOf<Inputs<In...>>;
    constexpr int kOut = Operands - sizeof...(In);
    ((plan.staged >> I & 1 ? stage_tile<W, Tile::side, Tile::template pitch<In>>(
                                 get<I>(tile), get<I>(in.pointer) + signed_offset(base.of[kOut + I]), plan.row_step[kOut + I],
                                 plan.column_step[kOut + I], rows, columns)
                           : void()),
     ...);
}

template <class... In, size_t... I>
BK_DEVICE Pack<In*...> tile_pointers(char* memory, const Inputs<In...>&, std::index_sequence<I...>) {
    using Tile = TileOf<Inputs<In...>>;
    size_t at = 0;
    const auto take = [&](size_t bytes) {
        char* const result = memory + at;
        at += (bytes + 15) / 16 * 16;
        return result;
    };
    return Pack<In*...>{{{reinterpret_cast<In*>(take(Tile::side * kTile * Tile::template pitch<In> * sizeof(In)))}...}};
}

// G elements of a tile: W adjacent ones in each of G / W rows, `row_spacing` apart. If W is 1, only `count` exist.
template <int W, int G>
struct TileGroup {
    static constexpr int rows = G / W;
    static constexpr int row_spacing = W == 1 ? kRowsPerPass : 1;
    int count;
};

template <int W, int Pitch, int G, class T>
BK_DEVICE Vec<T, G> load_group(TileGroup<W, G> group, bool staged, const T* tile, const T* x, uint32_t offset,
                               uint32_t row_step) {
    Vec<T, G> result{};
    if (W > 1 && staged) {
#pragma unroll
        for (int c = 0; c < W; ++c) {
            const auto column = load<TileGroup<W, G>::rows>(tile + c * Pitch);
#pragma unroll
            for (int r = 0; r < TileGroup<W, G>::rows; ++r) result.lane[r * W + c] = column.lane[r];
        }
        return result;
    }
#pragma unroll
    for (int r = 0; r < TileGroup<W, G>::rows; ++r) {
        if (W == 1 && r >= group.count) continue;
        const auto row = staged ? load<W>(tile + r * TileGroup<W, G>::row_spacing)
                                : load<W>(x + signed_offset(offset + r * TileGroup<W, G>::row_spacing * row_step));
#pragma unroll
        for (int c = 0; c < W; ++c) result.lane[r * W + c] = row.lane[c];
    }
    return result;
}

template <int W, int G, class T>
BK_DEVICE void store_group(TileGroup<W, G> group, T* y, const Vec<T, G>& value, uint32_t offset, uint32_t row_step) {
#pragma unroll
    for (int r = 0; r < TileGroup<W, G>::rows; ++r) {
        if (W == 1 && r >= group.count) continue;
        Vec<T, W> row;
#pragma unroll
        for (int c = 0; c < W; ++c) row.lane[c] = value.lane[r * W + c];
        store<W>(y + signed_offset(offset + r * TileGroup<W, G>::row_spacing * row_step), row);
    }
}

template <int W, int G, class... In, int Operands, size_t... I>
BK_DEVICE Pack<Vec<In, G>...> load_groups(TileGroup<W, G> group, const Inputs<In...>& in, const Pack<In*...>& tile, int r,
                                          int c, const StridedPlan<Operands>& plan, const Offsets<Operands, uint32_t>& offset,
                                          std::index_sequence<I...>) {
    using Tile = TileOf<Inputs<In...>>;
    constexpr int kOut = Operands - sizeof...(In);
    return pack(load_group<W, Tile::template pitch<In>>(group, sizeof...(In) == 1 || (plan.staged >> I & 1),
                                                        get<I>(tile) + c * Tile::template pitch<In> + r, get<I>(in.pointer),
                                                        offset.of[kOut + I], plan.row_step[kOut + I])...);
}

template <int W, int G, int Operands, class... Out, size_t... O>
BK_DEVICE void store_groups(TileGroup<W, G> group, const Pack<Out*...>& out, const Pack<Vec<Out, G>...>& y,
                            const StridedPlan<Operands>& plan, const Offsets<Operands, uint32_t>& offset,
                            std::index_sequence<O...>) {
    ((sizeof...(Out) == 1 || get<O>(out) != nullptr
          ? store_group<W>(group, get<O>(out), get<O>(y), offset.of[O], plan.row_step[O])
          : void()),
     ...);
}

// Offsets of the block's tile, and the rows and columns left from there.
template <int Operands>
struct TileOrigin {
    Offsets<Operands, uint32_t> base;
    int rows, columns;
};

template <int Side, int Operands>
BK_DEVICE TileOrigin<Operands> tile_origin(const StridedPlan<Operands>& plan) {
    const auto by_column = plan.column_tiles(blockIdx.x);
    const auto by_row = plan.row_tiles(by_column.quotient);
    const uint32_t row = by_row.remainder * (Side * kTile), column = by_column.remainder * (Side * kTile);
    auto base = sum_of(plan.walk(by_row.quotient), outer_offsets(plan, blockIdx.y));
#pragma unroll
    for (int k = 0; k < Operands; ++k) base.of[k] += row * plan.row_step[k] + column * plan.column_step[k];
    return {base, static_cast<int>(plan.rows - row), static_cast<int>(plan.columns - column)};
}

// --- elements -------------------------------------------------------------------------------------------------------

// Loads lane `lane` of every input at `offset`.
template <int G, class... In, int Operands, size_t... I>
BK_DEVICE void load_lane(Pack<Vec<In, G>...>& x, int lane, const Pack<const In*...>& in,
                         const Offsets<Operands, uint32_t>& offset, std::index_sequence<I...>) {
    constexpr int kOut = Operands - sizeof...(In);
    ((get<I>(x).lane[lane] = get<I>(in)[signed_offset(offset.of[kOut + I])]), ...);
}

template <int G, class... Out, int Operands, size_t... O>
BK_DEVICE void store_lane(const Outputs<Out...>& out, const Pack<Vec<Out, G>...>& y, int lane,
                          const Offsets<Operands, uint32_t>& offset, const StridedPlan<Operands>& plan,
                          std::index_sequence<O...>) {
    store_copies<1>(out, pack(Vec<Out, 1>{{get<O>(y).lane[lane]}}...), offset, plan, Lanes{0, 1});
}

// Hides a value from the optimiser, which would otherwise specialise the following code for each of its values.
BK_DEVICE int opaque_int(int value) {
    asm volatile("" : "+r"(value));
    return value;
}

// --- the kernel -----------------------------------------------------------------------------------------------------

// Plan operands are the outputs, then the inputs. The elements of a group are kTileThreads apart; for a positional
// functor they are adjacent, since it computes consecutive elements together.
template <int G, int Registers, class Fn, class Out, class In>
__global__ void __launch_bounds__(kTileThreads, resident_blocks(Registers) * kPointwiseThreads / kTileThreads)
    strided_kernel(Fn fn, Out out, In in, const __grid_constant__ StridedPlan<Out::count + In::count> plan) {
    constexpr int kOperands = Out::count + In::count;
    constexpr bool kHasTiles = In::count > 0 && !kIsPositional<Fn>;
    constexpr int kWidth = G > 1 && kByPairs<Out, In> ? 2 : 1;
    constexpr int kSlabRows = kRowsPerPass * G;  // rows of one column of squares that a block covers in a step
    constexpr int kSlabs = TileOf<In>::side * kTile / kSlabRows;
    constexpr uint32_t kLaneSpacing = kIsPositional<Fn> ? 1 : kTileThreads;
    constexpr typename In::Indices kInputs{};
    constexpr typename Out::Indices kOutputs{};
    BK_LAUNCH_SHARED(uint4, shared_memory);
    const auto tile = tile_pointers(reinterpret_cast<char*>(shared_memory), in, kInputs);
    const bool tiled = kHasTiles && plan.kind == kByTiles, wide = kWidth > 1 && plan.pairs;
    const uint32_t first = blockIdx.x * (kTileThreads * G) + threadIdx.x * (kIsPositional<Fn> ? G : 1);
    Offsets<kOperands, uint32_t> base;
    int steps = 1, rows = 0, columns = 0, valid = G;
    if (tiled) {
        const auto origin = tile_origin<TileOf<In>::side>(plan);
        base = origin.base, rows = origin.rows, columns = origin.columns;
        if (wide)
            stage_tiles<kWidth>(in, tile, plan, base, rows, columns, kInputs);
        else
            stage_tiles<1>(in, tile, plan, base, rows, columns, kInputs);
        __syncthreads();
        steps = kSlabs * TileOf<In>::side;
    } else {
        if (first >= plan.count) return;
        base = outer_offsets(plan, blockIdx.y);
        valid = static_cast<int>(min(uint32_t{G}, (plan.count - first + kLaneSpacing - 1) / kLaneSpacing));
    }
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        const int lane = threadIdx.x % kTile, warp = threadIdx.x / kTile;
        const int r = wide ? (step * kRowsPerPass + warp) * (G / kWidth) : step % kSlabs * kSlabRows + warp;
        const int c = wide ? lane * kWidth : step / kSlabs * kTile + lane;
        const TileGroup<kWidth, G> pair_rows{G};
        const TileGroup<1, G> single_rows{(rows - r + kRowsPerPass - 1) / kRowsPerPass};
        Offsets<kOperands, uint32_t> at = base;
        Words<typename In::template Vectors<G>> x;
        int by_tiles = opaque_int(tiled);
        if (kHasTiles && by_tiles) {
            if (c >= columns || r >= rows) continue;
#pragma unroll
            for (int k = 0; k < kOperands; ++k) at.of[k] += r * plan.row_step[k] + c * plan.column_step[k];
            x = wide ? to_words(load_groups(pair_rows, in, tile, r, c, plan, at, kInputs), kInputs)
                     : to_words(load_groups(single_rows, in, tile, r, c, plan, at, kInputs), kInputs);
        } else {
            typename In::template Vectors<G> loaded{};
#pragma unroll
            for (int k = 0; k < G; ++k)
                if (k < valid) load_lane<G>(loaded, k, in.pointer, sum_of(plan.walk(first + k * kLaneSpacing), base), kInputs);
            x = to_words(loaded, kInputs);
        }
        by_tiles = opaque_int(by_tiles);
        typename Out::template Vectors<G> y;
        compute<G>(fn, int64_t{blockIdx.y} * plan.count + first, from_words(x, kInputs), y, kInputs, valid);
        if (kHasTiles && by_tiles) {
            if (wide)
                store_groups(pair_rows, out.pointer, y, plan, at, kOutputs);
            else
                store_groups(single_rows, out.pointer, y, plan, at, kOutputs);
        } else {
            // Offsets are walked a second time: keeping those of all lanes would take registers from the tiles.
#pragma unroll
            for (int k = 0; k < G; ++k)
                if (k < valid) store_lane<G>(out, y, k, sum_of(plan.walk(first + k * kLaneSpacing), base), plan, kOutputs);
        }
    }
}

}  // namespace bk
