// Copies of elements by their bytes: strided ones, and ones whose source is found by a map of each axis. The kernels are
// compiled once for each width and serve every op and element type (copies.cu, copies_cpu.cpp).
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/math/fastdiv.h"
#include "core/platform.h"
#include "core/pointwise/layout.h"
#include "core/types/complex.h"

namespace bk {

// Of the elements of y, then of x. A repeat of rank 8 has 16 axes.
using CopyLayout = Layout<2, 2 * kMaxRank>;

// y = x, elements of `bytes` bytes: 1, 2, 4, 8, or 16, which are aligned as 8. x may stand still along an axis.
Status copy_strided(const Launch& launch, const CopyLayout& layout, int bytes, const void* x, void* y);

// What an element of y is whose index lies outside of x.
enum class Beyond { kValue, kReflect, kReplicate, kCircular };

// y has `extent` elements along the axis and x `source`. Index i of x is index i + low of y.
struct MappedAxis {
    int64_t extent = 1, source = 1, low = 0;
    int64_t stride_y = 0, stride_x = 0;
    int64_t slope = 0;  // of the band
    int band = 0;       // which one

    bool is_plain() const { return low == 0 && extent == source; }
};

constexpr int kMostBands = 3;

// Places c for which the sum of slope * c over the band's axes is in [least, most].
struct Band {
    int64_t least = -kMostBytes, most = kMostBytes;

    BK_HD bool has(int64_t sum) const { return sum >= least && sum <= most; }
};

// y[c] = x[c - low], or as `beyond` says where that is outside of x: `value`; x mirrored at its first and last element, as
// often as it takes; the element at the edge; x over and over. Outside of any band y is `value`; with axes in two bands
// `beyond` is kValue.
//
// With a `start`, a number in the memory of the device, y's index along the axis `moved` is start[0] more, and elements whose
// index is not in [0, limit) are not written.
struct MappedCopy {
    Beyond beyond = Beyond::kValue;
    uint64_t value = 0;       // its lowest bytes count
    uint64_t value_high = 0;  // of elements of 16 bytes the second half
    int rank = 0;
    MappedAxis axis[kMaxRank];
    Band band[kMostBands];
    const int64_t* start = nullptr;
    int moved = 0;
    int64_t limit = 0;
};

// Elements of `bytes` bytes, as copy_strided has them. Along every axis x has an element, or `beyond` is kValue.
Status copy_mapped(const Launch& launch, const MappedCopy& copy, int bytes, const void* x, void* y);

// Elements of 16 bytes as pairs of elements of 8: copy(layout, x, y) of the pairs, or of one half after the other where the
// layout has no room for one more axis.
template <class Copy>
Status copy_in_halves(CopyLayout layout, const void* x, void* y, const Copy& copy) {
    for (int d = 0; d < layout.rank; ++d) layout.stride[0][d] *= 2, layout.stride[1][d] *= 2;
    if (layout.rank < 2 * kMaxRank) {
        layout.append(2, {1, 1});
        return copy(layout, x, y);
    }
    BK_TRY(copy(layout, x, y));
    return copy(layout, static_cast<const char*>(x) + 8, static_cast<char*>(y) + 8);
}

// A mapped copy of elements of 16 bytes, whose halves also differ in their value.
template <class Copy>
Status copy_in_halves(MappedCopy given, const void* x, void* y, const Copy& copy) {
    for (int d = 0; d < given.rank; ++d) given.axis[d].stride_y *= 2, given.axis[d].stride_x *= 2;
    if (given.rank < kMaxRank && given.value == given.value_high) {
        given.axis[given.rank++] = {2, 2, 0, 1, 1};
        return copy(given, x, y);
    }
    BK_TRY(copy(given, x, y));
    given.value = given.value_high;
    return copy(given, static_cast<const char*>(x) + 8, static_cast<char*>(y) + 8);
}

// The copy with few axes, in the order of y's memory: those that can be crossed as one are.
struct MappedPlan {
    MappedCopy copy;
    int64_t start_unit = 1;  // steps along the axis `moved` for one of the start
    int64_t numel = 1;
    int bands = 0;  // that an axis is in, be it one of a single element, which the copy lacks
};

namespace mapped {

inline bool merges(const MappedCopy& copy, const MappedAxis& outer, const MappedAxis& inner) {
    constexpr int64_t kMost = int64_t{1} << 30;  // so that indices stay short
    const bool linear = copy.beyond == Beyond::kValue || copy.beyond == Beyond::kCircular || outer.is_plain();
    return linear && inner.is_plain() && outer.slope == 0 && inner.slope == 0 &&
           outer.stride_y == inner.extent * inner.stride_y && outer.stride_x == inner.extent * inner.stride_x &&
           inner.extent <= kMost && outer.extent <= kMost / inner.extent && outer.source <= kMost / inner.extent &&
           magnitude(outer.low) <= kMost / inner.extent;
}

}  // namespace mapped

BK_COLD inline MappedPlan plan_mapped(const MappedCopy& given) {
    MappedPlan plan;
    plan.copy = given;
    MappedCopy& copy = plan.copy;
    int order[kMaxRank], count = 0;
    for (int d = 0; d < given.rank; ++d) {
        plan.numel *= given.axis[d].extent;
        if (given.axis[d].slope != 0) plan.bands = std::max(plan.bands, given.axis[d].band + 1);
        const bool is_moved = given.start != nullptr && given.moved == d;
        if (given.axis[d].extent == 1 && given.axis[d].is_plain() && !is_moved) continue;
        int at = count++;
        for (; at > 0 && magnitude(given.axis[order[at - 1]].stride_y) < magnitude(given.axis[d].stride_y); --at)
            order[at] = order[at - 1];
        order[at] = d;
    }
    copy.rank = 0;
    copy.moved = -1;
    for (int k = 0; k < count; ++k) {
        const MappedAxis& axis = given.axis[order[k]];
        const bool is_moved = given.start != nullptr && given.moved == order[k];
        if (copy.rank > 0 && !is_moved && mapped::merges(copy, copy.axis[copy.rank - 1], axis)) {
            MappedAxis& outer = copy.axis[copy.rank - 1];
            outer.extent *= axis.extent, outer.source *= axis.extent, outer.low *= axis.extent;
            outer.stride_y = axis.stride_y, outer.stride_x = axis.stride_x;
            if (copy.moved == copy.rank - 1) plan.start_unit *= axis.extent, copy.limit *= axis.extent;
            continue;
        }
        if (is_moved) copy.moved = copy.rank;
        copy.axis[copy.rank++] = axis;
    }
    if (copy.rank == 0) copy.rank = 1, copy.axis[0] = MappedAxis{};
    return plan;
}

// Where along an axis of x the elements are that y's have. Index is unsigned, and period + phase + extent fit its signed form.
template <class Index>
struct AxisMap {
    FastDiv<Index> period;
    Index phase = 0, source = 1;
    int64_t low = 0;
    Beyond beyond = Beyond::kValue;

    AxisMap() = default;
    AxisMap(const MappedAxis& axis, Beyond outside) : source(static_cast<Index>(axis.source)), low(axis.low) {
        beyond = axis.is_plain() ? Beyond::kValue : outside;
        int64_t every = 1;
        if (beyond == Beyond::kReflect) every = axis.source > 1 ? 2 * (axis.source - 1) : 1;
        if (beyond == Beyond::kCircular) every = axis.source;
        period = FastDiv<Index>(every);
        phase = static_cast<Index>((-axis.low % every + every) % every);
    }

    // -1 where there is none.
    BK_HD int64_t operator()(Index i) const {
        if (beyond == Beyond::kValue || beyond == Beyond::kReplicate) {
            const int64_t at = static_cast<int64_t>(i) - low, last = static_cast<int64_t>(source) - 1;
            if (beyond == Beyond::kReplicate) return at < 0 ? 0 : at > last ? last : at;
            return at < 0 || at > last ? -1 : at;
        }
        const Index at = period(i + phase).remainder;
        return static_cast<int64_t>(at < source ? at : period.divisor() - at);
    }
};

}  // namespace bk
