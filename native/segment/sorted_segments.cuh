// SPDX-License-Identifier: Apache-2.0
// Rows sorted by segment id, stable within each segment.
#pragma once

#include <cstdint>

#include "core/segmented/reduce_ops.h"
#include "core/segmented/sort_pairs.h"
#include "segment/segment_shape.h"

namespace bk {

inline SortBuffers carve_sorted_segments(Carver* carver, const SegmentShape& shape) {
    return carve_sort(carver, shape.n, static_cast<uint32_t>(shape.num_segments));
}

// Keys are the ids, num_segments if out of range, which sorts last; values are the rows.
template <class Ids>
__global__ void segment_keys_kernel(Ids ids, uint32_t* keys, uint32_t* rows, SegmentShape shape) {
    const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i >= shape.n) return;
    const int64_t id = ids[i];
    keys[i] = static_cast<uint32_t>(shape.has(id) ? id : shape.num_segments);
    rows[i] = static_cast<uint32_t>(i);
}

inline Status sort_segments(const Launch& launch, const SegmentShape& shape, IdArray ids, SortBuffers* sort) {
    const Grid grid{dim3(static_cast<unsigned>(ceil_div<int64_t>(shape.n, 256))), dim3(256)};
    BK_TRY(launch_kernel(launch, grid, segment_keys_kernel<IdArray>, ids, sort->keys[0], sort->values[0], shape));
    return sort_pairs(launch, sort, shape.n, static_cast<uint32_t>(shape.num_segments));
}

// Keys fit int32, since num_segments does.
inline IdArray sorted_ids(const SortBuffers& sort) { return IdArray(reinterpret_cast<const int32_t*>(sort.keys[0])); }

}  // namespace bk
