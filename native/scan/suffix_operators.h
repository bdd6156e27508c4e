// SPDX-License-Identifier: Apache-2.0
// Scan operators of the gradients: sums of dy over the results that an element went into, from the last one back.
#pragma once

#include <cstdint>

#include "core/math/math.h"
#include "scan/operators.h"

namespace bk {

// Product gradient: dx[j] = y[j - 1] (dy[j] + x[j + 1] (dy[j + 1] + x[j + 2] (...))), without division; exclusive:
// dx[j] = y[j] (dy[j + 1] + x[j + 1] (dy[j + 2] + x[j + 2] (...))), y[j] being the product before x[j]. A state is the
// affine map f -> product * f + suffix of what follows the range.
template <class T>
struct ProductSuffix {
    static constexpr int kLookaheadInput = 2;  // y[j - 1] is one position ahead in the reversed scan
    using C = compute_t<T>;
    struct State {
        double product, suffix;
    };
    bool exclusive;
    BK_HD State identity() const { return {1, 0}; }
    BK_HD State lift(int64_t, C dy, C x, C) const {
        return {static_cast<double>(x), exclusive ? static_cast<double>(dy) : static_cast<double>(x) * dy};
    }
    BK_HD State combine(const State& earlier, const State& later) const {
        // `product` may be infinite while there is nothing to multiply yet; inf * 0 would be NaN.
        const double suffix = earlier.suffix == 0 ? later.suffix : later.product * earlier.suffix + later.suffix;
        return {later.product * earlier.product, suffix};
    }
    BK_HD C value(int64_t, const State& before, const State&, C dy, C, C y) const {
        // If y overflowed and no gradient reaches it, dx is 0, not inf * 0.
        const double suffix = exclusive ? before.suffix : dy + before.suffix;
        return suffix == 0 && math::fabs<C>(y) == kInfinity<C> ? C(0) : static_cast<C>(y * suffix);
    }
};

// Extreme gradient: dx[j] is the sum of dy from j to the next record if x[j] is a record, else 0. The results of an
// exclusive scan that x[j] is begin after j and include that at the next record.
template <class T>
struct RecordSuffix {
    static constexpr int kLookaheadInput = -1;
    using C = compute_t<T>;
    struct State {
        sum_t<T> suffix;                                                      // the sum since the last record
        std::conditional_t<sizeof(sum_t<T>) == 8, int64_t, int32_t> is_open;  // no record yet
    };
    bool exclusive;
    BK_HD State identity() const { return {sum_t<T>(-0.0), 1}; }
    BK_HD State lift(int64_t, C dy, C is_record) const {
        const bool closes = is_record != 0;
        return {closes && !exclusive ? sum_t<T>(-0.0) : static_cast<sum_t<T>>(dy), !closes};
    }
    BK_HD State combine(const State& earlier, const State& later) const {
        return {later.is_open ? earlier.suffix + later.suffix : later.suffix, earlier.is_open & later.is_open};
    }
    BK_HD C value(int64_t, const State& before, const State&, C dy, C is_record) const {
        return is_record != 0 ? static_cast<C>(before.suffix + (exclusive ? C(0) : dy)) : C(0);
    }
};

// Log-sum-exp gradient: dx[j] = exp(x[j]) * sum of dy[i] exp(-y[i]) over i >= j, exclusive i > j, kept as a multiple of
// exp(-shift), the largest weight.
template <class T>
struct LogSumExpSuffix {
    static constexpr int kLookaheadInput = -1;
    using C = compute_t<T>;
    struct State {
        sum_t<T> suffix;
        C shift;
    };
    bool exclusive;
    BK_HD State identity() const { return {0, kInfinity<C>}; }
    BK_HD State lift(int64_t, C dy, C, C y) const { return {static_cast<sum_t<T>>(dy), y}; }
    BK_HD State combine(const State& earlier, const State& later) const {
        const bool rises = later.shift > earlier.shift;
        const State low = rises ? earlier : later, high = rises ? later : earlier;
        return {low.suffix + high.suffix * exp_weight<T>(minus_max(low.shift, high.shift)), low.shift};
    }
    BK_HD C value(int64_t, const State& before, const State& through, C, C x, C) const {
        const State& found = exclusive ? before : through;
        // exp(-inf) is 0 whatever its divisor, and an empty suffix gives 0 however large x is.
        if (x == -kInfinity<C> || (exclusive && found.suffix == 0)) return C(0);
        return static_cast<C>(found.suffix * math::exp<T>(x - found.shift));
    }
};

}  // namespace bk
