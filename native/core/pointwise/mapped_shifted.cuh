// The kernel of mapped copies into a dense y whose rows are pieces of x's between their borders: pads. The elements of vectors
// at borders are shared out among the threads of the block.
#pragma once

#include <cstdint>

#include "core/pointwise/mapped_plan.cuh"
#include "core/pointwise/shifted_rows.cuh"
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
    MappedShiftedPlan plan{copy, ShiftedRows(extent, from, until, N, copy.reach)};
    const bool is_mostly_copied = inner.map.beyond == Beyond::kValue || 2 * (until - from) >= extent;
    plan.rows.any = copy.vectors && copy.dense && !copy.by_rows && copy.start == nullptr && copy.bands == 0 &&
                    inner.stride_x == 1 && extent >= kShiftedVectorsOfRow * N && is_mostly_copied;
    return plan;
}

template <class Bits>
__global__ void __launch_bounds__(kShiftedThreads, 4)
    mapped_shifted_kernel(const __grid_constant__ MappedShiftedPlan plan, const Bits* x, Bits* y) {
    constexpr uint32_t N = kVectorLanes<Bits>, kMost = kShiftedVectors * N;
    const MappedKernelAxis<uint32_t>& inner = plan.copy.axis[0];
    const uint32_t first = blockIdx.x * kMost, elements = min(plan.copy.numel - first, kMost);
    const DivMod<uint32_t> begin = plan.rows.extent(first);
    y += first;
    __shared__ RowStarts starts;
    __shared__ LeftVectors<kShiftedVectors> left;
    left.clear();
    starts.find(plan.rows, begin.remainder, elements, [&](uint32_t number) {
        uint32_t along;
        const MappedRow row = mapped_row(plan.copy, (begin.quotient + number) * plan.rows.extent.divisor(), 0, &along);
        return row.exists ? row.x - inner.map.low : RowStarts::kNone;
    });
    const Bits value = static_cast<Bits>(plan.copy.value);
    copy_shifted(plan.rows, starts, begin.remainder, elements, x, y, [&](uint32_t number, int64_t start, uint32_t along) {
        const bool is_outside = along >= plan.rows.begin + plan.rows.length || along + N <= plan.rows.begin;
        const bool is_value = start == RowStarts::kNone || (inner.map.beyond == Beyond::kValue && is_outside);
        if (!is_value || along + N > plan.rows.extent.divisor() || number * N + N > elements) {
            left.add(number);
            return;
        }
        Vec<Bits, N> values;
#pragma unroll
        for (uint32_t lane = 0; lane < N; ++lane) values.lane[lane] = value;
        store<N>(y + number * N, values);
    });
    left.template each_element<N>(elements, [&](uint32_t element) {
        const DivMod<uint32_t> at = plan.rows.extent(begin.remainder + element);
        const int64_t start = starts.start[at.quotient], from = start == RowStarts::kNone ? -1 : inner.map(at.remainder);
        y[element] = from < 0 ? value : x[start + inner.map.low + from];
    });
}

}  // namespace bk
