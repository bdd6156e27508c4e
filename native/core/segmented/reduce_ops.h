// SPDX-License-Identifier: Apache-2.0
// Reduction operators over rows. An operator is a trivially copyable struct:
//
//   using Acc, Result                              accumulator; stored type
//   Acc identity() const;
//   void add(Acc&, compute_t<T> x, uint32_t row) const;     x is an element of row `row`
//   void combine(Acc& a, const Acc& b) const;      a = a combined with b, whose rows follow
//   Result finish(const Acc&, int64_t count) const;         projects a reduction of `count` rows
//   bool counts() const;                           whether finish() reads count
//
// and, if finite rows may overflow or underflow an Acc,
//
//   bool is_lost(const Acc&) const                 whether the rows must be reduced again, in a wider Again:
//   Again start_again() const, void add_again(Again&, compute_t<T> x) const,
//   Result finish_again(const Again&, int64_t count) const
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/math/math.h"
#include "core/math/wide_range.h"
#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk {

// Accumulator type: compute_t, or unsigned for integers, so that overflow wraps modulo 2^width.
template <class T, bool = std::is_integral_v<T>>
struct AccType {
    using type = compute_t<T>;
};
template <class T>
struct AccType<T, true> {
    using type = std::make_unsigned_t<T>;
};
template <class T>
using acc_t = typename AccType<T>::type;

// Whether an operator has the wider reduction.
template <class Op, class = void>
constexpr bool kMayLoseRows = false;
template <class Op>
constexpr bool kMayLoseRows<Op, std::void_t<typename Op::Again>> = true;

// Float sums that overflow are reduced again, scaled and compensated.
template <class T, bool = std::is_integral_v<T> || std::is_same_v<T, f16>>
struct RescaledSum {
    using C = compute_t<T>;
    struct Again {
        C sum, error;  // of scaled elements (Kahan 1965)
    };
    BK_HD bool is_lost(C sum) const { return !is_finite(sum); }
    BK_HD Again start_again() const { return {0, 0}; }
    BK_HD void add_again(Again& again, C x) const {
        const C summand = x * kScale<C> - again.error, total = again.sum + summand, error = (total - again.sum) - summand;
        again = {total, math::select(is_finite(error), error, C(0))};
    }
};
template <class T>
struct RescaledSum<T, true> {};

// Float products that overflow or underflow are reduced again with an extended exponent.
template <class T, bool = std::is_integral_v<T>>
struct RescaledProduct {
    using C = compute_t<T>;
    using Again = WideNumber<C>;
    BK_HD bool is_lost(C product) const { return bool(int(!is_finite(product)) | int(math::fabs<C>(product) < kMinNormal<C>)); }
    BK_HD Again start_again() const { return {1, 0}; }
    BK_HD void add_again(Again& again, C x) const { again = again * Again::of(x); }
    BK_HD T finish_again(const Again& again, int64_t) const { return narrow<T>(again.value()); }
};
template <class T>
struct RescaledProduct<T, true> {};

// Sum or mean, a run-time choice: one kernel serves both. The mean of no rows is 0.
template <class T>
struct SumOp : RescaledSum<T> {
    using Acc = acc_t<T>;
    using Result = T;
    bool divides = false;

    SumOp() = default;
    explicit SumOp(bool is_mean) : divides(is_mean) {}

    BK_HD Acc identity() const { return 0; }
    BK_HD void add(Acc& acc, compute_t<T> x, uint32_t) const { acc += static_cast<Acc>(x); }
    BK_HD void combine(Acc& a, const Acc& b) const { a += b; }
    BK_HD T finish(const Acc& acc, int64_t count) const {
        const compute_t<T> sum = static_cast<compute_t<T>>(acc);
        if constexpr (std::is_integral_v<T>)
            return sum;
        else
            return narrow<T>(divides && count > 1 ? sum / static_cast<compute_t<T>>(count) : sum);
    }
    template <class Again>
    BK_HD T finish_again(const Again& again, int64_t count) const {
        using C = compute_t<T>;
        const C scaled = divides && count > 1 ? again.sum / static_cast<C>(count) : again.sum;
        return narrow<T>(scaled * (C(1) / kScale<C>));
    }
    BK_HD bool counts() const { return divides; }
};

template <class T>
struct ProductOp : RescaledProduct<T> {
    using Acc = acc_t<T>;
    using Result = T;

    BK_HD Acc identity() const { return 1; }
    BK_HD void add(Acc& acc, compute_t<T> x, uint32_t) const { acc *= static_cast<Acc>(x); }
    BK_HD void combine(Acc& a, const Acc& b) const { a *= b; }
    BK_HD T finish(const Acc& acc, int64_t) const { return narrow<T>(static_cast<compute_t<T>>(acc)); }
    BK_HD bool counts() const { return false; }
};

// Order of T or its reverse at run time: one kernel serves maximum and minimum. NaN is the greatest in both.
template <class T>
struct Order {
    using Key = compute_t<T>;
    static constexpr bool kIsInteger = std::is_integral_v<T>;
    Key sign;  // floats: factor 1 or -1; integers: XOR mask 0 or -1

    static Order of(bool greatest) { return {greatest ? Key(kIsInteger ? 0 : 1) : Key(-1)}; }
    BK_HD Key key(Key x) const { return kIsInteger ? static_cast<Key>(bits(x) ^ bits(sign)) : static_cast<Key>(x * sign); }
    BK_HD Key value(Key x) const { return key(x); }
    static BK_HD Key least() { return kLeast; }
    static BK_HD bool exceeds(Key a, Key b) {
        if constexpr (kIsInteger)
            return a > b;
        else
            return bool(int(!(a <= b)) & int(b == b));
    }
    static BK_HD Key greater(Key a, Key b) {
        if constexpr (kIsInteger) {
            return a > b ? a : b;
        } else {
#if BK_ON_GPU
            if constexpr (std::is_same_v<Key, float>) {
                float y;
                asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
                return y;
            }
#endif
            return math::select(bool(int(b > a) | int(b != b)), b, a);
        }
    }

private:
    using Limits = std::numeric_limits<Key>;
    static constexpr Key kLeast = kIsInteger ? Limits::min() : -Limits::infinity();

    static BK_HD auto bits(Key x) {
        if constexpr (kIsInteger)
            return static_cast<std::make_unsigned_t<Key>>(x);
        else
            return 0;
    }
};

// Maximum or minimum. Of no rows: 0 if is_zero_of_none, else -inf or inf (integers: the limit of the range).
template <class T>
struct ExtremumOp {
    using Acc = compute_t<T>;
    using Result = T;
    Order<T> order;
    bool is_zero_of_none = false;

    BK_HD Acc identity() const { return Order<T>::least(); }
    BK_HD void add(Acc& acc, Acc x, uint32_t) const { acc = Order<T>::greater(acc, order.key(x)); }
    BK_HD void combine(Acc& a, const Acc& b) const { a = Order<T>::greater(a, b); }
    BK_HD T finish(const Acc& acc, int64_t count) const {
        return narrow<T>(is_zero_of_none && count == 0 ? Acc(0) : order.value(acc));
    }
    BK_HD bool counts() const { return is_zero_of_none; }
};

// Argmax or argmin: the first row with the extremum, kNoRow for no rows. `rows`, if not null, renumbers rows.
constexpr uint32_t kNoRow = 0xffffffffu;

template <class T>
struct ArgExtremumOp {
    using Key = compute_t<T>;
    struct Acc {
        Key key;
        uint32_t row;
    };
    using Result = uint32_t;
    Order<T> order;
    const uint32_t* rows = nullptr;

    BK_HD Acc identity() const { return {Order<T>::least(), kNoRow}; }
    BK_HD void add(Acc& acc, Key x, uint32_t row) const { combine(acc, Acc{order.key(x), row}); }
    BK_HD void combine(Acc& a, const Acc& b) const {
        const bool later = bool(int(Order<T>::exceeds(b.key, a.key)) | int(a.row == kNoRow));
        a.key = later ? b.key : a.key;
        a.row = later ? b.row : a.row;
    }
    BK_HD uint32_t finish(const Acc& acc, int64_t) const {
        return rows == nullptr || acc.row == kNoRow ? acc.row : rows[acc.row];
    }
    BK_HD bool counts() const { return false; }
};

// Ids of 32 or 64 bits, a run-time choice, so that kernels are compiled once.
struct IdArray {
    const void* ids;
    bool is_wide;

    IdArray() = default;
    explicit IdArray(const int32_t* given) : ids(given), is_wide(false) {}
    explicit IdArray(const int64_t* given) : ids(given), is_wide(true) {}
    BK_HD int64_t operator[](int64_t i) const {
        return is_wide ? static_cast<const int64_t*>(ids)[i] : static_cast<const int32_t*>(ids)[i];
    }
    BK_HD IdArray operator+(int64_t offset) const {
        IdArray later = *this;
        later.ids = static_cast<const char*>(ids) + offset * (is_wide ? 8 : 4);
        return later;
    }
};

}  // namespace bk
