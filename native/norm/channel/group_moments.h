// SPDX-License-Identifier: Apache-2.0
// Mean and 1 / sqrt(variance + eps) of groups, or their root mean square, in one pass.
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

    // The statistic is 1 / stddev if is_centered, else the root mean square.
    static GroupMoments of(double eps, bool is_centered = true) { return {{is_centered}, static_cast<C>(eps)}; }

    BK_HD auto combiner() const { return moment_combiner(*this); }
    BK_HD C wanted(const Acc& acc) const { return Moments<T>::wanted(acc, eps); }
    BK_HD Pack<C, C, C, C> finish(const Acc& acc, int64_t count) const {
        const C unit = this->unit_of(acc), mean = this->unscaled(this->mean_of(acc), unit), stddev = stddev_of(acc, count);
        const C statistic = this->is_centered ? unit / stddev : this->unscaled(stddev, unit);
        return pack(mean, statistic, mean, statistic);
    }

protected:
    // sqrt(variance + eps) times the unit of the pass.
    BK_HD C stddev_of(const Acc& acc, int64_t count) const {
        return StdDev<T>::of(this->squares_of(acc) / static_cast<C>(count), eps, this->unit_of(acc));
    }
};

// Operands: x, then mean and statistic in compute_t<T>, then both in T; any of the four may be null.
using GroupMomentAxes = ReduceAxes<1, 4>;

template <class T>
size_t group_moments_workspace(const GroupMomentAxes& axes) {
    return reduce_workspace<GroupMoments<T>, T>(axes);
}

}  // namespace bk
