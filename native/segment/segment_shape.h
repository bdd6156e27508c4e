// Extents of the segment ops: n rows of d columns, num_segments results; and how rows are collected.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/rows/folds.h"

namespace bk {

struct SegmentShape {
    int32_t n, d, num_segments;

    // Of the forward ops: without rows every segment is empty, which its fold has a value for.
    Work forward_work() const { return num_segments == 0 || d == 0 ? Work::kNone : n == 0 ? Work::kZeros : Work::kAll; }
    // Of the gradients: without segments every id is out of range.
    Work backward_work() const { return n == 0 || d == 0 ? Work::kNone : num_segments == 0 ? Work::kZeros : Work::kAll; }

    Status check() const { return require_non_negative({{"n", n}, {"d", d}, {"num_segments", num_segments}}); }
    BK_HD bool has(int64_t id) const { return id >= 0 && id < num_segments; }
};

enum class SegmentFold { kSum, kMean, kProd, kMax, kMin, kMaxOrZero, kMinOrZero };

template <SegmentFold kFold, class T>
auto fold_of() {
    if constexpr (kFold == SegmentFold::kProd)
        return ProductFold<T>{};
    else if constexpr (kFold == SegmentFold::kMax || kFold == SegmentFold::kMin)
        return ExtremeFold<T>{Order<T>::of(kFold == SegmentFold::kMax)};
    else if constexpr (kFold == SegmentFold::kMaxOrZero || kFold == SegmentFold::kMinOrZero)
        return ExtremeFold<T>{Order<T>::of(kFold == SegmentFold::kMaxOrZero), true};
    else
        return SumFold<T>(kFold == SegmentFold::kMean);
}

}  // namespace bk
