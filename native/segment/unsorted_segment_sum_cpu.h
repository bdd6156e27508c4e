// f32 and f64 are added in place, each thread its part of the output. 16-bit sums need rows grouped by id to be kept in
// f32; without a workspace to group them in, every addition is rounded.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/row_sums_cpu.h"
#include "core/workspace.h"
#include "segment/unsorted_segment_sum.h"

namespace bk {

inline Grouping carve_grouping(Carver* carver, int64_t n, int64_t keys) {
    Grouping grouping;
    grouping.order = carver->take<int32_t>(n);
    grouping.start = carver->take<int64_t>(keys + 1);
    return grouping;
}

template <class T, class I>
size_t unsorted_segment_sum_workspace(const SegmentShape& shape) {
    if (std::is_same<T, compute_t<T>>::value) return 0;
    Carver carver;
    carve_grouping(&carver, shape.n, shape.num_segments);
    return carver.bytes();
}

template <class T, class I>
Status unsorted_segment_sum(const Launch& launch, const SegmentShape& shape, const T* input, const I* segment_ids, T* output) {
    const int64_t n = shape.n, d = shape.d, segments = shape.num_segments;
    bool grouped = false;
    BK_TRY(find_workspace(launch, unsorted_segment_sum_workspace<T, I>(shape), &grouped));
    const auto id = [&](int64_t k) { return static_cast<int64_t>(segment_ids[k]); };
    if (grouped) {
        Carver carver(launch.workspace);
        const Grouping grouping = carve_grouping(&carver, n, segments);
        group_by_key(grouping, n, segments, id);
        parallel_chunks(segments, ceil_div(segments, 16 * thread_count()), [&](int64_t begin, int64_t end) {
            for (int64_t s = begin; s < end; ++s) {
                const int32_t* const order = grouping.order + grouping.start[s];
                sum_rows(output + s * d, static_cast<const T*>(nullptr), {0, d}, grouping.start[s + 1] - grouping.start[s],
                         [&](int64_t k) { return input + order[k] * d; });
            }
        });
        return Status::kOk;
    }
    const MatrixParts parts(d, sizeof(T));
    parallel_ranges(parts.count(), n * d < 4096 ? parts.count() : 1, [&](int64_t begin, int64_t end) {
        for (int64_t part = begin; part < end; ++part) {
            const ColumnRange columns = parts.column_range(part);
            for (int64_t s = parts.row_class(part); s < segments; s += parts.row_classes)
                memset(output + s * d + columns.first, 0, sizeof(T) * static_cast<size_t>(columns.last - columns.first));
            for (int64_t k = 0; k < n; ++k) {
                const int64_t s = id(k);
                if (s < 0 || s >= segments || s % parts.row_classes != parts.row_class(part)) continue;
                T* BK_RESTRICT const y = output + s * d;
                const T* BK_RESTRICT const x = input + k * d;
                for (int64_t c = columns.first; c < columns.last; ++c) y[c] = narrow<T>(widen(y[c]) + widen(x[c]));
            }
        }
    });
    return Status::kOk;
}

}  // namespace bk
