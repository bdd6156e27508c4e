// Gradients of rows: row i of the result from row i of the input and what its segment has.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/math/fastdiv.h"
#include "core/rows/folds.h"
#include "core/types/vec.h"
#include "segment/segment_shape.h"

namespace bk {

constexpr int kGradientThreads = 256;

// Where a piece of a row stands: k is the place of its id, `row` that of the row.
struct GradientPlace {
    int64_t k, row, column, id;
};

// A thread a piece of N columns, so that writes are in order. A gradient G has Element, kUnroll (pieces that are loaded before
// the first is computed), Loaded<N>, load<N>(place) and compute<N>(loaded, place). `rows` may be null: ids are those of rows in
// order. Rows of ids out of range are zeros.
template <int N, class G, class Index>
__global__ void __launch_bounds__(kGradientThreads)
    gradient_rows_kernel(G gradient, IdArray ids, const uint32_t* rows, typename G::Element* y, FastDiv<Index> pieces_of_row,
                         int64_t pieces, SegmentShape shape) {
    using T = typename G::Element;
    constexpr int kUnroll = G::kUnroll;
    const int64_t first = int64_t{blockIdx.x} * (kGradientThreads * kUnroll) + threadIdx.x;
    GradientPlace place[kUnroll];
    typename G::template Loaded<N> loaded[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
        const int64_t piece = first + u * kGradientThreads;
        const auto at = pieces_of_row(static_cast<Index>(piece));
        const bool exists = piece < pieces;
        const int64_t k = at.quotient;
        place[u] = {k, 0, static_cast<int64_t>(at.remainder) * N, exists ? ids[k] : -1};
        place[u].row = exists && rows != nullptr ? rows[k] : k;
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
        if (shape.has(place[u].id)) loaded[u] = gradient.template load<N>(place[u]);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
        Vec<T, N> value = {};
        if (shape.has(place[u].id)) value = gradient.template compute<N>(loaded[u], place[u]);
        if (first + u * kGradientThreads < pieces) store_once<N>(y + place[u].row * shape.d + place[u].column, value);
    }
}

template <int N, class G>
Status launch_gradient_rows(const Launch& launch, const SegmentShape& shape, const G& gradient, IdArray ids,
                            const uint32_t* rows, typename G::Element* y) {
    const int64_t per_row = shape.d / N, pieces = shape.n * per_row;
    const int64_t blocks = ceil_div<int64_t>(pieces, kGradientThreads * G::kUnroll);
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld elements are too many for one launch", static_cast<long long>(pieces * N));
    const Grid grid{dim3(static_cast<unsigned>(blocks)), dim3(kGradientThreads)};
    if (pieces + kGradientThreads * G::kUnroll < int64_t{1} << 31)
        return launch_kernel(launch, grid, gradient_rows_kernel<N, G, uint32_t>, gradient, ids, rows, y,
                             FastDiv<uint32_t>(per_row), pieces, shape);
    return launch_kernel(launch, grid, gradient_rows_kernel<N, G, uint64_t>, gradient, ids, rows, y, FastDiv<uint64_t>(per_row),
                         pieces, shape);
}

// `aligned`: the operands may be read in vectors if the columns divide into them.
template <class G>
Status gradient_rows(const Launch& launch, const SegmentShape& shape, const G& gradient, IdArray ids, const uint32_t* rows,
                     typename G::Element* y, bool aligned) {
    constexpr int N = kVectorLanes<typename G::Element>;
    if (aligned && shape.d % N == 0 && is_aligned(y, kVectorBytes))
        return launch_gradient_rows<N>(launch, shape, gradient, ids, rows, y);
    return launch_gradient_rows<1>(launch, shape, gradient, ids, rows, y);
}

}  // namespace bk
