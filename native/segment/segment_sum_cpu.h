// Threads own ranges of segments that hold about as many rows each; where one segment outweighs that, ranges of columns.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/rows/row_sums_cpu.h"
#include "segment/segment_sum.h"

namespace bk {

template <class T, class I>
size_t segment_sum_workspace(const SegmentShape&) {
    return 0;
}

// Row where segment s starts.
template <class I>
int64_t segment_start(const SegmentShape& shape, const I* segment_ids, int64_t s) {
    int64_t low = 0, high = shape.n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        (static_cast<int64_t>(segment_ids[middle]) < s ? low : high) =
            static_cast<int64_t>(segment_ids[middle]) < s ? middle + 1 : middle;
    }
    return low;
}

// First segment of piece p of `pieces`, where rows and segments together are cut evenly.
template <class I>
int64_t first_segment(const SegmentShape& shape, const I* segment_ids, int64_t p, int64_t pieces) {
    const int64_t items = (int64_t{shape.n} + shape.num_segments) * p / pieces;
    int64_t low = 0, high = shape.num_segments;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (segment_start(shape, segment_ids, middle) + middle < items)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

template <class T, class I>
BK_HD void sum_segments(const SegmentShape& shape, const T* input, const I* segment_ids, T* output, int64_t first, int64_t last,
                        ColumnRange columns) {
    const int64_t d = shape.d;
    int64_t row = segment_start(shape, segment_ids, first);
    for (int64_t s = first; s < last; ++s) {
        const int64_t start = row;
        while (row < shape.n && static_cast<int64_t>(segment_ids[row]) == s) ++row;
        sum_rows(output + s * d, columns, row - start,
                 [&](int64_t k, int64_t c, int64_t) { return input + (start + k) * d + c; });
    }
}

template <class T, class I>
Status segment_sum(const Launch&, const SegmentShape& shape, const T* input, const I* segment_ids, T* output) {
    const int64_t threads = thread_count(), pieces = 4 * threads;
    int64_t largest = 0;
    for (int64_t p = 0, from = 0; p < pieces && threads > 1; ++p) {
        const int64_t to = segment_start(shape, segment_ids, first_segment(shape, segment_ids, p + 1, pieces));
        largest = std::max(largest, to - from);
        from = to;
    }
    if (largest > shape.n / threads) {
        parallel_ranges(shape.d, grain_for(int64_t{shape.n} * sizeof(T)), [&](int64_t begin, int64_t end) {
            sum_segments(shape, input, segment_ids, output, 0, shape.num_segments, {begin, end});
        });
    } else {
        const int64_t bytes = (int64_t{shape.n} + shape.num_segments) * shape.d * static_cast<int64_t>(sizeof(T));
        parallel_chunks(pieces, bytes < 65536 ? pieces : 1, [&](int64_t begin, int64_t end) {
            for (int64_t p = begin; p < end; ++p)
                sum_segments(shape, input, segment_ids, output, first_segment(shape, segment_ids, p, pieces),
                             first_segment(shape, segment_ids, p + 1, pieces), {0, shape.d});
        });
    }
    return Status::kOk;
}

}  // namespace bk
