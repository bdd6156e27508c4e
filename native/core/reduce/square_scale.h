// SPDX-License-Identifier: Apache-2.0
// Powers of two that scale values whose squares leave the range of the compute type (as in Blue 1978).
#pragma once

#include <type_traits>

#include "core/math/limits.h"
#include "core/math/math.h"
#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk {

template <class T>
struct SquareScale {
    using C = compute_t<T>;
    static constexpr bool kIsDouble = std::is_same_v<C, double>;
    static constexpr bool kIsNeeded = !std::is_same_v<T, f16>;  // squares of f16 fit f32
    static constexpr C kDown = kIsDouble ? C(0x1p-600) : C(0x1p-80f), kUp = kIsDouble ? C(0x1p+800) : C(0x1p+100f);
    static constexpr C kLeast = kIsDouble ? C(0x1p-980) : C(0x1p-90f);  // larger sums of squares lost nothing
    // If squared deviations sum to less than kLeast but not 0, values are below this: larger ones have too large an
    // ulp.
    static constexpr C kNearZero = C(0x1p-10f);

    static BK_HD bool is_finite(C x) { return math::fabs<C>(x) <= kGreatest<C>; }

    // The unit that moments require: 1 if mean and `squares` are in range. `floor` is added to the squares later.
    static BK_HD C unit_of(C mean, C squares, C floor) {
        if constexpr (!kIsNeeded) return C(1);
        const bool is_large = !(squares <= kGreatest<C>) || !is_finite(mean);
        const bool is_small = squares + floor < kLeast && math::fabs<C>(mean) < kNearZero;
        return math::select(is_large, kDown, math::select(is_small, kUp, C(1)));
    }

    // Converts a statistic from `unit` to the unit 1; finite values stay finite.
    static BK_HD C unscaled(C x, C unit) {
        const C y = x / unit;
        return is_finite(x) && !is_finite(y) && unit < C(1) ? math::select(y < C(0), -kGreatest<C>, kGreatest<C>) : y;
    }
};

// sqrt(variance + eps) of a variance in a unit.
template <class T>
struct StdDev {
    using C = compute_t<T>;

    static BK_HD C of(C variance, C eps, C unit) {
        if (unit == C(1)) return math::sqrt<C>(variance + eps);
        const C stddev = math::sqrt<C>(variance + eps * unit * unit), least = math::sqrt<C>(eps) * unit;  // eps may vanish
        return stddev < least ? least : stddev;
    }
};

}  // namespace bk
