// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "segment/segment_counts_cpu.h"
#include "segment/segment_mean_backward.h"

namespace bk {

template <bool, class T>
Status segment_mean_backward(const Launch& launch, const SegmentShape& shape, const T* d_output, IdArray ids, T* d_input) {
    using C = compute_t<T>;
    const int64_t d = shape.d;
    with_counts(launch, shape, ids, [&](int64_t first, int64_t last, const int32_t* counts) {
        parallel_ranges(shape.n, grain_for(2 * d * static_cast<int64_t>(sizeof(T))), [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                const int64_t id = ids[i];
                T* const y = d_input + i * d;
                if (!shape.has(id)) {
                    if (first == 0) memset(y, 0, sizeof(T) * static_cast<size_t>(d));
                } else if (id >= first && id < last) {
                    const T* const x = d_output + id * d;
                    const C count = static_cast<C>(counts[id - first]);
                    for (int64_t c = 0; c < d; ++c) y[c] = narrow<T>(widen(x[c]) / count);
                }
            }
        });
    });
    return Status::kOk;
}

}  // namespace bk
