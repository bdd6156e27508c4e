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

// A thread a piece of N columns, so that writes are in order. A gradient G has Element, kUnroll (pieces that are loaded
// before the first is computed), Loaded<N>, load<N>(place) and compute<N>(loaded, place). `rows` may be null: ids are
// those of rows in order. Rows of ids out of range are zeros. `pieces` are those of a strip of columns, of which grid.y
// counts the strips.
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
        const Index column = blockIdx.y * pieces_of_row.divisor() + at.remainder;
        place[u] = {k, 0, static_cast<int64_t>(column) * N, exists ? ids[k] : -1};
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

// Strips of columns that are taken one after another, so that what rows of one id read again is still in the cache: of
// ids in any order, where a cache does not keep all rows of the segments.
template <class T>
int64_t gradient_strips(const SegmentShape& shape, bool is_ordered, int64_t pieces_of_row) {
    constexpr int64_t kCached = 20 << 20, kLeastBytes = 128;  // of the segments, and of a row's strip
    const int64_t bytes_of_row = int64_t{shape.d} * static_cast<int64_t>(sizeof(T));
    int64_t strips = 1;
    while (!is_ordered && shape.n >= shape.num_segments && bytes_of_row * shape.num_segments > kCached * strips &&
           bytes_of_row >= 2 * kLeastBytes * strips && pieces_of_row % (2 * strips) == 0)
        strips *= 2;
    return strips;
}

template <int N, class G>
Status launch_gradient_rows(const Launch& launch, const SegmentShape& shape, const G& gradient, IdArray ids, bool is_ordered,
                            const uint32_t* rows, typename G::Element* y) {
    const int64_t strips = gradient_strips<typename G::Element>(shape, is_ordered, shape.d / N);
    const int64_t per_row = shape.d / N / strips, pieces = shape.n * per_row;
    const int64_t blocks = ceil_div<int64_t>(pieces, kGradientThreads * G::kUnroll);
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld elements are too many for one launch", static_cast<long long>(pieces * N));
    const Grid grid{dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(strips)), dim3(kGradientThreads)};
    if (pieces + kGradientThreads * G::kUnroll < int64_t{1} << 31)
        return launch_kernel(launch, grid, gradient_rows_kernel<N, G, uint32_t>, gradient, ids, rows, y,
                             FastDiv<uint32_t>(per_row), pieces, shape);
    return launch_kernel(launch, grid, gradient_rows_kernel<N, G, uint64_t>, gradient, ids, rows, y, FastDiv<uint64_t>(per_row),
                         pieces, shape);
}

// `is_ordered`: the ids are sorted. `aligned`: the operands may be read in vectors if the columns divide into them.
template <class G>
Status gradient_rows(const Launch& launch, const SegmentShape& shape, const G& gradient, IdArray ids, bool is_ordered,
                     const uint32_t* rows, typename G::Element* y, bool aligned) {
    constexpr int N = kVectorLanes<typename G::Element>;
    if (aligned && shape.d % N == 0 && is_aligned(y, kVectorBytes))
        return launch_gradient_rows<N>(launch, shape, gradient, ids, is_ordered, rows, y);
    return launch_gradient_rows<1>(launch, shape, gradient, ids, is_ordered, rows, y);
}

}  // namespace bk
