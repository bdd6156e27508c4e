// SPDX-License-Identifier: Apache-2.0
// Segment reductions: output[s] = reduction of input[i] over segment_ids[i] == s, for sorted ids and for ids in any
// order.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/pointwise/pointwise.h"
#include "segment/segment_shape.h"

namespace bk {

template <class Reduce, class T>
size_t segment_reduce_workspace(const SegmentShape& shape, const Reduce& reduction);

template <class Reduce, class T>
Status segment_reduce(const Launch& launch, const SegmentShape& shape, const Reduce& reduction, const T* input, IdArray ids,
                      T* output);

template <class Reduce, class T>
size_t unsorted_segment_reduce_workspace(const SegmentShape& shape, const Reduce& reduction);

template <class Reduce, class T>
Status unsorted_segment_reduce(const Launch& launch, const SegmentShape& shape, const Reduce& reduction, const T* input,
                               IdArray ids, T* output);

// The value of a segment without rows.
template <class T>
struct EmptySegment {
    compute_t<T> value;
    BK_HD compute_t<T> operator()() const { return value; }
};

template <class Reduce, class T>
Status write_empty(const Launch& launch, const SegmentShape& shape, const Reduce& reduction, T* output) {
    return pointwise(launch, int64_t{shape.num_segments} * shape.d,
                     EmptySegment<T>{widen(reduction.finish(reduction.identity(), 0))}, outputs(output), inputs());
}

template <SegmentReduction kReduction, class T, class I>
struct SegmentReduce {
    int32_t n;
    int32_t d;
    int32_t num_segments;

    Work work() const { return shape().forward_work(); }
    Status check() const { return shape().check(); }
    size_t workspace_size() const { return segment_reduce_workspace<decltype(reduction()), T>(shape(), reduction()); }
    Status run(const T* input, const I* segment_ids, T* output, const Launch& launch) const {
        if (work() == Work::kZeros) return write_empty(launch, shape(), reduction(), output);
        return segment_reduce(launch, shape(), reduction(), input, IdArray(segment_ids), output);
    }

private:
    SegmentShape shape() const { return {n, d, num_segments}; }
    static auto reduction() { return reduction_of<kReduction, T>(); }
};

template <SegmentReduction kReduction, class T, class I>
struct UnsortedSegmentReduce {
    int32_t n;
    int32_t d;
    int32_t num_segments;

    Work work() const { return shape().forward_work(); }
    Status check() const { return shape().check(); }
    size_t workspace_size() const { return unsorted_segment_reduce_workspace<decltype(reduction()), T>(shape(), reduction()); }
    Status run(const T* input, const I* segment_ids, T* output, const Launch& launch) const {
        if (work() == Work::kZeros) return write_empty(launch, shape(), reduction(), output);
        return unsorted_segment_reduce(launch, shape(), reduction(), input, IdArray(segment_ids), output);
    }

private:
    SegmentShape shape() const { return {n, d, num_segments}; }
    static auto reduction() { return reduction_of<kReduction, T>(); }
};

}  // namespace bk
