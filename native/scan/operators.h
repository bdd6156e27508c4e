// SPDX-License-Identifier: Apache-2.0
// Scan operators: sum, product, extreme, log-sum-exp. An `exclusive` scan's result i covers the elements before i.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/math/limits.h"
#include "core/math/math.h"
#include "core/target.h"
#include "core/types/dtype.h"
#include "core/types/pack.h"

namespace bk {

template <class T>
constexpr T kMinInteger = std::numeric_limits<T>::min();

// Sums accumulate in f64; 16-bit floats on a GPU in f32, as its tree is shallow. Integers wrap.
template <class T>
using sum_t = std::conditional_t<std::is_integral_v<T>, std::conditional_t<(sizeof(T) > 4), uint64_t, uint32_t>,
                                 std::conditional_t<math::kIsHalf<T> && !kDoubleIsCheap, float, double>>;

// Products accumulate in f64: a partial product may leave a smaller range though no result does.
template <class T>
using product_t = std::conditional_t<std::is_integral_v<T>, sum_t<T>, double>;

template <class T>
struct RunningSum {
    static constexpr int kLookaheadInput = -1;
    using State = sum_t<T>;
    using C = compute_t<T>;
    bool exclusive;
    BK_HD State identity() const { return std::is_integral_v<T> ? State(0) : State(-0.0); }
    BK_HD State lift(int64_t, C x) const { return static_cast<State>(x); }
    BK_HD State combine(State earlier, State later) const { return earlier + later; }
    BK_HD C value(int64_t, State before, State through, C) const {
        return static_cast<C>(exclusive ? before + State(0) : through);  // +0, not -0, before the first element
    }
};

template <class T>
struct RunningProduct {
    static constexpr int kLookaheadInput = -1;
    using State = product_t<T>;
    using C = compute_t<T>;
    bool exclusive;
    BK_HD State identity() const { return State(1); }
    BK_HD State lift(int64_t, C x) const { return static_cast<State>(x); }
    BK_HD State combine(State earlier, State later) const { return earlier * later; }
    BK_HD C value(int64_t, State before, State through, C) const { return static_cast<C>(exclusive ? before : through); }
};

// Whether b replaces a as the extreme: the first of equal values wins, and the first NaN.
template <class C>
BK_HD bool replaces(C b, C a) {
    return (b > a) | ((b != b) & (a == a));
}

// Maps elements to keys whose maximum is the extreme: the largest element, or the smallest if is_min.
template <class T>
struct Extreme {
    using C = std::conditional_t<std::is_integral_v<T> && sizeof(T) < 4,
                                 std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>, compute_t<T>>;
    bool is_min;

    BK_HD C to_key(compute_t<T> x) const {
        if constexpr (std::is_integral_v<T>)
            return static_cast<C>(is_min ? static_cast<T>(~x) : x);
        else
            return is_min ? -x : x;
    }
    BK_HD compute_t<T> from_key(C x) const { return static_cast<compute_t<T>>(to_key(static_cast<compute_t<T>>(x))); }
    BK_HD C lowest() const {
        if constexpr (std::is_integral_v<T>)
            return static_cast<C>(kMinInteger<T>);
        else
            return -kInfinity<C>;
    }
};

template <class T>
struct RunningExtreme {
    static constexpr int kLookaheadInput = -1;
    using C = compute_t<T>;
    using State = typename Extreme<T>::C;
    Extreme<T> extreme;
    bool exclusive;
    BK_HD State identity() const { return extreme.lowest(); }
    BK_HD State lift(int64_t, C x) const { return extreme.to_key(x); }
    BK_HD State combine(State earlier, State later) const { return replaces(later, earlier) ? later : earlier; }
    BK_HD C value(int64_t, State before, State through, C) const { return extreme.from_key(exclusive ? before : through); }
};

// The extreme's key and its index, -1 for no element.
template <class T>
struct ArgExtreme {
    typename Extreme<T>::C value;
    int32_t index;
};

template <class T>
struct RunningArgExtreme {
    static constexpr int kLookaheadInput = -1;
    using C = compute_t<T>;
    using State = ArgExtreme<T>;
    Extreme<T> extreme;
    BK_HD State identity() const { return {extreme.lowest(), -1}; }
    BK_HD State lift(int64_t i, C x) const { return {extreme.to_key(x), static_cast<int32_t>(i)}; }
    BK_HD State combine(const State& earlier, const State& later) const {
        const bool changes = later.index >= 0 && (earlier.index < 0 || replaces(later.value, earlier.value));
        return changes ? later : earlier;
    }
};

// Results are the extreme and its index along an axis that is walked from `first` in direction `step`.
template <class T>
struct RunningExtremeAndIndex : RunningArgExtreme<T> {
    using C = compute_t<T>;
    using State = ArgExtreme<T>;
    int64_t first;
    int step;
    BK_HD Pack<C, int64_t> value(int64_t, const State&, const State& through, C) const {
        return pack(this->extreme.from_key(through.value), first + step * int64_t{through.index});
    }
};

// 1 if element i is a new extreme, else 0.
template <class T>
struct IsRecord : RunningArgExtreme<T> {
    using C = compute_t<T>;
    using State = ArgExtreme<T>;
    BK_HD C value(int64_t i, const State&, const State& through, C) const { return through.index == i ? C(1) : C(0); }
};

// exp(x) for x <= 0. It multiplies a summand beside one of weight 1, so that absolute error suffices.
template <class T>
BK_HD compute_t<T> exp_weight(compute_t<T> x) {
    using Approximate = std::conditional_t<std::is_same_v<T, float> && !kDoubleIsCheap, bf16, T>;
    return math::exp<Approximate>(x);
}

// low - high, which is 0 for two equal infinities.
template <class C>
BK_HD C minus_max(C low, C high) {
    return low == high ? C(0) : low - high;
}

// ln(sum exp(x)) = top + ln(1 + excess): small summands are not lost beside the largest, and ln(1) is exactly 0.
template <class T>
struct RunningLogSumExp {
    static constexpr int kLookaheadInput = -1;
    using C = compute_t<T>;
    struct State {
        sum_t<T> excess;
        C top;
    };
    bool exclusive;
    BK_HD State identity() const { return {0, -kInfinity<C>}; }
    BK_HD State lift(int64_t, C x) const { return {0, x}; }
    BK_HD State combine(const State& earlier, const State& later) const {
        const bool rises = later.top > earlier.top;
        const State high = rises ? later : earlier, low = rises ? earlier : later;
        return {high.excess + (1 + low.excess) * exp_weight<T>(minus_max(low.top, high.top)), high.top};
    }
    struct MaxStep {
        C low, top;
    };
    BK_HD MaxStep step_max(C top, C x) const {
        const bool rises = x > top;
        return {rises ? top : x, rises ? x : top};
    }
    BK_HD C weight(const MaxStep& next) const { return exp_weight<T>(minus_max(next.low, next.top)); }
    BK_HD State extend_max(const State& earlier, const MaxStep& next, sum_t<T> weight) const {
        return {math::fma(earlier.excess, next.top > earlier.top ? weight : sum_t<T>(1), weight), next.top};
    }
    BK_HD State extend(const State& earlier, int64_t, C x) const {
        const MaxStep next = step_max(earlier.top, x);
        return extend_max(earlier, next, weight(next));
    }
    BK_HD C value(int64_t, const State& before, const State& through, C) const {
        const State& found = exclusive ? before : through;
        return found.top + math::log1p<T>(static_cast<C>(found.excess));
    }
};

}  // namespace bk
