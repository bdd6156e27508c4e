// SPDX-License-Identifier: Apache-2.0
// Extents of the segment ops, n rows of d columns and num_segments results, and their reductions.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/segmented/reduce_ops.h"

namespace bk {

struct SegmentShape {
    int32_t n, d, num_segments;

    // Forward: without rows every segment gets its reduction's value for none.
    Work forward_work() const { return num_segments == 0 || d == 0 ? Work::kNone : n == 0 ? Work::kZeros : Work::kAll; }
    // Gradients: without segments every id is out of range.
    Work backward_work() const { return n == 0 || d == 0 ? Work::kNone : num_segments == 0 ? Work::kZeros : Work::kAll; }

    Status check() const { return require_non_negative({{"n", n}, {"d", d}, {"num_segments", num_segments}}); }
    BK_HD bool has(int64_t id) const { return id >= 0 && id < num_segments; }
};

enum class SegmentReduction { kSum, kMean, kProd, kMax, kMin, kMaxOrZero, kMinOrZero };

template <SegmentReduction kReduction, class T>
auto reduction_of() {
    if constexpr (kReduction == SegmentReduction::kProd)
        return ProductOp<T>{};
    else if constexpr (kReduction == SegmentReduction::kMax || kReduction == SegmentReduction::kMin)
        return ExtremumOp<T>{Order<T>::of(kReduction == SegmentReduction::kMax)};
    else if constexpr (kReduction == SegmentReduction::kMaxOrZero || kReduction == SegmentReduction::kMinOrZero)
        return ExtremumOp<T>{Order<T>::of(kReduction == SegmentReduction::kMaxOrZero), true};
    else
        return SumOp<T>(kReduction == SegmentReduction::kMean);
}

}  // namespace bk
