// Row sums on the CPU: many rows of a matrix added into few, by id.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/dtype.h"
#include "core/launch.h"

namespace bk {

struct ColumnRange {
    int64_t first, last;
};

// y[c] = start[c] + sum over k < count of scale * row(k)[c] for the columns of the range, rounded once; `start` may be
// NULL. Blocks of terms are summed on their own, so the error grows with count / 64 + 64 rather than with count.
template <class T, class RowAt>
BK_HD void sum_rows(T* y, const T* start, ColumnRange columns, int64_t count, const RowAt& row) {
    using C = compute_t<T>;
    constexpr int64_t kColumns = 256, kTerms = 64;
    C total[kColumns], sum[kColumns];
    for (int64_t c = columns.first; c < columns.last; c += kColumns) {
        const int64_t width = std::min(kColumns, columns.last - c);
        for (int64_t i = 0; i < width; ++i) total[i] = start == nullptr ? C(0) : widen(start[c + i]);
        for (int64_t k = 0; k < count; k += kTerms) {
            const int64_t end = std::min(k + kTerms, count);
            const T* const head = row(k) + c;
            for (int64_t i = 0; i < width; ++i) sum[i] = widen(head[i]);
            for (int64_t j = k + 1; j < end; ++j) {
                const T* const x = row(j) + c;
                for (int64_t i = 0; i < width; ++i) sum[i] += widen(x[i]);
            }
            for (int64_t i = 0; i < width; ++i) total[i] += sum[i];
        }
        for (int64_t i = 0; i < width; ++i) y[c + i] = narrow<T>(total[i]);
    }
}

// Rows x columns in parts that one thread each may write: slices of at least two cache lines of columns, and residue
// classes of rows, so that one hot row does not stop the others.
struct MatrixParts {
    int64_t column_slices, row_classes, columns;

    MatrixParts(int64_t column_count, size_t element_bytes) : columns(column_count) {
        const int64_t threads = thread_count();
        const int64_t lines = static_cast<int64_t>(element_bytes) * column_count / 128;
        column_slices = std::max<int64_t>(1, std::min(threads, lines));
        row_classes = ceil_div(threads, column_slices);
    }
    int64_t count() const { return column_slices * row_classes; }
    int64_t row_class(int64_t part) const { return part / column_slices; }
    ColumnRange column_range(int64_t part) const {
        const int64_t slice = part % column_slices;
        return {columns * slice / column_slices, columns * (slice + 1) / column_slices};
    }
};

// Positions 0 <= k < n grouped by key in [0, keys), in order within a group; keys outside are left out.
struct Grouping {
    int32_t* order;  // [n]
    int64_t* start;  // [keys + 1]
};

template <class KeyAt>
void group_by_key(const Grouping& grouping, int64_t n, int64_t keys, const KeyAt& key) {
    int64_t* const start = grouping.start;
    memset(start, 0, sizeof(int64_t) * static_cast<size_t>(keys + 1));
    for (int64_t k = 0; k < n; ++k)
        if (const int64_t at = key(k); at >= 0 && at < keys) ++start[at];
    int64_t total = 0;
    for (int64_t i = 0; i <= keys; ++i) {
        const int64_t here = start[i];
        start[i] = total;
        total += here;
    }
    for (int64_t k = 0; k < n; ++k)
        if (const int64_t at = key(k); at >= 0 && at < keys) grouping.order[start[at]++] = static_cast<int32_t>(k);
    // Each start has moved to its group's end, which is the next one's start.
    for (int64_t i = keys; i > 0; --i) start[i] = start[i - 1];
    start[0] = 0;
}

}  // namespace bk
