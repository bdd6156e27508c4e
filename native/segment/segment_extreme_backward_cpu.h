// A segment at a time: its first rows with the extreme are found in registers, then its rows are written. Unsorted rows are
// grouped first; without a workspace for that, all ids are read for each tile of segments.
#pragma once

#include <cstring>

#include "segment/segment_extreme_backward.h"
#include "segment/segment_rows_cpu.h"

namespace bk {

template <bool kSorted, class T>
size_t segment_extreme_backward_workspace(const SegmentShape& shape) {
    return kSorted ? 0 : grouping_bytes(shape);
}

// Numbers of rows as wide as what they stand beside, for vectors' sake.
template <class T>
using row_number_t = bits_t<compute_t<T>>;

// The greatest key so far, and its row: the first one, `row` where it is taken whatever it has.
template <class T>
BK_HD void keep_first(const Order<T>& order, compute_t<T>& key, row_number_t<T>& first, T x, int64_t row) {
    const compute_t<T> here = order.key(widen(x));
    const bool exceeds = Order<T>::exceeds(here, key);
    key = math::select(exceeds, here, key);
    first = exceeds ? static_cast<row_number_t<T>>(row) : first;
}

template <class T>
BK_HD void extreme_gradient(const SegmentShape& shape, const Order<T>& order, const ExtremeOperands<T>& operands, int64_t s,
                            const SegmentRows& rows, ColumnRange columns) {
    const int64_t d = shape.d;
    if (rows.count == 0) return;
    for_column_blocks(columns, [&](int64_t c, auto most, int64_t width) {
        compute_t<T> key[most()];
        row_number_t<T> first[most()];
        const T* const head = rows.row(operands.input, d, 0, c, width);
        for (int64_t i = 0; i < width; ++i) {
            key[i] = order.key(widen(head[i]));
            first[i] = static_cast<row_number_t<T>>(rows[0]);
        }
        for (int64_t k = 1; k < rows.count; ++k) {
            const T* const x = rows.row(operands.input, d, k, c, width);
            for (int64_t i = 0; i < width; ++i) keep_first(order, key[i], first[i], x[i], rows[k]);
        }
        T dy[most()];
        for (int64_t i = 0; i < width; ++i) dy[i] = operands.d_output[s * d + c + i];
        for (int64_t k = 0; k < rows.count; ++k) {
            T* const y = operands.d_input + rows[k] * d + c;
            const auto row = static_cast<row_number_t<T>>(rows[k]);
            for (int64_t i = 0; i < width; ++i)
                y[i] = bit_cast<T>(static_cast<bits_t<T>>(first[i] == row ? bit_cast<bits_t<T>>(dy[i]) : bits_t<T>(0)));
        }
    });
}

template <class T>
void clear_rows_of_none(const SegmentShape& shape, const ExtremeOperands<T>& operands) {
    const int64_t d = shape.d;
    parallel_ranges(shape.n, grain_for(d * static_cast<int64_t>(sizeof(T))), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            if (!shape.has(operands.ids[i])) memset(operands.d_input + i * d, 0, sizeof(T) * static_cast<size_t>(d));
    });
}

template <class T>
void extreme_by_tiles(const SegmentShape& shape, const Order<T>& order, const ExtremeOperands<T>& operands) {
    constexpr int64_t kSegments = 64, kColumns = 16;
    const int64_t d = shape.d, segments = shape.num_segments;
    parallel_chunks(ceil_div(segments, kSegments), 1, [&](int64_t begin, int64_t end) {
        compute_t<T> key[kSegments][kColumns];
        row_number_t<T> first[kSegments][kColumns];
        bool has_rows[kSegments];
        for (int64_t tile = begin; tile < end; ++tile)
            for (int64_t c = 0; c < d; c += kColumns) {
                const int64_t from = tile * kSegments, to = std::min(from + kSegments, segments);
                const int64_t width = std::min(kColumns, d - c);
                memset(has_rows, 0, sizeof(has_rows));
                for (int64_t k = 0; k < shape.n; ++k) {
                    const int64_t id = operands.ids[k], s = id - from;
                    if (id < from || id >= to) continue;
                    const T* const x = operands.input + k * d + c;
                    for (int64_t i = 0; i < width; ++i) {
                        if (has_rows[s]) {
                            keep_first(order, key[s][i], first[s][i], x[i], k);
                        } else {
                            key[s][i] = order.key(widen(x[i]));
                            first[s][i] = static_cast<row_number_t<T>>(k);
                        }
                    }
                    has_rows[s] = true;
                }
                for (int64_t k = 0; k < shape.n; ++k) {
                    const int64_t id = operands.ids[k];
                    if (id < from || id >= to) continue;
                    for (int64_t i = 0; i < width; ++i) {
                        const bool is_first = first[id - from][i] == static_cast<row_number_t<T>>(k);
                        operands.d_input[k * d + c + i] =
                            is_first ? operands.d_output[id * d + c + i] : narrow<T>(compute_t<T>(0));
                    }
                }
            }
    });
}

template <bool kSorted, class T>
Status segment_extreme_backward(const Launch& launch, const SegmentShape& shape, const Order<T>& order,
                                const ExtremeOperands<T>& operands) {
    const auto gradient = [&](int64_t s, const SegmentRows& rows, ColumnRange columns) {
        extreme_gradient(shape, order, operands, s, rows, columns);
    };
    if constexpr (kSorted) {
        for_each_sorted_segment(shape, operands.ids, 2 * sizeof(T), gradient);
    } else {
        bool grouped = false;
        BK_TRY(find_workspace(launch, segment_extreme_backward_workspace<kSorted, T>(shape), &grouped));
        if (grouped)
            for_each_grouped_segment(launch, shape, operands.ids, sizeof(T), gradient);
        else
            extreme_by_tiles(shape, order, operands);
    }
    clear_rows_of_none(shape, operands);
    return Status::kOk;
}

}  // namespace bk
