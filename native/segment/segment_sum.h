// Sums of consecutive rows: output[s] = sum of input[i] over segment_ids[i] == s, ids non-decreasing.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/pointwise/pointwise.h"
#include "segment/segment_shape.h"

namespace bk {

template <class T, class I>
size_t segment_sum_workspace(const SegmentShape& shape);

template <class T, class I>
Status segment_sum(const Launch& launch, const SegmentShape& shape, const T* input, const I* segment_ids, T* output);

template <class T, class I>
struct SegmentSum {
    int32_t n;
    int32_t d;
    int32_t num_segments;

    Work work() const { return shape().work(); }
    Status check() const { return shape().check(); }
    size_t workspace_size() const { return segment_sum_workspace<T, I>(shape()); }
    Status run(const T* input, const I* segment_ids, T* output, const Launch& launch) const {
        if (work() == Work::kZeros) return write_zeros(launch, int64_t{num_segments} * d, output);
        return segment_sum(launch, shape(), input, segment_ids, output);
    }

private:
    SegmentShape shape() const { return {n, d, num_segments}; }
};

}  // namespace bk
