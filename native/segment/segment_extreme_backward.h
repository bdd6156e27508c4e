// SPDX-License-Identifier: Apache-2.0
// Gradient of segment max and min: it goes to the first row with the extreme, or the first NaN.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/pointwise/pointwise.h"
#include "segment/segment_shape.h"

namespace bk {

template <class T>
struct ExtremeOperands {
    const T* d_output;
    const T* input;
    IdArray ids;
    T* d_input;
};

template <bool kSorted, class T>
size_t segment_extreme_backward_workspace(const SegmentShape& shape);

template <bool kSorted, class T>
Status segment_extreme_backward(const Launch& launch, const SegmentShape& shape, const Order<T>& order,
                                const ExtremeOperands<T>& operands);

template <SegmentReduction kReduction, bool kSorted, class T, class I>
struct SegmentExtremeBackward {
    int32_t n;
    int32_t d;
    int32_t num_segments;

    Work work() const { return shape().backward_work(); }
    Status check() const { return shape().check(); }
    size_t workspace_size() const { return segment_extreme_backward_workspace<kSorted, T>(shape()); }
    Status run(const T* d_output, const T* input, const I* segment_ids, T* d_input, const Launch& launch) const {
        if (work() == Work::kZeros) return write_zeros(launch, int64_t{n} * d, d_input);
        return segment_extreme_backward<kSorted>(launch, shape(), Order<T>::of(kReduction == SegmentReduction::kMax),
                                                 ExtremeOperands<T>{d_output, input, IdArray(segment_ids), d_input});
    }

private:
    SegmentShape shape() const { return {n, d, num_segments}; }
};

}  // namespace bk
