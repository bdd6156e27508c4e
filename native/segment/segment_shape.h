// Extents of the segment ops, n rows of d columns and num_segments results, and their reductions.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/rows/folds.h"

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

enum class SegmentFold { kSum, kMean, kProd, kMax, kMin, kMaxOrZero, kMinOrZero };

template <SegmentFold kReduction, class T>
auto reduction_of() {
    if constexpr (kReduction == SegmentFold::kProd)
        return ProductFold<T>{};
    else if constexpr (kReduction == SegmentFold::kMax || kReduction == SegmentFold::kMin)
        return ExtremeFold<T>{Order<T>::of(kReduction == SegmentFold::kMax)};
    else if constexpr (kReduction == SegmentFold::kMaxOrZero || kReduction == SegmentFold::kMinOrZero)
        return ExtremeFold<T>{Order<T>::of(kReduction == SegmentFold::kMaxOrZero), true};
    else
        return SumFold<T>(kReduction == SegmentFold::kMean);
}

}  // namespace bk
