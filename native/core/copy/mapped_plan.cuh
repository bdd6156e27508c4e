// SPDX-License-Identifier: Apache-2.0
// Launch argument of the mapped-copy kernels, and the map from an element of y to its source in x.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/copy/copies.h"
#include "core/copy/unaligned_vectors.cuh"
#include "core/types/vec.h"

namespace bk {

constexpr int kMappedThreads = 256;

template <class Index>
struct MappedKernelAxis {
    FastDiv<Index> extent;
    AxisMap<Index> map;
    int64_t stride_y = 0, stride_x = 0;
    int64_t slope = 0;
    int band = 0;
};

// Axes are ordered by y's strides, the fastest first.
template <class Index>
struct MappedKernelPlan {
    MappedKernelAxis<Index> axis[kMaxRank];
    int rank = 0;
    Index numel = 0;
    uint64_t value = 0;
    bool vectors = false;  // y can be stored by aligned vectors
    bool dense = false;    // y is row-major without gaps
    bool by_rows = false;  // `vectors`, and every row is whole vectors and as long as x's
    AddressRange reach;    // of x, gaps included
    int bands = 0;
    DiagonalBand band[kMaxBands];
    const int64_t* start = nullptr;
    int start_axis = 0;
    int64_t unit = 1, limit = 0;  // in units of the merged axis of `start`
};

// Offset of a row of y, and of its source row in x if `exists`.
struct MappedRow {
    int64_t y = 0, x = 0;
    int64_t band[kMaxBands] = {};
    bool exists = true, written = true;
};

// Decodes element i of y into its row and `along`, its index in the row. `start` offsets axis start_axis.
template <class Index>
BK_DEVICE MappedRow mapped_row(const MappedKernelPlan<Index>& plan, Index i, int64_t start, Index* along) {
    MappedRow row;
    *along = i;
#pragma unroll
    for (int d = 0; d < kMaxRank; ++d) {
        if (d >= plan.rank) break;
        const auto& axis = plan.axis[d];
        Index index = i;
        if (d + 1 < plan.rank) {
            const DivMod<Index> split = axis.extent(i);
            index = split.remainder;
            i = split.quotient;
        }
        const bool is_moved = plan.start != nullptr && d == plan.start_axis;
        if (d == 0) {
            *along = index;
            if (is_moved) row.y += start * axis.stride_y;
            continue;
        }
        const int64_t at = axis.map(index), target = static_cast<int64_t>(index) + (is_moved ? start : 0);
        row.exists = row.exists && at >= 0;
        row.written = row.written && !(is_moved && (target < 0 || target >= plan.limit));
        row.x += at * axis.stride_x;
        row.y += target * axis.stride_y;
        if (axis.slope != 0) {
            const int64_t slope = static_cast<int64_t>(index) * axis.slope;
#pragma unroll
            for (int b = 0; b < kMaxBands; ++b) row.band[b] += b == axis.band ? slope : 0;
        }
    }
    return row;
}

// Index in the row of x that `index` of y copies; -1 if y has the pad value there.
template <class Index>
BK_DEVICE int64_t mapped_source(const MappedKernelPlan<Index>& plan, const MappedRow& row, Index index) {
    if (!row.exists) return -1;
    if (plan.bands > 0) {
        const int64_t slope = static_cast<int64_t>(index) * plan.axis[0].slope;
#pragma unroll
        for (int b = 0; b < kMaxBands; ++b)
            if (b < plan.bands && !plan.band[b].has(row.band[b] + (b == plan.axis[0].band ? slope : 0))) return -1;
    }
    return plan.axis[0].map(index);
}

template <class Index>
BK_DEVICE bool is_written(const MappedKernelPlan<Index>& plan, const MappedRow& row, Index index, int64_t start) {
    if (plan.start == nullptr || plan.start_axis != 0) return row.written;
    const int64_t target = static_cast<int64_t>(index) + start;
    return target >= 0 && target < plan.limit;
}

template <class Bits, class Index>
BK_DEVICE void copy_element(const MappedKernelPlan<Index>& plan, const Bits* x, Bits* y, Index i, int64_t start) {
    Index along;
    const MappedRow row = mapped_row(plan, i, start, &along);
    const int64_t at = mapped_source(plan, row, along);
    if (is_written(plan, row, along, start))
        y[row.y + static_cast<int64_t>(along) * plan.axis[0].stride_y] =
            at < 0 ? static_cast<Bits>(plan.value) : x[row.x + at * plan.axis[0].stride_x];
}

// Share of the range between `first` and `last`, in either order, that lies in [least, most].
enum class Overlap { kNone, kSome, kAll };

BK_DEVICE Overlap overlap_of(int64_t first, int64_t last, int64_t least, int64_t most) {
    const int64_t low = min(first, last), high = max(first, last);
    return high < least || low > most ? Overlap::kNone : low >= least && high <= most ? Overlap::kAll : Overlap::kSome;
}

// Whether elements first..last of a row of y have a source in x: none, some or possibly all.
template <class Index>
BK_DEVICE Overlap source_overlap(const MappedKernelPlan<Index>& plan, const MappedRow& row, int64_t first, int64_t last) {
    if (!row.exists) return Overlap::kNone;
    const AxisMap<Index>& map = plan.axis[0].map;
    Overlap all = Overlap::kAll;
    if (map.pad_mode == PadMode::kConstant)
        all = overlap_of(first - map.low, last - map.low, 0, static_cast<int64_t>(map.source) - 1);
#pragma unroll
    for (int b = 0; b < kMaxBands; ++b) {
        if (b >= plan.bands) break;
        const int64_t slope = b == plan.axis[0].band ? plan.axis[0].slope : 0, sum = row.band[b];
        const Overlap band_overlap = overlap_of(sum + slope * first, sum + slope * last, plan.band[b].least, plan.band[b].most);
        if (band_overlap < all) all = band_overlap;
    }
    return all;
}

// Bytes that x spans; x may be empty.
template <class Bits>
AddressRange address_range_of(const MappedCopy& copy, const Bits* x) {
    int64_t low = 0, high = 1;
    for (int d = 0; d < copy.rank; ++d) {
        const int64_t last = (copy.axis[d].source - 1) * copy.axis[d].stride_x;
        (last < 0 ? low : high) += last;
    }
    return {reinterpret_cast<const char*>(x + low), reinterpret_cast<const char*>(x + high)};
}

template <class Bits, class Index>
MappedKernelPlan<Index> kernel_plan(const MappedPlan& given, int lanes, const Bits* x, const Bits* y) {
    const MappedCopy& copy = given.copy;
    MappedKernelPlan<Index> plan;
    plan.rank = copy.rank;
    plan.numel = static_cast<Index>(given.numel);
    plan.value = copy.value;
    for (int d = 0; d < copy.rank; ++d) {
        const MappedAxis& axis = copy.axis[copy.rank - 1 - d];
        plan.axis[d] = {FastDiv<Index>(axis.extent),
                        AxisMap<Index>(axis, copy.pad_mode),
                        axis.stride_y,
                        axis.stride_x,
                        axis.slope,
                        axis.band};
    }
    plan.bands = given.bands;
    for (int b = 0; b < kMaxBands; ++b) plan.band[b] = copy.band[b];
    plan.start = copy.start;
    plan.start_axis = copy.rank - 1 - copy.start_axis;
    plan.unit = given.start_unit, plan.limit = copy.limit;
    const bool aligned = is_aligned(y, kVectorBytes) && plan.axis[0].stride_y == 1;
    bool dense = true;
    bool by_rows = static_cast<int64_t>(plan.axis[0].extent.divisor()) % lanes == 0;
    int64_t step = 1;
    for (int d = 0; d < plan.rank; ++d) {
        dense = dense && plan.axis[d].stride_y == step;
        by_rows = by_rows && (d == 0 || plan.axis[d].stride_y % lanes == 0);
        step *= static_cast<int64_t>(plan.axis[d].extent.divisor());
    }
    plan.dense = dense;
    plan.vectors = aligned && (dense || by_rows);
    plan.by_rows = aligned && by_rows && plan.axis[0].extent.divisor() == plan.axis[0].map.source;
    plan.reach = address_range_of(copy, x);
    return plan;
}

}  // namespace bk
