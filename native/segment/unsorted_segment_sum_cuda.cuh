// With a workspace: sort (id, row) pairs, then sum the runs. Without: atomics.
#pragma once

#include "core/rows/add_runs.cuh"
#include "core/rows/sort_pairs.h"
#include "core/rows/store_runs.cuh"
#include "segment/unsorted_segment_sum.h"

namespace bk {

template <class C>
struct SortedSegments {
    SortBuffers sort;
    RunParts<C> parts;
};

template <class C>
SortedSegments<C> carve_sorted_segments(Carver* carver, const SegmentShape& shape, const RunShape& runs) {
    SortedSegments<C> buffers;
    buffers.sort = carve_sort(carver, shape.n, static_cast<uint32_t>(shape.num_segments));
    buffers.parts = carve_run_parts<C>(carver, runs);
    return buffers;
}

template <class T, class I>
size_t unsorted_segment_sum_workspace(const SegmentShape& shape) {
    if (shape.n == 0 || shape.d == 0) return 0;
    Carver carver;
    carve_sorted_segments<compute_t<T>>(&carver, shape, make_run_shape<T>(shape.n, shape.d, shape.num_segments, true));
    return carver.bytes();
}

// Keys are the ids, num_segments for one out of range, which sorts last; values are the rows.
template <class I>
__global__ void segment_keys_kernel(const I* ids, uint32_t* keys, uint32_t* rows, int32_t n, int32_t num_segments) {
    const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int64_t id = ids[i];
    keys[i] = id >= 0 && id < num_segments ? static_cast<uint32_t>(id) : static_cast<uint32_t>(num_segments);
    rows[i] = static_cast<uint32_t>(i);
}

template <class T, class I>
Status unsorted_segment_sum(const Launch& launch, const SegmentShape& shape, const T* input, const I* segment_ids, T* output) {
    const RunShape s = make_run_shape<T>(shape.n, shape.d, shape.num_segments, true);
    bool found = false;
    BK_TRY(find_workspace(launch, unsorted_segment_sum_workspace<T, I>(shape), &found));
    if (!found) {
        BK_TRY(
            fill_bytes(launch, output, 0, sizeof(T) * static_cast<size_t>(shape.num_segments) * static_cast<size_t>(shape.d)));
        return shape.n == 0 ? Status::kOk : add_rows_atomic(launch, s, RowsInOrder<T>{input}, segment_ids, output);
    }
    Carver carver(launch.workspace);
    auto buffers = carve_sorted_segments<compute_t<T>>(&carver, shape, s);
    const Grid grid{dim3(static_cast<unsigned>(ceil_div<int64_t>(shape.n, 256))), dim3(256)};
    BK_TRY(launch_kernel(launch, grid, segment_keys_kernel<I>, segment_ids, buffers.sort.keys[0], buffers.sort.values[0],
                         shape.n, shape.num_segments));
    BK_TRY(sort_pairs(launch, &buffers.sort, shape.n, static_cast<uint32_t>(shape.num_segments)));
    return store_runs(launch, s, RowsByIndex<T, false>{input, buffers.sort.values[0]},
                      static_cast<const uint32_t*>(buffers.sort.keys[0]), output, &buffers.parts);
}

}  // namespace bk
