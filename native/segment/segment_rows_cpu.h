// SPDX-License-Identifier: Apache-2.0
// Segments as lists of rows, distributed over the threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/workspace.h"
#include "core/row/row_sums_cpu.h"
#include "segment/segment_shape.h"

namespace bk {

// The first row of segment s; ids are sorted.
inline int64_t segment_start(const SegmentShape& shape, IdArray ids, int64_t s) {
    int64_t low = 0, high = shape.n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        (ids[middle] < s ? low : high) = ids[middle] < s ? middle + 1 : middle;
    }
    return low;
}

// The first segment of range p; `ranges` divide rows plus segments evenly.
inline int64_t first_segment(const SegmentShape& shape, IdArray ids, int64_t p, int64_t ranges) {
    const int64_t items = (int64_t{shape.n} + shape.num_segments) * p / ranges;
    int64_t low = 0, high = shape.num_segments;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (segment_start(shape, ids, middle) + middle < items)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Rows start, start + 1, ...; or rows[start], rows[start + 1], ... if `rows` is given.
struct SegmentRows {
    const int32_t* rows;
    int64_t start, count, total;

    BK_HD int64_t operator[](int64_t k) const { return rows == nullptr ? start + k : rows[start + k]; }

    // Row k of x; prefetches a later one.
    template <class T>
    BK_HD const T* row(const T* x, int64_t columns, int64_t k, int64_t column, int64_t width) const {
        if (rows != nullptr && start + k + kRowsAhead < total)
            prefetch_row(x + rows[start + k + kRowsAhead] * columns + column, width);
        return x + (*this)[k] * columns + column;
    }
};

// body(segment, rows, columns) for every segment of sorted ids. Threads own ranges of segments with about as many rows
// each, or ranges of columns if one segment outweighs that.
template <class Body>
void for_each_sorted_segment(const SegmentShape& shape, IdArray ids, size_t element_bytes, const Body& body) {
    const auto walk = [&](int64_t first, int64_t last, ColumnRange columns) {
        int64_t row = segment_start(shape, ids, first);
        for (int64_t s = first; s < last; ++s) {
            const int64_t start = row;
            while (row < shape.n && ids[row] == s) ++row;
            body(s, SegmentRows{nullptr, start, row - start, shape.n}, columns);
        }
    };
    const int64_t threads = thread_count(), ranges = 4 * threads;
    int64_t largest = 0;
    for (int64_t p = 0, from = 0; p < ranges && threads > 1; ++p) {
        const int64_t to = segment_start(shape, ids, first_segment(shape, ids, p + 1, ranges));
        largest = std::max(largest, to - from);
        from = to;
    }
    if (largest > shape.n / threads) {
        parallel_ranges(shape.d, grain_for(int64_t{shape.n} * static_cast<int64_t>(element_bytes)),
                        [&](int64_t begin, int64_t end) { walk(0, shape.num_segments, ColumnRange{begin, end}); });
    } else {
        const int64_t bytes = (int64_t{shape.n} + shape.num_segments) * shape.d * static_cast<int64_t>(element_bytes);
        parallel_chunks(ranges, bytes < 65536 ? ranges : 1, [&](int64_t begin, int64_t end) {
            for (int64_t p = begin; p < end; ++p)
                walk(first_segment(shape, ids, p, ranges), first_segment(shape, ids, p + 1, ranges), ColumnRange{0, shape.d});
        });
    }
}

inline Grouping carve_grouping(Carver* carver, int64_t n, int64_t keys) {
    Grouping grouping;
    grouping.values = carver->take<int32_t>(n);
    grouping.start = carver->take<int64_t>(keys + 1);
    return grouping;
}

inline size_t grouping_bytes(const SegmentShape& shape) {
    Carver carver;
    carve_grouping(&carver, shape.n, shape.num_segments);
    return carver.bytes();
}

// body(segment, rows, columns) for ids in any order, grouped in a workspace of grouping_bytes().
template <class Body>
void for_each_grouped_segment(const Launch& launch, const SegmentShape& shape, IdArray ids, size_t element_bytes,
                              const Body& body) {
    const int64_t segments = shape.num_segments;
    Carver carver(launch.workspace);
    const Grouping grouping = carve_grouping(&carver, shape.n, segments);
    const int64_t largest =
        group_by_key(grouping, shape.n, segments, [&](int64_t k) { return ids[k]; }, [](int64_t k) { return k; });
    for_each_group(grouping, segments, largest, shape.d, element_bytes, [&](int64_t s, ColumnRange columns) {
        const int64_t start = grouping.start[s];
        body(s, SegmentRows{grouping.values, start, grouping.start[s + 1] - start, grouping.start[segments]}, columns);
    });
}

}  // namespace bk
