// SPDX-License-Identifier: Apache-2.0
// Pointwise skeleton, y_k[i] = f_k(x_1[i], x_2[i], ...): any number of inputs and outputs.
//
// A functor takes the inputs, widened to their compute types, and returns the output, or a Pack of outputs, which the
// skeleton narrows; with several outputs, any may be null. A positional functor has `at(i)` instead, which returns a
// functor that is valid for `count` elements from i on and takes the distance from i before the inputs. Loads of an
// element precede its stores, so an output may alias an input of the same layout. On the CPU a functor with `has_rare`
// skips rare inputs in its vector loop: `is_rare` finds them, and a block that contains one is computed by `of_rare`.
// GPU tuning: core/pointwise/tuning.h.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/abi/launch.h"
#include "core/layout/layout.h"
#include "core/types/pack.h"
#include "core/types/vec.h"

namespace bk {

template <class Fn, class = void>
constexpr bool kHasRare = false;
template <class Fn>
constexpr bool kHasRare<Fn, std::enable_if_t<Fn::has_rare>> = true;

template <class Fn>
struct UniformSegment {
    std::conditional_t<sizeof(Fn) <= 64, const Fn, const Fn&> fn;
    static constexpr int64_t count = INT64_MAX;
    static constexpr bool has_rare = kHasRare<Fn>;
    template <class... C>
    BK_HD auto operator()(int64_t, C... x) const {
        return fn(x...);
    }
};

template <class Fn>
BK_HD auto segment_at(const Fn& fn, int64_t i, int) -> decltype(fn.at(i)) {
    return fn.at(i);
}

template <class Fn>
BK_HD UniformSegment<Fn> segment_at(const Fn& fn, int64_t, long) {
    return {fn};
}

template <class Fn, class = void>
constexpr bool kIsPositional = false;
template <class Fn>
constexpr bool kIsPositional<Fn, std::void_t<decltype(std::declval<const Fn&>().at(int64_t{0}))>> = true;

template <class... T>
struct Outputs {
    Pack<T*...> pointer;
    using Indices = std::index_sequence_for<T...>;
    template <int N>
    using Vectors = Pack<Vec<T, N>...>;
    static constexpr int count = sizeof...(T);
    static constexpr int widest = [] {
        int n = 1;
        ((n = static_cast<int>(sizeof(T)) > n ? static_cast<int>(sizeof(T)) : n), ...);
        return n;
    }();
    static constexpr bool has_f64 = (std::is_same_v<T, double> || ...);
};

template <class... T>
struct Inputs {
    Pack<const T*...> pointer;
    using Indices = std::index_sequence_for<T...>;
    template <int N>
    using Vectors = Pack<Vec<T, N>...>;
    static constexpr int count = sizeof...(T);
    static constexpr int widest = Outputs<T...>::widest;
    static constexpr bool has_f64 = Outputs<T...>::has_f64;
};

template <class... T>
Outputs<T...> outputs(T*... pointers) {
    return {pack(pointers...)};
}

template <class... T>
Inputs<T...> inputs(const T*... pointers) {
    return {pack(pointers...)};
}

// Narrows a functor's result into `lane` of each output's vector.
template <int N, class T, class Result>
BK_HD void put(Pack<Vec<T, N>>& y, int lane, const Result& result) {
    get<0>(y).lane[lane] = narrow<T>(result);
}

template <int N, class... T, class... C, size_t... O>
BK_HD void put_each(Pack<Vec<T, N>...>& y, int lane, const Pack<C...>& result, std::index_sequence<O...>) {
    ((get<O>(y).lane[lane] = narrow<T>(get<O>(result))), ...);
}

template <int N, class... T, class... C>
BK_HD void put(Pack<Vec<T, N>...>& y, int lane, const Pack<C...>& result) {
    put_each(y, lane, result, std::index_sequence_for<T...>{});
}

// Computes elements element, ..., element + N - 1, of which the first `valid` exist; other lanes are not to be stored.
template <int N, class Fn, class... Out, class... In, size_t... I>
BK_HD void compute(const Fn& fn, int64_t element, const Pack<Vec<In, N>...>& x, Pack<Vec<Out, N>...>& y,
                   std::index_sequence<I...>, int valid = N) {
    const auto segment = segment_at(fn, element, 0);
    if (segment.count >= N) {
        BK_UNROLL
        for (int lane = 0; lane < N; ++lane) put(y, lane, segment(lane, widen(get<I>(x).lane[lane])...));
    } else {
        BK_UNROLL
        for (int lane = 0; lane < N; ++lane)
            if (lane < valid) put(y, lane, segment_at(fn, element + lane, 0)(0, widen(get<I>(x).lane[lane])...));
    }
}

template <class... T, size_t... I>
bool all_aligned(const Pack<T*...>& pointers, int lanes, std::index_sequence<I...>) {
    return (is_aligned(get<I>(pointers), sizeof(T) * lanes) && ...);
}

// Calls a default-constructed functor, whose parameters are then constants of the compiled loop.
template <class Fn>
struct WithDefaults {
    template <class... C>
    BK_HD auto operator()(C... x) const {
        return Fn{}(x...);
    }
};

template <class Fn>
using Plain = std::conditional_t<std::is_empty_v<Fn>, Fn, WithDefaults<Fn>>;

struct CopyFunctor {
    template <class C>
    BK_HD C operator()(C x) const {
        return x;
    }
};

// Whether a functor converts one From to the same value as a To.
template <class Fn, class To, class From>
constexpr bool kIsConversion = false;

template <class C>
struct ZeroFunctor {
    BK_HD C operator()() const { return C(0); }
};

}  // namespace bk

#if BK_CUDA
#include "core/pointwise/pointwise_cuda.cuh"
#else
#include "core/pointwise/pointwise_cpu.h"
#endif

namespace bk {

// Shared kernels: F<T> with `ignores_sign` runs as F<unsigned T> on signed integers, and a functor with a `Mirror` runs
// as the mirror with its two inputs exchanged.
template <class Fn, class = void>
constexpr bool kIgnoresSign = false;
template <template <class> class F, class T>
constexpr bool kIgnoresSign<F<T>, std::enable_if_t<std::is_integral_v<T> && std::is_signed_v<T> && F<T>::ignores_sign>> = true;

template <class Fn>
struct UnsignedForm;
template <template <class> class F, class T>
struct UnsignedForm<F<T>> {
    using type = F<std::make_unsigned_t<T>>;
};

template <class T>
auto without_sign(T* pointer) {
    if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
        return reinterpret_cast<std::make_unsigned_t<T>*>(pointer);
    else
        return pointer;
}
template <class... T, size_t... I>
auto outputs_without_sign(const Outputs<T...>& out, std::index_sequence<I...>) {
    return outputs(without_sign(get<I>(out.pointer))...);
}
template <class... T, size_t... I>
auto inputs_without_sign(const Inputs<T...>& in, std::index_sequence<I...>) {
    return inputs(static_cast<const std::remove_pointer_t<decltype(without_sign(static_cast<T*>(nullptr)))>*>(
        without_sign(const_cast<T*>(get<I>(in.pointer))))...);
}

template <class Fn, class = void>
constexpr bool kHasMirror = false;
template <class Fn>
constexpr bool kHasMirror<Fn, std::void_t<typename Fn::Mirror>> = true;

// Calls run(fn, out, in, mirrored) with the functor and operands whose kernel is compiled.
template <class Fn, class... Out, class... In, class Run>
Status with_kernel_of(const Fn& fn, const Outputs<Out...>& out, const Inputs<In...>& in, bool mirrored, const Run& run) {
    if constexpr (kHasMirror<Fn>) {
        return with_kernel_of(typename Fn::Mirror{}, out, inputs(get<1>(in.pointer), get<0>(in.pointer)), !mirrored, run);
    } else if constexpr (kIgnoresSign<Fn>) {
        return run(typename UnsignedForm<Fn>::type{}, outputs_without_sign(out, std::index_sequence_for<Out...>{}),
                   inputs_without_sign(in, std::index_sequence_for<In...>{}), mirrored);
    } else {
        return run(fn, out, in, mirrored);
    }
}

template <class Fn, class... Out, class... In>
Status pointwise(const Launch& launch, int64_t numel, const Fn& fn, const Outputs<Out...>& out, const Inputs<In...>& in) {
    return with_kernel_of(fn, out, in, false, [&](const auto& function, const auto& to, const auto& from, bool) {
        return run_pointwise(launch, numel, function, to, from);
    });
}

// The layout's operands are the outputs, then the inputs. With several outputs, any may be null.
template <class Fn, int MaxRank, class... Out, class... In>
Status pointwise_strided(const Launch& launch, const Layout<sizeof...(Out) + sizeof...(In), MaxRank>& given, const Fn& fn,
                         const Outputs<Out...>& out, const Inputs<In...>& in) {
    return with_kernel_of(fn, out, in, false,
                          [&](const auto& function, const auto& to, const auto& from, [[maybe_unused]] bool mirrored) {
                              if constexpr (sizeof...(In) == 2) {
                                  auto layout = given;
                                  for (int d = 0; mirrored && d < layout.rank; ++d)
                                      std::swap(layout.stride[sizeof...(Out)][d], layout.stride[sizeof...(Out) + 1][d]);
                                  return run_pointwise_strided(launch, layout, function, to, from);
                              } else {
                                  return run_pointwise_strided(launch, given, function, to, from);
                              }
                          });
}

// Writes `count` zeros to an output, for Work::kZeros (core/abi/checks.h); y may be null.
template <class T>
Status write_zeros(const Launch& launch, int64_t count, T* y) {
    return y == nullptr ? Status::kOk : pointwise(launch, count, ZeroFunctor<compute_t<T>>{}, outputs(y), inputs());
}

}  // namespace bk
