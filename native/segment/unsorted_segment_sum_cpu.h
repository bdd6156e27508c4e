// f32 and f64 are added in place, each thread its part of the output. 16-bit sums need rows grouped by id to be kept in
// f32; without a workspace to group them in, every addition is rounded.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/abi/workspace.h"
#include "core/rows/row_sums_cpu.h"
#include "segment/unsorted_segment_sum.h"

namespace bk {

inline Grouping carve_grouping(Carver* carver, int64_t n, int64_t keys) {
    Grouping grouping;
    grouping.values = carver->take<int32_t>(n);
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
        const int64_t largest = group_by_key(grouping, n, segments, id, [](int64_t k) { return k; });
        for_each_group(grouping, segments, largest, d, sizeof(T), [&](int64_t s, ColumnRange columns) {
            const int64_t first = grouping.start[s], total = grouping.start[segments];
            sum_rows(output + s * d, columns, grouping.start[s + 1] - first, [&](int64_t k, int64_t c, int64_t width) {
                const int64_t at = first + k;
                if (at + kRowsAhead < total) prefetch_row(input + grouping.values[at + kRowsAhead] * d + c, width);
                return input + grouping.values[at] * d + c;
            });
        });
        return Status::kOk;
    }
    const MatrixParts parts(d, sizeof(T));
    parallel_ranges(parts.count(), n * d < 4096 ? parts.count() : 1, [&](int64_t begin, int64_t end) {
        for (int64_t part = begin; part < end; ++part) {
            const ColumnRange columns = parts.column_range(part);
            for (int64_t s = parts.row_class(part); s < segments; s += parts.row_classes)
                memset(output + s * d + columns.first, 0, sizeof(T) * static_cast<size_t>(columns.last - columns.first));
            const auto owned = [&](int64_t s) { return s >= 0 && s < segments && parts.owns(part, s); };
            for (int64_t k = 0; k < n; ++k) {
                if (k + kRowsAhead < n)
                    if (const int64_t next = id(k + kRowsAhead); owned(next))
                        prefetch_row(output + next * d + columns.first, columns.last - columns.first);
                if (const int64_t s = id(k); owned(s))
                    for_column_blocks(columns, [&](int64_t c, auto most, int64_t width) {
                        add_to_row<most()>(output + s * d + c, width, [&](int64_t i) { return widen(input[k * d + c + i]); });
                    });
            }
        }
    });
    return Status::kOk;
}

}  // namespace bk
