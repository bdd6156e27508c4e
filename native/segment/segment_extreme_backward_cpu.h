// SPDX-License-Identifier: Apache-2.0
// CPU: one segment at a time finds its first extreme rows in registers, then writes its rows. Unsorted rows are grouped
// first; without a workspace for that, d_input is cleared and all ids are read for each tile of segments.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "segment/segment_extreme_backward.h"
#include "segment/segment_rows_cpu.h"

namespace bk {

template <bool kSorted, class T>
size_t segment_extreme_backward_workspace(const SegmentShape& shape) {
    return kSorted ? 0 : grouping_bytes(shape);
}

// Row indices as wide as the keys beside them, so that loops vectorise.
template <class T>
using row_index_t = bits_t<compute_t<T>>;

// Replaces the greatest key and its row if x exceeds it; ties keep the first row.
template <class T>
BK_HD void update_first(const Order<T>& order, compute_t<T>& key, row_index_t<T>& first, T x, int64_t row) {
    const compute_t<T> here = order.key(widen(x));
    const bool exceeds = Order<T>::exceeds(here, key);
    key = math::select(exceeds, here, key);
    first = exceeds ? static_cast<row_index_t<T>>(row) : first;
}

template <class T>
BK_HD void extreme_gradient(const SegmentShape& shape, const Order<T>& order, const ExtremeOperands<T>& operands, int64_t s,
                            const SegmentRows& rows, ColumnRange columns) {
    const int64_t d = shape.d;
    if (rows.count == 0) return;
    for_column_blocks(columns, [&](int64_t c, auto most, int64_t width) BK_INLINED {
        compute_t<T> key[most()];
        row_index_t<T> first[most()];
        const T* const head = rows.row(operands.input, d, 0, c, width);
        for (int64_t i = 0; i < width; ++i) {
            key[i] = order.key(widen(head[i]));
            first[i] = static_cast<row_index_t<T>>(rows[0]);
        }
        for (int64_t k = 1; k < rows.count; ++k) {
            const T* const x = rows.row(operands.input, d, k, c, width);
            for (int64_t i = 0; i < width; ++i) update_first(order, key[i], first[i], x[i], rows[k]);
        }
        T dy[most()];
        for (int64_t i = 0; i < width; ++i) dy[i] = operands.d_output[s * d + c + i];
        for (int64_t k = 0; k < rows.count; ++k) {
            T* const y = operands.d_input + rows[k] * d + c;
            const auto row = static_cast<row_index_t<T>>(rows[k]);
            for (int64_t i = 0; i < width; ++i)
                y[i] = bit_cast<T>(static_cast<bits_t<T>>(first[i] == row ? bit_cast<bits_t<T>>(dy[i]) : bits_t<T>(0)));
        }
    });
}

template <class T>
void clear_unassigned_rows(const SegmentShape& shape, const ExtremeOperands<T>& operands) {
    const int64_t d = shape.d;
    parallel_ranges(shape.n, grain_for(d * static_cast<int64_t>(sizeof(T))), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            if (!shape.has(operands.ids[i])) memset(operands.d_input + i * d, 0, sizeof(T) * static_cast<size_t>(d));
    });
}

// body(k, id - from) for the ids in [from, from + count). Most blocks of ids have none, which a vector test finds.
template <class I, class Body>
BK_HD void for_ids_within(const I* ids, int64_t n, int64_t from, int64_t count, const Body& body) {
    constexpr int64_t kBlock = 16;
    using UnsignedId = std::make_unsigned_t<I>;
    const auto offset = [=](int64_t k) { return static_cast<UnsignedId>(ids[k]) - static_cast<UnsignedId>(from); };
    const auto limit = static_cast<UnsignedId>(count);
    const auto visit = [&](int64_t first, int64_t last) {
        for (int64_t k = first; k < last; ++k)
            if (offset(k) < limit) body(k, static_cast<int64_t>(offset(k)));
    };
    int64_t first = 0;
    for (; first + kBlock <= n; first += kBlock) {
        int any = 0;
        for (int64_t k = first; k < first + kBlock; ++k) any |= offset(k) < limit;
        if (any != 0) visit(first, first + kBlock);
    }
    visit(first, n);
}

// Tiles of segments and columns whose extremes are on the stack, as wide as fits: with fewer segments a tile skips more
// ids.
template <class T>
void extreme_by_tiles(const SegmentShape& shape, const Order<T>& order, const ExtremeOperands<T>& operands) {
    using Key = compute_t<T>;
    using Row = row_index_t<T>;
    constexpr int64_t kCells = 16384 / static_cast<int64_t>(sizeof(Key) + sizeof(Row)), kMaxColumns = 512, kMaxSegments = 1024;
    const int64_t d = shape.d, n = shape.n, segments = shape.num_segments;
    const int64_t columns = std::min(d, kMaxColumns), blocks = ceil_div(d, columns);
    const int64_t tile_segments = std::min(kMaxSegments, kCells / columns);
    parallel_ranges(n, grain_for(d * static_cast<int64_t>(sizeof(T))), [&](int64_t begin, int64_t end) {
        memset(operands.d_input + begin * d, 0, sizeof(T) * static_cast<size_t>((end - begin) * d));
    });
    parallel_chunks(ceil_div(segments, tile_segments) * blocks, 1, [&](int64_t begin, int64_t end) {
        Key keys[kCells];
        Row rows[kCells];
        bool has_rows[kMaxSegments];
        for (int64_t tile = begin; tile < end; ++tile) {
            const int64_t c = tile % blocks * columns, width = std::min(columns, d - c);
            const int64_t from = tile / blocks * tile_segments, count = std::min(tile_segments, segments - from);
            memset(has_rows, 0, sizeof(has_rows));
            const auto visit_row = [&](int64_t k, int64_t s) {
                const T* const x = operands.input + k * d + c;
                Key* const key = keys + s * columns;
                Row* const first = rows + s * columns;
                if (has_rows[s]) {
                    for (int64_t i = 0; i < width; ++i) update_first(order, key[i], first[i], x[i], k);
                } else {
                    for (int64_t i = 0; i < width; ++i) {
                        key[i] = order.key(widen(x[i]));
                        first[i] = static_cast<Row>(k);
                    }
                    has_rows[s] = true;
                }
            };
            if (operands.ids.is_wide)
                for_ids_within(static_cast<const int64_t*>(operands.ids.ids), n, from, count, visit_row);
            else
                for_ids_within(static_cast<const int32_t*>(operands.ids.ids), n, from, count, visit_row);
            for (int64_t s = 0; s < count; ++s)
                for (int64_t i = 0; has_rows[s] && i < width; ++i)
                    operands.d_input[static_cast<int64_t>(rows[s * columns + i]) * d + c + i] =
                        operands.d_output[(from + s) * d + c + i];
        }
    });
}

template <class I>
bool has_decrease(const I* ids, int64_t n) {
    int any = 0;
    for (int64_t k = 1; k < n; ++k) any |= ids[k] < ids[k - 1];
    return any != 0;
}

// Decreasing ids break the contract: rows that no search finds are cleared, so that no stale memory of the caller
// shows.
template <class T>
void clear_where_ids_decrease(const SegmentShape& shape, const ExtremeOperands<T>& operands) {
    const IdArray& ids = operands.ids;
    const bool decreases = ids.is_wide ? has_decrease(static_cast<const int64_t*>(ids.ids), shape.n)
                                       : has_decrease(static_cast<const int32_t*>(ids.ids), shape.n);
    if (decreases) memset(operands.d_input, 0, sizeof(T) * static_cast<size_t>(int64_t{shape.n} * shape.d));
}

template <bool kSorted, class T>
Status segment_extreme_backward(const Launch& launch, const SegmentShape& shape, const Order<T>& order,
                                const ExtremeOperands<T>& operands) {
    const auto gradient = [&](int64_t s, const SegmentRows& rows, ColumnRange columns) {
        extreme_gradient(shape, order, operands, s, rows, columns);
    };
    if constexpr (kSorted) {
        clear_where_ids_decrease(shape, operands);
        for_each_sorted_segment(shape, operands.ids, 2 * sizeof(T), gradient);
    } else {
        const bool has_workspace = workspace_holds(launch, segment_extreme_backward_workspace<kSorted, T>(shape));
        if (!has_workspace) {
            extreme_by_tiles(shape, order, operands);
            return Status::kOk;
        }
        for_each_grouped_segment(launch, shape, operands.ids, sizeof(T), gradient);
    }
    clear_unassigned_rows(shape, operands);
    return Status::kOk;
}

}  // namespace bk
