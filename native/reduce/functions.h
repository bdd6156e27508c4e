// SPDX-License-Identifier: Apache-2.0
// The reductions by name: the reducer of each, and the element type that its kernel takes for T. Integers are taken as
// unsigned if their sign does not matter or a flipped bit stands for it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/reduce/reduce.h"
#include "core/types/dtype.h"
#include "reduce/reducers.h"

namespace bk {

template <class T>
struct Unsigned {
    using type = T;
};
template <>
struct Unsigned<int8_t> {
    using type = uint8_t;
};
template <>
struct Unsigned<int16_t> {
    using type = uint16_t;
};
template <>
struct Unsigned<int32_t> {
    using type = uint32_t;
};
template <>
struct Unsigned<int64_t> {
    using type = uint64_t;
};
template <class T>
using unsigned_t = typename Unsigned<T>::type;

template <class T>
auto order_of(bool greatest) {
    if constexpr (std::is_integral_v<T>)
        return BitOrder<unsigned_t<T>>::of(greatest, std::is_signed_v<T>);
    else
        return FloatOrder<T>::of(greatest);
}

namespace op {

// One output of the input's dtype.
template <class T>
struct ReduceToOne {
    using Element = unsigned_t<T>;
    static constexpr int kOutputs = 1;
    static Outputs<Element> out(T* y) { return outputs(reinterpret_cast<Element*>(y)); }
};

template <class T>
struct ReduceSum : ReduceToOne<T> {
    static SumReducer<unsigned_t<T>> reducer() { return {}; }
};

template <class T>
struct ReduceMean : ReduceToOne<T> {
    static SumReducer<T> reducer() { return {true}; }
};

template <class T>
struct ReduceProd : ReduceToOne<T> {
    static ProductReducer<unsigned_t<T>> reducer() { return {}; }
};

template <class T>
struct ReduceMax : ReduceToOne<T> {
    static auto reducer() { return extreme(order_of<T>(true)); }
    template <class Order>
    static ExtremeReducer<Order> extreme(Order order) {
        return {order};
    }
};

template <class T>
struct ReduceMin : ReduceToOne<T> {
    static auto reducer() { return ReduceMax<T>::extreme(order_of<T>(false)); }
};

template <class T>
struct ReduceFmax : ReduceToOne<T> {
    static ExtremeReducer<NumberOrder<T>> reducer() { return {NumberOrder<T>::of(true)}; }
};

template <class T>
struct ReduceFmin : ReduceToOne<T> {
    static ExtremeReducer<NumberOrder<T>> reducer() { return {NumberOrder<T>::of(false)}; }
};

// Mean of integers, as f32 or f64.
template <class T, class U>
struct ReduceIntegerMean {
    using Element = unsigned_t<T>;
    static constexpr int kOutputs = 1;
    static Outputs<uint8_t> out(U* y) { return outputs(reinterpret_cast<uint8_t*>(y)); }
    static IntegerMeanReducer<Element> reducer() {
        const Element sign = static_cast<Element>(Element(1) << (8 * sizeof(T) - 1));
        return {std::is_signed_v<T> ? sign : Element(0), static_cast<int>(sizeof(U))};
    }
};

template <class T>
struct ReduceNorm2 : ReduceToOne<T> {
    static norm2_reducer_t<T> reducer() { return {}; }
};

template <class T>
struct ReduceLogsumexp : ReduceToOne<T> {
    static LogSumExpReducer<T> reducer() { return {}; }
};

// Variance or its root, and the mean, which may be null.
template <class T>
struct ReduceVar {
    using Element = T;
    static constexpr int kOutputs = 2;
    static Outputs<T, T> out(T* y) { return outputs(y, static_cast<T*>(nullptr)); }
    static VarianceReducer<T> reducer(int32_t correction) { return {{}, correction, false}; }
};

template <class T>
struct ReduceStd : ReduceVar<T> {
    static VarianceReducer<T> reducer(int32_t correction) { return {{}, correction, true}; }
};

template <class Op>
constexpr bool kIsRoot = false;
template <class T>
constexpr bool kIsRoot<ReduceStd<T>> = true;

// Indices as integers of 4 or 8 bytes.
template <class T, class U>
struct ReduceArgmax {
    using Element = unsigned_t<T>;
    static constexpr int kOutputs = 2;
    static Outputs<Element, uint8_t> out(U* y) {
        return outputs(static_cast<Element*>(nullptr), reinterpret_cast<uint8_t*>(y));
    }
    static auto reducer() { return arg(order_of<T>(true)); }
    template <class Order>
    static ArgReducer<Order> arg(Order order) {
        return {order, static_cast<int>(sizeof(U))};
    }
};

template <class T, class U>
struct ReduceArgmin : ReduceArgmax<T, U> {
    static auto reducer() { return ReduceArgmax<T, U>::arg(order_of<T>(false)); }
};

template <class T, Truth truth>
struct ReduceTruth {
    using Element = bits_t<T>;
    static constexpr int kOutputs = 1;
    template <class U>
    static Outputs<uint8_t> out(U* y) {
        return outputs(reinterpret_cast<uint8_t*>(y));
    }
    static TruthReducer<Element> reducer() {
        const bool has_minus_zero = !std::is_integral_v<T> && !std::is_same_v<T, boolean>;
        const Element all = static_cast<Element>(~Element(0));
        return {truth, has_minus_zero ? static_cast<Element>(all >> 1) : all};
    }
};

template <class T>
using ReduceAny = ReduceTruth<T, Truth::kAny>;
template <class T>
using ReduceAll = ReduceTruth<T, Truth::kAll>;
template <class T>
using ReduceCountNonzero = ReduceTruth<T, Truth::kCount>;

// Booleans, as in NumPy: max is any, min is all, sum counts.
template <>
struct ReduceMax<boolean> : ReduceAny<boolean> {};
template <>
struct ReduceMin<boolean> : ReduceAll<boolean> {};
template <>
struct ReduceSum<boolean> : ReduceCountNonzero<boolean> {};

}  // namespace op

template <class Op, class R, int Out, class T, class U>
Status run_reduction(const Launch& launch, const ReduceAxes<1, Out>& axes, const R& reducer, const T* x, U* y) {
    return reduce(launch, axes, reducer, Op::out(y), inputs(reinterpret_cast<const typename Op::Element*>(x)));
}

template <class Op, int Out, class... Parameters>
size_t reduction_workspace(const ReduceAxes<1, Out>& axes, Parameters... of_reducer) {
    return reduce_workspace<decltype(Op::reducer(of_reducer...)), typename Op::Element>(axes);
}

}  // namespace bk
