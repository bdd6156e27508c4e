// SPDX-License-Identifier: Apache-2.0
// CPU helpers for segmented row sums: rows of a matrix added into output rows by id.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/types/dtype.h"

namespace bk {

struct ColumnRange {
    int64_t first, last;
};

// Calls body(c, most, width) for blocks of columns [c, c + width), width <= most. Both are constants except in the last
// block, so that `most` accumulators stay in registers: 128 of f32 take 8 AVX-512 registers.
template <class Body>
BK_HD void for_column_blocks(ColumnRange columns, const Body& body) {
    using std::integral_constant;
    int64_t c = columns.first;
    for (; columns.last - c >= 128; c += 128) body(c, integral_constant<int64_t, 128>{}, int64_t{128});
    if (columns.last - c >= 64) body(c, integral_constant<int64_t, 64>{}, int64_t{64}), c += 64;
    for (; columns.last - c >= 16; c += 16) body(c, integral_constant<int64_t, 16>{}, int64_t{16});
    if (columns.last > c) body(c, integral_constant<int64_t, 16>{}, columns.last - c);
}

// Prefetch distance for scattered rows: 16 was half as fast as 32, and 64 no faster.
constexpr int64_t kRowsAhead = 32;

template <class T>
BK_HD void prefetch_row(const T* x, int64_t width) {
    for (int64_t i = 0; i < width; i += 64 / static_cast<int64_t>(sizeof(T))) __builtin_prefetch(x + i);
}

// y[i] += summand(i) for i < width <= kMost. Sums go to a local array first: no store to y can alias what summand() reads.
template <int64_t kMost, class T, class Summand>
BK_HD void add_to_row(T* y, int64_t width, const Summand& summand) {
    compute_t<T> sum[kMost];
    for (int64_t i = 0; i < width; ++i) sum[i] = widen(y[i]) + summand(i);
    for (int64_t i = 0; i < width; ++i) y[i] = narrow<T>(sum[i]);
}

// Partition of a matrix into tiles with one writer each: column slices of at least 128 bytes times residue classes of
// rows, so that one hot row does not serialise the others.
struct MatrixTiles {
    int64_t column_slices, row_classes, columns;

    MatrixTiles(int64_t column_count, size_t element_bytes) : columns(column_count) {
        const int64_t threads = thread_count();
        const int64_t max_slices = static_cast<int64_t>(element_bytes) * column_count / 128;
        column_slices = std::max<int64_t>(1, std::min(threads, max_slices));
        row_classes = ceil_div(threads, column_slices);
    }
    int64_t count() const { return column_slices * row_classes; }
    bool owns(int64_t tile, int64_t row) const { return row_classes == 1 || row % row_classes == tile / column_slices; }
    int64_t row_class(int64_t tile) const { return tile / column_slices; }
    ColumnRange column_range(int64_t tile) const {
        const int64_t slice = tile % column_slices;
        return {columns * slice / column_slices, columns * (slice + 1) / column_slices};
    }
};

// Counting sort result: values of k in [0, n) by key, in order within a key; keys outside [0, keys) are dropped.
struct Grouping {
    int32_t* values;  // [n]
    int64_t* start;   // [keys + 1]
};

// Returns the size of the largest group.
template <class KeyAt, class ValueAt>
int64_t group_by_key(const Grouping& grouping, int64_t n, int64_t keys, const KeyAt& key, const ValueAt& value) {
    int64_t* const start = grouping.start;
    memset(start, 0, sizeof(int64_t) * static_cast<size_t>(keys + 1));
    for (int64_t k = 0; k < n; ++k)
        if (const int64_t at = key(k); at >= 0 && at < keys) ++start[at];
    int64_t total = 0, largest = 0;
    for (int64_t i = 0; i <= keys; ++i) {
        const int64_t here = start[i];
        largest = std::max(largest, here);
        start[i] = total;
        total += here;
    }
    for (int64_t k = 0; k < n; ++k)
        if (const int64_t at = key(k); at >= 0 && at < keys) grouping.values[start[at]++] = static_cast<int32_t>(value(k));
    // Each start has advanced to the end of its group, which is the start of the next.
    for (int64_t i = keys; i > 0; --i) start[i] = start[i - 1];
    start[0] = 0;
    return largest;
}

// body(key, columns) for every group, in tasks of equal items plus groups; a dominant group also slices the columns.
template <class Body>
void for_each_group(const Grouping& grouping, int64_t keys, int64_t largest, int64_t columns, size_t element_bytes,
                    const Body& body) {
    const int64_t* const start = grouping.start;
    const int64_t total = start[keys], threads = thread_count(), tasks = 8 * threads;
    const MatrixTiles matrix_tiles(columns, element_bytes);
    const int64_t slices = largest > total / threads ? matrix_tiles.column_slices : 1;
    const auto first_key = [=](int64_t task) {
        const int64_t items = (total + keys) * task / tasks;
        int64_t low = 0, high = keys;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (start[middle] + middle < items)
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    };
    parallel_chunks(tasks * slices, 1, [&](int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end; ++at) {
            const ColumnRange range = slices == 1 ? ColumnRange{0, columns} : matrix_tiles.column_range(at % slices);
            const int64_t last = first_key(at / slices + 1);
            for (int64_t key = first_key(at / slices); key < last; ++key) body(key, range);
        }
    });
}

}  // namespace bk
