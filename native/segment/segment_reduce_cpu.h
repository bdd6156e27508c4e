// SPDX-License-Identifier: Apache-2.0
// CPU: grouped rows are reduced in registers. Without a workspace unsorted rows are reduced in the output, each thread
// owning a slice of it; 16-bit results are then rounded at every step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "segment/segment_counts_cpu.h"
#include "segment/segment_reduce.h"
#include "segment/segment_rows_cpu.h"

namespace bk {

// Recomputes columns [c, c + width) of a segment whose accumulators over- or underflowed (core/segmented/reduce_ops.h).
template <int64_t kMaxWidth, class Reduce, class T>
BK_COLD void reduce_lost_rows(const Reduce& reduction, const T* input, int64_t d, const SegmentRows& rows, int64_t c,
                              int64_t width, const typename Reduce::Acc* lost, T* y) {
    typename Reduce::Again again[kMaxWidth];
    for (int64_t i = 0; i < width; ++i) again[i] = reduction.start_again();
    for (int64_t k = 0; k < rows.count; ++k) {
        const T* const x = input + rows[k] * d + c;
        for (int64_t i = 0; i < width; ++i)
            if (reduction.is_lost(lost[i])) reduction.add_again(again[i], widen(x[i]));
    }
    for (int64_t i = 0; i < width; ++i)
        if (reduction.is_lost(lost[i])) y[c + i] = reduction.finish_again(again[i], rows.count);
}

// Columns of one segment, reduced by blocks of 64 rows: the error of a sum grows with count / 64 + 64 instead of count.
template <class Reduce, class T>
BK_HD void reduce_rows(const Reduce& reduction, const T* input, int64_t d, const SegmentRows& rows, ColumnRange columns, T* y) {
    using Acc = typename Reduce::Acc;
    constexpr int64_t kBlock = 64;
    for_column_blocks(columns, [&](int64_t c, auto most, int64_t width) BK_INLINED {
        const auto reduce_block = [&](Acc* acc, int64_t first) {
            const T* const head = rows.row(input, d, first, c, width);
            for (int64_t i = 0; i < width; ++i) {
                acc[i] = reduction.identity();
                reduction.add(acc[i], widen(head[i]), 0);
            }
            for (int64_t k = first + 1; k < std::min(first + kBlock, rows.count); ++k) {
                const T* const x = rows.row(input, d, k, c, width);
                for (int64_t i = 0; i < width; ++i) reduction.add(acc[i], widen(x[i]), 0);
            }
        };
        if (rows.count == 0) {
            for (int64_t i = 0; i < width; ++i) y[c + i] = reduction.finish(reduction.identity(), 0);
            return;
        }
        Acc total[most()], block[most()];
        reduce_block(total, 0);
        for (int64_t k = kBlock; k < rows.count; k += kBlock) {
            reduce_block(block, k);
            for (int64_t i = 0; i < width; ++i) reduction.combine(total[i], block[i]);
        }
        for (int64_t i = 0; i < width; ++i) y[c + i] = reduction.finish(total[i], rows.count);
        if constexpr (kMayLoseRows<Reduce>) {
            int lost = 0;
            for (int64_t i = 0; i < width; ++i) lost |= int(reduction.is_lost(total[i]));
            if (lost != 0) reduce_lost_rows<most()>(reduction, input, d, rows, c, width, total, y);
        }
    });
}

template <class Reduce, class T>
size_t segment_reduce_workspace(const SegmentShape&, const Reduce&) {
    return 0;
}

template <class Reduce, class T>
Status segment_reduce(const Launch&, const SegmentShape& shape, const Reduce& reduction, const T* input, IdArray ids,
                      T* output) {
    for_each_sorted_segment(shape, ids, sizeof(T), [&](int64_t s, const SegmentRows& rows, ColumnRange columns) {
        reduce_rows(reduction, input, shape.d, rows, columns, output + s * shape.d);
    });
    return Status::kOk;
}

// Grouping pays if results in memory would be rounded to T; a mean needs counts.
template <class Reduce, class T>
size_t unsorted_segment_reduce_workspace(const SegmentShape& shape, const Reduce& reduction) {
    if (!std::is_same_v<T, compute_t<T>>) return grouping_bytes(shape);
    return reduction.counts() ? counts_bytes(shape) : 0;
}

template <class Reduce, class T>
void reduce_in_place(const SegmentShape& shape, const Reduce& reduction, const T* input, IdArray ids, T* output) {
    const int64_t n = shape.n, d = shape.d, segments = shape.num_segments;
    const MatrixTiles partition(d, sizeof(T));
    parallel_ranges(partition.count(), n * d < 4096 ? partition.count() : 1, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
            const ColumnRange columns = partition.column_range(task);
            const T empty = reduction.finish(reduction.identity(), 0);
            for (int64_t s = partition.row_class(task); s < segments; s += partition.row_classes)
                std::fill(output + s * d + columns.first, output + s * d + columns.last, empty);
            const auto owned = [&](int64_t s) { return shape.has(s) && partition.owns(task, s); };
            for (int64_t k = 0; k < n; ++k) {
                if (k + kRowsAhead < n)
                    if (const int64_t next = ids[k + kRowsAhead]; owned(next))
                        prefetch_row(output + next * d + columns.first, columns.last - columns.first);
                const int64_t s = ids[k];
                if (!owned(s)) continue;
                for_column_blocks(columns, [&](int64_t c, auto most, int64_t width) BK_INLINED {
                    const T* const x = input + k * d + c;
                    T* const y = output + s * d + c;
                    T reduced[most()];
                    for (int64_t i = 0; i < width; ++i) {
                        typename Reduce::Acc acc = reduction.identity();
                        reduction.add(acc, widen(y[i]), 0);
                        reduction.add(acc, widen(x[i]), 0);
                        reduced[i] = reduction.finish(acc, 0);
                    }
                    for (int64_t i = 0; i < width; ++i) y[i] = reduced[i];
                });
            }
        }
    });
}

template <class Reduce, class T>
Status unsorted_segment_reduce(const Launch& launch, const SegmentShape& shape, const Reduce& reduction, const T* input,
                               IdArray ids, T* output) {
    const bool has_workspace = workspace_holds(launch, unsorted_segment_reduce_workspace<Reduce, T>(shape, reduction));
    if (has_workspace && !std::is_same_v<T, compute_t<T>>) {
        for_each_grouped_segment(launch, shape, ids, sizeof(T), [&](int64_t s, const SegmentRows& rows, ColumnRange columns) {
            reduce_rows(reduction, input, shape.d, rows, columns, output + s * shape.d);
        });
        return Status::kOk;
    }
    reduce_in_place(shape, reduction, input, ids, output);
    if constexpr (!std::is_integral_v<T>)
        if (reduction.counts()) divide_by_counts(launch, shape, ids, output);
    return Status::kOk;
}

}  // namespace bk
