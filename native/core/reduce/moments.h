// Mean and sum of squared deviations in one pass, by shifted data and pairwise combination (Chan, Golub and LeVeque 1983).
//
// Differences from a base are summed up, so that a large mean costs no digits. The base begins as the first element and moves
// to the mean of what came so far; its rounded steps are exact, and the sum has what rounding left. Where the squares overflow
// or vanish the engine makes another pass with values times a power of two (kRepeats in core/reduce/reducer.h).
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
        C base;     // an infinity leaves it where it is, and makes the sum infinite and the variance NaN
        C sum;      // of the differences from the base
        C recent;   // of their squares since settle(); of what a scaled pass has combined, its unit
        C squares;  // of all before
        int64_t terms;
    };
    static constexpr bool ignores_index = true;
    static constexpr bool kRepeats = Scale::kIsNeeded;

    bool is_centered = true;  // or the base is 0, and so is the mean
    C unit = 1;               // of a pass: a power of two by which values are multiplied

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
    BK_HD void settle(Acc& acc, int64_t terms) const {
        const int64_t all = acc.terms + terms;
        const C count = static_cast<C>(all), step = step_of(acc.base, acc.sum / math::max(count, C(1)));
        const C rest = acc.sum - count * step;
        acc = {acc.base + step, rest, 0, moved(acc.squares + acc.recent, step * (acc.sum + rest)), all};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        const C of_a = static_cast<C>(a.terms), of_b = static_cast<C>(b.terms);
        const C base_a = a.terms > 0 ? a.base : b.base, base_b = b.terms > 0 ? b.base : base_a;
        const C sum = a.sum + (b.sum + of_b * (base_b - base_a));
        const C step_a = step_of(base_a, sum / math::max(of_a + of_b, C(1))), base = base_a + step_a, step_b = base - base_b;
        const C rest_a = a.sum - of_a * step_a, rest_b = b.sum - of_b * step_b;
        return {base, rest_a + rest_b, 0,
                moved(a.squares, step_a * (a.sum + rest_a)) + moved(b.squares, step_b * (b.sum + rest_b)), a.terms + b.terms};
    }

    // The mean, and the squared deviations from it, in the unit of the pass.
    static BK_HD C mean_of(const Acc& acc) { return acc.base + mean_difference(acc); }
    static BK_HD C mean_rest_of(const Acc& acc) {  // of its rounding
        const C rest = mean_difference(acc) - (mean_of(acc) - acc.base);
        return Scale::is_finite(rest) ? rest : C(0);
    }
    BK_HD C squares_of(const Acc& acc) const {
        const C squares = is_centered ? acc.squares - acc.sum * mean_difference(acc) : acc.squares;
        return squares < C(0) ? C(0) : squares;
    }
    static BK_HD C unscaled(C x, C unit) { return Scale::unscaled(x, unit); }
    static BK_HD C unit_of(const Acc& acc) { return acc.recent == C(0) ? C(1) : acc.recent; }

    // The unit that a settled Acc of a first pass wants. `floor` is what will be added to each square.
    BK_HD C wanted(const Acc& acc, C floor) const {
        return Scale::unit_of(mean_of(acc), squares_of(acc), floor * static_cast<C>(acc.terms));
    }
    BK_HD C wanted(const Acc& acc) const { return wanted(acc, C(0)); }
    BK_HD void stamp(Acc& acc) const { acc.recent = unit == C(1) ? C(0) : unit; }

private:
    static BK_HD C mean_difference(const Acc& acc) { return acc.sum / static_cast<C>(acc.terms > 0 ? acc.terms : 1); }
    // Squares of differences from a base that has moved; of values that are not centered it never does, and sums may be
    // infinite.
    BK_HD C moved(C squares, C less) const { return is_centered ? squares - less : squares; }
    BK_HD C step_of(C base, C shift) const {
        return math::select(bool(int(is_centered) & int(Scale::is_finite(shift))), (base + shift) - base, C(0));
    }
};

// R for parts of results that have units of their own: they are combined in the coarser.
template <class R>
struct MomentParts : R {
    using typename R::Acc;
    using C = typename R::C;
    using Scale = typename R::Scale;

    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        const C of_a = R::unit_of(a), of_b = R::unit_of(b);
        // An empty part has no say.
        C unit = a.terms == 0 ? of_b : b.terms == 0 ? of_a : of_a < of_b ? of_a : of_b;
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
        return {acc.base * factor, acc.sum * factor, 0, acc.squares * factor * factor, acc.terms};
    }
};

// What combines parts of R's results.
template <class R>
BK_HD auto moment_parts(const R& reducer) {
    if constexpr (R::kRepeats)
        return MomentParts<R>{reducer};
    else
        return reducer;
}

}  // namespace bk
