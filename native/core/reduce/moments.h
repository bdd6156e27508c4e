// SPDX-License-Identifier: Apache-2.0
// Mean and sum of squared deviations in one pass: shifted data and pairwise combination (Chan, Golub and LeVeque
// 1983).
//
// Differences from a base are summed, so that a large mean costs no digits. The base starts as the first element and
// moves to the running mean; the sum keeps what rounding the base drops. If squares overflow or vanish, the engine
// makes another pass with values times a power of two (kRepeats in core/reduce/reducer.h).
#pragma once

#include <cstdint>

#include "core/math/limits.h"
#include "core/math/math.h"
#include "core/platform.h"
#include "core/reduce/square_scale.h"
#include "core/types/dtype.h"

namespace bk {

template <class T>
struct Moments {
    using C = compute_t<T>;
    using Scale = SquareScale<T>;
    struct Acc {
        C base;     // infinities do not move it; they make the sum infinite and the variance NaN
        C sum;      // of the differences from the base
        C recent;   // squared differences since settle(); the unit after stamp()
        C squares;  // squared differences before
        int64_t items;
    };
    static constexpr bool ignores_index = true;
    static constexpr bool kRepeats = Scale::kIsNeeded;

    bool is_centered = true;  // if not, base and mean are 0
    C unit = 1;               // power of two that multiplies the values in a pass

    BK_HD Acc identity() const { return {0, 0, 0, 0, 0}; }
    BK_HD Acc start(C x) const {
        const C first = x * unit;
        return {is_centered && Scale::is_finite(first) ? first : C(0), 0, 0, 0, 0};
    }
    BK_HD void add(Acc& acc, int64_t, C x) const {
        const C difference = x * unit - acc.base;
        acc.sum += difference;
        acc.recent += difference * difference;
    }
    BK_HD void settle(Acc& acc, int64_t items) const {
        const int64_t all = acc.items + items;
        const C count = static_cast<C>(all), step = step_of(acc.base, acc.sum / math::max(count, C(1)));
        const C residual = acc.sum - count * step;
        acc = {acc.base + step, residual, 0, moved(acc.squares + acc.recent, step * (acc.sum + residual)), all};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        const C of_a = static_cast<C>(a.items), of_b = static_cast<C>(b.items);
        const C base_a = a.items > 0 ? a.base : b.base, base_b = b.items > 0 ? b.base : base_a;
        const C sum = a.sum + (b.sum + of_b * (base_b - base_a));
        const C step_a = step_of(base_a, sum / math::max(of_a + of_b, C(1))), base = base_a + step_a, step_b = base - base_b;
        const C residual_a = a.sum - of_a * step_a, residual_b = b.sum - of_b * step_b;
        return {base, residual_a + residual_b, 0,
                moved(a.squares, step_a * (a.sum + residual_a)) + moved(b.squares, step_b * (b.sum + residual_b)),
                a.items + b.items};
    }

    // The mean and the sum of squared deviations are in the unit of the pass.
    static BK_HD C mean_of(const Acc& acc) { return acc.base + mean_difference(acc); }
    static BK_HD C mean_error_of(const Acc& acc) {  // its rounding error
        const C error = mean_difference(acc) - (mean_of(acc) - acc.base);
        return Scale::is_finite(error) ? error : C(0);
    }
    BK_HD C squares_of(const Acc& acc) const {
        const C squares = is_centered ? acc.squares - acc.sum * mean_difference(acc) : acc.squares;
        return squares < C(0) ? C(0) : squares;
    }
    static BK_HD C unscaled(C x, C unit) { return Scale::unscaled(x, unit); }
    static BK_HD C unit_of(const Acc& acc) { return acc.recent == C(0) ? C(1) : acc.recent; }

    // The unit that a settled Acc of the first pass requires. `floor` will be added to each square.
    BK_HD C wanted(const Acc& acc, C floor) const {
        return Scale::unit_of(mean_of(acc), squares_of(acc), floor * static_cast<C>(acc.items));
    }
    BK_HD C wanted(const Acc& acc) const { return wanted(acc, C(0)); }
    BK_HD void stamp(Acc& acc) const { acc.recent = unit == C(1) ? C(0) : unit; }

private:
    static BK_HD C mean_difference(const Acc& acc) { return acc.sum / static_cast<C>(acc.items > 0 ? acc.items : 1); }
    // Squared differences after the base has moved; without centering it stays 0, and sums may be infinite.
    BK_HD C moved(C squares, C less) const { return is_centered ? squares - less : squares; }
    BK_HD C step_of(C base, C shift) const {
        return math::select(bool(int(is_centered) & int(Scale::is_finite(shift))), (base + shift) - base, C(0));
    }
};

// R for partials whose units differ: it combines in the coarser one.
template <class R>
struct MomentCombiner : R {
    using typename R::Acc;
    using C = typename R::C;
    using Scale = typename R::Scale;

    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        const C of_a = R::unit_of(a), of_b = R::unit_of(b);
        // An empty partial does not count.
        C unit = a.items == 0 ? of_b : b.items == 0 ? of_a : of_a < of_b ? of_a : of_b;
        Acc all = R::combine(in_unit(a, unit), in_unit(b, unit));
        if (Scale::kIsNeeded && unit > Scale::kDown && !(Scale::is_finite(all.squares) && Scale::is_finite(all.sum))) {
            unit = Scale::kDown;
            all = R::combine(in_unit(a, unit), in_unit(b, unit));
        }
        all.recent = unit == C(1) ? C(0) : unit;
        return all;
    }

private:
    static BK_HD Acc in_unit(const Acc& acc, C unit) {
        const C factor = unit / R::unit_of(acc);
        return {acc.base * factor, acc.sum * factor, 0, acc.squares * factor * factor, acc.items};
    }
};

// Reducer that combines partials of R.
template <class R>
BK_HD auto moment_combiner(const R& reducer) {
    if constexpr (R::kRepeats)
        return MomentCombiner<R>{reducer};
    else
        return reducer;
}

}  // namespace bk
