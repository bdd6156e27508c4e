// SPDX-License-Identifier: Apache-2.0
// Pointwise kernel for dense operands. Other layouts: core/pointwise/strided_kernels.cuh.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/abi/launch.h"
#include "core/layout/layout.h"
#include "core/pointwise/pointwise.h"
#include "core/pointwise/pointwise_call.cuh"
#include "core/pointwise/tuning.h"

namespace bk {

template <int N, class... T, size_t... I>
BK_DEVICE Pack<Vec<T, N>...> load_all(const Pack<const T*...>& pointers, int64_t element, std::index_sequence<I...>) {
    return pack(load<N>(get<I>(pointers) + element)...);
}

// With several outputs, any may be null.
template <int N, class... T, size_t... O>
BK_DEVICE void store_all(const Pack<T*...>& pointers, int64_t element, const Pack<Vec<T, N>...>& y, std::index_sequence<O...>) {
    ((sizeof...(T) == 1 || get<O>(pointers) != nullptr ? store<N>(get<O>(pointers) + element, get<O>(y)) : void()), ...);
}

// Vectors are passed as words through branches that load them differently, so that the compiler does not split them.
template <class V>
using Word = typename WordOf<sizeof(V)>::type;

template <class V>
BK_DEVICE Word<V> to_word(const V& x) {
    return bit_cast<Word<V>>(x);
}

template <class Vectors>
struct Words;
template <class... V>
struct Words<Pack<V...>> {
    Pack<Word<V>...> word;
};

template <class... V, size_t... I>
BK_DEVICE Words<Pack<V...>> to_words(const Pack<V...>& x, std::index_sequence<I...>) {
    return {pack(to_word(get<I>(x))...)};
}

template <class... V, size_t... I>
BK_DEVICE Pack<V...> from_words(const Words<Pack<V...>>& x, std::index_sequence<I...>) {
    return pack(bit_cast<V>(get<I>(x.word))...);
}

template <int N, class Fn, class... Out, class... In>
BK_DEVICE void compute_and_store(const Fn& fn, const Outputs<Out...>& out, const Pack<Vec<In, N>...>& x, int64_t element) {
    Pack<Vec<Out, N>...> y;
    compute<N>(fn, element, x, y, std::index_sequence_for<In...>{});
    store_all<N>(out.pointer, element, y, std::index_sequence_for<Out...>{});
}

#if defined(__CUDA_ARCH__) && ((__CUDA_ARCH__ > 800 && __CUDA_ARCH__ < 900) || __CUDA_ARCH__ >= 1100)
constexpr int kResidentThreads = 1536;  // per SM: CUDA C++ Programming Guide, compute capabilities
#else
constexpr int kResidentThreads = 2048;
#endif

// Minimum resident blocks per SM for __launch_bounds__; with 32 registers a thread this is full occupancy.
constexpr int resident_blocks(int registers) {
    const int by_registers = 65536 / (registers * kPointwiseThreads), most = kResidentThreads / kPointwiseThreads;
    return by_registers < most ? by_registers : most;
}

template <class Fn, class Out, class In>
struct PointwiseShape {
    static constexpr int lanes = kVectorBytes / (Out::widest > In::widest ? Out::widest : In::widest);
    // Vectors and registers per thread; a functor can override both (core/pointwise/tuning.h). Measured on an H200 with
    // 60 functors: occupancy matters more than registers until they spill; one input leaves registers for a third
    // vector; f64 takes one, since constants of its functions stay in registers between vectors, and long f64
    // polynomials share more constants between lanes than 32 registers hold.
    static constexpr int operands = In::count + Out::count;
    static constexpr bool f64 = Out::has_f64 || In::has_f64;
    static constexpr int default_unroll = f64 || kIsPositional<Fn> ? 1 : operands > 2 ? 2 : 3;
    static constexpr int unroll = kTuning<Fn>.vectors > 0 ? kTuning<Fn>.vectors : default_unroll;
    static constexpr int min_registers = operands <= 2 ? 32 : operands == 3 ? 40 : 64;
    static constexpr int default_registers = f64 && operands > 2 ? min_registers + 8 : min_registers;
    static constexpr int registers = kTuning<Fn>.registers > 0 ? kTuning<Fn>.registers : default_registers;
};

// A block owns kPointwiseThreads * per_thread vectors of N elements, per_thread <= Unroll; the last block also owns the
// tail. A thread loads its vectors together and computes them one after another.
template <int N, int Unroll, int Registers, class Fn, class Out, class In>
__global__ void __launch_bounds__(kPointwiseThreads, resident_blocks(Registers))
    pointwise_kernel(Fn fn, Out out, In in, int64_t numel, int per_thread) {
    constexpr typename In::Indices kInputs{};
    const int64_t first = int64_t{blockIdx.x} * (kPointwiseThreads * per_thread) + threadIdx.x;
    const bool last = blockIdx.x + 1 == gridDim.x;
    Words<typename In::template Vectors<N>> x[Unroll];
    int count = Unroll;
    if (per_thread == Unroll && !last) {
#pragma unroll
        for (int u = 0; u < Unroll; ++u)
            x[u] = to_words(load_all<N>(in.pointer, (first + u * kPointwiseThreads) * N, kInputs), kInputs);
    } else {
        const int64_t vectors = numel / N;
        const int64_t remaining = vectors > first ? (vectors - first + kPointwiseThreads - 1) / kPointwiseThreads : 0;
        count = remaining < per_thread ? static_cast<int>(remaining) : per_thread;
#pragma unroll
        for (int u = 0; u < Unroll; ++u)
            if (u < count) x[u] = to_words(load_all<N>(in.pointer, (first + u * kPointwiseThreads) * N, kInputs), kInputs);
        const int64_t element = vectors * N + threadIdx.x;
        if (N > 1 && last && element < numel) compute_and_store<1>(fn, out, load_all<1>(in.pointer, element, kInputs), element);
    }
#pragma unroll 1
    for (int u = 0; u < Unroll; ++u) {
        if (u >= count) break;
        compute_and_store<N>(fn, out, from_words(x[0], kInputs), (first + u * kPointwiseThreads) * N);
#pragma unroll
        for (int k = 0; k + 1 < Unroll; ++k) x[k] = x[k + 1];
    }
}

}  // namespace bk

#include "core/pointwise/strided_kernels.cuh"

namespace bk {

// Functor that the strided kernel runs: Fn itself or, if it has one, Fn::ByCode, which works on the operands' bits,
// knows their types at run time and is shared by many functors.
template <class Fn, class Operands, class = void>
struct StridedForm {
    using Function = Fn;
    using type = Operands;
    static const Fn& of(const void* fn) { return *static_cast<const Fn*>(fn); }
};
template <class Fn, class... T>
struct StridedForm<Fn, Outputs<T...>, std::void_t<typename Fn::ByCode>> {
    using Function = typename Fn::ByCode;
    using type = Outputs<bits_t<T>...>;
    static Function of(const void*) { return Fn::by_code(); }
};
template <class Fn, class... T>
struct StridedForm<Fn, Inputs<T...>, std::void_t<typename Fn::ByCode>> {
    using type = Inputs<bits_t<T>...>;
};

// A functor may declare that its operands are never all dense, or always dense and aligned to vectors.
template <class Fn, class = void>
constexpr bool kNeverDense = false;
template <class Fn>
constexpr bool kNeverDense<Fn, std::void_t<decltype(Fn::never_dense)>> = Fn::never_dense;
template <class Fn, class = void>
constexpr bool kAlwaysDense = false;
template <class Fn>
constexpr bool kAlwaysDense<Fn, std::void_t<decltype(Fn::always_dense)>> = Fn::always_dense;

template <class Fn, class Out, class In>
struct KernelsOf;
template <class Fn, class... O, class... I>
struct KernelsOf<Fn, Outputs<O...>, Inputs<I...>> {
    using Out = Outputs<O...>;
    using In = Inputs<I...>;
    using Shape = PointwiseShape<Fn, Out, In>;
    using Strided = StridedForm<Fn, Out>;
    using StridedOut = typename Strided::type;
    using StridedIn = typename StridedForm<Fn, In>::type;
    using StridedShape = PointwiseShape<typename Strided::Function, StridedOut, StridedIn>;
    static constexpr int group = group_of(Shape::lanes);
    static constexpr int vector_registers = StridedShape::registers > 40 ? StridedShape::registers : 40;
    // Full occupancy for up to three operands: tiles of f32 then take 15 % less time on an H200.
    static constexpr int strided_registers = StridedShape::f64 || StridedShape::operands > 3 ? StridedShape::registers : 32;

    static Status dense(const PointwiseCall& call, const Grid& grid, int64_t numel, int per_thread) {
        return launch_kernel(call.launch, grid, pointwise_kernel<Shape::lanes, Shape::unroll, Shape::registers, Fn, Out, In>,
                             *static_cast<const Fn*>(call.fn), typed_outputs<Out, In>(call.pointer),
                             typed_inputs<Out, In>(call.pointer), numel, per_thread);
    }
    template <class Kernel>
    static Status start(Kernel* kernel, const PointwiseCall& call, const Grid& grid, const void* plan, char* const* pointers) {
        return launch_kernel(call.launch, grid, kernel, Strided::of(call.fn), typed_outputs<StridedOut, StridedIn>(pointers),
                             typed_inputs<StridedOut, StridedIn>(pointers),
                             *static_cast<const StridedPlan<Out::count + In::count>*>(plan));
    }
    static Status vectors(const PointwiseCall& call, const Grid& grid, const void* plan, char* const* pointers) {
        return start(vector_kernel<Shape::lanes, vector_registers, typename Strided::Function, StridedOut, StridedIn>, call,
                     grid, plan, pointers);
    }
    static Status strided(const PointwiseCall& call, const Grid& grid, const void* plan, char* const* pointers) {
        return start(strided_kernel<group, strided_registers, typename Strided::Function, StridedOut, StridedIn>, call, grid,
                     plan, pointers);
    }
    static constexpr auto dense_or_none() -> decltype(&dense) {
        if constexpr (kNeverDense<Fn>)
            return nullptr;
        else
            return &dense;
    }
    static constexpr auto vectors_or_none() -> PointwiseKernels::Strided* {
        if constexpr (kAlwaysDense<Fn>)
            return nullptr;
        else
            return &vectors;
    }
    static constexpr auto strided_or_none() -> PointwiseKernels::Strided* {
        if constexpr (kAlwaysDense<Fn>)
            return nullptr;
        else
            return &strided;
    }
    static constexpr PointwiseKernels value = {
        Out::count,        Out::count + In::count, {static_cast<int>(sizeof(O))..., static_cast<int>(sizeof(I))...},
        Shape::lanes,      Shape::unroll,          group,
        TileOf<In>::side,  TileOf<In>::bytes,      kIsPositional<Fn>,
        kByPairs<Out, In>, dense_or_none(),        vectors_or_none(),
        strided_or_none()};
};

template <class Fn, class... Out, class... In>
PointwiseCall call_of(const Launch& launch, const Fn& fn, const Outputs<Out...>& out, const Inputs<In...>& in) {
    PointwiseCall call{launch, KernelsOf<Fn, Outputs<Out...>, Inputs<In...>>::value, &fn, {}};
    erase_types(call.pointer, out.pointer, std::index_sequence_for<Out...>{});
    erase_types(call.pointer + sizeof...(Out), in.pointer, std::index_sequence_for<In...>{});
    return call;
}

template <class Fn, class... Out, class... In>
Status run_pointwise(const Launch& launch, int64_t numel, const Fn& fn, const Outputs<Out...>& out, const Inputs<In...>& in) {
    return run_dense<sizeof...(Out) + sizeof...(In)>(call_of(launch, fn, out, in), numel);
}

template <class Fn, int MaxRank, class... Out, class... In>
Status run_pointwise_strided(const Launch& launch, const Layout<sizeof...(Out) + sizeof...(In), MaxRank>& layout, const Fn& fn,
                             const Outputs<Out...>& out, const Inputs<In...>& in) {
    return run_layout(call_of(launch, fn, out, in), layout);
}

}  // namespace bk
