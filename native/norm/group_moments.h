// Mean and 1 / sqrt(variance + eps) of groups, or the root of their mean square, in one pass.
#pragma once

#include <cstdint>

#include "core/math/math.h"
#include "core/reduce/reduce.h"

namespace bk {

// Terms are taken relative to the mean of those before them, which settle() moves (Chan, Golub and LeVeque 1983). An infinity
// leaves the mean where it is, and makes the sum infinite and the variance NaN.
template <class T>
struct GroupMoments {
    using C = compute_t<T>;
    struct Acc {
        C mean;     // of the `terms`
        C sum;      // of what the terms since then differ from it
        C squares;  // of the differences from the mean, of all
        int64_t terms;
    };
    static constexpr bool ignores_index = true;

    C eps;
    bool is_centered = true;  // or the mean is 0, and the result sqrt(mean square + eps)

    static BK_HD bool is_finite(C x) { return math::fabs<T>(x) < C(INFINITY); }
    BK_HD Acc identity() const { return {0, 0, 0, 0}; }
    BK_HD Acc start(C x) const { return {is_centered && is_finite(x) ? x : C(0), 0, 0, 0}; }
    BK_HD void add(Acc& acc, int64_t, C x) const {
        const C difference = x - acc.mean;
        acc.sum += difference;
        acc.squares += difference * difference;
    }
    BK_HD void settle(Acc& acc, int64_t terms) const {
        const int64_t all = acc.terms + terms;
        if (!is_centered) {
            acc = {0, 0, acc.squares, all};
            return;
        }
        const C shift = acc.sum / static_cast<C>(all > 0 ? all : 1);
        if (is_finite(shift))
            acc = {acc.mean + shift, 0, acc.squares - acc.sum * shift, all};
        else
            acc = {acc.mean, acc.sum, acc.sum - acc.sum, all};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        const C of_a = static_cast<C>(a.terms), of_b = static_cast<C>(b.terms);
        const C difference = a.terms > 0 && b.terms > 0 ? b.mean - a.mean : C(0);
        const C share = a.terms == b.terms ? C(0.5) : of_b / math::max(of_a + of_b, C(1));
        return {(a.terms > 0 ? a.mean : b.mean) + difference * share, a.sum + b.sum,
                a.squares + b.squares + difference * difference * (of_a * share), a.terms + b.terms};
    }
    BK_HD Pack<C, C, C, C> finish(const Acc& acc, int64_t count) const {
        const C variance = (acc.squares < C(0) ? C(0) : acc.squares) / static_cast<C>(count);
        const C mean = acc.mean + acc.sum / static_cast<C>(count), spread = math::sqrt<C>(variance + eps);
        const C statistic = is_centered ? C(1) / spread : spread;
        return pack(mean, statistic, mean, statistic);
    }
};

// x, then the mean and the other statistic in the compute type and in that of x; any of the four may be null.
using GroupMomentAxes = ReduceAxes<1, 4>;

template <class T>
size_t group_moments_workspace(const GroupMomentAxes& axes) {
    return reduce_workspace<GroupMoments<T>, T>(axes);
}

}  // namespace bk
