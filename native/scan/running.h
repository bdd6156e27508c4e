// What the scans keep of the terms so far: sums, products, extrema, and the logarithm of a sum of exponentials. Of an
// `exclusive` one the result at a place is that of the terms before it.
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
constexpr T kLeast = std::numeric_limits<T>::min();

// Sums are kept in f64, those of 16-bit floats on a GPU in f32, which adds them up in a tree. Integers wrap.
template <class T>
using sum_t = std::conditional_t<std::is_integral_v<T>, std::conditional_t<(sizeof(T) > 4), uint64_t, uint32_t>,
                                 std::conditional_t<math::kIsHalf<T> && !kDoubleIsCheap, float, double>>;

// Products in f64: those of a part of the terms may be out of a smaller range where no result is.
template <class T>
using product_t = std::conditional_t<std::is_integral_v<T>, sum_t<T>, double>;

template <class T>
struct RunningSum {
    static constexpr int kAhead = -1;
    using State = sum_t<T>;
    using C = compute_t<T>;
    bool exclusive;
    BK_HD State identity() const { return std::is_integral_v<T> ? State(0) : State(-0.0); }
    BK_HD State term(int64_t, C x) const { return static_cast<State>(x); }
    BK_HD State join(State earlier, State later) const { return earlier + later; }
    BK_HD C value(int64_t, State before, State through, C) const {
        return static_cast<C>(exclusive ? before + State(0) : through);  // 0 where nothing is before
    }
};

template <class T>
struct RunningProduct {
    static constexpr int kAhead = -1;
    using State = product_t<T>;
    using C = compute_t<T>;
    bool exclusive;
    BK_HD State identity() const { return State(1); }
    BK_HD State term(int64_t, C x) const { return static_cast<State>(x); }
    BK_HD State join(State earlier, State later) const { return earlier * later; }
    BK_HD C value(int64_t, State before, State through, C) const { return static_cast<C>(exclusive ? before : through); }
};

// Whether b takes the place of a as the extreme: the first of equals stays, and the first NaN.
template <class C>
BK_HD bool replaces(C b, C a) {
    return (b > a) | ((b != b) & (a == a));
}

// The largest or, `mirrored`, the smallest.
template <class T>
struct Extreme {
    using C = std::conditional_t<std::is_integral_v<T> && sizeof(T) < 4,
                                 std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>, compute_t<T>>;
    bool mirrored;

    BK_HD C order(compute_t<T> x) const {
        if constexpr (std::is_integral_v<T>)
            return static_cast<C>(mirrored ? static_cast<T>(~x) : x);
        else
            return mirrored ? -x : x;
    }
    BK_HD compute_t<T> original(C x) const { return static_cast<compute_t<T>>(order(static_cast<compute_t<T>>(x))); }
    BK_HD C least() const {
        if constexpr (std::is_integral_v<T>)
            return static_cast<C>(kLeast<T>);
        else
            return -kInfinity<C>;
    }
};

template <class T>
struct RunningExtreme {
    static constexpr int kAhead = -1;
    using C = compute_t<T>;
    using State = typename Extreme<T>::C;
    Extreme<T> extreme;
    bool exclusive;
    BK_HD State identity() const { return extreme.least(); }
    BK_HD State term(int64_t, C x) const { return extreme.order(x); }
    BK_HD State join(State earlier, State later) const { return replaces(later, earlier) ? later : earlier; }
    BK_HD C value(int64_t, State before, State through, C) const { return extreme.original(exclusive ? before : through); }
};

// The extreme and its place, -1 where there is none.
template <class T>
struct Champion {
    typename Extreme<T>::C value;
    int32_t place;
};

template <class T>
struct RunningChampion {
    static constexpr int kAhead = -1;
    using C = compute_t<T>;
    using State = Champion<T>;
    Extreme<T> extreme;
    BK_HD State identity() const { return {extreme.least(), -1}; }
    BK_HD State term(int64_t i, C x) const { return {extreme.order(x), static_cast<int32_t>(i)}; }
    BK_HD State join(const State& earlier, const State& later) const {
        const bool changes = later.place >= 0 && (earlier.place < 0 || replaces(later.value, earlier.value));
        return changes ? later : earlier;
    }
};

// The extreme, and its index along an axis that is walked from `first` on.
template <class T>
struct RunningWinner : RunningChampion<T> {
    using C = compute_t<T>;
    using State = Champion<T>;
    int64_t first;
    int step;
    BK_HD Pack<C, int64_t> value(int64_t, const State&, const State& through, C) const {
        return pack(this->extreme.original(through.value), first + step * int64_t{through.place});
    }
};

// 1 where the extreme is a new one, else 0.
template <class T>
struct IsRecord : RunningChampion<T> {
    using C = compute_t<T>;
    using State = Champion<T>;
    BK_HD C value(int64_t i, const State&, const State& through, C) const { return through.place == i ? C(1) : C(0); }
};

// exp(x) for x <= 0, a factor of what is added to a term of factor 1: an absolute error is as good as a relative one.
template <class T>
BK_HD compute_t<T> decay(compute_t<T> x) {
    using Rough = std::conditional_t<std::is_same_v<T, float> && !kDoubleIsCheap, bf16, T>;
    return math::exp<Rough>(x);
}

// How far `low` lies below `high`; two infinities of one sign are level.
template <class C>
BK_HD C descent(C low, C high) {
    return low == high ? C(0) : low - high;
}

// ln(exp(x) + ...) = top + ln(1 + rest): what is far below the largest term is not lost, and ln(1) is 0.
template <class T>
struct RunningLogSumExp {
    static constexpr int kAhead = -1;
    using C = compute_t<T>;
    struct State {
        sum_t<T> rest;
        C top;
    };
    bool exclusive;
    BK_HD State identity() const { return {0, -kInfinity<C>}; }
    BK_HD State term(int64_t, C x) const { return {0, x}; }
    BK_HD State join(const State& earlier, const State& later) const {
        const bool rises = later.top > earlier.top;
        const State high = rises ? later : earlier, low = rises ? earlier : later;
        return {high.rest + (1 + low.rest) * decay<T>(descent(low.top, high.top)), high.top};
    }
    struct Climb {
        C low, top;
    };
    BK_HD Climb climb(C top, C x) const {
        const bool rises = x > top;
        return {rises ? top : x, rises ? x : top};
    }
    BK_HD C factor(const Climb& next) const { return decay<T>(descent(next.low, next.top)); }
    BK_HD State climbed(const State& earlier, const Climb& next, sum_t<T> factor) const {
        return {math::fma(earlier.rest, next.top > earlier.top ? factor : sum_t<T>(1), factor), next.top};
    }
    BK_HD State extend(const State& earlier, int64_t, C x) const {
        const Climb next = climb(earlier.top, x);
        return climbed(earlier, next, factor(next));
    }
    BK_HD C value(int64_t, const State& before, const State& through, C) const {
        const State& found = exclusive ? before : through;
        return found.top + math::log1p<T>(static_cast<C>(found.rest));
    }
};

}  // namespace bk
