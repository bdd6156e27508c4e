// SPDX-License-Identifier: Apache-2.0
// Reductions of a window: its maximum with its position, its average, or its p-norm. One text for both targets.
//
// An operator has Lane, the accumulator of one window, and
//   start(), add(lane, x, t)   of no cell; with the cell x, the t-th of the window in row-major order
//   combine(lane, other)       with the lane of other cells of the window, in any order
//   finish(lane, divisor)      the result
//   is_lost(lane)              whether intermediate values left the range of C, and the result has to come from
//   recover(visit, divisor)    which calls visit(f) for f(x) of all cells, as often as it needs
#pragma once

#include <cstdint>

#include "core/math/half_power.h"
#include "core/math/limits.h"
#include "core/math/math.h"
#include "core/types/dtype.h"
#include "pool/windows.h"

namespace bk::pool {

// NaN exceeds all numbers, and of equal values the first one counts.
template <class C>
BK_HD bool exceeds(C x, C best) {
    return !(x <= best) & (best == best);
}
template <class C>
BK_HD bool equals(C a, C b) {
    return (a == b) | ((a != a) & (b != b));
}

template <class T>
struct MaxOp {
    using C = compute_t<T>;
    static constexpr bool kHasPosition = true;
    struct Lane {
        C value;
        int32_t at;  // -1: all cells are -infinity, or there is none
    };

    bool is_absolute = false;  // whether abs(x) is compared

    BK_HD Lane start() const { return {-kInfinity<C>, -1}; }
    BK_HD void add(Lane& lane, C x, int32_t t) const {
        const C value = is_absolute ? math::fabs<C>(x) : x;
        const bool takes = exceeds(value, lane.value);
        lane.value = math::select(takes, value, lane.value);
        lane.at = takes ? t : lane.at;
    }
    // Whether the maximum is that of `other`; -1 is behind all positions.
    BK_HD bool yields(const Lane& lane, const Lane& other) const {
        const bool is_earlier = static_cast<uint32_t>(other.at) < static_cast<uint32_t>(lane.at);
        return exceeds(other.value, lane.value) | (equals(other.value, lane.value) & is_earlier);
    }
    BK_HD void combine(Lane& lane, const Lane& other) const {
        if (yields(lane, other)) lane = other;
    }
    BK_HD C finish(const Lane& lane, int64_t) const { return lane.value; }
    BK_HD bool is_lost(const Lane&) const { return false; }
    template <class Visit>
    BK_HD C recover(const Visit&, int64_t) const {
        return C(0);
    }
};

// MaxOp without positions, for comparisons: of zeros of both signs it may be either.
template <class T>
struct MaxValueOp {
    using C = compute_t<T>;
    static constexpr bool kHasPosition = false;
    struct Lane {
        C value;
    };

    BK_HD Lane start() const { return {-kInfinity<C>}; }
    BK_HD void add(Lane& lane, C x, int32_t) const { lane.value = math::select(exceeds(x, lane.value), x, lane.value); }
    BK_HD void combine(Lane& lane, const Lane& other) const { add(lane, other.value, 0); }
    BK_HD C finish(const Lane& lane, int64_t) const { return lane.value; }
    BK_HD bool is_lost(const Lane&) const { return false; }
    template <class Visit>
    BK_HD C recover(const Visit&, int64_t) const {
        return C(0);
    }
};

template <class T>
struct AverageOp {
    using C = compute_t<T>;
    static constexpr bool kHasPosition = false;
    struct Lane {
        C value;
    };

    Divisor divisor;

    BK_HD Lane start() const { return {C(0)}; }
    BK_HD void add(Lane& lane, C x, int32_t) const { lane.value += x; }
    BK_HD void combine(Lane& lane, const Lane& other) const { lane.value += other.value; }
    // A window outside of the image averages to 0.
    BK_HD C finish(const Lane& lane, int64_t by) const { return by == 0 ? C(0) : lane.value / static_cast<C>(by); }
    BK_HD bool is_lost(const Lane& lane) const { return !(math::fabs<C>(lane.value) <= kGreatest<C>); }
    template <class Visit>
    BK_HD C recover(const Visit& visit, int64_t by) const {
        const C weight = C(1) / static_cast<C>(by);
        C sum = 0;
        visit([&](C x) { sum = math::fma(x, weight, sum); });
        return sum;
    }
};

enum class Norm : int32_t { kOne, kTwo, kMaximum, kAny };

inline Norm norm_of(float p) {
    return p == 1.0f ? Norm::kOne : p == 2.0f ? Norm::kTwo : p == kInfinity<float> ? Norm::kMaximum : Norm::kAny;
}

template <class T>
struct NormOp {
    using C = compute_t<T>;
    static constexpr bool kHasPosition = false;
    // Sums of powers below this have lost subnormal summands.
    static constexpr C kSmall = sizeof(C) == 8 ? C(0x1p-900) : C(0x1p-100f);
    struct Lane {
        C value;
    };

    Norm norm;
    C p;

    BK_HD Lane start() const { return {C(0)}; }
    BK_HD C power(C size) const { return norm == Norm::kTwo ? size * size : norm == Norm::kAny ? math::pow<T>(size, p) : size; }
    BK_HD C root(C sum) const {
        return norm == Norm::kTwo ? math::sqrt<C>(sum) : norm == Norm::kAny ? math::pow<C>(sum, C(1) / p) : sum;
    }
    BK_HD void add(Lane& lane, C x, int32_t) const {
        const C size = math::fabs<C>(x);
        if (norm == Norm::kMaximum)
            lane.value = math::select(exceeds(size, lane.value), size, lane.value);
        else
            lane.value += power(size);
    }
    BK_HD void combine(Lane& lane, const Lane& other) const {
        if (norm == Norm::kMaximum)
            lane.value = math::select(exceeds(other.value, lane.value), other.value, lane.value);
        else
            lane.value += other.value;
    }
    BK_HD C finish(const Lane& lane, int64_t) const { return root(lane.value); }
    BK_HD bool is_lost(const Lane& lane) const {
        return (norm == Norm::kTwo || norm == Norm::kAny) && (lane.value < kSmall || lane.value > kGreatest<C>);
    }
    template <class Visit>
    BK_HD C recover(const Visit& visit, int64_t) const {
        C greatest = 0, sum = 0;
        visit([&](C x) {
            const C size = math::fabs<C>(x);
            greatest = math::select(exceeds(size, greatest), size, greatest);
        });
        if (!(greatest > C(0)) || greatest > kGreatest<C>) return greatest;
        visit([&](C x) { sum += power(math::fabs<C>(x) / greatest); });
        return greatest * root(sum);
    }
    // d y / d x of one cell, for y of the window; 0 where x or y is.
    BK_HD C slope(C x, C y) const {
        const C ratio = math::fabs<C>(x) / y;
        const C size = norm == Norm::kOne ? C(1) : norm == Norm::kTwo ? ratio : math::pow<T>(ratio, p - C(1));
        const C signed_size = x < C(0) ? -size : size;
        return (x == C(0)) | (y == C(0)) ? C(0) : signed_size;
    }
};

}  // namespace bk::pool
