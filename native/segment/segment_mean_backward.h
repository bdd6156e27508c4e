// SPDX-License-Identifier: Apache-2.0
// Gradient of segment mean: d_input[i] = d_output[id] / number of rows of the segment.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/pointwise/pointwise.h"
#include "segment/segment_counts.h"

namespace bk {

template <bool kSorted, class T>
Status segment_mean_backward(const Launch& launch, const SegmentShape& shape, const T* d_output, IdArray ids, T* d_input);

template <bool kSorted, class T, class I>
struct SegmentMeanBackward {
    int32_t n;
    int32_t d;
    int32_t num_segments;

    Work work() const { return shape().backward_work(); }
    Status check() const { return shape().check(); }
    size_t workspace_size() const { return counts_bytes(shape()); }
    Status run(const T* d_output, const I* segment_ids, T* d_input, const Launch& launch) const {
        if (work() == Work::kZeros) return write_zeros(launch, int64_t{n} * d, d_input);
        return segment_mean_backward<kSorted>(launch, shape(), d_output, IdArray(segment_ids), d_input);
    }

private:
    SegmentShape shape() const { return {n, d, num_segments}; }
};

}  // namespace bk
