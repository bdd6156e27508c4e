// SPDX-License-Identifier: Apache-2.0
// CPU: rows are computed independently by division; rows with the zero of a product are fixed afterwards. For unsorted
// ids the workspace groups the rows first if there is such a row.
#pragma once

#include <cstring>

#include "segment/segment_prod_backward.h"
#include "segment/segment_rows_cpu.h"

namespace bk {

template <bool kSorted, class T>
size_t segment_prod_backward_workspace(const SegmentShape& shape) {
    return kSorted ? 0 : grouping_bytes(shape);
}

// The gradient of row `row` by division; returns whether it has the zero of a product, still to be fixed.
template <class T>
BK_HD bool divide_row(const ProdOperands<T>& operands, int64_t d, int64_t row, int64_t id) {
    using C = compute_t<T>;
    const T* const dy = operands.d_output + id * d;
    const T* const x = operands.input + row * d;
    const T* const y = operands.output + id * d;
    T* const dx = operands.d_input + row * d;
    int any = 0;
    for (int64_t c = 0; c < d; ++c) {
        const C a = widen(x[c]), product = widen(y[c]);
        any |= int(a == C(0)) & int(product == C(0));
        dx[c] = narrow<T>(widen(dy[c]) * (product / a));
    }
    return any != 0;
}

// Fixes the gradients at zeros of products in the row at position k, of segment `id`.
template <class T>
BK_HD void fix_zeros(const SegmentOrder& order, const ProdOperands<T>& operands, int64_t d, int64_t k, int64_t id) {
    using C = compute_t<T>;
    const int64_t row = order.row(k);
    for (int64_t c = 0; c < d; ++c)
        if (widen(operands.input[row * d + c]) == C(0) && widen(operands.output[id * d + c]) == C(0))
            operands.d_input[row * d + c] =
                narrow<T>(widen(operands.d_output[id * d + c]) * leave_one_out_product(order, operands.input + c, d, k));
}

template <bool kSorted, class T>
Status segment_prod_backward(const Launch& launch, const SegmentShape& shape, const ProdOperands<T>& operands) {
    const int64_t n = shape.n, d = shape.d;
    const bool has_workspace = workspace_holds(launch, segment_prod_backward_workspace<kSorted, T>(shape));
    const SegmentOrder given{operands.ids, nullptr, n, shape.num_segments, kSorted};
    const int64_t grain = grain_for(2 * d * static_cast<int64_t>(sizeof(T)));
    int has_zeros = 0;
    parallel_ranges(n, grain, [&](int64_t begin, int64_t end) {
        int found = 0;
        for (int64_t i = begin; i < end; ++i) {
            const int64_t id = operands.ids[i];
            if (!shape.has(id)) {
                memset(operands.d_input + i * d, 0, sizeof(T) * static_cast<size_t>(d));
            } else if (divide_row(operands, d, i, id)) {
                if (!has_workspace) fix_zeros(given, operands, d, i, id);
                found = 1;
            }
        }
        if (found != 0) __atomic_store_n(&has_zeros, 1, __ATOMIC_RELAXED);
    });
    if (!has_workspace || has_zeros == 0) return Status::kOk;
    Carver carver(launch.workspace);
    const Grouping grouping = carve_grouping(&carver, n, shape.num_segments);
    group_by_key(grouping, n, shape.num_segments, [&](int64_t k) { return operands.ids[k]; }, [](int64_t k) { return k; });
    const SegmentOrder grouped{operands.ids, reinterpret_cast<const uint32_t*>(grouping.values),
                               grouping.start[shape.num_segments], shape.num_segments, true};
    parallel_ranges(grouped.n, grain, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) fix_zeros(grouped, operands, d, k, grouped.id(k));
    });
    return Status::kOk;
}

}  // namespace bk
