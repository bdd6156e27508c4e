// SPDX-License-Identifier: Apache-2.0
// Segment counts on the CPU: in the workspace, or tile by tile on the stack without one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/types/dtype.h"
#include "segment/segment_counts.h"

namespace bk {

constexpr int64_t kCountTile = 4096;

// body(first, last, counts) for ranges of segments whose counts are known: all segments, or a tile.
template <class Body>
void with_counts(const Launch& launch, const SegmentShape& shape, IdArray ids, const Body& body) {
    const int64_t segments = shape.num_segments;
    int32_t tile[kCountTile];
    int32_t* const given = find_counts(launch, shape);
    const int64_t step = given != nullptr ? segments : kCountTile;
    int32_t* const counts = given != nullptr ? given : tile;
    for (int64_t first = 0; first < segments; first += step) {
        const int64_t last = std::min(first + step, segments);
        memset(counts, 0, sizeof(int32_t) * static_cast<size_t>(last - first));
        for (int64_t k = 0; k < shape.n; ++k)
            if (const int64_t id = ids[k]; id >= first && id < last) ++counts[id - first];
        body(first, last, static_cast<const int32_t*>(counts));
    }
}

template <class T>
void divide_by_counts(const Launch& launch, const SegmentShape& shape, IdArray ids, T* output) {
    using C = compute_t<T>;
    const int64_t d = shape.d;
    with_counts(launch, shape, ids, [&](int64_t first, int64_t last, const int32_t* counts) {
        parallel_ranges(last - first, grain_for(d * static_cast<int64_t>(sizeof(T))), [&](int64_t begin, int64_t end) {
            for (int64_t s = begin; s < end; ++s) {
                if (counts[s] <= 1) continue;
                const C count = static_cast<C>(counts[s]);
                T* const row = output + (first + s) * d;
                for (int64_t c = 0; c < d; ++c) row[c] = narrow<T>(widen(row[c]) / count);
            }
        });
    });
}

}  // namespace bk
