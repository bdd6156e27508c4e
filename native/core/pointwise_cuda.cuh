// Pointwise kernels: 16-byte accesses, several in flight a thread; one element a thread where the layout allows no more.
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

template <int N, class... T, size_t... O>
BK_DEVICE void store_all(const Pack<T*...>& pointers, int64_t element, const Pack<Vec<T, N>...>& y, std::index_sequence<O...>) {
    (store<N>(get<O>(pointers) + element, get<O>(y)), ...);
}

template <int N, class Fn, class... Out, class... In>
BK_DEVICE void compute_and_store(const Fn& fn, const Outputs<Out...>& out, const Pack<Vec<In, N>...>& x, int64_t element) {
    Pack<Vec<Out, N>...> y;
    compute<N>(fn, element, x, y, std::index_sequence_for<In...>{});
    store_all<N>(out.pointer, element, y, std::index_sequence_for<Out...>{});
}

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

template <class Fn, class... Out, class... In>
Status pointwise(const Launch& launch, int64_t numel, const Fn& fn, const Outputs<Out...>& out, const Inputs<In...>& in) {
    constexpr int widest = Outputs<Out...>::widest > Inputs<In...>::widest ? Outputs<Out...>::widest : Inputs<In...>::widest;
    constexpr int lanes = kVectorBytes / widest;
    // Measured: several output streams keep their order in memory best with one vector a thread (lerp_backward 0.97 of copy,
    // 0.92 with 4).
    constexpr int unroll = sizeof...(In) > 2 || sizeof...(Out) > 1 ? 1 : sizeof...(In) == 2 ? 2 : 4;
    const bool wide = all_aligned(out.pointer, lanes, std::index_sequence_for<Out...>{}) &&
                      all_aligned(in.pointer, lanes, std::index_sequence_for<In...>{});
    const int64_t vectors = wide ? numel / lanes : numel;
    const int64_t blocks = ceil_div<int64_t>(vectors > 0 ? vectors : 1, kPointwiseThreads * unroll);
    if (blocks > kMaxGridX) return fail(Status::kUnsupported, "numel is %lld, too many for one launch", (long long)numel);
    const Grid grid{dim3(static_cast<unsigned>(blocks)), dim3(kPointwiseThreads)};
    if (wide)
        return launch_kernel(launch, grid, pointwise_kernel<lanes, unroll, Fn, Outputs<Out...>, Inputs<In...>>, fn, out, in,
                             numel);
    return launch_kernel(launch, grid, pointwise_kernel<1, unroll, Fn, Outputs<Out...>, Inputs<In...>>, fn, out, in, numel);
}

// N neighbours along the last axis: one vector where the operand steps by 1 there, one element for all where by 0.
template <int N, class T>
BK_DEVICE Vec<T, N> load_lanes(const T* pointer, bool broadcast) {
    if (!broadcast) return load<N>(pointer);
    Vec<T, N> x;
#pragma unroll
    for (int lane = 0; lane < N; ++lane) x.lane[lane] = *pointer;
    return x;
}

template <int N, int Operands, class Index, class... In, size_t... I>
BK_DEVICE Pack<Vec<In, N>...> load_strided(const Pack<const In*...>& in, const Offsets<Operands, Index>& offset,
                                           unsigned broadcast, std::index_sequence<I...>) {
    constexpr int kOut = Operands - sizeof...(In);
    return pack(load_lanes<N>(get<I>(in) + signed_offset(offset.of[kOut + I]), broadcast >> I & 1)...);
}

template <int N, int Operands, class Index, class... Out, size_t... O>
BK_DEVICE void store_strided(const Pack<Out*...>& out, const Offsets<Operands, Index>& offset, const Pack<Vec<Out, N>...>& y,
                             std::index_sequence<O...>) {
    (store<N>(get<O>(out) + signed_offset(offset.of[O]), get<O>(y)), ...);
}

// Copies of each result, `step` elements apart: an axis along which every input stands still.
template <int Outputs>
struct Copies {
    int count = 1;
    int64_t step[Outputs] = {};
};

// Operands of `walk`: the outputs, then the inputs. Its last axis counts vectors of N elements.
template <int N, int Unroll, class Index, class Fn, int MaxRank, class Out, class In>
__global__ void __launch_bounds__(kPointwiseThreads)
    strided_kernel(Fn fn, Out out, In in, Walk<Out::count + In::count, Index, MaxRank> walk, unsigned broadcast,
                   Copies<Out::count> copies, Index vectors) {
    const uint64_t first = uint64_t{blockIdx.x} * (kPointwiseThreads * Unroll) + threadIdx.x;
    Offsets<Out::count + In::count, Index> offset[Unroll];
    typename In::template Vectors<N> x[Unroll];
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
        const uint64_t v = first + u * kPointwiseThreads;
        if (v >= vectors) continue;
        offset[u] = walk(static_cast<Index>(v));
        x[u] = load_strided<N>(in.pointer, offset[u], broadcast, typename In::Indices{});
    }
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
        const uint64_t v = first + u * kPointwiseThreads;
        if (v >= vectors) continue;
        typename Out::template Vectors<N> y;
        compute<N>(fn, static_cast<int64_t>(v) * N, x[u], y, typename In::Indices{});
        for (int c = 0; c < copies.count; ++c) {
            store_strided<N>(out.pointer, offset[u], y, typename Out::Indices{});
#pragma unroll
            for (int o = 0; o < Out::count; ++o) offset[u].of[o] += static_cast<Index>(copies.step[o]);
        }
    }
}

template <int N, class Index, class Fn, int MaxRank, class... Out, class... In>
Status launch_strided(const Launch& launch, const Layout<sizeof...(Out) + sizeof...(In), MaxRank>& layout, unsigned broadcast,
                      const Copies<sizeof...(Out)>& copies, const Fn& fn, const Outputs<Out...>& out, const Inputs<In...>& in) {
    constexpr int unroll = sizeof...(In) > 1 ? 2 : 4;
    const int64_t vectors = layout.numel();
    const int64_t blocks = ceil_div<int64_t>(vectors, kPointwiseThreads * unroll);
    if (blocks > kMaxGridX) return fail(Status::kUnsupported, "%lld elements are too many for one launch", (long long)vectors);
    const Walk<sizeof...(Out) + sizeof...(In), Index, MaxRank> walk(layout);
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kPointwiseThreads)},
                         strided_kernel<N, unroll, Index, Fn, MaxRank, Outputs<Out...>, Inputs<In...>>, fn, out, in, walk,
                         broadcast, copies, static_cast<Index>(vectors));
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

// Most layouts collapse to few axes, and every axis costs each thread a division: few axes have kernels of their own.
constexpr int kFewAxes = 4;

template <int N, class Index, class Fn, int MaxRank, class... Out, class... In>
Status launch_strided_by_rank(const Launch& launch, const Layout<sizeof...(Out) + sizeof...(In), MaxRank>& layout,
                              unsigned broadcast, const Copies<sizeof...(Out)>& copies, const Fn& fn,
                              const Outputs<Out...>& out, const Inputs<In...>& in) {
    if (layout.rank > kFewAxes) return launch_strided<N, Index>(launch, layout, broadcast, copies, fn, out, in);
    Layout<sizeof...(Out) + sizeof...(In), kFewAxes> few;
    few.assign(layout);
    return launch_strided<N, Index>(launch, few, broadcast, copies, fn, out, in);
}

// The layout's operands are the outputs, then the inputs.
template <class Fn, int MaxRank, class... Out, class... In>
Status pointwise_strided(const Launch& launch, const Layout<sizeof...(Out) + sizeof...(In), MaxRank>& given, const Fn& fn,
                         const Outputs<Out...>& out, const Inputs<In...>& in) {
    constexpr int operands = sizeof...(Out) + sizeof...(In);
    constexpr int widest = Outputs<Out...>::widest > Inputs<In...>::widest ? Outputs<Out...>::widest : Inputs<In...>::widest;
    constexpr int lanes = kVectorBytes / widest;
    Layout<operands, MaxRank> layout = collapse(given);
    bool contiguous = true;
    for (int k = 0; k < operands; ++k) contiguous = contiguous && layout.is_contiguous(k);
    if (contiguous) return pointwise(launch, layout.numel(), fn, out, in);
    const bool narrow_index = layout.fits_32bit();
    Copies<sizeof...(Out)> copies;
    take_copies(&layout, &copies);
    unsigned broadcast = 0;
    bool aligned = all_aligned(out.pointer, lanes, std::index_sequence_for<Out...>{}) &&
                   all_aligned(in.pointer, lanes, std::index_sequence_for<In...>{});
    for (const int64_t step : copies.step) aligned = aligned && step % lanes == 0;
    if (aligned && make_vectors(&layout, sizeof...(Out), lanes, &broadcast))
        return narrow_index ? launch_strided_by_rank<lanes, uint32_t>(launch, layout, broadcast, copies, fn, out, in)
                            : launch_strided_by_rank<lanes, uint64_t>(launch, layout, broadcast, copies, fn, out, in);
    return narrow_index ? launch_strided_by_rank<1, uint32_t>(launch, layout, 0, copies, fn, out, in)
                        : launch_strided_by_rank<1, uint64_t>(launch, layout, 0, copies, fn, out, in);
}

}  // namespace bk
