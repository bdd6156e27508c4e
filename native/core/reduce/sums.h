// Reducers that add: elements of memory, and what a functor makes of them (core/reduce/reducer.h says what a reducer is).
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/math/limits.h"
#include "core/math/wide_range.h"
#include "core/platform.h"
#include "core/pointwise/pointwise.h"
#include "core/types/dtype.h"
#include "core/types/pack.h"

namespace bk {

// What integers are added and multiplied in, modulo its size.
template <class T>
using modular_t = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

// What a sum is collected in. A second number takes the terms of a run, so that the error of a long sum grows with its root;
// behind a sum out of range it is the sum of the scaled terms.
template <class C>
struct SumAcc {
    C sum, recent;

    BK_HD C scaled() const { return math::select(is_finite(sum), sum * kScale<C>, recent); }
    // A finite quotient of an infinite sum is found.
    BK_HD C over(C divisor) const { return math::select(is_finite(sum), sum / divisor, recent / divisor * (C(1) / kScale<C>)); }
    BK_HD C times(C factor) const { return math::select(is_finite(sum), sum * factor, recent * factor * (C(1) / kScale<C>)); }
    BK_HD C total() const { return math::select(is_finite(sum), sum, recent * (C(1) / kScale<C>)); }
    // Of a sum that is collected again: += x scaled, `sum` being the compensation (Kahan 1965) until it is sealed.
    BK_HD void add_scaled(C x) {
        const C term = x * kScale<C> - sum, total = recent + term, error = (total - recent) - term;
        recent = total;
        sum = math::select(is_finite(error), error, C(0));  // infinities have none
    }
    BK_HD SumAcc sealed() const { return {kInfinity<C>, recent}; }
    friend BK_HD SumAcc operator+(const SumAcc& a, const SumAcc& b) {
#if BK_CUDA
        return {a.sum + b.sum, a.scaled() + b.scaled()};
#else
        return {a.sum + b.sum, 0};
#endif
    }
};

// A sum that is infinite where a partial one is.
template <class C>
struct PlainSum {
    using Acc = SumAcc<C>;
    static constexpr bool ignores_index = true;
    BK_HD Acc identity() const { return {0, 0}; }
    BK_HD void add(Acc& acc, int64_t, C x) const { acc.recent += x; }
    BK_HD void settle(Acc& acc, int64_t) const { acc = {acc.sum + acc.recent, 0}; }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {a.sum + b.sum, 0}; }
    BK_HD C finish(const Acc& acc, int64_t) const { return acc.sum; }
};

// The sum, or the mean. Where finite terms have an infinite sum they are collected again, scaled.
template <class T, bool = std::is_integral_v<T>>
struct SumReducer {
    using C = compute_t<T>;
    bool is_mean;

    using Acc = SumAcc<C>;
    static constexpr bool ignores_index = true;
    static constexpr bool may_be_lost = !std::is_same_v<T, f16>;  // 2^40 of these have a sum in f32
    BK_HD Acc identity() const { return {0, 0}; }
    BK_HD void add(Acc& acc, int64_t, C x) const { acc.recent += x; }
    BK_HD void settle(Acc& acc, int64_t) const { acc = {acc.sum + acc.recent, 0}; }
    // What never is lost has no scaled terms: a sum that is not finite is that of infinities or NaN.
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        if constexpr (may_be_lost)
            return a + b;
        else
            return {a.sum + b.sum, 0};
    }
    BK_HD C finish(const Acc& acc, int64_t count) const {
        if constexpr (may_be_lost)
            return is_mean ? acc.over(static_cast<C>(count)) : acc.total();
        else
            return is_mean ? acc.sum / static_cast<C>(count) : acc.sum;
    }

    BK_HD bool is_lost(const Acc& acc) const { return !is_finite(acc.sum); }
    BK_HD Acc start_again() const { return {0, 0}; }
    BK_HD void add_again(Acc& acc, int64_t, C x) const { acc.add_scaled(x); }
    BK_HD Acc end_again(const Acc& acc) const { return acc.sealed(); }
};

template <class T>
struct SumReducer<T, true> {
    struct Acc {
        modular_t<T> sum;
    };
    static constexpr bool ignores_index = true;
    BK_HD Acc identity() const { return {0}; }
    BK_HD void add(Acc& acc, int64_t, T x) const { acc.sum += x; }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {static_cast<modular_t<T>>(a.sum + b.sum)}; }
    BK_HD T finish(const Acc& acc, int64_t) const { return static_cast<T>(acc.sum); }
};

// A functor's result as a Pack, whether it is one or a single value.
template <class C>
BK_HD Pack<C> as_pack(C value) {
    return pack(value);
}
template <class... C>
BK_HD Pack<C...> as_pack(const Pack<C...>& value) {
    return value;
}

// One of the values of a Pack of equal types.
template <class... C, size_t... O>
BK_HD auto pick(const Pack<C...>& values, int index, std::index_sequence<O...>) {
    auto value = get<0>(values);
    ((value = index == static_cast<int>(O) ? get<O>(values) : value), ...);
    return value;
}

// Of terms that are rounded first: a product is not to be added exactly, for infinities of opposite signs are to meet.
template <class C>
BK_HD C add_rounded(C a, C b) {
#if BK_ON_GPU
    if constexpr (std::is_same_v<C, float>)
        return __fadd_rn(a, b);
    else if constexpr (std::is_same_v<C, double>)
        return __dadd_rn(a, b);
    else
        return a + b;
#else
    return a + b;
#endif
}

// PlainSum of result number `output` of a functor, all of whose results of a term add() returns.
template <class Fn, class C>
struct TermSum {
    using Acc = SumAcc<C>;
    static constexpr bool ignores_index = !kIsPositional<Fn>;
    Fn fn;
    int output;

    BK_HD PlainSum<C> parts() const { return {}; }
    BK_HD Acc identity() const { return parts().identity(); }
    template <class... X>
    BK_HD auto add(Acc& acc, int64_t index, X... x) const {
        return add_term(acc, terms_from(index), 0, x...);
    }
    // What neighbouring terms from an index on have in common, as many as its `count`; and the term k behind that index.
    BK_HD auto terms_from(int64_t index) const { return piece_at(fn, index, 0); }
    template <class Piece, class... X>
    BK_HD auto add_term(Acc& acc, const Piece& piece, int64_t k, X... x) const {
        return add_picked(acc, as_pack(piece(k, x...)));
    }
    BK_HD void settle(Acc& acc, int64_t terms) const { parts().settle(acc, terms); }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return parts().combine(a, b); }
    BK_HD C finish(const Acc& acc, int64_t count) const { return parts().finish(acc, count); }

private:
    template <class V>
    BK_HD V add_picked(Acc& acc, const Pack<V>& value) const {
        acc.recent = add_rounded(acc.recent, get<0>(value));
        return get<0>(value);
    }
    template <class... V>
    BK_HD Pack<V...> add_picked(Acc& acc, const Pack<V...>& values) const {
        acc.recent = add_rounded(acc.recent, pick(values, output, std::index_sequence_for<V...>{}));
        return values;
    }
};

}  // namespace bk
