// SPDX-License-Identifier: Apache-2.0
// Gradient of segment sum: a row gather, d_input[i] = d_output[segment_ids[i]], 0 for an id out of range.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/gather/gather_rows.h"
#include "core/pointwise/pointwise.h"
#include "segment/segment_shape.h"

namespace bk {

template <class T, class I>
struct SegmentSumBackward {
    int32_t n;
    int32_t d;
    int32_t num_segments;

    Work work() const { return shape().backward_work(); }
    Status check() const { return shape().check(); }
    Status run(const T* d_output, const I* segment_ids, T* d_input, const Launch& launch) const {
        if (work() == Work::kZeros) return write_zeros(launch, int64_t{n} * d, d_input);
        return gather_rows(launch, GatherShape{n, d, num_segments}, d_output, segment_ids, d_input);
    }

private:
    SegmentShape shape() const { return {n, d, num_segments}; }
};

}  // namespace bk
