#pragma once

#include "core/rows/store_runs.cuh"
#include "segment/segment_sum.h"

namespace bk {

template <class T, class I>
size_t segment_sum_workspace(const SegmentShape& shape) {
    Carver carver;
    carve_run_parts<compute_t<T>>(&carver, make_run_shape<T>(shape.n, shape.d, shape.num_segments, true));
    return carver.bytes();
}

template <class T, class I>
Status segment_sum(const Launch& launch, const SegmentShape& shape, const T* input, const I* segment_ids, T* output) {
    const RunShape s = make_run_shape<T>(shape.n, shape.d, shape.num_segments, true);
    bool found = false;
    BK_TRY(find_workspace(launch, segment_sum_workspace<T, I>(shape), &found));
    Carver carver(found ? launch.workspace : nullptr);
    const auto parts = carve_run_parts<compute_t<T>>(&carver, s);
    return store_runs(launch, s, RowsInOrder<T>{input}, segment_ids, output, found ? &parts : nullptr);
}

}  // namespace bk
