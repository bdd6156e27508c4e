// Extents of the segment ops: n rows of d columns, num_segments results.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"

namespace bk {

struct SegmentShape {
    int32_t n, d, num_segments;

    // Of both forward sums.
    Work work() const { return num_segments == 0 || d == 0 ? Work::kNone : n == 0 ? Work::kZeros : Work::kAll; }

    Status check() const { return require_non_negative({{"n", n}, {"d", d}, {"num_segments", num_segments}}); }
};

}  // namespace bk
