// SPDX-License-Identifier: Apache-2.0
// Copies of elements by their bytes: strided, or through a map of each axis (pad, roll, flip, triangle, slice). Kernels
// are compiled once per element width and serve every op and dtype (copies.cu, copies_cpu.cpp).
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/layout/layout.h"
#include "core/math/fastdiv.h"
#include "core/platform.h"
#include "core/types/complex.h"

namespace bk {

// Strides of y, then of x. A repeat of rank 8 has 16 axes.
using CopyLayout = Layout<2, 2 * kMaxRank>;

// y = x. `bytes` of an element: 1, 2, 4, 8, or 16, which is aligned to 8. x may have stride 0 along an axis.
Status copy_strided(const Launch& launch, const CopyLayout& layout, int bytes, const void* x, void* y);

// Value of y where its index maps outside x.
enum class PadMode { kConstant, kReflect, kReplicate, kCircular };

// y has `extent` elements along the axis and x `source`; index i of x is index i + low of y.
struct MappedAxis {
    int64_t extent = 1, source = 1, low = 0;
    int64_t stride_y = 0, stride_x = 0;
    int64_t slope = 0;  // coefficient in the band's sum
    int band = 0;       // index of that band

    bool is_plain() const { return low == 0 && extent == source; }
};

constexpr int kMaxBands = 3;

// Constraint least <= sum of slope * c over the band's axes <= most, which selects diagonals and windows.
struct DiagonalBand {
    int64_t least = -kMaxOperandBytes, most = kMaxOperandBytes;

    BK_HD bool has(int64_t sum) const { return sum >= least && sum <= most; }
};

// y[c] = x[c - low], or by pad_mode where c - low is outside x: kConstant `value`; kReflect mirrors at the first and
// last element, repeatedly; kReplicate repeats the edge; kCircular wraps. y is `value` outside any band; with axes in
// two bands pad_mode is kConstant.
//
// With `start`, a device pointer, y's index along start_axis is offset by *start, and elements whose index is not in
// [0, limit) are not written.
struct MappedCopy {
    PadMode pad_mode = PadMode::kConstant;
    uint64_t value = 0;       // lowest `bytes` bytes
    uint64_t value_high = 0;  // upper half for 16-byte elements
    int rank = 0;
    MappedAxis axis[kMaxRank];
    DiagonalBand band[kMaxBands];
    const int64_t* start = nullptr;
    int start_axis = 0;
    int64_t limit = 0;
};

// `bytes` as for copy_strided. x is not empty along any axis, or pad_mode is kConstant.
Status copy_mapped(const Launch& launch, const MappedCopy& copy, int bytes, const void* x, void* y);

// Copies 16-byte elements as pairs of 8-byte ones: copy(layout, x, y) of the pairs or, if the layout has no axis to
// spare, of each half in turn.
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

// The 16-byte form of a mapped copy; the halves of its value may differ.
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

// The copy with axes sorted by y's strides and merged where one stride crosses both.
struct MappedPlan {
    MappedCopy copy;
    int64_t start_unit = 1;  // steps along start_axis for one unit of *start
    int64_t numel = 1;
    int bands = 0;  // bands that any axis is in, dropped axes of extent 1 included
};

namespace mapped {

inline bool merges(const MappedCopy& copy, const MappedAxis& outer, const MappedAxis& inner) {
    constexpr int64_t kMost = int64_t{1} << 30;  // keeps indices within 32 bits
    const bool linear = copy.pad_mode == PadMode::kConstant || copy.pad_mode == PadMode::kCircular || outer.is_plain();
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
        const bool has_start = given.start != nullptr && given.start_axis == d;
        if (given.axis[d].extent == 1 && given.axis[d].is_plain() && !has_start) continue;
        int at = count++;
        for (; at > 0 && magnitude(given.axis[order[at - 1]].stride_y) < magnitude(given.axis[d].stride_y); --at)
            order[at] = order[at - 1];
        order[at] = d;
    }
    copy.rank = 0;
    copy.start_axis = -1;
    for (int k = 0; k < count; ++k) {
        const MappedAxis& axis = given.axis[order[k]];
        const bool has_start = given.start != nullptr && given.start_axis == order[k];
        if (copy.rank > 0 && !has_start && mapped::merges(copy, copy.axis[copy.rank - 1], axis)) {
            MappedAxis& outer = copy.axis[copy.rank - 1];
            outer.extent *= axis.extent, outer.source *= axis.extent, outer.low *= axis.extent;
            outer.stride_y = axis.stride_y, outer.stride_x = axis.stride_x;
            if (copy.start_axis == copy.rank - 1) plan.start_unit *= axis.extent, copy.limit *= axis.extent;
            continue;
        }
        if (has_start) copy.start_axis = copy.rank;
        copy.axis[copy.rank++] = axis;
    }
    if (copy.rank == 0) copy.rank = 1, copy.axis[0] = MappedAxis{};
    return plan;
}

// Index of x for an index of y along one axis. Index is unsigned; period + phase + extent fit its signed form.
template <class Index>
struct AxisMap {
    FastDiv<Index> period;
    Index phase = 0, source = 1;
    int64_t low = 0;
    PadMode pad_mode = PadMode::kConstant;

    AxisMap() = default;
    AxisMap(const MappedAxis& axis, PadMode outside) : source(static_cast<Index>(axis.source)), low(axis.low) {
        pad_mode = axis.is_plain() ? PadMode::kConstant : outside;
        int64_t every = 1;
        if (pad_mode == PadMode::kReflect) every = axis.source > 1 ? 2 * (axis.source - 1) : 1;
        if (pad_mode == PadMode::kCircular) every = axis.source;
        period = FastDiv<Index>(every);
        phase = static_cast<Index>((-axis.low % every + every) % every);
    }

    // Returns -1 if there is none.
    BK_HD int64_t operator()(Index i) const {
        if (pad_mode == PadMode::kConstant || pad_mode == PadMode::kReplicate) {
            const int64_t at = static_cast<int64_t>(i) - low, last = static_cast<int64_t>(source) - 1;
            if (pad_mode == PadMode::kReplicate) return at < 0 ? 0 : at > last ? last : at;
            return at < 0 || at > last ? -1 : at;
        }
        const Index at = period(i + phase).remainder;
        return static_cast<int64_t>(at < source ? at : period.divisor() - at);
    }
};

}  // namespace bk
