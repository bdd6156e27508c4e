// Extents of the segment ops: n rows of d columns, num_segments results.
#pragma once

#include <cstdint>

#include "core/checks.h"

namespace bk {

struct SegmentShape {
    int32_t n, d, num_segments;

    bool is_negative() const { return n < 0 || d < 0 || num_segments < 0; }

    Status check() const { return require_non_negative({{"n", n}, {"d", d}, {"num_segments", num_segments}}); }
};

}  // namespace bk
