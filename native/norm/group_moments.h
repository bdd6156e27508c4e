// Mean and 1 / sqrt(variance + eps) of groups, or the root of their mean square, in one pass.
#pragma once

#include <cstdint>

#include "core/math/math.h"
#include "core/reduce/moments.h"
#include "core/reduce/reduce.h"

namespace bk {

template <class T>
struct GroupMoments : Moments<T> {
    using typename Moments<T>::C;
    using typename Moments<T>::Acc;

    C eps;

    // The result is 1 / spread of centered values, the spread of others.
    static GroupMoments of(double eps, bool is_centered = true) { return {{is_centered}, static_cast<C>(eps)}; }

    BK_HD auto parts() const { return moment_parts(*this); }
    BK_HD C wanted(const Acc& acc) const { return Moments<T>::wanted(acc, eps); }
    BK_HD Pack<C, C, C, C> finish(const Acc& acc, int64_t count) const {
        const C unit = this->unit_of(acc), mean = this->unscaled(this->mean_of(acc), unit), spread = spread_of(acc, count);
        const C statistic = this->is_centered ? unit / spread : this->unscaled(spread, unit);
        return pack(mean, statistic, mean, statistic);
    }

protected:
    // sqrt(variance + eps) in the unit of the pass.
    BK_HD C spread_of(const Acc& acc, int64_t count) const {
        return Spread<T>::of(this->squares_of(acc) / static_cast<C>(count), eps, this->unit_of(acc));
    }
};

// x, then the mean and the other statistic in the compute type and in that of x; any of the four may be null.
using GroupMomentAxes = ReduceAxes<1, 4>;

template <class T>
size_t group_moments_workspace(const GroupMomentAxes& axes) {
    return reduce_workspace<GroupMoments<T>, T>(axes);
}

}  // namespace bk
