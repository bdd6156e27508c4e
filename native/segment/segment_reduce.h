// Folds of rows by id: output[s] = the fold of input[i] over segment_ids[i] == s. Of sorted ids, and of ids in any
// order.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/pointwise/pointwise.h"
#include "segment/segment_shape.h"

namespace bk {

template <class Fold, class T>
size_t segment_fold_workspace(const SegmentShape& shape, const Fold& fold);

template <class Fold, class T>
Status segment_fold(const Launch& launch, const SegmentShape& shape, const Fold& fold, const T* input, IdArray ids, T* output);

template <class Fold, class T>
size_t unsorted_segment_fold_workspace(const SegmentShape& shape, const Fold& fold);

template <class Fold, class T>
Status unsorted_segment_fold(const Launch& launch, const SegmentShape& shape, const Fold& fold, const T* input, IdArray ids,
                             T* output);

// What a segment without rows has.
template <class T>
struct EmptySegment {
    compute_t<T> value;
    BK_HD compute_t<T> operator()() const { return value; }
};

template <class Fold, class T>
Status write_empty(const Launch& launch, const SegmentShape& shape, const Fold& fold, T* output) {
    return pointwise(launch, int64_t{shape.num_segments} * shape.d, EmptySegment<T>{widen(fold.finish(fold.identity(), 0))},
                     outputs(output), inputs());
}

template <SegmentFold kFold, class T, class I>
struct SegmentReduce {
    int32_t n;
    int32_t d;
    int32_t num_segments;

    Work work() const { return shape().forward_work(); }
    Status check() const { return shape().check(); }
    size_t workspace_size() const { return segment_fold_workspace<decltype(fold()), T>(shape(), fold()); }
    Status run(const T* input, const I* segment_ids, T* output, const Launch& launch) const {
        if (work() == Work::kZeros) return write_empty(launch, shape(), fold(), output);
        return segment_fold(launch, shape(), fold(), input, IdArray(segment_ids), output);
    }

private:
    SegmentShape shape() const { return {n, d, num_segments}; }
    static auto fold() { return fold_of<kFold, T>(); }
};

template <SegmentFold kFold, class T, class I>
struct UnsortedSegmentReduce {
    int32_t n;
    int32_t d;
    int32_t num_segments;

    Work work() const { return shape().forward_work(); }
    Status check() const { return shape().check(); }
    size_t workspace_size() const { return unsorted_segment_fold_workspace<decltype(fold()), T>(shape(), fold()); }
    Status run(const T* input, const I* segment_ids, T* output, const Launch& launch) const {
        if (work() == Work::kZeros) return write_empty(launch, shape(), fold(), output);
        return unsorted_segment_fold(launch, shape(), fold(), input, IdArray(segment_ids), output);
    }

private:
    SegmentShape shape() const { return {n, d, num_segments}; }
    static auto fold() { return fold_of<kFold, T>(); }
};

}  // namespace bk
