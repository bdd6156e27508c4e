// Pointwise kernels for any strides: by vectors along the last axis, by tiles for operands that lie across each other, and
// else one element a thread and step.
#pragma once

#include <cstdint>
#include <utility>

#include "core/launch.h"
#include "core/layout.h"
#include "core/pointwise_cuda.cuh"
#include "core/strided_plan.cuh"

namespace bk {

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

// N neighbours along the last axis, of which `lanes` exist: one element for all where the operand stands still there, one
// vector where it is aligned, else one by one.
template <int N, class T>
BK_DEVICE Word<Vec<T, N>> load_lanes(const T* pointer, bool broadcast, bool single = false, Lanes lanes = {0, N}) {
    if (!broadcast && !single && lanes.all<N>()) return to_word(load<N>(pointer));
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
BK_DEVICE void store_lanes(T* pointer, const Vec<T, N>& y, bool single, Lanes lanes) {
    if (!single && lanes.all<N>()) {
        store<N>(pointer, y);
    } else {
#pragma unroll
        for (int lane = 0; lane < N; ++lane)
            if (lanes.has(lane)) pointer[lane] = y.lane[lane];
    }
}

template <int N, int Operands, class... Out, size_t... O>
BK_DEVICE void store_strided(const Pack<Out*...>& out, const Offsets<Operands, uint32_t>& offset, const Pack<Vec<Out, N>...>& y,
                             unsigned single, Lanes lanes, std::index_sequence<O...>) {
    ((sizeof...(Out) == 1 || get<O>(out) != nullptr
          ? store_lanes<N>(get<O>(out) + signed_offset(offset.of[O]), get<O>(y), single >> O & 1, lanes)
          : void()),
     ...);
}

// Stores `lanes` of each result.
template <int N, class Fn, class... Out, class... In, int Operands>
BK_DEVICE void compute_and_copy(const Fn& fn, const Outputs<Out...>& out, const Pack<Vec<In, N>...>& x, int64_t element,
                                Offsets<Operands, uint32_t> offset, const StridedPlan<Operands>& plan, Lanes lanes) {
    Pack<Vec<Out, N>...> y;
    compute<N>(fn, element, x, y, std::index_sequence_for<In...>{});
    for (int c = 0; c < plan.copies; ++c) {
        store_strided<N>(out.pointer, offset, y, plan.single, lanes, std::index_sequence_for<Out...>{});
#pragma unroll
        for (int o = 0; o < static_cast<int>(sizeof...(Out)); ++o) offset.of[o] += plan.copy_step[o];
    }
}

template <int N, int Operands, class... In, size_t... I>
BK_DEVICE Words<Pack<Vec<In, N>...>> load_strided(const Pack<const In*...>& in, const Offsets<Operands, uint32_t>& offset,
                                                  const StridedPlan<Operands>& plan, Lanes lanes, std::index_sequence<I...>) {
    constexpr int kOut = Operands - sizeof...(In);
    return {pack(load_lanes<N>(get<I>(in) + signed_offset(offset.of[kOut + I]), plan.broadcast >> (kOut + I) & 1,
                               plan.single >> (kOut + I) & 1, lanes)...)};
}

template <class... In, int Operands, size_t... I>
BK_DEVICE Pack<Vec<In, 1>...> load_elements(const Pack<const In*...>& in, const Offsets<Operands, uint32_t>& offset,
                                            std::index_sequence<I...>) {
    constexpr int kOut = Operands - sizeof...(In);
    return pack(Vec<In, 1>{{get<I>(in)[signed_offset(offset.of[kOut + I])]}}...);
}

// Operands of the plan: the outputs, then the inputs. The walk's last axis counts vectors of N elements, one a thread.
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
    compute_and_copy<N>(fn, out, from_words(x, kInputs), (int64_t{row} * plan.count + v) * N, offset, plan, lanes);
}

// --- tiles ----------------------------------------------------------------------------------------------------------

// Of inputs whose neighbours in memory lie along the rows of a tile, which is of the last axis (columns) and another one
// (rows): these are read in their own order, W neighbours at once, into shared memory, and from there in the output's.
template <int W, int Side, int Pitch, class T>
BK_DEVICE void stage_tile(T* tile, const T* x, uint32_t row_step, uint32_t column_step, int rows, int columns) {
    static_assert(Side % W == 0, "a warp reads kTile * W rows at once");
#pragma unroll
    for (int u = 0; u < Side * kTile / kRowsApart; ++u) {
        const int c = threadIdx.x / kTile + u * kRowsApart;
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
    using Tile = Inputs<In...>;
    constexpr int kOut = Operands - sizeof...(In);
    ((plan.staged >> I & 1 ? stage_tile<W, Tile::side, Tile::template pitch<In>>(
                                 get<I>(tile), get<I>(in.pointer) + signed_offset(base.of[kOut + I]), plan.row_step[kOut + I],
                                 plan.column_step[kOut + I], rows, columns)
                           : void()),
     ...);
}

template <class... In, size_t... I>
BK_DEVICE Pack<In*...> tile_pointers(char* memory, const Inputs<In...>&, std::index_sequence<I...>) {
    using Tile = Inputs<In...>;
    size_t at = 0;
    const auto take = [&](size_t bytes) {
        char* const result = memory + at;
        at += (bytes + 15) / 16 * 16;
        return result;
    };
    return Pack<In*...>{{{reinterpret_cast<In*>(take(Tile::side * kTile * Tile::template pitch<In> * sizeof(In)))}...}};
}

// Four elements of a tile: W neighbours in each of 4 / W rows, which lie `apart`. Where W is 1, `count` of them exist.
template <int W>
struct TileGroup {
    static constexpr int rows = kElementsPerThread / W;
    static constexpr int apart = W == 1 ? kRowsApart : 1;
    int count;
};

template <int W, int Pitch, class T>
BK_DEVICE Vec<T, kElementsPerThread> load_group(TileGroup<W> group, bool staged, const T* tile, const T* x, uint32_t offset,
                                                uint32_t row_step) {
    Vec<T, kElementsPerThread> result{};
    if (W > 1 && staged) {
#pragma unroll
        for (int c = 0; c < W; ++c) {
            const auto column = load<TileGroup<W>::rows>(tile + c * Pitch);
#pragma unroll
            for (int r = 0; r < TileGroup<W>::rows; ++r) result.lane[r * W + c] = column.lane[r];
        }
        return result;
    }
#pragma unroll
    for (int r = 0; r < TileGroup<W>::rows; ++r) {
        if (W == 1 && r >= group.count) continue;
        const auto row = staged ? load<W>(tile + r * TileGroup<W>::apart)
                                : load<W>(x + signed_offset(offset + r * TileGroup<W>::apart * row_step));
#pragma unroll
        for (int c = 0; c < W; ++c) result.lane[r * W + c] = row.lane[c];
    }
    return result;
}

template <int W, class T>
BK_DEVICE void store_group(TileGroup<W> group, T* y, const Vec<T, kElementsPerThread>& value, uint32_t offset,
                           uint32_t row_step) {
#pragma unroll
    for (int r = 0; r < TileGroup<W>::rows; ++r) {
        if (W == 1 && r >= group.count) continue;
        Vec<T, W> row;
#pragma unroll
        for (int c = 0; c < W; ++c) row.lane[c] = value.lane[r * W + c];
        store<W>(y + signed_offset(offset + r * TileGroup<W>::apart * row_step), row);
    }
}

template <int W, class... In, int Operands, size_t... I>
BK_DEVICE Pack<Vec<In, kElementsPerThread>...> load_groups(TileGroup<W> group, const Inputs<In...>& in,
                                                           const Pack<In*...>& tile, int r, int c,
                                                           const StridedPlan<Operands>& plan,
                                                           const Offsets<Operands, uint32_t>& offset,
                                                           std::index_sequence<I...>) {
    using Tile = Inputs<In...>;
    constexpr int kOut = Operands - sizeof...(In);
    return pack(load_group<W, Tile::template pitch<In>>(group, sizeof...(In) == 1 || (plan.staged >> I & 1),
                                                        get<I>(tile) + c * Tile::template pitch<In> + r, get<I>(in.pointer),
                                                        offset.of[kOut + I], plan.row_step[kOut + I])...);
}

template <int W, int Operands, class... Out, size_t... O>
BK_DEVICE void store_groups(TileGroup<W> group, const Pack<Out*...>& out, const Pack<Vec<Out, kElementsPerThread>...>& y,
                            const StridedPlan<Operands>& plan, const Offsets<Operands, uint32_t>& offset,
                            std::index_sequence<O...>) {
    ((sizeof...(Out) == 1 || get<O>(out) != nullptr
          ? store_group<W>(group, get<O>(out), get<O>(y), offset.of[O], plan.row_step[O])
          : void()),
     ...);
}

template <class Out, class In>
constexpr bool kByPairs = kAreHalves<Out> && kAreHalves<In> && In::side % 2 == 0;

// A block has a tile of side * side squares.
template <class Fn, class Out, class In>
__global__ void __launch_bounds__(kTileThreads)
    tile_kernel(Fn fn, Out out, In in, const __grid_constant__ StridedPlan<Out::count + In::count> plan) {
    constexpr int N = kElementsPerThread;
    constexpr int kOperands = Out::count + In::count;
    constexpr int kWidth = kByPairs<Out, In> ? 2 : 1;
    constexpr typename In::Indices kInputs{};
    constexpr typename Out::Indices kOutputs{};
    alignas(16) __shared__ char memory[In::tile_bytes];
    const auto tile = tile_pointers(memory, in, kInputs);
    const auto by_column = plan.column_tiles(blockIdx.x);
    const auto by_row = plan.row_tiles(by_column.quotient);
    auto base = sum_of(plan.walk(by_row.quotient), outer_offsets(plan, blockIdx.y));
    const uint32_t row = by_row.remainder * (In::side * kTile), column = by_column.remainder * (In::side * kTile);
#pragma unroll
    for (int k = 0; k < kOperands; ++k) base.of[k] += row * plan.row_step[k] + column * plan.column_step[k];
    const int rows = static_cast<int>(plan.rows - row), columns = static_cast<int>(plan.columns - column);
    const bool wide = kWidth > 1 && plan.pairs;
    if (wide)
        stage_tiles<kWidth>(in, tile, plan, base, rows, columns, kInputs);
    else
        stage_tiles<1>(in, tile, plan, base, rows, columns, kInputs);
    __syncthreads();
    const int lane = threadIdx.x % kTile, warp = threadIdx.x / kTile;
#pragma unroll 1
    for (int step = 0; step < In::side * In::side; ++step) {
        const int r = wide ? (step * kRowsApart + warp) * (N / kWidth) : step % In::side * kTile + warp;
        const int c = wide ? lane * kWidth : step / In::side * kTile + lane;
        if (c >= columns || r >= rows) continue;
        const TileGroup<kWidth> block{N};
        const TileGroup<1> line{(rows - r + kRowsApart - 1) / kRowsApart};
        Offsets<kOperands, uint32_t> offset = base;
#pragma unroll
        for (int k = 0; k < kOperands; ++k) offset.of[k] += r * plan.row_step[k] + c * plan.column_step[k];
        typename In::template Vectors<N> x;
        typename Out::template Vectors<N> y;
        if constexpr (kWidth > 1)
            x = from_words(wide ? to_words(load_groups(block, in, tile, r, c, plan, offset, kInputs), kInputs)
                                : to_words(load_groups(line, in, tile, r, c, plan, offset, kInputs), kInputs),
                           kInputs);
        else
            x = load_groups(line, in, tile, r, c, plan, offset, kInputs);
        compute<N>(fn, 0, x, y, kInputs);
        if (wide)
            store_groups(block, out.pointer, y, plan, offset, kOutputs);
        else
            store_groups(line, out.pointer, y, plan, offset, kOutputs);
    }
}

// --- elements -------------------------------------------------------------------------------------------------------

template <class Fn, class Out, class In>
__global__ void __launch_bounds__(kTileThreads)
    element_kernel(Fn fn, Out out, In in, const __grid_constant__ StridedPlan<Out::count + In::count> plan) {
    constexpr int U = kElementsPerThread;
    constexpr int kOperands = Out::count + In::count;
    constexpr typename In::Indices kInputs{};
    const auto base = outer_offsets(plan, blockIdx.y);
    const uint32_t first = blockIdx.x * (kTileThreads * U) + threadIdx.x;
    Offsets<kOperands, uint32_t> offset[U];
    typename In::template Vectors<1> x[U] = {};
#pragma unroll
    for (int u = 0; u < U; ++u) {
        const uint32_t v = first + u * kTileThreads;
        if (v >= plan.count) continue;
        offset[u] = sum_of(plan.walk(v), base);
        x[u] = load_elements(in.pointer, offset[u], kInputs);
    }
    // What lies past the end is computed from zeros, so that no branch keeps the elements of a thread apart.
#pragma unroll
    for (int u = 0; u < U; ++u) {
        const uint32_t v = first + u * kTileThreads;
        if (!kIsPositional<Fn> || v < plan.count)
            compute_and_copy<1>(fn, out, x[u], int64_t{blockIdx.y} * plan.count + v, offset[u], plan,
                                Lanes{0, v < plan.count ? 1 : 0});
    }
}

// --- host: the launch of one functor --------------------------------------------------------------------------------

template <class... T, size_t... I>
void advance([[maybe_unused]] Pack<T*...>* pointers, [[maybe_unused]] const int64_t* offset, std::index_sequence<I...>) {
    ((get<I>(*pointers) == nullptr ? void() : void(get<I>(*pointers) += offset[I])), ...);
}

// Elements by which each pointer misses an address that vectors of `lanes` elements can use.
template <class... T, size_t... I>
void find_residues([[maybe_unused]] const Pack<T*...>& pointers, [[maybe_unused]] int lanes, [[maybe_unused]] int* residue,
                   std::index_sequence<I...>) {
    ((residue[I] = static_cast<int>(reinterpret_cast<uintptr_t>(get<I>(pointers)) / sizeof(T) % lanes)), ...);
}

template <class Fn, class Out, class In>
struct StridedStart {
    static constexpr int kOperands = Out::count + In::count;
    using Shape = PointwiseShape<Fn, Out, In>;
    const Launch& launch;
    const Fn& fn;
    const Out& out;
    const In& in;

    static Status start(void* context, StridedKernel which, const StridedPlan<kOperands>& plan, const int64_t* offset,
                        dim3 blocks) {
        constexpr int kRegisters = Shape::registers > 40 ? Shape::registers : 40;
        const StridedStart& self = *static_cast<const StridedStart*>(context);
        Out out = self.out;
        In in = self.in;
        advance(&out.pointer, offset, typename Out::Indices{});
        advance(&in.pointer, offset + Out::count, typename In::Indices{});
        auto kernel = element_kernel<Fn, Out, In>;
        if (which == StridedKernel::kVectors) kernel = vector_kernel<Shape::lanes, kRegisters, Fn, Out, In>;
        if constexpr (In::count > 0 && !kIsPositional<Fn>)
            if (which == StridedKernel::kTiles) kernel = tile_kernel<Fn, Out, In>;
        const dim3 threads(which == StridedKernel::kVectors ? kPointwiseThreads : kTileThreads);
        return launch_kernel(self.launch, Grid{blocks, threads}, kernel, self.fn, out, in, plan);
    }
};

template <class Fn, int MaxRank, class... Out, class... In>
Status launch_strided(const Launch& launch, const Layout<sizeof...(Out) + sizeof...(In), MaxRank>& layout, const Fn& fn,
                      const Outputs<Out...>& out, const Inputs<In...>& in) {
    using Start = StridedStart<Fn, Outputs<Out...>, Inputs<In...>>;
    constexpr int lanes = Start::Shape::lanes;
    Start start{launch, fn, out, in};
    StridedCall<Start::kOperands> call{static_cast<int>(sizeof...(Out)),
                                       lanes,
                                       kPointwiseThreads,
                                       Inputs<In...>::side,
                                       kIsPositional<Fn>,
                                       kByPairs<Outputs<Out...>, Inputs<In...>>,
                                       {},
                                       &Start::start,
                                       &start};
    find_residues(out.pointer, lanes, call.residue, std::index_sequence_for<Out...>{});
    find_residues(in.pointer, lanes, call.residue + sizeof...(Out), std::index_sequence_for<In...>{});
    const int64_t origin[Start::kOperands] = {};
    return plan_strided(call, layout, origin);
}

}  // namespace bk
