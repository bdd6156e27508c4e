// SPDX-License-Identifier: Apache-2.0
// Row gradients: row i of the result from row i of the input and the values of its segment.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/math/fastdiv.h"
#include "core/segmented/reduce_ops.h"
#include "core/types/vec.h"
#include "segment/segment_shape.h"

namespace bk {

constexpr int kGradientThreads = 256;

// The N columns of a row that a thread computes: k is the position of its id, `row` that of the row.
struct RowElement {
    int64_t k, row, column, id;
};

// A thread takes vectors of N columns, so that writes are coalesced. A gradient G has Element, kUnroll (vectors loaded
// before the first is computed), Loaded<N>, load<N>(element) and compute<N>(loaded, element). `rows` may be null: ids
// are in row order. Rows with ids out of range get zeros. grid.y counts tiles of columns.
template <int N, class G, class Index>
__global__ void __launch_bounds__(kGradientThreads)
    gradient_rows_kernel(G gradient, IdArray ids, const uint32_t* rows, typename G::Element* y, FastDiv<Index> vectors_per_row,
                         int64_t num_vectors, SegmentShape shape) {
    using T = typename G::Element;
    constexpr int kUnroll = G::kUnroll;
    const int64_t first = int64_t{blockIdx.x} * (kGradientThreads * kUnroll) + threadIdx.x;
    RowElement element[kUnroll];
    typename G::template Loaded<N> loaded[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
        const int64_t vector = first + u * kGradientThreads;
        const auto at = vectors_per_row(static_cast<Index>(vector));
        const bool exists = vector < num_vectors;
        const int64_t k = at.quotient;
        const Index column = blockIdx.y * vectors_per_row.divisor() + at.remainder;
        element[u] = {k, 0, static_cast<int64_t>(column) * N, exists ? ids[k] : -1};
        element[u].row = exists && rows != nullptr ? rows[k] : k;
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
        if (shape.has(element[u].id)) loaded[u] = gradient.template load<N>(element[u]);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
        Vec<T, N> value = {};
        if (shape.has(element[u].id)) value = gradient.template compute<N>(loaded[u], element[u]);
        if (first + u * kGradientThreads < num_vectors) store_once<N>(y + element[u].row * shape.d + element[u].column, value);
    }
}

// Columns are processed in tiles, so that segment rows that are read again stay in L2; for unordered ids whose
// segments exceed the cache.
template <class T>
int64_t gradient_tiles(const SegmentShape& shape, bool is_ordered, int64_t vectors_per_row) {
    constexpr int64_t kCached = 20 << 20, kMinTileBytes = 128;  // for the segments, and per row of a tile
    const int64_t row_bytes = int64_t{shape.d} * static_cast<int64_t>(sizeof(T));
    int64_t tiles = 1;
    while (!is_ordered && shape.n >= shape.num_segments && row_bytes * shape.num_segments > kCached * tiles &&
           row_bytes >= 2 * kMinTileBytes * tiles && vectors_per_row % (2 * tiles) == 0)
        tiles *= 2;
    return tiles;
}

template <int N, class G>
Status launch_gradient_rows(const Launch& launch, const SegmentShape& shape, const G& gradient, IdArray ids, bool is_ordered,
                            const uint32_t* rows, typename G::Element* y) {
    const int64_t tiles = gradient_tiles<typename G::Element>(shape, is_ordered, shape.d / N);
    const int64_t per_row = shape.d / N / tiles, num_vectors = shape.n * per_row;
    const int64_t blocks = ceil_div<int64_t>(num_vectors, kGradientThreads * G::kUnroll);
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld elements are too many for one launch", static_cast<long long>(num_vectors * N));
    const Grid grid{dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(tiles)), dim3(kGradientThreads)};
    if (num_vectors + kGradientThreads * G::kUnroll < int64_t{1} << 31)
        return launch_kernel(launch, grid, gradient_rows_kernel<N, G, uint32_t>, gradient, ids, rows, y,
                             FastDiv<uint32_t>(per_row), num_vectors, shape);
    return launch_kernel(launch, grid, gradient_rows_kernel<N, G, uint64_t>, gradient, ids, rows, y, FastDiv<uint64_t>(per_row),
                         num_vectors, shape);
}

// `is_ordered`: the ids are sorted. `aligned`: the operands allow vectors if d is a multiple of their length.
template <class G>
Status gradient_rows(const Launch& launch, const SegmentShape& shape, const G& gradient, IdArray ids, bool is_ordered,
                     const uint32_t* rows, typename G::Element* y, bool aligned) {
    constexpr int N = kVectorLanes<typename G::Element>;
    if (aligned && shape.d % N == 0 && is_aligned(y, kVectorBytes))
        return launch_gradient_rows<N>(launch, shape, gradient, ids, is_ordered, rows, y);
    return launch_gradient_rows<1>(launch, shape, gradient, ids, is_ordered, rows, y);
}

}  // namespace bk
