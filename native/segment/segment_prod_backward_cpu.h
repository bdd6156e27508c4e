// Rows on their own; a row that has the zero of a product is mended afterwards. The workspace of unsorted ids groups them.
#pragma once

#include <cstring>

#include "segment/segment_prod_backward.h"
#include "segment/segment_rows_cpu.h"

namespace bk {

template <bool kSorted, class T>
size_t segment_prod_backward_workspace(const SegmentShape& shape) {
    return kSorted ? 0 : grouping_bytes(shape);
}

// Row of id `id`, which stands at place k of the order.
template <class T>
BK_HD void prod_gradient(const SegmentOrder& order, const ProdOperands<T>& operands, int64_t d, int64_t k, int64_t id) {
    using C = compute_t<T>;
    const int64_t row = order.row(k);
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
    if (any == 0) return;
    for (int64_t c = 0; c < d; ++c)
        if (widen(x[c]) == C(0) && widen(y[c]) == C(0))
            dx[c] = narrow<T>(widen(dy[c]) * product_of_others(order, operands.input + c, d, k));
}

template <bool kSorted, class T>
Status segment_prod_backward(const Launch& launch, const SegmentShape& shape, const ProdOperands<T>& operands) {
    const int64_t n = shape.n, d = shape.d;
    bool grouped = false;
    BK_TRY(find_workspace(launch, segment_prod_backward_workspace<kSorted, T>(shape), &grouped));
    SegmentOrder order{operands.ids, nullptr, n, shape.num_segments, kSorted};
    if (grouped) {
        Carver carver(launch.workspace);
        const Grouping grouping = carve_grouping(&carver, n, shape.num_segments);
        group_by_key(grouping, n, shape.num_segments, [&](int64_t k) { return operands.ids[k]; }, [](int64_t k) { return k; });
        order.rows = reinterpret_cast<const uint32_t*>(grouping.values);
        order.n = grouping.start[shape.num_segments];
        order.is_sorted = true;
    }
    const int64_t grain = grain_for(2 * d * static_cast<int64_t>(sizeof(T)));
    parallel_ranges(order.n, grain, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k)
            if (const int64_t id = order.id(k); shape.has(id)) prod_gradient(order, operands, d, k, id);
    });
    parallel_ranges(n, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            if (!shape.has(operands.ids[i])) memset(operands.d_input + i * d, 0, sizeof(T) * static_cast<size_t>(d));
    });
    return Status::kOk;
}

}  // namespace bk
