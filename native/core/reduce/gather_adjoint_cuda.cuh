// SPDX-License-Identifier: Apache-2.0
// CUDA adjoint of a gather. If y is contiguous and aligned, a thread computes vectors of 16 bytes, whose summands are
// vectors, too; elements of other vectors are shared by the threads of the block. Vectors of single summands are copied
// first if they are most of y, as in the backward pass of pad. Otherwise the threads of a block stride over elements.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/copy/shifted_rows.cuh"
#include "core/copy/unaligned_vectors.cuh"
#include "core/reduce/gather_adjoint.h"
#include "core/types/convert.h"
#include "core/types/vec.h"

namespace bk {

constexpr int kAdjointThreads = kShiftedThreads;
constexpr int kAdjointUnroll = 3;  // summands of a vector that are in flight together

template <class Index>
struct AdjointAxis {
    FastDiv<Index> extent;
    AdjointMap<Index> map;
    int64_t stride_y = 0;
};

// Axes in the order of y's memory, the last one first.
template <class Index>
struct AdjointPlan {
    AdjointAxis<Index> axis[kMaxRank];
    int rank = 0;
    Index numel = 0;
    bool vectors = false;  // y is stored in vectors
    AddressRange reach;    // of x
    ShiftedRows copied;    // single summands, if they are most of a dense y
};

// A row of y. `several` are the summands of one outer axis with more than one; the others have `combinations` of summands.
struct AdjointRow {
    int64_t y = 0, x = 0;
    AdjointSummands several;
    int several_axis = -1;
    int64_t combinations = 1;

    BK_DEVICE bool is_single() const { return several_axis < 0 && combinations == 1; }
};

template <class Index>
BK_DEVICE AdjointRow adjoint_row(const AdjointPlan<Index>& plan, Index row) {
    AdjointRow found;
#pragma unroll
    for (int d = 1; d < kMaxRank; ++d) {
        if (d >= plan.rank) break;
        const auto& axis = plan.axis[d];
        Index index = row;
        if (d + 1 < plan.rank) {
            const DivMod<Index> split = axis.extent(row);
            index = split.remainder;
            row = split.quotient;
        }
        const AdjointSummands summands = axis.map(index);
        found.y += static_cast<int64_t>(index) * axis.stride_y;
        if (summands.total() == 1) {
            found.x += summands.offset(0);
        } else if (found.several_axis < 0 && summands.total() > 1) {
            found.several = summands;
            found.several_axis = d;
        } else {
            found.combinations *= summands.total();
        }
    }
    return found;
}

// Offset of combination k of the outer summands, without those of `several_axis`.
template <class Index>
BK_DEVICE_COLD int64_t combination_offset(const AdjointPlan<Index>& plan, Index row, int several_axis, int64_t k) {
    int64_t at = 0;
    for (int d = 1; d < plan.rank; ++d) {
        const DivMod<Index> split = plan.axis[d].extent(row);
        const AdjointSummands summands = plan.axis[d].map(d + 1 < plan.rank ? split.remainder : row);
        row = split.quotient;
        if (d == several_axis || summands.total() == 1) continue;
        at += summands.offset(k % summands.total());
        k /= summands.total();
    }
    return at;
}

// Adds the inner summands of an element; `from` is the origin of the row's summands.
template <class T>
BK_DEVICE void add_inner(const T* from, const AdjointSummands& summands, compute_t<T>* total) {
#pragma unroll 1
    for (int64_t k = 0; k < summands.count; ++k) *total += widen(from[summands.first + k * summands.step]);
#pragma unroll 1
    for (int64_t k = 0; k < summands.more; ++k) *total += widen(from[summands.second + k * summands.step]);
}

// Sum of element `along` of a row with a single combination of outer summands, at `from`.
template <class T, class Index>
BK_DEVICE T sum_of_inner(const AdjointPlan<Index>& plan, Index along, const T* from) {
    const AdjointSummands inner = plan.axis[0].map(along);
    if (inner.total() == 1) return from[inner.offset(0)];
    compute_t<T> total = inner.total() == 0 ? 0 : -compute_t<T>(0);  // keeps the sign of zeros
    add_inner(from, inner, &total);
    return narrow<T>(total);
}

template <class T, class Index>
BK_DEVICE T sum_of_element(const AdjointPlan<Index>& plan, const AdjointRow& row, Index number, Index along, const T* x) {
    if (row.is_single()) return sum_of_inner(plan, along, x + row.x);
    const AdjointSummands inner = plan.axis[0].map(along);
    if (row.combinations == 0 || inner.total() == 0) return narrow<T>(compute_t<T>(0));
    compute_t<T> total = -compute_t<T>(0);  // keeps the sign of zeros
    for (int64_t k = 0; k < row.combinations; ++k) {
        const T* const from = x + row.x + (row.combinations == 1 ? 0 : combination_offset(plan, number, row.several_axis, k));
        for (int64_t s = 0; s < row.several.count; ++s)
            add_inner(from + row.several.first + s * row.several.step, inner, &total);
        for (int64_t s = 0; s < row.several.more; ++s)
            add_inner(from + row.several.second + s * row.several.step, inner, &total);
    }
    return narrow<T>(total);
}

template <class T, class Index>
BK_DEVICE_COLD void sum_to_element(const AdjointPlan<Index>& plan, const T* x, T* y, Index i) {
    const DivMod<Index> at = plan.axis[0].extent(i);
    const AdjointRow row = adjoint_row(plan, at.quotient);
    y[row.y + static_cast<int64_t>(at.remainder) * plan.axis[0].stride_y] =
        sum_of_element(plan, row, at.quotient, at.remainder, x);
}

// Lowest and highest offset of summands, which are not empty.
struct OffsetRange {
    int64_t low = INT64_MAX, high = INT64_MIN;

    BK_DEVICE void take(int64_t offset) { low = min(low, offset), high = max(high, offset); }
    BK_DEVICE explicit OffsetRange(const AdjointSummands& summands) {
        if (summands.count > 0) take(summands.first), take(summands.offset(summands.count - 1));
        if (summands.more > 0) take(summands.second), take(summands.offset(summands.total() - 1));
    }
};

// Summands of a vector: for each outer summand, `several`, those of `inner`. They are adjacent to the summands of the other
// lanes, in ascending or in reversed order.
template <class T>
struct VectorSummands {
    static constexpr int N = kVectorLanes<T>;
    using Bits = bits_t<T>;
    const T* from;  // of the lane whose address is the lowest
    AdjointSummands several, inner;
    bool is_reversed;

    BK_DEVICE bool is_inside(const AddressRange& reach) const {
        const OffsetRange outer(several), within(inner);
        return reinterpret_cast<const char*>(from + outer.low + within.low) - kVectorBytes >= reach.begin &&
               reinterpret_cast<const char*>(from + outer.high + within.high) + 2 * kVectorBytes <= reach.end;
    }
    BK_DEVICE Vec<T, N> in_order(const UnalignedVector& around) const {
        const Vec<Bits, N> found = around.elements<Bits>();
        return bit_cast<Vec<T, N>>(is_reversed ? reversed(found) : found);
    }
    BK_DEVICE Vec<T, N> only() const {
        UnalignedVector around;
        around.load_from(from + inner.first);
        return in_order(around);
    }
    BK_DEVICE Vec<T, N> sum() const {
        compute_t<T> total[N];
#pragma unroll
        for (int lane = 0; lane < N; ++lane) total[lane] = -compute_t<T>(0);  // keeps the sign of zeros
#pragma unroll 1
        for (int64_t s = 0; s < several.total(); ++s)
#pragma unroll 1
            for (int64_t k = 0; k < inner.count; k += kAdjointUnroll) add(from + several.offset(s), k, total);
        Vec<T, N> result;
#pragma unroll
        for (int lane = 0; lane < N; ++lane) result.lane[lane] = narrow<T>(total[lane]);
        return result;
    }

private:
    BK_DEVICE void add(const T* at, int64_t first, compute_t<T> (&total)[N]) const {
        UnalignedVector around[kAdjointUnroll];
#pragma unroll
        for (int u = 0; u < kAdjointUnroll; ++u)
            if (first + u < inner.count) around[u].load_from(at + inner.offset(first + u));
#pragma unroll
        for (int u = 0; u < kAdjointUnroll; ++u) {
            if (first + u >= inner.count) break;
            const Vec<T, N> summand = in_order(around[u]);
#pragma unroll
            for (int lane = 0; lane < N; ++lane) total[lane] += widen_lane(summand, lane);
        }
    }
};

// Computes elements i, ..., i + N - 1, adjacent in y; false if they span two rows or their summands are no vectors.
template <class T, class Index>
BK_DEVICE bool sum_to_vector(const AdjointPlan<Index>& plan, const T* x, T* y, Index i) {
    constexpr Index N = kVectorLanes<T>;
    const auto& axis = plan.axis[0];
    const DivMod<Index> at = axis.extent(i);
    if (at.remainder + N > axis.extent.divisor() || plan.numel - i < N) return false;
    const int direction = axis.map.run(at.remainder, N - 1);
    if (direction == 0) return false;
    const AdjointRow row = adjoint_row(plan, at.quotient);
    if (row.combinations != 1) return false;
    const T* const first = x + row.x - (direction < 0 ? static_cast<int>(N - 1) : 0);
    const VectorSummands<T> summands{first, row.several, axis.map(at.remainder), direction < 0};
    if (!summands.is_inside(plan.reach)) return false;
    store<static_cast<int>(N)>(y + row.y + static_cast<int64_t>(at.remainder) * axis.stride_y,
                               row.is_single() && summands.inner.count == 1 ? summands.only() : summands.sum());
    return true;
}

using VectorList = DeferredVectors<kShiftedVectors>;

// Copies the block's vectors of single summands; rows with several outer summands go to `summed`, other vectors to `left`.
template <class T, class Index>
BK_DEVICE void copy_singles(const AdjointPlan<Index>& plan, const T* x, T* y, uint32_t first, uint32_t elements,
                            BlockRows* rows, VectorList* summed, VectorList* left) {
    using Bits = bits_t<T>;
    const DivMod<uint32_t> begin = plan.copied.extent(first);
    rows->find(plan.copied, begin.remainder, elements, [&](uint32_t number) {
        const AdjointRow row = adjoint_row(plan, static_cast<Index>(begin.quotient + number));
        if (!row.is_single()) return ShiftedRow{0, 0, 0};
        return ShiftedRow{row.x + plan.axis[0].map.low, plan.copied.begin, plan.copied.end};
    });
    copy_shifted(plan.copied, *rows, begin.remainder, elements, reinterpret_cast<const Bits*>(x),
                 reinterpret_cast<Bits*>(y + first),
                 [&](uint32_t number, const ShiftedRow& row, uint32_t) { (row.begin < row.end ? left : summed)->add(number); });
    __syncthreads();
}

// Computes the block's element i of a dense y, whose rows have been found.
template <class T, class Index>
BK_DEVICE void sum_beside_copies(const AdjointPlan<Index>& plan, const BlockRows& rows, const T* x, T* y, uint32_t first,
                                 uint32_t i) {
    const DivMod<uint32_t> at = plan.copied.extent(plan.copied.extent(first).remainder + i);
    const ShiftedRow row = rows.row[at.quotient];
    if (row.begin < row.end)
        y[first + i] = sum_of_inner(plan, static_cast<Index>(at.remainder), x + (row.start - plan.axis[0].map.low));
    else
        sum_to_element(plan, x, y, static_cast<Index>(first + i));
}

template <class T, class Index>
__global__ void __launch_bounds__(kAdjointThreads, 4)
    adjoint_kernel(const __grid_constant__ AdjointPlan<Index> plan, const T* x, T* y) {
    constexpr Index N = kVectorLanes<T>;
    const Index most = kAdjointThreads * N * (plan.copied.any ? kShiftedUnroll : 1);
    const Index first = static_cast<Index>(blockIdx.x) * most;
    const Index elements = plan.numel - first < most ? plan.numel - first : most;
    if (!plan.vectors) {
#pragma unroll 1
        for (Index i = threadIdx.x; i < elements; i += kAdjointThreads) sum_to_element(plan, x, y, first + i);
        return;
    }
    __shared__ BlockRows rows;
    __shared__ VectorList summed, left;
    summed.clear();
    left.clear();
    unsigned count = static_cast<unsigned>((elements + N - 1) / N);
    if constexpr (sizeof(Index) == sizeof(uint32_t)) {
        if (plan.copied.any) {
            copy_singles(plan, x, y, first, elements, &rows, &summed, &left);
            count = summed.count;
        }
    }
#pragma unroll 1
    for (unsigned at = threadIdx.x; at < count; at += kAdjointThreads) {
        const unsigned number = plan.copied.any ? summed.number[at] : at;
        if (!sum_to_vector(plan, x, y, static_cast<Index>(first + number * N))) left.add(number);
    }
    left.template each_element<static_cast<int>(N)>(elements, [&](Index i) {
        if constexpr (sizeof(Index) == sizeof(uint32_t))
            if (plan.copied.any) return sum_beside_copies(plan, rows, x, y, first, i);
        sum_to_element(plan, x, y, first + i);
    });
}

// Address range of the elements of x, of which there may be none.
template <class T>
AddressRange address_range_of(const GatherAdjoint& sum, const T* x) {
    int64_t low = 0, high = 1;
    const auto take = [&](int64_t count, int64_t stride) {
        const int64_t last = (count - 1) * stride;
        (last < 0 ? low : high) += last;
    };
    for (int d = 0; d < sum.rank; ++d) {
        const GatherAxis& axis = sum.axis[d];
        const bool is_windows = axis.map_mode == AdjointMode::kWindows;
        take(is_windows ? axis.window : axis.source, axis.stride_x);
        if (is_windows) take(axis.source, axis.stride_window);
    }
    return {reinterpret_cast<const char*>(x + low), reinterpret_cast<const char*>(x + high)};
}

template <class T, class Index>
Status launch_adjoint(const Launch& launch, const GatherAdjoint& sum, int64_t numel, const T* x, T* y) {
    constexpr int N = kVectorLanes<T>;
    AdjointPlan<Index> plan;
    plan.rank = sum.rank;
    plan.numel = static_cast<Index>(numel);
    plan.reach = address_range_of(sum, x);
    bool dense = true, by_rows = sum.axis[sum.rank - 1].extent % N == 0;
    int64_t step = 1;
    for (int d = 0; d < sum.rank; ++d) {
        const GatherAxis& axis = sum.axis[sum.rank - 1 - d];
        plan.axis[d] = {FastDiv<Index>(axis.extent), AdjointMap<Index>(axis), axis.stride_y};
        dense = dense && axis.stride_y == step;
        by_rows = by_rows && (d == 0 || axis.stride_y % N == 0);
        step *= axis.extent;
    }
    plan.vectors = is_aligned(y, kVectorBytes) && plan.axis[0].stride_y == 1 && (dense || by_rows);
    const AdjointMap<Index>& inner = plan.axis[0].map;
    const int64_t extent = inner.extent, singles = inner.bulk_end - inner.bulk;
    if (sizeof(Index) == sizeof(uint32_t) && plan.vectors && dense && inner.stride == 1 && 2 * singles >= extent &&
        extent >= kShiftedVectorsOfRow * N) {
        plan.copied = {FastDiv<uint32_t>(extent), static_cast<uint32_t>(inner.bulk), static_cast<uint32_t>(inner.bulk_end),
                       plan.reach, true};
    }
    const int64_t blocks = ceil_div<int64_t>(numel, kAdjointThreads * N * (plan.copied.any ? kShiftedUnroll : 1));
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld elements are too many for one launch", static_cast<long long>(numel));
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kAdjointThreads)}, adjoint_kernel<T, Index>,
                         plan, x, y);
}

template <class T>
Status add_adjoint(const Launch& launch, const GatherAdjoint& given, const T* x, T* y) {
    constexpr int64_t kShort = (int64_t{1} << 31) - kAdjointThreads * kVectorBytes;
    const GatherAdjoint sum = plan_adjoint(given);
    int64_t numel = 1;
    bool is_short = true;
    for (int d = 0; d < sum.rank; ++d) {
        const GatherAxis& axis = sum.axis[d];
        numel *= axis.extent;
        is_short = is_short && 4 * axis.extent + axis.source < kShort && axis.step < kShort &&
                   axis.extent + axis.low < kShort && (axis.window - 1) * axis.dilation < kShort &&
                   axis.dilation < (int64_t{1} << 16);
    }
    return is_short && numel < kShort ? launch_adjoint<T, uint32_t>(launch, sum, numel, x, y)
                                      : launch_adjoint<T, uint64_t>(launch, sum, numel, x, y);
}

}  // namespace bk
