// Pointwise kernels, three a functor: dense operands; operands that are dense or stand still along the last axis, by
// vectors; and any strides, one element a thread and step.
#pragma once

#include <cstdint>
#include <utility>

#include "core/launch.h"
#include "core/layout.h"
#include "core/pointwise.h"

namespace bk {

constexpr int kPointwiseThreads = 256;

template <int N, class... T, size_t... I>
BK_DEVICE Pack<Vec<T, N>...> load_all(const Pack<const T*...>& pointers, int64_t element, std::index_sequence<I...>) {
    return pack(load<N>(get<I>(pointers) + element)...);
}

// One of several outputs may be absent.
template <int N, class... T, size_t... O>
BK_DEVICE void store_all(const Pack<T*...>& pointers, int64_t element, const Pack<Vec<T, N>...>& y, std::index_sequence<O...>) {
    ((sizeof...(T) == 1 || get<O>(pointers) != nullptr ? store<N>(get<O>(pointers) + element, get<O>(y)) : void()), ...);
}

template <int N, class Fn, class... Out, class... In>
BK_DEVICE void compute_and_store(const Fn& fn, const Outputs<Out...>& out, const Pack<Vec<In, N>...>& x, int64_t element) {
    Pack<Vec<Out, N>...> y;
    compute<N>(fn, element, x, y, std::index_sequence_for<In...>{});
    store_all<N>(out.pointer, element, y, std::index_sequence_for<Out...>{});
}

// Splits what 32-bit offsets cannot reach; defined below.
template <class Fn, int MaxRank, class... Out, class... In>
Status pointwise_pieces(const Launch& launch, const Layout<sizeof...(Out) + sizeof...(In), MaxRank>& layout, const Fn& fn,
                        const Outputs<Out...>& out, const Inputs<In...>& in);

// A block owns kPointwiseThreads * Unroll vectors of N elements; the elements after the last whole vector go to the last
// block, one a thread.
template <int N, int Unroll, class Fn, class Out, class In>
__global__ void __launch_bounds__(kPointwiseThreads) pointwise_kernel(Fn fn, Out out, In in, int64_t numel) {
    constexpr typename In::Indices kInputs{};
    const int64_t vectors = numel / N;
    const int64_t first = int64_t{blockIdx.x} * (kPointwiseThreads * Unroll) + threadIdx.x;
    if (first + (Unroll - 1) * kPointwiseThreads < vectors) {
        typename In::template Vectors<N> x[Unroll];
#pragma unroll
        for (int u = 0; u < Unroll; ++u) x[u] = load_all<N>(in.pointer, (first + u * kPointwiseThreads) * N, kInputs);
#pragma unroll
        for (int u = 0; u < Unroll; ++u) compute_and_store<N>(fn, out, x[u], (first + u * kPointwiseThreads) * N);
    } else {
        for (int64_t v = first; v < vectors; v += kPointwiseThreads)
            compute_and_store<N>(fn, out, load_all<N>(in.pointer, v * N, kInputs), v * N);
    }
    if (N > 1 && blockIdx.x == gridDim.x - 1 && vectors * N + threadIdx.x < numel) {
        const int64_t element = vectors * N + threadIdx.x;
        compute_and_store<1>(fn, out, load_all<1>(in.pointer, element, kInputs), element);
    }
}

template <class Fn, class Out, class In>
struct PointwiseShape {
    static constexpr int lanes = kVectorBytes / (Out::widest > In::widest ? Out::widest : In::widest);
    // Measured: several output streams keep their order in memory best with one vector a thread (lerp_backward 0.97 of
    // copy, 0.92 with 4).
    static constexpr int unroll = In::count > 2 || Out::count > 1   ? 1
                                  : In::count == 2                  ? 2
                                  : std::is_same_v<Fn, CopyFunctor> ? 4
                                                                    : 2;
};

template <class Fn, class... Out, class... In>
Status pointwise(const Launch& launch, int64_t numel, const Fn& fn, const Outputs<Out...>& out, const Inputs<In...>& in) {
    using Shape = PointwiseShape<Fn, Outputs<Out...>, Inputs<In...>>;
    if (!all_aligned(out.pointer, Shape::lanes, std::index_sequence_for<Out...>{}) ||
        !all_aligned(in.pointer, Shape::lanes, std::index_sequence_for<In...>{})) {
        Layout<sizeof...(Out) + sizeof...(In)> flat;
        flat.rank = 1;
        flat.extent[0] = numel;
        for (auto& stride : flat.stride) stride[0] = 1;
        return pointwise_pieces(launch, flat, fn, out, in);
    }
    const int64_t vectors = numel / Shape::lanes;
    const int64_t blocks = ceil_div<int64_t>(vectors > 0 ? vectors : 1, kPointwiseThreads * Shape::unroll);
    if (blocks > kMaxGridX) return fail(Status::kUnsupported, "numel is %lld, too many for one launch", (long long)numel);
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kPointwiseThreads)},
                         pointwise_kernel<Shape::lanes, Shape::unroll, Fn, Outputs<Out...>, Inputs<In...>>, fn, out, in, numel);
}

// N neighbours along the last axis: one vector where the operand steps by 1 there, one element for all where by 0.
template <int N, class T>
BK_DEVICE Vec<T, N> load_lanes(const T* pointer, bool broadcast) {
    if (!broadcast) return load<N>(pointer);
    Vec<T, N> x;
    const T value = *pointer;
#pragma unroll
    for (int lane = 0; lane < N; ++lane) x.lane[lane] = value;
    return x;
}

template <int N, int Operands, class... In, size_t... I>
BK_DEVICE Pack<Vec<In, N>...> load_strided(const Pack<const In*...>& in, const Offsets<Operands, uint32_t>& offset,
                                           unsigned broadcast, std::index_sequence<I...>) {
    constexpr int kOut = Operands - sizeof...(In);
    return pack(load_lanes<N>(get<I>(in) + signed_offset(offset.of[kOut + I]), broadcast >> I & 1)...);
}

template <int N, int Operands, class... Out, size_t... O>
BK_DEVICE void store_strided(const Pack<Out*...>& out, const Offsets<Operands, uint32_t>& offset, const Pack<Vec<Out, N>...>& y,
                             std::index_sequence<O...>) {
    ((sizeof...(Out) == 1 || get<O>(out) != nullptr ? store<N>(get<O>(out) + signed_offset(offset.of[O]), get<O>(y)) : void()),
     ...);
}

// Copies of each result, `step` elements apart: an axis along which every input stands still.
template <int Outputs>
struct Copies {
    int count = 1;
    int64_t step[Outputs] = {};
};

template <int N, class Fn, class... Out, class... In, int Operands>
BK_DEVICE void compute_and_copy(const Fn& fn, const Outputs<Out...>& out, const Pack<Vec<In, N>...>& x, int64_t element,
                                Offsets<Operands, uint32_t> offset, const Copies<sizeof...(Out)>& copies) {
    Pack<Vec<Out, N>...> y;
    compute<N>(fn, element, x, y, std::index_sequence_for<In...>{});
    for (int c = 0; c < copies.count; ++c) {
        store_strided<N>(out.pointer, offset, y, std::index_sequence_for<Out...>{});
#pragma unroll
        for (int o = 0; o < static_cast<int>(sizeof...(Out)); ++o) offset.of[o] += static_cast<uint32_t>(copies.step[o]);
    }
}

// Operands of `walk`: the outputs, then the inputs. Its last axis counts vectors of N elements.
template <int N, int Unroll, class Fn, int MaxRank, class Out, class In>
__global__ void __launch_bounds__(kPointwiseThreads)
    vector_kernel(Fn fn, Out out, In in, Walk<Out::count + In::count, uint32_t, MaxRank> walk, unsigned broadcast,
                  Copies<Out::count> copies, uint32_t vectors) {
    const uint64_t first = uint64_t{blockIdx.x} * (kPointwiseThreads * Unroll) + threadIdx.x;
    Offsets<Out::count + In::count, uint32_t> offset[Unroll];
    typename In::template Vectors<N> x[Unroll];
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
        const uint64_t v = first + u * kPointwiseThreads;
        if (v >= vectors) continue;
        offset[u] = walk(static_cast<uint32_t>(v));
        x[u] = load_strided<N>(in.pointer, offset[u], broadcast, typename In::Indices{});
    }
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
        const uint64_t v = first + u * kPointwiseThreads;
        if (v < vectors) compute_and_copy<N>(fn, out, x[u], static_cast<int64_t>(v) * N, offset[u], copies);
    }
}

// A square of the last axis (columns) and another one (rows), for inputs whose neighbours in memory lie along the rows:
// these are read in their own order into shared memory, and from there in the output's.
constexpr int kElementsPerThread = kTile * kTile / kPointwiseThreads;

template <int Operands, int MaxRank>
struct ElementPlan {
    Walk<Operands, uint32_t, MaxRank> walk;  // of all axes, or of those outside the tile
    uint32_t count = 0;                      // elements
    unsigned staged = 0;                     // a bit for each input that goes through shared memory; 0: no tiles
    FastDiv<uint32_t> row_tiles, column_tiles;
    uint32_t rows = 0, columns = 0;
    uint32_t row_step[Operands] = {}, column_step[Operands] = {};
};

template <class T>
BK_DEVICE void stage_tile(T* tile, const T* x, uint32_t row_step, uint32_t column_step, uint32_t rows, uint32_t columns) {
    const uint32_t r = threadIdx.x % kTile;
#pragma unroll
    for (int u = 0; u < kElementsPerThread; ++u) {
        const uint32_t c = threadIdx.x / kTile + u * (kPointwiseThreads / kTile);
        if (r < rows && c < columns) tile[c * (kTile + 1) + r] = x[signed_offset(r * row_step + c * column_step)];
    }
}

template <class... In, int Operands, size_t... I>
BK_DEVICE Pack<Vec<In, 1>...> load_element(const Pack<const In*...>& in, const Pack<In*...>& tile, unsigned staged,
                                           uint32_t place, const Offsets<Operands, uint32_t>& offset,
                                           std::index_sequence<I...>) {
    constexpr int kOut = Operands - sizeof...(In);
    return pack(Vec<In, 1>{{staged >> I & 1 ? get<I>(tile)[place] : get<I>(in)[signed_offset(offset.of[kOut + I])]}}...);
}

template <class... In, int Operands, int MaxRank, size_t... I>
BK_DEVICE void stage_tiles(const Pack<const In*...>& in, const Pack<In*...>& tile, const ElementPlan<Operands, MaxRank>& plan,
                           const Offsets<Operands, uint32_t>& base, uint32_t rows, uint32_t columns,
                           std::index_sequence<I...>) {
    constexpr int kOut = Operands - sizeof...(In);
    ((plan.staged >> I & 1 ? stage_tile(get<I>(tile), get<I>(in) + signed_offset(base.of[kOut + I]), plan.row_step[kOut + I],
                                        plan.column_step[kOut + I], rows, columns)
                           : void()),
     ...);
    __syncthreads();
}

template <class... In, size_t... I>
BK_DEVICE Pack<In*...> tile_pointers(char* memory, const Inputs<In...>&, std::index_sequence<I...>) {
    size_t at = 0;
    const auto take = [&](size_t bytes) {
        char* const result = memory + at;
        at += (kTileCells * bytes + 15) / 16 * 16;
        return result;
    };
    return Pack<In*...>{{{reinterpret_cast<In*>(take(sizeof(In)))}...}};
}

template <class Fn, int MaxRank, class Out, class In>
__global__ void __launch_bounds__(kPointwiseThreads)
    element_kernel(Fn fn, Out out, In in, ElementPlan<Out::count + In::count, MaxRank> plan, Copies<Out::count> copies) {
    constexpr int U = kElementsPerThread;
    constexpr int kOperands = Out::count + In::count;
    __shared__ alignas(16) char memory[In::tile_bytes > 0 ? In::tile_bytes : 1];
    const auto tile = tile_pointers(memory, in, typename In::Indices{});
    Offsets<kOperands, uint32_t> offset[U];
    bool valid[U];
    typename In::template Vectors<1> x[U];
    const uint64_t first = uint64_t{blockIdx.x} * (kPointwiseThreads * U) + threadIdx.x;
    if (plan.staged != 0) {
        const auto by_column = plan.column_tiles(blockIdx.x);
        const auto by_row = plan.row_tiles(by_column.quotient);
        auto base = plan.walk(by_row.quotient);
        const uint32_t row = by_row.remainder * kTile, column = by_column.remainder * kTile;
#pragma unroll
        for (int k = 0; k < kOperands; ++k) base.of[k] += row * plan.row_step[k] + column * plan.column_step[k];
        const uint32_t rows = plan.rows - row, columns = plan.columns - column;
        stage_tiles(in.pointer, tile, plan, base, rows, columns, typename In::Indices{});
#pragma unroll
        for (int u = 0; u < U; ++u) {
            const uint32_t c = threadIdx.x % kTile, r = threadIdx.x / kTile + u * (kPointwiseThreads / kTile);
            valid[u] = r < rows && c < columns;
#pragma unroll
            for (int k = 0; k < kOperands; ++k) offset[u].of[k] = base.of[k] + r * plan.row_step[k] + c * plan.column_step[k];
        }
    } else {
#pragma unroll
        for (int u = 0; u < U; ++u) {
            valid[u] = first + u * kPointwiseThreads < plan.count;
            if (valid[u]) offset[u] = plan.walk(static_cast<uint32_t>(first + u * kPointwiseThreads));
        }
    }
#pragma unroll
    for (int u = 0; u < U; ++u) {
        const uint32_t place = threadIdx.x % kTile * (kTile + 1) + threadIdx.x / kTile + u * (kPointwiseThreads / kTile);
        if (valid[u]) x[u] = load_element(in.pointer, tile, plan.staged, place, offset[u], typename In::Indices{});
    }
#pragma unroll
    for (int u = 0; u < U; ++u)
        if (valid[u])
            compute_and_copy<1>(fn, out, x[u], static_cast<int64_t>(first + u * kPointwiseThreads), offset[u], copies);
}

// Takes up to 8 steps of the first axis along which every input stands still out of a large layout, so that what is
// computed once is stored that often.
template <int Operands, int MaxRank, int Outputs>
void take_copies(Layout<Operands, MaxRank>* layout, Copies<Outputs>* copies) {
    constexpr int64_t kEnough = int64_t{1} << 20;  // elements that still fill the chip
    for (int d = 0; d + 1 < layout->rank; ++d) {
        bool still = Operands > Outputs;
        for (int k = Outputs; k < Operands; ++k) still = still && layout->stride[k][d] == 0;
        if (!still) continue;
        int count = 8;
        while (layout->extent[d] % count != 0) --count;
        if (layout->numel() / count < kEnough) return;
        copies->count = count;
        for (int k = 0; k < Outputs; ++k) copies->step[k] = layout->stride[k][d];
        layout->extent[d] /= count;
        for (int k = 0; k < Operands; ++k) layout->stride[k][d] *= count;
        return;
    }
}

// Turns the last axis into one of whole vectors where every operand allows it. `broadcast` gets a bit for each input that
// stands still along it.
template <int Operands, int MaxRank>
bool make_vectors(Layout<Operands, MaxRank>* layout, int outputs, int lanes, unsigned* broadcast) {
    const int last = layout->rank - 1;
    if (last < 0 || layout->extent[last] % lanes != 0) return false;
    for (int k = 0; k < Operands; ++k) {
        const int64_t step = layout->stride[k][last];
        if (step != 1 && (step != 0 || k < outputs)) return false;
        for (int d = 0; step == 1 && d < last; ++d)
            if (layout->stride[k][d] % lanes != 0) return false;
        if (step == 0) *broadcast |= 1u << (k - outputs);
    }
    layout->extent[last] /= lanes;
    for (int k = 0; k < Operands; ++k) layout->stride[k][last] *= lanes;
    return true;
}

// Chooses the axis whose tiles, with those of the last axis, let every input that is not dense along the last axis be read
// along its own fastest one. Operands of `layout`: `outputs` outputs, then the inputs.
template <int Operands, int MaxRank>
void plan_tiles(const Layout<Operands, MaxRank>& layout, int outputs, ElementPlan<Operands, MaxRank>* plan) {
    constexpr int64_t kLeast = kTile / 2;  // of both extents; narrower tiles would idle
    const int last = layout.rank - 1;
    int row = -1;
    unsigned staged = 0;
    for (int k = outputs; k < Operands; ++k) {
        int fastest = last;
        for (int d = last - 1; d >= 0; --d) {
            const int64_t step = magnitude(layout.stride[k][d]);
            if (step != 0 && layout.stride[k][last] != 0 && step < magnitude(layout.stride[k][fastest])) fastest = d;
        }
        if (fastest == last || (row >= 0 && fastest != row) || layout.extent[fastest] < kLeast) continue;
        row = fastest;
        staged |= 1u << (k - outputs);
    }
    if (staged == 0 || layout.extent[last] < kLeast) return;
    Layout<Operands, MaxRank> outer = layout;
    outer.rank = 0;
    for (int d = 0; d < last; ++d) {
        if (d == row) continue;
        outer.extent[outer.rank] = layout.extent[d];
        for (int k = 0; k < Operands; ++k) outer.stride[k][outer.rank] = layout.stride[k][d];
        ++outer.rank;
    }
    plan->staged = staged;
    plan->walk = Walk<Operands, uint32_t, MaxRank>(outer);
    plan->rows = static_cast<uint32_t>(layout.extent[row]);
    plan->columns = static_cast<uint32_t>(layout.extent[last]);
    plan->row_tiles = FastDiv<uint32_t>(ceil_div<int64_t>(plan->rows, kTile));
    plan->column_tiles = FastDiv<uint32_t>(ceil_div<int64_t>(plan->columns, kTile));
    for (int k = 0; k < Operands; ++k) {
        plan->row_step[k] = static_cast<uint32_t>(layout.stride[k][row]);
        plan->column_step[k] = static_cast<uint32_t>(layout.stride[k][last]);
    }
}

template <class Fn, int MaxRank, class... Out, class... In>
Status launch_elements(const Launch& launch, const Layout<sizeof...(Out) + sizeof...(In), MaxRank>& layout,
                       const Copies<sizeof...(Out)>& copies, const Fn& fn, const Outputs<Out...>& out,
                       const Inputs<In...>& in) {
    constexpr int operands = sizeof...(Out) + sizeof...(In);
    ElementPlan<operands, MaxRank> plan;
    plan.count = static_cast<uint32_t>(layout.numel());
    if (!kIsPositional<Fn> && copies.count == 1) plan_tiles(layout, sizeof...(Out), &plan);
    int64_t blocks = ceil_div<int64_t>(plan.count, kPointwiseThreads * kElementsPerThread);
    if (plan.staged == 0)
        plan.walk = Walk<operands, uint32_t, MaxRank>(layout);
    else
        blocks = layout.numel() / plan.rows / plan.columns * plan.row_tiles.divisor() * plan.column_tiles.divisor();
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kPointwiseThreads)},
                         element_kernel<Fn, MaxRank, Outputs<Out...>, Inputs<In...>>, fn, out, in, plan, copies);
}

template <class... T, int Operands, int MaxRank, size_t... I>
void advance(Pack<T*...>* pointers, const Layout<Operands, MaxRank>& layout, int first, int axis, int64_t steps,
             std::index_sequence<I...>) {
    ((get<I>(*pointers) == nullptr ? void() : void(get<I>(*pointers) += steps * layout.stride[first + I][axis])), ...);
}

template <class Fn, int MaxRank, class... Out, class... In>
Status pointwise_pieces(const Launch& launch, const Layout<sizeof...(Out) + sizeof...(In), MaxRank>& given, const Fn& fn,
                        const Outputs<Out...>& out, const Inputs<In...>& in) {
    using Shape = PointwiseShape<Fn, Outputs<Out...>, Inputs<In...>>;
    constexpr int operands = sizeof...(Out) + sizeof...(In);
    Layout<operands, MaxRank> layout = given;
    if (!layout.fits_32bit()) {
        // Halves of the axis over which an operand reaches farthest.
        int axis = 0;
        int64_t farthest = -1;
        for (int d = 0; d < layout.rank; ++d)
            for (int k = -1; k < operands; ++k) {
                const int64_t reach = layout.extent[d] * (k < 0 ? 1 : magnitude(layout.stride[k][d]));
                if (layout.extent[d] > 1 && reach > farthest) farthest = reach, axis = d;
            }
        const int64_t half = layout.extent[axis] / 2;
        layout.extent[axis] = half;
        BK_TRY(pointwise_pieces(launch, layout, fn, out, in));
        layout.extent[axis] = given.extent[axis] - half;
        Outputs<Out...> second_out = out;
        Inputs<In...> second_in = in;
        advance(&second_out.pointer, layout, 0, axis, half, std::index_sequence_for<Out...>{});
        advance(&second_in.pointer, layout, sizeof...(Out), axis, half, std::index_sequence_for<In...>{});
        return pointwise_pieces(launch, layout, fn, second_out, second_in);
    }
    Copies<sizeof...(Out)> copies;
    take_copies(&layout, &copies);
    unsigned broadcast = 0;
    bool aligned = all_aligned(out.pointer, Shape::lanes, std::index_sequence_for<Out...>{}) &&
                   all_aligned(in.pointer, Shape::lanes, std::index_sequence_for<In...>{});
    for (const int64_t step : copies.step) aligned = aligned && step % Shape::lanes == 0;
    if (Shape::lanes == 1 || !aligned || !make_vectors(&layout, sizeof...(Out), Shape::lanes, &broadcast))
        return launch_elements(launch, layout, copies, fn, out, in);
    constexpr int unroll = sizeof...(In) > 1 ? 1 : 2;
    const int64_t vectors = layout.numel();
    const int64_t blocks = ceil_div<int64_t>(vectors, kPointwiseThreads * unroll);
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kPointwiseThreads)},
                         vector_kernel<Shape::lanes, unroll, Fn, MaxRank, Outputs<Out...>, Inputs<In...>>, fn, out, in,
                         Walk<operands, uint32_t, MaxRank>(layout), broadcast, copies, static_cast<uint32_t>(vectors));
}

// The layout's operands are the outputs, then the inputs. One of several outputs may be null.
template <class Fn, int MaxRank, class... Out, class... In>
Status pointwise_strided(const Launch& launch, const Layout<sizeof...(Out) + sizeof...(In), MaxRank>& given, const Fn& fn,
                         const Outputs<Out...>& out, const Inputs<In...>& in) {
    constexpr int operands = sizeof...(Out) + sizeof...(In);
    const Layout<operands, MaxRank> layout = collapse(given);
    bool contiguous = true;
    for (int k = 0; k < operands; ++k) contiguous = contiguous && layout.is_contiguous(k);
    if (contiguous) return pointwise(launch, layout.numel(), fn, out, in);
    return pointwise_pieces(launch, layout, fn, out, in);
}

}  // namespace bk
