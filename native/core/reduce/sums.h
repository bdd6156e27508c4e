// SPDX-License-Identifier: Apache-2.0
// Reducers that add elements of memory, or what a functor computes from them (core/reduce/reducer.h).
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

// Unsigned type in which integers are added and multiplied, modulo its size.
template <class T>
using modular_t = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

// Accumulator of a sum in two levels: `recent` takes the summands since settle(), so that the error of a long sum grows
// with the root of its length. If `sum` is out of range, `recent` is the sum of the scaled summands.
template <class C>
struct SumAcc {
    C sum, recent;

    BK_HD C scaled() const { return math::select(is_finite(sum), sum * kScale<C>, recent); }
    // The quotient may be finite although the sum is infinite.
    BK_HD C over(C divisor) const { return math::select(is_finite(sum), sum / divisor, recent / divisor * (C(1) / kScale<C>)); }
    BK_HD C times(C factor) const { return math::select(is_finite(sum), sum * factor, recent * factor * (C(1) / kScale<C>)); }
    BK_HD C total() const { return math::select(is_finite(sum), sum, recent * (C(1) / kScale<C>)); }
    // Adds x scaled, when a lost sum is recomputed; `sum` is the compensation (Kahan 1965) until sealed().
    BK_HD void add_scaled(C x) {
        const C summand = x * kScale<C> - sum, total = recent + summand, error = (total - recent) - summand;
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

// A sum that is infinite if a partial one is.
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

// The sum, or the mean. If finite summands have an infinite sum, they are added again, scaled.
template <class T, bool = std::is_integral_v<T>>
struct SumReducer {
    using C = compute_t<T>;
    bool is_mean;

    using Acc = SumAcc<C>;
    static constexpr bool ignores_index = true;
    static constexpr bool may_be_lost = !std::is_same_v<T, f16>;  // 2^40 of them fit f32
    BK_HD Acc identity() const { return {0, 0}; }
    BK_HD void add(Acc& acc, int64_t, C x) const { acc.recent += x; }
    BK_HD void settle(Acc& acc, int64_t) const { acc = {acc.sum + acc.recent, 0}; }
    // f16 sums are never lost and have no scaled summands: one that is not finite has infinities or NaN.
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

// A functor's result as a Pack: a single value is wrapped.
template <class C>
BK_HD Pack<C> as_pack(C value) {
    return pack(value);
}
template <class... C>
BK_HD Pack<C...> as_pack(const Pack<C...>& value) {
    return value;
}

// Value `index` of a Pack of equal types.
template <class... C, size_t... O>
BK_HD auto select_value(const Pack<C...>& values, int index, std::index_sequence<O...>) {
    auto value = get<0>(values);
    ((value = index == static_cast<int>(O) ? get<O>(values) : value), ...);
    return value;
}

// Adds without contraction to fma: products overflow before they are added, so that opposite infinities give NaN.
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

// PlainSum of result `output` of a functor; add() returns all results of an item.
template <class Fn, class C>
struct FunctorSum {
    using Acc = SumAcc<C>;
    static constexpr bool ignores_index = !kIsPositional<Fn>;
    Fn fn;
    int output;

    BK_HD PlainSum<C> combiner() const { return {}; }
    BK_HD Acc identity() const { return combiner().identity(); }
    template <class... X>
    BK_HD auto add(Acc& acc, int64_t index, X... x) const {
        return add_item(acc, items_from(index), 0, x...);
    }
    // Values that `count` adjacent items from an index on share; add_item() adds the item k behind that index.
    BK_HD auto items_from(int64_t index) const { return segment_at(fn, index, 0); }
    template <class Segment, class... X>
    BK_HD auto add_item(Acc& acc, const Segment& segment, int64_t k, X... x) const {
        return add_selected(acc, as_pack(segment(k, x...)));
    }
    BK_HD void settle(Acc& acc, int64_t items) const { combiner().settle(acc, items); }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return combiner().combine(a, b); }
    BK_HD C finish(const Acc& acc, int64_t count) const { return combiner().finish(acc, count); }

private:
    template <class V>
    BK_HD V add_selected(Acc& acc, const Pack<V>& value) const {
        acc.recent = add_rounded(acc.recent, get<0>(value));
        return get<0>(value);
    }
    template <class... V>
    BK_HD Pack<V...> add_selected(Acc& acc, const Pack<V...>& values) const {
        acc.recent = add_rounded(acc.recent, select_value(values, output, std::index_sequence_for<V...>{}));
        return values;
    }
};

}  // namespace bk
