// SPDX-License-Identifier: Apache-2.0
// Mapped copy into a dense y whose rows are contiguous ranges of x's rows between borders: pads, triangles. Vectors at
// borders are deferred and shared by the block's threads.
#pragma once

#include <cstdint>

#include "core/copy/mapped_plan.cuh"
#include "core/copy/shifted_rows.cuh"
#include "core/types/vec.h"

namespace bk {

struct MappedShiftedPlan {
    MappedKernelPlan<uint32_t> copy;
    ShiftedRows rows;
};

template <class Bits>
MappedShiftedPlan shifted_plan(const MappedKernelPlan<uint32_t>& copy) {
    constexpr int N = kVectorLanes<Bits>;
    const MappedKernelAxis<uint32_t>& inner = copy.axis[0];
    const int64_t extent = inner.extent.divisor(), low = inner.map.low, source = inner.map.source;
    const int64_t from = low > 0 ? low : 0, until = low + source < extent ? low + source : extent;
    MappedShiftedPlan plan{copy, {inner.extent, 0, 0, copy.reach}};
    if (from < until) plan.rows.begin = static_cast<uint32_t>(from), plan.rows.end = static_cast<uint32_t>(until);
    const bool is_mostly_copied = inner.map.pad_mode == PadMode::kConstant || 2 * (until - from) >= extent;
    // A single band is one range of each row. Whole rows as long as x's have their own kernel (mapped_rows.cuh).
    const bool is_band = copy.bands == 1 && magnitude(inner.slope) <= 1 && inner.map.pad_mode == PadMode::kConstant;
    plan.rows.any = copy.vectors && copy.dense && copy.start == nullptr && inner.stride_x == 1 &&
                    (is_band || (copy.bands == 0 && !copy.by_rows)) && extent >= kShiftedVectorsOfRow * N && is_mostly_copied;
    return plan;
}

BK_DEVICE ShiftedRow shifted_row(const MappedShiftedPlan& plan, uint32_t row_index) {
    const MappedKernelAxis<uint32_t>& inner = plan.copy.axis[0];
    uint32_t along;
    const MappedRow row = mapped_row(plan.copy, row_index * plan.rows.extent.divisor(), 0, &along);
    int64_t begin = plan.rows.begin, end = row.exists ? plan.rows.end : 0;
    if (plan.copy.bands > 0) {
        const DiagonalBand& band = plan.copy.band[0];
        const int64_t sum = row.band[0];
        if (inner.slope == 0) {
            if (!band.has(sum)) end = 0;
        } else {
            begin = max(begin, inner.slope > 0 ? band.least - sum : sum - band.most);
            end = min(end, (inner.slope > 0 ? band.most - sum : sum - band.least) + 1);
        }
    }
    if (begin >= end) return {0, 0, 0};
    return {row.x - inner.map.low, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
}

template <class Bits>
__global__ void __launch_bounds__(kShiftedThreads, 4)
    mapped_shifted_kernel(const __grid_constant__ MappedShiftedPlan plan, const Bits* x, Bits* y) {
    constexpr uint32_t N = kVectorLanes<Bits>, kMaxElements = kShiftedVectors * N;
    const MappedKernelAxis<uint32_t>& inner = plan.copy.axis[0];
    const uint32_t first = blockIdx.x * kMaxElements, elements = min(plan.copy.numel - first, kMaxElements);
    const DivMod<uint32_t> begin = plan.rows.extent(first);
    y += first;
    __shared__ BlockRows rows;
    __shared__ DeferredVectors<kShiftedVectors> deferred;
    deferred.clear();
    rows.find(plan.rows, begin.remainder, elements,
              [&](uint32_t row_index) { return shifted_row(plan, begin.quotient + row_index); });
    const Bits value = static_cast<Bits>(plan.copy.value);
    const bool pads_constant = inner.map.pad_mode == PadMode::kConstant;
    copy_shifted(
        plan.rows, rows, begin.remainder, elements, x, y, [&](uint32_t vector_index, const ShiftedRow& row, uint32_t along) {
            const bool is_outside = along >= row.end || along + N <= row.begin;
            if (!pads_constant || !is_outside || along + N > plan.rows.extent.divisor() || vector_index * N + N > elements) {
                deferred.add(vector_index);
                return;
            }
            Vec<Bits, N> values;
#pragma unroll
            for (uint32_t lane = 0; lane < N; ++lane) values.lane[lane] = value;
            store<N>(y + vector_index * N, values);
        });
    deferred.template each_element<N>(elements, [&](uint32_t element) {
        const DivMod<uint32_t> at = plan.rows.extent(begin.remainder + element);
        const ShiftedRow row = rows.row[at.quotient];
        if (at.remainder >= row.begin && at.remainder < row.end)
            y[element] = x[row.start + at.remainder];
        else
            y[element] = pads_constant ? value : x[row.start + inner.map.low + inner.map(at.remainder)];
    });
}

}  // namespace bk
