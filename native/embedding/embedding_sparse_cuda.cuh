// SPDX-License-Identifier: Apache-2.0
// GPU: (row, bag) pairs are sorted by row, segment starts are selected and numbered, and each segment is summed into
// the value row of its rank (core/segmented/add_segments.cuh).
#pragma once

#include <cstdint>

#include "core/select/select_indices.h"
#include "embedding/embedding_bag_backward_cuda.cuh"
#include "embedding/embedding_sparse.h"
#include "embedding/sparse_rows_in_place.cuh"

namespace bk {

// Whether a segment of equal keys below `end` starts at an index.
struct IsSegmentStart {
    static constexpr int kLanes = 1;
    const uint32_t* keys;
    uint32_t end;
    BK_HD bool at(int64_t index) const { return keys[index] < end && (index == 0 || keys[index - 1] != keys[index]); }
    BK_HD uint32_t operator()(int64_t index, int) const { return at(index); }
};

template <class I>
struct RowSink {
    const uint32_t* keys;
    I* rows;
    I* count;
    BK_HD void operator()(int64_t rank, int64_t index) const { rows[rank] = static_cast<I>(keys[index]); }
    BK_HD void total(int64_t found) const { *count = static_cast<I>(found); }
};

// The rank of each key among the rows; `last` if it is none.
template <class I>
__global__ void __launch_bounds__(kKeyThreads)
    segment_ranks_kernel(const uint32_t* keys, const I* rows, const I* count, uint32_t* ranks, int64_t last, uint32_t end) {
    const int64_t k = int64_t{blockIdx.x} * kKeyThreads + threadIdx.x;
    if (k >= last) return;
    const uint32_t key = keys[k];
    int64_t low = 0, high = *count;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (static_cast<uint32_t>(rows[middle]) < key)
            low = middle + 1;
        else
            high = middle;
    }
    ranks[k] = static_cast<uint32_t>(key < end ? low : last);
}

template <class T>
struct SparseBuffers {
    SortedBags<T> bags;
    Launch selection;  // holds the workspace of select
};

template <class T>
SegmentedShape sparse_runs(const BagShape& shape) {
    return make_segmented_shape<T>(shape.total_indices, shape.embedding_dim, shape.total_indices, false);
}

template <class T>
SparseBuffers<T> carve_sparse(Carver* carver, const BagShape& shape, bool is_scaled, const Launch& launch) {
    SparseBuffers<T> buffers{carve_sorted_bags<T>(carver, shape, sparse_runs<T>(shape), is_scaled), launch};
    buffers.selection.workspace_bytes = select_workspace(shape.total_indices);
    buffers.selection.workspace = carver->take<char>(static_cast<int64_t>(buffers.selection.workspace_bytes));
    return buffers;
}

template <class T, class I>
size_t sparse_rows_workspace(const BagShape& shape, bool is_scaled) {
    Carver carver;
    carve_sparse<T>(&carver, shape, is_scaled, Launch{});
    return carver.bytes();
}

template <class T, class I>
Status sparse_rows_of_bags(const Launch& launch, const BagShape& shape, const T* dout, const I* indices, IdArray offsets,
                           const T* scales, const SparseRows<T, I>& out) {
    Carver carver(launch.workspace);
    SparseBuffers<T> buffers = carve_sparse<T>(&carver, shape, scales != nullptr, launch);
    SortBuffers& sort = buffers.bags.sort;
    const T* gradients = dout;
    BK_TRY(sort_bags(launch, shape, indices, offsets, scales, &buffers.bags, &gradients));
    const int64_t n = shape.total_indices;
    const uint32_t end = static_cast<uint32_t>(shape.num_embeddings);
    BK_TRY(
        select_indices(buffers.selection, n, IsSegmentStart{sort.keys[0], end}, RowSink<I>{sort.keys[0], out.rows, out.count}));
    // The sort's second buffer is free now.
    uint32_t* const ranks = sort.keys[1];
    const Grid grid{dim3(static_cast<unsigned>(ceil_div<int64_t>(n, kKeyThreads))), dim3(kKeyThreads)};
    BK_TRY(launch_kernel(launch, grid, segment_ranks_kernel<I>, static_cast<const uint32_t*>(sort.keys[0]),
                         static_cast<const I*>(out.rows), static_cast<const I*>(out.count), ranks, n, end));
    return add_sorted_bags(launch, shape, sparse_runs<T>(shape), buffers.bags, gradients, scales, ranks, out.values);
}

}  // namespace bk
