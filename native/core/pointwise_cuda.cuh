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

// Defined below: for any collapsed layout, in one launch where 32-bit offsets reach all of it.
template <class Fn, int MaxRank, class... Out, class... In>
Status launch_strided(const Launch& launch, const Layout<sizeof...(Out) + sizeof...(In), MaxRank>& layout, const Fn& fn,
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

template <class Fn>
constexpr auto vectors_of(int) -> decltype(Fn::vectors) {
    return Fn::vectors;
}
template <class Fn>
constexpr int vectors_of(long) {
    return 1;
}

template <class Fn, class Out, class In>
struct PointwiseShape {
    static constexpr int lanes = kVectorBytes / (Out::widest > In::widest ? Out::widest : In::widest);
    // Vectors a thread. Measured: one of each operand in flight is best (of copy, f32: one input 0.93 with 4 and 0.95 with 2,
    // lerp_backward 0.92 with 4 and 0.97 with 1); two inputs and one output want 2, and so do functors that say so.
    static constexpr int unroll = std::is_same_v<Fn, CopyFunctor>     ? 4
                                  : In::count == 2 && Out::count == 1 ? 2
                                                                      : vectors_of<Fn>(0);
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
        return launch_strided(launch, flat, fn, out, in);
    }
    const int64_t vectors = numel / Shape::lanes;
    const int64_t blocks = ceil_div<int64_t>(vectors > 0 ? vectors : 1, kPointwiseThreads * Shape::unroll);
    if (blocks > kMaxGridX) return fail(Status::kUnsupported, "numel is %lld, too many for one launch", (long long)numel);
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kPointwiseThreads)},
                         pointwise_kernel<Shape::lanes, Shape::unroll, Fn, Outputs<Out...>, Inputs<In...>>, fn, out, in, numel);
}

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
BK_DEVICE Vec<T, N> load_lanes(const T* pointer, bool broadcast, bool single = false, Lanes lanes = {0, N}) {
    if (!broadcast && !single && lanes.all<N>()) return load<N>(pointer);
    Vec<T, N> x;
    if (broadcast) {
        const T value = *pointer;
#pragma unroll
        for (int lane = 0; lane < N; ++lane) x.lane[lane] = value;
    } else {
#pragma unroll
        for (int lane = 0; lane < N; ++lane) x.lane[lane] = pointer[lanes.has(lane) ? lane : lanes.first];
    }
    return x;
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

// What a strided kernel is told: up to kWalkedAxes axes that every thread walks, and slower ones that blockIdx.y walks.
constexpr int kWalkedAxes = 4;
constexpr int kMostAxes = 16;  // of a repeat of rank 8
constexpr int kMostOutputs = 3;

template <int Operands>
struct StridedPlan {
    Walk<Operands, uint32_t, kWalkedAxes> walk;  // of elements or vectors; outside the tile where there are tiles
    int outer_rank = 0;
    FastDiv<uint32_t> outer_extent[kMostAxes - kWalkedAxes];
    uint32_t outer_step[kMostAxes - kWalkedAxes][Operands] = {};
    uint32_t count = 0;         // elements or vectors of the walk
    unsigned broadcast = 0;     // vectors: a bit for each operand that stands still along them,
    unsigned single = 0;        // and for each that must be accessed one by one
    uint32_t inner = 0;         // elements along the vectors, where these do not cover them exactly; else 0
    int shift = 0;              // elements by which the first vector begins before the row
    FastDiv<uint32_t> per_row;  // vectors along them
    unsigned staged = 0;        // elements: a bit for each input that goes through shared memory; 0: no tiles
    FastDiv<uint32_t> row_tiles, column_tiles;
    uint32_t rows = 0, columns = 0;
    uint32_t row_step[Operands] = {}, column_step[Operands] = {};
    // Copies of each result, an axis along which every input stands still.
    int copies = 1;
    uint32_t copy_step[kMostOutputs] = {};
};

template <int Operands>
BK_DEVICE Offsets<Operands, uint32_t> outer_offsets(const StridedPlan<Operands>& plan) {
    Offsets<Operands, uint32_t> offset{};
    uint32_t i = blockIdx.y;
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

template <int N, int Operands, class... Out, size_t... O>
BK_DEVICE void store_strided(const Pack<Out*...>& out, const Offsets<Operands, uint32_t>& offset, const Pack<Vec<Out, N>...>& y,
                             unsigned single, Lanes lanes, std::index_sequence<O...>) {
    ((sizeof...(Out) == 1 || get<O>(out) != nullptr
          ? store_lanes<N>(get<O>(out) + signed_offset(offset.of[O]), get<O>(y), single >> O & 1, lanes)
          : void()),
     ...);
}

// Stores `lanes` of each result; where there are none, nothing, though it is computed.
template <int N, class Fn, class... Out, class... In, int Operands>
BK_DEVICE void compute_and_copy(const Fn& fn, const Outputs<Out...>& out, const Pack<Vec<In, N>...>& x, int64_t element,
                                Offsets<Operands, uint32_t> offset, const StridedPlan<Operands>& plan, Lanes lanes) {
    Pack<Vec<Out, N>...> y;
    compute<N>(fn, element, x, y, std::index_sequence_for<In...>{});
    if (lanes.first >= lanes.last) return;
    for (int c = 0; c < plan.copies; ++c) {
        store_strided<N>(out.pointer, offset, y, plan.single, lanes, std::index_sequence_for<Out...>{});
#pragma unroll
        for (int o = 0; o < static_cast<int>(sizeof...(Out)); ++o) offset.of[o] += plan.copy_step[o];
    }
}

template <int N, int Operands, class... In, size_t... I>
BK_DEVICE Pack<Vec<In, N>...> load_strided(const Pack<const In*...>& in, const Offsets<Operands, uint32_t>& offset,
                                           const StridedPlan<Operands>& plan, Lanes lanes, std::index_sequence<I...>) {
    constexpr int kOut = Operands - sizeof...(In);
    return pack(load_lanes<N>(get<I>(in) + signed_offset(offset.of[kOut + I]), plan.broadcast >> (kOut + I) & 1,
                              plan.single >> (kOut + I) & 1, lanes)...);
}

// Operands of the plan: the outputs, then the inputs. The walk's last axis counts vectors of N elements. What lies past the
// end is computed from zeros, so that no branch keeps the vectors of a thread apart.
template <int N, int Unroll, class Fn, class Out, class In>
__global__ void __launch_bounds__(kPointwiseThreads)
    vector_kernel(Fn fn, Out out, In in, const __grid_constant__ StridedPlan<Out::count + In::count> plan) {
    const uint64_t first = uint64_t{blockIdx.x} * (kPointwiseThreads * Unroll) + threadIdx.x;
    const auto base = outer_offsets(plan);
    Offsets<Out::count + In::count, uint32_t> offset[Unroll];
    typename In::template Vectors<N> x[Unroll] = {};
    Lanes lanes[Unroll];
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
        const uint64_t v = first + u * kPointwiseThreads;
        lanes[u] = {0, v < plan.count ? N : 0};
        if (v >= plan.count) continue;
        if (plan.inner != 0) {
            const int start = static_cast<int>(plan.per_row(static_cast<uint32_t>(v)).remainder * N) - plan.shift;
            lanes[u] = {max(0, -start), min(N, static_cast<int>(plan.inner) - start)};
        }
        offset[u] = sum_of(plan.walk(static_cast<uint32_t>(v)), base);
        x[u] = load_strided<N>(in.pointer, offset[u], plan, lanes[u], typename In::Indices{});
    }
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
        const int64_t element = (int64_t{blockIdx.y} * plan.count + static_cast<int64_t>(first) + u * kPointwiseThreads) * N;
        if (!kIsPositional<Fn> || lanes[u].last > 0) compute_and_copy<N>(fn, out, x[u], element, offset[u], plan, lanes[u]);
    }
}

// A tile of the last axis (columns) and another one (rows), for inputs whose neighbours in memory lie along the rows: these
// are read in their own order into shared memory, and from there in the output's.
constexpr int kElementsPerThread = kTile * kTile / kPointwiseThreads;  // of a square
constexpr int kRowsApart = kPointwiseThreads / kTile;

template <int Side, class T>
BK_DEVICE void stage_tile(T* tile, const T* x, uint32_t row_step, uint32_t column_step, uint32_t rows, uint32_t columns) {
    constexpr int kColumns = Side * kTile, kPitch = Side * kTile + 1;
#pragma unroll
    for (int u = 0; u < kColumns / kRowsApart; ++u) {
        const uint32_t c = threadIdx.x / kTile + u * kRowsApart;
#pragma unroll
        for (int square = 0; square < Side; ++square) {
            const uint32_t r = threadIdx.x % kTile + square * kTile;
            if (r < rows && c < columns) tile[c * kPitch + r] = x[signed_offset(r * row_step + c * column_step)];
        }
    }
}

template <class... In, int Operands, size_t... I>
BK_DEVICE Pack<Vec<In, 1>...> load_element(const Pack<const In*...>& in, const Pack<In*...>& tile, unsigned staged,
                                           uint32_t place, const Offsets<Operands, uint32_t>& offset,
                                           std::index_sequence<I...>) {
    constexpr int kOut = Operands - sizeof...(In);
    return pack(Vec<In, 1>{{staged >> I & 1 ? get<I>(tile)[place] : get<I>(in)[signed_offset(offset.of[kOut + I])]}}...);
}

template <int Side, class... In, int Operands, size_t... I>
BK_DEVICE void stage_tiles(const Pack<const In*...>& in, const Pack<In*...>& tile, const StridedPlan<Operands>& plan,
                           const Offsets<Operands, uint32_t>& base, uint32_t rows, uint32_t columns,
                           std::index_sequence<I...>) {
    constexpr int kOut = Operands - sizeof...(In);
    ((plan.staged >> I & 1 ? stage_tile<Side>(get<I>(tile), get<I>(in) + signed_offset(base.of[kOut + I]),
                                              plan.row_step[kOut + I], plan.column_step[kOut + I], rows, columns)
                           : void()),
     ...);
    __syncthreads();
}

template <class... In, size_t... I>
BK_DEVICE Pack<In*...> tile_pointers(char* memory, const Inputs<In...>&, std::index_sequence<I...>) {
    size_t at = 0;
    const auto take = [&](size_t bytes) {
        char* const result = memory + at;
        at += (Inputs<In...>::side * kTile * Inputs<In...>::pitch * bytes + 15) / 16 * 16;
        return result;
    };
    return Pack<In*...>{{{reinterpret_cast<In*>(take(sizeof(In)))}...}};
}

// A block has a tile of side * side squares, or as many groups of kPointwiseThreads * kElementsPerThread elements.
template <class Fn, class Out, class In>
__global__ void __launch_bounds__(kPointwiseThreads)
    element_kernel(Fn fn, Out out, In in, const __grid_constant__ StridedPlan<Out::count + In::count> plan) {
    constexpr int U = kElementsPerThread;
    constexpr int kOperands = Out::count + In::count;
    __shared__ alignas(16) char memory[In::tile_bytes > 0 ? In::tile_bytes : 1];
    const auto tile = tile_pointers(memory, in, typename In::Indices{});
    auto base = outer_offsets(plan);
    const uint32_t lane = threadIdx.x % kTile, warp = threadIdx.x / kTile;
    uint32_t rows = 0, columns = 0;
    if (plan.staged != 0) {
        const auto by_column = plan.column_tiles(blockIdx.x);
        const auto by_row = plan.row_tiles(by_column.quotient);
        base = sum_of(plan.walk(by_row.quotient), base);
        const uint32_t row = by_row.remainder * (In::side * kTile), column = by_column.remainder * (In::side * kTile);
#pragma unroll
        for (int k = 0; k < kOperands; ++k) base.of[k] += row * plan.row_step[k] + column * plan.column_step[k];
        rows = plan.rows - row;
        columns = plan.columns - column;
        stage_tiles<In::side>(in.pointer, tile, plan, base, rows, columns, typename In::Indices{});
#pragma unroll
        for (int k = 0; k < kOperands; ++k) base.of[k] += warp * plan.row_step[k] + lane * plan.column_step[k];
    }
#pragma unroll 1
    for (int square = 0; square < In::side * In::side; ++square) {
        const uint32_t down = square % In::side * kTile, right = square / In::side * kTile;
        Offsets<kOperands, uint32_t> offset[U];
        bool valid[U];
        typename In::template Vectors<1> x[U] = {};
        const uint64_t first = (uint64_t{blockIdx.x} * (In::side * In::side) + square) * (kPointwiseThreads * U) + threadIdx.x;
#pragma unroll
        for (int u = 0; u < U; ++u) {
            const uint64_t v = first + u * kPointwiseThreads;
            if (plan.staged != 0) {
                valid[u] = down + warp + u * kRowsApart < rows && right + lane < columns;
#pragma unroll
                for (int k = 0; k < kOperands; ++k)
                    offset[u].of[k] = base.of[k] + right * plan.column_step[k] + (down + u * kRowsApart) * plan.row_step[k];
            } else {
                valid[u] = v < plan.count;
                if (valid[u]) offset[u] = sum_of(plan.walk(static_cast<uint32_t>(v)), base);
            }
            const uint32_t place = (right + lane) * In::pitch + down + warp + u * kRowsApart;
            if (valid[u]) x[u] = load_element(in.pointer, tile, plan.staged, place, offset[u], typename In::Indices{});
        }
#pragma unroll
        for (int u = 0; u < U; ++u)
            if (!kIsPositional<Fn> || valid[u])
                compute_and_copy<1>(fn, out, x[u],
                                    int64_t{blockIdx.y} * plan.count + static_cast<int64_t>(first) + u * kPointwiseThreads,
                                    offset[u], plan, Lanes{0, valid[u] ? 1 : 0});
    }
}

// --- host: what to launch, for any functor --------------------------------------------------------------------------

// Takes up to 8 steps of the first axis along which every input stands still out of a large layout, so that what is
// computed once is stored that often.
template <int Operands, int MaxRank>
void take_copies(Layout<Operands, MaxRank>* layout, int outputs, StridedPlan<Operands>* plan) {
    constexpr int64_t kEnough = int64_t{1} << 20;  // elements that still fill the chip
    for (int d = 0; d + 1 < layout->rank; ++d) {
        bool still = Operands > outputs;
        for (int k = outputs; k < Operands; ++k) still = still && layout->stride[k][d] == 0;
        if (!still) continue;
        int count = 8;
        while (layout->extent[d] % count != 0) --count;
        if (layout->numel() / count < kEnough) return;
        plan->copies = count;
        for (int k = 0; k < outputs; ++k) plan->copy_step[k] = static_cast<uint32_t>(layout->stride[k][d]);
        layout->extent[d] /= count;
        for (int k = 0; k < Operands; ++k) layout->stride[k][d] *= count;
        return;
    }
}

// Turns the last axis into one of vectors where every operand is dense or, an input, stands still along it. `residue` says
// how many elements past an aligned address each operand begins. If those of the first output are not aligned, the vectors
// begin before the row, where its are; an operand that is out of step with it is accessed element by element.
template <int Operands, int MaxRank>
bool take_vectors(Layout<Operands, MaxRank>* layout, int outputs, int lanes, bool positional, const int (&residue)[Operands],
                  StridedPlan<Operands>* plan) {
    const int last = layout->rank - 1;
    if (last < 0) return false;
    const int64_t inner = layout->extent[last];
    const int shift = positional || inner < 8 * lanes ? 0 : residue[0];
    const bool ragged = shift != 0 || inner % lanes != 0;
    if (ragged && (positional || inner < 4 * lanes)) return false;
    unsigned broadcast = 0, single = 0;
    for (int k = 0; k < Operands; ++k) {
        const int64_t step = layout->stride[k][last];
        if (step != 1 && (step != 0 || k < outputs)) return false;
        bool aligned = residue[k] == shift;
        for (int d = 0; step == 1 && d < last; ++d) aligned = aligned && layout->stride[k][d] % lanes == 0;
        if (k < outputs) aligned = aligned && plan->copy_step[k] % static_cast<uint32_t>(lanes) == 0;
        if (step == 0) broadcast |= 1u << k;
        if (step == 1 && !aligned) single |= 1u << k;
    }
    plan->broadcast = broadcast;
    plan->single = single;
    plan->inner = ragged ? static_cast<uint32_t>(inner) : 0;
    plan->shift = shift;
    layout->extent[last] = ceil_div<int64_t>(inner + shift, lanes);
    plan->per_row = FastDiv<uint32_t>(layout->extent[last]);
    for (int k = 0; k < Operands; ++k) layout->stride[k][last] *= lanes;
    return true;
}

// Chooses the axis whose tiles, with those of the last axis, let every input that is not dense along the last axis be read
// along its own fastest one, and takes both out of the layout.
template <int Operands, int MaxRank>
void take_tiles(Layout<Operands, MaxRank>* layout, int outputs, int side, StridedPlan<Operands>* plan) {
    constexpr int64_t kLeast = kTile / 2;  // of both extents; narrower tiles would idle
    const int last = layout->rank - 1;
    int row = -1;
    unsigned staged = 0;
    for (int k = outputs; k < Operands; ++k) {
        int fastest = last;
        for (int d = last - 1; d >= 0; --d) {
            const int64_t step = magnitude(layout->stride[k][d]);
            if (step != 0 && layout->stride[k][last] != 0 && step < magnitude(layout->stride[k][fastest])) fastest = d;
        }
        if (fastest == last || (row >= 0 && fastest != row) || layout->extent[fastest] < kLeast) continue;
        row = fastest;
        staged |= 1u << (k - outputs);
    }
    if (staged == 0 || layout->extent[last] < kLeast) return;
    plan->staged = staged;
    plan->rows = static_cast<uint32_t>(layout->extent[row]);
    plan->columns = static_cast<uint32_t>(layout->extent[last]);
    plan->row_tiles = FastDiv<uint32_t>(ceil_div<int64_t>(plan->rows, side * kTile));
    plan->column_tiles = FastDiv<uint32_t>(ceil_div<int64_t>(plan->columns, side * kTile));
    for (int k = 0; k < Operands; ++k) {
        plan->row_step[k] = static_cast<uint32_t>(layout->stride[k][row]);
        plan->column_step[k] = static_cast<uint32_t>(layout->stride[k][last]);
    }
    Layout<Operands, MaxRank> outer = *layout;
    outer.rank = 0;
    for (int d = 0; d < last; ++d) {
        if (d == row) continue;
        outer.extent[outer.rank] = layout->extent[d];
        for (int k = 0; k < Operands; ++k) outer.stride[k][outer.rank] = layout->stride[k][d];
        ++outer.rank;
    }
    *layout = outer;
}

// The slower axes go to blockIdx.y, whose count is returned.
template <int Operands, int MaxRank>
int64_t split_axes(const Layout<Operands, MaxRank>& layout, StridedPlan<Operands>* plan) {
    const int slower = layout.rank > kWalkedAxes ? layout.rank - kWalkedAxes : 0;
    int64_t count = 1;
    for (int d = slower - 1; d >= 0; --d) {
        plan->outer_extent[plan->outer_rank] = FastDiv<uint32_t>(layout.extent[d]);
        for (int k = 0; k < Operands; ++k) plan->outer_step[plan->outer_rank][k] = static_cast<uint32_t>(layout.stride[k][d]);
        ++plan->outer_rank;
        count *= layout.extent[d];
    }
    Layout<Operands, kWalkedAxes> walked;
    for (int d = slower; d < layout.rank; ++d) {
        int64_t strides[Operands];
        for (int k = 0; k < Operands; ++k) strides[k] = layout.stride[k][d];
        walked.append(layout.extent[d], strides);
    }
    plan->walk = Walk<Operands, uint32_t, kWalkedAxes>(walked);
    plan->count = static_cast<uint32_t>(walked.numel());
    return count;
}

// What the planning needs to know of a functor and its operands.
template <int Operands>
struct StridedCall {
    int outputs, lanes, unroll, side;  // unroll: vectors a thread; side: squares along a tile's
    bool positional;
    int residue[Operands];  // elements past an aligned address, by operand
    // Launches the vector kernel, or else the element kernel, on operands that begin `offset` elements later.
    Status (*start)(void* context, bool vectors, const StridedPlan<Operands>& plan, const int64_t* offset, dim3 blocks);
    void* context;
};

template <int Operands, int MaxRank>
BK_COLD Status plan_strided(const StridedCall<Operands>& call, const Layout<Operands, MaxRank>& given, const int64_t* offset) {
    Layout<Operands, MaxRank> layout = given;
    int64_t slower = 1;
    for (int d = 0; d + kWalkedAxes < layout.rank; ++d) slower *= layout.extent[d];
    if (!layout.fits_32bit() || slower > kMaxGridY) {
        // Halves: of a slow axis, or of the one over which an operand reaches farthest.
        int axis = 0;
        int64_t farthest = -1;
        for (int d = 0; d < layout.rank; ++d)
            for (int k = -1; k < Operands; ++k) {
                const int64_t reach = layout.extent[d] * (k < 0 ? 1 : magnitude(layout.stride[k][d]));
                if (layout.extent[d] > 1 && (slower <= kMaxGridY || d + kWalkedAxes < layout.rank) && reach > farthest)
                    farthest = reach, axis = d;
            }
        const int64_t half = layout.extent[axis] / 2;
        layout.extent[axis] = half;
        BK_TRY(plan_strided(call, layout, offset));
        layout.extent[axis] = given.extent[axis] - half;
        int64_t second[Operands];
        for (int k = 0; k < Operands; ++k) second[k] = offset[k] + half * layout.stride[k][axis];
        return plan_strided(call, layout, second);
    }
    StridedPlan<Operands> plan;
    take_copies(&layout, call.outputs, &plan);
    int residue[Operands];
    int64_t start[Operands];
    for (int k = 0; k < Operands; ++k)
        residue[k] = static_cast<int>(((call.residue[k] + offset[k]) % call.lanes + call.lanes) % call.lanes);
    const bool vectors = call.lanes > 1 && take_vectors(&layout, call.outputs, call.lanes, call.positional, residue, &plan);
    for (int k = 0; k < Operands; ++k) start[k] = offset[k] - (plan.broadcast >> k & 1 ? 0 : plan.shift);
    if (!vectors && !call.positional && plan.copies == 1) take_tiles(&layout, call.outputs, call.side, &plan);
    const int64_t y = split_axes(layout, &plan);
    int64_t x =
        ceil_div<int64_t>(plan.count, kPointwiseThreads * (vectors ? call.unroll : call.side * call.side * kElementsPerThread));
    if (plan.staged != 0) x = int64_t{plan.count} * plan.row_tiles.divisor() * plan.column_tiles.divisor();
    return call.start(call.context, vectors, plan, start, dim3(static_cast<unsigned>(x), static_cast<unsigned>(y)));
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
    static constexpr int unroll = In::count > 1 ? 1 : 2;
    const Launch& launch;
    const Fn& fn;
    const Out& out;
    const In& in;

    static Status start(void* context, bool vectors, const StridedPlan<kOperands>& plan, const int64_t* offset, dim3 blocks) {
        constexpr int lanes = PointwiseShape<Fn, Out, In>::lanes;
        const StridedStart& self = *static_cast<const StridedStart*>(context);
        Out out = self.out;
        In in = self.in;
        advance(&out.pointer, offset, typename Out::Indices{});
        advance(&in.pointer, offset + Out::count, typename In::Indices{});
        const auto kernel = vectors ? vector_kernel<lanes, unroll, Fn, Out, In> : element_kernel<Fn, Out, In>;
        return launch_kernel(self.launch, Grid{blocks, dim3(kPointwiseThreads)}, kernel, self.fn, out, in, plan);
    }
};

template <class Fn, int MaxRank, class... Out, class... In>
Status launch_strided(const Launch& launch, const Layout<sizeof...(Out) + sizeof...(In), MaxRank>& layout, const Fn& fn,
                      const Outputs<Out...>& out, const Inputs<In...>& in) {
    using Shape = PointwiseShape<Fn, Outputs<Out...>, Inputs<In...>>;
    using Start = StridedStart<Fn, Outputs<Out...>, Inputs<In...>>;
    Start start{launch, fn, out, in};
    StridedCall<Start::kOperands> call{static_cast<int>(sizeof...(Out)),
                                       Shape::lanes,
                                       Start::unroll,
                                       Inputs<In...>::side,
                                       kIsPositional<Fn>,
                                       {},
                                       &Start::start,
                                       &start};
    find_residues(out.pointer, Shape::lanes, call.residue, std::index_sequence_for<Out...>{});
    find_residues(in.pointer, Shape::lanes, call.residue + sizeof...(Out), std::index_sequence_for<In...>{});
    const int64_t origin[Start::kOperands] = {};
    return plan_strided(call, layout, origin);
}

// Collapses the layout and says whether all its operands are dense.
template <int Operands, int MaxRank>
BK_COLD bool collapse_dense(const Layout<Operands, MaxRank>& given, Layout<Operands, MaxRank>* layout) {
    *layout = collapse(given);
    bool dense = true;
    for (int k = 0; k < Operands; ++k) dense = dense && layout->is_contiguous(k);
    return dense;
}

// The layout's operands are the outputs, then the inputs. One of several outputs may be null.
template <class Fn, int MaxRank, class... Out, class... In>
Status pointwise_strided(const Launch& launch, const Layout<sizeof...(Out) + sizeof...(In), MaxRank>& given, const Fn& fn,
                         const Outputs<Out...>& out, const Inputs<In...>& in) {
    Layout<sizeof...(Out) + sizeof...(In), MaxRank> layout;
    if (collapse_dense(given, &layout)) return pointwise(launch, layout.numel(), fn, out, in);
    return launch_strided(launch, layout, fn, out, in);
}

}  // namespace bk
