// Grouped rows are folded in registers. Without a workspace to group them in, unsorted rows are folded into the output,
// each thread its part of it; 16-bit results are rounded at every step then.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "segment/segment_counts_cpu.h"
#include "segment/segment_reduce.h"
#include "segment/segment_rows_cpu.h"

namespace bk {

// Columns [c, c + width) of one segment whose folds are lost are folded again (core/rows/folds.h).
template <int64_t kMost, class Fold, class T>
BK_COLD void fold_lost_rows(const Fold& fold, const T* input, int64_t d, const SegmentRows& rows, int64_t c, int64_t width,
                            const typename Fold::Acc* lost, T* y) {
    typename Fold::Again again[kMost];
    for (int64_t i = 0; i < width; ++i) again[i] = fold.start_again();
    for (int64_t k = 0; k < rows.count; ++k) {
        const T* const x = input + rows[k] * d + c;
        for (int64_t i = 0; i < width; ++i)
            if (fold.is_lost(lost[i])) fold.add_again(again[i], widen(x[i]));
    }
    for (int64_t i = 0; i < width; ++i)
        if (fold.is_lost(lost[i])) y[c + i] = fold.finish_again(again[i], rows.count);
}

// Columns of one segment. Blocks of rows are folded on their own, so the error of a sum grows with count / 64 + 64
// rather than with count.
template <class Fold, class T>
BK_HD void fold_rows(const Fold& fold, const T* input, int64_t d, const SegmentRows& rows, ColumnRange columns, T* y) {
    using Acc = typename Fold::Acc;
    constexpr int64_t kBlock = 64;
    for_column_blocks(columns, [&](int64_t c, auto most, int64_t width) {
        const auto fold_block = [&](Acc* acc, int64_t first) {
            const T* const head = rows.row(input, d, first, c, width);
            for (int64_t i = 0; i < width; ++i) {
                acc[i] = fold.identity();
                fold.add(acc[i], widen(head[i]), 0);
            }
            for (int64_t k = first + 1; k < std::min(first + kBlock, rows.count); ++k) {
                const T* const x = rows.row(input, d, k, c, width);
                for (int64_t i = 0; i < width; ++i) fold.add(acc[i], widen(x[i]), 0);
            }
        };
        if (rows.count == 0) {
            for (int64_t i = 0; i < width; ++i) y[c + i] = fold.finish(fold.identity(), 0);
            return;
        }
        Acc total[most()], block[most()];
        fold_block(total, 0);
        for (int64_t k = kBlock; k < rows.count; k += kBlock) {
            fold_block(block, k);
            for (int64_t i = 0; i < width; ++i) fold.combine(total[i], block[i]);
        }
        for (int64_t i = 0; i < width; ++i) y[c + i] = fold.finish(total[i], rows.count);
        if constexpr (kMayLoseRows<Fold>) {
            int lost = 0;
            for (int64_t i = 0; i < width; ++i) lost |= int(fold.is_lost(total[i]));
            if (lost != 0) fold_lost_rows<most()>(fold, input, d, rows, c, width, total, y);
        }
    });
}

template <class Fold, class T>
size_t segment_fold_workspace(const SegmentShape&, const Fold&) {
    return 0;
}

template <class Fold, class T>
Status segment_fold(const Launch&, const SegmentShape& shape, const Fold& fold, const T* input, IdArray ids, T* output) {
    for_each_sorted_segment(shape, ids, sizeof(T), [&](int64_t s, const SegmentRows& rows, ColumnRange columns) {
        fold_rows(fold, input, shape.d, rows, columns, output + s * shape.d);
    });
    return Status::kOk;
}

// Whether rows are worth grouping: what is folded in memory is rounded to T, and a mean needs the counts.
template <class Fold, class T>
size_t unsorted_segment_fold_workspace(const SegmentShape& shape, const Fold& fold) {
    if (!std::is_same_v<T, compute_t<T>>) return grouping_bytes(shape);
    return fold.counts() ? counts_bytes(shape) : 0;
}

template <class Fold, class T>
void fold_in_place(const SegmentShape& shape, const Fold& fold, const T* input, IdArray ids, T* output) {
    const int64_t n = shape.n, d = shape.d, segments = shape.num_segments;
    const MatrixParts parts(d, sizeof(T));
    parallel_ranges(parts.count(), n * d < 4096 ? parts.count() : 1, [&](int64_t begin, int64_t end) {
        for (int64_t part = begin; part < end; ++part) {
            const ColumnRange columns = parts.column_range(part);
            const T empty = fold.finish(fold.identity(), 0);
            for (int64_t s = parts.row_class(part); s < segments; s += parts.row_classes)
                std::fill(output + s * d + columns.first, output + s * d + columns.last, empty);
            const auto owned = [&](int64_t s) { return shape.has(s) && parts.owns(part, s); };
            for (int64_t k = 0; k < n; ++k) {
                if (k + kRowsAhead < n)
                    if (const int64_t next = ids[k + kRowsAhead]; owned(next))
                        prefetch_row(output + next * d + columns.first, columns.last - columns.first);
                const int64_t s = ids[k];
                if (!owned(s)) continue;
                for_column_blocks(columns, [&](int64_t c, auto most, int64_t width) {
                    const T* const x = input + k * d + c;
                    T* const y = output + s * d + c;
                    T folded[most()];
                    for (int64_t i = 0; i < width; ++i) {
                        typename Fold::Acc acc = fold.identity();
                        fold.add(acc, widen(y[i]), 0);
                        fold.add(acc, widen(x[i]), 0);
                        folded[i] = fold.finish(acc, 0);
                    }
                    for (int64_t i = 0; i < width; ++i) y[i] = folded[i];
                });
            }
        }
    });
}

template <class Fold, class T>
Status unsorted_segment_fold(const Launch& launch, const SegmentShape& shape, const Fold& fold, const T* input, IdArray ids,
                             T* output) {
    const bool grouped = workspace_holds(launch, unsorted_segment_fold_workspace<Fold, T>(shape, fold));
    if (grouped && !std::is_same_v<T, compute_t<T>>) {
        for_each_grouped_segment(launch, shape, ids, sizeof(T), [&](int64_t s, const SegmentRows& rows, ColumnRange columns) {
            fold_rows(fold, input, shape.d, rows, columns, output + s * shape.d);
        });
        return Status::kOk;
    }
    fold_in_place(shape, fold, input, ids, output);
    if constexpr (!std::is_integral_v<T>)
        if (fold.counts()) divide_by_counts(launch, shape, ids, output);
    return Status::kOk;
}

}  // namespace bk
