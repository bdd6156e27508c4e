// Sums of rows by id: output[s] = sum of input[i] over segment_ids[i] == s, ids in any order.
#pragma once

#include <cstdint>

#include "core/checks.h"
#include "core/launch.h"
#include "segment/segment_shape.h"

namespace bk {

template <class T, class I>
size_t unsorted_segment_sum_workspace(const SegmentShape& shape);

template <class T, class I>
Status unsorted_segment_sum(const Launch& launch, const SegmentShape& shape, const T* input, const I* segment_ids, T* output);

template <class T, class I>
struct UnsortedSegmentSum {
    int32_t n;
    int32_t d;
    int32_t num_segments;

    int64_t count() const {
        if (shape().is_negative()) return -1;
        return d == 0 || (n == 0 && num_segments == 0) ? 0 : 1;
    }
    Status check() const { return shape().check(); }
    size_t workspace_size() const { return num_segments > 0 ? unsorted_segment_sum_workspace<T, I>(shape()) : 0; }
    Status run(const T* input, const I* segment_ids, T* output, const Launch& launch) const {
        if (num_segments > 0) BK_TRY(require_pointers({{"output", output}}));
        if (n > 0) BK_TRY(require_pointers({{"input", input}, {"segment_ids", segment_ids}}));
        return num_segments > 0 ? unsorted_segment_sum(launch, shape(), input, segment_ids, output) : Status::kOk;
    }

private:
    SegmentShape shape() const { return {n, d, num_segments}; }
};

}  // namespace bk
