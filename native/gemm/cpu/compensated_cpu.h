// SPDX-License-Identifier: Apache-2.0
// Compensated addition of partial sums: the error of a long sum is that of one partial sum, however many there are.
#pragma once

#include <cstdint>

#include "core/math/math.h"
#include "core/platform.h"

namespace bk {

// totals += partials; the partials become the rounding errors, from which the next ones start (Knuth's TwoSum).
template <class S>
BK_HD void add_compensated(S* totals, S* partials, int64_t count) {
    for (int64_t x = 0; x < count; ++x) {
        const S total = totals[x], partial = partials[x], sum = total + partial;
        const S added = sum - total, error = (total - (sum - added)) + (partial - added);
        totals[x] = sum;
        partials[x] = math::select(error == error, error, S(0));  // no error if infinite
    }
}

}  // namespace bk
