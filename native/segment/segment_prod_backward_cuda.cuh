// SPDX-License-Identifier: Apache-2.0
// GPU: rows are computed independently by division; for unsorted ids the workspace sorts the rows, so that a zero finds
// its segment.
#pragma once

#include "segment/gradient_rows.cuh"
#include "segment/segment_prod_backward.h"
#include "segment/sorted_segments.cuh"

namespace bk {

template <class T>
struct ProdGradient {
    using Element = T;
    static constexpr int kUnroll = 2;
    template <int N>
    struct Loaded {
        Vec<T, N> dy, x, y;
    };
    const T* d_output;
    const T* input;
    const T* output;
    SegmentOrder order;
    int64_t columns;

    template <int N>
    BK_DEVICE Loaded<N> load(const RowElement& at) const {
        const int64_t cell = at.id * columns + at.column;
        return {bk::load<N>(d_output + cell), load_once<N>(input + at.row * columns + at.column), bk::load<N>(output + cell)};
    }
    template <int N>
    BK_DEVICE Vec<T, N> compute(const Loaded<N>& from, const RowElement& at) const {
        using C = compute_t<T>;
        Vec<T, N> result;
        unsigned zero_lanes = 0;
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const C x = widen(from.x.lane[i]), y = widen(from.y.lane[i]);
            if (x == C(0) && y == C(0)) zero_lanes |= 1u << i;
            result.lane[i] = narrow<T>(widen(from.dy.lane[i]) * (y / x));
        }
        for (; zero_lanes != 0; zero_lanes &= zero_lanes - 1) {
            const int lane = __ffs(zero_lanes) - 1;
            const C others_product = leave_one_out_product(order, input + at.column + lane, columns, at.k);
#pragma unroll
            for (int i = 0; i < N; ++i)
                if (i == lane) result.lane[i] = narrow<T>(widen(from.dy.lane[i]) * others_product);
        }
        return result;
    }
};

template <bool kSorted, class T>
size_t segment_prod_backward_workspace(const SegmentShape& shape) {
    Carver carver;
    if (!kSorted) carve_sorted_segments(&carver, shape);
    return carver.bytes();
}

template <bool kSorted, class T>
Status segment_prod_backward(const Launch& launch, const SegmentShape& shape, const ProdOperands<T>& operands) {
    const bool has_workspace = workspace_holds(launch, segment_prod_backward_workspace<kSorted, T>(shape));
    SegmentOrder order{operands.ids, nullptr, shape.n, shape.num_segments, kSorted};
    IdArray ids = operands.ids;
    if (has_workspace) {
        Carver carver(launch.workspace);
        SortBuffers sort = carve_sorted_segments(&carver, shape);
        BK_TRY(sort_segments(launch, shape, operands.ids, &sort));
        order.rows = sort.values[0];
        order.is_sorted = true;
        ids = sorted_ids(sort);
    }
    const ProdGradient<T> gradient{operands.d_output, operands.input, operands.output, order, shape.d};
    return gradient_rows(launch, shape, gradient, ids, order.is_sorted, order.rows, operands.d_input,
                         is_aligned(operands.d_output, kVectorBytes) && is_aligned(operands.input, kVectorBytes) &&
                             is_aligned(operands.output, kVectorBytes));
}

}  // namespace bk
